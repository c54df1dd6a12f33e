"""Full-covariance Gaussian under a normal-inverse-Wishart prior.

Sigma ~ IW(nu, nu Psi), mu | Sigma ~ N(m, Sigma / kappa). Statistics of a group are its count, its
first moments and the upper triangle of its second moments, all about a fixed `origin`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import gammaln

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
from scstream.families.scales import far_rows, feature_scales, spread_out, widening
from scstream.kernels.reference import accelerated

_LOG_PI = float(np.log(np.pi))
_CHUNK = 1 << 22  # doubles held by one chunk of whitened rows
_FREEDOMS = (12.0, 20.0, 40.0)  # nu - D of the priors that are tried
_TINY = float(np.finfo(np.float64).tiny)
_NARROWEST = 0.01  # a column within a cluster, as a share of what was expected before
_SMALL = 8  # up to this D the second moments are summed product by product


@dataclass(frozen=True, eq=False)
class Gaussian(Family):
    """Gaussian clusters with their own full covariance.

    Parameters
    ----------
    mean : array of shape (D,)
        Prior mean m of the cluster means.
    kappa : float
        How many rows the prior mean is worth.
    nu : float
        Degrees of freedom of the covariance, above ``D - 1``.
    psi : array of shape (D, D)
        Scale of the covariance: Sigma ~ IW(nu, nu Psi).
    origin : array of shape (D,), optional
        Point about which moments are kept; near the rows, so that no digits are lost. The prior
        mean by default.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Gaussian
    >>> family = Gaussian(mean=np.zeros(2), kappa=1.0, nu=4.0, psi=np.eye(2))
    >>> stats = family.stats(np.array([[1.0, 2.0], [3.0, 2.0]]), np.array([0, 0]), 1)
    >>> family.means(stats).round(3)
    array([[1.333, 1.333]])
    """

    mean: Array
    kappa: float
    nu: float
    psi: Array
    origin: Array | None = None

    name = "gaussian"
    supports_translation = True

    def __post_init__(self) -> None:
        mean = np.atleast_1d(np.asarray(self.mean, dtype=np.float64))
        psi = np.atleast_2d(np.asarray(self.psi, dtype=np.float64))
        origin = mean if self.origin is None else np.asarray(self.origin, dtype=np.float64)
        if origin.shape != mean.shape or not (np.isfinite(mean) & np.isfinite(origin)).all():
            raise InputError("mean and origin must be finite vectors of the same length.")
        for field, value in (("mean", mean), ("psi", psi), ("origin", origin)):
            object.__setattr__(self, field, value)
        _check_prior(mean, float(self.kappa), float(self.nu), psi)

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def n_stats(self) -> int:
        return 1 + self.n_features + self.n_features * (self.n_features + 1) // 2

    @accelerated
    def stats(
        self, X: Rows, group: Labels, n_groups: int, weight: Array | None = None
    ) -> Array:  # (G, P)
        centred = np.asarray(X, dtype=np.float64) - self._origin
        weight = unit_weight(X, weight)
        i, j = self._triangle
        first = np.column_stack([weight, centred * weight[:, None]])
        if self.n_features <= _SMALL:
            products = centred[:, i] * centred[:, j] * weight[:, None]
            return group_sums(np.column_stack([first, products]), group, n_groups)
        out = np.zeros((n_groups, self.n_stats))
        out[:, : 1 + self.n_features] = group_sums(first, group, n_groups)
        order = np.argsort(group, kind="stable")
        bounds = np.searchsorted(group[order], np.arange(n_groups + 1))
        for g in np.flatnonzero(np.diff(bounds)):
            rows = order[bounds[g] : bounds[g + 1]]
            second = centred[rows].T @ (centred[rows] * weight[rows, None])
            out[g, 1 + self.n_features :] = second[i, j]
        return out

    @accelerated
    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        flat = stats.reshape(-1, self.n_stats)
        kappa, _, nu, scale = self._posterior(flat)
        d = self.n_features
        log_det = 2.0 * _log_diagonal(self._cholesky(scale))
        log_det_prior = 2.0 * _log_diagonal(self._prior_factor[None])[0]
        out = (
            -0.5 * d * flat[:, 0] * _LOG_PI
            + _log_multigamma(nu / 2, d)
            - _log_multigamma(np.array([self.nu / 2]), d)
            + 0.5 * (self.nu * log_det_prior - nu * log_det)
            + 0.5 * d * np.log(self.kappa / kappa)
        )
        return np.asarray(out.reshape(stats.shape[:-1]))

    @accelerated
    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, Q)
        """Draw (W, W mu, log|W|) with Sigma^-1 = W^T W by a reversed Bartlett decomposition."""
        kappa, mean, nu, scale = self._posterior(stats)
        d = self.n_features
        n_below = d * (d - 1) // 2
        normals = draws.normal(n_below + d)
        # A^T A ~ Wishart(nu, I) for A lower triangular with A_ii^2 ~ chi2(nu - (D - 1 - i)).
        freedom = nu[:, None] - np.arange(d - 1, -1, -1)
        bartlett = np.zeros_like(scale)
        bartlett[:, *np.tril_indices(d, -1)] = normals[:, :n_below]
        diagonal = np.exp(0.5 * (np.log(2.0) + draws.log_gamma(freedom / 2)))
        bartlett[:, np.arange(d), np.arange(d)] = diagonal
        whiten = bartlett @ _inverse_lower(self._cholesky(scale))
        noise = normals[:, n_below:] / np.sqrt(kappa)[:, None]
        centre = np.einsum("gij,gj->gi", whiten, mean) + noise
        constant = _log_diagonal(whiten) - 0.5 * d * (np.log(2.0) + _LOG_PI)
        return self._pack(whiten, centre, constant)

    @accelerated
    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, Q), (N, D) -> (N, G)
        return params[:, -1] - 0.5 * self._square_distances(params, X)

    @accelerated
    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, R)
        """Student-t with nu - D + 1 degrees, as ``constant - power log1p(|W x - b|^2)``."""
        kappa, mean, nu, scale = self._posterior(stats)
        factor = self._cholesky(scale)
        whiten = _inverse_lower(factor) * np.sqrt(kappa / (kappa + 1.0))[:, None, None]
        constant, power = self._student(kappa, nu, _log_diagonal(factor))
        centre = np.einsum("gij,gj->gi", whiten, mean)
        return np.column_stack([self._pack(whiten, centre, constant), power])

    def _student(self, kappa: Array, nu: Array, half_log_det: Array) -> tuple[Array, Array]:
        """Constant and power of the predictive density of groups with these posteriors."""
        d, power = self.n_features, 0.5 * (nu + 1.0)
        constant = (
            gammaln(power)
            - gammaln(0.5 * (nu - d + 1.0))
            - 0.5 * d * _LOG_PI
            - half_log_det
            + 0.5 * d * np.log(kappa / (kappa + 1.0))
        )
        return constant, power

    @accelerated
    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, R), (N, D) -> (N, G)
        return table[:, -2] - table[:, -1] * np.log1p(self._square_distances(table[:, :-1], X))

    def screening_params(self, stats: Array) -> Array:  # (G, P) -> (G, 2 D + 3)
        """Student-t with independent features: w, w m, sum of w m^2, constant and power."""
        kappa, mean = self._posterior_mean(stats)
        nu, d = self.nu + stats[:, 0], self.n_features
        prior_mean = self.mean - self._origin
        scale = stats[:, 1 + d + self._diagonal] + self.nu * np.diag(self.psi)
        scale += self.kappa * prior_mean**2 - kappa[:, None] * mean**2
        scale = np.maximum(scale, self.nu * np.diag(self.psi))
        constant, power = self._student(kappa, nu, 0.5 * np.log(scale).sum(axis=1))
        precision = (kappa / (kappa + 1.0))[:, None] / scale
        offset = (precision * mean**2).sum(axis=1)
        return np.column_stack([precision, precision * mean, offset, constant, power])

    def log_screen(self, table: Array, X: Rows) -> Array:  # (G, 2 D + 3), (N, D) -> (N, G)
        d, x = self.n_features, np.asarray(X, dtype=np.float64) - self._origin
        square = x**2 @ table[:, :d].T - 2.0 * x @ table[:, d : 2 * d].T + table[:, 2 * d]
        return np.asarray(table[:, -2] - table[:, -1] * np.log1p(np.maximum(square, 0.0)))

    @accelerated
    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        return self._posterior_mean(stats)[1] + self._origin

    @accelerated
    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        return np.asarray(np.sqrt(np.einsum("gii->gi", self.covariance(stats))))

    def covariance(self, stats: Array) -> Array:  # (G, P) -> (G, D, D)
        """Posterior mean of each group's covariance, or its scale where the mean is infinite."""
        _, _, nu, scale = self._posterior(stats)
        return scale / self._freedom(nu)[:, None, None]

    def log_overlap(self, stats: Array, first: Labels, second: Labels) -> Array:  # (M,)
        """Log Bhattacharyya coefficient of Gaussians with the posterior means."""
        _, mean, nu, scale = self._posterior(stats)
        factor = self._cholesky(scale) / np.sqrt(self._freedom(nu))[:, None, None]
        covariance, own = factor @ factor.swapaxes(1, 2), _log_diagonal(factor)
        out = np.empty(len(first))
        step = max(1, _CHUNK // self.n_features**2)
        for start in range(0, len(first), step):
            i, j = first[start : start + step], second[start : start + step]
            factor = self._cholesky(0.5 * (covariance[i] + covariance[j]))
            white = np.linalg.solve(factor, (mean[i] - mean[j])[:, :, None])
            distance = 0.125 * np.square(white).sum(axis=(1, 2)) + _log_diagonal(factor)
            out[start : start + step] = 0.5 * (own[i] + own[j]) - distance
        return out

    def covariance_of_rows(self, stats: Array) -> Array:  # (G, P) -> (G, D, D)
        """Covariance of the rows themselves, without the prior; zero for no rows."""
        return self._scatter(stats)[1]

    def bisect(self, stats: Array, along: Array) -> Array:  # (G, P), (G, P) -> (G, P)
        """Cut a Gaussian through its mean, across the principal axis v of `along`.

        Half of a Gaussian with variance s^2 along v has its mean at s sqrt(2/pi) v from the centre
        and covariance Sigma - (2/pi) s^2 v v^T, so the two halves have together exactly the count,
        the first and the second moments of the whole.
        """
        axis = _principal_axis(self._scatter(along)[1])
        mean, scatter = self._scatter(stats)
        variance = np.maximum(np.einsum("gi,gij,gj->g", axis, scatter, axis), 0.0)
        offset = np.sqrt(variance * 2.0 / np.pi)[:, None] * axis
        second = mean[:, :, None] * offset[:, None, :]
        i, j = self._triangle
        out = np.zeros_like(stats)
        out[:, 1 : 1 + self.n_features] = 0.5 * offset
        out[:, 1 + self.n_features :] = 0.5 * (second + second.swapaxes(1, 2))[:, i, j]
        return out

    @accelerated
    def translate(self, stats: Array, shift: Array) -> Array:  # (G, P), (G, D) -> (G, P)
        d = self.n_features
        count, first = stats[:, :1], stats[:, 1 : 1 + d]
        i, j = self._triangle
        out = stats.copy()
        out[:, 1 : 1 + d] += count * shift
        out[:, 1 + d :] += (
            first[:, i] * shift[:, j]
            + shift[:, i] * first[:, j]
            + count * shift[:, i] * shift[:, j]
        )
        return out

    def coordinates(self, X: Rows) -> Array:  # (N, D)
        """Coordinates in which the prior's covariance is the identity."""
        return (np.asarray(X, dtype=np.float64) - self._origin) @ self._prior_whitening.T

    @classmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        """Expect clusters of half the whole spread, anywhere in a region ten times as large."""
        centre, scale = feature_scales(X, weight)
        d = len(centre)
        return cls(
            mean=centre, kappa=0.01, nu=d + 3.0, psi=np.diag((0.5 * scale) ** 2), origin=centre
        )

    def prior_grid(self, stats: Array) -> list[Self]:
        """Priors around the groups' pooled covariance and the scatter of their means."""
        stats = stats[stats[:, 0] > 0]
        d, total = self.n_features, max(float(stats[:, 0].sum()), _TINY)
        mean, scatter = self._scatter(stats)
        share = stats[:, 0] / total
        within = np.einsum("g,gij->ij", share, scatter)
        # Each group spends one degree of freedom on its mean.
        within *= total / max(total - len(stats), 0.5 * total)
        grand = share @ mean
        between = share @ (mean - grand) ** 2
        floor = _NARROWEST**2 * np.diag(self.psi)
        within[np.diag_indices(d)] = np.maximum(np.diag(within), floor)
        diagonal = np.diag(np.diag(within))
        # mu ~ N(m, Sigma / kappa): the mean square of a standardised centre is 1 / kappa.
        standard = float(np.mean(between / np.diag(within)))
        kappa = float(np.clip(1.0 / max(standard, 1e-12), 1e-4, 1.0))
        out = []
        for extra in _FREEDOMS:
            nu = d + extra
            for shape in (diagonal, 0.5 * (diagonal + within)):
                for size in (0.35, 0.6, 1.0, 1.7):
                    psi = shape * (size * (extra - 1.0) / nu)
                    out.append(
                        replace(self, mean=grand + self._origin, kappa=kappa, nu=nu, psi=psi)
                    )
        return out

    def hyperparameters(self) -> Hyperparameters:
        return {
            "mean": self.mean,
            "kappa": float(self.kappa),
            "nu": float(self.nu),
            "psi": self.psi,
            "origin": self._origin,
        }

    def check(self, X: Rows) -> None:
        super().check(X)
        spread_out(X, self._origin, self._prior_scale)

    def far_rows(self, X: Rows) -> NDArray[np.bool_]:  # (N,)
        return far_rows(X, self._origin, self._prior_scale)

    def widened(self, X: Rows) -> Self:
        factor = widening(X, self._origin, self._prior_scale)
        if not (factor > 1.0).any():
            return self
        return replace(self, psi=self.psi * np.multiply.outer(factor, factor))

    def compiled_by(self, native: ModuleType) -> Any:
        """Return the compiled form of this family."""
        return native.Gaussian(self.mean, self.kappa, self.nu, self.psi, self._origin)

    @property
    def _origin(self) -> Array:
        return np.asarray(self.origin)  # never None: `__post_init__` puts the mean there

    @cached_property
    def _triangle(self) -> tuple[Labels, Labels]:
        i, j = np.triu_indices(self.n_features)
        return i, j

    @cached_property
    def _diagonal(self) -> Labels:
        """Places of the squares among the second moments."""
        i, j = self._triangle
        return np.flatnonzero(i == j)

    @cached_property
    def _prior_scale(self) -> Array:
        return np.sqrt(self.nu * np.diag(self.psi))

    @cached_property
    def _prior_factor(self) -> Array:
        return np.asarray(np.linalg.cholesky(self.nu * self.psi))

    @cached_property
    def _prior_whitening(self) -> Array:
        return np.asarray(_inverse_lower(self._prior_factor[None])[0] * np.sqrt(self.nu))

    def _freedom(self, nu: Array) -> Array:  # (G,)
        """What the scale of a covariance is divided by for its mean, or nu if that is infinite."""
        freedom = nu - self.n_features - 1.0
        return np.where(freedom >= 1.0, freedom, nu)

    def _symmetric(self, packed: Array) -> Array:  # (G, D(D+1)/2) -> (G, D, D)
        i, j = self._triangle
        out = np.empty((len(packed), self.n_features, self.n_features))
        out[:, i, j] = packed
        out[:, j, i] = packed
        return out

    def _scatter(self, stats: Array) -> tuple[Array, Array]:  # (G, D), (G, D, D)
        """Mean (about the origin) and covariance of the rows themselves; zero for no rows."""
        count = np.maximum(stats[:, 0], _TINY)
        mean = stats[:, 1 : 1 + self.n_features] / count[:, None]
        second = self._symmetric(stats[:, 1 + self.n_features :]) / count[:, None, None]
        return mean, second - mean[:, :, None] * mean[:, None, :]

    def _posterior_mean(self, stats: Array) -> tuple[Array, Array]:  # (G,), (G, D)
        kappa = self.kappa + stats[:, 0]
        prior = self.kappa * (self.mean - self._origin)
        return kappa, (prior + stats[:, 1 : 1 + self.n_features]) / kappa[:, None]

    def _posterior(self, stats: Array) -> tuple[Array, Array, Array, Array]:
        """Return kappa*, m* (about the origin), nu* and nu* Psi* of each group."""
        kappa, mean = self._posterior_mean(stats)
        prior_mean = self.mean - self._origin
        scale = self._symmetric(stats[:, 1 + self.n_features :])
        scale += self.nu * self.psi + self.kappa * np.outer(prior_mean, prior_mean)
        scale -= kappa[:, None, None] * mean[:, :, None] * mean[:, None, :]
        return kappa, mean, self.nu + stats[:, 0], scale

    def _cholesky(self, scale: Array) -> Array:  # (G, D, D)
        try:
            return np.asarray(np.linalg.cholesky(scale))
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.cholesky(self._repaired(scale)))

    def _repaired(self, scale: Array) -> Array:
        """Undo round-off: nu* Psi* is never below nu Psi, so no relative eigenvalue is below 1."""
        whiten = _inverse_lower(self._prior_factor[None])[0]
        relative = whiten @ scale @ whiten.T
        values, vectors = np.linalg.eigh(0.5 * (relative + relative.swapaxes(1, 2)))
        vectors = self._prior_factor @ vectors
        # Below a share of 1e-12 of the largest, an eigenvalue would be lost to round-off again.
        values = np.maximum(values, np.maximum(1.0, 1e-12 * values[:, -1:]))
        scaled = vectors * values[:, None, :]
        return np.asarray(scaled @ vectors.swapaxes(1, 2))

    def _pack(self, whiten: Array, centre: Array, constant: Array) -> Array:
        lower = whiten[:, *np.tril_indices(self.n_features)]
        return np.column_stack([lower, centre, constant])

    def _square_distances(self, params: Array, X: Rows) -> Array:  # (N, G)
        """|W x - b|^2 for every row and group, in chunks of groups."""
        d = self.n_features
        n_lower = d * (d + 1) // 2
        centred = np.asarray(X, dtype=np.float64) - self._origin
        out = np.empty((len(centred), len(params)))
        step = max(1, _CHUNK // max(1, len(centred) * d))
        for start in range(0, len(params), step):
            chunk = params[start : start + step]
            whiten = np.zeros((len(chunk), d, d))
            whiten[:, *np.tril_indices(d)] = chunk[:, :n_lower]
            white = centred @ whiten.reshape(-1, d).T
            white -= chunk[:, n_lower : n_lower + d].reshape(-1)
            white = white.reshape(len(centred), len(chunk), d)
            out[:, start : start + step] = np.einsum("ngd,ngd->ng", white, white)
        return out


def _check_prior(mean: Array, kappa: float, nu: float, psi: Array) -> None:
    d = len(mean)
    if psi.shape != (d, d):
        raise InputError(
            f"psi has shape {psi.shape} but mean has {d} entries; psi must be ({d}, {d})."
        )
    if not (np.isfinite(kappa) and kappa > 0):
        raise InputError(f"kappa must be a positive number, got {kappa}.")
    if not nu > d - 1:
        raise InputError(
            f"nu must be above n_features - 1 = {d - 1} for a covariance to exist, got {nu}."
        )
    if not np.isfinite(psi).all() or not np.allclose(psi, psi.T):
        raise InputError("psi must be a finite symmetric matrix.")
    try:
        np.linalg.cholesky(psi)
    except np.linalg.LinAlgError:
        raise InputError(
            "psi must be positive definite; add a small multiple of the identity to it."
        ) from None


def _log_multigamma(a: Array, d: int) -> Array:  # (G,)
    """Logarithm of the multivariate gamma function without its constant power of pi."""
    return np.asarray(gammaln(a[:, None] - 0.5 * np.arange(d)).sum(axis=1))


def _log_diagonal(factor: Array) -> Array:  # (G, D, D) -> (G,)
    return np.asarray(np.log(np.einsum("gii->gi", factor)).sum(axis=1))


def _inverse_lower(factor: Array) -> Array:  # (G, D, D)
    out = np.empty_like(factor)
    for g, lower in enumerate(factor):
        out[g] = lapack.dtrtri(lower, lower=1)[0]
    return np.tril(out)


def _principal_axis(scatter: Array) -> Array:  # (G, D, D) -> (G, D)
    """Eigenvector of the largest eigenvalue, its largest entry made positive."""
    axis = np.linalg.eigh(scatter)[1][:, :, -1]
    largest = np.abs(axis).argmax(axis=1)
    sign = np.where(axis[np.arange(len(axis)), largest] < 0, -1.0, 1.0)
    return np.asarray(axis * sign[:, None])
