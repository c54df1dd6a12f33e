"""Directions: the normaliser, the laws, draws of directions, what the prior learns, and streams."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from sklearn.base import clone

from scstream import ScStream
from scstream.errors import InputError
from scstream.families import Direction
from scstream.families.sphere import (
    concentration,
    effective_share,
    log_mgf,
    mean_cosine,
    sample_direction,
)
from scstream.metrics import adjusted_rand
from scstream.testing import check_family


def _unit(X):
    return X / np.sqrt(np.square(X).sum(axis=1, keepdims=True))


def _drawn(n, n_clusters, n_features, seed, resultant_square=0.2):
    """Rows of von Mises-Fisher clusters, and their labels."""
    rng = np.random.default_rng(seed)
    means = _unit(rng.standard_normal((n_clusters, n_features)))
    label = rng.integers(0, n_clusters, n)
    kappa = np.full(n, concentration(np.sqrt(resultant_square), n_features))
    return sample_direction(means[label], kappa, rng.standard_normal((n, n_features + 1))), label


@pytest.mark.parametrize("n_features", [2, 3, 10, 49, 50, 100, 384, 768, 1536])
@pytest.mark.parametrize("t", [1e-3, 0.5, 30.0, 300.0, 3000.0])
def test_the_normaliser_is_that_of_the_power_series(n_features, t):
    order, m = n_features / 2 - 1, np.arange(6000)  # all terms are positive
    series = gammaln(order + 1) - gammaln(m + 1) - gammaln(m + order + 1) + 2 * m * np.log(t / 2)
    assert log_mgf(np.array(t * t), n_features) == pytest.approx(
        logsumexp(series), abs=2e-8, rel=1e-9
    )


def test_huge_concentrations_have_a_finite_normaliser():
    found = log_mgf(np.array([0.0, 1e-30, 1e16]), 768)
    assert found[:2] == pytest.approx(0.0, abs=1e-12)
    # For large t the density near the pole is normal: t - (D - 1) / 2 log(t) + constant.
    order = 768 / 2 - 1
    constant = gammaln(order + 1) + order * np.log(2.0) - 0.5 * np.log(2 * np.pi)
    assert found[2] == pytest.approx(1e8 - 767 / 2 * np.log(1e8) + constant, rel=1e-10)


@pytest.mark.parametrize("n_features", [2, 3, 8, 60, 384])
def test_directions_obey_the_laws(n_features):
    X = np.random.default_rng(n_features).standard_normal((20, n_features)) + 0.5
    learned = Direction(
        centre=np.full(n_features, n_features**-0.5),
        strength=0.3 * n_features,
        kappa=np.array([0.3, 1.0, 3.0]) * n_features,
        shares=np.array([0.2, 0.5, 0.3]),
    )
    check_family(learned, X)
    check_family(replace(learned, power=0.4), X)
    check_family(Direction.weak_prior(X), X)


@pytest.mark.parametrize(("n_features", "kappa"), [(2, 1.5), (3, 0.0), (3, 20.0), (100, 60.0)])
def test_drawn_directions_have_the_right_cosines(n_features, kappa):
    """The mean of the cosine is A'(kappa), its variance A''(kappa)."""
    n, rng = 20_000, np.random.default_rng(0)
    mean = np.zeros((n, n_features))
    mean[:, 0] = 1.0
    drawn = sample_direction(mean, np.full(n, kappa), rng.standard_normal((n, n_features + 1)))
    assert np.square(drawn).sum(axis=1) == pytest.approx(1.0)
    h = 1e-3
    low, at, high = (
        float(log_mgf(np.array((kappa + shift) ** 2), n_features)) for shift in (-h, 0.0, h)
    )
    variance = (high - 2 * at + low) / h**2
    error = np.sqrt(variance / n)
    assert drawn[:, 0].mean() == pytest.approx((high - low) / (2 * h), abs=5 * error)
    assert drawn[:, 0].var() == pytest.approx(variance, rel=0.06)
    assert np.abs(drawn[:, 1:].mean(axis=0)).max() < 5 * n_features**-0.5 * n**-0.5 * 2


