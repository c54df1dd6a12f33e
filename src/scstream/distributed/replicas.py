"""Many readers of one model: replicas on a Ray cluster, each following the checkpoints by itself.

A read is safe to repeat, so what a replica takes with it when it dies is asked of another one.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Self, get_args

from scstream.distributed import engine
from scstream.distributed.replica import Replica, Standing
from scstream.distributed.seats import Seat, Seats
from scstream.errors import EngineError, InputError
from scstream.stream.follower import NONE
from scstream.stream.model_version import Answer, Request

_PAUSE = 0.01  # seconds between two looks at replicas of which none can answer
_LONGEST_PAUSE = 0.1  # before a replica is asked again that was not new enough: it is busy reading
_DEATHS = 3  # replicas that one question may take with it before it is blamed

ray = engine.ray()


@dataclass(frozen=True)
class _Call:
    """What was asked, kept until there is an answer."""

    question: str
    rows: Any
    time: Any
    at_least: int


class Replicas:
    """Replicas of the model that a pipeline learns, asked in turn.

    Every replica is an actor that follows the checkpoints by itself; the pipeline does not know of
    them. One that dies is replaced, and its questions go to another one. Through one `Replicas`
    versions never go back, whichever replica answers. Actors end with `close`, or with the program
    that made them.

    Parameters
    ----------
    place : str
        Where the pipeline keeps its checkpoints: "s3://bucket/prefix", or a folder that every
        node of the cluster can read.
    options : mapping, optional
        Of the store, as `checkpoint.options`. Credentials are better left to the environment of
        the nodes.
    n : int, optional
        Number of replicas, spread over the nodes. By default one on every node, also on nodes that
        join later.
    every : float
        Seconds between two looks of a replica at the store.
    most : int
        Questions that may be under way at one replica.
    deadline : float
        Seconds that a question may take, unless it brings its own.
    n_cpus : float
        Processors that Ray sets aside for a replica; with none it runs beside whatever is there.
    n_threads : int
        Most threads of a replica for one question, -1 for one per core.
    address : str, optional
        Of the cluster, as in `scstream.distributed.RayExecutor`; it is joined at the first
        question, unless this program is in one already.

    Examples
    --------
    >>> from scstream.distributed.replicas import Replicas
    >>> replicas = Replicas("s3://models/orders", n=2, every=0.5)
    >>> replicas.seen
    -1

    In a program beside a running cluster::

        with Replicas("s3://models/orders") as replicas:
            answer = replicas.predict(rows)
            print(answer.values, "by version", answer.version)
    """

    def __init__(
        self,
        place: str,
        *,
        options: Mapping[str, Any] | None = None,
        n: int | None = None,
        every: float = 1.0,
        max_n: int = 8,
        deadline: float = 30.0,
        n_cpus: float = 0.0,
        n_threads: int = -1,
        address: str | None = None,
    ) -> None:
        if (n is not None and n < 1) or max_n < 1 or every <= 0:
            raise InputError(
                "n and most must be whole numbers from 1 and every a positive number of seconds, "
                f"got n={n}, most={max_n}, every={every}."
            )
        self.deadline = deadline
        self.seen = NONE  # highest version that an answer came from
        self._arguments = (place, dict(options or {}))
        self._follow = {"every": every, "n_jobs": n_threads}
        self._n_cpus, self._address = n_cpus, address
        self._seats = Seats(self._start, n, max_n)
        self._lock = Lock()

    def predict(
        self, rows: Any, *, time: Any = None, at_least: int = NONE, deadline: float | None = None
    ) -> Answer:
        """Most probable cluster of every row, as `Follower.predict` gives it.

        Parameters
        ----------
        rows, time
            As in `Follower.predict`.
        at_least : int
            Version that must answer, or a later one: wait until a replica has it.
        deadline : float, optional
            Seconds after which to give up, with a sentence that says why.
        """
        return self._asked(_Call("predict", rows, time, at_least), deadline)

    def score(
        self, rows: Any, *, time: Any = None, at_least: int = NONE, deadline: float | None = None
    ) -> Answer:
        """Log predictive density of every row, as `Follower.score` gives it; else as `predict`."""
        return self._asked(_Call("score", rows, time, at_least), deadline)

    def submit(
        self,
        rows: Any,
        *,
        question: str = "predict",
        time: Any = None,
        at_least: int = NONE,
        deadline: float | None = None,
    ) -> Pending:
        """Ask without waiting for the answer; wait only while every replica has `max_n` questions.

        Parameters
        ----------
        rows, time, at_least
            As in `predict`. The rows must not be changed before the answer is there: they may have
            to be sent again.
        question : {"predict", "score"}
            What to ask.
        deadline : float, optional
            Seconds to wait for a replica that has room; with 0 a full pool says so at once.

        Returns
        -------
        Pending
            Its `result` is the answer.
        """
        if question not in get_args(Request):
            known = " or ".join(get_args(Request))
            raise InputError(f"there is no request {question!r}; use {known}.")
        return Pending(self, _Call(question, rows, time, at_least), self._until(deadline))

    def versions(self, *, deadline: float | None = None) -> list[int]:
        """Return the version of every replica, -1 for one that has none or does not answer."""
        return [standing.version for standing in self.standings(deadline=deadline)]

    def standings(self, *, deadline: float | None = None) -> list[Standing]:
        """Return how far every replica has come, and what keeps it from following."""
        until = self._until(deadline)
        with self._lock:
            self._tend()
            sampled = [seat.actor.standing.remote() for seat in self._seats.seats]
        return [_answered(each, until) for each in sampled]

    def close(self) -> None:
        """End every replica."""
        with self._lock:
            self._seats.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _until(self, deadline: float | None) -> float:
        return clock.monotonic() + (self.deadline if deadline is None else deadline)

    def _asked(self, call: _Call, deadline: float | None) -> Answer:
        until = self._until(deadline)
        return Pending(self, call, until).result(deadline=until - clock.monotonic())

    def _start(self, where: Any) -> Any:
        options = {"num_cpus": self._n_cpus, "scheduling_strategy": where}
        kind = ray.remote(Replica).options(max_restarts=0, max_task_retries=0, **options)
        return kind.remote(*self._arguments, **self._follow)

    def _tend(self) -> None:
        engine.connect(self._address)
        self._seats.tend()

    def _send(self, call: _Call, until: float) -> tuple[Seat, Any, Any]:
        """Put a question to the next replica that is up and has room."""
        while True:
            with self._lock:
                self._tend()
                seat = self._seats.next_free()
                if seat is not None:
                    at_least = max(call.at_least, self.seen)
                    sampled = seat.actor.ask.remote(call.question, call.rows, call.time, at_least)
                    seat.calls.append(sampled)
                    return seat, seat.actor, sampled
                under_way = self._seats.under_way()
            left = until - clock.monotonic()
            if left <= 0:
                raise EngineError(self._seats.why_nobody())
            if under_way:
                ray.wait(under_way, num_returns=1, timeout=min(left, _PAUSE))
            else:
                clock.sleep(min(left, _PAUSE))

    def _accepted(self, seat: Seat, found: Answer | Standing) -> Answer | None:
        """Return an answer that is new enough; versions must not go back for who asks here."""
        with self._lock:
            if isinstance(found, Standing):
                seat.standing = found
            elif found.version >= self.seen:
                self.seen = found.version
                return found
        return None

    def _done(self, seat: Seat, sampled: Any) -> None:
        with self._lock:
            seat.drop(sampled)

    def _lost(self, seat: Seat, actor: Any, why: Exception) -> None:
        with self._lock:
            if seat.actor is actor:  # else it was replaced already
                self._seats.replace(seat, why)

    def _why_late(self, call: _Call, *, behind: Standing | None) -> str:
        if behind is None:
            return (
                "a replica has not answered in time; ask about fewer rows at once, or set a "
                "longer deadline."
            )
        wanted = max(call.at_least, self.seen)
        return (
            f"no replica has version {wanted} in time, the one asked last has {behind.version}; "
            f"see that the pipeline has written it, or set a longer deadline. {behind.trouble}"
        ).rstrip()


class Pending:
    """An answer under way; `Replicas.submit` makes it.

    Examples
    --------
    See `Replicas`::

        pending = [replicas.submit(part) for part in parts]
        ids = [each.result().values for each in pending]
    """

    def __init__(self, replicas: Replicas, call: _Call, until: float) -> None:
        self._replicas = replicas
        self._call = call
        self._answer: Answer | None = None
        self._n_lost = 0  # replicas that died before they answered
        self._behind: Standing | None = None  # what the last replica said if it was not new enough
        self._pause = _PAUSE
        self._seat, self._actor, self._asked = replicas._send(call, until)

    def result(self, *, deadline: float | None = None) -> Answer:
        """Wait for the answer; ask another replica if one dies, or knows too old a version.

        Parameters
        ----------
        deadline : float, optional
            Seconds after which to give up, by default that of the `Replicas`.
        """
        until = self._replicas._until(deadline)
        while self._answer is None:
            self._answer = self._received(until)
            if self._answer is None:
                self._seat, self._actor, self._asked = self._replicas._send(self._call, until)
        return self._answer

    def _received(self, until: float) -> Answer | None:
        """Wait for what the replica says; None if another one has to be asked."""
        replicas, errors = self._replicas, ray.exceptions
        try:
            found = ray.get(self._asked, timeout=max(until - clock.monotonic(), 0.0))
        except errors.GetTimeoutError:
            raise EngineError(replicas._why_late(self._call, behind=self._behind)) from None
        except errors.RayTaskError as error:
            replicas._done(self._seat, self._asked)
            raise engine.fault(error) from None
        except errors.RayError as error:
            replicas._lost(self._seat, self._actor, error)
            self._n_lost += 1
            if self._n_lost >= _DEATHS:
                raise EngineError(
                    f"{_DEATHS} replicas in a row died while this question was with them; ask "
                    "about fewer rows at once, and see in the logs of Ray what they died of."
                ) from error
            return None
        replicas._done(self._seat, self._asked)
        answer = replicas._accepted(self._seat, found)
        if answer is None:
            self._behind = Standing(found.version, getattr(found, "trouble", ""))
            clock.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return answer


def _answered(sampled: Any, until: float) -> Standing:
    try:
        found: Standing = ray.get(sampled, timeout=max(until - clock.monotonic(), 0.0))
    except ray.exceptions.RayError as error:
        return Standing(NONE, f"it does not answer: {str(error).splitlines()[0]}")
    return found
