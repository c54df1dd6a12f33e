"""Gaussian clusters of rows with many columns: full covariance in a subspace, round outside it.

A row is scaled, z = (x - origin) / scale, and split by an orthonormal basis B of q directions that
all clusters share: its coordinates B^T z, and the rest z - B B^T z in the other D - q dimensions.
Inside, clusters are those of `gaussian`. Outside, they are round with one common variance and means
of their own. Statistics of a group are its count, its first moments in all columns, its square
length and the upper triangle of its second moments inside, all about the origin. The basis follows
the stream; the first moments outside it say where the clusters are when it turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any, Self

import numpy as np
from scipy import sparse

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
from scstream.families.basis import Sketch, aligned
from scstream.families.columns import positive
from scstream.families.gaussian import Gaussian
from scstream.families.isotropic import Isotropic
from scstream.families.scales import feature_scales, spread_out
from scstream.kernels import Kernels
from scstream.kernels.reference import accelerated

_N_INSIDE = 24  # dimensions of the subspace, at most
_RANK = 2  # directions that the sketch follows, per dimension of the subspace
_FIRST_KAPPA = 50.0  # rows that the common centre is worth outside, before clusters are known
_KAPPAS = (3.0, 1000.0)
_TRUSTED_KAPPA = 10.0
_ROUNDNESS = 2.0  # variance outside, per mean variance: the largest directions are wider
_WORTH_A_TURN = 0.02  # share of the captured scatter that a new basis must add
_WIDEST = 10.0  # standard deviation of a column, in medians, up to which it is not scaled down
_NARROWEST = 1e-3  # variance outside, in units of the mean variance of the first batch
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Subspace(Family):
    """Gaussian clusters that differ in a few directions out of many columns.

    Parameters
    ----------
    mean : array of shape (D,)
        Prior mean of the cluster means.
    kappa : float
        How many rows the prior mean is worth inside the subspace.
    nu : float
        Degrees of freedom of the covariance inside, above ``q - 1``.
    psi : array of shape (q, q)
        Scale of the covariance inside: Sigma ~ IW(nu, nu Psi).
    basis : array of shape (D, q)
        Orthonormal directions of the subspace, of scaled rows.
    outer_kappa : float
        How many rows the prior mean is worth outside.
    outer_variance : float
        Variance of scaled rows in each direction outside, common to all clusters.
    origin : array of shape (D,), optional
        Point about which moments are kept; the prior mean by default.
    scale : float or array of shape (D,)
        What the columns are divided by.
    sketch : array of shape (D, C), optional
        Leading directions of the stream so far, times the root of their scatter, and rows that
        arrived later. The basis by default.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Subspace
    >>> basis = np.eye(3)[:, :1]
    >>> family = Subspace(np.zeros(3), 1.0, 4.0, np.eye(1), basis, 1.0, 0.5)
    >>> stats = family.stats(np.array([[3.0, 1.0, 0.0], [3.0, 1.0, 2.0]]), np.array([0, 0]), 1)
    >>> family.means(stats).round(3)
    array([[2.   , 0.667, 0.667]])
    """

    mean: Array = field(repr=False)
    kappa: float
    nu: float
    psi: Array = field(repr=False)
    basis: Array = field(repr=False)
    outer_kappa: float
    outer_variance: float
    origin: Array | None = field(default=None, repr=False)
    scale: Array | float = field(default=1.0, repr=False)
    sketch: Array | None = field(default=None, repr=False)

    name = "subspace"
    supports_translation = True

    def __post_init__(self) -> None:
        mean = np.atleast_1d(np.asarray(self.mean, dtype=np.float64))
        basis = np.asarray(self.basis, dtype=np.float64)
        origin = mean if self.origin is None else np.asarray(self.origin, dtype=np.float64)
        sketch = basis if self.sketch is None else np.asarray(self.sketch, dtype=np.float64)
        psi = np.atleast_2d(np.asarray(self.psi, dtype=np.float64))
        _check_basis(mean, origin, basis, sketch)
        positive("outer_kappa", self.outer_kappa, 1)
        positive("outer_variance", self.outer_variance, 1)
        scale = positive("scale", self.scale, len(mean))
        arrays = {"mean": mean, "psi": psi, "basis": basis, "origin": origin, "scale": scale}
        for name, value in (arrays | {"sketch": sketch}).items():
            object.__setattr__(self, name, value)
        _ = self.inside  # checks the other parameters

    def with_kernels(self, kernels: Kernels) -> Self:
        return replace(self, kernels=kernels)

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def n_inside(self) -> int:
        """Number of dimensions q of the subspace."""
        return int(self.basis.shape[1])

    @property
    def n_stats(self) -> int:
        return 2 + self.n_features + self.n_inside * (self.n_inside + 1) // 2

    @cached_property
    def inside(self) -> Gaussian:
        """The Gaussian family of the coordinates in the subspace."""
        centre = self._prior_mean @ self.basis
        origin = np.zeros(self.n_inside)
        return Gaussian(centre, self.kappa, self.nu, self.psi, origin, kernels=self.kernels)

    @cached_property
    def outside(self) -> Isotropic:
        """The round Gaussians of the rows without their part in the subspace."""
        n_dims = self.n_features - self.n_inside
        mean = self._rest(self._prior_mean)
        return Isotropic(mean, float(self.outer_kappa), float(self.outer_variance), n_dims)

    @accelerated
    def stats(
        self, X: Rows, group: Labels, n_groups: int, weight: Array | None = None
    ) -> Array:  # (G, P)
        Z, d = self._scaled(X), self.n_features
        weight = unit_weight(X, weight)
        rows = np.flatnonzero(group >= 0)
        shares = sparse.csr_matrix((weight[rows], (group[rows], rows)), (n_groups, len(Z)))
        inside = self.inside.stats(Z @ self.basis, group, n_groups, weight)
        out = np.empty((n_groups, self.n_stats))
        out[:, 0] = inside[:, 0]
        out[:, 1 : 1 + d] = shares @ Z
        out[:, 1 + d] = shares @ np.einsum("nd,nd->n", Z, Z)
        out[:, 2 + d :] = inside[:, 1 + self.n_inside :]
        return out

    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        inside = self._inside(stats)
        count, first = stats[..., 0], stats[..., 1 : 1 + self.n_features]
        length = np.einsum("...d,...d->...", first, first)
        length -= np.square(inside[..., 1 : 1 + self.n_inside]).sum(axis=-1)
        outside = first @ self.outside.mean, length, self._outside_squares(stats)
        return self._log_marginal(self.inside.log_marginal(inside), count, *outside)

    def log_marginal_of_unions(self, stats: Array, first: Labels, second: Labels) -> Array:
        inside, rest = self._parts(stats)
        along, products = rest @ self.outside.mean, rest @ rest.T
        length = products[first, first] + products[second, second] + 2.0 * products[first, second]
        square = self._outside_squares(stats)
        return self._log_marginal(
            self.inside.log_marginal_of_unions(inside, first, second),
            stats[first, 0] + stats[second, 0],
            along[first] + along[second],
            length,
            square[first] + square[second],
        )

    def _log_marginal(
        self, inside: Array, count: Array, along: Array, length: Array, square: Array
    ) -> Array:
        outside = self.outside.log_marginal(count, along, np.maximum(length, 0.0), square)
        return np.asarray(inside + outside - count * self._log_scale)

    def log_leave_one_out(
        self, X: Rows, weight: Array, group: Labels, stats: Array
    ) -> Array:  # (N,)
        Z, Y, rest = self._split(X)
        inside = self.inside.log_leave_one_out(Y, weight, group, self._inside(stats))
        kappa, mean = self.outside.posterior(*self._outside(stats)[:2])
        across = np.einsum("nd,nd->n", Z, mean[group])
        distance = np.maximum(rest - 2.0 * across + np.square(mean).sum(axis=1)[group], 0.0)
        outside = self.outside.log_leave_one_out(weight, kappa[group], distance)
        return np.asarray(inside + outside - weight * self._log_scale)

    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, Q)
        own, rest = self._parts(stats)
        inside = self.inside.sample_posterior(own, draws)
        normals = self._rest(draws.normal(self.n_features))
        return np.concatenate([inside, *self.outside.sample(stats[:, 0], rest, normals)], axis=1)

    @accelerated
    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, Q), (N, D) -> (N, G)
        return self._log_density(self.inside.log_likelihood, params, X)

    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, R)
        own, rest = self._parts(stats)
        inside = self.inside.predictive_params(own)
        return np.concatenate([inside, *self.outside.predictive(stats[:, 0], rest)], axis=1)

    @accelerated
    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, R), (N, D) -> (N, G)
        return self._log_density(self.inside.log_predictive, table, X)

    def _log_density(
        self, log_inside: Callable[[Array, Rows], Array], table: Array, X: Rows
    ) -> Array:  # (N, G)
        """Log density inside the basis times that outside of it."""
        Z, Y, rest = self._split(X)
        inside, outside = table[:, : -self.n_features - 2], table[:, -self.n_features - 2 :]
        return log_inside(inside, Y) + (
            self.outside.log_density(outside, rest, Z) - self._log_scale
        )

    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        own, rest = self._parts(stats)
        means = self.inside.means(own) @ self.basis.T
        means += self.outside.posterior(stats[:, 0], rest)[1]
        means *= self.scale
        means += self._origin
        return np.asarray(means)

    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        i, j = np.triu_indices(self.n_inside)
        covariance = self.inside.covariance(self._inside(stats))[:, i, j]
        twice = np.where(i == j, 1.0, 2.0) * covariance  # the lower triangle is like the upper
        inside = twice @ (self.basis[:, i] * self.basis[:, j]).T
        share = np.maximum(1.0 - np.square(self.basis).sum(axis=1), 0.0)
        return np.asarray(np.sqrt(inside + self.outer_variance * share) * self.scale)

    def bisect(self, stats: Array, along: Array) -> Array:  # (G, P), (G, P) -> (G, P)
        """Cut across the principal axis inside the subspace; see `Gaussian.bisect`."""
        d, q = self.n_features, self.n_inside
        inside = self.inside.bisect(self._inside(stats), self._inside(along))
        count = np.maximum(stats[:, :1], _TINY)
        offset = inside[:, 1 : 1 + q] @ self.basis.T
        out = np.zeros_like(stats)
        out[:, 1 : 1 + d] = offset
        out[:, 1 + d] = 2.0 * np.einsum("gd,gd->g", offset, stats[:, 1 : 1 + d] / count)
        out[:, 2 + d :] = inside[:, 1 + q :]
        return out

    def translate(self, stats: Array, shift: Array) -> Array:  # (G, P), (G, D) -> (G, P)
        moved = np.flatnonzero(shift.any(axis=1))
        if len(moved) < len(stats):
            out = stats.copy()
            if len(moved):
                out[moved] = self.translate(stats[moved], shift[moved])
            return out
        d = self.n_features
        shift = shift / self.scale
        first = stats[:, 1 : 1 + d]
        inside = self.inside.translate(self._inside(stats), shift @ self.basis)
        out = stats.copy()
        out[:, 1 : 1 + d] += stats[:, :1] * shift
        out[:, 1 + d] += np.einsum("gd,gd->g", shift, 2.0 * first + stats[:, :1] * shift)
        out[:, 2 + d :] = inside[:, 1 + self.n_inside :]
        return out

    def adapted(self, stats: Array, X: Rows, weight: Array | None = None) -> Self:
        """Follow the scatter of the rows; turn the basis if that captures clearly more of it."""
        sketch = Sketch(self._sketch, self._rank).updated(self._scaled(X), unit_weight(X, weight))
        family = replace(self, sketch=sketch.factor)
        if sketch.factor.shape[1] == self._rank:
            basis = sketch.basis(self.n_inside)
            gain = sketch.captured(basis) - sketch.captured(self.basis)
            if gain > _WORTH_A_TURN * sketch.captured(self.basis):
                family = family._turned(aligned(basis, self.basis))
                stats = family.transported(stats, self)
        return family._fitted_outside(stats)

    def transported(self, stats: Array, old: Self) -> Array:  # (..., P) -> (..., P)
        """Turn the second moments; scatter in new directions is the mean scatter outside.

        Means are known in all columns, so they are exact. The scatter about them is known inside
        the old subspace only, and is taken to be round outside.
        """
        if self.basis is old.basis:
            return stats
        flat = stats.reshape(-1, stats.shape[-1])
        first = flat[:, 1 : 1 + self.n_features]
        count, outside, square = old._outside(flat)
        count = np.maximum(count, _TINY)
        rest = np.maximum(square - np.square(outside).sum(axis=1) / count, 0.0)
        scatter = old.inside.covariance_of_rows(old._inside(flat)) * count[:, None, None]
        n_dims = max(old.outside.n_dims, 1)
        scatter = _turned(scatter, rest / n_dims, old.basis.T @ self.basis)
        mean = first @ self.basis
        scatter += mean[:, :, None] * (mean / count[:, None])[:, None, :]
        out = flat.copy()
        out[:, 2 + self.n_features :] = scatter[:, *np.triu_indices(self.n_inside)]
        return out.reshape(stats.shape)

    def coordinates(self, X: Rows) -> Array:  # (N, D) -> (N, q)
        """Coordinates inside the subspace in which the prior's covariance is the identity."""
        return self.inside.coordinates(self._scaled(X) @ self.basis)

    def coordinates_of(self, stats: Array) -> Array:  # (G, P) -> (G, q)
        return self.inside.coordinates_of(self._inside(stats))

    def check(self, X: Rows) -> None:
        super().check(X)
        spread_out(X, self._origin, np.asarray(self.scale))

    @classmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        """Find the leading directions; expect clusters narrower there than the rows together.

        Leading directions are those in which clusters differ, and outside rows vary as they do
        within clusters. So the variance expected inside is the geometric mean of what `gaussian`
        expects, half the whole spread, and of the variance outside.
        """
        centre, stds = feature_scales(X, weight)
        scale = _common_scale(stds)
        Z = (np.asarray(X, dtype=np.float64) - centre) / scale
        n_inside = min(_N_INSIDE, len(centre))
        rank = min(_RANK * n_inside, len(centre))
        weights = unit_weight(X, weight)
        sketch = Sketch((Z * np.sqrt(weights)[:, None]).T, rank).compressed()
        basis = sketch.basis(n_inside)
        inside = Gaussian.weak_prior(Z @ basis, weight)
        n_outside = len(centre) - n_inside
        rest = float(weights @ np.square(Z).sum(axis=1)) - sketch.captured(basis)
        rest /= max(float(weights.sum()), _TINY) * max(n_outside, 1)
        rest = max(rest, _NARROWEST)  # also where all rows are alike
        psi = np.diag(inside.psi)
        if n_outside:
            psi = np.sqrt(np.maximum(psi, 0.25 * rest) * rest)
        return cls(
            mean=centre,
            kappa=inside.kappa,
            nu=inside.nu,
            psi=np.diag(psi),
            basis=basis,
            outer_kappa=_FIRST_KAPPA,
            outer_variance=_ROUNDNESS * rest,
            origin=centre,
            scale=scale,
            sketch=sketch.factor,
        )

    def prior_grid(self, stats: Array) -> list[Self]:
        """Return one family: its evidence is a product, so the best parts make the best."""
        stats = stats[stats[:, 0] > 0]
        inside = self._inside(stats)
        options = self.inside.prior_grid(inside)
        evidence = [float(option.log_marginal(inside).sum()) for option in options]
        best = options[int(np.argmax(evidence))]
        total = np.maximum(stats[:, 0].sum(), _TINY)
        mean = stats[:, 1 : 1 + self.n_features].sum(axis=0) / total * self.scale + self._origin
        family = replace(self, mean=mean, kappa=best.kappa, nu=best.nu, psi=best.psi)
        return [family._fitted_outside(stats)]

    def hyperparameters(self) -> Hyperparameters:
        return {
            "mean": self.mean,
            "kappa": float(self.kappa),
            "nu": float(self.nu),
            "psi": self.psi,
            "basis": self.basis,
            "outer_kappa": float(self.outer_kappa),
            "outer_variance": float(self.outer_variance),
            "origin": self._origin,
            "scale": np.asarray(self.scale),
            "sketch": self._sketch,
        }

    def compiled_by(self, native: ModuleType) -> Any:
        """Return the compiled form of this family."""
        basis = np.ascontiguousarray(self.basis.T)
        return native.Subspace(self._origin, self._inverse_scale, basis, self._log_scale)

    @property
    def _origin(self) -> Array:
        return np.asarray(self.origin)  # never None: `__post_init__` puts the mean there

    @property
    def _sketch(self) -> Array:
        return np.asarray(self.sketch)  # never None: `__post_init__` puts the basis there

    @property
    def _rank(self) -> int:
        return min(_RANK * self.n_inside, self.n_features)

    @cached_property
    def _prior_mean(self) -> Array:  # (D,)
        return np.asarray((self.mean - self._origin) / self.scale)

    @cached_property
    def _inverse_scale(self) -> Array:  # (D,)
        return 1.0 / np.asarray(self.scale)

    @cached_property
    def _log_scale(self) -> float:
        return float(np.log(self.scale).sum())

    @cached_property
    def _squares(self) -> Labels:  # (q,)
        """Columns of the statistics that hold second moments of one direction with itself."""
        i, j = np.triu_indices(self.n_inside)
        return 2 + self.n_features + np.flatnonzero(i == j)

    def _scaled(self, X: Rows) -> Array:  # (N, D)
        Z = np.asarray(X, dtype=np.float64) - self._origin
        Z *= self._inverse_scale
        return np.asarray(Z)

    def _split(self, X: Rows) -> tuple[Array, Array, Array]:  # (N, D), (N, q), (N,)
        """Return the scaled rows, their coordinates inside, and their square lengths outside."""
        Z = self._scaled(X)
        Y = Z @ self.basis
        return Z, Y, np.einsum("nd,nd->n", Z, Z) - np.einsum("nq,nq->n", Y, Y)

    def _rest(self, vectors: Array) -> Array:  # (..., D)
        """Return vectors without their part in the subspace."""
        return np.asarray(vectors - (vectors @ self.basis) @ self.basis.T)

    def _inside(self, stats: Array) -> Array:  # (..., P) -> (..., 1 + q + q (q + 1) / 2)
        """Return the statistics of the Gaussian inside."""
        d = self.n_features
        first = stats[..., 1 : 1 + d] @ self.basis
        return np.concatenate([stats[..., :1], first, stats[..., 2 + d :]], axis=-1)

    def _parts(self, stats: Array) -> tuple[Array, Array]:  # (G, P) -> (G, ...), (G, D)
        """Return the statistics of the Gaussian inside, and the first moments outside."""
        inside = self._inside(stats)
        rest = inside[:, 1 : 1 + self.n_inside] @ -self.basis.T
        rest += stats[:, 1 : 1 + self.n_features]
        return inside, np.asarray(rest)

    def _outside(self, stats: Array) -> tuple[Array, Array, Array]:  # (...), (..., D), (...)
        """Return the counts, the first moments and the square lengths outside."""
        first = self._rest(stats[..., 1 : 1 + self.n_features])
        return stats[..., 0], first, self._outside_squares(stats)

    def _outside_squares(self, stats: Array) -> Array:  # (..., P) -> (...)
        return np.asarray(stats[..., 1 + self.n_features] - stats[..., self._squares].sum(axis=-1))

    def _turned(self, basis: Array) -> Self:
        """Return this family with another basis, and the same prior as far as it is known."""
        outer = np.array([self.outer_variance])
        psi = _turned(self.psi[None], outer, self.basis.T @ basis)[0]
        return replace(self, basis=basis, psi=0.5 * (psi + psi.T))

    def _fitted_outside(self, stats: Array) -> Self:
        """Fit the variance outside, and what the centre is worth there, to groups of rows.

        What the means of the groups scatter beyond chance is the variance of the prior, which
        `outer_kappa` expresses as a share of the variance within. Groups were made of rows that
        are alike, so they overstate it, and most so where they differ little: hence the square.
        """
        count, first, square = self._outside(stats[stats[:, 0] > 0])
        n_dims, total = self.outside.n_dims, float(count.sum())
        if not n_dims or not total > 0:
            return self
        spent = float(np.minimum(count, 1.0).sum())  # each group spends one row on its mean
        means = first / count[:, None]
        within = float((square - count * np.square(means).sum(axis=1)).sum())
        within = max(within / max(total - spent, 0.5 * total), _NARROWEST * n_dims)
        between = float(count @ np.square(means - self.outside.mean).sum(axis=1))
        between = max((between - spent * within) / total, 1e-9 * within)
        return replace(
            self,
            outer_kappa=float(np.clip((within / between) ** 2 / _TRUSTED_KAPPA, *_KAPPAS)),
            outer_variance=_ROUNDNESS * within / n_dims,
        )


