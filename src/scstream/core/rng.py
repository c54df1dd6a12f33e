"""Addressed random numbers: Philox 4x32-10, keyed by (seed, batch, sweep, purpose).

Within a key every number has its own address (index, counter): the index is a row of the batch or
the id of a cluster, the counter counts the numbers it needs. A draw depends on nothing but its
address: not on threads, shards or the order of work.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from scstream.families.base import Labels
from scstream.kernels import Kernels

_MASK = (1 << 64) - 1

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
    "pins",
    "pairs",
    "launch",
    "singles",
    "dither",
    "exemplars",
)


def key_for(seed: int, *, batch: int, sweep: int, purpose: str) -> int:
    """Return the 64-bit key of one purpose in one sweep of one batch."""
    return _mix(_sweep_key(seed, batch, sweep) ^ PURPOSES.index(purpose))


@lru_cache(maxsize=16)
def _sweep_key(seed: int, batch: int, sweep: int) -> int:
    key = _mix(seed & _MASK)
    for part in (batch, sweep):
        key = _mix(key ^ (part & _MASK))
    return key


def sample_rows(kernels: Kernels, key: int, rows: Labels, max_n: int) -> Labels:
    """Return at most `max_n` of these rows, at random by their addresses, in increasing order."""
    if len(rows) <= max_n:
        return rows
    order = np.argsort(kernels.uniforms(key, rows)[:, 0], kind="stable")
    return np.sort(rows[order[:max_n]])


def spaced_rows(kernels: Kernels, key: int, n_rows: int, max_n: int) -> Labels:
    """Return `max_n` of the rows: a random one of each of `max_n` ranges of equal length."""
    place = np.arange(max_n)
    return ((place + kernels.uniforms(key, place)[:, 0]) * (n_rows / max_n)).astype(np.int64)


def _mix(word: int) -> int:
    """Mix 64 bits bijectively (splitmix64)."""
    word = (word + 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)
