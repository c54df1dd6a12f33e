"""The actors of a pool, by name: who is there, who is wanted, and who was lost."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from scstream.distributed.engine import connect, fault, lost, nodes, ray
from scstream.distributed.keyed_worker import MARK, Worker
from scstream.errors import EngineError
from scstream.stream.store import Store

_START = 60.0  # seconds that workers may take to start
_TRIES = 3  # times that one is hired anew that ends while it starts


class Crew:
    """Workers of one pool on a Ray cluster; nothing is connected before `muster`.

    One that is lost is replaced by another of the same name, which knows nothing.

    Parameters
    ----------
    make : callable
        Returns what a worker is made of.
    store : Store
        That of the pool.
    address : str or None
        Of the cluster; see `scstream.distributed.engine.connect`.
    n_wanted : int or None
        How many there should be; None for one on every processor of the cluster.
    deadline : float
        Seconds within which a worker must answer.

    Examples
    --------
    >>> from scstream.stream.connectors.s3 import S3Store
    >>> from scstream.distributed.keyed_workers import Crew
    >>> store = S3Store("memory:///")
    >>> Crew(tuple, store, address=None, n_wanted=2, deadline=600.0).names
    ()
    """

    def __init__(
        self,
        make: Callable[[], tuple[Any, ...]],
        store: Store,
        *,
        address: str | None,
        n_wanted: int | None,
        deadline: float,
    ) -> None:
        self.n_wanted = n_wanted
        self._make = make
        self._store = store
        self._address = address
        self._deadline = deadline
        self._token = b""
        self._actors: dict[str, Any] = {}  # ready
        self._starting: dict[str, tuple[Any, Any]] = {}  # actor, and whether it sees the store
        self._has_begun = False
        self._why = f"the others do not within {_START:g} s"

    @property
    def names(self) -> tuple[str, ...]:
        """Those who are there, the first hired first."""
        return tuple(sorted(self._actors, key=number_of))

    def muster(self) -> tuple[str, ...]:
        """Hire whoever is missing, and return who should work now.

        The first time all are waited for; later, whoever is not there yet joins when he is.
        """
        connect(self._address)
        n_wanted = self.n_wanted or _n_processors()
        n_least = 0 if self._actors else 1 if self._has_begun else n_wanted
        for _ in range(_TRIES):
            self._hire(n_wanted)
            self._receive(n_least - len(self._actors))
            if len(self._actors) >= n_least or self._starting:
                break
        if not self._actors or (len(self._actors) < n_least and self.n_wanted):
            raise EngineError(
                f"{len(self._actors)} of {n_wanted} workers of the pool have started: {self._why}. "
                "Each takes a processor of the cluster, and all need scstream installed: look at "
                "`ray status`, add nodes, or ask for fewer with keys.workers."
            )
        self._has_begun = True
        return self.names[:n_wanted]

    def ask(self, method: str, questions: Mapping[str, Any]) -> dict[str, Any]:
        """Ask workers, and return the answers; who does not answer any more was lost.

        Parameters
        ----------
        method : str
            Of `Worker`.
        questions : mapping of str to mapping
            Arguments, by the name of the worker.

        Returns
        -------
        dict
            Answers of those who are still there.
        """
        library, until = ray(), time.monotonic() + self._deadline
        sampled = {
            name: getattr(self._actors[name], method).remote(**arguments)
            for name, arguments in questions.items()
            if name in self._actors
        }
        answers = {}
        for name, reference in sampled.items():
            try:
                left = max(until - time.monotonic(), 0.0)
                answers[name] = library.get(reference, timeout=left)
            except library.exceptions.GetTimeoutError:
                raise EngineError(
                    f"worker {name} of the pool has not answered within {self._deadline:g} s; look "
                    "at its node with `ray status`, or raise keys.deadline, then start the "
                    "pipeline again: it goes on from its checkpoint."
                ) from None
            except library.exceptions.RayTaskError as error:
                raise fault(error) from None
            except lost():
                _end(self._actors.pop(name))
        return answers

    def dismiss(self, names: tuple[str, ...]) -> None:
        """Let all go but these."""
        for name in [name for name in self._actors if name not in names]:
            _end(self._actors.pop(name))

    def close(self) -> None:
        """Let all go."""
        self.dismiss(())
        for actor, _ in self._starting.values():
            _end(actor)
        self._starting.clear()
        self._has_begun = False

    def _hire(self, n_wanted: int) -> None:
        """Start as many actors as are missing, under the first names that are free."""
        n_missing = n_wanted - len(self._actors) - len(self._starting)
        for name in sorted(self._starting, key=number_of, reverse=True)[: max(-n_missing, 0)]:
            _end(self._starting.pop(name)[0])
        if n_missing > 0 and not self._token:
            self._token = secrets.token_bytes(16)
            self._store.put(MARK, self._token)
        # An actor that restarted by itself would be empty and look as if it were not.
        options = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        number = 0
        for _ in range(n_missing):
            while (name := f"w{number}") in self._actors or name in self._starting:
                number += 1
            actor = ray().remote(Worker).options(**options).remote(*self._make())
            self._starting[name] = actor, actor.sees.remote(self._token)

    def _receive(self, n_least: int) -> None:
        """Take over those that have started, so many of them at least if they do in time."""
        library, waiting = ray(), {sees: name for name, (_, sees) in self._starting.items()}
        if not waiting:
            return
        ready, _ = library.wait(
            list(waiting),
            num_returns=n_least if n_least > 0 else len(waiting),
            timeout=_START if n_least > 0 else 0,
        )
        for reference in ready:
            name = waiting[reference]
            actor, _ = self._starting.pop(name)
            try:
                sees = library.get(reference)
            except lost() as error:
                self._why = str(error).strip().split("\n")[-1].rstrip(".")
                continue  # it is hired anew next time
            if not sees:
                raise EngineError(
                    f"worker {name} of the pool does not see the checkpoints that this process "
                    "sees. Models wait there between batches: give checkpoint.folder a folder "
                    "that all nodes share, or an object store."
                )
            self._actors[name] = actor


def number_of(name: str) -> int:
    """Return the number of a worker.

    Examples
    --------
    >>> from scstream.distributed.keyed_workers import number_of
    >>> number_of("w12")
    12
    """
    return int(name[1:])


def _n_processors() -> int:
    return max(int(sum(nodes().values())), 1)


def _end(actor: Any) -> None:
    with suppress(Exception):  # whatever is wrong with it, it is gone
        ray().kill(actor, no_restart=True)
