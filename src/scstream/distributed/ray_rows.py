"""The rows of a batch on the workers of a Ray cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from scstream.compute.rows import RemoteRows
from scstream.core.assign import AssignmentParams, AssignmentStats, LoadedRows
from scstream.core.rng import sample_rows, spaced_rows
from scstream.core.row_ranges import RowRange, add_row_ranges
from scstream.core.state import Batch
from scstream.distributed.engine import put
from scstream.distributed.shards import Columns, ShardedRows
from scstream.distributed.worker import BlockSlice, PlanVersion, Shard, stacked
from scstream.distributed.worker_pool import WorkerCall, WorkerPool, call_workers
from scstream.errors import PartsLost
from scstream.families.base import Array, Family, Labels, Rows
from scstream.machine import usable_cores

if TYPE_CHECKING:
    from scstream.distributed.executor import RayExecutor

_TRIES = 10  # attempts at a pass of which parts of the result are lost

T = TypeVar("T")


class RayRows:
    """The rows of a batch on workers, with their latest assignments.

    A pass sends a plan to every node, one call to every worker, and takes the sums of the subtrees
    of its rows from each. Rows are sent once.
    """

    def __init__(
        self, executor: RayExecutor, pool: WorkerPool, family: Family, batch: Batch
    ) -> None:
        self._executor = executor
        self._pool = pool
        self._family = family
        self._batch = batch
        self._name = uuid.uuid4().hex
        self._parts: Iterator[int] = count()  # of this batch: all rows, then samples of them
        self._n_plans, self._plan = 0, None
        self._load(put(family))

    def _load(self, about: Any) -> None:
        """Divide the rows among the workers, preferably where they are stored."""
        workers, part = self._pool.refresh(), next(self._parts)
        row_ranges = RowRange.full(self._batch.n_rows).shards(len(workers))
        slices = [self._slices(row_range) for row_range in row_ranges]
        self._shards = [
            Shard(self._name, part, row_range, own, self._weight(row_range), about)
            for row_range, own in zip(row_ranges, slices, strict=True)
        ]
        self._homes = nearest_workers(slices, workers, self._stored_at(slices))
        self._loaded: set[tuple[Any, Any]] = set()  # workers, with keys of shards that they have

    def sample(self, max_n: int, key: int) -> tuple[LoadedRows, float]:
        """Return a random sample of at most `max_n` rows, and the rows that each represents.

        The sample stays on the workers if these have more threads for its few slices than this
        process; otherwise to send the rows costs less than to send parameters and sums.
        """
        n_rows = self._batch.n_rows
        if n_rows <= max_n:
            return self, 1.0
        picked = spaced_rows(self._family.kernels, key, n_rows, max_n)
        weight = None if self._batch.weight is None else self._batch.weight[picked]
        if self._has_more_threads(RowRange.full(max_n).stop):
            return RaySample(self, picked, weight), n_rows / max_n
        batch = Batch(self._rows_at(picked), self._batch.time, weight)
        return self._executor.threads.load(self._family, batch), n_rows / max_n

    def assign(self, plan: AssignmentParams) -> AssignmentStats:
        """Assign every row and keep the assignments."""
        self._n_plans += 1
        self._plan = put(PlanVersion(self._n_plans, plan))
        many = len(self._shards) >= self._executor.scatter_from
        sums = self._retry(self._scattered if many else self._gathered)
        return AssignmentStats.unpacked(sums, len(plan.clusters), len(plan.pairs))

    def near(self, params: AssignmentParams, phase: int) -> Array:  # (K + 2,)
        """Return `near_clusters` of all rows."""
        about = put(params)
        found = self._retry(
            lambda: self._call(lambda worker, shard: worker.near.remote(shard.key, about, phase))
        )
        return np.asarray(sum(found[1:], found[0]))

    def novel(self, max_n: int, key: int) -> tuple[Rows, Array | None]:
        """Return a random sample of the rows without a cluster, with their weights."""
        found = self._retry(
            lambda: self._call(
                lambda worker, shard: worker.novel_rows.remote(shard.key, self._plan)
            )
        )
        starts = [row_range.rows.start for row_range in self._row_ranges()]
        places = np.concatenate([start + own for start, own in zip(starts, found, strict=True)])
        picked = sample_rows(self._family.kernels, key, places, max_n)
        weight = self._batch.weight
        return self._rows_at(picked), None if weight is None else weight[picked]

    def labels(self, label_ids: Labels) -> tuple[Labels, int]:
        """Return the cluster ids of the rows and the number of novel rows; ends the batch."""
        results = self._retry(
            lambda: self._call(
                lambda worker, shard: worker.labels.remote(shard.key, self._plan, label_ids)
            )
        )
        self._pool.release(self._name)
        ids = np.concatenate([ids for ids, _ in results]).astype(np.int64)
        return ids, sum(n for _, n in results)

    def keep(self, picked: Labels) -> tuple[list[Any], list[Any]]:
        """Let the workers store these of their rows; return the references, and the workers."""
        own = self._by_shard(picked)
        found = self._retry(
            lambda: self._call(
                lambda worker, shard: worker.keep_rows.options(num_returns=2).remote(
                    shard.key, own[shard.key]
                )
            )
        )
        return [blocks[0] for blocks, _ in found], list(self._homes)

    def _rows_at(self, picked: Labels) -> Rows:
        """Return these rows, in this process."""
        if not isinstance(self._batch.rows, RemoteRows):
            return self._batch.rows[picked]
        own = self._by_shard(picked)
        found = self._retry(
            lambda: self._call(
                lambda worker, shard: worker.take_rows.remote(shard.key, own[shard.key])
            )
        )
        return stacked(found)

    def _by_shard(self, picked: Labels) -> dict[Any, Labels]:
        """Return the positions of increasing rows within their shards."""
        starts = [row_range.rows.start for row_range in self._row_ranges()]
        parts = np.split(picked, np.searchsorted(picked, starts[1:]))
        return {
            shard.key: part - start
            for shard, part, start in zip(self._shards, parts, starts, strict=True)
        }

    def _has_more_threads(self, n_slices: int) -> bool:
        """Whether the workers can use more threads for so many slices than this process."""
        theirs = len(self._homes) * (self._pool.n_jobs or usable_cores())
        return self._executor.n_threads < min(n_slices, theirs)

    def _retry(self, compute: Callable[[], T]) -> T:
        """Compute something; repeat it if parts of the result were lost with a node."""
        try:
            for _ in range(_TRIES - 1):
                try:
                    return compute()
                except PartsLost:
                    self._restore()
            return compute()
        except BaseException:
            self._pool.release(self._name)
            raise

    def _restore(self) -> None:
        """Make lost blocks again; Ray itself does so for the rows of a batch."""

    def _gathered(self) -> Array:
        """Return the sums of all workers, added in this process."""
        found = self._call(lambda worker, shard: worker.sums.remote(shard.key, self._plan))
        sums = add_row_ranges(self._row_ranges(), found)
        return np.require(sums, requirements="W")  # copies it if it is in the object store

    def _scattered(self) -> Array:
        """Return the sums of all workers; each worker adds one part."""
        n = len(self._shards)
        split = self._call(
            lambda worker, shard: worker.split_sums.options(num_returns=n + 1).remote(
                shard.key, self._plan, n
            )
        )

        def request(part: int) -> WorkerCall:
            pieces = [references[part] for references, _ in split]
            return lambda worker: worker.add_sums.remote(self._row_ranges(), *pieces)

        return np.concatenate(self._executor.call_any([request(part) for part in range(n)]))

    def _row_ranges(self) -> list[RowRange]:
        return [shard.row_range for shard in self._shards]

    def _call(self, request: Callable[[Any, Shard], Any]) -> list[Any]:
        """Send a request for every shard, to the worker that has loaded it."""

        def sent(shard: Shard) -> WorkerCall:
            def send(worker: Any) -> Any:
                if (worker, shard.key) in self._loaded:
                    self._loaded.remove((worker, shard.key))  # if it is called again, load again
                else:
                    worker.load.remote(shard)
                return request(worker, shard)

            return send

        requests, deadline = [sent(shard) for shard in self._shards], self._executor.deadline
        found = call_workers(self._pool, self._homes, requests, deadline=deadline)
        keys = [shard.key for shard in self._shards]
        self._loaded = set(zip(self._homes, keys, strict=True))
        return found

    def _stored_at(self, slices: Sequence[Sequence[BlockSlice]]) -> dict[Any, Any]:
        """Return the worker on the node of a block, if there is one, by block."""
        if not isinstance(self._batch.rows, ShardedRows):
            return {}
        blocks = list({part.block: None for parts in slices for part in parts})
        return dict(zip(blocks, self._pool.near(blocks), strict=True))

    def _slices(self, row_range: RowRange) -> tuple[BlockSlice, ...]:
        if isinstance(self._batch.rows, ShardedRows):
            return self._batch.rows.slices(row_range.rows)
        rows = self._batch.rows[row_range.rows.start : row_range.rows.stop]
        return (BlockSlice(put(rows), 0, rows.shape[0]),)

    def _weight(self, row_range: RowRange) -> Any:
        if self._batch.weight is None:
            return None
        return put(self._batch.weight[row_range.rows.start : row_range.rows.stop])


class RaySample(RayRows):
    """Some rows of a batch on the workers that have them."""

    def __init__(self, rows: RayRows, picked: Labels, weight: Array | None) -> None:
        self._executor, self._pool, self._family = rows._executor, rows._pool, rows._family
        self._name, self._parts = rows._name, rows._parts
        self._n_plans, self._plan = 0, None
        self._all, self._picked, self._sample_weight = rows, picked, weight
        self._restore()

    def _restore(self) -> None:
        """Let the workers store the sample, also if they did so and it is lost."""
        blocks, workers = self._all.keep(self._picked)
        self._keepers = dict(zip(blocks, workers, strict=True))
        lengths = [len(own) for own in self._all._by_shard(self._picked).values()]
        rows = self._all._batch.rows
        is_sparse = rows.is_sparse if isinstance(rows, RemoteRows) else sparse.issparse(rows)
        about = Columns(rows.shape[1], None, is_sparse)
        stored = ShardedRows(self._executor, (), blocks, lengths, about)
        self._batch = Batch(stored, self._all._batch.time, self._sample_weight)
        self._load(self._all._shards[0].family)

    def _stored_at(self, slices: Sequence[Sequence[BlockSlice]]) -> dict[Any, Any]:
        return self._keepers


def nearest_workers(
    slices: Sequence[Sequence[BlockSlice]], workers: list[Any], stored_at: dict[Any, Any]
) -> list[Any]:
    """Return a worker for every shard, so that as many rows as possible are where they are used."""
    rows = np.zeros((len(slices), len(workers)))
    for shard, parts in enumerate(slices):
        for part in parts:
            if stored_at.get(part.block) in workers:
                rows[shard, workers.index(stored_at[part.block])] += part.stop - part.start
    if not rows.any():
        return workers[: len(slices)]
    _, chosen = linear_sum_assignment(rows, maximize=True)
    return [workers[worker] for worker in chosen]
