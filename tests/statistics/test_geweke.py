"""Joint-distribution test (Geweke 2004): prior, likelihood and kernel must belong together.

Labels and rows are drawn from the model itself, in worlds of six rows. Then rounds are made that
leave the joint distribution of labels and rows alone if everything is right: labels by the sweep
and a split or merge, parameters by the family's posterior draw, rows anew from the parameters. What
comes out is compared, statistic by statistic, with fresh draws from the model. Worlds are
independent, so the two-sample z-test is exact but for the central limit theorem over thousands of
light-tailed values.

False alarms: of the 15 statistics a right sampler has one below p = 0.01 with probability 14 % at a
random seed. The seed is pinned. It is the second one tried: seed 0 gave p = 0.0009 on "first count"
because its fresh draws were off; twenty times as many worlds (SCSTREAM_LONG=1) gave no p below
0.15. What breaks the sampler gives p-values below 1e-6, which the mutants show. `pytest -rP` prints
the p-values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from scstream.core.rng import key_for
from scstream.families import Gaussian, Multinomial
from scstream.kernels import ClusterDraws, choose_kernels
from tests.statistics import mutants
from tests.statistics.exact import canonical
from tests.statistics.worlds import BAR, MORE, WORLDS_AT_ONCE, Kernel, split_or_merge, sweep

pytestmark = pytest.mark.statistics

SEED = 1
N_ROWS = 6
N_TRIALS = 5  # counts in a row of the multinomial
N_WORLDS = 8 * WORLDS_AT_ONCE * MORE
N_ROUNDS = 6


@dataclass(frozen=True)
class GaussianModel:
    """Degrees of freedom so many that the statistics have finite variances."""

    family = Gaussian(
        mean=[0.8, -0.4], kappa=0.7, nu=12.0, psi=[[1.0, 0.4], [0.4, 0.7]], origin=[-0.5, 0.3]
    ).with_kernels(choose_kernels())
    alpha = 1.6

    def prior(self, n_groups, rng):
        """Mean and covariance of every group, by scipy."""
        prior = self.family
        sigma = stats.invwishart.rvs(
            df=prior.nu, scale=prior.nu * prior.psi, size=n_groups, random_state=rng
        )
        noise = np.einsum("gij,gj->gi", np.linalg.cholesky(sigma), rng.normal(size=(n_groups, 2)))
        return prior.mean + noise / np.sqrt(prior.kappa), sigma

    def rows(self, params, rng):
        mean, sigma = params
        return mean + np.einsum(
            "nij,nj->ni", np.linalg.cholesky(sigma), rng.normal(size=mean.shape)
        )

    def unpack(self, params):
        """Mean and covariance from the family's packed (W, W mu, constant)."""
        whiten = np.zeros((len(params), 2, 2))
        whiten[:, [0, 1, 1], [0, 0, 1]] = params[:, :3]
        inverse = np.linalg.inv(whiten)
        mean = np.einsum("gij,gj->gi", inverse, params[:, 3:5]) + self.family.origin
        return mean, inverse @ inverse.swapaxes(1, 2)

    def moments(self, X):  # (W, n, 2)
        return {
            "first feature": X[:, :, 0].mean(axis=1),
            "second feature": X[:, :, 1].mean(axis=1),
            "square": (X**2).mean(axis=(1, 2)),
            "product": X.prod(axis=2).mean(axis=1),
        }


@dataclass(frozen=True)
class MultinomialModel:
    family = Multinomial(concentration=np.array([0.5, 1.1, 0.8])).with_kernels(choose_kernels())
    alpha = 0.7

    def prior(self, n_groups, rng):
        return (rng.dirichlet(self.family.concentration, size=n_groups),)

    def rows(self, params, rng):
        return rng.multinomial(N_TRIALS, params[0]).astype(float)

    def unpack(self, params):
        share = np.exp(params)
        return (share / share.sum(axis=1, keepdims=True),)

    def moments(self, X):  # (W, n, 3)
        return {
            "first count": X[:, :, 0].mean(axis=1),
            "square": (X**2).mean(axis=(1, 2)),
            "largest": X.max(axis=(1, 2)),
        }


MODELS = {"gaussian": GaussianModel(), "multinomial": MultinomialModel()}


def restaurant(alpha, n_worlds, rng):  # (W, n)
    """Labels by the Chinese restaurant process, row after row."""
    labels = np.zeros((n_worlds, N_ROWS), dtype=np.int64)
    for row in range(1, N_ROWS):
        # A table is joined by way of a random earlier row, or opened with weight alpha.
        friend = rng.integers(row, size=n_worlds)
        joined = labels[np.arange(n_worlds), friend]
        new = rng.random(n_worlds) < alpha / (alpha + row)
        labels[:, row] = np.where(new, labels.max(axis=1) + 1, joined)
    return canonical(labels)


