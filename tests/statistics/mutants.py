"""Deliberate mistakes. A test of the sampler that accepts one of them has no power and fails.

Several were made in earnest: the first three stand in the paper's printed formulas.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import gammaln

from scstream.core.moves import log_subcluster_weights
from scstream.families import Gaussian, Multinomial
from scstream.kernels import REFERENCE, ClusterDraws


class NoMeanTerm(Gaussian):
    """nu* Psi* = nu Psi + sum x x^T, the terms of the means left out."""

    def _posterior(self, stats):
        kappa, mean, nu, scale = super()._posterior(stats)
        centre = mean + self.origin
        scale = scale + kappa[:, None, None] * centre[:, :, None] * centre[:, None, :]
        return kappa, mean, nu, scale - self.kappa * np.outer(self.mean, self.mean)


class GammaOfTwice(Gaussian):
    """Gamma_D(nu) in the marginal where Gamma_D(nu / 2) is right."""

    def log_marginal(self, stats):
        nu, d = self.nu + stats[:, 0], self.n_features
        right = log_multigamma(nu / 2, d) - log_multigamma(self.nu / 2, d)
        wrong = log_multigamma(nu, d) - log_multigamma(self.nu, d)
        return super().log_marginal(stats) + wrong - right


class UnbalancedUrn(Multinomial):
    """The marginal without the normaliser of the posterior Dirichlet."""

    def log_marginal(self, stats):
        total = self.concentration.sum()
        return (
            super().log_marginal(stats) + gammaln(total + stats[:, 1:].sum(axis=1)) - gammaln(total)
        )


class OneRowMore(Gaussian):
    """Draws with one degree of freedom too many."""

    def _posterior(self, stats):
        kappa, mean, nu, scale = super()._posterior(stats)
        return kappa, mean, nu + 1.0, scale


class WideMean(Gaussian):
    """Draws of the mean with the prior's kappa, as if no row had been seen."""

    def sample_posterior(self, stats, draws):
        return super().sample_posterior(
            stats, _Louder(draws, np.sqrt(1.0 + stats[:, :1] / self.kappa), self)
        )


class _Louder:
    """Draws whose last normals, those of the mean, are multiplied."""

    def __init__(self, draws, factor, family):
        self.draws, self.factor, self.d = draws, factor, family.n_features

    def normal(self, n):
        out = self.draws.normal(n)
        out[:, n - self.d :] *= self.factor
        return out

    def log_gamma(self, shape):
        return self.draws.log_gamma(shape)


class HalfPrior(Multinomial):
    """Draws of probabilities that see only half of the prior."""

    def sample_posterior(self, stats, draws):
        return Multinomial(self.concentration / 2.0).sample_posterior(stats, draws)


def of_class(broken, family):
    """The same prior in the hands of a broken family."""
    return broken(**family.hyperparameters())


def one_row_more_each(params, state):
    """Weights from Dir(N_1 + 1 .. N_K + 1)."""
    draws = ClusterDraws(REFERENCE, params.key ^ 1, state.ids)
    return replace(params, log_weight=draws.log_gamma(state.weight[:, None] + 1.0)[:, 0])


def even_weights(params, state):
    return replace(params, log_weight=np.zeros_like(params.log_weight))


def mean_weights(params, state):
    """Weights at their means, not drawn."""
    return replace(params, log_weight=np.log(state.weight))


def halves_without_alpha(params, state):
    """Sub-weights from Dir(N_l + 1, N_r + 1) whatever alpha is."""
    draws = ClusterDraws(REFERENCE, params.key ^ 1, state.ids)
    return replace(params, log_subweight=draws.log_gamma(state.subclusters[:, :, 0] + 1.0))


def greedy(params, state):
    """The most probable label, not a drawn one."""
    return replace(params, key=None)


def no_alpha(family, alpha, left, right):
    return family.kernels.log_split_ratio(family, 1.0, left, right)


def no_lgamma(family, alpha, left, right):
    n, m = left[:, 0], right[:, 0]
    return (
        family.kernels.log_split_ratio(family, alpha, left, right)
        - gammaln(n)
        - gammaln(m)
        + gammaln(n + m)
    )


def lgamma_of_union_only(family, alpha, left, right):
    return (
        family.kernels.log_split_ratio(family, alpha, left, right)
        - gammaln(left[:, 0])
        - gammaln(right[:, 0])
    )


def with_half_weights(family, alpha, left, right):
    """The merge ratio of the original program; good for streams, not the posterior's."""
    weights = log_subcluster_weights(alpha, left[:, 0], right[:, 0])
    return family.kernels.log_split_ratio(family, alpha, left, right) - weights


def log_multigamma(a, d):
    return np.sum([gammaln(a - 0.5 * j) for j in range(d)], axis=0)
