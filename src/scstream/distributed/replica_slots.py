"""The actors of `Replicas`: one on every node or a given number, replaced when they die."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scstream.distributed import engine
from scstream.distributed.replica import ReplicaStatus
from scstream.stream.follower import NONE

_NODES_INTERVAL = 1.0  # seconds between two checks of the nodes of the cluster
_MIN_LIFE = 1.0  # seconds after its start before a dead actor is replaced
_STARTING = ReplicaStatus(NONE, "it is starting")

ray = engine.ray()


@dataclass(eq=False)
class Slot:
    """One replica, and the actor that runs it now."""

    node: str | None  # None if Ray chooses the node
    actor: Any
    start: float  # time at which the actor was started
    is_ready: bool = False
    status: ReplicaStatus = _STARTING
    status_call: Any = None  # in progress, while the replica is not ready
    calls: list[Any] = field(default_factory=list)  # in progress

    def is_free(self, max_calls: int) -> bool:
        """Return True if fewer than `max_calls` calls are in progress."""
        if len(self.calls) >= max_calls:
            self.calls = ray.wait(self.calls, num_returns=len(self.calls), timeout=0)[1]
        return len(self.calls) < max_calls

    def remove_call(self, call: Any) -> None:
        """Forget a finished call."""
        if call in self.calls:
            self.calls.remove(call)


@dataclass
class ReplicaSlots:
    """Replicas on the nodes of a cluster: one on every node, or `n`. Not thread-safe."""

    start: Callable[[Any], Any]  # starts an actor, given a scheduling strategy
    n: int | None
    max_calls: int  # in progress at one replica
    slots: list[Slot] = field(default_factory=list)
    _next: int = 0
    _last_check: float = -float("inf")  # of the nodes

    def refresh(self) -> None:
        """Start missing actors, and check those that are not ready."""
        now = time.monotonic()
        if now - self._last_check >= _NODES_INTERVAL:
            self._match_nodes()
            self._last_check = now
        for slot in self.slots:
            if not slot.is_ready:
                self._check(slot)

    def next_free(self) -> Slot | None:
        """Return the next slot, in turn, that is ready and not busy."""
        for _ in self.slots:
            self._next = (self._next + 1) % len(self.slots)
            slot = self.slots[self._next]
            if slot.is_ready and slot.is_free(self.max_calls):
                return slot
        return None

    def calls(self) -> list[Any]:
        """Return all calls that may be in progress."""
        return [call for slot in self.slots for call in slot.calls]

    def replace(self, slot: Slot, error: Exception) -> None:
        """Start a new actor for a dead one, unless that died right after its start."""
        slot.is_ready = False
        slot.status = ReplicaStatus(NONE, f"it died: {str(error).splitlines()[0]}")
        self._last_check = -float("inf")  # its node may be gone
        if time.monotonic() - slot.start >= _MIN_LIFE:
            ray.kill(slot.actor)
            slot.actor, slot.start = self.start(engine.placement(slot.node)), time.monotonic()
            slot.status_call, slot.calls = None, []

    def close(self) -> None:
        """End every actor."""
        for slot in self.slots:
            ray.kill(slot.actor)
        self.slots, self._last_check = [], -float("inf")

    def why_unavailable(self) -> str:
        """Explain why no replica can take a request."""
        n_ready = sum(slot.is_ready for slot in self.slots)
        if n_ready:
            return (
                f"all {n_ready} replicas have {self.max_calls} requests in progress; send fewer "
                "requests, set a longer deadline, or start more replicas."
            )
        if not self.slots:
            return "the cluster has no node with a processor; add one with `ray start --address`."
        error = next((slot.status.error for slot in self.slots if slot.status.error), "")
        return (
            f"none of {len(self.slots)} replicas can answer yet: "
            f"{(error or 'there is no valid checkpoint with a model').rstrip('.')}."
        )

    def _match_nodes(self) -> None:
        if self.n is not None:
            self.slots += [self._new(None) for _ in range(self.n - len(self.slots))]
            return
        nodes = engine.nodes()
        self.slots = [slot for slot in self.slots if slot.node in nodes]
        used = [slot.node for slot in self.slots]
        self.slots += [self._new(node) for node in nodes if node not in used]

    def _new(self, node: str | None) -> Slot:
        return Slot(node, self.start(engine.placement(node)), time.monotonic())

    def _check(self, slot: Slot) -> None:
        if slot.status_call is None:
            slot.status_call = slot.actor.status.remote()
        if not ray.wait([slot.status_call], timeout=0)[0]:
            return
        call, slot.status_call = slot.status_call, None
        try:
            slot.status = ray.get(call)
        except ray.exceptions.RayError as error:
            self.replace(slot, error)
        else:
            slot.is_ready = slot.status.version != NONE
