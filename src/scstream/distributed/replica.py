"""What one reading replica is: a follower in an actor, and a thread that keeps it new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from scstream.stream.follower import NONE, Follower
from scstream.stream.model_version import Answer, Request


@dataclass(frozen=True)
class Standing:
    """How far a replica has come.

    Parameters
    ----------
    version : int
        Version that it answers from; -1 while it has none.
    trouble : str
        Why it cannot follow at the moment, in a sentence; empty while it can.

    Examples
    --------
    >>> from scstream.distributed.replica import Standing
    >>> Standing(7).trouble
    ''
    """

    version: int
    trouble: str = ""


class Replica:
    """Answers from the newest checkpoint; only its thread ever touches the store.

    So a question never waits for a slow store: it is answered from the version at hand, or told
    that there is none as new as it asks for.

    Parameters
    ----------
    place : str
        Where the checkpoints are.
    options : mapping
        Of the store.
    every : float
        Seconds between two looks.
    n_threads : int
        Most threads for a question.

    Examples
    --------
    >>> from scstream.distributed.replica import Replica
    >>> Replica("memory:///", {}, every=60.0, n_threads=1).standing().version
    -1
    """

    def __init__(
        self, place: str, options: Mapping[str, Any], *, every: float, n_threads: int
    ) -> None:
        self._place, self._options = place, options
        self._every, self._n_threads = every, n_threads
        self._follower: Follower | None = None
        self._trouble = ""
        self._wanted = Event()
        Thread(target=self._follow, daemon=True).start()

    def standing(self) -> Standing:
        """Say how far it has come."""
        version = NONE if self._follower is None else self._follower.version
        return Standing(version, self._trouble)

    def ask(self, question: Request, rows: Any, time: Any, at_least: int) -> Answer | Standing:
        """Answer, or say how far it has come if that is not far enough."""
        follower = self._follower
        if follower is None or follower.version < max(at_least, 0):
            self._wanted.set()
            return self.standing()
        return follower.compute(question, rows, time=time)

    def _follow(self) -> None:
        while True:
            try:
                if self._follower is None:
                    how = {"options": self._options, "n_jobs": self._n_threads}
                    self._follower = Follower.open(self._place, **how)
                else:
                    self._follower.refresh()
                self._trouble = ""
            except Exception as error:  # whatever it is: what was read before still answers
                self._trouble = str(error)
            self._wanted.wait(self._every)
            self._wanted.clear()
