"""ScStream as the clusterer of BERTopic, against BERTopic itself, with embeddings made here."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.random_projection import GaussianRandomProjection

from scstream import ScStream
from scstream.bertopic import ScStreamTopics
from scstream.metrics import adjusted_rand
from tests.digests import digest

WITHOUT_TORCH = "install it with: pip install --no-deps bertopic; pip install hdbscan tqdm pyyaml"
pytest.importorskip("bertopic", reason=f"BERTopic is not installed; {WITHOUT_TORCH}")
pytest.importorskip("hdbscan", reason=f"BERTopic cannot transform without it; {WITHOUT_TORCH}")

from bertopic import BERTopic  # noqa: E402
from bertopic.dimensionality import BaseDimensionalityReduction  # noqa: E402
from bertopic.vectorizers import OnlineCountVectorizer  # noqa: E402

TOPICS = {
    "weather": "rain wind storm sun cloud frost snow flood heat drought forecast",
    "football": "goal match player team score cup league coach transfer penalty",
    "money": "bank rate market share bond price inflation loan profit trade",
    "space": "rocket orbit launch moon crew probe lander satellite telescope",
}
N_BATCHES, ODD_FROM, SPACE_FROM = 6, 2, 3


def texts(n: int, number: int, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield texts and their topics: from some batch on a few about nothing, later a new topic."""
    known = list(TOPICS)[: 3 if number < SPACE_FROM else 4]
    for _ in range(n):
        topic = rng.choice(known)
        yield " ".join(rng.choices(TOPICS[topic].split(), k=6)), topic
    for _ in range(3 if number >= ODD_FROM else 0):
        yield " ".join("".join(rng.choices("abcdefghij", k=7)) for _ in range(6)), "odd"


def stream() -> list[tuple[list[str], list[str]]]:
    rng = random.Random(0)
    batches = [list(texts(150, number, rng)) for number in range(N_BATCHES)]
    return [([text for text, _ in each], [topic for _, topic in each]) for each in batches]


def embedding() -> Pipeline:
    """Give every word a fixed direction: nothing is downloaded, nothing moves."""
    directions = GaussianRandomProjection(16, random_state=0)
    return make_pipeline(HashingVectorizer(n_features=512), directions).fit(["any text"])


def topic_model(clusterer: ScStream) -> BERTopic:
    return BERTopic(
        embedding_model=embedding(),
        umap_model=BaseDimensionalityReduction(),
        hdbscan_model=clusterer,
        vectorizer_model=OnlineCountVectorizer(),
        top_n_words=5,
    )


@dataclass
class Course:
    """What a BERTopic said after each batch."""

    model: BERTopic
    topics: list[list[int]] = field(default_factory=list)
    mappings: list[dict[int, int]] = field(default_factory=list)


def learned(clusterer: ScStream) -> Course:
    course = Course(topic_model(clusterer))
    for documents, _ in stream():
        course.model.partial_fit(documents)
        course.topics.append(list(course.model.topics_))
        course.mappings.append(dict(course.model.topic_mapper_.get_mappings()))
    return course


@pytest.fixture(scope="module")
def course() -> Course:
    return learned(ScStreamTopics(random_state=0))


def test_topics_appear_over_time(course: Course) -> None:
    seen = [set(topics) - {-1} for topics in course.topics]
    assert seen[:SPACE_FROM] == [{0, 1, 2}] * SPACE_FROM
    assert seen[SPACE_FROM:] == [{0, 1, 2, 3}] * (N_BATCHES - SPACE_FROM)
    assert sum(course.model.topic_sizes_.values()) == sum(len(truth) for _, truth in stream())


def test_numbers_of_topics_stay(course: Course) -> None:
    for before, after in zip(course.mappings, course.mappings[1:], strict=False):
        assert before.items() <= after.items()
    name = dict(zip(stream()[-1][1], course.topics[-1], strict=True))
    pairs = [
        (name[topic], found)
        for (_, truth), topics in zip(stream(), course.topics, strict=True)
        for topic, found in zip(truth, topics, strict=True)
    ]
    assert np.mean([wanted == found for wanted, found in pairs]) > 0.99


