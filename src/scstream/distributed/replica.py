"""The actor of one read replica: a follower, and a thread that refreshes it."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from scstream.io.header import Plain
from scstream.stream.follower import NONE, Follower
from scstream.stream.model_version import Answer, Request


@dataclass(frozen=True)
class ReplicaStatus:
    """The version of a replica (-1 before the first), and why it cannot refresh (or "")."""

    version: int
    error: str = ""


class Replica:
    """Predicts with the newest checkpoint that its thread has read.

    Only the thread reads the store, so a request never waits for a slow store: it is answered from
    the current version, or with the status if that version is too old.
    """

    def __init__(self, place: str, options: Plain, *, interval: float, n_jobs: int) -> None:
        self._place, self._options = place, options
        self._interval, self._n_jobs = interval, n_jobs
        self._follower: Follower | None = None
        self._error = ""
        self._refresh_now = Event()
        Thread(target=self._follow, daemon=True).start()

    def status(self) -> ReplicaStatus:
        """Return the current version and the last error."""
        version = NONE if self._follower is None else self._follower.version
        return ReplicaStatus(version, self._error)

    def call(self, method: Request, rows: Any, time: Any, at_least: int) -> Answer | ReplicaStatus:
        """Answer a request, or return the status if the version is below `at_least`."""
        follower = self._follower
        if follower is None or follower.version < max(at_least, 0):
            self._refresh_now.set()
            return self.status()
        return follower.compute(method, rows, time=time)

    def _follow(self) -> None:
        while True:
            try:
                if self._follower is None:
                    how = {"options": self._options, "n_jobs": self._n_jobs}
                    self._follower = Follower.open(self._place, **how)
                else:
                    self._follower.refresh()
                self._error = ""
            except Exception as error:  # the version that was read before stays in use
                self._error = str(error)
            self._refresh_now.wait(self._interval)
            self._refresh_now.clear()
