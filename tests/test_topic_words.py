"""Names, merges, groups and words of quiet topics in a real BERTopic."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from scstream import ScStream
from scstream.bertopic import ScStreamTopics, TopicWords, group_info, sync_topics
from scstream.errors import InputError
from tests.test_bertopic import TOPICS, topic_model

pytest.importorskip("bertopic", reason="see tests/test_bertopic.py")

WORDS = {topic: words.split() for topic, words in TOPICS.items()}


def documents(*topics: str, seed: int = 0, n: int = 40) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS[topic], k=6)) for topic in topics for _ in range(n)]


def learned(n_batches: int = 2, **parameters: Any) -> Any:
    """Learn batches about all topics; then half of them are quiet for ever."""
    model = topic_model(ScStreamTopics(random_state=0, half_life=None, **parameters))
    model.vectorizer_model = TopicWords()
    for number in range(n_batches):
        model.partial_fit(documents(*TOPICS, seed=number))
    return model


@pytest.fixture
def model() -> Any:
    return learned()


def topic(model: Any, name: str) -> int:
    (found,), _ = model.transform(documents(name, seed=9, n=1))
    return int(found)


def cluster(model: Any, name: str) -> int:
    mappings = model.topic_mapper_.get_mappings()
    return next(int(id_) for id_, number in mappings.items() if number == topic(model, name))


def words_of(model: Any, number: int) -> set[str]:
    return {word for word, _ in model.get_topic(number)}


def custom_names(model: Any) -> dict[int, str]:
    info = sync_topics(model).get_topic_info()
    return dict(zip(info.Topic, info.CustomName, strict=True))


def test_names_of_clusters_are_labels_of_topics(model: Any) -> None:
    assert sync_topics(model).custom_labels_ is None
    model.hdbscan_model.name(cluster(model, "money"), "prices")
    found = custom_names(model)
    assert found.pop(topic(model, "money")) == "prices"
    assert all(found[number] == model.topic_labels_[number] for number in found)


def test_a_name_stays_when_topics_appear_later() -> None:
    model = topic_model(ScStreamTopics(random_state=0))
    model.vectorizer_model = TopicWords()
    model.partial_fit(documents("weather", "money"))
    model.hdbscan_model.name(cluster(model, "weather"), "sky")
    sync_topics(model)
    for seed in (1, 2):
        model.partial_fit(documents("weather", "money", "space", seed=seed))
    found = custom_names(model)
    assert found[topic(model, "weather")] == "sky"
    assert len(found) == 4 and topic(model, "space") in found


def test_merged_topics_share_documents_and_words(model: Any) -> None:
    a, b = topic(model, "weather"), topic(model, "space")
    sizes = dict(model.topic_sizes_)
    counts = [dict(row) for row in model.vectorizer_model.counts_]
    model.hdbscan_model.merge(cluster(model, "weather"), cluster(model, "space"))
    found = custom_names(model)
    assert found[b] == f"merged into {a}"
    assert model.topic_sizes_[a] == sizes[a] + sizes[b] and model.topic_sizes_[b] == 0
    assert sum(model.topic_sizes_.values()) == sum(sizes.values())
    matrix, column = model.vectorizer_model._bow().toarray(), model.vectorizer_model.vocabulary_
    row = sorted(sizes).index
    for word, count in (counts[row(a)] | counts[row(b)]).items():
        assert matrix[row(a), column[word]] == pytest.approx(count)
    assert words_of(model, a) & {*WORDS["space"]}
    assert words_of(model, a) <= {*WORDS["weather"], *WORDS["space"]}
    assert words_of(model, b) <= {*WORDS["space"]}, "the old number keeps its words"
    assert set(model.topics_) - {-1} == set(sizes) - {-1, b}


def test_a_merge_holds_in_later_batches(model: Any) -> None:
    a, b = topic(model, "weather"), topic(model, "space")
    model.hdbscan_model.merge(cluster(model, "weather"), cluster(model, "space"))
    sync_topics(model)
    size = model.topic_sizes_[a]
    model.partial_fit(documents("weather", "space", "money", seed=7))
    assert sync_topics(model).topic_sizes_[a] == size + 80
    assert b not in model.topics_ and model.topic_sizes_[b] == 0
    assert max(model.topic_sizes_) == 3, "no number is used twice and none is new"


def test_undo_separates_topics(model: Any) -> None:
    sizes, words = dict(model.topic_sizes_), dict(sync_topics(model).topic_representations_)
    topics = list(model.topics_)
    model.hdbscan_model.merge(cluster(model, "weather"), cluster(model, "space"))
    assert sync_topics(model).topic_sizes_ != sizes
    model.hdbscan_model.undo()
    sync_topics(model)
    assert (model.topic_sizes_, model.topics_, model.custom_labels_) == (sizes, topics, None)
    assert {number: words_of(model, number) for number in words} == {
        number: {word for word, _ in found} for number, found in words.items()
    }


def test_merges_are_followed_to_the_last_cluster(model: Any) -> None:
    ids = {name: cluster(model, name) for name in TOPICS}
    numbers = {name: topic(model, name) for name in TOPICS}
    model.hdbscan_model.merge(ids["money"], ids["space"]).merge(ids["weather"], ids["money"])
    total = sum(model.topic_sizes_[numbers[name]] for name in ("money", "space", "weather"))
    found = custom_names(model)
    into = f"merged into {numbers['weather']}"
    assert found[numbers["money"]] == found[numbers["space"]] == into
    assert model.topic_sizes_[numbers["weather"]] == total


def test_syncing_twice_is_syncing_once(model: Any) -> None:
    model.hdbscan_model.merge(cluster(model, "weather"), cluster(model, "space"))
    sync_topics(model)
    before = (
        dict(model.topic_sizes_),
        list(model.custom_labels_),
        dict(model.topic_representations_),
    )
    sync_topics(model)
    after = dict(model.topic_sizes_), list(model.custom_labels_), dict(model.topic_representations_)
    assert before == after


def words_after_silence(vectorizer: Any) -> tuple[list[set[str]], list[set[str]]]:
    """Return the words of two topics before and after thirty batches without documents of them."""
    model = topic_model(ScStreamTopics(random_state=0, half_life=None))
    model.vectorizer_model = vectorizer
    model.partial_fit(documents(*TOPICS))
    quiet = [topic(model, name) for name in ("money", "space")]
    before = [words_of(model, number) for number in quiet]
    for seed in range(30):
        model.partial_fit(documents("weather", "football", seed=seed, n=8))
    return before, [words_of(model, number) for number in quiet]


def test_words_of_quiet_topics_stay() -> None:
    words = TopicWords(decay=0.2, max_words=20)
    before, after = words_after_silence(words)
    assert before == after
    assert before[0] <= {*WORDS["money"]} and before[1] <= {*WORDS["space"]}
    assert max(map(len, words.counts_)) <= 20


def test_why_there_is_a_class_for_words() -> None:
    """With a bounded vocabulary, BERTopic's own forgets them; if it keeps them, drop the class."""
    from bertopic.vectorizers import OnlineCountVectorizer

    words = OnlineCountVectorizer(decay=0.2, delete_min_df=0.5)
    before, after = words_after_silence(words)
    assert all(before) and after == [{""}, {""}]
    assert words.X_.sum(axis=1).max() == pytest.approx(1.0), "counts are normalised in place"


