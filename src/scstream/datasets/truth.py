"""The true parameters of one batch: clusters, weights, centres and how they change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Rows = npt.NDArray[Any]


class Emission(Protocol):
    """The distribution of the rows of a cluster, given its centre and its label."""

    def sample(self, rng: np.random.Generator, centres: FloatArray, labels: IntArray) -> Rows:
        """Return one row per centre (N,D) and label (N,)."""

    def log_density(self, X: FloatArray, centre: FloatArray, label: int) -> FloatArray:
        """Return (N,) log densities, up to a term that is the same for all clusters.

        ``centre`` is (D,), or (N,D) where the cluster moves from row to row.
        """

    def distances(
        self, centres: FloatArray, label: int, others: FloatArray, other_labels: IntArray
    ) -> FloatArray:
        """Return (C,M) distances of C centres from M other centres, in standard deviations."""


E = TypeVar("E", bound=Emission)


@dataclass(frozen=True, eq=False)
class Population(Generic[E]):
    """The initial clusters of a stream, and the distribution of new centres."""

    emission: E
    centres: FloatArray  # (K,D)
    weights: FloatArray  # (K,)
    redraw: Callable[[np.random.Generator, IntArray], FloatArray]

    @property
    def labels(self) -> IntArray:
        """Return the labels 0..K-1."""
        return np.arange(len(self.centres), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class BatchTruth:
    """The true parameters during one batch.

    Every kind of drift is a special case. Cluster k leaves ``old[k]`` for ``new[k]`` from time
    ``starts[k]`` on; the share of the new centre rises linearly from 0 to 1 over ``width`` batches.
    With ``blend`` the centre itself moves (incremental drift); without it a row comes from the new
    centre with that probability and from the old one otherwise (gradual drift). Width 0 is abrupt
    drift. Recurrence, births and deaths change ``labels`` and ``weights`` from batch to batch.
    """

    emission: Emission
    labels: IntArray  # (K,)
    weights: FloatArray  # (K,)
    old: FloatArray  # (K,D)
    new: FloatArray  # (K,D)
    starts: FloatArray  # (K,)
    width: float
    blend: bool

    @classmethod
    def static(
        cls, emission: Emission, labels: IntArray, weights: FloatArray, centres: FloatArray
    ) -> BatchTruth:
        """Return the truth of a batch in which no centre changes."""
        never = np.full(len(labels), np.inf)
        return cls(emission, labels, weights, centres, centres, never, 0.0, blend=True)

    def sample(self, rng: np.random.Generator, times: FloatArray) -> tuple[Rows, IntArray]:
        """Return a row for each time (N,), and its label."""
        cluster = rng.choice(len(self.weights), size=len(times), p=self.weights)  # (N,)
        share = self._share(times, self.starts[cluster])
        if not self.blend:
            share = (rng.random(len(times)) < share).astype(np.float64)
        centres = _interpolate(self.old[cluster], self.new[cluster], share)
        labels = self.labels[cluster]
        return self.emission.sample(rng, centres, labels), labels

    def classify(self, X: Rows, times: FloatArray) -> IntArray:
        """Return the labels of the Bayes classifier: the most probable cluster of each row."""
        rows = np.asarray(X, dtype=np.float64)
        log_joint = np.column_stack(
            [self._log_density(rows, times, k) for k in range(len(self.labels))]
        ) + np.log(self.weights)
        best: IntArray = self.labels[log_joint.argmax(axis=1)]
        return best

    def _share(self, times: FloatArray, starts: FloatArray | np.float64) -> FloatArray:
        """Return the progress of the change, 0 to 1, at each time."""
        elapsed = times - starts
        if self.width == 0.0:
            return (elapsed >= 0.0).astype(np.float64)
        share: FloatArray = np.clip(elapsed / self.width, 0.0, 1.0)
        return share

    def _log_density(self, X: FloatArray, times: FloatArray, k: int) -> FloatArray:
        """Return the true log density of cluster k at each row's own time."""
        old, new, label = self.old[k], self.new[k], int(self.labels[k])
        share = self._share(times, self.starts[k])  # (N,)
        if not share.any():
            return self.emission.log_density(X, old, label)
        if (share == 1.0).all():
            return self.emission.log_density(X, new, label)
        if self.blend:
            return self.emission.log_density(X, _interpolate(old, new, share), label)
        with np.errstate(divide="ignore"):
            log_old, log_new = np.log1p(-share), np.log(share)
        log_old = log_old + self.emission.log_density(X, old, label)
        log_new = log_new + self.emission.log_density(X, new, label)
        either: FloatArray = np.logaddexp(log_old, log_new)
        return either


def _interpolate(old: FloatArray, new: FloatArray, share: FloatArray) -> FloatArray:
    # Not old + share*(new-old): this is exact at both ends and keeps probabilities >= 0.
    return (1.0 - share)[:, None] * old + share[:, None] * new
