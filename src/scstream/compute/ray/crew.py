"""The workers of a cluster, and how a lost or late answer is got nevertheless."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scstream.compute.ray.engine import lost, ray
from scstream.compute.ray.worker import Worker
from scstream.errors import EngineError, PartsLost

_LOOK = 0.25  # seconds between two looks at who is late
_LATE = 3.0  # times as long as the others took
_SOON = 1.0  # seconds that nobody is late before
_REST = 0.05  # seconds before a worker is asked again that was not there


@dataclass
class Crew:
    """Actors on the nodes of a cluster: one on every node, or a given number.

    Nothing depends on who answers: work is a pure function of what is asked.
    """

    n_workers: int | None
    n_threads: int | None
    options: Mapping[str, Any]
    deadline: float  # seconds for one round of questions
    workers: dict[str, Any] = field(default_factory=dict)  # by name, of the node or a number

    def muster(self) -> list[Any]:
        """Return the workers of now: nodes that came have one, those that left have none."""
        wanted = self._wanted()
        for name in [name for name in self.workers if name not in wanted]:
            ray().kill(self.workers.pop(name))
        for name, strategy in wanted.items():
            if name not in self.workers:
                self.workers[name] = self._hire(strategy)
        if not self.workers:
            raise EngineError(
                "the Ray cluster has no node with a processor; add one with `ray start --address`, "
                "or give RayExecutor n_workers."
            )
        return list(self.workers.values())

    def _wanted(self) -> dict[str, Any]:
        if self.n_workers is not None:
            return {str(i): "SPREAD" for i in range(self.n_workers)}
        place = ray().util.scheduling_strategies.NodeAffinitySchedulingStrategy
        return {
            node["NodeID"]: place(node["NodeID"], soft=True)
            for node in sorted(ray().nodes(), key=lambda node: str(node["NodeID"]))
            if node["Alive"] and node["Resources"].get("CPU")
        }

    def _hire(self, strategy: Any) -> Any:
        # A worker that died comes back empty. What it was asked then is asked again, by `ask`.
        options = {
            "num_cpus": 0,
            "max_restarts": -1,
            "max_task_retries": 0,
            "scheduling_strategy": strategy,
            **self.options,
        }
        return ray().remote(Worker).options(**options).remote(self.n_threads)

    def close(self) -> None:
        """Let all workers go."""
        for worker in self.workers.values():
            ray().kill(worker)
        self.workers.clear()


@dataclass
class Asked:
    """A question on its way."""

    place: int
    worker: int
    since: float
    stay: list[Any]


def ask(
    workers: Sequence[Any],
    homes: list[int],
    questions: Sequence[Callable[[Any], Any]],
    *,
    deadline: float,
) -> list[Any]:
    """Put one question to each home, and return the answers in order.

    Parameters
    ----------
    workers : sequence of actors
        Who can be asked.
    homes : list of int
        Which of them has at hand what a question is about; changed where another had to be asked.
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
    library, gone = ray(), lost()
    answers: dict[int, Any] = {}
    waiting: dict[Any, Asked] = {}
    began = time.monotonic()

    def put(place: int, worker: int) -> None:
        said = questions[place](workers[worker])
        *stay, answer = said if isinstance(said, list) else [said]
        waiting[answer] = Asked(place, worker, time.monotonic(), stay)

    for place, worker in enumerate(homes):
        put(place, worker)
    longest, missing = _SOON, "nothing was lost"
    while len(answers) < len(questions):
        if time.monotonic() - began > deadline:
            raise EngineError(
                f"{len(questions) - len(answers)} of {len(questions)} workers did not answer "
                f"within {deadline:g} s ({missing}); look at the cluster with `ray status`, then "
                "learn the batch again, or give RayExecutor a longer deadline."
            )
        ready, _ = library.wait(list(waiting), num_returns=1, timeout=_LOOK)
        for reference in ready:
            asked = waiting.pop(reference)
            if asked.place in answers:
                continue
            try:
                answer = library.get(reference)
            except library.exceptions.RayTaskError as error:
                raise _fault(error, gone) from None
            except gone as error:
                missing = f"last a worker was lost: {type(error).__name__}"
                time.sleep(_REST)
                put(asked.place, (asked.worker + 1) % len(workers))
            else:
                answers[asked.place] = (asked.stay, answer) if asked.stay else answer
                homes[asked.place] = asked.worker
                longest = max(longest, _LATE * (time.monotonic() - asked.since))
        if not ready:
            _ask_another_too(waiting, answers, put, len(workers), longest)
    return [answers[place] for place in range(len(questions))]


def _fault(error: Any, gone: tuple[type[Exception], ...]) -> Exception:
    """What went wrong inside a worker: it lacks what was lost, or it was asked wrongly."""
    if isinstance(error.cause, gone):
        return PartsLost(str(error.cause))
    return error.cause if isinstance(error.cause, Exception) else error


def _ask_another_too(
    waiting: Mapping[Any, Asked],
    answers: Mapping[int, Any],
    put: Callable[[int, int], None],
    n_workers: int,
    longest: float,
) -> None:
    """Ask a second worker what the first is late with, if one has nothing else to do."""
    open_ = [asked for asked in waiting.values() if asked.place not in answers]
    if 2 * len({asked.place for asked in open_}) > n_workers:
        return
    busy = {asked.worker for asked in waiting.values()}
    for asked in open_:
        twins = [other for other in open_ if other.place == asked.place]
        idle = [worker for worker in range(n_workers) if worker not in busy]
        if len(twins) == 1 and idle and time.monotonic() - asked.since > longest:
            put(asked.place, idle[0])
            busy.add(idle[0])