def test_rows_count_by_their_direction_only():
    X = np.random.default_rng(0).standard_normal((8, 5))
    family = Direction.weak_prior(X)
    longer = X * np.arange(1.0, 9.0)[:, None]
    stats, group = family.stats(X, np.zeros(8, int), 1), np.zeros(8, int)
    assert family.stats(longer, group, 1) == pytest.approx(stats)
    table = family.predictive_params(stats)
    assert family.log_predictive(table, longer) == pytest.approx(family.log_predictive(table, X))


def test_a_row_without_direction_is_refused():
    with pytest.raises(InputError, match="row 1 is all zeros"):
        Direction.weak_prior(np.ones((3, 4))).check(np.array([[1.0, 0, 0, 0], [0.0, 0, 0, 0]]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"centre": np.zeros(3)}, "centre"),
        ({"strength": -1.0}, "strength"),
        ({"kappa": [0.0]}, "kappa"),
        ({"shares": [0.5]}, "sum to one"),
        ({"power": 1.5}, "power"),
    ],
)
def test_a_prior_that_cannot_work_is_refused(changed, message):
    right = {"centre": np.ones(3), "strength": 1.0, "kappa": [1.0], "shares": [1.0]}
    with pytest.raises(InputError, match=message):
        Direction(**(right | changed))


@pytest.mark.parametrize("n_features", [100, 384])
def test_drawn_directions_are_clustered(n_features):
    X, label = _drawn(900, 6, n_features, seed=1)
    model = ScStream("direction", random_state=0).partial_fit(X[:600])
    assert adjusted_rand(label[600:], model.predict(X[600:])) > 0.95


@pytest.mark.parametrize(("n_features", "kappa"), [(3, 2.0), (100, 60.0), (768, 5000.0)])
def test_the_mean_cosine_inverts_the_concentration(n_features, kappa):
    found = mean_cosine(np.array([kappa]), n_features)
    assert concentration(found, n_features) == pytest.approx(kappa, rel=0.04)


def test_rows_that_vary_in_all_directions_have_the_whole_power():
    X, _ = _drawn(400, 5, 60, seed=0)
    assert effective_share(X) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("n_directions", [6, 15, 30])
