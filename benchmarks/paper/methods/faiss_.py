"""faiss: k-means that starts from the centres of the last batch."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np


class Warm:
    """k-means on each batch; a batch with fewer rows than centres teaches nothing."""

    def __init__(self, n_features: int, k: int, seed: int, **params: Any) -> None:
        self.n_clusters = k
        self.model = faiss.Kmeans(n_features, k, seed=seed, min_points_per_centroid=1, **params)

    def learn(self, X: np.ndarray) -> None:
        """Move the centres to the batch."""
        if len(X) >= self.n_clusters:
            self.model.train(X.astype(np.float32), init_centroids=self.model.centroids)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Nearest centre of each row."""
        return self.model.index.search(X.astype(np.float32), 1)[1][:, 0]


def kmeans(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Warm:
    """Lloyd's k-means."""
    return Warm(n_features, k, seed, **params)
