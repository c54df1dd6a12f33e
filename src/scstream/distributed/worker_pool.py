"""The workers of a cluster, and how a lost or late answer is got nevertheless."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from scstream.distributed.engine import connect, fault, lost, nodes, ray, said
from scstream.distributed.worker import Worker
from scstream.errors import EngineError
from scstream.kernels import kernels_in_use

_LOOK = 0.25  # seconds between two looks at who is late
_LATE = 3.0  # times as long as the others took
_SOON = 1.0  # seconds that nobody is late before
_REST = 0.05  # seconds before a worker is asked again that was not there


@dataclass
class Crew:
    """Actors on the nodes of a cluster: one on every node, or a given number.

    Nothing depends on who answers: work is a pure function of what is asked.
    """

    address: str | None
    n_workers: int | None
    n_threads: int | None
    options: Mapping[str, Any]
    # By the node or a number, and by the kernels: others would give other bits.
    workers: dict[tuple[str, str], Any] = field(default_factory=dict)
    _session: Any = None
    _lock: Any = field(default_factory=Lock, repr=False)

    def __reduce__(self) -> Any:
        # Wherever a copy goes, it hires workers of its own.
        return Crew, (self.address, self.n_workers, self.n_threads, self.options)

    def muster(self) -> list[Any]:
        """Return the workers of now: nodes that came have one, those that left have none."""
        connect(self.address)
        with self._lock:
            self._forget_another_session()
            wanted = self._wanted()
            if not wanted and not self.workers:
                raise EngineError(
                    "the Ray cluster has no node with a processor; add one with `ray start "
                    "--address`, or give RayExecutor n_workers."
                )
            # Where no node is left the workers wait for one to come.
            for name in [name for name in self.workers if wanted and name not in wanted]:
                ray().kill(self.workers.pop(name))
            for name, strategy in wanted.items():
                if name not in self.workers:
                    self.workers[name] = self._hire(strategy)
            return list(self.workers.values())

    def bury(self, worker: Any) -> None:
        """Forget a worker that will not come back; `muster` hires another in its place."""
        with self._lock:
            self.workers = {name: one for name, one in self.workers.items() if one != worker}

    def release(self, batch: str) -> None:
        """Let all workers put down the rows of a batch."""
        if ray().is_initialized() and self._session == _session():
            for worker in list(self.workers.values()):
                worker.release.remote(batch)

    def close(self) -> None:
        """Let all workers go."""
        with self._lock:
            if self.workers and ray().is_initialized():
                self._forget_another_session()
                for worker in self.workers.values():
                    ray().kill(worker)
            self.workers = {}

    def _forget_another_session(self) -> None:
        """Workers of a cluster that this process has left are gone; Ray knows them no more."""
        if self._session != _session():
            self._session, self.workers = _session(), {}

    def _wanted(self) -> dict[tuple[str, str], Any]:
        if self.n_workers is not None:
            return {(str(i), kernels_in_use()): "SPREAD" for i in range(self.n_workers)}
        place = ray().util.scheduling_strategies.NodeAffinitySchedulingStrategy
        return {(node, kernels_in_use()): place(node, soft=True) for node in nodes()}

    def _hire(self, strategy: Any) -> Any:
        # A worker that died comes back empty. What it was asked then is asked again, by `ask`.
        options = {
            "num_cpus": 0,
            "max_restarts": -1,
            "max_task_retries": 0,
            "scheduling_strategy": strategy,
            **self.options,
        }
        return ray().remote(Worker).options(**options).remote(self.n_threads, kernels_in_use())


def _session() -> tuple[str, str]:
    """Name the time from connecting to a cluster to leaving it."""
    here = ray().get_runtime_context()
    return here.get_node_id(), here.get_job_id()


def ask(
    crew: Crew, homes: list[Any], questions: Sequence[Callable[[Any], Any]], *, deadline: float
) -> list[Any]:
    """Put one question to each home, and return the answers in order.

    Parameters
    ----------
    crew : Crew
        Who can be asked.
    homes : list of workers
        Who has at hand what a question is about; changed where another had to be asked.
    questions : sequence of functions
        Each asks the worker it is given, and returns the reference of the answer, or several, of
        which the last is the answer and the others stay where they are.
    deadline : float
        Seconds after which there will be no answer.

    Returns
    -------
    list
        The answers, in a pair behind the other references where there were several.
    """
    return _Round(crew, homes, questions, deadline).answers()


@dataclass
class _Asked:
    """A question on its way."""

    place: int
    worker: Any
    since: float
    stay: list[Any]


class _Round:
    """Questions on their way, and the answers that came."""

    def __init__(
        self,
        crew: Crew,
        homes: list[Any],
        questions: Sequence[Callable[[Any], Any]],
        deadline: float,
    ) -> None:
        self._crew = crew
        self._homes = homes
        self._questions = questions
        self._deadline = deadline
        self._until = time.monotonic() + deadline
        self._waiting: dict[Any, _Asked] = {}  # by reference
        self._answers: dict[int, Any] = {}  # by place
        self._longest = _SOON
        self._missing = "nothing was lost"

    def answers(self) -> list[Any]:
        for place, worker in enumerate(self._homes):
            self._put(place, worker)
        n = len(self._questions)
        while len(self._answers) < n:
            if time.monotonic() > self._until:
                raise EngineError(
                    f"{n - len(self._answers)} of {n} workers did not answer within "
                    f"{self._deadline:g} s ({self._missing}); look at the cluster with `ray "
                    "status`, then learn the batch again, or give RayExecutor a longer deadline."
                )
            ready, _ = ray().wait(
                list(self._waiting), num_returns=len(self._waiting), timeout=_LOOK
            )
            for reference in ready:
                self._take(reference)
            if not ready:
                self._ask_another_too()
        return [self._answers[place] for place in range(n)]

    def _put(self, place: int, worker: Any) -> None:
        references = self._questions[place](worker)
        *stay, answer = references if isinstance(references, list) else [references]
        self._waiting[answer] = _Asked(place, worker, time.monotonic(), stay)

    def _take(self, reference: Any) -> None:
        sampled = self._waiting.pop(reference)
        if sampled.place in self._answers:
            return
        errors = ray().exceptions
        try:
            answer = ray().get(reference, timeout=self._deadline)
        except errors.RayTaskError as error:
            raise fault(error) from None
        except lost() as error:
            self._ask_again(sampled, error)
        except errors.RayError as error:
            raise fault(error) from error
        else:
            self._answers[sampled.place] = (sampled.stay, answer) if sampled.stay else answer
            self._homes[sampled.place] = sampled.worker
            took = time.monotonic() - sampled.since
            self._longest = max(self._longest, _LATE * took)

    def _ask_again(self, sampled: _Asked, error: Exception) -> None:
        """Ask another, or the same worker if there is no other: it may be back."""
        if isinstance(error, ray().exceptions.ActorDiedError):
            self._crew.bury(sampled.worker)
            if error.actor_init_failed:
                raise EngineError(
                    f"a worker cannot start ({said(error)}); install the same scstream on every "
                    "node, and what it needs."
                ) from None
        self._missing = f"last a worker was lost, {said(error)}"
        time.sleep(_REST)
        workers = self._crew.muster()
        others = [worker for worker in workers if worker != sampled.worker] or workers
        self._put(sampled.place, others[sampled.place % len(others)])

    def _ask_another_too(self) -> None:
        """Ask a second worker what the first is late with, if one has nothing else to do."""
        open_ = [
            sampled for sampled in self._waiting.values() if sampled.place not in self._answers
        ]
        places = [sampled.place for sampled in open_]
        workers = list(self._crew.workers.values())
        if 2 * len(set(places)) > len(workers):
            return
        busy = {sampled.worker for sampled in self._waiting.values()}
        idle = [worker for worker in workers if worker not in busy]
        late = time.monotonic() - self._longest
        for sampled in open_:
            if idle and places.count(sampled.place) == 1 and sampled.since < late:
                self._put(sampled.place, idle.pop(0))
