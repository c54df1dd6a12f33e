"""MOA's clusterers in Java, started through CapyMOA.

CapyMOA wraps some of them and hands over one row at a time; here the rows of a batch cross to Java
together, as wrapping them took most of the time. MOA wants a class of every row: it is always 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

os.environ.setdefault(
    "CAPYMOA_JVM_ARGS", "-Xmx4g -Xss10M -XX:+UseSerialGC -XX:ActiveProcessorCount=1"
)

import jpype
from capymoa.stream import Schema
from com.yahoo.labs.samoa.instances import DenseInstance
from moa.clusterers.clustream import WithKmeans
from moa.clusterers.clustree import ClusTree
from moa.clusterers.denstream import WithDBSCAN
from moa.clusterers.dstream import Dstream
from moa.clusterers.kmeanspm import BICO
from moa.clusterers.streamkm import StreamKM
from sklearn.cluster import KMeans

from benchmarks.paper.methods.centres import Labelled

Part = Iterator[tuple[np.ndarray, int]]  # a centre with the label of its cluster


class Moa:
    """A clusterer of MOA with its options, and how its clusters are read."""

    def __init__(
        self, learner: Any, n_features: int, read: Callable[[Any], Labelled], **options: Any
    ) -> None:
        names = [f"x{j}" for j in range(n_features)]
        schema = Schema.from_custom([*names, "y"], target="y", categories={"y": ["0", "1"]})
        self.header, self.learner, self.read = schema.get_moa_header(), learner, read
        line = " ".join(f"-{name} {value}" for name, value in options.items())
        learner.getOptions().setViaCLIString(line)
        learner.prepareForUse()
        learner.resetLearningImpl()
        learner.setModelContext(self.header)
        self._found = Labelled(np.empty((0, n_features)), np.empty(0, np.int64))

    def learn(self, X: np.ndarray) -> None:
        """Learn the rows, then read the clusters."""
        for row in jpype.JArray.of(np.column_stack([X, np.zeros(len(X))])):
            instance = DenseInstance(1.0, row)
            instance.setDataset(self.header)
            self.learner.trainOnInstance(instance)
        self._found = self.read(self.learner)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Cluster of each row."""
        return self._found.of(X)

    @property
    def n_clusters(self) -> int:
        """Number of clusters that a row could get."""
        return self._found.n_labels


def labelled(parts: Part) -> Labelled:
    """Centres without the class that MOA keeps as their last coordinate."""
    pairs = list(parts)
    centres = np.array([centre[:-1] for centre, _ in pairs])
    return Labelled(centres, np.array([label for _, label in pairs], dtype=np.int64))


def clusters(clustering: Any) -> list[Any]:
    """The clusters of a clustering, which may be missing."""
    return [] if clustering is None else list(clustering.getClustering())


def macro(learner: Any) -> Labelled:
    """Clusters by their centres."""
    found = clusters(learner.getClusteringResult())
    return labelled((np.array(each.getCenter()), label) for label, each in enumerate(found))


def members(learner: Any) -> Labelled:
    """Clusters of any shape by the centres of their micro-clusters."""
    found = clusters(learner.getClusteringResult())
    return labelled(
        (np.array(micro.getCenter()), label)
        for label, each in enumerate(found)
        for micro in each.getMicroClusters()
    )


def cells(learner: Any, size: float) -> Labelled:
    """Clusters of grid cells; MOA cuts coordinates off towards zero, so cells there are wide."""
    found = clusters(learner.getClusteringResult())
    corners = labelled(
        (np.array(grid.getCoordinates(), dtype=np.float64), label)
        for label, each in enumerate(found)
        for grid in each.getGrids()
    )
    return Labelled(size * (corners.centres + 0.5 * np.sign(corners.centres)), corners.labels)


def by_kmeans(k: int, seed: int) -> Callable[[Any], Labelled]:
    """Micro-clusters put into `k` clusters by k-means with their weights."""

    def read(learner: Any) -> Labelled:
        found = clusters(learner.getMicroClusteringResult())
        micro = labelled((np.array(each.getCenter()), 0) for each in found)
        weight = np.array([each.getWeight() for each in found])
        model = KMeans(min(k, len(found)), n_init=3, random_state=seed)
        return Labelled(micro.centres, model.fit(micro.centres, sample_weight=weight).labels_)

    return read


class Scaled(Moa):
    """D-Stream, whose cells have width 1: rows are divided by another width first."""

    def __init__(self, n_features: int, size: float, **options: Any) -> None:
        super().__init__(Dstream(), n_features, lambda learner: cells(learner, size), **options)
        self.size = size

    def learn(self, X: np.ndarray) -> None:
        """Learn the rows."""
        super().learn(X / self.size)


def clustree(*, n_features: int, k: int, kind: str, seed: int, horizon: int, height: int) -> Moa:
    """A tree of micro-clusters that fade, k-means over them."""
    return Moa(ClusTree(), n_features, by_kmeans(k, seed), h=horizon, H=height)


def clustream(
    *, n_features: int, k: int, kind: str, seed: int, horizon: int, kernels: int, radius: int
) -> Moa:
    """Micro-clusters in a time window, k-means over them."""
    return Moa(WithKmeans(), n_features, macro, k=k, h=horizon, m=kernels, t=radius)


def denstream(
    *,
    n_features: int,
    k: int,
    kind: str,
    seed: int,
    epsilon: float,
    beta: float,
    mu: float,
    offline: float,
    decay: float,
) -> Moa:
    """Fading micro-clusters, DBSCAN over them."""
    options = {"e": epsilon, "b": beta, "m": mu, "o": offline, "l": decay}
    return Moa(WithDBSCAN(), n_features, members, **options)


def dstream(
    *,
    n_features: int,
    k: int,
    kind: str,
    seed: int,
    size: float,
    decay: float,
    dense: float,
    thin: float,
) -> Moa:
    """Cells of a grid whose density fades."""
    return Scaled(n_features, size, d=decay, m=dense, l=thin)


def stream_km(*, n_features: int, k: int, kind: str, seed: int, coreset: int) -> Moa:
    """k-means++ over a coreset."""
    return Moa(StreamKM(), n_features, macro, k=k, s=coreset, r=seed)


def bico(*, n_features: int, k: int, kind: str, seed: int, features: int) -> Moa:
    """k-means++ over a tree of cluster features."""
    return Moa(BICO(), n_features, macro, k=k, d=n_features + 1, n=features)
