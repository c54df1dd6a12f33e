"""Distributions of the rows of a true cluster: Gaussian or multinomial."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scstream.datasets.truth import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Gaussian rows with covariance ``F F'``, where F is the factor of the label.

    Factors are reused (label modulo their number), so that an infinite stream needs no more.
    """

    factors: FloatArray  # (S,D,D)
    whiteners: FloatArray  # (S,D,D), the inverse factors
    log_dets: FloatArray  # (S,), of the factors

    @classmethod
    def from_factors(cls, factors: FloatArray) -> Gaussians:
        """Return the emission with the inverse factors and determinants."""
        whiteners: FloatArray = np.asarray(np.linalg.inv(factors), dtype=np.float64)
        return cls(factors, whiteners, np.linalg.slogdet(factors)[1])

    @classmethod
    def inverse_wishart(
        cls, rng: np.random.Generator, n_shapes: int, n_features: int, *, df: float
    ) -> Gaussians:
        """Draw covariances from the inverse Wishart law with mean I."""
        # Bartlett: the precision is A A' / scale, so a root of the covariance is sqrt(scale) A'^-1.
        A = np.tril(rng.standard_normal((n_shapes, n_features, n_features)), -1)
        degrees = df - np.arange(n_features)
        diagonal = np.sqrt(rng.chisquare(degrees, size=(n_shapes, n_features)))
        A[:, np.arange(n_features), np.arange(n_features)] = diagonal
        scale = df - n_features - 1.0
        return cls.from_factors(np.sqrt(scale) * np.linalg.inv(np.swapaxes(A, 1, 2)))

    def scaled(self, sd: FloatArray) -> Gaussians:
        """Return the same shapes with feature d scaled by ``sd[d]``."""
        return Gaussians.from_factors(sd[:, None] * self.factors)

    def scales(self, labels: IntArray) -> FloatArray:
        """Return the root mean square standard deviation over the features, one per label."""
        squares = self._of(self.factors, labels) ** 2
        scales: FloatArray = np.sqrt(squares.sum(axis=(1, 2)) / squares.shape[1])
        return scales

    def sample(self, rng: np.random.Generator, centres: FloatArray, labels: IntArray) -> FloatArray:
        """Return one Gaussian row per centre and label."""
        noise = rng.standard_normal(centres.shape)
        X = centres.copy()
        for label in np.unique(labels):
            rows = labels == label
            X[rows] += noise[rows] @ self._of(self.factors, label).T
        return X

    def log_density(self, X: FloatArray, centre: FloatArray, label: int) -> FloatArray:
        """Return (N,) log densities, without the constant in pi."""
        white = (X - centre) @ self._of(self.whiteners, label).T
        log_density: FloatArray = -0.5 * (white**2).sum(axis=1) - self._of(self.log_dets, label)
        return log_density

    def distances(
        self, centres: FloatArray, label: int, others: FloatArray, other_labels: IntArray
    ) -> FloatArray:
        """Return (C,M) Mahalanobis distances under the mean of both covariances."""
        own = self._of(self.factors, label)
        others_factors = self._of(self.factors, other_labels)
        pooled = 0.5 * (own @ own.T + others_factors @ np.swapaxes(others_factors, 1, 2))  # (M,D,D)
        differences = centres[:, None, :] - others  # (C,M,D)
        solved = np.linalg.solve(pooled, differences[..., None])[..., 0]
        distances: FloatArray = np.sqrt((differences * solved).sum(axis=-1))
        return distances

    def _of(self, table: FloatArray, label: IntArray | int) -> FloatArray:
        rows: FloatArray = table[label % len(self.factors)]
        return rows


@dataclass(frozen=True)
class Multinomials:
    """Rows of ``n_trials`` counts; the centre of a cluster is its vector of probabilities."""

    n_trials: int

    def sample(self, rng: np.random.Generator, centres: FloatArray, labels: IntArray) -> IntArray:
        """Return one row of counts per centre."""
        return rng.multinomial(self.n_trials, centres)

    def log_density(self, X: FloatArray, centre: FloatArray, label: int) -> FloatArray:
        """Return (N,) log probabilities, without the multinomial coefficient."""
        log_density: FloatArray = (
            X @ np.log(centre) if centre.ndim == 1 else (X * np.log(centre)).sum(axis=1)
        )
        return log_density

    def distances(
        self, centres: FloatArray, label: int, others: FloatArray, other_labels: IntArray
    ) -> FloatArray:
        """Return (C,M) chi distances of one row's counts."""
        differences = centres[:, None, :] - others  # (C,M,D)
        middle = 0.5 * (centres[:, None, :] + others)
        distances: FloatArray = np.sqrt(self.n_trials * (differences**2 / middle).sum(axis=-1))
        return distances
