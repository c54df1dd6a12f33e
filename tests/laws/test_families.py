"""The laws of every family on random priors and rows, and the families against outside oracles."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, sparse, stats
from scipy.special import gammaln

from scstream.families import (
    Bernoulli,
    Categorical,
    Diagonal,
    Gaussian,
    Multinomial,
    Poisson,
    Product,
    Subspace,
)
from scstream.testing import check_family

N_EXAMPLES = 25
SEEDS = st.integers(0, 2**16)


def one_group(family, X, weight=None):
    return family.stats(X, np.zeros(len(X), dtype=int), 1, weight)


def floats(low, high):
    return st.floats(low, high, allow_subnormal=False)


def vectors(n, low, high):
    return hnp.arrays(np.float64, n, elements=floats(low, high))


@st.composite
def rows(sample_posterior, entries, *, missing=False):
    """Four to ten rows, column by column; about a quarter of the entries missing if wanted."""
    n = sample_posterior(st.integers(4, 10))
    X = np.column_stack(
        [sample_posterior(hnp.arrays(np.float64, n, elements=entry)) for entry in entries]
    )
    if missing:
        gone = sample_posterior(hnp.arrays(np.int8, X.shape, elements=st.integers(0, 3)))
        X[gone == 0] = np.nan
    return X


def whole(low, high):
    return st.integers(low, high).map(float)


@st.composite
def gaussians(sample_posterior):
    d = sample_posterior(st.integers(1, 3))
    root = sample_posterior(hnp.arrays(np.float64, (d, d), elements=floats(-3, 3)))
    origin = sample_posterior(vectors(d, -1e3, 1e3))
    family = Gaussian(
        mean=origin + sample_posterior(vectors(d, -5, 5)),
        kappa=sample_posterior(floats(0.01, 10)),
        nu=d - 1 + sample_posterior(floats(0.5, 20)),
        psi=root @ root.T + 0.1 * np.eye(d),
        origin=origin,
    )
    return family, origin + sample_posterior(rows([floats(-10, 10)] * d))


@st.composite
def subspaces(sample_posterior):
    """A basis of one to D directions; the sketch is of the basis, so that rows may turn it."""
    d = sample_posterior(st.integers(1, 4))
    q = sample_posterior(st.integers(1, d))
    root = sample_posterior(hnp.arrays(np.float64, (q, q), elements=floats(-3, 3)))
    turn = sample_posterior(hnp.arrays(np.float64, (d, d), elements=floats(-1, 1)))
    origin = sample_posterior(vectors(d, -1e3, 1e3))
    family = Subspace(
        mean=origin + sample_posterior(vectors(d, -5, 5)),
        kappa=sample_posterior(floats(0.01, 10)),
        nu=q - 1 + sample_posterior(floats(0.5, 20)),
        psi=root @ root.T + 0.1 * np.eye(q),
        basis=np.linalg.qr(turn)[0][:, :q],
        outer_kappa=sample_posterior(floats(0.01, 100)),
        outer_variance=sample_posterior(floats(0.1, 10)),
        origin=origin,
        scale=sample_posterior(vectors(d, 0.1, 10)),
    )
    return family, origin + sample_posterior(rows([floats(-10, 10)] * d))


@st.composite
def diagonals(sample_posterior):
    d = sample_posterior(st.integers(1, 3))
    origin = sample_posterior(vectors(d, -1e3, 1e3))
    family = Diagonal(
        mean=origin + sample_posterior(vectors(d, -5, 5)),
        kappa=sample_posterior(vectors(d, 0.01, 10)),
        nu=sample_posterior(floats(0.5, 20)),
        psi=sample_posterior(vectors(d, 0.1, 10)),
        origin=origin,
    )
    return family, origin + sample_posterior(rows([floats(-10, 10)] * d, missing=True))


@st.composite
def multinomials(sample_posterior):
    d = sample_posterior(st.integers(1, 4))
    X = sample_posterior(rows([whole(0, 50)] * d))
    thin = sample_posterior(st.booleans())
    family = Multinomial(concentration=sample_posterior(vectors(d, 0.05, 20)))
    return family, sparse.csr_array(X) if thin else X


@st.composite
def bernoullis(sample_posterior):
    d = sample_posterior(st.integers(1, 4))
    family = Bernoulli(
        a=sample_posterior(vectors(d, 0.05, 20)), b=sample_posterior(vectors(d, 0.05, 20))
    )
    return family, sample_posterior(rows([whole(0, 1)] * d, missing=True))


@st.composite
def categoricals(sample_posterior):
    n_levels = tuple(sample_posterior(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    family = Categorical(n_levels, sample_posterior(vectors(sum(n_levels), 0.05, 20)))
    return family, sample_posterior(rows([whole(0, n - 1) for n in n_levels], missing=True))


@st.composite
def poissons(sample_posterior):
    d = sample_posterior(st.integers(1, 3))
    family = Poisson(
        shape=sample_posterior(vectors(d, 0.1, 20)), rate=sample_posterior(vectors(d, 0.05, 10))
    )
    return family, sample_posterior(rows([whole(0, 60)] * d, missing=True))


@st.composite
def products(sample_posterior):
    """Two parts side by side, columns shuffled; a Gaussian part misses whole rows."""
    kinds = st.sampled_from([gaussians, diagonals, bernoullis, categoricals, poissons])
    cases = [sample_posterior(sample_posterior(kinds)()) for _ in range(2)]
    n = min(len(X) for _, X in cases)
    blocks = [X[:n] for _, X in cases]
    for (family, _), block in zip(cases, blocks, strict=True):
        if not family.handles_missing:
            block[sample_posterior(hnp.arrays(np.bool_, n))] = np.nan
    table = np.column_stack(blocks)
    order = sample_posterior(st.permutations(range(table.shape[1])))
    place = iter(np.argsort(order).tolist())
    parts = [(family, [next(place) for _ in range(family.n_features)]) for family, _ in cases]
    return Product(parts), table[:, order]


STRATEGIES = {
    "gaussian": gaussians,
    "diagonal": diagonals,
    "subspace": subspaces,
    "multinomial": multinomials,
    "bernoulli": bernoullis,
    "categorical": categoricals,
    "poisson": poissons,
    "product": products,
}


@pytest.mark.statistics
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_family_obeys_the_laws(name):
    """All laws at 1e-9; `scstream.testing.families._law_draws` argues the one false-alarm rate."""

    @settings(max_examples=N_EXAMPLES)
    @given(case=STRATEGIES[name](), seed=SEEDS)
    def obeys(case, seed):
        check_family(*case, seed=seed)

    obeys()


def niw_posterior(family, X):
    """Textbook update with the centred scatter."""
    n, centre = len(X), X.mean(axis=0)
    kappa, nu = family.kappa + n, family.nu + n
    off = (centre - family.mean)[:, None]
    scale = family.nu * family.psi + (X - centre).T @ (X - centre)
    scale = scale + family.kappa * n / kappa * off @ off.T
    return kappa, (family.kappa * family.mean + n * centre) / kappa, nu, scale


def student(kappa, mean, nu, scale):
    df = nu - len(mean) + 1
    return stats.multivariate_t(loc=mean, shape=scale * (kappa + 1) / (kappa * df), df=df)


@settings(max_examples=N_EXAMPLES)
@given(gaussians())
def test_gaussian_predictive_is_the_student_t_of_scipy(case):
    family, X = case
    log_p = [student(family.kappa, family.mean, family.nu, family.nu * family.psi).logpdf(X[0])]
    log_p += [student(*niw_posterior(family, X[:i])).logpdf(X[i]) for i in range(1, len(X))]
    table = family.predictive_params(one_group(family, X[:-1]))
    np.testing.assert_allclose(family.log_predictive(table, X[-1:])[0, 0], log_p[-1], rtol=1e-9)
    np.testing.assert_allclose(family.log_marginal(one_group(family, X))[0], sum(log_p), rtol=1e-9)


@pytest.mark.parametrize("kind", [Gaussian, Diagonal])
def test_gaussian_marginal_equals_quadrature(kind):
    """D = 1: the mean integrates in closed form, the variance by quadrature over its logarithm."""
    kappa, nu, psi, m = 0.7, 2.5, 1.3, 0.4
    x = np.array([0.1, 2.0, -0.7, 1.1])
    covariance = np.eye(len(x)) + 1 / kappa

    def density(log_variance):
        variance = math.exp(log_variance)
        likelihood = stats.multivariate_normal.pdf(x - m, cov=variance * covariance)
        return likelihood * stats.invgamma.pdf(variance, nu / 2, scale=nu * psi / 2) * variance

    exact, _ = integrate.quad(density, -15, 25, epsabs=0, epsrel=1e-11, limit=500)
    family = kind(mean=[m], kappa=kappa, nu=nu, psi=[[psi]] if kind is Gaussian else [psi])
    log_marginal = family.log_marginal(one_group(family, x[:, None]))[0]
    np.testing.assert_allclose(log_marginal, math.log(exact), rtol=1e-9)


def test_gaussian_far_from_its_prior_mean_keeps_its_variance():
    """The paper's update drops the means: at offset 100 a variance of 3 became thousands."""
    rng = np.random.default_rng(0)
    X = 100.0 + math.sqrt(3.0) * rng.standard_normal((1000, 2))
    family = Gaussian(mean=np.zeros(2), kappa=0.01, nu=4.0, psi=np.eye(2))
    group = one_group(family, X)
    kappa, mean, nu, scale = niw_posterior(family, X)
    np.testing.assert_allclose(family.covariance(group)[0], scale / (nu - 3), rtol=1e-9, atol=1e-9)
    assert np.all(np.abs(np.diag(family.covariance(group)[0]) - 3.0) < 0.6)
    expected = student(kappa, mean, nu, scale).logpdf(X[:5])
    log_p = family.log_predictive(family.predictive_params(group), X[:5])[:, 0]
    np.testing.assert_allclose(log_p, expected, rtol=1e-9)


