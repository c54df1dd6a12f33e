"""The process on a Ray cluster that learns the models of some of the keys of a `RayPool`.

The *driver* is the process that runs the pipeline; it has the `RayPool`. Keys are divided into
partitions, and the driver gives every partition to one worker (`scstream.distributed.partitions`).
A worker keeps the models of its keys in memory, and in the store of the checkpoints if they do not
fit. There, many models share one object, a *segment* (`scstream.stream.segments`). If a partition
moves to another worker, that worker reads its models from the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scstream.core.state import Info
from scstream.distributed.partitions import WorkerTask, partition_of
from scstream.families.base import Labels
from scstream.kernels import adopt_kernels
from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.preprocess.block import Reject
from scstream.stream.batcher import SourceBatch
from scstream.stream.entries import KeyedEntry, PoolIndex, PoolState
from scstream.stream.keyed import KeyOptions
from scstream.stream.pool import ModelPool
from scstream.stream.segments import Extent, SegmentList
from scstream.stream.store import Store

TOKEN_NAME = "workers"  # name in the store under which the driver writes a token; see `can_read`
_UNLIMITED = 1 << 62

# Where models are in the store: the segments, and for every key its place in one of them.
# Checkpoints store the same two objects.
Locations = tuple[SegmentList, PoolIndex]


class PartResult(NamedTuple):
    """What a worker returns for its rows of a batch."""

    row: NDArray[np.int64]  # indices, within the batch, of the rows that were learned
    labels: Labels  # their clusters
    rejects: tuple[Reject, ...]  # the rows that were not learned
    failed: frozenset[str]  # keys whose models raised an error; the models are unchanged
    lost: frozenset[str]  # keys whose models in the store are damaged
    infos: Sequence[tuple[int, Info]]  # number of rows and info of every model that learned
    n_clusters: int  # number of clusters of all models of this worker


class MoveTask(NamedTuple):
    """How the partitions of a worker change."""

    drop: Set[int]  # partitions that the worker loses
    add: Locations  # of the models of the partitions that it gets
    memory: int  # bytes that its models may take from now on
    first: int  # number of the first segment that it may write


class SnapshotTask(NamedTuple):
    """A request to write models to the store."""

    first: int  # number of the first segment that the worker may write
    everything: bool  # return the locations of all models, not only of those that have moved


class KeyedWorker(ModelPool):
    """A `ModelPool` with some of the keys.

    The driver applies the limits on keys and rows and counts the failures of each key, because
    they must not depend on the number of workers. The only limit of a worker is its memory.
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
        adopt_kernels(kernels)  # the kernels of the driver: others round differently
        limits = KeyOptions(
            memory=keys.memory,
            segment=keys.segment,
            max_keys=_UNLIMITED,
            patience=_UNLIMITED,
            forget_after=0,
        )
        super().__init__(settings, steps, column=column, store=store, keys=limits)
        self._reported: dict[str, Extent | None] = {}  # the location that the driver has, by key

    def can_read(self, token: bytes) -> bool:
        """Return True if this worker reads the store of the driver.

        The driver has written a random token there. A folder that nodes do not share has the same
        path on every node, but no token, or another one.
        """
        try:
            return self._log.store.get(TOKEN_NAME) == token
        except KeyError:
            return False

    def learn_part(self, task: WorkerTask) -> PartResult:
        """Learn the rows of this worker, then drop the models of expired keys."""
        learned = self.learn(SourceBatch(0, {}, task.time, task.block, ()))
        failures, self._failures = self._failures, {}  # the driver counts them
        self._drop(task.expired)
        return PartResult(
            row=learned.block.row,
            labels=learned.labels,
            rejects=learned.block.rejects,
            failed=frozenset(key for key, n in failures.items() if n < _UNLIMITED),
            lost=frozenset(key for key, n in failures.items() if n >= _UNLIMITED),
            infos=learned.infos,
            n_clusters=self._n_clusters,
        )

    def move_partitions(self, task: MoveTask) -> int:
        """Drop the models of some partitions and add others; return the number of clusters."""
        self._memory = task.memory
        self._log.start_at(task.first)
        self._drop([key for key in self._index if partition_of(key) in task.drop])
        segments, index = task.add
        entries = index.to_state(segments.open(self._log.store)).index
        self._index.update(entries)
        self._reported.update((key, entry.extent) for key, entry in entries.items())
        self._n_clusters += sum(entry.n_clusters for entry in entries.values())
        return self._n_clusters

    def snapshot(self, task: SnapshotTask) -> Locations:
        """Write all changed models to the store; return the locations that are new."""
        self._log.start_at(task.first)
        self._write_models(self._index, below=self._log.limit())
        new = {
            key: entry
            for key, entry in self._index.items()
            if task.everything or self._reported.get(key) is not entry.extent
        }
        self._reported.update((key, entry.extent) for key, entry in new.items())
        return locations(new)

    def _drop(self, keys: Iterable[str]) -> None:
        """Drop the models of keys."""
        for key in keys:
            self._reported.pop(key, None)
            if key in self._index:
                self._release(key, self._index.pop(key))


def locations(index: Mapping[str, KeyedEntry]) -> Locations:
    """Return where the models of an index are in the store."""
    return PoolState(index, {}, {}, None, 0, 0).to_arrays()
