"""Directions: the normaliser, the laws, draws of directions, what the prior learns, and streams."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from scstream import ScStream
from scstream.errors import InputError
from scstream.families import Direction
from scstream.families.sphere import log_mgf, sample_direction
from scstream.metrics import adjusted_rand
from scstream.testing import check_family


def _unit(X):
    return X / np.sqrt(np.square(X).sum(axis=1, keepdims=True))


def _drawn(n, n_clusters, n_features, seed, resultant_square=0.2):
    """Rows of von Mises-Fisher clusters, and their labels."""
    rng = np.random.default_rng(seed)
    means = _unit(rng.standard_normal((n_clusters, n_features)))
    label = rng.integers(0, n_clusters, n)
    r = np.sqrt(resultant_square)
    kappa = np.full(n, r * (n_features - r * r) / (1.0 - r * r))
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
