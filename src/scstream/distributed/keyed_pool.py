"""One model for every key, on the workers of a Ray cluster; the results are those of one process.

What is to be done with a batch is decided here, by the rules of `scstream.stream.pool`. Workers
learn. What they hold can always be made again: models as they were at the last snapshot are in the
store, and the batches since then are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from scstream.core.state import Info
from scstream.distributed.keyed_worker import Part, places
from scstream.distributed.keyed_workers import Crew, number_of
from scstream.distributed.partitions import N_PARTITIONS, Task, homes, partition_of
from scstream.errors import EngineError, InputError
from scstream.kernels import kernels_in_use
from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.entries import KeyedEntry, unpacked
from scstream.stream.keyed import KeyedModel, KeyOptions, read_size, rows_by_key
from scstream.stream.pool import ModelPool, index_bytes
from scstream.stream.processor import Learned
from scstream.stream.segments import Segment, extent_of
from scstream.stream.store import FolderStore, Store

_NOBODY = ""
_TRIES = 20  # times that a batch is begun again because a worker was lost
_STRIDE = 1000  # numbers of segments for each worker, so that two rarely want the same


@dataclass(frozen=True)
class RayKeys(KeyOptions):
    """Limits of a pool of models on Ray, and who holds them; the table `keys` of the settings.

    Parameters
    ----------
    workers : int or None
        Workers that hold the models, each on one processor of a Ray cluster; by default as many as
        the cluster has, also when nodes come and go. `memory` is shared out among them.
    address : str or None
        Address of the Ray cluster. By default the one that RAY_ADDRESS names, or a new one on this
        machine.
    deadline : float
        Seconds within which a worker must answer.
    replay : int or str
        Bytes of rows that are kept to be learned again should a worker be lost; beyond them all
        models are written.

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
        """`replay` as a number."""
        return read_size("replay", self.replay)


def check_workers(workers: Any) -> None:
    """Raise unless it is a number of workers.

    Examples
    --------
    >>> from scstream.distributed.keyed_pool import check_workers
    >>> check_workers(0)
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: keys.workers must be a whole number from 1, got 0.
    """
    if workers is not None and (type(workers) is not int or workers < 1):
        raise InputError(f"keys.workers must be a whole number from 1, got {workers!r}.")


class _Answer(NamedTuple):
    partitions: Set[int]
    part: Part