def numbered(labels):  # (W, n) -> (W n,)
    """Number the clusters of all worlds through."""
    n_clusters = labels.max(axis=1) + 1
    return (np.cumsum(n_clusters) - n_clusters)[:, None] + labels


def from_the_model(model, n_worlds, rng):
    """Labels and rows of new worlds."""
    labels = restaurant(model.alpha, n_worlds, rng)
    group = numbered(labels)
    params = model.prior(group.max() + 1, rng)
    rows = model.rows([p[group.ravel()] for p in params], rng)
    return labels, rows.reshape(n_worlds, N_ROWS, -1)


def rounds(model, kernel, labels, X, *, chunk, rng):
    for round_ in range(N_ROUNDS):
        labels = sweep(kernel, X, labels, address=(chunk, round_))
        labels = split_or_merge(kernel, X, labels, rng)
        group = numbered(labels).ravel()
        stats_ = kernel.family.stats(X.reshape(len(group), -1), group, group.max() + 1)
        key = key_for(kernel.seed, batch=chunk, sweep=round_, purpose="chain")
        draws = ClusterDraws(kernel.family.kernels, key, np.arange(len(stats_)))
        drawn = kernel.family.sample_posterior(stats_, draws)
        rows = model.rows([p[group] for p in model.unpack(drawn)], rng)
        X = rows.reshape(X.shape)
    return labels, X


def described(model, labels, X):
    """Statistics of every world: of the labels, of the rows, and of both."""
    same = labels[:, :, None] == labels[:, None, :]
    centred = X - X.mean(axis=1, keepdims=True)
    alike = np.einsum("wid,wjd->wij", centred, centred)
    return {
        "clusters": labels.max(axis=1) + 1.0,
        "pairs together": same.mean(axis=(1, 2)),
        "alone": (same.sum(axis=2) == 1).mean(axis=1),
        "likeness within": (same * alike).mean(axis=(1, 2)),
        **model.moments(X),
    }


def p_values(model, kernel, *, n_worlds=N_WORLDS):
    """Two-sided p-value of every statistic, rounds against fresh draws."""
    ours, fresh = [], []
    for chunk in range(n_worlds // WORLDS_AT_ONCE):
        rng = np.random.default_rng([kernel.seed, chunk])
        start = from_the_model(model, WORLDS_AT_ONCE, rng)
        ours.append(described(model, *rounds(model, kernel, *start, chunk=chunk, rng=rng)))
        fresh.append(described(model, *from_the_model(model, WORLDS_AT_ONCE, rng)))
    out = {}
    for name in ours[0]:
        one, two = (np.concatenate([part[name] for part in side]) for side in (ours, fresh))
        error = np.sqrt(one.var(ddof=1) / len(one) + two.var(ddof=1) / len(two))
        out[name] = float(2.0 * stats.norm.sf(abs(one.mean() - two.mean()) / error))
    print({name: f"{p:.2g}" for name, p in out.items()})
    return out


@pytest.mark.parametrize("name", MODELS)
def test_rounds_leave_the_joint_distribution_invariant(name):
    model = MODELS[name]
    p = p_values(model, Kernel(model.family, model.alpha, seed=SEED))
    assert min(p.values()) > BAR, p


BROKEN = {
    "gaussian, alpha left out": ("gaussian", {"log_ratio": mutants.no_alpha}),
    "gaussian, lgamma left out": ("gaussian", {"log_ratio": mutants.no_lgamma}),
    "gaussian, Gamma_D(nu)": ("gaussian", {"family": mutants.GammaOfTwice}),
    "gaussian, means left out of Psi": ("gaussian", {"family": mutants.NoMeanTerm}),
    "gaussian, one degree of freedom more": ("gaussian", {"family": mutants.OneRowMore}),
    "multinomial, lgamma left out": ("multinomial", {"log_ratio": mutants.no_lgamma}),
    "multinomial, half of the prior": ("multinomial", {"family": mutants.HalfPrior}),
}


@pytest.mark.parametrize("mutant", BROKEN)
def test_a_broken_sampler_is_rejected(mutant):
    name, change = BROKEN[mutant]
    model = MODELS[name]
    if "family" in change:
        change = {"family": mutants.of_class(change["family"], model.family)}
    kernel = replace(Kernel(model.family, model.alpha, seed=SEED), **change)
    p = p_values(model, kernel, n_worlds=4 * WORLDS_AT_ONCE)
    assert min(p.values()) < 1e-6, f"{mutant}: survived with {p}"
