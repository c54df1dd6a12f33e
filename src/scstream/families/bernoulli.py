"""Binary columns, each under its own beta prior.

Statistics of a group are its count, and how often each column was seen to be one and to be zero;
a missing entry adds to neither, which marginalises it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import betaln

from scstream.errors import InputError
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
from scstream.families.columns import observed, placed, positive


@dataclass(frozen=True, eq=False)
class Bernoulli(Family):
    """Clusters of binary columns that are independent within a cluster; NaN is a missing entry.

    Parameters
    ----------
    a : array of shape (D,)
        How many ones the prior is worth in each column.
    b : array of shape (D,)
        How many zeros the prior is worth in each column.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Bernoulli
    >>> family = Bernoulli(a=np.ones(2), b=np.ones(2))
    >>> stats = family.stats(np.array([[1.0, 0.0], [1.0, np.nan]]), np.array([0, 0]), 1)
    >>> family.means(stats).round(3)
    array([[0.75 , 0.333]])
    """

    a: Array
    b: Array

    name = "bernoulli"
    handles_missing = True

    def __post_init__(self) -> None:
        size = max(np.size(self.a), np.size(self.b))
        object.__setattr__(self, "a", positive("a", self.a, size))
        object.__setattr__(self, "b", positive("b", self.b, size))

    @property
    def n_features(self) -> int:
        return len(self.a)

    @property
    def n_stats(self) -> int:
        return 1 + 2 * self.n_features

    def stats(
        self, X: Rows, group: Labels, n_groups: int, weight: Array | None = None
    ) -> Array:  # (G, P)
        present, ones = observed(X)
        values = np.column_stack([np.ones(len(ones)), ones, present - ones])
        return group_sums(values * unit_weight(X, weight)[:, None], group, n_groups)

    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        a, b = self._posterior(stats)
        return np.asarray((betaln(a, b) - betaln(self.a, self.b)).sum(axis=-1))

    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, 2D)
        """Draw the log probabilities of a one and of a zero; in log space, so that none is 0."""
        log_gamma = draws.log_gamma(np.concatenate(self._posterior(stats), axis=1))
        ones, zeros = np.split(log_gamma, 2, axis=1)
        return np.asarray(log_gamma - np.tile(np.logaddexp(ones, zeros), 2))

    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, 2D), (N, D) -> (N, G)
        present, ones = observed(X)
        return np.asarray(np.concatenate([ones, present - ones], axis=1) @ params.T)

    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, 2D)
        a, b = self._posterior(stats)
        return np.asarray(np.log(np.concatenate([a, b], axis=1) / np.tile(a + b, 2)))

    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, 2D), (N, D) -> (N, G)
        return self.log_likelihood(table, X)

    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        a, b = self._posterior(stats)
        return a / (a + b)

    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        share = self.means(stats)
        return np.asarray(np.sqrt(share * (1.0 - share)))

    def coordinates(self, X: Rows) -> Array:  # (N, D)
        """The entries themselves, the prior mean where they are missing."""
        present, ones = observed(X)
        return ones + (1.0 - present) * (self.a / (self.a + self.b))

    def check(self, X: Rows) -> None:
        super().check(X)
        wrong = ~(np.isnan(X) | (X == 0) | (X == 1))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            error = InputError(
                f"row {row}, column {column} is {X[row, column]} but Bernoulli columns hold 0, 1 "
                "or NaN; for more than two levels use family='categorical'."
            )
            raise placed(error, column, row)

    @classmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        """Expect any probability alike."""
        return cls(a=np.ones(X.shape[1]), b=np.ones(X.shape[1]))

    def prior_grid(self, stats: Array) -> list[Self]:
        """Priors of several strengths around even and around overall frequencies."""
        ones, zeros = np.split(stats[:, 1:].sum(axis=0) + 0.5, 2)
        return [
            replace(self, a=2.0 * strength * share, b=2.0 * strength * (1.0 - share))
            for share in (np.full(len(ones), 0.5), 0.9 * ones / (ones + zeros) + 0.05)
            for strength in (0.03, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 10.0)
        ]

    def hyperparameters(self) -> Hyperparameters:
        return {"a": self.a, "b": self.b}

    def _posterior(self, stats: Array) -> tuple[Array, Array]:  # (..., D), (..., D)
        d = self.n_features
        return self.a + stats[..., 1 : 1 + d], self.b + stats[..., 1 + d :]