@settings(max_examples=N_EXAMPLES)
@given(diagonals())
def test_diagonal_is_a_product_of_gaussians_over_present_entries(case):
    family, X = case
    table = family.predictive_params(one_group(family, X))
    log_marginal, log_p = 0.0, np.zeros(len(X))
    for d in range(family.n_features):
        single = Gaussian(
            mean=family.mean[[d]],
            kappa=family.kappa[d],
            nu=family.nu,
            psi=np.diag(family.psi[[d]]),
            origin=family.origin[[d]],
        )
        there = ~np.isnan(X[:, d])
        group = one_group(single, X[there][:, [d]])
        log_marginal += single.log_marginal(group)[0]
        log_p[there] += single.log_predictive(single.predictive_params(group), X[there][:, [d]])[
            :, 0
        ]
    np.testing.assert_allclose(
        family.log_marginal(one_group(family, X))[0], log_marginal, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(family.log_predictive(table, X)[:, 0], log_p, rtol=1e-9, atol=1e-9)


def test_a_missing_entry_is_integrated_out():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6, 2))
    X[2, 0] = np.nan
    family = Diagonal(mean=np.zeros(2), kappa=0.5, nu=3.0, psi=np.ones(2))
    table = family.predictive_params(one_group(family, X))

    def density(entry):
        return math.exp(family.log_predictive(table, np.array([[0.3, entry]]))[0, 0])

    exact, _ = integrate.quad(density, -np.inf, np.inf, epsabs=0, epsrel=1e-10)
    log_p = family.log_predictive(table, np.array([[0.3, np.nan]]))[0, 0]
    np.testing.assert_allclose(log_p, math.log(exact), rtol=1e-9)


