"""Messages and bytes between the driver and its workers: of a pass, and of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.scale.overhead import WORK, one_step, settled
from benchmarks.speed import engines
from scstream.compute.threads import one_blas_thread
from scstream.core.state import Batch
from scstream.distributed import RayExecutor, ray_rows, worker_pool
from tests.on_ray.cluster import Cluster

N_WORKERS = (1, 2, 3, 4)


def run() -> list[dict[str, Any]]:
    """Count for some numbers of workers; no time is measured."""
    plan, batch = engines.sampling(WORK, "float64"), Batch(WORK.batches[0], time=0.0)
    state, next_batch = settled()
    found = []
    with Cluster(n_cpus=16, store_mb=2048) as cluster, one_blas_thread, counted() as traffic:
        cluster.connect()
        for n in N_WORKERS:
            with RayExecutor(cluster.address, n_workers=n, n_jobs=1) as executor:
                rows = executor.load(WORK.family, batch)
                found.append({"workers": n, "what": "rows to the workers", **traffic.taken()})
                rows.assign(plan)
                found.append({"workers": n, "what": "one pass", **traffic.taken()})
                rows.labels(np.zeros((WORK.n_clusters, 2), np.int64))
                found.append({"workers": n, "what": "labels", **traffic.taken()})
                one_step(executor, state, next_batch)()
                found.append({"workers": n, "what": "a whole batch", **traffic.taken()})
    return found


class Traffic:
    """What left the driver and what came back, since the last `taken`."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, **counts: int) -> None:
        for name, n in counts.items():
            self._counts[name] = self._counts.get(name, 0) + n

    def taken(self) -> dict[str, int]:
        """Return the counts, and begin anew."""
        found, self._counts = self._counts, {}
        names = ("objects_out", "bytes_out", "calls", "results", "bytes_back")
        return {name: found.get(name, 0) for name in names}


@contextmanager
def counted() -> Iterator[Traffic]:
    """Count objects that are put, calls that are sent and results that come back."""
    traffic, put, send = Traffic(), ray_rows.put, worker_pool._Calls._send
    accept = worker_pool._Calls._accept

    def counted_put(value: Any) -> Any:
        traffic.add(objects_out=1, bytes_out=serialised(value))
        return put(value)

    def counted_send(self: Any, index: int, worker: Any) -> None:
        traffic.add(calls=1)
        send(self, index, worker)

    def counted_accept(self: Any, call: Any, value: Any) -> None:
        traffic.add(results=1, bytes_back=size(value))
        accept(self, call, value)

    ray_rows.put, worker_pool._Calls._send = counted_put, counted_send  # type: ignore[method-assign]
    worker_pool._Calls._accept = counted_accept  # type: ignore[method-assign]
    try:
        yield traffic
    finally:
        ray_rows.put, worker_pool._Calls._send = put, send  # type: ignore[method-assign]
        worker_pool._Calls._accept = accept  # type: ignore[method-assign]


def serialised(value: Any) -> int:
    """Bytes of a value in the object store."""
    from ray._private.worker import global_worker

    return int(global_worker.get_serialization_context().serialize(value).total_bytes)


def size(result: Any) -> int:
    """Bytes of the arrays in a result."""
    if isinstance(result, tuple | list):
        return sum(map(size, result))
    return result.nbytes if isinstance(result, np.ndarray) else 0
