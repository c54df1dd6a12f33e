"""Tasks timed by turns: medians, minima, and ratios of both."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Task = Callable[[], object]
Row = dict[str, Any]

_SHORTEST = 3e-4  # seconds of one sample; shorter tasks are repeated inside it
_TRIAL = 0.02  # seconds of warming up
_LEAST, _MOST = 5, 400  # rounds
_SPILL = 1.3  # CPU time of the process against that of the thread


@dataclass(frozen=True)
class Timed:
    """Seconds of one task, a sample a round."""

    samples: np.ndarray

    @property
    def median(self) -> float:
        return float(np.median(self.samples))

    @property
    def minimum(self) -> float:
        return float(self.samples.min())


@dataclass(frozen=True)
class Budget:
    """How long the rounds of one group of tasks may take together, and the fewest rounds."""

    seconds: float = 8.0
    least: int = _LEAST

    @classmethod
    def of(cls, quick: bool) -> Budget:
        return cls(0.1, 2) if quick else cls()


def by_turns(
    tasks: Mapping[str, Task],
    budget: Budget,
    *,
    clock: Callable[[], float] = time.thread_time,
    after: Mapping[str, str] | None = None,
) -> dict[str, Timed]:
    """Time every task once a round, in an order that rotates.

    Tasks of `after` are not repeated, and each call follows one of the task that it names.
    """
    followers = {leader: name for name, leader in (after or {}).items()}
    repeats = {name: _repeats(name, task, clock) for name, task in tasks.items()}
    samples: dict[str, list[float]] = {name: [] for name in tasks}
    names = [name for name in tasks if name not in (after or {})]
    gc.collect()
    began = time.perf_counter()
    for n_rounds in range(_MOST):
        if n_rounds >= budget.least and time.perf_counter() - began > budget.seconds:
            break
        first = n_rounds % len(names)
        for name in names[first:] + names[:first]:
            samples[name].append(_sample(tasks[name], repeats[name], clock))
            if follower := followers.get(name):
                samples[follower].append(_sample(tasks[follower], 1, clock))
    return {name: Timed(np.array(values)) for name, values in samples.items()}


def _sample(task: Task, repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        task()
    return (clock() - start) / repeats


def _repeats(name: str, task: Task, clock: Callable[[], float]) -> int:
    """Warm a task up and see how often it fits into a sample; it must keep to its thread."""
    began, thread, process = time.perf_counter(), time.thread_time(), time.process_time()
    n, start = 0, clock()
    while n == 0 or time.perf_counter() - began < _TRIAL:
        task()
        n += 1
    each = (clock() - start) / n
    thread, process = time.thread_time() - thread, time.process_time() - process
    if clock is time.thread_time and process > _SPILL * thread + 2e-3:
        raise RuntimeError(f"{name} works on other threads: its CPU time would not be counted.")
    return max(1, int(_SHORTEST / max(each, 1e-9)))


def ratio(times: Mapping[str, Timed], candidate: str, engine: str) -> Row:
    """Entries of a row: candidate over engine, by medians and by minima."""
    a, b = times[candidate], times[engine]
    return {
        "value": a.median / b.median,
        "minima": a.minimum / b.minimum,
        "seconds": a.median,
        "engine_seconds": b.median,
        "rounds": len(a.samples),
    }


def judged(row: Row, *, bar: float | None, at_least: bool = False) -> Row:
    """Add the bar and whether the value keeps it."""
    if bar is None or row["value"] is None:
        return row | {"bar": None, "verdict": "report"}
    kept = row["value"] >= bar if at_least else row["value"] <= bar
    sign = "≥" if at_least else "≤"
    return row | {"bar": f"{sign} {bar:g}", "verdict": "ok" if kept else "missed"}
