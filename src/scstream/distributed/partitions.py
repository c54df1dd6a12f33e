"""The partition of each key, and the worker of each partition.

Both depend on names only, so all processes and all runs agree. When a worker is added or removed,
only the partitions that it gains or loses are moved (rendezvous hashing).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from scstream.families.base import Rows
from scstream.preprocess.block import Block
from scstream.stream.keyed import part

N_PARTITIONS = 1024  # more partitions spread the keys more evenly
_SALT = 285  # chosen so that 2 to 8 workers named w0, w1, ... have shares within 6 % of even


def partition_of(key: str) -> int:
    """Return the partition of a key."""
    return crc32(key.encode("utf-8", "surrogatepass")) % N_PARTITIONS


@cache
def assign_partitions(workers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the worker of every partition: the one with the largest hash of name and number."""
    return tuple(max(workers, key=_hash_with(number)) for number in range(N_PARTITIONS))


def _hash_with(number: int) -> Callable[[str], bytes]:
    return lambda name: blake2b(f"{_SALT}/{name}/{number}".encode(), digest_size=8).digest()


class WorkerTask(NamedTuple):
    """The part of a `BatchTask` for one worker."""

    block: Block
    time: float | None
    expired: list[str]


@dataclass(frozen=True)
class BatchTask:
    """The rows of a batch to learn, and the keys to drop afterwards."""

    block: Block  # without columns that no model reads
    time: float | None
    rows: Mapping[str, NDArray[np.intp]]  # indices of the rows to learn, by key
    expired: Sequence[str]

    @property
    def partitions(self) -> set[int]:
        """Return the partitions of the keys."""
        return {partition_of(key) for key in (*self.rows, *self.expired)}

    @property
    def n_bytes(self) -> int:
        """Return the approximate size in memory."""
        extra = sum(int(values.nbytes) for values in self.block.extra.values())
        return _n_bytes(self.block.X) + extra + int(self.block.row.nbytes) * 2

    def split(self, owners: Sequence[str], partitions: Set[int]) -> dict[str, WorkerTask]:
        """Return the tasks for some partitions, by worker; `owners` has one per partition."""
        rows: dict[str, list[NDArray[np.intp]]] = {}
        expired: dict[str, list[str]] = {}
        for key, own in self.rows.items():
            if (number := partition_of(key)) in partitions:
                rows.setdefault(owners[number], []).append(own)
        for key in self.expired:
            if (number := partition_of(key)) in partitions:
                expired.setdefault(owners[number], []).append(key)
        return {
            name: WorkerTask(self._select(rows.get(name, [])), self.time, expired.get(name, []))
            for name in sorted({*rows, *expired})
        }

    def _select(self, rows: Sequence[NDArray[np.intp]]) -> Block:
        chosen = np.zeros(len(self.block.row), dtype=bool)
        for own in rows:
            chosen[own] = True
        return part(self.block, np.flatnonzero(chosen))


def _n_bytes(X: Rows) -> int:
    return int(X.nbytes) if isinstance(X, np.ndarray) else int(X.data.nbytes + X.indices.nbytes)
