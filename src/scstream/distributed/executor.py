"""An executor that stores rows on the workers of a Ray cluster; parameters and sums are sent."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar

import numpy as np

from scstream.compute.rows import RemoteRows
from scstream.compute.threads import ThreadExecutor
from scstream.core.assign import AssignmentParams, AssignmentStats, LoadedRows
from scstream.core.rng import sample_rows
from scstream.core.row_ranges import RowRange, add_row_ranges
from scstream.core.state import Batch
from scstream.distributed.engine import ActorOptions, put
from scstream.distributed.family_kernel import with_kernels
from scstream.distributed.shards import ShardedLabels, ShardedRows, blocks_of
from scstream.distributed.worker import BlockSlice, PlanVersion, Shard
from scstream.distributed.worker_pool import WorkerCall, WorkerPool, call_workers
from scstream.errors import InputError, PartsLost
from scstream.families.base import Array, Family, Labels, Rows
from scstream.machine import usable_cores

_MIN_WORK = 5e9  # clusters times features cubed from which sending the matrices pays off
_WIDE = 20  # features per thread of this process from which it can pay off
_MAX_CLUSTERS = 1e5  # no call has more
_TRIES = 10  # attempts at a pass of which parts of the result are lost

T = TypeVar("T")


class RayExecutor:
    """Distribute the rows of large batches over the nodes of a Ray cluster.

    Labels, states and events equal those of one process, bit for bit, for any number of workers,
    and also if workers fail.

    Parameters
    ----------
    address : str or None
        Address of the cluster. None: the cluster that RAY_ADDRESS names, or a new one on this
        machine. A process that is already connected keeps its connection.
    n_workers : int or None
        Number of workers; None for one on every node, updated at each batch.
    n_jobs : int or None
        Threads of a worker; None for one per processor of its node.
    min_rows : int
        Smaller batches are processed by threads of this process, because sending them costs more.
    scatter_from : int
        With at least this many workers, each worker adds a part of the sums of all workers.
    min_work : float or None
        Clusters times features cubed from which computations per cluster (parameters, marginals,
        merge proposals) are distributed too. By default only if there are many features.
    deadline : float
        Maximum duration of one pass over the rows, in seconds.
    options : mapping
        Further options of the Ray actors, such as ``{"num_cpus": 8}`` to reserve processors.

    Examples
    --------
    >>> from scstream import ScStream
    >>> from scstream.distributed import RayExecutor
    >>> executor = RayExecutor("10.0.0.1:6379")
    >>> model = ScStream(executor=executor)
    >>> executor
    RayExecutor('10.0.0.1:6379')
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        n_workers: int | None = None,
        n_jobs: int | None = None,
        min_rows: int = 1 << 15,
        scatter_from: int = 8,
        min_work: float | None = None,
        deadline: float = 600.0,
        options: ActorOptions | None = None,
    ) -> None:
        for name, value in {"n_workers": n_workers, "n_jobs": n_jobs}.items():
            if value is not None and (type(value) is not int or value < 1):
                raise InputError(f"{name} must be a whole number from 1, or None, got {value!r}.")
        if not deadline > 0:
            raise InputError(f"deadline must be a number of seconds, got {deadline!r}.")
        self._min_rows = min_rows
        self.scatter_from = scatter_from
        self.deadline = deadline
        self._min_work = min_work
        self._pool = WorkerPool(address, n_workers, n_jobs, dict(options or {}))
        self._local = ThreadExecutor(usable_cores())

    @property
    def n_threads(self) -> int:
        """Number of threads of this process, for work that is not distributed."""
        return self._local.n_threads

    def load(self, family: Family, batch: Batch) -> LoadedRows:
        """Load the rows of a batch: in this process if there are few, else on the workers."""
        if batch.n_rows < self._min_rows and not isinstance(batch.rows, RemoteRows):
            return self._local.load(family, batch)
        return RayRows(self, self._pool, family, batch)

    def with_kernels(self, family: Family) -> Family:
        """Return the family with kernels that distribute large computations."""
        min_work = self._min_work
        if min_work is None:
            # Sending a matrix costs D², factoring it D³, and this process has threads too.
            min_work = _MIN_WORK if family.n_features >= _WIDE * self.n_threads else np.inf
        if min_work / family.n_features**3 > _MAX_CLUSTERS:
            return family
        return with_kernels(family, self, n_parts=len(self._pool.refresh()), min_work=min_work)

    def rows(self, source: Any, *, columns: Sequence[str] | None = None) -> ShardedRows:
        """Use data that is already in the object store, without copying it to this process.

        Parameters
        ----------
        source : ray.data.Dataset or sequence of references
            A dataset, or references to arrays, Arrow tables or data frames.
        columns : sequence of str, optional
            The columns of tables to use; all by default.

        Returns
        -------
        ShardedRows
            Input for `partial_fit`. The first batch is copied to this process once, to choose the
            prior; pass a family with an explicit prior to avoid that.
        """
        self._pool.refresh()
        return ShardedRows(self, *blocks_of(source, columns, deadline=self.deadline))

    def call_any(self, requests: Sequence[WorkerCall]) -> list[Any]:
        """Send every request to some worker and return the results in order."""
        workers = self._pool.refresh()
        homes = [workers[index % len(workers)] for index in range(len(requests))]
        return call_workers(self._pool, homes, requests, deadline=self.deadline)

    def close(self) -> None:
        """End the workers; the next batch starts new ones."""
        self._pool.close()

    def __repr__(self) -> str:
        return f"RayExecutor({self._pool.address!r})"

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # copies of a model share the workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class RayRows:
    """The rows of a batch on workers, with their latest assignments."""

    def __init__(
        self, executor: RayExecutor, pool: WorkerPool, family: Family, batch: Batch
    ) -> None:
        self._executor = executor
        self._pool = pool
        self._family = family
        self._batch = batch
        self._name = uuid.uuid4().hex
        self._n_plans, self._plan = 0, None
        workers, about = pool.refresh(), put(family)
        self._shards = [
            Shard(self._name, row_range, self._slices(row_range), self._weight(row_range), about)
            for row_range in RowRange.full(batch.n_rows).shards(len(workers))
        ]
        self._homes = workers[: len(self._shards)]

    def sample(self, max_n: int, key: int) -> tuple[LoadedRows, float]:
        """Return a random sample of at most `max_n` rows, and the rows that each represents."""
        if self._batch.n_rows <= max_n:
            return self, 1.0
        batch, scale = self._batch.sample(self._family.kernels, max_n, key)
        return self._executor.load(self._family, batch), scale

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
            lambda: self._call(lambda worker, shard: worker.near.remote(shard, about, phase))
        )
        return np.asarray(sum(found[1:], found[0]))

    def novel(self, max_n: int, key: int) -> tuple[Rows, Array | None]:
        """Return a random sample of the rows without a cluster, with their weights."""
        found = self._retry(
            lambda: self._call(lambda worker, shard: worker.novel_rows.remote(shard, self._plan))
        )
        picked = sample_rows(self._family.kernels, key, np.concatenate(found), max_n)
        rows = self._retry(lambda: self._batch.rows[picked])
        weight = self._batch.weight
        return rows, None if weight is None else weight[picked]

    def labels(self, label_ids: Labels) -> tuple[Any, int]:
        """Return the cluster ids of the rows and the number of novel rows; ends the batch."""
        stay = isinstance(self._batch.rows, RemoteRows)  # labels stay with remote rows
        n_returns = 2 if stay else 1
        results = self._retry(
            lambda: self._call(
                lambda worker, shard: worker.labels.options(num_returns=n_returns).remote(
                    shard, self._plan, label_ids
                )
            )
        )
        self._pool.release(self._name)
        n_novel = sum(n for _, n in results)
        if not stay:
            return np.concatenate([ids for ids, _ in results]), n_novel
        lengths = [len(shard.row_range.rows) for shard in self._shards]
        pieces = [ids for (ids,), _ in results]
        return ShardedLabels(pieces, lengths, deadline=self._executor.deadline), n_novel

    def _retry(self, compute: Callable[[], T]) -> T:
        """Compute something; repeat it if parts of the result were lost with a node."""
        try:
            for _ in range(_TRIES - 1):
                with suppress(PartsLost):
                    return compute()
            return compute()
        except BaseException:
            self._pool.release(self._name)
            raise

    def _gathered(self) -> Array:
        """Return the sums of all workers, added in this process."""
        found = self._call(lambda worker, shard: worker.sums.remote(shard, self._plan))
        sums = add_row_ranges(self._row_ranges(), found)
        return np.require(sums, requirements="W")  # copies it if it is in the object store

    def _scattered(self) -> Array:
        """Return the sums of all workers; each worker adds one part."""
        n = len(self._shards)
        split = self._call(
            lambda worker, shard: worker.split_sums.options(num_returns=n + 1).remote(
                shard, self._plan, n
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
        requests = [lambda worker, shard=shard: request(worker, shard) for shard in self._shards]
        return call_workers(self._pool, self._homes, requests, deadline=self._executor.deadline)

    def _slices(self, row_range: RowRange) -> tuple[BlockSlice, ...]:
        if isinstance(self._batch.rows, ShardedRows):
            return self._batch.rows.slices(row_range.rows)
        rows = self._batch.rows[row_range.rows.start : row_range.rows.stop]
        return (BlockSlice(put(rows), 0, rows.shape[0]),)

    def _weight(self, row_range: RowRange) -> Any:
        if self._batch.weight is None:
            return None
        return put(self._batch.weight[row_range.rows.start : row_range.rows.stop])
