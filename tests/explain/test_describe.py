"""Laws of `describe`: what distinguishes a cluster is what was drawn differently."""

import numpy as np
import pytest

from scstream import ScStream
from scstream.errors import InputError
from scstream.io.description import describe
from scstream.io.traits import traits
from tests.explain.drawn import FAMILIES, informative, learned
from tests.explain.test_tables import HOSTILE

NO_NAMES = "direction"  # the family whose columns say nothing unless they have names


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != NO_NAMES])
@pytest.mark.parametrize("level", ["cluster", "group"])
def test_the_first_feature_is_an_informative_one(family: str, level: str) -> None:
    for seed in (0, 1, 2):
        model, _ = learned(family, seed)
        described = model.describe(level=level)
        known = {f"x{d}" for d in informative(family, seed)}
        ids = model.clusters_.id if level == "cluster" else model.groups_.id
        assert sorted(each.id for each in described) == ids.tolist()
        if len(described) > 1:
            assert {each.traits[0].feature for each in described} <= known
        shares = [each.share for each in described]
        assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("family", ["gaussian", "diagonal", "subspace"])
def test_differences_are_those_of_the_rows(family: str) -> None:
    model, X = learned(family, 0)
    label = model.predict(X)
    for each in model.describe(n=3):
        own, others = X[label == each.id], X[label != each.id]
        for trait in each.traits:
            d = int(trait.feature[1:])
            spread = np.sqrt(0.5 * (own[:, d].var() + others[:, d].var()))
            shown = (own[:, d].mean() - others[:, d].mean()) / spread
            assert trait.difference == pytest.approx(shown, rel=0.25, abs=0.25)
            assert trait.value == pytest.approx(own[:, d].mean(), abs=0.5)


def test_words_are_ranked_by_lift_and_frequency() -> None:
    rng = np.random.default_rng(0)
    share = np.array([[0.4, 0.1, 0.5, 0.0], [0.1, 0.4, 0.499, 0.001]])
    X = np.concatenate([rng.multinomial(50, row, 500) for row in share]).astype(float)
    model = ScStream("multinomial", random_state=0).fit(X)
    assert model.n_clusters_ == 2
    first = {each.traits[0].feature: each.traits[0] for each in model.describe()}
    assert set(first) == {"x0", "x1"}
    for trait in first.values():
        assert trait.kind == "word"
        assert trait.lift == pytest.approx(4.0, rel=0.1)


def test_the_columns_of_embeddings_need_names_or_exemplars() -> None:
    model, _ = learned("direction", 0)
    assert "ScStream(exemplars=5)" in repr(model.describe())
    assert not any(each.traits for each in model.describe())
    stats, ids = model.state_.cluster_stats, model.state_.ids
    options = {"total": 1200.0, "features": model.model_.feature_names, "n": 2}
    shown = describe(
        model.family_, stats, ids, named_columns=False, exemplars={0: ["a", "b", "c"]}, **options
    )
    assert shown[0].exemplars == ("a", "b")
    assert "typical: a" in repr(shown)
    assert "exemplars=5" not in repr(shown)
    named = describe(model.family_, stats, ids, **options)
    known = {f"x{d}" for d in informative("direction", 0)}
    assert all({trait.feature for trait in each.traits} <= known for each in named)


def test_each_cluster_can_be_asked_for() -> None:
    model, _ = learned("gaussian", 0)
    described = model.describe(n=2)
    for each in described:
        assert described[each.id] is each
        assert each.id in described
        assert len(each.traits) <= 2
    with pytest.raises(InputError, match="there is no cluster 77; the ids are"):
        described[77]
    with pytest.raises(InputError, match="there is no group 77"):
        model.describe(level="group")[77]


def test_a_single_cluster_and_none() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    only = ScStream(random_state=0).fit(X).describe()
    assert len(only) == 1
    assert "only cluster" in repr(only)
    model, _ = learned("diagonal", 0)
    assert traits(model.family_, model.state_.cluster_stats[:0], ["a"] * 12, n=3) == []


@pytest.mark.needs_extra
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_hold_one_line_for_each_feature(library: str) -> None:
    pytest.importorskip(library)
    model, _ = learned("product", 0)
    described = model.describe(n=2)
    frame = getattr(described, f"to_{library}")()
    assert len(frame) == sum(len(each.traits) for each in described)
    assert set(frame["kind"]) <= {"number", "share", "level"}
    assert list(frame["rank"])[:2] == [0, 1]


def test_hostile_names_are_escaped() -> None:
    model, X = learned("gaussian", 0)
    hostile = [HOSTILE] * 12
    shown = describe(
        model.family_,
        model.state_.cluster_stats,
        model.state_.ids,
        total=1200.0,
        features=hostile,
        n=2,
        names={int(id): HOSTILE for id in model.state_.ids},
        exemplars={int(id): [HOSTILE] for id in model.state_.ids},
    )
    html = shown._repr_html_()
    assert "<img" not in html
    assert html.count("&lt;img") == 4 * model.n_clusters_
    assert "\nnext line" not in repr(shown)
    explanation = model.explain(X[:2])
    explanation = type(explanation)(**{**vars(explanation), "feature_names": tuple(hostile)})
    assert "<img" not in explanation._repr_html_()
    assert len(repr(explanation).splitlines()) == 3


def test_names_of_clusters_and_groups_are_shown() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2)) + np.repeat([[0.0], [20.0], [40.0]], 100, 0)
    model = ScStream(random_state=0).partial_fit(X)
    id = int(model.predict(X[:1])[0])
    model.name(id, "low")
    assert model.describe()[id].name == model.clusters_[id].name == "low"
    assert f"cluster {id} (low):" in repr(model.describe())
    assert f"{id} (low)" in repr(model.explain(X[:1]))
    group = int(model.predict(X[:1], level="group")[0])
    model.name(group, "few", level="group")
    assert model.describe(level="group")[group].name == "few"
    assert f"{group} (few)" in repr(model.explain(X[:1], level="group"))
    assert model.events_.to_dict()["name"][-1] == "few"
