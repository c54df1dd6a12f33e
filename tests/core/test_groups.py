"""Groups of clusters: laws that hold for any clusters, and the shapes that groups are for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_monotonic, is_valid_linkage
from scipy.special import logsumexp
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from scstream import ScStream
from scstream.core.groups import Groups, Hierarchy, build_hierarchy, group_events
from scstream.core.state import Event
from scstream.datasets import drifting_gaussians
from scstream.errors import InputError
from scstream.families import Diagonal, Gaussian
from scstream.model import Model, Settings

RESOLUTIONS = (1000.0, 5.0, 2.0, 1.0, 0.5, 0.1, 0.0)


def learned(rows: np.ndarray, size: int, **parameters: object) -> Model:
    """Return the model that has learned these rows in batches."""
    model = Settings.of({"random_state": 0, **parameters}).update(rows[:size]).model
    for start in range(size, len(rows), size):
        model = model.update(rows[start : start + size]).model
    return model


@pytest.fixture(scope="module")
def moons() -> tuple[Model, np.ndarray, np.ndarray]:
    rows, truth = make_moons(5500, noise=0.06, random_state=0)
    return learned(rows[:5000], 500), rows[5000:], truth[5000:]


@pytest.fixture(scope="module")
def skewed() -> tuple[Model, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=4500)
    rows = rng.uniform(-15, 15, (4, 3))[truth] + np.exp(0.8 * rng.standard_normal((4500, 3)))
    return learned(rows[:4000], 500), rows[4000:], truth[4000:]


def random_clusters(seed: int, n: int = 40) -> tuple[Gaussian, np.ndarray]:
    rng = np.random.default_rng(seed)
    family = Gaussian(mean=np.zeros(2), kappa=0.01, nu=6.0, psi=np.eye(2))
    centre, scale = rng.uniform(-15, 15, (n, 2)), rng.uniform(0.3, 1.5, (n, 1, 1))
    rows = centre[:, None] + scale * rng.standard_normal((n, 60, 2))
    label = np.repeat(np.arange(n), 60)
    return family, family.stats(rows.reshape(-1, 2), label, n, rng.uniform(0.2, 1, n)[label])


def narrow_clusters(seed: int, n: int = 40) -> tuple[Gaussian, np.ndarray]:
    """Clusters of fewer rows than features, in pairs that are close together."""
    rng = np.random.default_rng(seed)
    centre = rng.standard_normal((n // 2, 50)).repeat(2, axis=0)
    centre += 0.2 * rng.standard_normal((n, 50))
    rows = (centre[:, None] + 0.3 * rng.standard_normal((n, 30, 50))).reshape(-1, 50)
    family = Diagonal.weak_prior(rows)
    return family, family.stats(rows, np.repeat(np.arange(n), 30), n)


def partition(groups: Groups) -> set[frozenset[int]]:
    return {frozenset(groups.members(g).tolist()) for g in groups.id}


def test_curved_clusters_are_one_group_each(
    moons: tuple[Model, np.ndarray, np.ndarray],
) -> None:
    model, rows, truth = moons
    assert model.state.n_clusters > 8
    assert len(model.groups()) == 2
    assert adjusted_rand_score(truth, model.at(level="group").labels(rows)) > 0.99


def test_skewed_clusters_are_one_group_each(
    skewed: tuple[Model, np.ndarray, np.ndarray],
) -> None:
    model, rows, truth = skewed
    assert adjusted_rand_score(truth, model.at().labels(rows)) < 0.8
    assert adjusted_rand_score(truth, model.at(level="group").labels(rows)) > 0.95


def test_overlapping_gaussians_stay_apart() -> None:
    """Two clusters three standard deviations apart are a pair, not pieces of a shape."""
    rng = np.random.default_rng(0)
    centre = np.array([[0.0, 0.0], [3.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    rows = centre[rng.integers(5, size=6000)] + rng.standard_normal((6000, 2))
    model = learned(rows, 1000)
    assert len(model.groups()) == model.state.n_clusters == 5


@pytest.fixture(params=[(kind, seed) for kind in (0, 1) for seed in range(3)])
def clusters(request: pytest.FixtureRequest) -> tuple[Gaussian | Diagonal, np.ndarray]:
    kind, seed = request.param
    return (random_clusters, narrow_clusters)[kind](seed)


def test_groups_do_not_depend_on_the_order_of_clusters(
    clusters: tuple[Gaussian | Diagonal, np.ndarray],
) -> None:
    family, stats = clusters
    order = np.random.default_rng(0).permutation(len(stats))
    for resolution in RESOLUTIONS:
        groups = build_hierarchy(family, np.arange(len(stats)), stats).cut(resolution)
        shuffled = build_hierarchy(family, np.arange(len(stats)), stats[order]).cut(resolution)
        back = {frozenset(order[list(part)].tolist()) for part in partition(shuffled)}
        assert back == partition(groups)


def test_coarser_groups_are_unions_of_finer_ones(
    clusters: tuple[Gaussian | Diagonal, np.ndarray],
) -> None:
    family, stats = clusters
    tree = build_hierarchy(family, np.arange(len(stats)), stats)
    for fine, coarse in pairwise(RESOLUTIONS):
        outer = tree.cut(coarse).group
        assert all(len(set(outer[list(part)])) == 1 for part in partition(tree.cut(fine)))
    assert len(tree.cut(0.0)) == 1
    assert len(tree.cut(1000.0)) > len(tree.cut(1.0)) > 1


def test_hierarchy_is_a_linkage_table(clusters: tuple[Gaussian | Diagonal, np.ndarray]) -> None:
    family, stats = clusters
    tree = build_hierarchy(family, np.arange(len(stats)), stats)
    assert is_valid_linkage(tree.linkage)
    assert is_monotonic(tree.linkage)
    assert tree.linkage[-1, 3] == len(stats)


def test_light_clusters_of_many_features_stay_apart() -> None:
    """Halves of a cluster are joined if they have 30 rows, and not if they have 6."""
    family, stats = narrow_clusters(0)
    for weight, expected in ((30, 20), (6, 40)):
        scaled = stats * (weight / 30)
        assert len(build_hierarchy(family, np.arange(40), scaled).cut()) == expected


def test_a_group_has_the_id_of_its_oldest_cluster(
    moons: tuple[Model, np.ndarray, np.ndarray],
) -> None:
    groups = moons[0].groups()
    assert all(groups.members(g).min() == g for g in groups.id)
    assert sorted(np.concatenate([groups.members(g) for g in groups.id])) == list(groups.cluster)


def test_probabilities_of_groups_are_sums(skewed: tuple[Model, np.ndarray, np.ndarray]) -> None:
    model, rows, _ = skewed
    groups, clusters = model.groups(), model.at().probabilities(rows)
    expected = np.column_stack(
        [clusters[:, :-1][:, groups.group == g].sum(axis=1) for g in groups.id] + [clusters[:, -1]]
    )
    level = model.at(level="group")
    np.testing.assert_allclose(level.probabilities(rows), expected, atol=1e-12)
    best = np.append(groups.id, -1)[expected.argmax(axis=1)]
    np.testing.assert_array_equal(level.labels(rows), best)
    prediction = level.predict(rows)
    np.testing.assert_array_equal(prediction.label, best)
    np.testing.assert_allclose(prediction.probability, expected.max(axis=1), atol=1e-12)
    np.testing.assert_allclose(prediction.log_density, model.at().log_density(rows))


def test_groups_learn_nothing(moons: tuple[Model, np.ndarray, np.ndarray]) -> None:
    model, rows, _ = moons
    content = model.to_bytes()
    model.groups()
    model.at(level="group", resolution=0.3).labels(rows)
    assert model.to_bytes() == content
    again = Model.from_bytes(content)
    np.testing.assert_array_equal(again.groups().group, model.groups().group)
    assert model.update(rows).model.to_bytes() == again.update(rows).model.to_bytes()


def test_groups_of_a_stationary_stream_keep_their_ids() -> None:
    rows, _ = make_moons(10_000, noise=0.06, random_state=1)
    model, seen = Settings(random_state=0).update(rows[:500]).model, []
    for start in range(500, 10_000, 500):
        model = model.update(rows[start : start + 500]).model
        seen.append(tuple(model.groups().id.tolist()))
    assert len(set(seen[5:])) == 1


def test_hierarchy_of_few_clusters() -> None:
    model = Settings(random_state=0).update(np.array([[0.1], [0.2], [0.3]])).model
    assert model.hierarchy.linkage.shape == (0, 4)
    assert model.groups(0.0).members(0).tolist() == [0]
    empty = build_hierarchy(model.family, np.zeros(0, np.int64), np.zeros((0, 3)))
    assert len(empty.cut()) == 0


@pytest.mark.parametrize("family", ["multinomial", "poisson", "bernoulli"])
def test_families_without_closed_overlap(family: str) -> None:
    rng = np.random.default_rng(0)
    rate = rng.gamma(0.3, size=(6, 30))
    truth = rng.integers(6, size=3000)
    rows = rng.poisson(20 * rate[truth] / rate.sum(axis=1)[truth, None]).astype(float)
    if family == "bernoulli":
        rows = (rows > 0).astype(float)
    model = learned(rows, 1000, family=family)
    assert len(model.groups()) == model.state.n_clusters
    assert len(model.groups(0.0)) == 1
    assert is_valid_linkage(model.hierarchy.linkage)


@pytest.mark.parametrize("kind", [Gaussian, Diagonal])
def test_overlap_is_the_bhattacharyya_coefficient(kind: type[Gaussian | Diagonal]) -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(0, 1, (5000, 1)), rng.normal(1.5, 2, (5000, 1))])
    family = kind.weak_prior(rows)
    stats = family.stats(rows, np.repeat([0, 1], 5000), 2)
    grid = np.linspace(-15, 20, 20_001)[:, None]
    density = family.log_predictive(family.predictive_params(stats), grid)
    step = float(np.diff(grid[:2, 0])[0])
    integral = logsumexp(0.5 * density.sum(axis=1)) + np.log(step)
    found = family.log_overlap(stats, np.array([0, 0]), np.array([1, 0]))
    np.testing.assert_allclose(found, [integral, 0.0], atol=1e-3)


def test_events_of_groups() -> None:
    def groups(**member: list[int]) -> Groups:
        pairs = sorted((k, int(g[1:])) for g, ks in member.items() for k in ks)
        return Groups(*np.array(pairs).T, np.ones(len(pairs)))

    def events(before: Groups, after: Groups, *changes: Event) -> list[tuple[object, ...]]:
        found = group_events(before, after, changes, 7.0)
        return [(e.kind, e.id, e.other, e.time) for e in found]

    before = groups(g0=[0, 1], g2=[2, 3], g4=[4])
    assert events(before, before) == []
    joined = groups(g0=[0, 1, 2, 3], g4=[4])
    assert events(before, joined) == [("merged", 0, 2, 7.0)]
    assert events(joined, before) == [("split", 0, 2, 7.0)]
    assert events(before, groups(g0=[0, 1], g2=[2, 3], g5=[5])) == [
        ("born", 5, None, 7.0),
        ("died", 4, None, 7.0),
    ]
    # The id stays with the oldest cluster, also if the other part is heavier.
    assert events(groups(g0=[0, 1, 2]), groups(g0=[0], g1=[1, 2])) == [("split", 0, 1, 7.0)]
    # Cluster 2 was absorbed by cluster 3, which gives its group a new id.
    absorbed = Event("merged", 7.0, 3, 9.0, 2)
    assert events(before, groups(g0=[0, 1], g3=[3], g4=[4]), absorbed) == [("merged", 3, 2, 7.0)]


def test_estimator() -> None:
    model = ScStream(random_state=0)
    for batch in drifting_gaussians(n_clusters=5, n_batches=4, random_state=3):
        model.partial_fit(batch.X)
    groups = model.groups_at(0.0)
    assert set(model.predict(batch.X, level="group", resolution=0.0)) == set(groups.id)
    assert model.predict_proba(batch.X, level="group", resolution=0.0).shape[1] == 2
    assert len(model.hierarchy_) == model.n_clusters_ - 1
    assert repr(groups).startswith("1 groups of 5 clusters (0: 0, 1")
    with pytest.raises(InputError, match="level must be"):
        model.predict(batch.X, level="topic")
    with pytest.raises(InputError, match="resolution must be"):
        model.groups_at(-1.0)


def test_cut_joins_up_to_the_height() -> None:
    table = np.array([[0.0, 1.0, 0.5, 2.0], [2.0, 3.0, 4.0, 3.0]])
    tree = Hierarchy(np.array([3, 5, 8]), np.ones(3), table)
    assert [len(tree.cut(r)) for r in (4.0, 2.0, 0.5, 0.25, 0.0)] == [3, 2, 2, 1, 1]
