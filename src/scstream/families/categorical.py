"""Columns of level codes, each under its own Dirichlet prior.

Statistics of a group are its count and how often each level of each column was seen; a missing
entry adds to no level, which marginalises it exactly. L is the number of levels of all columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from scstream.errors import InputError
from scstream.families.base import Array, Draws, Family, Hyperparameters, Labels, Rows, unit_weight
from scstream.families.columns import placed, positive


@dataclass(frozen=True, eq=False)
class Categorical(Family):
    """Clusters of categorical columns that are independent within a cluster; NaN is missing.

    Parameters
    ----------
    n_levels : tuple of int
        How many levels each column has; the entries of a column are codes from 0 to its number of
        levels less one.
    concentration : array of shape (L,)
        Parameters of the Dirichlet priors, the levels of one column after those of another. One
        number stands for all.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Categorical
    >>> family = Categorical(n_levels=(2, 3), concentration=1.0)
    >>> stats = family.stats(np.array([[0.0, 2.0], [0.0, np.nan]]), np.array([0, 0]), 1)
    >>> family.probabilities(stats).round(3)
    array([[0.75, 0.25, 0.25, 0.25, 0.5 ]])
    >>> family.means(stats)
    array([[0., 2.]])
    """

    n_levels: tuple[int, ...]
    concentration: Array | float = 1.0

    name = "categorical"
    handles_missing = True

    def __post_init__(self) -> None:
        n_levels = tuple(int(n) for n in np.atleast_1d(self.n_levels))
        if not n_levels or min(n_levels) < 1:
            raise InputError(f"n_levels must give every column at least one level, got {n_levels}.")
        concentration = positive("concentration", self.concentration, sum(n_levels))
        object.__setattr__(self, "n_levels", n_levels)
        object.__setattr__(self, "concentration", concentration)

    @property
    def n_features(self) -> int:
        return len(self.n_levels)

    @property
    def n_stats(self) -> int:
        return 1 + sum(self.n_levels)

    def stats(
        self, X: Rows, group: Labels, n_groups: int, weight: Array | None = None
    ) -> Array:  # (G, P)
        keep = np.flatnonzero(group >= 0)
        weight = unit_weight(X, weight)[keep]
        member = sparse.csr_array((weight, (group[keep], keep)), shape=(n_groups, X.shape[0]))
        counts = member @ self._indicator(X)
        return np.column_stack([member.sum(axis=1), counts.toarray()])

    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        posterior = self.concentration + stats[..., 1:]
        levels = (gammaln(posterior) - gammaln(self.concentration)).sum(axis=-1)
        totals = gammaln(self._totals(posterior)) - gammaln(self._totals(self._prior))
        return np.asarray(levels - totals.sum(axis=-1))

    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, L)
        """Draw log probabilities; in log space, since tiny concentrations underflow otherwise."""
        log_gamma = draws.log_gamma(self.concentration + stats[:, 1:])
        totals = np.logaddexp.reduceat(log_gamma, self._starts, axis=1)
        return np.asarray(log_gamma - np.repeat(totals, self.n_levels, axis=1))

    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, L), (N, D) -> (N, G)
        return np.asarray(self._indicator(X) @ params.T)

    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, L)
        return np.asarray(np.log(self.probabilities(stats)))

    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, L), (N, D) -> (N, G)
        return self.log_likelihood(table, X)

    def probabilities(self, stats: Array) -> Array:  # (G, P) -> (G, L)
        """Posterior mean of the probability of every level of every column."""
        posterior = self.concentration + stats[:, 1:]
        return posterior / np.repeat(self._totals(posterior), self.n_levels, axis=1)

    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        """Most probable level of each column: a mean of codes would mean nothing."""
        levels = np.split(self.probabilities(stats), self._starts[1:], axis=1)
        return np.column_stack([share.argmax(axis=1) for share in levels]).astype(np.float64)

    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        """Standard deviation of each column's indicator vector, zero for a certain level."""
        square = np.add.reduceat(self.probabilities(stats) ** 2, self._starts, axis=1)
        return np.asarray(np.sqrt(np.maximum(1.0 - square, 0.0)))

    def coordinates(self, X: Rows) -> Array:  # (N, L)
        """Indicators of the levels, the prior probabilities where an entry is missing."""
        missing = np.repeat(np.isnan(X), self.n_levels, axis=1)
        prior = self.probabilities(np.zeros((1, self.n_stats)))
        return np.where(missing, prior, self._indicator(X).toarray())

    def coordinates_of(self, stats: Array) -> Array:  # (G, P) -> (G, L)
        return self.probabilities(stats)

    def check(self, X: Rows) -> None:
        super().check(X)
        _check_codes(X)
        highest = np.nanmax(X, axis=0, initial=0.0)
        unseen = np.flatnonzero(highest >= self.n_levels)
        if unseen.size:
            column = int(unseen[0])
            error = InputError(
                f"column {column} holds the level {int(highest[column])} but this family was "
                f"built with {self.n_levels[column]} levels for it (codes 0 to "
                f"{self.n_levels[column] - 1}); to leave room for levels that come later, give a "
                "larger n_levels when building the family."
            )
            raise placed(error, column)

    @classmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        """Expect any probabilities alike, of as many levels as the first batch shows."""
        _check_codes(X)
        n_levels = np.nanmax(X, axis=0, initial=0.0).astype(int) + 1
        return cls(n_levels=tuple(n_levels.tolist()), concentration=1.0)

    def prior_grid(self, stats: Array) -> list[Self]:
        """Priors of several strengths around even and around overall frequencies."""
        levels = np.repeat(np.asarray(self.n_levels, dtype=np.float64), self.n_levels)
        total = stats[:, 1:].sum(axis=0) + 1.0 / levels
        overall = total / np.repeat(self._totals(total), self.n_levels)
        return [
            replace(self, concentration=strength * levels * share)
            for share in (1.0 / levels, 0.9 * overall + 0.1 / levels)
            for strength in (0.03, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 10.0)
        ]

    def hyperparameters(self) -> Hyperparameters:
        return {"n_levels": list(self.n_levels), "concentration": self.concentration}

    @cached_property
    def _prior(self) -> Array:
        return np.asarray(self.concentration, dtype=np.float64)

    @cached_property
    def _starts(self) -> Labels:
        """Place of each column's first level."""
        return np.concatenate([[0], np.cumsum(self.n_levels)[:-1]]).astype(np.int64)

    def _totals(self, values: Array) -> Array:  # (..., L) -> (..., D)
        return np.asarray(np.add.reduceat(values, self._starts, axis=-1))

    def _indicator(self, X: Rows) -> sparse.csr_array:  # (N, D) -> (N, L)
        X = np.asarray(X, dtype=np.float64)
        row, column = np.nonzero(~np.isnan(X))
        level = self._starts[column] + X[row, column].astype(np.int64)
        return sparse.csr_array(
            (np.ones(len(row)), (row, level)), shape=(len(X), sum(self.n_levels))
        )


def _check_codes(X: Rows) -> None:
    wrong = ~(np.isnan(X) | ((X >= 0) & (np.floor(X) == X)))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        error = InputError(
            f"row {row}, column {column} is {X[row, column]} but categorical columns hold codes "
            "0, 1, 2, ... or NaN; number the levels of that column first."
        )
        raise placed(error, column, row)
