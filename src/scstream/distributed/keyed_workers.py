"""The actors of a `RayPool`, by name: w0, w1, ..."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from scstream.distributed.engine import (
    Actor,
    connect,
    loss_errors,
    nodes,
    placement,
    ray,
    unwrap,
)
from scstream.distributed.keyed_worker import TOKEN_NAME, KeyedWorker
from scstream.errors import EngineError
from scstream.stream.store import Store

Task = TypeVar("Task")
Result = TypeVar("Result")

_START = 60.0  # seconds within which workers must start
_TRIES = 3  # attempts to start a worker


class KeyedWorkers:
    """The workers of one pool; `refresh` connects to the cluster.

    A lost worker is replaced by an empty one with the same name. `make` returns the arguments of
    `KeyedWorker`; `n_wanted` is None for one worker per processor of the cluster.
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
        self._actors: dict[str, Actor] = {}  # ready
        self._starting: dict[str, tuple[Actor, Any]] = {}  # actor, and the result of `can_read`
        self._has_begun = False
        self._start_error = f"the others did not start within {_START:g} s"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the workers that are ready, by number."""
        return tuple(sorted(self._actors, key=number_of))

    def refresh(self) -> tuple[str, ...]:
        """Start missing workers; return the names of those that should work now.

        The first call waits for all workers. Later ones do not wait: a worker joins when it is
        ready.
        """
        connect(self._address)
        n_wanted = self.n_wanted or max(int(sum(nodes().values())), 1)
        n_required = 0 if self._actors else 1 if self._has_begun else n_wanted
        for _ in range(_TRIES):
            self._start(n_wanted)
            self._receive(n_required - len(self._actors))
            if len(self._actors) >= n_required or self._starting:
                break
        if not self._actors or (len(self._actors) < n_required and self.n_wanted):
            raise EngineError(
                f"{len(self._actors)} of {n_wanted} workers of the pool have started: "
                f"{self._start_error}. Each takes a processor of the cluster, and all need "
                "scstream installed: look at `ray status`, add nodes, or lower keys.workers."
            )
        self._has_begun = True
        return self.names[:n_wanted]

    def call(
        self, method: Callable[[KeyedWorker, Task], Result], tasks: Mapping[str, Task]
    ) -> dict[str, Result]:
        """Call a method of `KeyedWorker` with one task for each worker, by name.

        Returns the results of the workers that are still alive, by name.
        """
        library, end = ray(), time.monotonic() + self._deadline
        calls = {
            name: getattr(self._actors[name], method.__name__).remote(task)
            for name, task in tasks.items()
            if name in self._actors
        }
        results: dict[str, Result] = {}
        for name, reference in calls.items():
            try:
                left = max(end - time.monotonic(), 0.0)
                results[name] = library.get(reference, timeout=left)
            except library.exceptions.GetTimeoutError:
                raise EngineError(
                    f"worker {name} of the pool has not answered within {self._deadline:g} s; look "
                    "at its node with `ray status`, or raise keys.deadline, then start the "
                    "pipeline again: it continues from its checkpoint."
                ) from None
            except library.exceptions.RayTaskError as error:
                raise unwrap(error) from None
            except loss_errors():
                _end(self._actors.pop(name))
        return results

    def keep_only(self, names: tuple[str, ...]) -> None:
        """End all workers except these."""
        for name in [name for name in self._actors if name not in names]:
            _end(self._actors.pop(name))

    def close(self) -> None:
        """End all workers."""
        self.keep_only(())
        for actor, _ in self._starting.values():
            _end(actor)
        self._starting.clear()
        self._has_begun = False

    def _start(self, n_wanted: int) -> None:
        """Start missing actors under the first free names; end surplus ones that are starting."""
        n_missing = n_wanted - len(self._actors) - len(self._starting)
        for name in sorted(self._starting, key=number_of, reverse=True)[: max(-n_missing, 0)]:
            _end(self._starting.pop(name)[0])
        if n_missing > 0 and not self._token:
            self._token = secrets.token_bytes(16)
            self._store.put(TOKEN_NAME, self._token)
        # No restarts by Ray: a restarted actor would be empty without the driver noticing.
        options = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": placement(None)}
        number = 0
        for _ in range(n_missing):
            while (name := f"w{number}") in self._actors or name in self._starting:
                number += 1
            actor = ray().remote(KeyedWorker).options(**options).remote(*self._make())
            self._starting[name] = actor, actor.can_read.remote(self._token)

    def _receive(self, n_required: int) -> None:
        """Take over actors that have started; wait for `n_required` of them."""
        library, waiting = ray(), {check: name for name, (_, check) in self._starting.items()}
        if not waiting:
            return
        ready, _ = library.wait(
            list(waiting),
            num_returns=n_required if n_required > 0 else len(waiting),
            timeout=_START if n_required > 0 else 0,
        )
        for reference in ready:
            name = waiting[reference]
            actor, _ = self._starting.pop(name)
            try:
                can_read = library.get(reference)
            except loss_errors() as error:
                self._start_error = str(error).strip().split("\n")[-1].rstrip(".")
                continue  # the next attempt starts another one
            if not can_read:
                raise EngineError(
                    f"worker {name} of the pool does not see the checkpoints of this process, "
                    "through which models move between workers: set checkpoint.folder to a folder "
                    "that all nodes share, or to an object store."
                )
            self._actors[name] = actor


def number_of(name: str) -> int:
    """Return the number of a worker: 12 for "w12"."""
    return int(name[1:])


def _end(actor: Actor) -> None:
    with suppress(Exception):  # it may be dead already
        ray().kill(actor, no_restart=True)
