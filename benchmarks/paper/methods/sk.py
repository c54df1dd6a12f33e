"""scikit-learn: two methods that learn by batches, and mixtures and HDBSCAN refitted on them."""

from __future__ import annotations

import copy
import warnings
from collections import deque
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, Birch, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.neighbors import NearestNeighbors

warnings.filterwarnings("ignore", category=ConvergenceWarning)


class Partial:
    """A method with `partial_fit`, given the number of clusters."""

    def __init__(self, model: Any, k: int) -> None:
        self.model, self.n_clusters = model, k

    def learn(self, X: Any) -> None:
        """Learn a batch."""
        self.model.partial_fit(X)

    def predict(self, X: Any) -> np.ndarray:
        """Cluster of each row."""
        return self.model.predict(X)


class Fitted:
    """A mixture as the last fit left it; rows it cannot be fitted to teach it nothing."""

    def __init__(self, model: Any) -> None:
        self.model, self._last = model, None

    def fit(self, X: np.ndarray) -> None:
        """Fit a copy, and keep it if that works."""
        tried = copy.deepcopy(self.model if self._last is None else self._last)
        if len(X) < tried.n_components:
            return
        try:
            self._last = tried.fit(X)
        except ValueError as cause:  # a covariance that has collapsed
            print(cause)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Component of each row; noise before there is a fit."""
        return np.full(len(X), -1) if self._last is None else self._last.predict(X)


class Warm:
    """A mixture of `k` components that goes on from the last fit."""

    def __init__(self, model: GaussianMixture) -> None:
        self.fitted, self.n_clusters = Fitted(model), model.n_components

    def learn(self, X: np.ndarray) -> None:
        """Fit the batch from where the last fit ended."""
        self.fitted.fit(X)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Component of each row."""
        return self.fitted.predict(X)


class Window:
    """The last batches."""

    def __init__(self, length: int) -> None:
        self.batches: deque[np.ndarray] = deque(maxlen=length)

    def pushed(self, X: np.ndarray) -> np.ndarray:
        """All rows of the window after a batch has come."""
        self.batches.append(X)
        return np.concatenate(self.batches)


class RefittedMixture:
    """A variational mixture fitted anew on every window; components without rows are none."""

    def __init__(self, model: BayesianGaussianMixture, window: int) -> None:
        self.fitted, self.window, self.n_clusters = Fitted(model), Window(window), 0

    def learn(self, X: np.ndarray) -> None:
        """Fit the window."""
        rows = self.window.pushed(X)
        self.fitted.fit(rows)
        self.n_clusters = len(np.unique(self.fitted.predict(rows)))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Component of each row."""
        return self.fitted.predict(X)


class RefittedHDBSCAN:
    """HDBSCAN on every window; a new row joins the cluster of its nearest row that is in one."""

    def __init__(self, model: HDBSCAN, window: int) -> None:
        self.model, self.window, self.n_clusters = model, Window(window), 0
        self.labels = np.empty(0, np.int64)
        self.neighbours = NearestNeighbors(n_neighbors=1)

    def learn(self, X: np.ndarray) -> None:
        """Cluster the window."""
        rows = self.window.pushed(X)
        labels = self.model.fit_predict(rows) if len(rows) > 1 else np.full(len(rows), -1)
        inside = labels >= 0
        self.labels = labels[inside]
        self.n_clusters = len(np.unique(self.labels))
        if self.n_clusters:
            self.neighbours.fit(rows[inside])

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Cluster of the nearest clustered row; noise where there is no cluster at all."""
        if not self.n_clusters:
            return np.full(len(X), -1)
        return self.labels[self.neighbours.kneighbors(X, return_distance=False)[:, 0]]


def mini_batch_kmeans(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Partial:
    """Mini-batch k-means."""
    return Partial(MiniBatchKMeans(k, random_state=seed, **params), k)


def birch(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Partial:
    """A tree of cluster features, its leaves put into `k` clusters by linkage."""
    return Partial(Birch(n_clusters=k, **params), k)


def gaussian_mixture(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> Warm:
    """Expectation maximisation."""
    return Warm(GaussianMixture(k, warm_start=True, random_state=seed, **params))


def bayesian_mixture(
    *, n_features: int, k: int, kind: str, seed: int, window: int, **params: Any
) -> RefittedMixture:
    """A variational Dirichlet process mixture, cut off at `n_components`."""
    return RefittedMixture(BayesianGaussianMixture(random_state=seed, **params), window)


def hdbscan(
    *, n_features: int, k: int, kind: str, seed: int, window: int, **params: Any
) -> RefittedHDBSCAN:
    """Hierarchical density clusters."""
    return RefittedHDBSCAN(HDBSCAN(copy=True, **params), window)
