"""Families that factorise over columns: their doors, priors and degenerate tables."""

import numpy as np
import pytest

from scstream.errors import InputError
from scstream.families import Bernoulli, Categorical, Diagonal, Poisson
from scstream.testing import check_family

NAN = np.nan
FACTORISED = [Diagonal, Bernoulli, Categorical, Poisson]


def one_group(family, X):
    return family.stats(X, np.zeros(len(X), dtype=int), 1)


@pytest.mark.parametrize("kind", FACTORISED)
@pytest.mark.parametrize(
    "X",
    [
        np.ones((6, 2)),
        np.zeros((6, 2)),
        np.array([[0.0, NAN]] * 6),
        np.full((6, 2), NAN),
        np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0], [NAN, NAN], [1.0, 1.0]]),
    ],
    ids=["ones", "zeros", "missing column", "all missing", "constant column"],
)
@pytest.mark.filterwarnings("error")
def test_the_weak_prior_accepts_degenerate_tables(kind, X):
    family = kind.weak_prior(X)
    check_family(family, X)
    for candidate in family.prior_grid(one_group(family, X)):
        check_family(candidate, X, laws=["marginal", "summaries"])


@pytest.mark.parametrize("kind", FACTORISED)
def test_the_weak_prior_accepts_a_single_row_and_weights(kind):
    family = kind.weak_prior(np.array([[1.0, 0.0]]))
    assert np.isfinite(family.log_marginal(one_group(family, np.array([[1.0, 0.0]])))).all()
    assert kind.weak_prior(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([2.0, 1.0])).n_features == 2


def test_an_empty_batch_is_valid():
    for family in (
        Diagonal(mean=np.zeros(2), kappa=1.0, nu=3.0, psi=np.ones(2)),
        Bernoulli(a=np.ones(2), b=np.ones(2)),
        Categorical((2, 2)),
        Poisson(shape=np.ones(2), rate=np.ones(2)),
    ):
        family.check(np.empty((0, 2)))
        assert family.stats(np.empty((0, 2)), np.empty(0, dtype=int), 2).shape == (
            2,
            family.n_stats,
        )


@pytest.mark.parametrize(
    ("family", "X", "sentence"),
    [
        (Bernoulli(a=1.0, b=1.0), [[0.5]], "hold 0, 1 or NaN"),
        (Bernoulli(a=1.0, b=1.0), [[2.0]], "family='categorical'"),
        (Categorical((3,)), [[0.0], [3.0]], "level 3 .* 3 levels .* larger n_levels"),
        (Categorical((3,)), [[0.5]], "codes"),
        (Categorical((3,)), [[-1.0]], "codes"),
        (Poisson(shape=1.0, rate=1.0), [[-1.0]], "negative"),
        (Diagonal(mean=[0.0], kappa=1.0, nu=3.0, psi=[1.0]), [[0.0], [1e9]], "row 1, column 0"),
        (Diagonal(mean=[0.0], kappa=1.0, nu=3.0, psi=[1.0]), [[0.0, 1.0]], "2 columns"),
    ],
)
def test_rows_outside_the_domain_raise_a_clear_error(family, X, sentence):
    with pytest.raises(InputError, match=sentence):
        family.check(np.array(X))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Bernoulli(a=[1.0, 0.0], b=1.0), "a must be"),
        (lambda: Bernoulli(a=[1.0, 1.0], b=[1.0, 1.0, 1.0]), "a has 2 entries but 3"),
        (lambda: Poisson(shape=1.0, rate=NAN), "rate must be"),
        (lambda: Categorical((2, 0)), "at least one level"),
        (lambda: Categorical((2, 2), np.ones(3)), "concentration has 3 entries but 4"),
        (lambda: Categorical.weak_prior(np.array([[0.5]])), "codes"),
        (lambda: Poisson.weak_prior(np.array([[-1.0]])), "negative"),
        (lambda: Diagonal([0.0], kappa=1.0, nu=0.0, psi=[1.0]), "nu must be"),
        (lambda: Diagonal([0.0], kappa=-1.0, nu=1.0, psi=[1.0]), "kappa must be"),
        (lambda: Diagonal([0.0], kappa=1.0, nu=1.0, psi=[0.0]), "psi must be"),
        (lambda: Diagonal([0.0], kappa=1.0, nu=1.0, psi=[1.0], origin=[0.0, 1.0]), "same length"),
        (lambda: Diagonal([NAN], kappa=1.0, nu=1.0, psi=[1.0]), "finite"),
    ],
)
def test_an_invalid_prior_raises_a_clear_error(build, sentence):
    with pytest.raises(InputError, match=sentence):
        build()


