"""Multinomial counts under a Dirichlet prior, for dense and CSR rows.

A row of counts is treated as the sequence of its draws; the multinomial coefficient, common to all
clusters, is the base measure `log_base`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import gammaln, logsumexp, xlogy

from scstream.errors import InputError
from scstream.families.base import Array, Draws, Family, Hyperparameters, Labels, Rows, unit_weight
from scstream.families.columns import placed
from scstream.kernels.reference import accelerated

_MOST_LEVELS = 32  # counts up to this one are summed level by level, larger ones by lgamma
_CHUNK = 1 << 22
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Multinomial(Family):
    """Clusters of count vectors, such as bags of words.

    Parameters
    ----------
    concentration : array of shape (D,)
        Parameters of the Dirichlet prior, all positive.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Multinomial
    >>> family = Multinomial(concentration=np.ones(3))
    >>> stats = family.stats(np.array([[2, 1, 0], [3, 0, 0]]), np.array([0, 0]), 1)
    >>> family.means(stats).round(3)
    array([[0.667, 0.222, 0.111]])
    """

    concentration: Array

    name = "multinomial"
    accepts_sparse = True

    def __post_init__(self) -> None:
        concentration = np.atleast_1d(np.asarray(self.concentration, dtype=np.float64))
        if concentration.ndim != 1 or not (np.isfinite(concentration) & (concentration > 0)).all():
            raise InputError("concentration must be a vector of positive numbers.")
        object.__setattr__(self, "concentration", concentration)

    @property
    def n_features(self) -> int:
        return len(self.concentration)

    @property
    def n_stats(self) -> int:
        return 1 + self.n_features

    @accelerated
    def stats(
        self, X: Rows, group: Labels, n_groups: int, weight: Array | None = None
    ) -> Array:  # (G, P)
        keep = np.flatnonzero(group >= 0)
        weight = unit_weight(X, weight)[keep]
        member = sparse.csr_array((weight, (group[keep], keep)), shape=(n_groups, X.shape[0]))
        counts = member @ sparse.csr_array(X)
        return np.column_stack([member.sum(axis=1), counts.toarray()])

    @accelerated
    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        posterior = self.concentration + stats[..., 1:]
        prior = gammaln(self.concentration.sum()) - gammaln(self.concentration).sum()
        return np.asarray(prior - gammaln(posterior.sum(axis=-1)) + gammaln(posterior).sum(axis=-1))

    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, D)
        """Draw log probabilities; in log space, since tiny concentrations underflow otherwise."""
        return self.parameters(draws.log_gamma(self.concentration + stats[:, 1:]))

    @accelerated
    def parameters(self, log_gammas: Array) -> Array:  # (G, D) -> (G, D)
        """Make a draw of the logarithms of gamma variates."""
        return np.asarray(log_gammas - logsumexp(log_gammas, axis=1, keepdims=True))

    @accelerated
    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, D), (N, D) -> (N, G)
        return np.asarray(sparse.csr_array(X) @ params.T)

    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        return self.concentration + stats[:, 1:]

    @accelerated
    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, D), (N, D) -> (N, G)
        """Dirichlet-multinomial: lgamma(A) - lgamma(A+n) + sum_j lgamma(d_j+x_j) - lgamma(d_j).

        For whole counts the last sum is a sum of log(d_j + c) over c = 0 .. x_j - 1, which is one
        matrix product per level c; what is left above the highest level, or behind the decimal
        point, is added by lgamma.
        """
        X = sparse.csr_array(X, dtype=np.float64)
        out = -_log_rising(table.sum(axis=1), np.asarray(X.sum(axis=1)))
        integers = np.minimum(np.floor(X.data), _MOST_LEVELS)
        for level in range(int(integers.max(initial=0.0))):
            indicator = sparse.csr_array(
                ((integers > level).astype(np.float64), X.indices, X.indptr), shape=X.shape
            )
            out += indicator @ np.log(table + level).T
        remaining = np.flatnonzero(X.data != integers)
        row = np.searchsorted(X.indptr, remaining, side="right") - 1
        step = max(1, _CHUNK // max(1, len(table)))
        for start in range(0, len(remaining), step):
            entry = remaining[start : start + step]
            base = table[:, X.indices[entry]]
            extra = gammaln(base + X.data[entry]) - gammaln(base + integers[entry])
            np.add.at(out, row[start : start + step], extra.T)
        return out

    @accelerated
    def log_leave_one_out(
        self, X: Rows, weight: Array, group: Labels, stats: Array
    ) -> Array:  # (N,)
        # Only outcomes that a row has change when it is taken out.
        X = sparse.csr_array(X, dtype=np.float64)
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        table = self.predictive_params(stats)
        counts, total = table[group[row], X.indices], table.sum(axis=1)[group]
        gain = gammaln(counts) - gammaln(np.maximum(counts - weight[row] * X.data, _TINY))
        out = gammaln(np.maximum(total - weight * X.sum(axis=1), _TINY)) - gammaln(total)
        return np.asarray(out + np.bincount(row, gain, minlength=len(out)))

    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        posterior = self.predictive_params(stats)
        return np.asarray(posterior / posterior.sum(axis=1, keepdims=True))

    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        share = self.means(stats)
        return np.asarray(np.sqrt(share * (1.0 - share)))

    def coordinates(self, X: Rows) -> Array:  # (N, D)
        """Square roots of frequencies, whose Euclidean distance is Hellinger's."""
        X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        total = X.sum(axis=1, keepdims=True)
        return np.asarray(np.sqrt(X / np.where(total > 0, total, 1.0)))

    @accelerated
    def coordinates_of(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        return super().coordinates_of(stats)

    def log_base(self, X: Rows) -> Array:  # (N,)
        X = sparse.csr_array(X, dtype=np.float64)
        terms = sparse.csr_array((gammaln(X.data + 1.0), X.indices, X.indptr), shape=X.shape)
        return np.asarray(gammaln(np.asarray(X.sum(axis=1)) + 1.0) - terms.sum(axis=1))

    def typicality(self, X: Rows, log_predictive: Array) -> Array:  # (N,), (N,) -> (N,)
        """Minus the divergence of the group from the frequencies of each row, per count.

        The density itself is highest for the shortest rows.
        """
        total = np.asarray(X.sum(axis=1), dtype=np.float64)
        if sparse.issparse(X):
            terms = sparse.csr_array((xlogy(X.data, X.data), X.indices, X.indptr), shape=X.shape)
        else:
            terms = xlogy(X, X)
        own = terms.sum(axis=1) - xlogy(total, total)
        per_count = (log_predictive - own) / np.where(total > 0, total, 1.0)
        return np.where(total > 0, per_count, -np.inf)

    def check(self, X: Rows) -> None:
        super().check(X)
        check_counts(X)

    @classmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        """Expect even frequencies, with less conviction where rows hold few of many outcomes.

        One per outcome would swamp a title of five words, and as little as a row has would let any
        row found a cluster: half way between them.
        """
        weight = unit_weight(X, weight)
        per_row = float(weight @ np.asarray(X.sum(axis=1)).ravel()) / max(float(weight.sum()), 1.0)
        concentration = float(np.clip(np.sqrt(max(per_row, 0.0) / X.shape[1]), 0.01, 1.0))
        return cls(concentration=np.full(X.shape[1], concentration))

    def prior_grid(self, stats: Array) -> list[Self]:
        """Priors of the same shape, as strong or stronger.

        Weaker ones, and those around the overall frequencies, explain real counts better, but by
        founding a cluster for every burst of a word.
        """
        return [
            replace(self, concentration=factor * self.concentration)
            for factor in (1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 16.0)
        ]

    def hyperparameters(self) -> Hyperparameters:
        return {"concentration": self.concentration}

    def compiled_by(self, native: ModuleType) -> Any:
        """Return the compiled form of this family."""
        return native.Multinomial(self.concentration)


def check_counts(X: Rows) -> None:
    """Raise unless every entry is a count (fractions are legal, negative numbers are not)."""
    negative = (X.data if sparse.issparse(X) else X) < 0
    if not negative.any():
        return
    if sparse.issparse(X):
        row, column = (int(places[negative][0]) for places in X.tocoo().coords)
    else:
        row, column = (int(place) for place in np.argwhere(negative)[0])
    error = InputError(
        f"row {row}, column {column} is {X[row, column]:g} but counts must not be negative; for "
        "real-valued columns use family='gaussian' or family='diagonal'."
    )
    raise placed(error, column, row)


def _log_rising(base: Array, steps: Array) -> Array:  # (G,), (N,) -> (N, G)
    """lgamma(base + steps) - lgamma(base), computed once per distinct number of steps."""
    distinct, inverse = np.unique(steps, return_inverse=True)
    return np.asarray((gammaln(base + distinct[:, None]) - gammaln(base))[inverse])