def count_rows(n_columns, total):
    every = itertools.product(range(total + 1), repeat=n_columns)
    return np.array([row for row in every if sum(row) == total], dtype=float)


@settings(max_examples=N_EXAMPLES)
@given(multinomials(), st.integers(1, 5))
def test_multinomial_predictive_sums_to_one(case, total):
    family, X = case
    table = family.predictive_params(family.stats(X, np.zeros(X.shape[0], dtype=int), 1))
    every = count_rows(family.n_features, total)
    p = np.exp(family.log_predictive(table, every)[:, 0] + family.log_base(every))
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-9)
    alone = family.log_marginal(family.stats(every, np.arange(len(every)), len(every)))
    np.testing.assert_allclose(np.exp(alone + family.log_base(every)).sum(), 1.0, rtol=1e-9)


@settings(max_examples=N_EXAMPLES)
@given(multinomials(), hnp.arrays(np.float64, (3, 4), elements=floats(0, 500)))
def test_multinomial_predictive_of_any_counts_equals_the_lgamma_formula(case, X):
    """The level-by-level sum gives the same as lgamma, for large and for fractional counts."""
    family, learnt = case
    X = X[:, : family.n_features]
    d = family.predictive_params(family.stats(learnt, np.zeros(learnt.shape[0], dtype=int), 1))
    n, total = X.sum(axis=1), d.sum()
    exact = gammaln(total) - gammaln(total + n) + (gammaln(d + X) - gammaln(d)).sum(axis=1)
    np.testing.assert_allclose(family.log_predictive(d, X)[:, 0], exact, rtol=1e-9, atol=1e-9)


