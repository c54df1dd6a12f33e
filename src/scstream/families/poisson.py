"""Columns of counts, each a Poisson variable under its own gamma prior.

Statistics of a group are its count, and the number and the sum of the entries present in each
column. The base measure 1/x!, common to all clusters, is `log_base`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import gammaln

from scstream.families.base import (
    Array,
    Draws,
    Family,
    Hyperparameters,
    Labels,
    Rows,
    group_sums,
    unit_weight,
)
from scstream.families.columns import observed, positive
from scstream.families.multinomial import check_counts
from scstream.families.scales import feature_scales


@dataclass(frozen=True, eq=False)
class Poisson(Family):
    """Clusters of counts that are independent within a cluster; NaN is a missing entry.

    Parameters
    ----------
    shape : array of shape (D,)
        Shape of the gamma prior of each column's rate: the events that it is worth.
    rate : array of shape (D,)
        Rate of the gamma prior: the rows that it is worth. The prior mean is ``shape / rate``.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Poisson
    >>> family = Poisson(shape=np.ones(2), rate=np.ones(2))
    >>> stats = family.stats(np.array([[3.0, 0.0], [4.0, np.nan]]), np.array([0, 0]), 1)
    >>> family.means(stats).round(3)
    array([[2.667, 0.5  ]])
    """

    shape: Array
    rate: Array

    name = "poisson"
    handles_missing = True

    def __post_init__(self) -> None:
        size = max(np.size(self.shape), np.size(self.rate))
        object.__setattr__(self, "shape", positive("shape", self.shape, size))
        object.__setattr__(self, "rate", positive("rate", self.rate, size))

    @property
    def n_features(self) -> int:
        return len(self.shape)

    @property
    def n_stats(self) -> int:
        return 1 + 2 * self.n_features

    def stats(
        self, X: Rows, group: Labels, n_groups: int, weight: Array | None = None
    ) -> Array:  # (G, P)
        present, events = observed(X)
        values = np.column_stack([np.ones(len(events)), present, events])
        return group_sums(values * unit_weight(X, weight)[:, None], group, n_groups)

    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        shape, rate = self._posterior(stats)
        prior = self.shape * np.log(self.rate) - gammaln(self.shape)
        return np.asarray((prior + gammaln(shape) - shape * np.log(rate)).sum(axis=-1))

    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, D)
        """Draw logarithms of the rates."""
        shape, rate = self._posterior(stats)
        return np.asarray(draws.log_gamma(shape) - np.log(rate))

    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, D), (N, D) -> (N, G)
        present, events = observed(X)
        return np.asarray(events @ params.T - present @ np.exp(params).T)

    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, 2D)
        return np.concatenate(self._posterior(stats), axis=1)

    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, 2D), (N, D) -> (N, G)
        """Negative binomial without 1/x!; lgamma once per distinct count of a column."""
        present, events = observed(X)
        shape, rate = np.split(table, 2, axis=1)
        # a log(b / (b + 1)) by log1p: b is large in a heavy group.
        out = present @ (-shape * np.log1p(1.0 / rate)).T - events @ np.log1p(rate).T
        for d in range(self.n_features):
            distinct, inverse = np.unique(events[:, d], return_inverse=True)
            rising = gammaln(shape[:, d] + distinct[:, None]) - gammaln(shape[:, d])
            out += rising[inverse]
        return np.asarray(out)

    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        shape, rate = self._posterior(stats)
        return shape / rate

    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        return np.asarray(np.sqrt(self.means(stats)))

    def coordinates(self, X: Rows) -> Array:  # (N, D)
        """Twice the square roots, whose variance is one; the prior mean where missing."""
        present, events = observed(X)
        return np.asarray(2.0 * np.sqrt(np.where(present > 0, events, self.shape / self.rate)))

    def log_base(self, X: Rows) -> Array:  # (N,)
        return np.asarray(-gammaln(observed(X)[1] + 1.0).sum(axis=1))

    def check(self, X: Rows) -> None:
        super().check(X)
        check_counts(X)

    @classmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        """Expect rates about the mean of the first batch, with an exponential prior."""
        check_counts(X)
        mean = feature_scales(X, weight)[0]
        # A column without events: less than one of them in as many rows as were seen.
        return cls(shape=np.ones(len(mean)), rate=1.0 / np.maximum(mean, 1.0 / (1 + X.shape[0])))

    def prior_grid(self, stats: Array) -> list[Self]:
        """Priors of several strengths around the overall rates."""
        n_present, events = np.split(stats[:, 1:].sum(axis=0), 2)
        mean = (events + 0.5) / (n_present + 0.5 / self.means(np.zeros((1, self.n_stats)))[0])
        return [
            replace(self, shape=np.full(self.n_features, strength), rate=strength / mean)
            for strength in (0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 6.0, 12.0, 30.0)
        ]

    def hyperparameters(self) -> Hyperparameters:
        return {"shape": self.shape, "rate": self.rate}

    def _posterior(self, stats: Array) -> tuple[Array, Array]:  # (..., D), (..., D)
        d = self.n_features
        return self.shape + stats[..., 1 + d :], self.rate + stats[..., 1 : 1 + d]
