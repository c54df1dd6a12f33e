"""One model per key, on the workers of a Ray cluster; results equal those of one process.

The driver decides which rows are learned, by the rules of `scstream.stream.pool`; workers learn.
After the loss of a worker its models are rebuilt from the last snapshot in the store and the
batches since then, which the driver keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from scstream.core.state import Event, Info
from scstream.distributed.keyed_worker import (
    KeyedWorker,
    Locations,
    MoveTask,
    PartResult,
    SnapshotTask,
    locations,
)
from scstream.distributed.keyed_workers import KeyedWorkers, Result, Task, number_of
from scstream.distributed.partitions import (
    N_PARTITIONS,
    BatchTask,
    assign_partitions,
    partition_of,
)
from scstream.errors import EngineError, InputError
from scstream.kernels import kernels_in_use
from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.edit_queue import EditRequest
from scstream.stream.entries import KeyedEntry, PoolState
from scstream.stream.keyed import KeyedModel, KeyOptions, read_size, rows_by_key
from scstream.stream.pool import ModelPool, index_bytes
from scstream.stream.processor import Learned
from scstream.stream.progress import Progress
from scstream.stream.segments import Segment, extent_of
from scstream.stream.store import FolderStore, Store

_NO_WORKER = ""
_TRIES = 20  # attempts at a batch during which workers are lost
_SEGMENTS_PER_WORKER = 1000  # numbers reserved for each worker, so that two rarely collide


@dataclass(frozen=True)
class RayKeys(KeyOptions):
    """Limits and workers of a pool of models on Ray: the table `keys` of the settings.

    Parameters
    ----------
    workers : int or None
        Number of workers that hold the models, one processor of the Ray cluster each. By default
        the number of processors of the cluster, also when nodes are added or lost. `memory` is
        divided among them.
    address : str or None
        Address of the Ray cluster. By default the one that RAY_ADDRESS names, or a new one on this
        machine.
    deadline : float
        Seconds within which a worker must answer.
    replay : int or str
        Maximum size of the batches that are kept to rebuild the models of a lost worker; beyond
        it all models are written to the store.

    Examples
    --------
    >>> from scstream.distributed.keyed_pool import RayKeys
    >>> RayKeys(workers=2).replay_bytes
    256000000
    """

    workers: int | None = None
    address: str | None = None
    deadline: float = 600.0
    replay: int | str = "256MB"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_workers(self.workers)
        if type(self.deadline) not in (int, float) or not self.deadline > 0:
            raise InputError(f"keys.deadline must be a number of seconds, got {self.deadline!r}.")
        read_size("replay", self.replay)

    @property
    def replay_bytes(self) -> int:
        """Return `replay` in bytes."""
        return read_size("replay", self.replay)


def check_workers(workers: Any) -> None:
    """Raise unless it is a valid number of workers."""
    if workers is not None and (type(workers) is not int or workers < 1):
        raise InputError(f"keys.workers must be a whole number from 1, got {workers!r}.")


class _WorkerResult(NamedTuple):
    partitions: Set[int]
    part: PartResult


class RayPool(ModelPool):
    """Independent models by key, on the workers of a Ray cluster.

    Labels, rejected rows and checkpoints equal those of `ModelPool` for any number of workers; each
    pool can restore the checkpoints of the other. Workers are added and removed between two
    batches. If a worker is lost, its models are rebuilt.

    Parameters
    ----------
    settings : Settings
        Parameters of the models. The seed of each model follows from its key and from
        `random_state`, which must be a whole number.
    steps : Steps
        Preprocessing; every key has its own.
    column : str
        The column of keys.
    store : Store
        The store of the models; all nodes of the cluster must reach it.
    keys : RayKeys
        Limits and number of workers.

    Examples
    --------
    >>> import tempfile
    >>> from scstream.preprocess import Steps
    >>> from scstream.distributed.keyed_pool import RayPool
    >>> from scstream.stream.store import FolderStore
    >>> with tempfile.TemporaryDirectory() as folder:  # connects when the first batch arrives
    ...     pool = RayPool.build(
    ...         {"random_state": 0}, Steps(), column="who", store=FolderStore(folder), workers=2
    ...     )
    >>> pool.keys, pool.workers
    ([], ())
    """

    options: ClassVar[type[KeyOptions]] = RayKeys

    def __init__(
        self,
        settings: Settings,
        steps: Steps,
        *,
        column: str,
        store: Store,
        keys: RayKeys | None = None,
    ) -> None:
        keys = keys or RayKeys()
        self._replay = keys.replay_bytes
        self._workers = KeyedWorkers(
            lambda: (
                self._settings,
                self._steps,
                column,
                _with_absolute_path(store),
                keys,
                kernels_in_use(),
            ),
            store,
            address=keys.address,
            n_wanted=keys.workers,
            deadline=float(keys.deadline),
        )
        super().__init__(settings, steps, column=column, store=store, keys=keys)

    @property
    def workers(self) -> tuple[str, ...]:
        """Return the names of the workers that hold the models now."""
        return self._active

    def rescale(self, workers: int | None) -> None:
        """Change the number of workers from the next batch on; None for one per processor."""
        check_workers(workers)
        self._workers.n_wanted = workers

    def model(self, key: str) -> KeyedModel:
        """Return the model of a key; raises KeyError."""
        self._snapshot()
        return super().model(key)

    def set_columns(self, names: tuple[str, ...] | None) -> None:
        """Set the names of the columns."""
        super().set_columns(names)
        self.close()  # workers are started with the steps

    def learn(self, source_batch: SourceBatch) -> Learned:
        """Learn a batch; every worker gets its rows in one call.

        After an error of the store or the cluster, restore a checkpoint.
        """
        self._n_batches += 1
        block = source_batch.block
        rows, refused = rows_by_key(block, self._column)
        admitted = self._admitted(block, rows, refused)
        task = BatchTask(self._narrowed(block), source_batch.time, admitted, self._forget())
        labels = np.zeros(block.n_rows, dtype=np.int64)
        failed: set[str] = set()
        lost: set[str] = set()
        infos: list[tuple[int, Info]] = []
        for part in self._parts(task):
            labels[part.row] = part.labels
            refused += part.rejects
            infos += part.infos
            failed |= part.failed
            lost |= part.lost
        self._count_failures(admitted.keys() - failed - lost, failed, lost)
        return self._result(block.reject(refused), labels, infos)

    def edit(self, request: EditRequest) -> tuple[Event, ...]:
        """Refuse an edit: the models are on the workers."""
        raise InputError(
            "models of keys on a Ray cluster cannot be edited; run the pipeline without Ray."
        )

    def freeze(self) -> Callable[[Progress], bytes]:
        """Write the models, on all workers in parallel; the index is made later."""
        self._snapshot()
        return partial(index_bytes, self._state(self._limit))

    def close(self) -> None:
        """End the workers; another batch would start them again."""
        self._workers.close()
        self._active: tuple[str, ...] = ()
        self._owners = [_NO_WORKER] * N_PARTITIONS  # the worker that has each partition

    def _begin(self, state: PoolState) -> None:
        super()._begin(state)
        self.close()
        self._tasks: list[BatchTask] = []  # batches since the last snapshot
        self._task_bytes = 0  # of those batches
        self._clusters: dict[str, int] = {}  # by worker
        # Segments that are written from now on have numbers from `_first` on.
        self._limit, self._first = 0, 1 + max(map(_segment_of, self._index.values()), default=-1)

    def _narrowed(self, block: Block) -> Block:
        """Drop columns that no model reads."""
        read = {self._column, *(getattr(step, "column", "") for step in self._steps.steps)}
        extra = {name: values for name, values in block.extra.items() if name in read}
        return replace(block, extra=extra, rejects=())

    def _count_failures(self, learned: Set[str], failed: Set[str], lost: Set[str]) -> None:
        """Update the number of consecutive failures of each key."""
        for key in failed:
            self._failures[key] = self._failures.get(key, 0) + 1
        for key in lost:
            self._failures[key] = self._limits.patience
        for key in [key for key in self._failures if key in learned]:
            del self._failures[key]

    def _parts(self, task: BatchTask) -> list[PartResult]:
        """Return the results for all rows; repeat what is lost with a worker."""
        wanted, results = task.partitions, list[_WorkerResult]()
        if not wanted:
            return []
        self._rebalance()
        for _ in range(_TRIES):
            moved = self._place_partitions()  # a lost worker has lost this batch too
            results = [result for result in results if moved.isdisjoint(result.partitions)]
            missing = wanted.difference(*(result.partitions for result in results))
            if not missing:
                self._record(task)
                return [result.part for result in results]
            for name, part in self._learned(task, self._owners, missing).items():
                own = {number for number in missing if self._owners[number] == name}
                results.append(_WorkerResult(own, part))
        raise _lost_too_often()

    def _learned(
        self, task: BatchTask, owners: list[str] | tuple[str, ...], partitions: Set[int]
    ) -> dict[str, PartResult]:
        own = task.split(owners, partitions)
        parts = self._call(KeyedWorker.learn_part, own)
        self._clusters.update((name, part.n_clusters) for name, part in parts.items())
        return parts

    def _record(self, task: BatchTask) -> None:
        self._n_clusters = sum(self._clusters[name] for name in self._active)
        self._tasks.append(task)
        self._task_bytes += task.n_bytes
        if self._task_bytes > self._replay:
            self._snapshot()

    def _call(
        self, method: Callable[[KeyedWorker, Task], Result], tasks: Mapping[str, Task]
    ) -> dict[str, Result]:
        """Call workers; partitions of lost workers have no owner afterwards."""
        results = self._workers.call(method, tasks)
        if len(results) < len(tasks):
            ready = self._workers.names
            self._owners = [name if name in ready else _NO_WORKER for name in self._owners]
        return results

    def _rebalance(self) -> None:
        """Add and remove workers; all models are written before."""
        active = self._workers.refresh()
        if active == self._active:
            return
        if self._active:
            self._snapshot()
        self._active = active
        self._place_partitions()
        self._workers.keep_only(self._active)

    def _place_partitions(self) -> set[int]:
        """Move every partition to its worker; return those that were moved."""
        moved: set[int] = set()
        for _ in range(_TRIES):
            ready = self._workers.names
            self._active = tuple(name for name in self._active if name in ready)
            if not self._active:
                self._active = self._workers.refresh()
            owners = assign_partitions(self._active)
            moving = {i for i in range(N_PARTITIONS) if self._owners[i] != owners[i]}
            if not moving:
                return moved
            self._move(moving, owners)
            moved |= moving
        raise _lost_too_often()

    def _move(self, moving: Set[int], owners: tuple[str, ...]) -> None:
        """Load partitions on their new workers: the last snapshot, then the batches since."""
        added: dict[str, dict[str, KeyedEntry]] = {name: {} for name in self._active}
        for key, entry in self._index.items():
            if entry.extent is not None and (number := partition_of(key)) in moving:
                added[owners[number]][key] = entry
        names = self._workers.names
        dropped = {name: {i for i in moving if self._owners[i] == name} for name in names}
        for number in moving:
            self._owners[number] = _NO_WORKER
        memory = max(self._memory // len(self._active), 1)
        moves = {
            name: MoveTask(own, locations(added.get(name, {})), memory, self._first_of(name))
            for name, own in dropped.items()
        }
        self._clusters = self._call(KeyedWorker.move_partitions, moves)
        for task in self._tasks:
            self._learned(task, owners, moving)
        for number in moving & {i for i in range(N_PARTITIONS) if owners[i] in self._workers.names}:
            self._owners[number] = owners[number]

    def _snapshot(self) -> None:
        """Let the workers write all models, and record their locations."""
        if not self._tasks:
            return
        for tried in range(_TRIES):
            self._place_partitions()
            # After a failed attempt workers must report everything: no report was recorded.
            tasks = {
                name: SnapshotTask(self._first_of(name), everything=tried > 0)
                for name in self._active
            }
            reports = self._call(KeyedWorker.snapshot, tasks)
            if len(reports) == len(tasks):
                return self._record_snapshot(reports)
        raise _lost_too_often()

    def _record_snapshot(self, reports: Mapping[str, Locations]) -> None:
        self._limit, numbers = self._first, [self._first - 1]
        for written, index in reports.values():
            segments = [Segment(*each) for each in zip(written.numbers, written.sizes, strict=True)]
            entries = index.to_state(segments).index
            # Entries are replaced, not changed: a checkpoint in progress may use the old ones.
            # Keys that are missing here have just expired.
            self._index.update((key, entries[key]) for key in entries if key in self._index)
            numbers += written.numbers
        self._first = max(numbers) + 1
        self._tasks, self._task_bytes = [], 0

    def _first_of(self, name: str) -> int:
        """Return the number of the first segment that a worker may write."""
        return self._first + _SEGMENTS_PER_WORKER * number_of(name)


def _segment_of(entry: KeyedEntry) -> int:
    number = extent_of(entry).segment.number
    assert number is not None
    return number


def _lost_too_often() -> EngineError:
    return EngineError(
        f"workers of the pool were lost {_TRIES} times in a row; check whether their nodes run out "
        "of memory, make batches or keys.memory smaller, and start the pipeline again."
    )


def _with_absolute_path(store: Store) -> Store:
    """Return the store for use in processes with another working directory."""
    if not isinstance(store, FolderStore):
        return store
    moved = copy(store)
    moved.folder = store.folder.absolute()
    return moved