def _common_scale(stds: Array) -> Array:  # (D,)
    """Return one scale for all columns, more only for columns that dwarf the others.

    Standardised columns would make those that hardly vary as important as the others.
    """
    most = _WIDEST * float(np.median(stds))
    typical = np.sqrt(np.mean(np.square(np.minimum(stds, most))))
    return np.asarray(typical * np.maximum(stds / most, 1.0))


def _turned(scatter: Array, variance: Array, turn: Array) -> Array:  # (G, q, q), (G,), (q, q)
    """Express scatter in another basis; new directions have the variance outside."""
    new = np.eye(len(turn)) - turn.T @ turn
    return np.asarray(turn.T @ scatter @ turn + variance[:, None, None] * new)


def _check_basis(mean: Array, origin: Array, basis: Array, sketch: Array) -> None:
    if not all(np.isfinite(values).all() for values in (mean, origin, basis, sketch)):
        raise InputError("mean, origin, basis and sketch must be finite.")
    if basis.ndim != 2 or {len(origin), len(basis), len(sketch)} != {len(mean)}:
        raise InputError(
            f"mean has {len(mean)} entries, so origin, basis and sketch must have as many rows."
        )
    if not np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-6):
        raise InputError("the columns of basis must be orthogonal to each other, of length one.")
