"""The actor of a `RayPool`: a pool with some of the keys, controlled by the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scstream.core.state import Info
from scstream.distributed.partitions import partition_of
from scstream.families.base import Labels
from scstream.kernels import adopt_kernels
from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.preprocess.block import Block, Reject
from scstream.stream.batcher import SourceBatch
from scstream.stream.entries import KeyedEntry, PoolIndex, PoolState
from scstream.stream.keyed import KeyOptions
from scstream.stream.pool import ModelPool
from scstream.stream.segments import Extent, SegmentList
from scstream.stream.store import Store

TOKEN_NAME = "workers"  # object in the store by which a worker checks that it is the same store
_UNLIMITED = 1 << 62

Locations = tuple[SegmentList, PoolIndex]  # of models in the store, as in checkpoints


class PartResult(NamedTuple):
    """The result of a worker for its rows of a batch."""

    row: NDArray[np.int64]
    labels: Labels
    rejects: tuple[Reject, ...]
    failed: frozenset[str]  # keys whose models failed to learn
    lost: frozenset[str]  # keys whose models are damaged
    infos: Sequence[tuple[int, Info]]
    n_clusters: int  # of all models of the worker


class KeyedWorker(ModelPool):
    """A pool limited by memory only; the driver applies the other limits and counts failures.

    Models move between workers through the store.
    """

    def __init__(
        self,
        settings: Settings,
        steps: Steps,
        column: str,
        store: Store,
        keys: KeyOptions,
        kernels: str,
    ) -> None:
        adopt_kernels(kernels)  # those of the driver: other kernels give other bits
        limits = KeyOptions(
            memory=keys.memory, segment=keys.segment, max_keys=_UNLIMITED, patience=_UNLIMITED
        )
        super().__init__(settings, steps, column=column, store=store, keys=limits)
        self._reported: dict[str, Extent | None] = {}  # locations that the driver knows

    def can_read(self, token: bytes) -> bool:
        """Return True if the store of this worker is the store of the driver."""
        try:
            return self._log.store.get(TOKEN_NAME) == token
        except KeyError:
            return False

    def learn_part(self, block: Block, time: float | None, expired: Iterable[str]) -> PartResult:
        """Learn rows, then drop expired keys."""
        learned = self.learn(SourceBatch(0, {}, time, block, ()))
        failures, self._failures = self._failures, {}
        self._drop(expired)
        return PartResult(
            row=learned.block.row,
            labels=learned.labels,
            rejects=learned.block.rejects,
            failed=frozenset(key for key, n in failures.items() if n < _UNLIMITED),
            lost=frozenset(key for key, n in failures.items() if n >= _UNLIMITED),
            infos=learned.infos,
            n_clusters=self._n_clusters,
        )

    def move_partitions(self, drop: Set[int], add: Locations, *, memory: int, first: int) -> int:
        """Drop the keys of some partitions and add models; return the number of clusters."""
        self._memory = memory
        self._log.start_at(first)
        self._drop([key for key in self._index if partition_of(key) in drop])
        segments, index = add
        entries = index.to_state(segments.open(self._log.store)).index
        self._index.update(entries)
        self._reported.update((key, entry.extent) for key, entry in entries.items())
        self._n_clusters += sum(entry.n_clusters for entry in entries.values())
        return self._n_clusters

    def snapshot(self, first: int, *, everything: bool) -> Locations:
        """Write changed models to the store; return the locations of those, or of all models."""
        self._log.start_at(first)
        self._write_models(self._index, below=self._log.limit())
        new = {
            key: entry
            for key, entry in self._index.items()
            if everything or self._reported.get(key) is not entry.extent
        }
        self._reported.update((key, entry.extent) for key, entry in new.items())
        return locations(new)

    def _drop(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._reported.pop(key, None)
            if key in self._index:
                self._release(key, self._index.pop(key))


def locations(index: Mapping[str, KeyedEntry]) -> Locations:
    """Return the locations of models in the store."""
    return PoolState(index, {}, {}, None, 0, 0).to_arrays()
