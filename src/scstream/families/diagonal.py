"""Gaussian with independent features, each under its own normal-gamma prior.

For each feature sigma^2 ~ IG(nu / 2, nu psi / 2), mu | sigma^2 ~ N(m, sigma^2 / kappa): the
normal-inverse-Wishart prior of `gaussian` with D = 1. Statistics of a group are its count, and the
number, the first and the second moments, about a fixed `origin`, of the entries present in each
feature; a missing entry adds to none of these, which marginalises it exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
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
from scstream.families.columns import observed, positive
from scstream.families.scales import far_rows, feature_scales, spread_out, widening
from scstream.kernels.reference import accelerated

_LOG_PI = float(np.log(np.pi))
_WEAK_KAPPA = 0.01


@dataclass(frozen=True, eq=False)
class Diagonal(Family):
    """Gaussian clusters whose features are independent; NaN is a missing entry.

    Parameters
    ----------
    mean : array of shape (D,)
        Prior mean m of the cluster means.
    kappa : float or array of shape (D,)
        How many rows the prior mean is worth.
    nu : float
        Degrees of freedom of the variances, above zero.
    psi : array of shape (D,)
        Scale of the variances.
    origin : array of shape (D,), optional
        Point about which moments are kept; near the rows, so that no digits are lost. The prior
        mean by default.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Diagonal
    >>> family = Diagonal(mean=np.zeros(2), kappa=1.0, nu=3.0, psi=np.ones(2))
    >>> stats = family.stats(np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([0, 0]), 1)
    >>> family.means(stats).round(3)
    array([[1.333, 1.   ]])
    """

    mean: Array
    kappa: Array | float
    nu: float
    psi: Array
    origin: Array | None = None

    name = "diagonal"
    handles_missing = True
    supports_translation = True

    def __post_init__(self) -> None:
        mean = np.atleast_1d(np.asarray(self.mean, dtype=np.float64))
        origin = mean if self.origin is None else np.asarray(self.origin, dtype=np.float64)
        d = len(mean)
        if mean.ndim != 1 or origin.shape != mean.shape or not np.isfinite([mean, origin]).all():
            raise InputError("mean and origin must be finite vectors of the same length.")
        if not (np.isfinite(self.nu) and self.nu > 0):
            raise InputError(f"nu must be a positive number, got {self.nu}.")
        kappa, psi = positive("kappa", self.kappa, d), positive("psi", self.psi, d)
        for field, value in (("mean", mean), ("kappa", kappa), ("psi", psi), ("origin", origin)):
            object.__setattr__(self, field, value)

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def n_stats(self) -> int:
        return 1 + 3 * self.n_features

    @accelerated
    def stats(
        self, X: Rows, group: Labels, n_groups: int, weight: Array | None = None
    ) -> Array:  # (G, P)
        present, centred = self._centred(X)
        values = np.column_stack([np.ones(len(centred)), present, centred, centred**2])
        return group_sums(values * unit_weight(X, weight)[:, None], group, n_groups)

    @accelerated
    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        kappa, _, nu, scale = self._posterior(stats)
        features = (
            0.5 * (self.nu - nu) * _LOG_PI
            + gammaln(0.5 * nu)
            - gammaln(0.5 * self.nu)
            + 0.5 * (self.nu * np.log(self.nu * self.psi) - nu * np.log(scale))
            + 0.5 * np.log(self.kappa / kappa)
        )
        return np.asarray(features.sum(axis=-1))

    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, 3D)
        """Draw 1 / sigma, mu / sigma and the constant of the density of each feature."""
        nu = self.nu + self._sums(stats)[0]
        return self.parameters(stats, draws.normal(self.n_features), draws.log_gamma(0.5 * nu))

    @accelerated
    def parameters(self, stats: Array, normals: Array, log_gammas: Array) -> Array:  # (G, 3D)
        """Make a draw of standard normals and gamma variates, (G, D) each."""
        kappa, mean, _, scale = self._posterior(stats)
        log_whiten = 0.5 * (log_gammas - np.log(0.5 * scale))
        whiten = np.exp(log_whiten)
        centre = whiten * mean + normals / np.sqrt(kappa)
        constant = log_whiten - 0.5 * (np.log(2.0) + _LOG_PI)
        return np.concatenate([whiten, centre, constant], axis=1)

    @accelerated
    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, 3D), (N, D) -> (N, G)
        whiten, centre, constant = np.split(params, 3, axis=1)
        out = observed(X)[0] @ constant.T
        for square in self._squares(whiten, centre, X):
            out -= 0.5 * square
        return np.asarray(out)

    @accelerated
    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, 4D)
        """Student-t with df = nu, per feature constant - power log1p((w x - b)^2)."""
        kappa, mean, nu, scale = self._posterior(stats)
        power = 0.5 * (nu + 1.0)
        square = kappa / ((kappa + 1.0) * scale)
        whiten = np.sqrt(square)
        constant = gammaln(power) - gammaln(0.5 * nu) + 0.5 * (np.log(square) - _LOG_PI)
        return np.concatenate([whiten, whiten * mean, constant, power], axis=1)

    @accelerated
    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, 4D), (N, D) -> (N, G)
        whiten, centre, constant, power = np.split(table, 4, axis=1)
        out = observed(X)[0] @ constant.T
        for d, square in enumerate(self._squares(whiten, centre, X)):
            out -= power[:, d] * np.log1p(square)
        return np.asarray(out)

    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        return self._posterior(stats)[1] + self._origin

    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        """Root of the posterior mean of the variance, or of its scale where that is infinite."""
        _, _, nu, scale = self._posterior(stats)
        return np.asarray(np.sqrt(scale / np.where(nu >= 3.0, nu - 2.0, nu)))

    def log_overlap(self, stats: Array, first: Labels, second: Labels) -> Array:  # (M,)
        """Log Bhattacharyya coefficient of Gaussians with the posterior means."""
        mean, variance = self._posterior(stats)[1], np.square(self.stds(stats))
        pooled = 0.5 * (variance[first] + variance[second])
        spread = 0.25 * (np.log(variance)[first] + np.log(variance)[second])
        distance = 0.125 * np.square(mean[first] - mean[second]) / pooled + 0.5 * np.log(pooled)
        return np.asarray((spread - distance).sum(axis=1))

    def bisect(self, stats: Array, along: Array) -> Array:  # (G, P), (G, P) -> (G, P)
        """Cut through the mean of the feature that varies most in `along`, in prior units.

        As in `Gaussian.bisect`, with the axis of one feature. The core multiplies by the count of
        the group, but only entries that are present move: hence their share of the count.
        """
        d = self.n_features
        group = np.arange(len(stats))
        axis = (self._scatter(along)[2] / self.psi).argmax(axis=1)
        n_present, mean, variance = (values[group, axis] for values in self._scatter(stats))
        offset = np.sqrt(variance * 2.0 / np.pi)
        share = n_present / np.maximum(stats[:, 0], np.finfo(float).tiny)
        out = np.zeros_like(stats)
        out[group, 1 + d + axis] = 0.5 * share * offset
        out[group, 1 + 2 * d + axis] = share * mean * offset
        return out

    def translate(self, stats: Array, shift: Array) -> Array:  # (G, P), (G, D) -> (G, P)
        n_present, first, second = self._sums(stats)
        second = second + shift * (2.0 * first + n_present * shift)
        return np.concatenate([stats[:, :1], n_present, first + n_present * shift, second], axis=1)

    def coordinates(self, X: Rows) -> Array:  # (N, D)
        """Coordinates in which the prior's scales are one; the prior mean where missing."""
        present, centred = self._centred(X)
        centred += (1.0 - present) * (self.mean - self._origin)
        return np.asarray(centred / np.sqrt(self.psi))

    def check(self, X: Rows) -> None:
        super().check(X)
        spread_out(X, self._origin, np.sqrt(self.psi))

    def far_rows(self, X: Rows) -> NDArray[np.bool_]:  # (N,)
        return far_rows(X, self._origin, np.sqrt(self.psi))

    def widened(self, X: Rows) -> Self:
        factor = widening(X, self._origin, np.sqrt(self.psi))
        if not (factor > 1.0).any():
            return self
        kappa = np.where(factor > 1.0, _WEAK_KAPPA, self.kappa)
        return replace(self, kappa=kappa, psi=self.psi * np.square(factor))

    @classmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        """Expect clusters of half the whole spread, anywhere in a region ten times as large."""
        centre, scale = feature_scales(X, weight)
        return cls(mean=centre, kappa=_WEAK_KAPPA, nu=4.0, psi=(0.5 * scale) ** 2, origin=centre)

    def prior_grid(self, stats: Array) -> list[Self]:
        """Priors around the groups' pooled variances and the scatter of their means."""
        n_present, mean, variance = self._scatter(stats)
        total = np.maximum(n_present.sum(axis=0), np.finfo(float).tiny)
        share = n_present / total
        # Each group spends one degree of freedom on its mean.
        freedom = np.maximum(total - (n_present > 0).sum(axis=0), 0.5 * total)
        within = np.maximum((share * variance).sum(axis=0) * (total / freedom), 1e-6 * self.psi)
        grand = (share * mean).sum(axis=0)
        between = np.maximum((share * (mean - grand) ** 2).sum(axis=0), 1e-6 * self.psi)
        return [
            replace(
                self,
                mean=grand + self._origin,
                kappa=np.clip(within / between, 1e-4, 1.0),
                nu=1.0 + extra,
                psi=within * (size * (extra - 1.0) / (1.0 + extra)),
            )
            for extra in (2.0, 4.0, 8.0, 14.0, 20.0)
            for size in (0.35, 0.6, 1.0, 1.7)
        ]

    def hyperparameters(self) -> Hyperparameters:
        return {
            "mean": self.mean,
            "kappa": self.kappa,
            "nu": float(self.nu),
            "psi": self.psi,
            "origin": self._origin,
        }

    def compiled_by(self, native: ModuleType) -> Any:
        """Return the compiled form of this family."""
        return native.Diagonal(self.mean, self.kappa, float(self.nu), self.psi, self._origin)

    @property
    def _origin(self) -> Array:
        return np.asarray(self.origin)  # never None: `__post_init__` puts the mean there

    def _centred(self, X: Rows) -> tuple[Array, Array]:  # (N, D), (N, D)
        """Return which entries are present, and the rows about the origin, zero where missing."""
        return observed(np.asarray(X, dtype=np.float64) - self._origin)

    def _sums(self, stats: Array) -> tuple[Array, Array, Array]:  # (..., D) each
        d = self.n_features
        return stats[..., 1 : 1 + d], stats[..., 1 + d : 1 + 2 * d], stats[..., 1 + 2 * d :]

    def _scatter(self, stats: Array) -> tuple[Array, Array, Array]:  # (G, D) each
        """Number, mean (about the origin) and variance of the entries; zero for no entries."""
        n_present, first, second = self._sums(stats)
        count = np.maximum(n_present, np.finfo(float).tiny)
        mean = first / count
        return n_present, mean, np.maximum(second / count - mean**2, 0.0)

    def _posterior(self, stats: Array) -> tuple[Array, Array, Array, Array]:  # (..., D) each
        """Return kappa*, m* (about the origin), nu* and nu* psi* of each feature."""
        n_present, first, second = self._sums(stats)
        prior_mean = self.mean - self._origin
        kappa = self.kappa + n_present
        mean = (self.kappa * prior_mean + first) / kappa
        scale = self.nu * self.psi + second + self.kappa * prior_mean**2 - kappa * mean**2
        # Only round-off takes nu* psi* below nu psi.
        return kappa, mean, self.nu + n_present, np.maximum(scale, self.nu * self.psi)

    def _squares(self, whiten: Array, centre: Array, X: Rows) -> Iterator[Array]:  # D times (N, G)
        """Yield (w x - b)^2 feature by feature, zero where the entry is missing."""
        present, centred = self._centred(X)
        for d in range(self.n_features):
            distance = np.multiply.outer(centred[:, d], whiten[:, d])
            distance -= centre[:, d]
            distance[present[:, d] == 0] = 0.0
            distance *= distance
            yield distance
