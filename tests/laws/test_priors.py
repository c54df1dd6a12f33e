"""Priors that are tried on groups of rows: what they expect, computed from the rows themselves."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from scstream.errors import InputError
from scstream.families import Bernoulli, Categorical, Diagonal, Gaussian, Multinomial, Poisson
from scstream.families.columns import positive
from scstream.families.scales import feature_scales
from scstream.kernels import choose_kernels

RNG = np.random.default_rng(3)
SIZES = [30, 12, 50]
GROUP = np.repeat(np.arange(3), SIZES)
CENTRES = np.array([[0.0, 0.0], [6.0, 1.0], [-3.0, 4.0]])
POINTS = CENTRES[GROUP] + RNG.normal(size=(92, 2)) @ np.array([[1.0, 0.4], [0.0, 0.6]])
BITS = (RNG.random((92, 3)) < np.array([0.2, 0.5, 0.9])).astype(float)
COUNTS = RNG.poisson([0.5, 4.0, 20.0], size=(92, 3)).astype(float)
LEVELS = np.column_stack([RNG.integers(0, 3, 92), RNG.integers(0, 2, 92)]).astype(float)
SHARES = (0.35, 0.6, 1.0, 1.7)  # of the pooled covariance


def pooled_covariance():  # (2, 2)
    """Sum of squares within the groups, by its degrees of freedom."""
    within = sum((n - 1) * np.cov(POINTS[g == GROUP].T) for g, n in enumerate(SIZES))
    return within / (len(POINTS) - 3)


def kappa_by_feature():  # (2,)
    """Mean square of the centres of the groups, in pooled standard deviations: 1 / kappa."""
    means = np.array([POINTS[g == GROUP].mean(axis=0) for g in range(3)])
    between = np.average((means - POINTS.mean(axis=0)) ** 2, axis=0, weights=SIZES)
    return between / np.diag(pooled_covariance())


@pytest.mark.parametrize("origin", [0.0, 7.0])
def test_gaussian_priors_expect_shares_of_the_pooled_covariance(origin):
    """Also without its correlations. The mean of IW(nu, nu psi) is nu psi / (nu - D - 1)."""
    weak = Gaussian.weak_prior(POINTS)
    weak = Gaussian(weak.mean, weak.kappa, weak.nu, weak.psi, origin=np.full(2, origin))
    grid = weak.prior_grid(weak.stats(POINTS, GROUP, 3))
    within = pooled_covariance()
    alone = np.diag(np.diag(within))
    expected = [size * shape for shape in (alone, 0.5 * (alone + within)) for size in SHARES]
    assert len(grid) == 3 * len(expected)
    for prior, covariance in zip(grid, expected * 3, strict=True):
        mean = prior.nu * prior.psi / (prior.nu - 2 - 1)
        np.testing.assert_allclose(mean, covariance, rtol=1e-9)
        np.testing.assert_allclose(prior.mean, POINTS.mean(axis=0), rtol=1e-9)
        assert prior.kappa == pytest.approx(1.0 / kappa_by_feature().mean(), rel=1e-9)
    assert sorted({prior.nu for prior in grid}) == [14.0, 22.0, 42.0]


def test_diagonal_priors_expect_shares_of_the_pooled_variances():
    """The mean of the inverse gamma distribution is nu psi / (nu - 2)."""
    weak = Diagonal.weak_prior(POINTS)
    grid = weak.prior_grid(weak.stats(POINTS, GROUP, 3))
    within = np.diag(pooled_covariance())
    for prior, size in zip(grid, SHARES * (len(grid) // 4), strict=True):
        np.testing.assert_allclose(prior.psi * prior.nu / (prior.nu - 2.0), size * within)
        np.testing.assert_allclose(prior.kappa, 1.0 / kappa_by_feature(), rtol=1e-9)
        np.testing.assert_allclose(prior.mean, POINTS.mean(axis=0), rtol=1e-9)
    assert sorted({prior.nu for prior in grid}) == [3.0, 5.0, 9.0, 15.0, 21.0]


def test_groups_without_rows_change_no_prior_of_the_grid():
    for family, rows in ((Gaussian, POINTS), (Diagonal, POINTS)):
        weak = family.weak_prior(rows)
        stats = weak.stats(rows, GROUP, 4)
        for one, two in zip(weak.prior_grid(stats), weak.prior_grid(stats[:3]), strict=True):
            np.testing.assert_allclose(one.psi, two.psi, rtol=1e-12)


def assert_graded(strengths):
    """Rising, from one to the next by at most a factor of four."""
    ratio = np.array(strengths[1:]) / np.array(strengths[:-1])
    assert (ratio > 1.0).all()
    assert (ratio < 4.0).all()


def test_bernoulli_priors_expect_even_or_overall_shares():
    weak = Bernoulli.weak_prior(BITS)
    grid = weak.prior_grid(weak.stats(BITS, GROUP, 3))
    overall = 0.9 * (BITS.sum(axis=0) + 0.5) / (len(BITS) + 1.0) + 0.05
    half = len(grid) // 2
    for prior, share in zip(grid, [np.full(3, 0.5)] * half + [overall] * half, strict=True):
        np.testing.assert_allclose(prior.a / (prior.a + prior.b), share, rtol=1e-12)
    assert_graded([float(prior.a[0]) for prior in grid[:half]])
    assert_graded([float(prior.a[0]) for prior in grid[half:]])


def test_categorical_priors_expect_even_or_overall_shares():
    weak = Categorical.weak_prior(LEVELS)
    grid = weak.prior_grid(weak.stats(LEVELS, GROUP, 3))
    half = len(grid) // 2
    counts = [np.bincount(LEVELS[:, d].astype(int)) for d in (0, 1)]
    overall = [(0.9 * (n + 1.0 / len(n)) / (n.sum() + 1.0) + 0.1 / len(n)) for n in counts]
    nothing = np.zeros((1, weak.n_stats))
    even = np.array([1 / 3] * 3 + [1 / 2] * 2)
    for prior in grid[:half]:
        np.testing.assert_allclose(prior.probabilities(nothing)[0], even)
    for prior in grid[half:]:
        np.testing.assert_allclose(prior.probabilities(nothing)[0], np.concatenate(overall))
    assert_graded([float(prior.concentration[0]) for prior in grid[:half]])


def test_poisson_priors_expect_the_overall_rates():
    weak = Poisson.weak_prior(COUNTS)
    np.testing.assert_allclose(weak.shape / weak.rate, COUNTS.mean(axis=0))
    grid = weak.prior_grid(weak.stats(COUNTS, GROUP, 3))
    prior_rate = weak.shape / weak.rate
    expected = (COUNTS.sum(axis=0) + 0.5) / (len(COUNTS) + 0.5 / prior_rate)
    for prior in grid:
        np.testing.assert_allclose(prior.shape / prior.rate, expected, rtol=1e-12)
    assert_graded([float(prior.shape[0]) for prior in grid])


def test_a_column_without_events_has_a_rate_below_one_event_in_all_rows():
    weak = Poisson.weak_prior(np.column_stack([np.zeros(9), np.full(9, 3.0)]))
    np.testing.assert_allclose(weak.shape / weak.rate, [0.1, 3.0])


def test_multinomial_priors_are_as_strong_or_stronger():
    weak = Multinomial.weak_prior(COUNTS)
    grid = weak.prior_grid(weak.stats(COUNTS, GROUP, 3))
    np.testing.assert_array_equal(grid[0].concentration, weak.concentration)
    assert_graded([float(prior.concentration[0]) for prior in grid])


def test_feature_scales_are_weighted_means_and_deviations():
    weight = RNG.random(92)
    rows = POINTS.copy()
    rows[::7, 1] = np.nan
    centre, scale = feature_scales(rows + 1e6, weight)
    for d in range(2):
        here = ~np.isnan(rows[:, d])
        mean = np.average(rows[here, d], weights=weight[here])
        variance = np.average((rows[here, d] - mean) ** 2, weights=weight[here])
        assert centre[d] == pytest.approx(1e6 + mean, abs=1e-8)
        assert scale[d] == pytest.approx(np.sqrt(variance), rel=1e-6)


def test_a_constant_column_gets_the_median_scale_of_the_others():
    rows = np.column_stack([POINTS, 3.0 * POINTS[:, 0], np.full(92, 40.0)])
    scale = feature_scales(rows)[1]
    assert scale[3] == np.median(scale[:3])
    np.testing.assert_allclose(feature_scales(np.full((5, 2), [40.0, 0.0]))[1], [4.0, 1.0])


def test_a_column_is_constant_if_only_rounding_varies():
    rows = 1.0 + np.outer([1.0, -1.0], [1e-14, 1e-15, 1.0])
    assert feature_scales(rows)[1][0] == pytest.approx(1e-14, rel=1e-1)
    assert feature_scales(rows)[1][1] == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("kernels", ["native", "numpy"])
def test_a_pickled_family_computes_the_same(kernels):
    if kernels == "native":
        pytest.importorskip("scstream._native")
    family = Gaussian.weak_prior(POINTS).with_kernels(choose_kernels(kernels))
    stats = family.stats(POINTS, GROUP, 3)
    assert (family.compiled is None) == (kernels == "numpy")
    copy = pickle.loads(pickle.dumps(family))
    assert type(copy.kernels) is type(family.kernels)
    np.testing.assert_array_equal(copy.log_marginal(stats), family.log_marginal(stats))
    np.testing.assert_array_equal(copy.mean, family.mean)


def test_missing_entries_take_the_place_of_the_prior_mean():
    """In the coordinates in which rows are grouped."""
    rows = np.array([[1.0, np.nan, 0.0]])
    diagonal = Diagonal(
        mean=[2.0, 3.0, 4.0], kappa=1.0, nu=3.0, psi=[4.0, 9.0, 1.0], origin=[1.0] * 3
    )
    np.testing.assert_allclose(diagonal.coordinates(rows), [[0.0, 2.0 / 3.0, -1.0]])
    bernoulli = Bernoulli(a=[1.0, 1.0, 1.0], b=[1.0, 3.0, 1.0])
    np.testing.assert_allclose(bernoulli.coordinates(rows), [[1.0, 0.25, 0.0]])
    poisson = Poisson(shape=[1.0, 9.0, 1.0], rate=[1.0, 1.0, 1.0])
    np.testing.assert_allclose(poisson.coordinates(rows), [[2.0, 6.0, 0.0]])
    categorical = Categorical(n_levels=(2, 2, 2), concentration=np.array([1, 1, 1, 3, 1, 1.0]))
    np.testing.assert_allclose(categorical.coordinates(rows), [[0, 1, 0.25, 0.75, 1, 0]])


def test_standard_deviations_of_counts_and_levels():
    """Of one draw for the multinomial, of indicators for categories."""
    multinomial = Multinomial(concentration=np.array([1.0, 1.0, 2.0]))
    stats = np.array([[2.0, 3.0, 1.0, 0.0]])
    share = np.array([4.0, 2.0, 2.0]) / 8.0
    np.testing.assert_allclose(multinomial.stds(stats)[0], np.sqrt(share * (1.0 - share)))
    bernoulli = Bernoulli(a=[1.0], b=[2.0])
    np.testing.assert_allclose(bernoulli.stds(np.array([[3.0, 2.0, 1.0]])), [[0.5]])
    categorical = Categorical(n_levels=(2, 3), concentration=1.0)
    stats = np.array([[4.0, 3.0, 1.0, 4.0, 0.0, 0.0]])
    left = 1.0 - (4 / 6) ** 2 - (2 / 6) ** 2, 1.0 - (5 / 7) ** 2 - 2 * (1 / 7) ** 2
    np.testing.assert_allclose(categorical.stds(stats)[0], np.sqrt(left))
    assert categorical.means(stats).tolist() == [[0.0, 0.0]]


def test_log_base_is_the_multinomial_coefficient_and_the_factorials():
    rows = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    multinomial = Multinomial(concentration=np.ones(3))
    np.testing.assert_allclose(multinomial.log_base(rows), [np.log(10.0), 0.0], atol=1e-12)
    poisson = Poisson(shape=np.ones(3), rate=np.ones(3))
    np.testing.assert_allclose(poisson.log_base(rows), [-np.log(12.0), 0.0], atol=1e-12)


@pytest.mark.parametrize("value", [np.ones((2, 2)), 0.0, [1.0, -1.0], [1.0, np.nan], np.inf])
def test_priors_of_columns_are_positive_vectors(value):
    assert positive("rate", 2.0, 3).tolist() == [2.0, 2.0, 2.0]
    assert positive("rate", [2.0, 3.0], 2).tolist() == [2.0, 3.0]
    with pytest.raises(InputError, match="rate must be a positive number or a vector"):
        positive("rate", value, 2)
    with pytest.raises(InputError, match="rate has 2 entries but 3 are needed"):
        positive("rate", [2.0, 3.0], 3)
