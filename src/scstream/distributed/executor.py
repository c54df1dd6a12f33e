"""An executor that stores rows on the workers of a Ray cluster; parameters and sums are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scstream.compute.rows import RemoteRows
from scstream.compute.threads import ThreadExecutor
from scstream.core.assign import LoadedRows
from scstream.core.state import Batch
from scstream.distributed.engine import ActorOptions
from scstream.distributed.family_kernel import with_kernels
from scstream.distributed.ray_rows import RayRows
from scstream.distributed.shards import ShardedRows, blocks_of
from scstream.distributed.worker_pool import WorkerCall, WorkerPool, call_workers
from scstream.errors import InputError
from scstream.families.base import Family
from scstream.machine import usable_cores

_MIN_WORK = 5e9  # clusters times features cubed from which sending the matrices pays off
_WIDE = 20  # features per thread of this process from which it can pay off
_MAX_CLUSTERS = 1e5  # no call has more


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
        self.threads = ThreadExecutor(usable_cores())

    @property
    def n_threads(self) -> int:
        """Number of threads of this process, for work that is not distributed."""
        return self.threads.n_threads

    def load(self, family: Family, batch: Batch) -> LoadedRows:
        """Load the rows of a batch: in this process if there are few, else on the workers."""
        if batch.n_rows < self._min_rows and not isinstance(batch.rows, RemoteRows):
            return self.threads.load(family, batch)
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

    def call_any(self, requests: Sequence[WorkerCall], near: Sequence[Any] = ()) -> list[Any]:
        """Send every request to some worker and return the results in order.

        `near` has an object for every request: a worker on a node that stores it is preferred.
        """
        workers = self._pool.refresh()
        homes = [workers[index % len(workers)] for index in range(len(requests))]
        if near:
            close = self._pool.near(near)
            homes = [there or home for there, home in zip(close, homes, strict=True)]
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