class RayPool(ModelPool):
    """Independent models by key, on workers that may come and go.

    Labels, rows refused and checkpoints are those of `ModelPool`, whatever the number of workers:
    a checkpoint of one pool can be restored by the other. Workers that join or leave do so between
    two batches. One that is lost takes nothing with it but time.

    Parameters
    ----------
    settings, steps, column
        As of `ModelPool`.
    store : Store
        Where models wait, and by which they move; all nodes of the cluster must reach it.
    keys : RayKeys
        Limits, and how many workers.

    Examples
    --------
    >>> import tempfile
    >>> from scstream.preprocess import Steps
    >>> from scstream.distributed.keyed_pool import RayPool
    >>> from scstream.stream.store import FolderStore
    >>> with tempfile.TemporaryDirectory() as folder:  # connects when the first batch comes
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
        self._crew = Crew(
            lambda: (self._settings, self._steps, column, _anywhere(store), keys, kernels_in_use()),
            store,
            address=keys.address,
            n_wanted=keys.workers,
            deadline=float(keys.deadline),
        )
        super().__init__(settings, steps, column=column, store=store, keys=keys)

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers that hold the models now."""
        return self._staff

    def rescale(self, workers: int | None) -> None:
        """Have so many workers from the next batch on; None for as many as there are processors."""
        check_workers(workers)
        self._crew.n_wanted = workers

    def model(self, key: str) -> KeyedModel:
        """Return the model of a key; raises KeyError."""
        self._snapshot()
        return super().model(key)

    def set_columns(self, names: tuple[str, ...] | None) -> None:
        """Be told the names of the columns."""
        super().set_columns(names)
        self.close()  # workers are made of the steps

    def learn(self, source_batch: SourceBatch) -> Learned:
        """Learn a batch; every worker gets its rows in one piece.

        After an error of the store or the cluster the pipeline has to go back to a checkpoint.
        """
        self._n_batches += 1
        block = source_batch.block
        rows, refused = rows_by_key(block, self._column)
        admitted = self._admitted(block, rows, refused)
        task = Task(self._narrowed(block), source_batch.time, admitted, self._forget())
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
        self._note(admitted.keys() - failed - lost, failed, lost)
        block = block.reject(refused)
        return Learned(block, labels[block.row], self._n_clusters, infos)

    def freeze(self) -> Callable[[Mapping[str, Any]], bytes]:
        """Write the models, all workers at the same time; the index is made later."""
        self._snapshot()
        return partial(index_bytes, self._frozen(self._limit))

    def close(self) -> None:
        """Let the workers go; a batch that comes nevertheless starts them again."""
        self._crew.close()
        self._staff: tuple[str, ...] = ()
        self._homes = [_NOBODY] * N_PARTITIONS  # who holds each partition

    def _begin(self, *state: Any) -> None:
        super()._begin(*state)
        self.close()
        self._tasks: list[Task] = []  # batches since the snapshot, of which the index tells
        self._n_kept = 0  # bytes of them
        self._clusters: dict[str, int] = {}  # by worker
        # Numbers of segments: all that are written from now on come after the first of them.
        self._limit, self._first = 0, 1 + max(map(_segment_of, self._index.values()), default=-1)

    def _narrowed(self, block: Block) -> Block:
        """Leave out columns that no model reads."""
        read = {self._column, *(getattr(step, "column", "") for step in self._steps.steps)}
        extra = {name: values for name, values in block.extra.items() if name in read}
        return replace(block, extra=extra, rejects=())

    def _note(self, learned: Set[str], failed: Set[str], lost: Set[str]) -> None:
        """Count failures in a row."""
        for key in failed:
            self._failures[key] = self._failures.get(key, 0) + 1
        for key in lost:
            self._failures[key] = self._limits.patience
        for key in [key for key in self._failures if key in learned]:
            del self._failures[key]

    def _parts(self, task: Task) -> list[Part]:
        """What became of every row, whoever is lost meanwhile."""
        wanted, answers = task.partitions, list[_Answer]()
        if not wanted:
            return []
        self._rebalance()
        for _ in range(_TRIES):
            moved = self._heal()  # who was lost has taken this batch along too
            answers = [answer for answer in answers if moved.isdisjoint(answer.partitions)]
            missing = wanted.difference(*(answer.partitions for answer in answers))
            if not missing:
                self._keep_task(task)
                return [answer.part for answer in answers]
            for name, part in self._learned(task, self._homes, missing).items():
                own = {number for number in missing if self._homes[number] == name}
                answers.append(_Answer(own, part))
        raise _lost_too_often()

    def _learned(
        self, task: Task, at: list[str] | tuple[str, ...], partitions: Set[int]
    ) -> dict[str, Part]:
        pieces = task.split(at, partitions)
        parts = self._ask("learn_part", {name: p._asdict() for name, p in pieces.items()})
        self._clusters.update((name, part.n_clusters) for name, part in parts.items())
        return parts

    def _keep_task(self, task: Task) -> None:
        self._n_clusters = sum(self._clusters[name] for name in self._staff)
        self._tasks.append(task)
        self._n_kept += task.n_bytes
        if self._n_kept > self._replay:
            self._snapshot()

    def _ask(self, method: str, questions: Mapping[str, Any]) -> dict[str, Any]:
        """Ask workers; partitions of those that were lost are at home nowhere."""
        answers = self._crew.ask(method, questions)
        if len(answers) < len(questions):
            there = self._crew.names
            self._homes = [name if name in there else _NOBODY for name in self._homes]
        return answers

    def _rebalance(self) -> None:
        """Let workers join and leave, with all models written before."""
        staff = self._crew.muster()
        if staff == self._staff:
            return
        if self._staff:
            self._snapshot()
        self._staff = staff
        self._heal()
        self._crew.dismiss(self._staff)

    def _heal(self) -> set[int]:
        """See to it that every partition is where it belongs; return those that were not."""
        moved: set[int] = set()
        for _ in range(_TRIES):
            there = self._crew.names
            self._staff = tuple(name for name in self._staff if name in there)
            if not self._staff:
                self._staff = self._crew.muster()
            at = homes(self._staff)
            moving = {i for i in range(N_PARTITIONS) if self._homes[i] != at[i]}
            if not moving:
                return moved
            self._move(moving, at)
            moved |= moving
        raise _lost_too_often()

    def _move(self, moving: Set[int], at: tuple[str, ...]) -> None:
        """Bring partitions to where they belong: models of the snapshot, and batches since."""
        takes: dict[str, dict[str, KeyedEntry]] = {name: {} for name in self._staff}
        for key, entry in self._index.items():
            if entry.extent is not None and (number := partition_of(key)) in moving:
                takes[at[number]][key] = entry
        gives = {name: {i for i in moving if self._homes[i] == name} for name in self._crew.names}
        for number in moving:
            self._homes[number] = _NOBODY
        memory = max(self._memory // len(self._staff), 1)
        orders = {
            name: {
                "give": given,
                "take": places(takes.get(name, {})),
                "memory": memory,
                "first": self._first_of(name),
            }
            for name, given in gives.items()
        }
        self._clusters = self._ask("arrange", orders)
        for task in self._tasks:
            self._learned(task, at, moving)
        for number in moving & {i for i in range(N_PARTITIONS) if at[i] in self._crew.names}:
            self._homes[number] = at[number]

    def _snapshot(self) -> None:
        """Have all models written, and note where they are."""
        if not self._tasks:
            return
        for tried in range(_TRIES):
            self._heal()
            orders = {
                # What was told at an earlier try was not noted.
                name: {"first": self._first_of(name), "everything": tried > 0}
                for name in self._staff
            }
            told = self._ask("snapshot", orders)
            if len(told) == len(orders):
                return self._take_over(told)
        raise _lost_too_often()

    def _take_over(self, told: Mapping[str, Any]) -> None:
        self._limit, numbers = self._first, [self._first - 1]
        for held, index in told.values():
            segments = [Segment(*each) for each in zip(held["held"], held["sizes"], strict=True)]
            entries, _, _ = unpacked(segments, index)
            # Entries are replaced, as a checkpoint may wait for the old ones. Keys that are not
            # here any more are just being forgotten.
            self._index.update((key, entries[key]) for key in entries if key in self._index)
            numbers += held["held"]
        self._first = max(numbers) + 1
        self._tasks, self._n_kept = [], 0

    def _first_of(self, name: str) -> int:
        """Number from which on a worker writes segments."""
        return self._first + _STRIDE * number_of(name)


def _segment_of(entry: KeyedEntry) -> int:
    number = extent_of(entry).segment.number
    assert number is not None
    return number


def _lost_too_often() -> EngineError:
    return EngineError(
        f"workers of the pool were lost {_TRIES} times in a row; look whether their nodes run out "
        "of memory, make batches or keys.memory smaller, and start the pipeline again."
    )


def _anywhere(store: Store) -> Store:
    """Return the store as it is to be called in other processes."""
    if not isinstance(store, FolderStore):
        return store
    moved = copy(store)
    moved.folder = store.folder.absolute()
    return moved
