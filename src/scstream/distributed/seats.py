"""Who answers: an actor in every seat, on every node or as many as wanted, replaced if it dies."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scstream.distributed import engine
from scstream.distributed.replica import Standing
from scstream.stream.follower import NONE

_ROUND = 1.0  # seconds between two looks at the nodes of the cluster
_REST = 1.0  # seconds after its start before an actor that died is replaced
_STARTING = Standing(NONE, "it is starting")

ray = engine.ray()


@dataclass(eq=False)
class Seat:
    """The place of one replica, whichever actor fills it."""

    node: str | None  # None where Ray chooses
    actor: Any
    since: float  # when the actor was started
    is_up: bool = False
    standing: Standing = _STARTING
    sampled: Any = None  # the question after its standing, while it is not up
    calls: list[Any] = field(default_factory=list)  # under way

    def has_room(self, max_n: int) -> bool:
        """Whether fewer than `max_n` calls are under way."""
        if len(self.calls) >= max_n:
            self.calls = ray.wait(self.calls, num_returns=len(self.calls), timeout=0)[1]
        return len(self.calls) < max_n

    def drop(self, call: Any) -> None:
        """Count a call no more."""
        if call in self.calls:
            self.calls.remove(call)


@dataclass
class Seats:
    """Actors on the nodes of a cluster: one on every node, or a given number.

    Not for several threads at once.

    Parameters
    ----------
    start : callable
        Starts an actor, given where.
    n : int or None
        How many; None for one on every node that has a processor.
    most : int
        Calls that may be under way at one of them.

    Examples
    --------
    >>> from scstream.distributed.seats import Seats
    >>> Seats(start=print, n=2, max_n=8).why_nobody()
    'the cluster has no node with a processor; add one with `ray start --address`.'
    """

    start: Callable[[Any], Any]
    n: int | None
    max_n: int
    seats: list[Seat] = field(default_factory=list)
    _turn: int = 0
    _looked: float = -float("inf")  # when nodes were looked at last

    def tend(self) -> None:
        """Put actors where there should be some, and look after those that are not up."""
        now = time.monotonic()
        if now - self._looked >= _ROUND:
            self._place()
            self._looked = now
        for seat in self.seats:
            if not seat.is_up:
                self._look_after(seat)

    def next_free(self) -> Seat | None:
        """Return the next seat in turn that is up and has room."""
        for _ in self.seats:
            self._turn = (self._turn + 1) % len(self.seats)
            seat = self.seats[self._turn]
            if seat.is_up and seat.has_room(self.max_n):
                return seat
        return None

    def under_way(self) -> list[Any]:
        """Return all calls that are not known to be done."""
        return [call for seat in self.seats for call in seat.calls]

    def replace(self, seat: Seat, why: Exception) -> None:
        """Fill a seat anew whose actor is lost; one that dies soon after its start has to wait."""
        seat.is_up = False
        seat.standing = Standing(NONE, f"it died: {str(why).splitlines()[0]}")
        self._looked = -float("inf")  # its node may be gone
        if time.monotonic() - seat.since >= _REST:
            ray.kill(seat.actor)
            seat.actor, seat.since = self.start(_where(seat.node)), time.monotonic()
            seat.sampled, seat.calls = None, []

    def close(self) -> None:
        """End every actor."""
        for seat in self.seats:
            ray.kill(seat.actor)
        self.seats, self._looked = [], -float("inf")

    def why_nobody(self) -> str:
        """Say why there is no seat to ask."""
        up = [seat for seat in self.seats if seat.is_up]
        if up:
            return (
                f"every one of {len(up)} replicas has {self.max_n} questions to answer; ask more "
                "slowly, wait longer for room (deadline), or start more replicas."
            )
        if not self.seats:
            return "the cluster has no node with a processor; add one with `ray start --address`."
        trouble = next((seat.standing.trouble for seat in self.seats if seat.standing.trouble), "")
        return (
            f"none of {len(self.seats)} replicas can answer yet: "
            f"{(trouble or 'there is no sound checkpoint with a model').rstrip('.')}."
        )

    def _place(self) -> None:
        if self.n is not None:
            self.seats += [self._new(None) for _ in range(self.n - len(self.seats))]
            return
        nodes = engine.nodes()
        self.seats = [seat for seat in self.seats if seat.node in nodes]
        taken = [seat.node for seat in self.seats]
        self.seats += [self._new(node) for node in nodes if node not in taken]

    def _new(self, node: str | None) -> Seat:
        return Seat(node, self.start(_where(node)), time.monotonic())

    def _look_after(self, seat: Seat) -> None:
        if seat.sampled is None:
            seat.sampled = seat.actor.standing.remote()
        if not ray.wait([seat.sampled], timeout=0)[0]:
            return
        sampled, seat.sampled = seat.sampled, None
        try:
            seat.standing = ray.get(sampled)
        except ray.exceptions.RayError as error:
            self.replace(seat, error)
        else:
            seat.is_up = seat.standing.version != NONE


def _where(node: str | None) -> Any:
    """Return how Ray is told to place an actor."""
    strategies = ray.util.scheduling_strategies
    return "SPREAD" if node is None else strategies.NodeAffinitySchedulingStrategy(node, soft=False)