def test_the_share_counts_the_directions_in_which_neighbours_differ(n_directions):
    """Rows around four means, all of them in a subspace of so many dimensions."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((60, n_directions)))[0]
    means = _unit(rng.standard_normal((4, 60)))[rng.integers(0, 4, 400)]
    X = means + 0.05 * rng.standard_normal((400, n_directions)) @ basis.T
    assert effective_share(X) * 59 == pytest.approx(n_directions, rel=0.15)


def test_too_few_or_equal_rows_say_nothing_about_the_power():
    X, _ = _drawn(30, 2, 20, seed=0)
    assert effective_share(X[:10]) is None
    assert effective_share(np.repeat(X[:1], 50, axis=0)) is None
    assert effective_share(X[:0]) is None
    assert Direction.weak_prior(X[:10]).power == 0.5
    assert Direction.weak_prior(X).n_power == 30


def test_the_power_is_learned_from_later_batches_too():
    X, _ = _drawn(3000, 5, 40, seed=0)
    family = Direction.weak_prior(X[:5])
    stats = family.stats(X[:5], np.zeros(5, int), 1)
    family = family.adapted(stats, X[:500])
    assert (family.power, family.n_power) == (pytest.approx(0.8, abs=0.08), 500)
    family = family.adapted(stats, X[500:])
    assert family.adapted(stats, X[:500]).n_power == family.n_power == 3000


def _stats_of(squares, *, n_features=100, n=200):
    """Statistics of clusters around one axis each, by squared mean resultant lengths."""
    stats = np.zeros((len(squares), 1 + n_features))
    stats[:, 0] = n
    pairs = n + n * (n - 1) * np.asarray(squares)  # |s|^2 whose estimate is the square
    stats[np.arange(len(squares)), 1 + np.arange(len(squares))] = np.sqrt(pairs)
    return stats


def test_clusters_that_hardly_differ_get_one_concentration():
    family = Direction.weak_prior(np.eye(100))
    one = family.adapted(_stats_of([0.3, 0.35, 0.4, 0.45, 0.5]), np.zeros((0, 100)))
    assert one.kappa == pytest.approx(concentration(np.sqrt([0.4]), 100))
    several = family.adapted(_stats_of([0.1, 0.3, 0.6, 0.9, 0.97]), np.zeros((0, 100)))
    assert len(several.kappa) > 3
    assert mean_cosine(several.kappa, 100).min() ** 2 < 0.2
    assert mean_cosine(several.kappa, 100).max() ** 2 > 0.9


def test_the_centre_is_learned_from_mean_directions():
    rng = np.random.default_rng(0)
    family = Direction.weak_prior(np.eye(50))
    means = _unit(rng.standard_normal((40, 50)) / np.sqrt(50) + 0.5 * np.eye(1, 50))
    stats = np.column_stack([np.full(40, 9.0), 8.0 * means])
    found = family.adapted(stats, np.zeros((0, 50)))
    assert found.centre[0] > 0.9
    truth = concentration(means.mean(axis=0)[0], 50)
    assert found.strength == pytest.approx(truth, rel=0.2)
    opposite = np.column_stack([np.full(2, 9.0), 8.0 * np.array([means[0], -means[0]])])
    assert family.adapted(opposite, np.zeros((0, 50))).strength == 0.0


def test_typical_rows_of_a_cluster_are_about_as_dense_as_the_typical_table():
    X, _ = _drawn(500, 1, 50, seed=0, resultant_square=0.4)
    family = replace(
        Direction.weak_prior(X), kappa=concentration(np.sqrt([0.4]), 50), shares=np.ones(1)
    )
    table = family.predictive_params(family.stats(X, np.zeros(500, int), 1))
    own = family.log_predictive(table, X)[:, 0]
    typical = family.log_predictive(family.typical_params, X)[:, 0]
    assert np.ptp(typical) == pytest.approx(0.0)
    assert typical[0] == pytest.approx(own.mean(), abs=0.5)


def test_a_new_topic_is_born_although_known_clusters_take_its_rows_one_by_one(monkeypatch):
    """No row of the topic is novel by itself; together they are."""
    X, label = _drawn(1200, 4, 60, seed=2)
    rng = np.random.default_rng(0)
    topic = _unit(
        _unit(X[label == 0].mean(axis=0)[None]) + 2.0 * _unit(rng.standard_normal((1, 60)))
    )
    kappa = np.full(40, concentration(np.sqrt(0.2), 60))
    new = sample_direction(topic.repeat(40, axis=0), kappa, rng.standard_normal((40, 61)))
    batch, truth = np.concatenate([X[800:], new]), np.append(label[800:], [4] * 40)
    model = ScStream("direction", random_state=0).partial_fit(X[:800])
    assert model.n_clusters_ == 4
    assert (model.predict(new) >= 0).mean() > 0.9
    learned = clone(model).partial_fit(X[:800]).partial_fit(batch)
    assert learned.n_clusters_ == 5
    assert adjusted_rand(truth, learned.labels_) > 0.9
    monkeypatch.setattr(Direction, "typical_params", None)
    assert model.partial_fit(batch).n_clusters_ == 4


def test_a_stream_is_saved_and_goes_on_the_same_way(tmp_path):
    X, _ = _drawn(600, 3, 30, seed=0)
    model = ScStream("direction", random_state=0).partial_fit(X[:300])
    model.save(tmp_path / "model")
    other = ScStream.load(tmp_path / "model").partial_fit(X[300:])
    assert (other.predict(X) == model.partial_fit(X[300:]).predict(X)).all()


def test_rows_that_may_form_a_cluster_are_not_novel_before_learning():
    X, _ = _drawn(900, 3, 40, seed=0)
    model = ScStream("direction", random_state=0).partial_fit(X[:300]).partial_fit(X[300:600])
    expected = model.score_samples(X[600:]).mean()
    info = model.partial_fit(X[600:]).info_
    assert info.log_density_before == pytest.approx(expected, rel=0.01)
    assert info.novel_before < 0.05
