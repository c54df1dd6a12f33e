"""What a cluster is: the protocol of an exponential family with a conjugate prior.

Statistics are a vector space: one float64 row per group, column 0 the (fractional) count. Pooling
is ``+``, forgetting is ``*``. Drawn parameters and predictive tables are one float64 row per group
too, so that whatever moves between threads, workers and files is a plain array.

Shapes: N rows, D features, G groups, P statistics, Q parameters, R predictive entries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scstream.errors import InputError
from scstream.kernels import REFERENCE, Kernels
from scstream.kernels.reference import accelerated

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Rows = Any  # (N, D) float64 array, or scipy CSR where `accepts_sparse`
Hyperparameters: TypeAlias = dict[str, "float | Array | list[object]"]

_CHUNK = 1 << 22  # statistics of unions or of remainders held at a time


class Draws(Protocol):
    """Random numbers with an address, one independent line of them per group."""

    def normal(self, n: int) -> Array:
        """Return (G, n) standard normals."""

    def log_gamma(self, shape: Array) -> Array:
        """Return logarithms of Gamma(shape, 1) variates for `shape` (G, n)."""


@dataclass(frozen=True, eq=False)
class Family(ABC):
    """An exponential family under a conjugate prior; the prior lives in the frozen instance.

    A new family overrides the abstract methods; `scstream.testing.check_family` checks whether they
    obey the laws. The other methods have defaults that are always correct.

    Parameters
    ----------
    kernels : Kernels
        The numerical kernels; a model sets them when it starts.
    """

    name: ClassVar[str]
    handles_missing: ClassVar[bool] = False
    accepts_sparse: ClassVar[bool] = False
    supports_translation: ClassVar[bool] = False
    collapsed: ClassVar[bool] = False  # learn by predictives and by groups of rows, without draws

    kernels: Kernels = field(default=REFERENCE, kw_only=True, repr=False)

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns D of a row."""

    @property
    @abstractmethod
    def n_stats(self) -> int:
        """Number of statistics P of a group."""

    @abstractmethod
    def stats(
        self, X: Rows, group: Labels, n_groups: int, weight: Array | None = None
    ) -> Array:  # (G, P)
        """Sum the statistics of the rows of each group; rows with ``group < 0`` are left out."""

    @abstractmethod
    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        """Logarithm of the marginal likelihood of each group; zero for an empty one."""

    @abstractmethod
    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, Q)
        """Draw the parameters of each group from their posterior."""

    @abstractmethod
    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, Q), (N, D) -> (N, G)
        """Logarithm of the likelihood of each row under each group's parameters."""

    @abstractmethod
    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, R)
        """Compute once per group what `log_predictive` needs."""

    @abstractmethod
    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, R), (N, D) -> (N, G)
        """Logarithm of the posterior predictive density of each row under each group."""

    @abstractmethod
    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        """Posterior mean of a row of each group."""

    @abstractmethod
    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        """Standard deviation of each feature in each group."""

    @classmethod
    @abstractmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        """Build the family with a weak prior scaled to a first batch."""

    @abstractmethod
    def prior_grid(self, stats: Array) -> list[Self]:
        """Return this family under other priors worth trying on groups with these statistics."""

    @abstractmethod
    def hyperparameters(self) -> Hyperparameters:
        """Return the keyword arguments that rebuild this instance: numbers, strings and arrays."""

    @cached_property
    def compiled(self) -> Any:
        """The compiled form of this family, None if there is none."""
        return self.kernels.compile(self)

    def with_kernels(self, kernels: Kernels) -> Self:
        """Return this family with other kernels to compute with."""
        other = copy(self)
        for name in ("compiled", "prior_predictive"):
            other.__dict__.pop(name, None)
        object.__setattr__(other, "kernels", kernels)
        return other

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "compiled"}

    @cached_property
    def prior_predictive(self) -> Array:  # (1, R)
        """Predictive table of a group without rows."""
        return self.predictive_params(np.zeros((1, self.n_stats)))

    @property
    def typical_params(self) -> Array | None:  # (1, R)
        """Predictive table with the density that rows of a cluster typically have in it.

        Rows that fit their cluster worse may form new clusters. None: only rows that are more
        probable in a new cluster than in any other.
        """
        return None

    def may_found(self, X: Rows, log_density: Array) -> NDArray[np.bool_]:  # (N,)
        """Return which rows may be more probable in a new cluster of these rows than they are now.

        `log_density` (N,) is that of each row under its best cluster, times its weight.
        """
        return np.ones(X.shape[0], dtype=np.bool_)

    def screening_params(self, stats: Array) -> Array | None:  # (G, P) -> (G, S)
        """Compute once per group what `log_screen` needs; None if a family has no cheap score."""
        return None

    def log_screen(self, table: Array, X: Rows) -> Array:  # (G, S), (N, D) -> (N, G)
        """Return a cheap approximation of `log_predictive`, which finds the best few groups."""
        raise NotImplementedError(f"{self.name} rows have no cheap score")

    @accelerated
    def log_marginal_of_unions(self, stats: Array, first: Labels, second: Labels) -> Array:
        """Logarithm of the marginal likelihood of the unions of pairs of groups, shape (M,)."""
        step = max(1, _CHUNK // self.n_stats)
        parts = [np.zeros(0)]
        for start in range(0, len(first), step):
            pairs = slice(start, start + step)
            parts.append(self.log_marginal(stats[first[pairs]] + stats[second[pairs]]))
        return np.concatenate(parts)

    def log_leave_one_out(
        self, X: Rows, weight: Array, group: Labels, stats: Array
    ) -> Array:  # (N,)
        """What each row adds to the log marginal of its group: log f(S) - log f(S - x)."""
        out = np.empty(len(group))
        marginal = self.log_marginal(stats)
        step = max(1, _CHUNK // self.n_stats)
        for start in range(0, len(group), step):
            rows = slice(start, start + step)
            n = len(group[rows])
            others = stats[group[rows]] - self.stats(X[rows], np.arange(n), n, weight[rows])
            others[:, 0] = np.maximum(others[:, 0], np.finfo(float).tiny)
            out[rows] = marginal[group[rows]] - self.log_marginal(others)
        return out

    def mean_log_density(self, stats: Array) -> Array:  # (G, P) -> (G,)
        """Mean log predictive density of the rows of each group under the group itself."""
        count = np.maximum(stats[:, 0], np.finfo(float).tiny)
        return np.asarray((self.log_marginal(2.0 * stats) - self.log_marginal(stats)) / count)

    def log_overlap(self, stats: Array, first: Labels, second: Labels) -> Array:  # (M,)
        """Log of the overlap of pairs of groups: zero for equal groups, very negative far apart.

        It is the Bhattacharyya coefficient where a family knows it. The default is what the union
        of both, taken as equally heavy, loses in mean log density.
        """
        share = stats / np.maximum(stats[:, :1], np.finfo(float).tiny)
        weight = np.minimum(stats[first, 0], stats[second, 0])[:, None]
        left, right = weight * share[first], weight * share[second]
        apart = 0.5 * (self.mean_log_density(left) + self.mean_log_density(right))
        return np.asarray(np.minimum(self.mean_log_density(left + right) - apart, 0.0))

    def bisect(self, stats: Array, along: Array) -> Array:  # (G, P), (G, P) -> (G, P)
        """Difference, per unit of weight, between the halves of each group and half of the group.

        The halves of a group ``s`` are ``s / 2 + s[0] * bisect`` and ``s / 2 - s[0] * bisect``. The
        direction of the cut is taken from the statistics `along`. The default cuts nothing: both
        halves are alike.
        """
        return np.zeros_like(stats)

    def translate(self, stats: Array, shift: Array) -> Array:  # (G, P), (G, D) -> (G, P)
        """Statistics of the same rows moved by `shift`; only where `supports_translation`."""
        raise NotImplementedError(f"{self.name} rows cannot be moved")

    def adapted(self, stats: Array, X: Rows, weight: Array | None = None) -> Self:
        """Return this family with what it shares between clusters learned from one more batch.

        `stats` (K, P) are the clusters after the batch, `X` its rows. A family whose clusters
        share a basis or the parameters of a hierarchical prior overrides this.
        """
        return self

    def transported(self, stats: Array, old: Self) -> Array:  # (..., P) -> (..., P)
        """Return the statistics of the same rows for this family, from those for `old`.

        This family is ``old.adapted(...)``. Only a family whose statistics depend on what
        `adapted` learns overrides this.
        """
        return stats

    def coordinates(self, X: Rows) -> Array:  # (N, D) -> (N, C)
        """Dense coordinates of the rows in which Euclidean distance is meaningful."""
        return np.nan_to_num(np.asarray(X, dtype=np.float64))

    def coordinates_of(self, stats: Array) -> Array:  # (G, P) -> (G, C)
        """Coordinates of the groups' locations."""
        return self.coordinates(self.means(stats))

    def log_base(self, X: Rows) -> Array:  # (N,)
        """Logarithm of the base measure of each row, which is common to all groups."""
        return np.zeros(X.shape[0])

    def typicality(self, X: Rows, log_predictive: Array) -> Array:  # (N,), (N,) -> (N,)
        """Return how typical rows are of their groups, from their log predictive densities.

        It is the log density where nothing else is known, and minus infinity for a row that says
        nothing.
        """
        return np.asarray(log_predictive + self.log_base(X))

    def far_rows(self, X: Rows) -> NDArray[np.bool_]:  # (N,)
        """Return which rows lie too far from all earlier ones to be learned."""
        return np.zeros(X.shape[0], dtype=np.bool_)

    def widened(self, X: Rows) -> Self:
        """Return this family for columns that vary much more than the first rows did."""
        return self

    def check(self, X: Rows) -> None:
        """Raise `InputError` with a sentence if a row lies outside the family's domain."""
        if X.shape[1] != self.n_features:
            raise InputError(
                f"X has {X.shape[1]} columns but this model was started with {self.n_features}; "
                "pass the same columns in every batch, or start a new model."
            )


def group_sums(values: Array, group: Labels, n_groups: int) -> Array:  # (N, C) -> (G, C)
    """Sum the rows of `values` by group, in row order; rows with ``group < 0`` are left out."""
    if (group < 0).any():
        keep = group >= 0
        values, group = values[keep], group[keep]
    sums = np.empty((n_groups, values.shape[1]))
    for column in range(values.shape[1]):
        sums[:, column] = np.bincount(group, weights=values[:, column], minlength=n_groups)
    return sums


def unit_weight(X: Rows, weight: Array | None) -> Array:  # (N,)
    """Return the weights, ones by default."""
    return np.ones(X.shape[0]) if weight is None else weight
