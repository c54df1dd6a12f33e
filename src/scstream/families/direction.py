"""Directions: von Mises-Fisher clusters of unit vectors, such as sentence embeddings.

Given its concentration kappa, a cluster has the mean direction mu ~ vMF(`centre`, `strength`), and
its rows are vMF(mu, kappa). The concentration takes one of a few values with the probabilities
`shares`. Both are integrated out. With A of `scstream.families.sphere` and q = `power`, the
marginal likelihood of n rows with the sum s is

    sum over kappa of share * exp(A(|strength centre + q kappa s|) - A(strength) - n q A(kappa)),

so that the count and the sum are sufficient. Densities are with respect to the uniform distribution
on the sphere.

Embeddings vary in fewer directions than they have columns. A likelihood that counts every column as
new evidence is too sure of itself, and cuts topics into pieces. It is therefore raised to a power q
that is learned from the rows: one if they vary in all directions alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr

from scstream.errors import InputError
from scstream.families.base import (
    Array,
    Draws,
    Family,
    Hyperparameters,
    Labels,
    Rows,
    unit_weight,
)
from scstream.families.sphere import (
    LARGE_ORDER,
    concentration,
    effective_share,
    log_mgf,
    mean_cosine,
    sample_direction,
    unit_rows,
)
from scstream.kernels.reference import accelerated

_TINY = float(np.finfo(np.float64).tiny)
_RESULTANTS = np.sqrt([0.1, 0.2, 0.35, 0.5, 0.7, 0.9])  # mean resultant lengths before any row
_MIN_POWER = 0.25  # with less, five equal rows could not found a cluster
_UNKNOWN_POWER = 0.5
_POWER_PER_SHARE = 0.8  # neighbours differ in more directions than clusters do
_ENOUGH_ROWS = 2000.0  # rows after which the power is no longer learned
_MIN_COUNT = 5.0  # rows of a cluster whose spread counts
_ALIKE = 0.6  # standard deviation of log spreads up to which all clusters are alike
_NODE_DISTANCE = 0.4  # between log spreads of the prior, at most
_MAX_NODES = 4  # on either side
_SPREADS = np.log([0.005, 0.99])  # least and largest log(1 - R^2) of a cluster
_MAX_COSINE = 0.5  # between mean directions, on average
_COMPANY = 4.0  # rows of the smallest new cluster, besides the row that is compared
_MAX_COMPILED = 16  # concentrations that compiled code integrates over


@dataclass(frozen=True, eq=False)
class Direction(Family):
    """Clusters of directions, such as embeddings; rows are scaled to unit length.

    `ScStream(family="direction")` learns all parameters from the stream. Log densities are those
    of the likelihood to the power: compare them with each other, not with other families.

    Parameters
    ----------
    centre : array of shape (D,)
        Unit vector around which the mean directions of clusters lie.
    strength : float
        Concentration of the mean directions around the centre; zero for anywhere on the sphere.
    kappa : array of shape (C,)
        Concentrations that a cluster may have, all positive.
    shares : array of shape (C,)
        Prior probabilities of these concentrations.
    power : float
        Power of the likelihood, above zero and at most one.
    n_power : float
        Number of rows from which the power was learned.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Direction
    >>> family = Direction(centre=np.array([1.0, 0.0]), strength=0.0, kappa=[5.0], shares=[1.0])
    >>> stats = family.stats(np.array([[3.0, 0.0], [0.0, 1.0]]), np.array([0, 0]), 1)
    >>> family.means(stats).round(3)
    array([[0.707, 0.707]])
    """

    centre: Array
    strength: float
    kappa: Array
    shares: Array
    power: float = 1.0
    n_power: float = 0.0

    name = "direction"
    collapsed = True

    def __post_init__(self) -> None:
        centre = np.atleast_1d(np.asarray(self.centre, dtype=np.float64))
        length = float(np.sqrt(np.square(centre).sum()))
        if centre.ndim != 1 or len(centre) < 2 or not (np.isfinite(length) and length > 0):
            raise InputError("centre must be a vector of at least two finite numbers, not all 0.")
        if not (np.isfinite(self.strength) and self.strength >= 0):
            raise InputError(f"strength must be zero or positive, got {self.strength}.")
        if not 0 < self.power <= 1:
            raise InputError(f"power must be above zero and at most one, got {self.power}.")
        kappa, shares = (np.asarray(v, dtype=np.float64) for v in (self.kappa, self.shares))
        for name, value in (("kappa", kappa), ("shares", shares)):
            if value.ndim != 1 or not len(value) or not (np.isfinite(value) & (value > 0)).all():
                raise InputError(f"{name} must be a vector of positive numbers.")
        if kappa.shape != shares.shape or abs(shares.sum() - 1.0) > 1e-9:
            raise InputError("shares must have the length of kappa and sum to one.")
        for name, value in (("centre", centre), ("kappa", kappa), ("shares", shares)):
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        return len(self.centre)

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
        return np.column_stack([member.sum(axis=1), member @ unit_rows(X)])

    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        return _log_sum(self._log_terms(stats))

    def log_marginal_of_unions(self, stats: Array, first: Labels, second: Labels) -> Array:
        count, sums = stats[:, 0], stats[:, 1:]
        along, products = sums @ self.centre, sums @ sums.T
        square = products[first, first] + products[second, second] + 2.0 * products[first, second]
        both = count[first] + count[second], along[first] + along[second], square
        return _log_sum(self._terms(*both))

    def log_leave_one_out(
        self, X: Rows, weight: Array, group: Labels, stats: Array
    ) -> Array:  # (N,)
        X, count, sums = unit_rows(X), stats[:, 0], stats[:, 1:]
        along, square = sums @ self.centre, np.square(sums).sum(axis=1)
        product = np.einsum("nd,nd->n", X, sums[group])
        without = self._terms(
            np.maximum(count[group] - weight, _TINY),
            along[group] - weight * (X @ self.centre),
            np.maximum(square[group] - 2.0 * weight * product + np.square(weight), 0.0),
        )
        return np.asarray(_log_sum(self._terms(count, along, square))[group] - _log_sum(without))

    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, 1 + D)
        """Draw kappa, and mu given kappa; the parameters are -q A(kappa) and q kappa mu."""
        normals = draws.normal(self.n_features + 2)
        terms = self._log_terms(stats)
        share = np.exp(terms - _log_sum(terms)[:, None]).cumsum(axis=1)
        below = (share < (ndtr(normals[:, 0]) * share[:, -1])[:, None]).sum(axis=1)
        chosen = np.minimum(below, len(self.kappa) - 1)
        scale = self._scales[chosen, None]
        natural = self.strength * self.centre + scale * stats[:, 1:]
        length = np.sqrt(np.square(natural).sum(axis=1))
        mean = np.where(length[:, None] > 0, unit_rows(natural), self.centre)
        mu = sample_direction(mean, length, normals[:, 1:])
        return np.concatenate([-self._log_constants[chosen, None], scale * mu], axis=1)

    @accelerated
    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, 1 + D), (N, D) -> (N, G)
        return np.asarray(unit_rows(X) @ params[:, 1:].T + params[:, 0])

    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, D + 2C)
        """The sum; for each concentration its squared natural parameter and log factor."""
        terms = self._log_terms(stats)
        square = self._natural_square(*self._products(stats))
        factor = terms - _log_sum(terms)[:, None] - log_mgf(square, self.n_features)
        return np.concatenate([stats[:, 1:], square, factor - self._log_constants], axis=1)

    @accelerated
    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, D + 2C), (N, D) -> (N, G)
        """A row x adds 2 k (strength centre.x + k sum.x) + k^2 to the square, k = q kappa."""
        d, c = self.n_features, len(self.kappa)
        X = unit_rows(X)
        with_sum, with_centre = X @ table[:, :d].T, self.strength * (X @ self.centre)[:, None]
        terms = np.empty((c, *with_sum.shape))
        for index, scale in enumerate(self._scales):
            square = with_sum * (2.0 * scale * scale)
            square += (2.0 * scale) * with_centre + scale * scale
            square += table[:, d + index]
            np.maximum(square, 0.0, out=square)
            terms[index] = log_mgf(square, d) + table[:, d + c + index]
        return _log_sum(np.moveaxis(terms, 0, -1))

    @property
    def typical_params(self) -> Array:  # (1, D + 2C)
        """A table with one density everywhere: the mean density of rows of a cluster."""
        d, c = self.n_features, len(self.kappa)
        own = self._scales * mean_cosine(self.kappa, d) - self._log_constants
        table = np.zeros((1, d + 2 * c))
        table[0, d : d + c] = -np.inf
        table[0, d + c :] = self.shares @ own - np.log(c)
        return table

    def may_found(self, X: Rows, log_density: Array) -> NDArray[np.bool_]:  # (N,)
        """Compare rows with a new cluster in which all rows are as alike as the two nearest.

        That is more than a new cluster offers, so few rows that would form one are missed.
        """
        U = unit_rows(X)
        single = U.astype(np.float32)
        cosine = single @ single.T
        np.fill_diagonal(cosine, -1.0)
        nearest = cosine.max(axis=1, initial=-1.0).astype(np.float64)
        along = U @ self.centre
        with_row, without = (
            _log_sum(self._terms(np.full(len(U), n), n * along, n + n * (n - 1.0) * nearest))
            for n in (_COMPANY + 1.0, _COMPANY)
        )
        return np.asarray(with_row - without + np.log(_COMPANY) > log_density)

    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        """Mean direction of each group; the centre for a group without rows."""
        empty = ~stats[:, 1:].any(axis=1, keepdims=True)
        return np.where(empty, self.centre, unit_rows(stats[:, 1:]))

    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        """Root mean square distance of rows from their mean along one axis."""
        square = np.square(stats[:, 1:] / np.maximum(stats[:, :1], _TINY)).sum(axis=1)
        spread = np.sqrt(np.maximum(1.0 - square, 1e-12) / self.n_features)
        return np.repeat(spread[:, None], self.n_features, axis=1)

    def coordinates(self, X: Rows) -> Array:  # (N, D)
        return unit_rows(X)

    def check(self, X: Rows) -> None:
        super().check(X)
        zero = np.flatnonzero(~np.asarray(X).any(axis=1))
        if len(zero):
            raise InputError(
                f"row {zero[0]} is all zeros and has no direction; leave out such rows "
                "(embeddings of empty texts, for example)."
            )

    @classmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        """Expect clusters anywhere on the sphere, broad and narrow ones alike."""
        d, c = X.shape[1], len(_RESULTANTS)
        weak = cls(
            centre=np.eye(1, d)[0],
            strength=0.0,
            kappa=concentration(_RESULTANTS, d),
            shares=np.full(c, 1.0 / c),
            power=_UNKNOWN_POWER,
        )
        return weak._with_power(X)

    def prior_grid(self, stats: Array) -> list[Self]:
        """Return the prior that these groups show."""
        return [self.adapted(stats, np.zeros((0, self.n_features)))]

    def adapted(self, stats: Array, X: Rows, weight: Array | None = None) -> Self:
        """Learn where mean directions lie and how concentrations differ, and at first the power."""
        family = self._with_power(X) if self.n_power < _ENOUGH_ROWS else self
        stats = stats[stats[:, 0] > 0]
        if len(stats) < 2:
            return family
        kappa, shares = family._concentrations(stats)
        total = self.means(stats).sum(axis=0)
        n, square = len(stats), float(total @ total)
        # The mean cosine between two mean directions is the square of their mean resultant.
        cosine = np.clip((square - n) / (n * (n - 1)), 0.0, _MAX_COSINE)
        return replace(
            family,
            centre=total / np.sqrt(square) if cosine > 0 else self.centre,
            strength=float(concentration(np.sqrt(cosine), self.n_features)),
            kappa=kappa,
            shares=shares,
        )

    def hyperparameters(self) -> Hyperparameters:
        return {
            "centre": self.centre,
            "strength": float(self.strength),
            "kappa": self.kappa,
            "shares": self.shares,
            "power": float(self.power),
            "n_power": float(self.n_power),
        }

    def compiled_by(self, native: ModuleType) -> Any:
        """Return the compiled form of this family; None where it needs Bessel functions."""
        if 0.5 * self.n_features - 1.0 < LARGE_ORDER or len(self.kappa) > _MAX_COMPILED:
            return None
        return native.Direction(self.centre, self.strength, self._scales)

    @cached_property
    def _scales(self) -> Array:  # (C,)
        return np.asarray(self.power * self.kappa)

    @cached_property
    def _log_constants(self) -> Array:  # (C,)
        """The log constants q A(kappa) of every concentration."""
        return np.asarray(self.power * log_mgf(np.square(self.kappa), self.n_features))

    def _products(self, stats: Array) -> tuple[Array, Array]:  # (...), (...)
        """Return centre.s and |s|^2."""
        return stats[..., 1:] @ self.centre, np.square(stats[..., 1:]).sum(axis=-1)

    def _natural_square(self, along: Array, square: Array) -> Array:  # (...), (...) -> (..., C)
        """|strength centre + q kappa s|^2 by centre.s and |s|^2."""
        mixed = 2.0 * self.strength * along[..., None] * self._scales
        total = self.strength**2 + mixed + square[..., None] * np.square(self._scales)
        return np.asarray(np.maximum(total, 0.0))

    def _log_terms(self, stats: Array) -> Array:  # (..., P) -> (..., C)
        return self._terms(stats[..., 0], *self._products(stats))

    def _terms(self, count: Array, along: Array, square: Array) -> Array:  # (..., C)
        """Log of the summands of the marginal likelihood, by n, centre.s and |s|^2."""
        mgf = log_mgf(self._natural_square(along, square), self.n_features)
        prior = np.log(self.shares) - log_mgf(np.asarray(self.strength**2), self.n_features)
        return np.asarray(prior + mgf - count[..., None] * self._log_constants)

    def _with_power(self, X: Rows) -> Self:
        """Return this family with the power learned from these rows, too."""
        share = effective_share(X)
        if share is None:
            return self
        n_old, n_new = self.n_power, float(X.shape[0])
        found = max(_POWER_PER_SHARE * share, _MIN_POWER)
        power = (n_old * self.power + n_new * found) / (n_old + n_new)
        return replace(self, power=power, n_power=n_old + n_new)

    def _concentrations(self, stats: Array) -> tuple[Array, Array]:  # (C,), (C,)
        """Return concentrations and shares by median and quartiles of the clusters' spreads.

        The spread is log(1 - R^2) with the mean resultant length R. Where spreads differ little
        all clusters get one concentration: a broad one would attract every unusual row.
        """
        stats = stats[stats[:, 0] >= _MIN_COUNT]
        if len(stats) < 2:
            return self.kappa, self.shares
        count, (_, length_square) = stats[:, 0], self._products(stats)
        square = (length_square - count) / (count * (count - 1.0))
        low, middle, high = np.quantile(
            np.clip(np.log1p(-np.minimum(square, 0.999)), *_SPREADS), [0.25, 0.5, 0.75]
        )
        std = np.sqrt(max(((high - low) / 1.35) ** 2 - _ALIKE**2, 0.0))
        half = min(int(np.ceil(2.0 * std / _NODE_DISTANCE)), _MAX_NODES)
        nodes = np.linspace(-2.0, 2.0, 2 * half + 1) if half else np.zeros(1)
        spreads, node = np.unique(np.clip(middle + std * nodes, *_SPREADS), return_inverse=True)
        shares = np.bincount(node, np.exp(-0.5 * np.square(nodes)))
        kappa = concentration(np.sqrt(-np.expm1(spreads)), self.n_features)
        return kappa, shares / shares.sum()


def _log_sum(terms: Array) -> Array:  # (..., C) -> (...)
    """Logarithm of the sum of exponentials over the last axis."""
    if terms.shape[-1] == 1:
        return np.asarray(terms[..., 0])
    top = terms.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(terms - top).sum(axis=-1)))