@settings(max_examples=N_EXAMPLES)
@given(poissons())
def test_poisson_predictive_is_negative_binomial(case):
    family, X = case
    table = family.predictive_params(one_group(family, X))
    shape, rate = family.shape + np.nansum(X, axis=0), family.rate + (~np.isnan(X)).sum(axis=0)
    X = np.nan_to_num(X)
    exact = stats.nbinom.logpmf(X, shape, rate / (rate + 1)).sum(axis=1)
    log_p = family.log_predictive(table, X)[:, 0] + family.log_base(X)
    np.testing.assert_allclose(log_p, exact, rtol=1e-9, atol=1e-9)


@given(floats(0.05, 20), floats(0.05, 20))
def test_bernoulli_predictive_equals_a_hand_calculation(a, b):
    family = Bernoulli(a=[a], b=[b])
    X = np.array([[1.0], [1.0], [0.0], [np.nan]])
    n = a + b
    by_hand = a * (a + 1) * b / (n * (n + 1) * (n + 2))
    np.testing.assert_allclose(
        np.exp(family.log_marginal(one_group(family, X))), by_hand, rtol=1e-9
    )
    p = np.exp(family.log_predictive(family.predictive_params(one_group(family, X)), X))[:, 0]
    np.testing.assert_allclose(p[0], (a + 2) / (n + 3), rtol=1e-9)
    np.testing.assert_allclose([p[0] + p[2], p[3]], 1.0, rtol=1e-9)


@settings(max_examples=N_EXAMPLES)
@given(categoricals())
def test_categorical_predictive_sums_to_one_over_the_missing_entries(case):
    family, X = case
    table = family.predictive_params(one_group(family, X))
    every = np.array(list(itertools.product(*map(range, family.n_levels))), dtype=float)
    log_p = family.log_predictive(table, every)[:, 0]
    np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, rtol=1e-9)
    hidden = every.copy()
    hidden[:, 1:] = np.nan
    first = np.bincount(every[:, 0].astype(int), weights=np.exp(log_p))
    marginal = np.exp(family.log_predictive(table, hidden)[:, 0])
    np.testing.assert_allclose(marginal, first[every[:, 0].astype(int)], rtol=1e-9)
