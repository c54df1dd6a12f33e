"""Two threads against one on a video frame, and what the machine itself makes of two threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import threadpool_limits

from benchmarks.speed import engines
from benchmarks.speed.timing import Budget, Row, Task, by_turns, judged, ratio
from benchmarks.speed.workloads import Workload

_BAR = 1.7
_VIDEO = Workload(409_920, 5, 80, n_batches=10)
_SMALL = Workload(20_000, 5, 8, n_batches=4)


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Speed of two threads over that of one, in wall time."""
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(2) as pool:
        tasks = {f"bare GEMM {n}": probe(n, pool, quick=quick) for n in (1, 2)}
        for precision in engines.precisions():
            tasks |= pairs(_SMALL if quick else _VIDEO, precision)
        times = by_turns(tasks, Budget.of(quick), clock=time.perf_counter)
    for name in dict.fromkeys(task.rsplit(" ", 1)[0] for task in tasks):
        what, _, precision = name.partition(", ")
        row = {"case": "video frame", "precision": precision or "float64", "figure": f"{what}, 2:1"}
        row |= ratio(times, f"{name} 1", f"{name} 2")
        yield judged(row, bar=_BAR if precision else None, at_least=True)


def pairs(work: Workload, precision: str) -> dict[str, Task]:
    """One pass and whole batches, on one thread and on two."""
    plan = engines.sampling(work, precision)
    tasks: dict[str, Task] = {}
    for n in (1, 2):
        model = work.model(n_jobs=n, **engines.chosen(precision))
        tasks[f"sampling pass, {precision} {n}"] = engines.one_pass(work, plan, n_threads=n)
        tasks[f"partial_fit, {precision} {n}"] = engines.Learner(model, work)
    return tasks


def probe(n_threads: int, pool: ThreadPoolExecutor, *, quick: bool) -> Task:
    """Two independent matrix products, one after the other or at the same time."""
    size = 200 if quick else 1000
    first, second = (engines.gemm(size, size, size, "float64") for _ in range(2))

    def run() -> None:
        if n_threads == 1:
            first()
            second()
        else:
            for future in [pool.submit(first), pool.submit(second)]:
                future.result()

    return run
