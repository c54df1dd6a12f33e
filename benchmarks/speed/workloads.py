"""Mixtures of a given size, and models that have known them for long."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from scstream import Config, Exponential, ScStream
from scstream.core.cluster_edits import add_clusters
from scstream.core.state import NOVEL, State, Transition
from scstream.families import Direction, Family, Gaussian, Multinomial, Subspace
from scstream.families.sphere import unit_rows
from scstream.kernels import choose_kernels
from scstream.model import Model, Settings

_APART = 7.0  # least distance of two centres, in standard deviations
_ROWS_KEPT = 40  # rows of its past that a cluster should weigh, or its half-life is made longer
_AGE = 1_000  # batches that the clusters have lived
_EXTRA = 20.0  # degrees of freedom of the prior beyond D
_EXTRA_WIDE = 8.0  # the same for every feature, where there are many
_CHUNK = 1 << 22  # numbers held while rows are drawn
_NOISE = 1.2  # length of what is added to the direction of a cluster
_UNIT: dict[str, type[Family]] = {"direction": Direction, "subspace": Subspace}


@dataclass(frozen=True)
class Workload:
    """Batches of rows from a stationary mixture of K clusters."""

    n_rows: int
    n_features: int
    n_clusters: int
    kind: str = "gaussian"  # or "dense" or "sparse" counts, or unit rows for a family of `_UNIT`
    n_batches: int = 200  # few would be learned by heart
    seed: int = 0

    @cached_property
    def places(self) -> np.ndarray:  # (K, D)
        """Centres of Gaussians, directions of unit rows, or probabilities of counts."""
        rng = np.random.default_rng(self.seed)
        if self.kind in _UNIT:
            return unit_rows(rng.standard_normal((self.n_clusters, self.n_features)))
        if self.kind == "gaussian":
            return _centres(self.n_clusters, self.n_features, rng)
        return _urns(self.n_clusters, self.n_features, rng, sparse_rows=self.kind == "sparse")

    @cached_property
    def scales(self) -> np.ndarray:  # (K, D)
        """Standard deviations of Gaussians."""
        rng = np.random.default_rng(self.seed + 1)
        return rng.uniform(0.8, 1.2, self.places.shape)

    @cached_property
    def batches(self) -> list[Any]:
        """Batches as a model takes them."""
        rng = np.random.default_rng(self.seed + 2)
        drawn = (
            self.rows(rng.integers(self.n_clusters, size=self.n_rows), rng)
            for _ in range(self.n_batches)
        )
        return [sparse.csr_array(X) if self.kind == "sparse" else X for X in drawn]

    def rows(self, label: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # (N, D)
        """Draw a row from each of these clusters."""
        if self.kind in _UNIT:
            noise = rng.standard_normal((len(label), self.n_features))
            noise *= _NOISE / math.sqrt(self.n_features)
            noise += self.places[label]
            return unit_rows(noise)
        if self.kind == "gaussian":
            noise = rng.standard_normal((len(label), self.n_features))
            noise *= self.scales[label]
            noise += self.places[label]
            return noise
        n_trials = 15 if self.kind == "sparse" else 100
        return rng.multinomial(n_trials, self.places[label]).astype(np.float64)

    @cached_property
    def family(self) -> Family:
        """A family whose prior expects clusters of this kind."""
        return self._prior().with_kernels(choose_kernels())

    def _prior(self) -> Family:
        d = self.n_features
        if self.kind in _UNIT:
            return self._learned_prior(_UNIT[self.kind])
        if self.kind != "gaussian":
            return Multinomial(concentration=np.full(d, 0.5))
        spread = float(np.mean(np.square(self.places)))
        extra = _EXTRA if d <= 16 else _EXTRA_WIDE * d
        psi = np.eye(d) * (extra - 1.0) / (d + extra)
        return Gaussian(mean=np.zeros(d), kappa=1.0 / max(spread, 1.0), nu=d + extra, psi=psi)

    def _learned_prior(self, family: type[Family]) -> Family:
        """What a family learns from some rows of every cluster."""
        label = np.repeat(np.arange(self.n_clusters), 10)
        X = self.rows(label, np.random.default_rng(self.seed + 4))
        prior = family.weak_prior(X)
        return prior.adapted(prior.stats(X, label, self.n_clusters), X)

    @property
    def half_life(self) -> float:
        """The default, or as long as a cluster needs to keep enough rows."""
        return max(5.0, _ROWS_KEPT * self.n_clusters * math.log(2.0) / self.n_rows)

    def config(self, *, paper: bool = False, **choices: Any) -> Config:
        """A configuration with room for more clusters than there are."""
        make = Config.paper if paper else Config
        room = 2 * self.n_clusters + 50
        return make(kernel=Exponential(self.half_life), max_clusters=room, **choices)

    @cached_property
    def state(self) -> State:
        """Every cluster with the weight it has after many batches, its halves at random."""
        n_rows = max(_ROWS_KEPT, round(self.n_rows / self.n_clusters))  # of one cluster
        halves = np.concatenate(list(self._halves(min(n_rows, 5_000))))  # (K, 2, P)
        halves /= halves[:, :, 0].sum(axis=1).mean()
        halves *= self.n_rows / self.n_clusters / (1.0 - 2.0 ** (-1.0 / self.half_life))
        start = Transition.of(State.empty(self.family).replace(time=0.0))
        state = add_clusters(start, halves, np.full(self.n_clusters, NOVEL)).state
        return state.replace(age=state.age + _AGE, born=state.born - _AGE, n_batches=_AGE)

    def _halves(self, n_rows: int) -> Iterator[np.ndarray]:
        """Statistics of the halves of some clusters at a time."""
        rng = np.random.default_rng(self.seed + 3)
        family = self.family
        step = max(1, _CHUNK // (n_rows * self.n_features))
        for start in range(0, self.n_clusters, step):
            cluster = np.arange(start, min(start + step, self.n_clusters))
            label = np.repeat(cluster, n_rows)
            group = 2 * (label - start) + rng.integers(2, size=len(label))
            stats = family.stats(self.rows(label, rng), group, 2 * len(cluster))
            yield stats.reshape(len(cluster), 2, family.n_stats)

    def model(self, *, paper: bool = False, n_jobs: int = 1, **choices: Any) -> ScStream:
        """A model in the middle of the stream."""
        estimator = ScStream(n_jobs=n_jobs)
        estimator.model_ = Model(
            self.family,
            self.config(paper=paper, **choices),
            self.state,
            settings=Settings(n_jobs=n_jobs),
        )
        estimator.n_features_in_ = self.n_features
        return estimator


def _centres(n_clusters: int, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Points that keep their distance: the farthest of many, or any where there is much room."""
    if n_features > 10:
        points = rng.standard_normal((n_clusters, n_features))
        return points * max(1.0, _APART / math.sqrt(n_features))
    pool = rng.uniform(size=(20 * n_clusters, n_features))
    distance, chosen = np.full(len(pool), np.inf), [0]
    for _ in range(n_clusters - 1):
        nearer = np.square(pool - pool[chosen[-1]]).sum(axis=1)
        distance = np.minimum(distance, nearer)
        chosen.append(int(distance.argmax()))
    least = np.sqrt(distance[chosen[-1]]) if n_clusters > 1 else 1.0
    points = pool[chosen] - 0.5
    return np.asarray(points * _APART / least)


def _urns(
    n_clusters: int, n_features: int, rng: np.random.Generator, *, sparse_rows: bool
) -> np.ndarray:  # (K, D)
    """Probabilities over all outcomes, or over a fifth of them."""
    mass = rng.gamma(rng.uniform(1.0, 20.0, (n_clusters, n_features)))
    own = np.arange(n_clusters) % n_features
    mass[np.arange(n_clusters), own] += rng.uniform(30.0, 100.0, n_clusters)
    if sparse_rows:
        rank = rng.random(mass.shape).argsort(axis=1).argsort(axis=1)
        mass[rank >= max(2, n_features // 5)] = 0.0
        mass[np.arange(n_clusters), own] += 1.0
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))