def test_active_topics_forget_words() -> None:
    words = TopicWords(decay=0.5)
    words.update_bow(["old " * 100, "other"])
    for _ in range(10):
        words.update_bow(["new", " "])
    assert words.counts_[0]["old"] == pytest.approx(100 / 2**10)
    assert words.counts_[1] == {"other": 1.0}


def test_counts_are_not_changed_by_the_weights_of_bertopic(model: Any) -> None:
    """BERTopic normalises the matrix that it is given, in place."""
    total = sum(sum(row.values()) for row in model.vectorizer_model.counts_)
    assert total == pytest.approx(6 * 160 * (1 + 0.95), rel=0.01)


def test_memory_of_words_is_bounded() -> None:
    words = TopicWords(max_words=10)
    for number in range(50):
        words.update_bow([" ".join(f"word{number}x{i}" for i in range(30)), "quiet words"])
    assert [len(row) for row in words.counts_] == [10, 2]
    assert len(words.vocabulary_) == 12


def test_groups_of_topics(model: Any) -> None:
    clusterer = model.hdbscan_model
    a, b = cluster(model, "weather"), cluster(model, "space")
    before = group_info(model)
    clusterer.merge(a, b, level="group").name(min(a, b), "outside", level="group")
    info = group_info(model).set_index("Name")
    assert len(info) == len(before) - 1
    row = info.loc["outside"]
    assert sorted(row.Topics) == sorted([topic(model, "weather"), topic(model, "space")])
    assert row.Count == sum(model.topic_sizes_[number] for number in row.Topics)
    assert {*row.Representation} <= {*WORDS["weather"], *WORDS["space"]}
    assert clusterer.n_clusters_ == 4, "clusters stay as they are"
    assert len(group_info(model, resolution=0)) <= len(info)


