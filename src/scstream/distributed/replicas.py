"""Read replicas of one model on a Ray cluster; each follows the checkpoints independently.

Reads can be repeated: a request that is lost with a replica is sent to another one.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Self

from scstream.distributed import engine
from scstream.distributed.replica import Replica, ReplicaStatus
from scstream.distributed.replica_slots import ReplicaSlots, Slot
from scstream.errors import EngineError, InputError
from scstream.io.header import Plain
from scstream.stream.follower import NONE
from scstream.stream.model_version import Answer, Request

_PAUSE = 0.01  # seconds between two checks if no replica is free
_MAX_PAUSE = 0.1  # seconds before another request if the last replica was not new enough
_MAX_DEATHS = 3  # replicas that may die during one request
_METHODS: Mapping[str, Request] = {"predict": "labels", "score": "log_density"}  # as of `Follower`

ray = engine.ray()


@dataclass(frozen=True)
class _Request:
    method: Request
    rows: Any
    time: Any
    at_least: int


class Replicas:
    """Replicas of the model of a pipeline, used in turn.

    Every replica is an actor that follows the checkpoints; the pipeline is not involved. A replica
    that dies is replaced, and its requests are sent to another one. Answers of one `Replicas`
    never go back to an older version. The actors end with `close`, or with the program.

    Parameters
    ----------
    place : str
        Location of the checkpoints: "s3://bucket/prefix", or a folder that every node of the
        cluster can read.
    options : mapping, optional
        Options of the store, as `checkpoint.options`. Pass credentials in the environment of the
        nodes rather than here.
    n : int, optional
        Number of replicas, spread over the nodes. By default one on every node, including nodes
        that join later.
    interval : float
        Seconds between two reads of the store by a replica.
    max_calls : int
        Maximum number of requests in progress at one replica.
    deadline : float
        Default maximum duration of a request, in seconds.
    n_cpus : float
        Processors that Ray reserves for a replica; 0 reserves none.
    n_jobs : int
        Maximum number of threads of a replica for one request, -1 for one per core.
    address : str, optional
        Address of the cluster, as for `scstream.distributed.RayExecutor`. The first request
        connects to it, unless this program is already connected.

    Examples
    --------
    >>> from scstream.distributed.replicas import Replicas
    >>> replicas = Replicas("s3://models/orders", n=2, interval=0.5)
    >>> replicas.newest_version
    -1

    In a program next to a running cluster::

        with Replicas("s3://models/orders") as replicas:
            answer = replicas.predict(rows)
            print(answer.values, "by version", answer.version)
    """

    def __init__(
        self,
        place: str,
        *,
        options: Plain | None = None,
        n: int | None = None,
        interval: float = 1.0,
        max_calls: int = 8,
        deadline: float = 30.0,
        n_cpus: float = 0.0,
        n_jobs: int = -1,
        address: str | None = None,
    ) -> None:
        if (n is not None and n < 1) or max_calls < 1 or interval <= 0:
            raise InputError(
                "n and max_calls must be whole numbers from 1 and interval a positive number of "
                f"seconds, got n={n}, max_calls={max_calls}, interval={interval}."
            )
        self.deadline = deadline
        self.newest_version = NONE  # of all answers so far
        self._arguments = (place, dict(options or {}))
        self._follow = {"interval": interval, "n_jobs": n_jobs}
        self._n_cpus, self._address = n_cpus, address
        self._slots = ReplicaSlots(self._start, n, max_calls)
        self._lock = Lock()

    def predict(
        self, rows: Any, *, time: Any = None, at_least: int = NONE, deadline: float | None = None
    ) -> Answer:
        """Return the most probable cluster of every row, as `Follower.predict` does.

        Parameters
        ----------
        rows, time
            As for `Follower.predict`.
        at_least : int
            Wait for a replica with this version of the model or a later one.
        deadline : float, optional
            Maximum duration in seconds.
        """
        return self._answer(_Request(_METHODS["predict"], rows, time, at_least), deadline)

    def score(
        self, rows: Any, *, time: Any = None, at_least: int = NONE, deadline: float | None = None
    ) -> Answer:
        """Return the log predictive density of every row; parameters as for `predict`."""
        return self._answer(_Request(_METHODS["score"], rows, time, at_least), deadline)

    def submit(
        self,
        rows: Any,
        *,
        method: str = "predict",
        time: Any = None,
        at_least: int = NONE,
        deadline: float | None = None,
    ) -> Pending:
        """Send a request without waiting for the answer.

        It waits only while every replica has `max_calls` requests in progress.

        Parameters
        ----------
        rows, time, at_least
            As for `predict`. Do not change the rows before the answer has arrived: they may have to
            be sent again.
        method : {"predict", "score"}
            The kind of request.
        deadline : float, optional
            Seconds to wait for a free replica; 0 raises at once if there is none.

        Returns
        -------
        Pending
            Its `result` method returns the answer.
        """
        if method not in _METHODS:
            raise InputError(f"there is no method {method!r}; use {' or '.join(_METHODS)}.")
        return Pending(self, _Request(_METHODS[method], rows, time, at_least), self._end(deadline))

    def versions(self, *, deadline: float | None = None) -> list[int]:
        """Return the version of every replica, -1 for one that has none or does not answer."""
        return [status.version for status in self.statuses(deadline=deadline)]

    def statuses(self, *, deadline: float | None = None) -> list[ReplicaStatus]:
        """Return the version and the last error of every replica."""
        end = self._end(deadline)
        with self._lock:
            self._refresh()
            calls = [slot.actor.status.remote() for slot in self._slots.slots]
        return [_status(call, end) for call in calls]

    def close(self) -> None:
        """End every replica."""
        with self._lock:
            self._slots.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _end(self, deadline: float | None) -> float:
        return clock.monotonic() + (self.deadline if deadline is None else deadline)

    def _answer(self, request: _Request, deadline: float | None) -> Answer:
        end = self._end(deadline)
        return Pending(self, request, end).result(deadline=end - clock.monotonic())

    def _start(self, strategy: Any) -> Any:
        options = {"num_cpus": self._n_cpus, "scheduling_strategy": strategy}
        kind = ray.remote(Replica).options(max_restarts=0, max_task_retries=0, **options)
        return kind.remote(*self._arguments, **self._follow)

    def _refresh(self) -> None:
        engine.connect(self._address)
        self._slots.refresh()

    def _send(self, request: _Request, end: float) -> tuple[Slot, Any, Any]:
        """Send a request to the next free replica; return slot, actor and call."""
        while True:
            with self._lock:
                self._refresh()
                slot = self._slots.next_free()
                if slot is not None:
                    at_least = max(request.at_least, self.newest_version)
                    arguments = (request.method, request.rows, request.time, at_least)
                    call = slot.actor.call.remote(*arguments)
                    slot.calls.append(call)
                    return slot, slot.actor, call
                calls = self._slots.calls()
            left = end - clock.monotonic()
            if left <= 0:
                raise EngineError(self._slots.why_unavailable())
            if calls:
                ray.wait(calls, num_returns=1, timeout=min(left, _PAUSE))
            else:
                clock.sleep(min(left, _PAUSE))

    def _accept(self, slot: Slot, found: Answer | ReplicaStatus) -> Answer | None:
        """Return the answer if its version is not older than that of an earlier answer."""
        with self._lock:
            if isinstance(found, ReplicaStatus):
                slot.status = found
            elif found.version >= self.newest_version:
                self.newest_version = found.version
                return found
        return None

    def _done(self, slot: Slot, call: Any) -> None:
        with self._lock:
            slot.remove_call(call)

    def _lost(self, slot: Slot, actor: Any, error: Exception) -> None:
        with self._lock:
            if slot.actor is actor:  # otherwise it is replaced already
                self._slots.replace(slot, error)

    def _why_late(self, request: _Request, *, behind: ReplicaStatus | None) -> str:
        if behind is None:
            return (
                "a replica has not answered in time; send fewer rows per request, or set a longer "
                "deadline."
            )
        wanted = max(request.at_least, self.newest_version)
        return (
            f"no replica has version {wanted} in time; the last one has version {behind.version}. "
            "Check that the pipeline has written it, or set a longer deadline. "
            f"{behind.error}"
        ).rstrip()


class Pending:
    """A request in progress; `Replicas.submit` returns it.

    Examples
    --------
    See `Replicas`::

        pending = [replicas.submit(part) for part in parts]
        ids = [each.result().values for each in pending]
    """

    def __init__(self, replicas: Replicas, request: _Request, end: float) -> None:
        self._replicas = replicas
        self._request = request
        self._answer: Answer | None = None
        self._n_lost = 0  # replicas that died during this request
        self._behind: ReplicaStatus | None = None  # of the last replica, if it was too old
        self._pause = _PAUSE
        self._slot, self._actor, self._call = replicas._send(request, end)

    def result(self, *, deadline: float | None = None) -> Answer:
        """Wait for the answer; if the replica dies or has an old version, use another one.

        `deadline` is the maximum duration in seconds, by default that of the `Replicas`.
        """
        end = self._replicas._end(deadline)
        while self._answer is None:
            self._answer = self._receive(end)
            if self._answer is None:
                self._slot, self._actor, self._call = self._replicas._send(self._request, end)
        return self._answer

    def _receive(self, end: float) -> Answer | None:
        """Wait for the answer of the replica; None if another replica must be used."""
        replicas, errors = self._replicas, ray.exceptions
        try:
            found = ray.get(self._call, timeout=max(end - clock.monotonic(), 0.0))
        except errors.GetTimeoutError:
            raise EngineError(replicas._why_late(self._request, behind=self._behind)) from None
        except errors.RayTaskError as error:
            replicas._done(self._slot, self._call)
            raise engine.unwrap(error) from None
        except errors.RayError as error:
            replicas._lost(self._slot, self._actor, error)
            self._n_lost += 1
            if self._n_lost >= _MAX_DEATHS:
                raise EngineError(
                    f"{_MAX_DEATHS} replicas in a row died during this request; send fewer rows "
                    "per request, and look in the logs of Ray why they died."
                ) from error
            return None
        replicas._done(self._slot, self._call)
        answer = replicas._accept(self._slot, found)
        if answer is None:
            self._behind = ReplicaStatus(found.version, getattr(found, "error", ""))
            clock.sleep(self._pause)
            self._pause = min(2 * self._pause, _MAX_PAUSE)
        return answer


def _status(call: Any, end: float) -> ReplicaStatus:
    try:
        found: ReplicaStatus = ray.get(call, timeout=max(end - clock.monotonic(), 0.0))
    except ray.exceptions.RayError as error:
        return ReplicaStatus(NONE, f"it does not answer: {str(error).splitlines()[0]}")
    return found