def test_diagonal_bisects_along_the_widest_feature_of_present_entries():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2)) * [1.0, 5.0] + [3.0, -2.0]
    X[:100, 1] = NAN
    family = Diagonal(mean=np.zeros(2), kappa=0.1, nu=3.0, psi=np.ones(2))
    whole = one_group(family, X)
    difference = whole[:, :1] * family.bisect(whole, whole)
    halves = np.vstack([whole / 2 + difference, whole / 2 - difference])
    n_present, mean, variance = family._scatter(halves)
    _, centre, whole_variance = family._scatter(whole)
    np.testing.assert_allclose(n_present, [[200, 150], [200, 150]])
    np.testing.assert_allclose(mean[:, 0], centre[0, 0])
    offset = np.sqrt(whole_variance[0, 1] * 2 / np.pi)
    np.testing.assert_allclose(mean[:, 1] - centre[0, 1], [offset, -offset])
    np.testing.assert_allclose(variance[:, 1], whole_variance[0, 1] * (1 - 2 / np.pi))


def test_diagonal_keeps_precision_far_from_zero():
    rng = np.random.default_rng(0)
    X = 1e8 + rng.standard_normal((500, 1))
    family = Diagonal.weak_prior(X)
    np.testing.assert_allclose(family.stds(one_group(family, X)), X.std(), rtol=0.05)


def test_diagonal_translates_only_the_entries_present():
    X = np.array([[1.0, NAN], [2.0, 5.0]])
    family = Diagonal(mean=np.zeros(2), kappa=1.0, nu=3.0, psi=np.ones(2))
    moved = family.translate(one_group(family, X), np.array([[1.0, 2.0]]))
    np.testing.assert_allclose(moved, one_group(family, X + np.array([1.0, 2.0])))


def test_diagonal_prior_grid_keeps_the_mean_of_a_column_that_does_not_separate_groups():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 4, 800)
    X = rng.standard_normal((800, 2)) + np.column_stack([20.0 * group, 0.0 * group])
    family = Diagonal.weak_prior(X)
    candidate = family.prior_grid(family.stats(X, group, 4))[0]
    assert candidate.kappa[0] < 0.01
    assert candidate.kappa[1] == 1.0


@pytest.mark.parametrize("kind", FACTORISED)
def test_the_best_prior_of_the_grid_beats_the_weak_prior_on_separate_groups(kind):
    rng = np.random.default_rng(3)
    group = np.repeat([0, 1], 100)
    p = np.array([[0.02, 0.9], [0.95, 0.05]])[group]
    X = (rng.random((200, 2)) < p).astype(float)
    family = kind.weak_prior(X)
    stats = family.stats(X, group, 2)
    best = max(c.log_marginal(stats).sum() for c in family.prior_grid(stats))
    assert best > family.log_marginal(stats).sum()


def test_categorical_levels_and_means():
    X = np.array([[0.0, 2.0], [1.0, 2.0], [1.0, NAN]])
    family = Categorical.weak_prior(X)
    assert family.n_levels == (2, 3)
    stats = one_group(family, X)
    np.testing.assert_allclose(family.means(stats), [[1.0, 2.0]])
    np.testing.assert_allclose(family.probabilities(stats), [[0.4, 0.6, 0.2, 0.2, 0.6]])
    points = family.coordinates(X)
    np.testing.assert_allclose(points[2], [0, 1, 1 / 3, 1 / 3, 1 / 3])


def test_bernoulli_equals_categorical_with_two_levels():
    rng = np.random.default_rng(0)
    X = (rng.random((50, 3)) < 0.3).astype(float)
    X[rng.random(X.shape) < 0.2] = NAN
    bits = Bernoulli(a=2.0 * np.ones(3), b=3.0 * np.ones(3))
    levels = Categorical((2, 2, 2), np.tile([3.0, 2.0], 3))
    np.testing.assert_allclose(
        bits.log_marginal(one_group(bits, X)), levels.log_marginal(one_group(levels, X))
    )
    np.testing.assert_allclose(
        bits.log_predictive(bits.predictive_params(one_group(bits, X)), X),
        levels.log_predictive(levels.predictive_params(one_group(levels, X)), X),
    )


def test_poisson_accepts_fractions():
    family = Poisson(shape=1.0, rate=1.0)
    family.check(np.array([[0.5]]))
    check_family(family, np.array([[0.5], [1.25], [3.0], [0.0]]))
