"""The initial clusters of a stream. Each class draws a `Population` when it is called."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from scstream.datasets.checks import check_at_least
from scstream.datasets.emissions import Gaussians, Multinomials
from scstream.datasets.truth import E, FloatArray, IntArray, Population
from scstream.errors import InputError

N_CANDIDATES = 64  # candidates for the centre of an isolated cluster


@dataclass(frozen=True)
class UniformGaussians:
    """Gaussian clusters with means uniform in a cube around the origin."""

    n_clusters: int
    n_features: int
    separation: float
    spread_out: bool = False

    def __post_init__(self) -> None:
        check_at_least(1, n_clusters=self.n_clusters, n_features=self.n_features)
        if not self.separation > 0.0:
            raise InputError(f"separation must be positive, not {self.separation!r}")

    @property
    def half_width(self) -> float:
        """Half the side of the cube.

        Distances grow with the root of the number of features; the last factor keeps the separation
        of two clusters about constant.
        """
        per_axis = math.pow(self.n_clusters, 1.0 / self.n_features)
        return 0.5 * self.separation * per_axis * math.sqrt(2.0 / self.n_features)

    def __call__(self, rng: np.random.Generator) -> Population[Gaussians]:
        """Draw covariances IW with mean I, weights Dirichlet(5), means uniform."""
        weights = rng.dirichlet(np.full(self.n_clusters, 5.0))
        # In the plane this is IW(6, 3 I); more degrees of freedom keep large D well conditioned.
        shapes = Gaussians.inverse_wishart(
            rng, self.n_clusters, self.n_features, df=3.0 * self.n_features
        )
        redraw = partial(_uniform, n_features=self.n_features, half_width=self.half_width)
        centres = redraw(rng, np.arange(self.n_clusters))
        population = Population(shapes, centres, weights, redraw)
        return _spread_out(rng, population) if self.spread_out else population


@dataclass(frozen=True)
class StandardGaussians:
    """Gaussian clusters with Gaussian means; the total variance is 1 in every feature."""

    n_clusters: int
    n_features: int
    between: tuple[float, float, float]

    def __post_init__(self) -> None:
        check_at_least(1, n_clusters=self.n_clusters, n_features=self.n_features)
        floor, height, length = self.between
        if not (floor >= 0.0 and height >= 0.0 and floor + height < 1.0 and length > 0.0):
            raise InputError(
                f"between=(floor, height, length) must leave variance within the clusters: "
                f"floor, height >= 0, floor + height < 1, length > 0, not {self.between!r}"
            )

    def __call__(self, rng: np.random.Generator) -> Population[Gaussians]:
        """Draw correlations from IW(D + 40) with mean I, weights equal, means Gaussian."""
        floor, height, length = self.between
        variance = floor + height * np.exp(-np.arange(self.n_features) / length)  # (D,) between
        redraw = partial(_normal, sd=np.sqrt(variance))
        centres = redraw(rng, np.arange(self.n_clusters))
        correlations = Gaussians.inverse_wishart(
            rng, self.n_clusters, self.n_features, df=self.n_features + 40.0
        )
        weights = np.full(self.n_clusters, 1.0 / self.n_clusters)
        return Population(correlations.scaled(np.sqrt(1.0 - variance)), centres, weights, redraw)


@dataclass(frozen=True)
class RandomMultinomials:
    """Multinomial clusters; in each of them the outcome ``label modulo D`` is frequent."""

    n_clusters: int
    n_features: int
    n_trials: int

    def __post_init__(self) -> None:
        check_at_least(1, n_clusters=self.n_clusters, n_trials=self.n_trials)
        check_at_least(2, n_features=self.n_features)

    def __call__(self, rng: np.random.Generator) -> Population[Multinomials]:
        """Draw probabilities Dirichlet with random concentrations, weights Dirichlet(10)."""
        weights = rng.dirichlet(np.full(self.n_clusters, 10.0))
        redraw = partial(_probabilities, n_features=self.n_features)
        centres = redraw(rng, np.arange(self.n_clusters))
        return Population(Multinomials(self.n_trials), centres, weights, redraw)


def most_isolated(centres: FloatArray, distances: FloatArray) -> FloatArray:
    """Return the centre (C,D) with the largest distance (C,M) to its nearest neighbour."""
    best: FloatArray = centres[distances.min(axis=1).argmax()]
    return best


def _spread_out(rng: np.random.Generator, population: Population[E]) -> Population[E]:
    """Redraw the centres one after the other, each far from those before it."""
    centres = population.centres[:1]
    for label in range(1, len(population.centres)):
        tried = population.redraw(rng, np.full(N_CANDIDATES, label))
        distances = population.emission.distances(tried, label, centres, population.labels[:label])
        centres = np.vstack([centres, most_isolated(tried, distances)])
    return replace(population, centres=centres)


def _uniform(
    rng: np.random.Generator, labels: IntArray, *, n_features: int, half_width: float
) -> FloatArray:
    return rng.uniform(-half_width, half_width, size=(len(labels), n_features))


def _normal(rng: np.random.Generator, labels: IntArray, *, sd: FloatArray) -> FloatArray:
    return sd * rng.standard_normal((len(labels), len(sd)))


def _probabilities(rng: np.random.Generator, labels: IntArray, *, n_features: int) -> FloatArray:
    concentrations = rng.integers(1, 21, size=(len(labels), n_features)).astype(np.float64)
    frequent = rng.integers(30, 101, size=len(labels))
    concentrations[np.arange(len(labels)), labels % n_features] = frequent
    gammas = rng.standard_gamma(concentrations)
    probabilities: FloatArray = gammas / gammas.sum(axis=1, keepdims=True)
    return probabilities
