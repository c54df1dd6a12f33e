"""Round Gaussian clusters with one known variance, in the dimensions that a basis leaves over.

mu ~ N(m, variance / kappa I), x | mu ~ N(mu, variance I) in `n_dims` dimensions. Vectors have all D
columns and are orthogonal to the basis, so that their lengths and products are those outside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scstream.families.base import Array

_LOG_TWO_PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class Isotropic:
    """A round Gaussian with a conjugate prior of its mean; the variance is common to all groups."""

    mean: Array  # (D,)
    kappa: float
    variance: float
    n_dims: int

    def posterior(self, count: Array, first: Array) -> tuple[Array, Array]:  # (...), (..., D)
        """Return kappa* and m* of groups with these counts and first moments."""
        kappa = self.kappa + count
        mean = first + self.kappa * self.mean
        mean /= kappa[..., None]
        return kappa, mean

    def log_marginal(self, count: Array, along: Array, length: Array, square: Array) -> Array:
        """Log marginal likelihood of groups with the first moments f and square lengths `square`.

        `along` is ``self.mean . f`` and `length` is ``|f|^2``; all have one shape.
        """
        kappa = self.kappa + count
        prior = self.kappa * _square(self.mean)
        spread = square + prior - (self.kappa * (prior + 2.0 * along) + length) / kappa
        shrink = np.log(self.kappa / kappa)
        return self._log_density(count, spread) + 0.5 * self.n_dims * shrink

    def log_leave_one_out(
        self, weight: Array, kappa: Array, distance: Array
    ) -> Array:  # (N,), (N,), (N,) -> (N,)
        """What rows add to the log marginal of their groups, which have kappa* with the row.

        `distance` is the square distance of each row from m* of its group.
        """
        without = np.maximum(kappa - weight, self.kappa)
        spread = weight * kappa / without * distance
        return self._log_density(weight, spread) + 0.5 * self.n_dims * np.log(without / kappa)

    def predictive(self, count: Array, first: Array) -> list[Array]:  # (G, D), (G, 1), (G, 1)
        """Return mean, precision and constant of the predictive density of each group."""
        kappa, mean = self.posterior(count, first)
        return self._params(mean, kappa / ((kappa + 1.0) * self.variance))

    def sample(
        self, count: Array, first: Array, normals: Array
    ) -> list[Array]:  # (G, D), (G, 1), (G, 1)
        """Return drawn mean, precision and constant; `normals` (G, D) are outside the basis."""
        kappa, mean = self.posterior(count, first)
        drawn = mean + normals * np.sqrt(self.variance / kappa)[:, None]
        return self._params(drawn, np.full(len(count), 1.0 / self.variance))

    def log_density(self, params: Array, rest: Array, Z: Array) -> Array:  # (N, G)
        """Log density of rows with the square lengths `rest` (N,) outside the basis."""
        mean, precision, constant = params[:, :-2], params[:, -2], params[:, -1]
        distance = Z @ (-2.0 * mean).T
        distance += rest[:, None]
        distance += _square(mean)
        np.maximum(distance, 0.0, out=distance)
        distance *= -0.5 * precision
        distance += constant
        return np.asarray(distance)

    def _params(self, mean: Array, precision: Array) -> list[Array]:
        constant = 0.5 * self.n_dims * (np.log(precision) - _LOG_TWO_PI)
        return [mean, precision[:, None], constant[:, None]]

    def _log_density(self, count: Array, spread: Array) -> Array:
        """Log density of `count` rows whose square distances from a mean sum up to `spread`."""
        constant = -0.5 * self.n_dims * (np.log(self.variance) + _LOG_TWO_PI)
        return np.asarray(count * constant - 0.5 * np.maximum(spread, 0.0) / self.variance)


def _square(vectors: Array) -> Array:  # (..., D) -> (...)
    return np.asarray(np.einsum("...d,...d->...", vectors, vectors))