def test_topics_are_clusters(course: Course) -> None:
    clusterer = course.model.hdbscan_model
    assert [course.mappings[-1][i] for i in clusterer.labels_] == course.topics[-1]
    assert set(clusterer.clusters_.id) <= set(course.mappings[-1])


def test_what_fits_nothing_stays_an_outlier(course: Course) -> None:
    assert course.mappings[0][-1] == course.mappings[-1][-1] == -1
    for (_, truth), topics in list(zip(stream(), course.topics, strict=True))[1:]:
        outliers = [topic for topic, found in zip(truth, topics, strict=True) if found == -1]
        assert outliers == [topic for topic in truth if topic == "odd"]


def test_topics_have_their_words(course: Course) -> None:
    name = dict(zip(stream()[-1][1], course.topics[-1], strict=True))
    for topic, words in TOPICS.items():
        assert {word for word, _ in course.model.get_topic(name[topic])} <= set(words.split())


def test_new_texts_get_topics(course: Course) -> None:
    name = dict(zip(stream()[-1][1], course.topics[-1], strict=True))
    asked = ["rain storm flood wind", "moon lander orbit crew", "violin opera concert tonight"]
    before = digest(course.model.hdbscan_model.state_)
    topics, _ = course.model.transform(asked)
    assert topics == [name["weather"], name["space"], -1]
    assert digest(course.model.hdbscan_model.state_) == before


def test_saved_and_loaded_it_goes_on(course: Course, tmp_path: Path) -> None:
    course.model.save(tmp_path / "topics", serialization="pickle", save_embedding_model=False)
    again = BERTopic.load(tmp_path / "topics")
    documents = stream()[-1][0]
    again.partial_fit(documents, embeddings=embedding().transform(documents))
    assert again.topic_mapper_.get_mappings() == course.mappings[-1]
    assert list(again.topics_) == course.topics[-1]


def test_why_there_is_a_class_for_it() -> None:
    """BERTopic takes -1 for the name of a new topic; if it does so no more, drop the class."""
    plain = learned(ScStream(random_state=0))
    assert -1 not in plain.mappings[0]
    assert plain.mappings[-1][-1] == 3


def test_all_at_once() -> None:
    documents, truth = map(list, zip(*texts(150, SPACE_FROM, random.Random(0)), strict=True))
    model = topic_model(ScStream(random_state=0))
    model.vectorizer_model = CountVectorizer()
    topics, _ = model.fit_transform(documents)
    for found in (topics, model.transform(documents)[0]):
        assert adjusted_rand(np.unique(truth, return_inverse=True)[1], np.array(found)) > 0.97
    assert -1 in topics


# The class itself


def rows() -> Any:
    return embedding().transform(stream()[0][0])


def test_one_label_of_the_first_batch_differs() -> None:
    X = rows()
    plain, model = ScStream(random_state=0).fit(X), ScStreamTopics(random_state=0).partial_fit(X)
    different = np.flatnonzero(plain.labels_ != model.labels_)
    assert different.tolist() == [np.argmin(plain.score_samples(X))]
    assert model.labels_[different].tolist() == [-1]
    assert digest(model.state_) == digest(plain.state_)
    assert np.array_equal(model.partial_fit(X).labels_, plain.partial_fit(X).labels_)


def test_an_outlier_of_its_own_is_enough() -> None:
    X = np.vstack([rows(), np.full((1, 16), 50.0)])
    plain, model = (kind(random_state=0).partial_fit(X) for kind in (ScStream, ScStreamTopics))
    assert plain.labels_[-1] == -1
    assert np.array_equal(plain.labels_, model.labels_)


def test_it_is_a_model_like_any_other(tmp_path: Path) -> None:
    model = ScStreamTopics("diagonal", half_life=3.0, random_state=0).partial_fit(rows())
    model.save(tmp_path / "topics.scstream")
    for copy in (clone(model), ScStreamTopics.load(tmp_path / "topics.scstream")):
        assert type(copy) is ScStreamTopics
        assert copy.get_params() == model.get_params()
