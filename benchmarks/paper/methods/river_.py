"""river: rows are dictionaries and learned one by one.

Nothing is learned while a batch is predicted, so the offline step that `predict_one` would repeat
for every row is done once a batch, and its centres are searched for all rows at a time: the same
labels, sooner.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from river import cluster

from benchmarks.paper.methods.centres import Labelled, nearest
from benchmarks.paper.methods.text import Micro, words

Centres = Callable[[Any, int], Labelled]


class Rowwise:
    """A method that learns row by row and has centres."""

    def __init__(self, model: Any, centres: Centres) -> None:
        self.model, self._centres = model, centres
        self._found = Labelled(np.empty((0, 0)), np.empty(0, np.int64))

    def learn(self, X: np.ndarray) -> None:
        """Learn the rows, then find the clusters."""
        for row in X.tolist():
            self.model.learn_one(dict(enumerate(row)))
        self._found = self._centres(self.model, X.shape[1])

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Cluster of each row."""
        return self._found.of(X)

    @property
    def n_clusters(self) -> int:
        """Number of clusters that a row could get."""
        return self._found.n_labels


class Text:
    """TextClust, which takes words; a micro-cluster is a cluster, as `predict_one` has it."""

    def __init__(self, model: cluster.TextClust) -> None:
        self.model, self._micro = model, Micro({})

    def learn(self, X: Any) -> None:
        """Learn the rows, then read the micro-clusters."""
        for row in words(X):
            self.model.learn_one(row)
        self.model.predict_one({0: 1.0})  # fades the micro-clusters to this moment
        self._micro = Micro({i: micro.tf for i, micro in self.model.micro_clusters.items()})

    def predict(self, X: Any) -> np.ndarray:
        """Nearest micro-cluster of each row."""
        return self._micro.nearest(X)

    @property
    def n_clusters(self) -> int:
        """Number of micro-clusters."""
        return len(self.model.micro_clusters)


def matrix(centres: Iterable[Mapping[int, float]], n_features: int) -> np.ndarray:
    """Centres as rows."""
    rows = [[centre[j] for j in range(n_features)] for centre in centres]
    return np.array(rows).reshape(-1, n_features)


def own_centres(model: Any, n_features: int) -> Labelled:
    """Clusters of a model that keeps their centres."""
    found = model.centers
    return Labelled(matrix(found.values(), n_features), np.array(list(found), dtype=np.int64))


def micro_centres(model: cluster.CluStream, n_features: int) -> Labelled:
    """Micro-clusters, each labelled by its macro-cluster, as `CluStream.predict_one` does."""
    micro = matrix((each.center for each in model.micro_clusters.values()), n_features)
    if not model.centers:  # too few rows for a first offline step
        return Labelled(micro, np.zeros(len(micro), dtype=np.int64))
    return Labelled(micro, nearest(micro, matrix(model.centers.values(), n_features)))


def offline_centres(model: cluster.DenStream, n_features: int) -> Labelled:
    """Clusters of the offline step of DenStream, which only `predict_one` starts.

    A copy is asked, as the step adds micro-clusters up in place and would leave the model changed.
    """
    asked = copy.deepcopy(model)
    asked.predict_one(dict.fromkeys(range(n_features), 0.0))
    return own_centres(asked, n_features)


def kmeans(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Rowwise:
    """k-means, centre by centre."""
    return Rowwise(cluster.KMeans(n_clusters=k, seed=seed, **params), own_centres)


def stream_kmeans(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Rowwise:
    """k-means over the centres of chunks."""
    return Rowwise(cluster.STREAMKMeans(n_clusters=k, seed=seed, **params), own_centres)


def clustream(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Rowwise:
    """Micro-clusters in a time window, k-means over them."""
    return Rowwise(cluster.CluStream(n_macro_clusters=k, seed=seed, **params), micro_centres)


def denstream(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Rowwise:
    """Fading micro-clusters, DBSCAN over them."""
    return Rowwise(cluster.DenStream(**params), offline_centres)


def dbstream(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Rowwise:
    """Fading micro-clusters that share density."""
    return Rowwise(cluster.DBSTREAM(**params), own_centres)


def textclust(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Text:
    """Micro-clusters of words by tf-idf; time is the number of rows."""
    return Text(cluster.TextClust(real_time_fading=False, **params))
