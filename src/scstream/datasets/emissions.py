"""What a true cluster emits: Gaussian vectors or multinomial counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scstream.datasets.scene import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Gaussian rows about a mean, with covariance ``F F'`` where F is the factor of the label.

    Shapes are reused in rotation (label modulo their number), so that an endless stream of births
    needs no more of them.
    """

    factors: FloatArray  # (S,D,D)
    whiteners: FloatArray  # (S,D,D), the inverse factors
    log_dets: FloatArray  # (S,), of the factors

    @classmethod
    def from_factors(cls, factors: FloatArray) -> Gaussians:
        """Return the emission with everything the density needs computed once."""
        whiteners: FloatArray = np.asarray(np.linalg.inv(factors), dtype=np.float64)
        return cls(factors, whiteners, np.linalg.slogdet(factors)[1])

    @classmethod
    def inverse_wishart(
        cls, rng: np.random.Generator, n_shapes: int, n_features: int, *, df: float
    ) -> Gaussians:
        """Draw covariances from the inverse Wishart law with mean I."""
        # Bartlett: the precision is A A' / scale, so a root of the covariance is sqrt(scale) A'^-1.
        A = np.tril(rng.standard_normal((n_shapes, n_features, n_features)), -1)
        ladder = df - np.arange(n_features)
        diagonal = np.sqrt(rng.chisquare(ladder, size=(n_shapes, n_features)))
        A[:, np.arange(n_features), np.arange(n_features)] = diagonal
        scale = df - n_features - 1.0
        return cls.from_factors(np.sqrt(scale) * np.linalg.inv(np.swapaxes(A, 1, 2)))

    def scaled(self, sd: FloatArray) -> Gaussians:
        """Return the same shapes with feature d stretched by ``sd[d]``."""
        return Gaussians.from_factors(sd[:, None] * self.factors)

    def scales(self, labels: IntArray) -> FloatArray:
        """Return the root mean square standard deviation over the features, one per label."""
        squares = self._of(self.factors, labels) ** 2
        scales: FloatArray = np.sqrt(squares.sum(axis=(1, 2)) / squares.shape[1])
        return scales

    def draw(self, rng: np.random.Generator, places: FloatArray, labels: IntArray) -> FloatArray:
        """Return one Gaussian row per place and label."""
        noise = rng.standard_normal(places.shape)
        X = places.copy()
        for label in np.unique(labels):
            rows = labels == label
            X[rows] += noise[rows] @ self._of(self.factors, label).T
        return X

    def log_density(self, X: FloatArray, place: FloatArray, label: int) -> FloatArray:
        """Return (N,) log densities, without the constant in pi."""
        white = (X - place) @ self._of(self.whiteners, label).T
        log_density: FloatArray = -0.5 * (white**2).sum(axis=1) - self._of(self.log_dets, label)
        return log_density

    def distances(
        self, places: FloatArray, label: int, others: FloatArray, their_labels: IntArray
    ) -> FloatArray:
        """Return (C,M) Mahalanobis distances under the mean of both covariances."""
        own = self._of(self.factors, label)
        theirs = self._of(self.factors, their_labels)
        pooled = 0.5 * (own @ own.T + theirs @ np.swapaxes(theirs, 1, 2))  # (M,D,D)
        gaps = places[:, None, :] - others  # (C,M,D)
        solved = np.linalg.solve(pooled, gaps[..., None])[..., 0]
        distances: FloatArray = np.sqrt((gaps * solved).sum(axis=-1))
        return distances

    def _of(self, table: FloatArray, label: IntArray | int) -> FloatArray:
        rows: FloatArray = table[label % len(self.factors)]
        return rows


@dataclass(frozen=True)
class Multinomials:
    """Rows of ``n_trials`` counts; the place of a cluster is its vector of probabilities."""

    n_trials: int

    def draw(self, rng: np.random.Generator, places: FloatArray, labels: IntArray) -> IntArray:
        """Return one row of counts per place."""
        return rng.multinomial(self.n_trials, places)

    def log_density(self, X: FloatArray, place: FloatArray, label: int) -> FloatArray:
        """Return (N,) log probabilities, without the multinomial coefficient."""
        log_density: FloatArray = (
            X @ np.log(place) if place.ndim == 1 else (X * np.log(place)).sum(axis=1)
        )
        return log_density

    def distances(
        self, places: FloatArray, label: int, others: FloatArray, their_labels: IntArray
    ) -> FloatArray:
        """Return (C,M) chi distances of one row's counts."""
        gaps = places[:, None, :] - others  # (C,M,D)
        middle = 0.5 * (places[:, None, :] + others)
        distances: FloatArray = np.sqrt(self.n_trials * (gaps**2 / middle).sum(axis=-1))
        return distances
