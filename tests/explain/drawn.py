"""Rows of every family, of which a few features tell the clusters apart and the others nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream import ScStream

Array = NDArray[np.float64]
N_CLUSTERS, N_FEATURES = 4, 12


def informative(family: str, seed: int) -> NDArray[np.int64]:
    """Three features, others for every seed; of mixed rows one of each kind."""
    rng = np.random.default_rng([7, seed])
    if family == "product":
        return np.arange(0, 12, 4) + rng.integers(4, size=3)
    return np.sort(rng.choice(N_FEATURES, 3, replace=False))


def draw(family: str, seed: int, n_rows: int = 1000) -> Array:
    """Rows of four clusters that differ in the informative features only."""
    rng = np.random.default_rng([8, seed])
    return DRAW[family](rng, rng.integers(N_CLUSTERS, size=n_rows), informative(family, seed))


def _codes(cluster: Any) -> Array:
    """Where a cluster is in three features: the corners of a tetrahedron."""
    corners = np.array([[0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=np.float64)
    return np.asarray(corners[cluster])


def _numbers(rng: Any, cluster: Any, places: Any) -> Array:
    X = rng.normal(size=(len(cluster), N_FEATURES))
    X[:, places] += 6.0 * _codes(cluster)
    return np.asarray(X)


def _correlated(rng: Any, cluster: Any, places: Any) -> Array:
    """Noise with a correlation of 0.8 among itself, and informative features likewise."""
    rest = np.setdiff1d(np.arange(N_FEATURES), places)
    X = rng.normal(size=(len(cluster), N_FEATURES))
    for block in (rest, places):
        shared = rng.normal(size=(len(cluster), 1))
        X[:, block] = np.sqrt(0.2) * X[:, block] + np.sqrt(0.8) * shared
    X[:, places] += 6.0 * _codes(cluster)
    return np.asarray(X)


def _wide(rng: Any, cluster: Any, places: Any) -> Array:
    """Many columns, as of sensors."""
    X = rng.normal(size=(len(cluster), 5 * N_FEATURES))
    X[:, places] += 8.0 * _codes(cluster)
    return np.asarray(X)


def _bits(rng: Any, cluster: Any, places: Any) -> Array:
    chance = np.full((len(cluster), N_FEATURES), 0.5)
    chance[:, places] = 0.02 + 0.96 * _codes(cluster)
    return np.asarray((rng.random(chance.shape) < chance).astype(np.float64))


def _levels(rng: Any, cluster: Any, places: Any) -> Array:
    X = rng.integers(3, size=(len(cluster), N_FEATURES)).astype(np.float64)
    usual = rng.random((len(cluster), len(places))) < 0.96
    X[:, places] = np.where(usual, 2 * _codes(cluster), X[:, places])
    return np.asarray(X)


def _events(rng: Any, cluster: Any, places: Any) -> Array:
    rate = np.full((len(cluster), N_FEATURES), 4.0)
    rate[:, places] += 20.0 * _codes(cluster)
    return np.asarray(rng.poisson(rate).astype(np.float64))


def _words(rng: Any, cluster: Any, places: Any) -> Array:
    """The informative words together have one share in every cluster, and so have the others."""
    share = np.full((len(cluster), N_FEATURES), 1.0)
    share[:, places] = 0.2 + 9.0 * np.array([*np.eye(3), [0.5, 0.5, 0.0]])[cluster]
    share /= share.sum(axis=1, keepdims=True)
    return np.array([rng.multinomial(60, row) for row in share], dtype=np.float64)


def _directions(rng: Any, cluster: Any, places: Any) -> Array:
    X = 0.3 * rng.normal(size=(len(cluster), 5 * N_FEATURES))
    X[:, places] += 4.0 * (2.0 * _codes(cluster) - 1.0)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def _mixed(rng: Any, cluster: Any, places: Any) -> Array:
    """Numbers, then counts, then bits; an informative feature is one of its kind."""
    kinds = (_numbers, _events, _bits)
    drawn = [kind(rng, cluster, places) for kind in kinds]
    return np.concatenate([X[:, 4 * i : 4 * i + 4] for i, X in enumerate(drawn)], axis=1)


DRAW: dict[str, Callable[[Any, Any, Any], Array]] = {
    "gaussian": _correlated,
    "diagonal": _numbers,
    "subspace": _wide,
    "bernoulli": _bits,
    "categorical": _levels,
    "poisson": _events,
    "multinomial": _words,
    "direction": _directions,
    "product": _mixed,
}
FAMILIES = tuple(DRAW)
PARTS = {"diagonal": [0, 1, 2, 3], "poisson": [4, 5, 6, 7], "bernoulli": [8, 9, 10, 11]}


def parameter(family: str) -> Any:
    """The parameter `family` of ScStream."""
    return PARTS if family == "product" else family


@cache
def learned(family: str, seed: int) -> tuple[ScStream, Array]:
    """A model of 1,200 rows, and 300 rows that it has not seen; do not change them."""
    X = draw(family, seed, 1500)
    model = ScStream(parameter(family), random_state=0)
    return model.partial_fit(X[:600]).partial_fit(X[600:1200]), X[1200:]
