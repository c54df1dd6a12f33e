"""The conformance kit itself: right families pass, and each wrong one breaks the law it should."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import gammaln, multigammaln

from scstream.errors import InputError
from scstream.families import Bernoulli, Diagonal, Gaussian, Multinomial, Poisson, Subspace
from scstream.testing import FAMILY_LAWS, check_family

RNG = np.random.default_rng(5)
POINTS = RNG.standard_normal((30, 2)) + 2.0
COUNTS = RNG.poisson(3.0, (30, 3)).astype(float)
TURNED = POINTS @ np.array([[0.1, 3.0, 0.0], [0.0, 0.5, 1.0]])
BITS = (RNG.random((30, 3)) < 0.4).astype(float)


@dataclass(frozen=True, eq=False)
class HalfForgottenGamma(Gaussian):
    """Gamma_D(nu*) as the paper prints it, in place of Gamma_D(nu* / 2)."""

    def log_marginal(self, stats):
        nu, d = self.nu + stats[..., 0], self.n_features
        right = super().log_marginal(stats)
        ours = multigammaln(nu / 2, d) - multigammaln(self.nu / 2, d)
        return right - ours + multigammaln(nu, d) - multigammaln(self.nu, d)


@dataclass(frozen=True, eq=False)
class MeanForgotten(Gaussian):
    """Psi* without the terms of the means, as the paper prints it."""

    def _posterior(self, stats):
        kappa, mean, nu, scale = super()._posterior(stats)
        prior = self.mean - self.origin
        after = kappa[:, None, None] * mean[:, :, None] * mean[:, None, :]
        return kappa, mean, nu, scale + after - self.kappa * np.outer(prior, prior)


@dataclass(frozen=True, eq=False)
class RowsForDraws(Multinomial):
    """Marginal with the number of rows where the number of drawn words belongs."""

    def log_marginal(self, stats):
        total = self.concentration.sum()
        drawn = stats[..., 1:].sum(axis=-1)
        return super().log_marginal(stats) + gammaln(total + drawn) - gammaln(total + stats[..., 0])


@dataclass(frozen=True, eq=False)
class PlugIn(Multinomial):
    """Predictive by the posterior mean, as the original program does it."""

    def predictive_params(self, stats):
        posterior = super().predictive_params(stats)
        return np.log(posterior / posterior.sum(axis=1, keepdims=True))

    def log_predictive(self, table, X):
        return self.log_likelihood(table, X)


@dataclass(frozen=True, eq=False)
class ForwardBartlett(Gaussian):
    """Degrees of freedom of the Bartlett diagonal in the wrong order: nu - i."""

    def sample_posterior(self, stats, draws):
        return super().sample_posterior(stats, _Reversed(draws))


class _Reversed:
    def __init__(self, draws):
        self.draws = draws

    def normal(self, n):
        return self.draws.normal(n)

    def log_gamma(self, shape):
        return self.draws.log_gamma(shape[:, ::-1])


@dataclass(frozen=True, eq=False)
class OneDegreeMore(Diagonal):
    def sample_posterior(self, stats, draws):
        shifted = stats.copy()
        shifted[:, 1 : 1 + self.n_features] += 1.0
        return super().sample_posterior(shifted, draws)


@dataclass(frozen=True, eq=False)
class MeanTooSure(Gaussian):
    """The drawn mean does not widen with 1 / kappa."""

    def sample_posterior(self, stats, draws):
        return super().sample_posterior(stats, _Quiet(draws))


class _Quiet(_Reversed):
    def normal(self, n):
        return 0.5 * self.draws.normal(n)

    def log_gamma(self, shape):
        return self.draws.log_gamma(shape)


@dataclass(frozen=True, eq=False)
class CountsTheLeftOut(Poisson):
    def stats(self, X, group, n_groups, weight=None):
        return super().stats(X, np.maximum(group, 0), n_groups, weight)


@dataclass(frozen=True, eq=False)
class Weightless(Poisson):
    def stats(self, X, group, n_groups, weight=None):
        return super().stats(X, group, n_groups)


@dataclass(frozen=True, eq=False)
class NormalisedPerBatch(Poisson):
    """Not additive: rows are centred on their own batch."""

    def stats(self, X, group, n_groups, weight=None):
        return super().stats(X / np.nanmean(X), group, n_groups, weight)


@dataclass(frozen=True, eq=False)
class NotEmpty(Poisson):
    def log_marginal(self, stats):
        return super().log_marginal(stats) + 1e-6


@dataclass(frozen=True, eq=False)
class LopsidedCut(Gaussian):
    def bisect(self, stats, along):
        out = super().bisect(stats, along)
        out[:, 0] = 0.1
        return out


@dataclass(frozen=True, eq=False)
class MeansOnlyMove(Gaussian):
    def translate(self, stats, shift):
        out = stats.copy()
        out[:, 1 : 1 + self.n_features] += stats[:, :1] * shift
        return out


@dataclass(frozen=True, eq=False)
class MissingIsZero(Bernoulli):
    def stats(self, X, group, n_groups, weight=None):
        return super().stats(np.nan_to_num(X), group, n_groups, weight)


@dataclass(frozen=True, eq=False)
class MissingHasADensity(Bernoulli):
    def log_likelihood(self, params, X):
        return super().log_likelihood(params, np.nan_to_num(X))


@dataclass(frozen=True, eq=False)
class OriginForgotten(Gaussian):
    def hyperparameters(self):
        return {key: value for key, value in super().hyperparameters().items() if key != "origin"}


@dataclass(frozen=True, eq=False)
class NormalisedOverGroups(Multinomial):
    def log_likelihood(self, params, X):
        log_p = super().log_likelihood(params, X)
        return log_p - log_p.max(axis=1, keepdims=True, initial=-np.inf)


@dataclass(frozen=True, eq=False)
class DenseOnly(Multinomial):
    def coordinates(self, X):
        return super().coordinates(X) if isinstance(X, np.ndarray) else 0.0 * X.toarray()


@dataclass(frozen=True, eq=False)
class MovingOrigin(Gaussian):
    def prior_grid(self, stats):
        return [type(self)(option.mean, 1.0, 4.0, self.psi) for option in super().prior_grid(stats)]


@dataclass(frozen=True, eq=False)
class NegativeSpread(Poisson):
    def stds(self, stats):
        return -super().stds(stats)


@dataclass(frozen=True, eq=False)
class OpenDoor(Poisson):
    def check(self, X):
        """Let everything in."""


@dataclass(frozen=True, eq=False)
class GainsTooMuch(Multinomial):
    def log_leave_one_out(self, X, weight, group, stats):
        return super().log_leave_one_out(X, np.ones_like(weight), group, stats)


@dataclass(frozen=True, eq=False)
class MeansLeftBehind(Subspace):
    """Forgets the first moments outside the old subspace."""

    def transported(self, stats, old):
        out = super().transported(stats, old)
        first = stats[..., 1 : 1 + self.n_features]
        out[..., 1 : 1 + self.n_features] = first @ old.basis @ old.basis.T
        return out


def subspace(kind):
    return kind(np.zeros(3), 0.5, 5.0, np.eye(1), np.eye(3)[:, :1], 2.0, 0.5)


def gaussian(kind):
    psi = np.array([[1.0, 0.3], [0.3, 0.5]])
    return kind(mean=np.zeros(2), kappa=0.5, nu=5.0, psi=psi, origin=np.full(2, 1.5))


def diagonal(kind):
    return kind(mean=np.zeros(2), kappa=0.5, nu=5.0, psi=np.ones(2))


def multinomial(kind):
    return kind(concentration=np.array([0.5, 1.0, 2.0]))


def bernoulli(kind):
    return kind(a=np.array([0.5, 1.0, 2.0]), b=np.ones(3))


def poisson(kind):
    return kind(shape=np.array([0.5, 1.0, 2.0]), rate=np.full(3, 0.5))


MUTANTS = [
    (gaussian, HalfForgottenGamma, POINTS, "marginal"),
    (gaussian, MeanForgotten, POINTS, "marginal"),
    (multinomial, RowsForDraws, COUNTS, "marginal"),
    (multinomial, PlugIn, COUNTS, "marginal"),
    (multinomial, GainsTooMuch, COUNTS, "leave_one_out"),
    (gaussian, ForwardBartlett, POINTS, "posterior_samples"),
    (diagonal, OneDegreeMore, POINTS, "posterior_samples"),
    (gaussian, MeanTooSure, POINTS, "posterior_samples"),
    (poisson, CountsTheLeftOut, COUNTS, "additivity"),
    (poisson, NormalisedPerBatch, COUNTS, "additivity"),
    (poisson, Weightless, COUNTS, "weights"),
    (poisson, NotEmpty, COUNTS, "empty"),
    (gaussian, LopsidedCut, POINTS, "bisect"),
    (gaussian, MeansOnlyMove, POINTS, "translation"),
    (bernoulli, MissingIsZero, BITS, "missing"),
    (bernoulli, MissingHasADensity, BITS, "missing"),
    (gaussian, OriginForgotten, POINTS, "hyperparameters"),
    (multinomial, NormalisedOverGroups, COUNTS, "independence"),
    (multinomial, DenseOnly, COUNTS, "sparse"),
    (gaussian, MovingOrigin, POINTS, "prior_grid"),
    (poisson, NegativeSpread, COUNTS, "summaries"),
    (poisson, OpenDoor, COUNTS, "domain"),
    (subspace, MeansLeftBehind, TURNED, "adaptation"),
]


@pytest.mark.parametrize(("build", "mutant", "X", "law"), MUTANTS)
def test_a_wrong_family_breaks_the_expected_law(build, mutant, X, law):
    with pytest.raises(AssertionError, match=f"'{law}'"):
        check_family(build(mutant), X, laws=[law])
    check_family(build(mutant.__base__), X, laws=[law])


@pytest.mark.parametrize(("build", "mutant", "X", "law"), MUTANTS)
def test_a_wrong_family_does_not_pass(build, mutant, X, law):
    with pytest.raises(AssertionError, match="breaks the law"):
        check_family(build(mutant), X)


@pytest.mark.statistics
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mutant", [ForwardBartlett, MeanTooSure])
def test_wrong_posterior_samples_are_found_with_any_seed(mutant, seed):
    """Power, not false alarms: both are tens of standard errors off, the bar stands at six."""
    with pytest.raises(AssertionError, match="standard errors"):
        check_family(gaussian(mutant), POINTS, seed=seed, laws=["posterior_samples"])


def test_every_law_has_a_mutant():
    assert {law for *_, law in MUTANTS} == set(FAMILY_LAWS)


def test_too_few_rows_are_rejected():
    with pytest.raises(InputError, match="four rows"):
        check_family(gaussian(Gaussian), POINTS[:3])
