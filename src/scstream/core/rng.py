"""Randomness with an address: Philox 4x32-10, keyed by (seed, batch, sweep, purpose).

Within a key every number has its own counter (index, lane): index is a row of the batch or the id
of a cluster, lane counts the numbers it needs. A draw therefore depends on nothing but its address:
not on threads, shards, the order of work, or on what was drawn before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from scstream.families.base import Array
from scstream.native import twin_function

Words = NDArray[np.uint64]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_MASK = (1 << 64) - 1
_ATTEMPT = 1 << 32  # lanes between two attempts of a rejection sampler

PURPOSES = (
    "labels",
    "weights",
    "params",
    "subclusters",
    "splits",
    "merges",
    "seeds",
    "pool",
    "chain",
    "sample",
)


def key_for(seed: int, *, batch: int, sweep: int, purpose: str) -> int:
    """64-bit key of one purpose in one sweep of one batch."""
    return _mix(_sweep_key(seed, batch, sweep) ^ PURPOSES.index(purpose))


@lru_cache(maxsize=16)
def _sweep_key(seed: int, batch: int, sweep: int) -> int:
    key = _mix(seed & _MASK)
    for part in (batch, sweep):
        key = _mix(key ^ (part & _MASK))
    return key


@twin_function
def uniforms(key: int, index: NDArray[np.int64], lane: int | NDArray[np.int64] = 0) -> Array:
    """Two uniforms in the open unit interval for every (index, lane); shape (..., 2)."""
    first, second = _philox(key, np.asarray(index, dtype=np.uint64), np.asarray(lane, np.uint64))
    bits = np.stack([first, second], axis=-1) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


def sample_rows(key: int, rows: NDArray[np.int64], max_n: int) -> NDArray[np.int64]:
    """At most so many of these rows, at random by their addresses, in increasing order."""
    if len(rows) <= max_n:
        return rows
    order = np.argsort(uniforms(key, rows)[:, 0], kind="stable")
    return np.sort(rows[order[:max_n]])


def spaced_rows(key: int, n_rows: int, max_n: int) -> NDArray[np.int64]:
    """Pick `max_n` of so many rows: a random one of each of as many stretches of equal length."""
    place = np.arange(max_n)
    return ((place + uniforms(key, place)[:, 0]) * (n_rows / max_n)).astype(np.int64)


@dataclass
class ClusterDraws:
    """Random numbers for the posterior draws of a set of clusters, by their stable ids."""

    key: int
    ids: NDArray[np.int64]  # (G,)
    _lane: int = field(default=0, init=False)

    def normal(self, n: int) -> Array:
        """Return (G, n) standard normals."""
        return normals(self.key, self.ids, self._reserve((n + 1) // 2), n)

    def log_gamma(self, shape: Array) -> Array:
        """Return logarithms of Gamma(shape, 1) variates, shape (G, n)."""
        return log_gammas(self.key, self.ids, self._reserve(shape.shape[1]), shape)

    def _reserve(self, n: int) -> int:
        """Take n lanes and return the first."""
        first = self._lane
        self._lane += n
        return first


@twin_function
def normals(key: int, ids: NDArray[np.int64], lane: int, n: int) -> Array:  # (G, n)
    """Return standard normals, two per lane from `lane` upwards."""
    lanes = np.arange(lane, lane + (n + 1) // 2)
    pairs = uniforms(key, ids[:, None], lanes)
    return np.asarray(ndtri(pairs.reshape(len(ids), -1)[:, :n]))


@twin_function
def log_gammas(key: int, ids: NDArray[np.int64], lane: int, shape: Array) -> Array:  # (G, n)
    """Return logarithms of Gamma(shape, 1) variates (Marsaglia and Tsang), one per lane.

    A rejected attempt takes lanes of its own, above all others. Below shape 1 the variate is that
    of shape + 1 times U^(1/shape), which only the logarithm can represent when the shape is tiny.
    """
    index, lanes = ids[:, None], np.arange(lane, lane + shape.shape[1])
    boost = uniforms(key, index, lanes)[..., 0]
    d = np.where(shape < 1.0, shape + 1.0, shape) - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    out = np.zeros(shape.shape)
    waiting = np.ones(shape.shape, dtype=bool)
    attempt = 0
    while waiting.any():
        attempt += 1
        pair = uniforms(key, index, lanes + attempt * _ATTEMPT)
        x = ndtri(pair[..., 0])
        v = np.maximum(1.0 + c * x, 1e-100) ** 3  # never accepted at the bound
        accept = np.log(pair[..., 1]) < 0.5 * x**2 + d * (1.0 - v + np.log(v))
        out = np.where(waiting & accept, np.log(d * v), out)
        waiting &= ~accept
    return np.where(shape < 1.0, out + np.log(boost) / shape, out)


def _mix(word: int) -> int:
    """Bijective 64-bit mixer (splitmix64)."""
    word = (word + 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def _philox(key: int, index: Words, lane: Words) -> tuple[Words, Words]:
    """Ten rounds of Philox 4x32 on the counter (index, lane): two 64-bit words."""
    index, lane = np.broadcast_arrays(index, lane)
    c0, c1 = index & _LOW, index >> _SHIFT
    c2, c3 = lane & _LOW, lane >> _SHIFT
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (
            (p1 >> _SHIFT) ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _SHIFT) ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return (c1 << _SHIFT) | c0, (c3 << _SHIFT) | c2
