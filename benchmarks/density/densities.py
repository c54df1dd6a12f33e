"""Methods that give a density: ours, and the peers that are fitted to a window of the past."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from benchmarks.density.files import Array
from scstream import ScStream

_MOST = 10_000  # rows that a peer is fitted to; of more it gets as many at random
_SIZES = (1, 2, 5, 10, 20, 30, 50)  # numbers of components among which BIC chooses
_LEAST = 10  # rows below which no mixture is fitted


class Density(Protocol):
    """What the loop asks of a method."""

    def log_density(self, X: Array, time: float) -> Array:  # (N,)
        """Log density of rows that come at `time`; nothing is learned."""

    def learn(self, X: Array, time: float) -> None:
        """Learn a batch that came at `time`."""

    @property
    def n_components(self) -> float:
        """Number of components in use."""


class Ours:
    """`ScStream`, told the time or not."""

    def __init__(self, *, timed: bool, **choices: Any) -> None:
        self._timed = timed
        self._model = ScStream(random_state=0, n_jobs=1, **choices)

    def log_density(self, X: Array, time: float) -> Array:
        return self._model.score_samples(X, time=time if self._timed else None)

    def learn(self, X: Array, time: float) -> None:
        self._model.partial_fit(X, time=time if self._timed else None)

    @property
    def n_components(self) -> float:
        return self._model.n_clusters_


class Windowed:
    """A model without memory, fitted anew to a window of the past whenever it is asked."""

    def __init__(self, fit: Callable[[Array], Any], *, batches: float, minutes: float) -> None:
        self._fit, self._batches, self._minutes = fit, batches, minutes
        self._kept: deque[tuple[float, Array]] = deque()
        self._model: Any = None

    def log_density(self, X: Array, time: float) -> Array:
        self._model = self._fit(thinned(np.concatenate([rows for _, rows in self._kept])))
        return np.asarray(self._model.score_samples(X))

    def learn(self, X: Array, time: float) -> None:
        self._kept.append((time, X))
        while len(self._kept) > self._batches or self._kept[0][0] <= time - self._minutes:
            self._kept.popleft()

    @property
    def n_components(self) -> float:
        return float(np.sum(self._model.weights_ > 1e-3))


class Static:
    """A model that was fitted once."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def log_density(self, X: Array, time: float) -> Array:
        return np.asarray(self._model.score_samples(X))

    def learn(self, X: Array, time: float) -> None:
        pass

    @property
    def n_components(self) -> float:
        return len(self._model.weights_)


class RiverGaussian:
    """The one density of several columns that river has: a Gaussian of all rows so far."""

    n_components = 1.0

    def __init__(self) -> None:
        from river.proba import MultivariateGaussian

        self._model = MultivariateGaussian()

    def log_density(self, X: Array, time: float) -> Array:
        return np.log([max(self._model(dict(enumerate(row))), 1e-300) for row in X.tolist()])

    def learn(self, X: Array, time: float) -> None:
        for row in X.tolist():
            self._model.update(dict(enumerate(row)))


def thinned(X: Array) -> Array:
    """At most so many of the rows as a peer is fitted to, drawn with a fixed seed."""
    if len(X) <= _MOST:
        return X
    return X[np.random.default_rng(0).choice(len(X), _MOST, replace=False)]


class OneGaussian:
    """The Gaussian with mean and covariance of some rows."""

    weights_ = np.ones(1)

    def __init__(self, X: Array) -> None:
        self._gaussian = multivariate_normal(X.mean(axis=0), np.cov(X, rowvar=False))

    def score_samples(self, X: Array) -> Array:
        return np.atleast_1d(self._gaussian.logpdf(X))


def gaussian_mixture(n_components: int) -> Callable[[Array], Any]:
    """Fit a mixture of so many Gaussians."""
    return lambda X: _quiet(GaussianMixture(_at_most(n_components, X), random_state=0), X)


def bayesian_mixture(n_components: int) -> Callable[[Array], Any]:
    """Fit a Dirichlet process mixture, truncated at so many Gaussians."""
    return lambda X: _quiet(
        BayesianGaussianMixture(n_components=_at_most(n_components, X), random_state=0), X
    )


def by_bic(X: Array) -> int:
    """Number of components of the mixture with the least BIC."""
    X = thinned(X)
    sizes = [size for size in _SIZES if size <= len(X) / _LEAST]
    return min(sizes, key=lambda size: gaussian_mixture(size)(X).bic(X))


def _at_most(n_components: int, X: Array) -> int:
    return min(n_components, max(1, len(X) // _LEAST))


def _quiet(model: Any, X: Array) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)
