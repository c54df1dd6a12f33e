"""How fast the kernels of this machine are: what the simulator is told about the work."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from benchmarks.scale_sim import Work
from benchmarks.speed import engines
from benchmarks.speed.timing import Budget, by_turns
from benchmarks.speed.workloads import Workload
from scstream.compute.threads import ThreadExecutor, one_blas_thread
from scstream.core.default import step
from scstream.core.state import Batch

CASES = {  # rows of a batch that takes about a second, by D and K
    (2, 20): 262_144,
    (16, 100): 131_072,
    (64, 100): 65_536,
    (64, 1000): 16_384,
    (128, 1000): 8_192,
    (384, 1000): 8_192,
}
DIRECTIONS = {(384, 1000)}  # cases of unit rows and the direction family; float64 alone
_BUDGET = Budget(2.0, 3)
_MANY = 200  # rows of a cluster


class Steady(Workload):
    """A stream whose number of clusters stays: where clusters have many rows, these are its past.

    The past that a workload invents is the statistics of few rows, many times over, and heavy
    clusters would split along its accidents.
    """

    @property
    def half_life(self) -> float:
        return 0.5 if self.n_rows >= _MANY * self.n_clusters else super().half_life


def measure(known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Measure every case in every precision, unless it is known."""
    by_case = {(row["d"], row["k"], row["precision"]): row for row in known}
    rows = []
    for d, k in CASES:
        for precision in ("float64",) if (d, k) in DIRECTIONS else engines.precisions():
            rows.append(by_case.get((d, k, precision)) or rates(d, k, precision))
            print("rates", rows[-1], flush=True)
    return rows


def rates(d: int, k: int, precision: str, *, n_rows: int = 0, budget: Budget = _BUDGET) -> Any:
    """Seconds of one thread (CPU time) for the parts of a batch, and for all of it."""
    kind = "direction" if (d, k) in DIRECTIONS else "gaussian"
    work = Steady(n_rows or CASES[d, k], d, k, kind=kind, n_batches=3)
    sampling, predicting = (f(work, precision) for f in (engines.sampling, engines.predicting))
    tasks = {
        "sampling": engines.one_pass(work, sampling),
        "predictive": engines.one_pass(work, predicting),
        "sampling_step": lambda: engines.sampling(work, precision),
        "predictive_step": lambda: engines.predicting(work, precision),
        "fit": engines.Learner(work.model(**engines.chosen(precision)), work, warm_up=0.0),
    }
    with one_blas_thread:
        times = {name: found.minimum for name, found in by_turns(tasks, budget).items()}
        parts = inside(work, precision, budget)
    n = work.n_rows
    driver = sum(parts.values()) - parts["asked assign"] - parts["assign"] - parts["labels"]
    return {
        "d": d,
        "k": k,
        "precision": precision,
        "n_rows": n,
        "sampling": times["sampling"] / n,
        "predictive": times["predictive"] / n,
        "asked": parts["asked assign"] / min(n, 1 << 14),
        "sampling_step": times["sampling_step"],
        "predictive_step": times["predictive_step"],
        "rest": max(0.0, driver - 2 * times["predictive_step"]),
        "label": parts["labels"] / n,
        "plan_bytes": sampling.clusters.nbytes + sampling.subclusters.nbytes,
        "sums_bytes": 8 * (2 * k * work.family.n_stats + k + 2),
        "fit_rows_per_s": n / times["fit"],
        "pass_rows_per_s": n / times["sampling"],
    }


def work_of(row: dict[str, Any]) -> Work:
    """Return what was measured in the form that the simulator takes."""
    named = {name: row[name] for name in Work.__dataclass_fields__ if name in row}
    return Work(n_features=row["d"], n_clusters=row["k"], **named)


def inside(work: Workload, precision: str, budget: Budget) -> dict[str, float]:
    """Seconds of one batch of the default algorithm by who spends them, the least of some runs."""
    config = work.config(**engines.chosen(precision))
    first, second = (Batch(rows, work.state.time + n) for n, rows in enumerate(work.batches[:2], 1))
    state, _, _ = step(work.family, config, work.state, first, ThreadExecutor(1))
    found: list[dict[str, float]] = []
    began = time.perf_counter()
    while len(found) < budget.least or time.perf_counter() - began < budget.seconds:
        meter = Meter()
        start = time.thread_time()
        step(work.family, config, state, second, meter)
        total = time.thread_time() - start
        found.append({**meter.spent, "driver": total - sum(meter.spent.values())})
    return {name: min(parts[name] for parts in found) for name in found[0]}


class Meter:
    """An executor that notes how long each of its answers takes."""

    def __init__(self, n_threads: int = 1, clock: Callable[[], float] = time.thread_time) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._executor, self._clock = ThreadExecutor(n_threads), clock

    def load(self, family: Any, batch: Batch) -> Any:
        return Metered(self._executor.load(family, batch), self.spent, self._clock)


class Metered:
    """Loaded rows, metered; a sample of them under another name."""

    def __init__(
        self, rows: Any, spent: dict[str, float], clock: Callable[[], float], prefix: str = ""
    ) -> None:
        self._rows, self._spent, self._clock, self._prefix = rows, spent, clock, prefix

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self._timed(name, *args)

    def sample(self, max_n: int, key: int) -> tuple[Any, float]:
        rows, share = self._timed("sample", max_n, key)
        return Metered(rows, self._spent, self._clock, "asked "), share

    def _timed(self, name: str, *args: Any) -> Any:
        start = self._clock()
        answer = getattr(self._rows, name)(*args)
        self._spent[self._prefix + name] += self._clock() - start
        return answer
