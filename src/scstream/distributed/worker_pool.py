"""The workers of a `RayExecutor`, and calls that survive lost and slow workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from scstream.distributed.engine import (
    ActorOptions,
    connect,
    locations,
    loss_errors,
    nodes,
    placement,
    ray,
    summary,
    unwrap,
)
from scstream.distributed.worker import ShardMissing, Worker
from scstream.errors import EngineError
from scstream.kernels import kernels_in_use

_POLL = 0.25  # seconds between two checks for slow workers
_SLOW = 3.0  # a call is slow if it takes this many times as long as the slowest finished one
_MIN_SLOW = 1.0  # seconds within which no call is slow
_RETRY_PAUSE = 0.05  # seconds before a lost call is repeated

# Sends one call to the given worker. Returns the reference of the result, or a list of references:
# the last one is the result, the others stay in the object store.
WorkerCall = Callable[[Any], Any]


@dataclass
class WorkerPool:
    """Actors on the nodes of a cluster: one on every node, or a given number.

    Results do not depend on the worker: each call is a pure function of its arguments.
    """

    address: str | None
    n_workers: int | None
    n_jobs: int | None
    options: ActorOptions
    # By node id or number, and by kernels: other kernels give other bits.
    workers: dict[tuple[str, str], Any] = field(default_factory=dict)
    _session: Any = None
    _lock: Any = field(default_factory=Lock, repr=False)

    def __reduce__(self) -> Any:
        # A copy in another process starts its own workers.
        return WorkerPool, (self.address, self.n_workers, self.n_jobs, self.options)

    def refresh(self) -> list[Any]:
        """Return the current workers: start them on new nodes, drop those of lost nodes."""
        connect(self.address)
        with self._lock:
            self._drop_old_session()
            wanted = self._wanted()
            if not wanted and not self.workers:
                raise EngineError(
                    "the Ray cluster has no node with a processor; add one with `ray start "
                    "--address`, or give RayExecutor n_workers."
                )
            # If there is no node now, existing workers wait for one.
            for name in [name for name in self.workers if wanted and name not in wanted]:
                ray().kill(self.workers.pop(name))
            for name, strategy in wanted.items():
                if name not in self.workers:
                    self.workers[name] = self._start(strategy)
            return list(self.workers.values())

    def near(self, references: Sequence[Any]) -> list[Any]:
        """Return for every object a worker on a node that stores it, or None if there is none.

        If the number of workers was given, Ray chose their nodes, and nothing is known.
        """
        if self.n_workers is not None or len(self.workers) < 2:
            return [None] * len(references)
        by_node = {node: worker for (node, _), worker in self.workers.items()}
        found = [
            [by_node[node] for node in nodes if node in by_node] for nodes in locations(references)
        ]
        return [workers[0] if workers else None for workers in found]

    def discard(self, worker: Any) -> None:
        """Forget a dead worker; the next `refresh` replaces it."""
        with self._lock:
            self.workers = {name: one for name, one in self.workers.items() if one != worker}

    def release(self, batch: str) -> None:
        """Let all workers drop the rows of a batch."""
        if ray().is_initialized() and self._session == _session():
            for worker in list(self.workers.values()):
                worker.release.remote(batch)

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            if self.workers and ray().is_initialized():
                self._drop_old_session()
                for worker in self.workers.values():
                    ray().kill(worker)
            self.workers = {}

    def _drop_old_session(self) -> None:
        """Forget workers of a cluster from which this process has disconnected."""
        if self._session != _session():
            self._session, self.workers = _session(), {}

    def _wanted(self) -> dict[tuple[str, str], Any]:
        if self.n_workers is not None:
            return {(str(i), kernels_in_use()): placement(None) for i in range(self.n_workers)}
        return {(node, kernels_in_use()): placement(node, soft=True) for node in nodes()}

    def _start(self, strategy: Any) -> Any:
        # Ray restarts a dead worker without its data; `call_workers` repeats the lost calls.
        options = {
            "num_cpus": 0,
            "max_restarts": -1,
            "max_task_retries": 0,
            "scheduling_strategy": strategy,
            **self.options,
        }
        return ray().remote(Worker).options(**options).remote(self.n_jobs, kernels_in_use())


def _session() -> tuple[str, str]:
    """Return an identifier of the current connection to a cluster."""
    context = ray().get_runtime_context()
    return context.get_node_id(), context.get_job_id()


def call_workers(
    pool: WorkerPool, homes: list[Any], requests: Sequence[WorkerCall], *, deadline: float
) -> list[Any]:
    """Send request i to worker `homes[i]`, and return the results in order.

    If another worker had to answer, `homes` is updated. The result of a request that returns
    several references is a pair: the other references, and the value of the last.
    """
    return _Calls(pool, homes, requests, deadline).results()


@dataclass
class _Call:
    index: int  # of the request
    worker: Any
    start: float
    references: list[Any]  # that stay in the object store


class _Calls:
    """Calls in progress, and the results so far."""

    def __init__(
        self, pool: WorkerPool, homes: list[Any], requests: Sequence[WorkerCall], deadline: float
    ) -> None:
        self._pool = pool
        self._homes = homes
        self._requests = requests
        self._deadline = deadline
        self._end = time.monotonic() + deadline
        self._waiting: dict[Any, _Call] = {}  # by reference
        self._results: dict[int, Any] = {}  # by index of the request
        self._slow_after = _MIN_SLOW
        self._last_loss = "no worker was lost"

    def results(self) -> list[Any]:
        for index, worker in enumerate(self._homes):
            self._send(index, worker)
        self._receive_all()
        n = len(self._requests)
        while len(self._results) < n:
            if time.monotonic() > self._end:
                raise EngineError(
                    f"{n - len(self._results)} of {n} workers did not answer within "
                    f"{self._deadline:g} s ({self._last_loss}); look at the cluster with `ray "
                    "status`, then learn the batch again, or give RayExecutor a longer deadline."
                )
            ready, _ = ray().wait(
                list(self._waiting), num_returns=len(self._waiting), timeout=_POLL
            )
            for reference in ready:
                self._receive(reference)
            if not ready:
                self._duplicate_slow_calls()
        return [self._results[index] for index in range(n)]

    def _send(self, index: int, worker: Any) -> None:
        references = self._requests[index](worker)
        *stay, result = references if isinstance(references, list) else [references]
        self._waiting[result] = _Call(index, worker, time.monotonic(), stay)

    def _receive_all(self) -> None:
        """Receive all results by one call of Ray, if they come soon and nothing is lost."""
        calls = list(self._waiting.items())
        try:
            values = ray().get([reference for reference, _ in calls], timeout=_POLL)
        except Exception:  # of Ray, or of the workers' code: `_receive` handles each by itself
            return
        for (reference, call), value in zip(calls, values, strict=True):
            del self._waiting[reference]
            self._accept(call, value)

    def _receive(self, reference: Any) -> None:
        call = self._waiting.pop(reference)
        if call.index in self._results:
            return
        errors = ray().exceptions
        try:
            value = ray().get(reference, timeout=self._deadline)
        except errors.RayTaskError as error:
            cause = unwrap(error)
            if not isinstance(cause, ShardMissing):
                raise cause from None
            self._repeat(call, cause)
        except loss_errors() as error:
            self._repeat(call, error)
        except errors.RayError as error:
            raise unwrap(error) from error
        else:
            self._accept(call, value)

    def _accept(self, call: _Call, value: Any) -> None:
        """Note the result of a call, and the worker that gave it."""
        self._results[call.index] = (call.references, value) if call.references else value
        self._homes[call.index] = call.worker
        took = time.monotonic() - call.start
        self._slow_after = max(self._slow_after, _SLOW * took)

    def _repeat(self, call: _Call, error: Exception) -> None:
        """Send a lost call to another worker, or to the same one if there is no other."""
        if isinstance(error, ray().exceptions.ActorDiedError):
            self._pool.discard(call.worker)
            if error.actor_init_failed:
                raise EngineError(
                    f"a worker cannot start ({summary(error)}); install the same version of "
                    "scstream and its dependencies on every node."
                ) from None
        self._last_loss = f"a worker was lost: {summary(error)}"
        time.sleep(_RETRY_PAUSE)
        workers = self._pool.refresh()
        others = [worker for worker in workers if worker != call.worker] or workers
        self._send(call.index, others[call.index % len(others)])

    def _duplicate_slow_calls(self) -> None:
        """Send slow calls to idle workers too; the first result counts."""
        unfinished = [call for call in self._waiting.values() if call.index not in self._results]
        indices = [call.index for call in unfinished]
        workers = list(self._pool.workers.values())
        if 2 * len(set(indices)) > len(workers):
            return
        busy = {call.worker for call in self._waiting.values()}
        idle = [worker for worker in workers if worker not in busy]
        slow = time.monotonic() - self._slow_after
        for call in unfinished:
            if idle and indices.count(call.index) == 1 and call.start < slow:
                self._send(call.index, idle.pop(0))
