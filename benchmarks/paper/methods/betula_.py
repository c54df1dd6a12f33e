"""betula-cluster: a tree of cluster features under several methods, and DenStream and DBSTREAM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from betula_cluster import Betula, DbStream, DenStream


class Partial:
    """A method with `partial_fit` and a step that clusters what has come."""

    def __init__(self, model: Any, cluster: Callable[[], Any]) -> None:
        self.model, self._cluster = model, cluster

    def learn(self, X: np.ndarray) -> None:
        """Learn a batch, and cluster."""
        self.model.partial_fit(X)
        self._cluster()

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Cluster of each row; -1 is noise."""
        return self.model.predict(X)

    @property
    def n_clusters(self) -> int:
        """Number of clusters now."""
        return int(self.model.n_clusters_)


def tree(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Partial:
    """A tree of cluster features, its leaves clustered by `method`."""
    model = Betula(n_clusters=k, seed=seed, **params)
    return Partial(model, model.partial_fit)  # without rows it clusters the leaves


def denstream(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Partial:
    """Fading micro-clusters, joined where they touch."""
    model = DenStream(**params)
    return Partial(model, model.cluster)


def dbstream(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Partial:
    """Fading micro-clusters, joined where they share density."""
    model = DbStream(**params)
    return Partial(model, model.cluster)