def test_a_gap_in_the_numbers_is_filled() -> None:
    """A cluster of the first batch may have no document in it; BERTopic counts labels."""
    model = topic_model(ScStreamTopics(random_state=0))
    model.vectorizer_model = TopicWords()
    texts = documents("weather", "football", "money")
    clusterer = model.hdbscan_model
    learn = clusterer.partial_fit

    def without_one(X: Any, y: Any = None) -> Any:
        learn(X, y)
        clusterer.labels_[clusterer.labels_ == 1] = 0
        return clusterer

    clusterer.partial_fit = without_one
    model.partial_fit(texts)
    del clusterer.partial_fit
    clusterer.name(2, "third")
    found = custom_names(model)
    assert list(found) == [-1, 0, 1, 2] and found[2] == "third"
    model.partial_fit(documents("weather", "football", "money", seed=1))
    assert model.topic_mapper_.get_mappings() == {-1: -1, 0: 0, 1: 1, 2: 2}
    assert custom_names(model)[2] == "third"
    assert sum(model.topic_sizes_.values()) == 240


def test_all_of_it_is_saved_and_loaded(model: Any, tmp_path: Path) -> None:
    from bertopic import BERTopic

    clusterer = model.hdbscan_model
    clusterer.name(cluster(model, "money"), "prices")
    clusterer.merge(cluster(model, "weather"), cluster(model, "space"))
    sync_topics(model).save(tmp_path / "m", serialization="pickle", save_embedding_model=False)
    again = BERTopic.load(tmp_path / "m", embedding_model=model.embedding_model)
    for each in (model, again):
        each.partial_fit(documents(*TOPICS, seed=5), embeddings=vectors(model, seed=5))
    assert custom_names(again) == custom_names(model)
    assert again.topic_sizes_ == model.topic_sizes_
    assert again.topic_representations_ == model.topic_representations_


def vectors(model: Any, seed: int) -> Any:
    return np.asarray(model.embedding_model.embed(documents(*TOPICS, seed=seed)))


@pytest.mark.parametrize(
    "change",
    [{"hdbscan_model": ScStream()}, {"vectorizer_model": object()}],
    ids=["hdbscan_model", "vectorizer_model"],
)
def test_other_parts_are_refused(model: Any, change: dict[str, Any]) -> None:
    for name, value in change.items():
        setattr(model, name, value)
    with pytest.raises(InputError, match="hdbscan_model=ScStreamTopics"):
        sync_topics(model)


def test_errors_say_what_to_do() -> None:
    model = topic_model(ScStreamTopics())
    model.vectorizer_model = TopicWords()
    with pytest.raises(InputError, match="partial_fit first"):
        sync_topics(model)
    with pytest.raises(InputError, match="decay must be"):
        TopicWords(decay=1.5).update_bow(["a text"])


def test_parameters_are_cloned() -> None:
    words = clone(TopicWords(decay=0.1, stop_words=["the"], ngram_range=(1, 2)))
    assert (words.decay, words.stop_words, words.ngram_range) == (0.1, ["the"], (1, 2))
