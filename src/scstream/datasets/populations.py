"""The clusters at the beginning of a stream. Each class draws a `Population` when it is called."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from scstream.datasets.checks import check_at_least
from scstream.datasets.emissions import Gaussians, Multinomials
from scstream.datasets.scene import E, FloatArray, IntArray, Population
from scstream.errors import InputError

N_CANDIDATES = 64  # places tried for a cluster that wants room


@dataclass(frozen=True)
class Box:
    """Gaussian clusters with means uniform in a cube about the origin."""

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

        A distance grows like the root of the number of features: the last factor keeps the
        separation of two clusters about the same in all of them.
        """
        crowd = math.pow(self.n_clusters, 1.0 / self.n_features)
        return 0.5 * self.separation * crowd * math.sqrt(2.0 / self.n_features)

    def __call__(self, rng: np.random.Generator) -> Population[Gaussians]:
        """Draw covariances IW with mean I, weights Dirichlet(5), means uniform."""
        weights = rng.dirichlet(np.full(self.n_clusters, 5.0))
        # In the plane this is IW(6, 3 I); more degrees of freedom keep large D well conditioned.
        shapes = Gaussians.inverse_wishart(
            rng, self.n_clusters, self.n_features, df=3.0 * self.n_features
        )
        fresh = partial(_uniform, n_features=self.n_features, half_width=self.half_width)
        places = fresh(rng, np.arange(self.n_clusters))
        population = Population(shapes, places, weights, fresh)
        return _spread_out(rng, population) if self.spread_out else population


@dataclass(frozen=True)
class Cloud:
    """Gaussian clusters with means from a Gaussian, standardised: total variance 1 per feature."""

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
        fresh = partial(_normal, sd=np.sqrt(variance))
        places = fresh(rng, np.arange(self.n_clusters))
        correlations = Gaussians.inverse_wishart(
            rng, self.n_clusters, self.n_features, df=self.n_features + 40.0
        )
        weights = np.full(self.n_clusters, 1.0 / self.n_clusters)
        return Population(correlations.scaled(np.sqrt(1.0 - variance)), places, weights, fresh)


@dataclass(frozen=True)
class Urns:
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
        fresh = partial(_probabilities, n_features=self.n_features)
        places = fresh(rng, np.arange(self.n_clusters))
        return Population(Multinomials(self.n_trials), places, weights, fresh)


def roomiest(places: FloatArray, gaps: FloatArray) -> FloatArray:
    """Return the place (C,D) whose nearest neighbour, by the distances (C,M), is farthest."""
    best: FloatArray = places[gaps.min(axis=1).argmax()]
    return best


def _spread_out(rng: np.random.Generator, population: Population[E]) -> Population[E]:
    """Place the clusters anew, one after the other, each far from those before it."""
    places = population.places[:1]
    for label in range(1, len(population.places)):
        tried = population.fresh(rng, np.full(N_CANDIDATES, label))
        gaps = population.emission.distances(tried, label, places, population.labels[:label])
        places = np.vstack([places, roomiest(tried, gaps)])
    return replace(population, places=places)


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
