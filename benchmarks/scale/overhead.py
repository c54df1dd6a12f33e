"""Our executor against threads and against bare Ray, by turns on this machine.

The batch is 200,000 x 64 with K = 100. The simulator is told the speed of the threads of the same
run and has to say what the workers take.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.scale.engine import add_all, warm_store, workers
from benchmarks.scale.rates import Meter, Steady
from benchmarks.scale.tables import prices, read
from benchmarks.scale_sim import Job, Work, Workers, makespan, replay, sweep_seconds
from benchmarks.speed import engines
from benchmarks.speed.timing import Budget, Row, Task, Timed, by_turns, judged
from scstream.compute.threads import ThreadExecutor, one_blas_thread
from scstream.core.default import step
from scstream.core.row_ranges import RowRange
from scstream.core.state import Batch, State
from scstream.distributed import RayExecutor
from tests.on_ray.cluster import Cluster

WORK = Steady(200_000, 64, 100, n_batches=2)
N_WORKERS = (1, 2, 4)
N_CORES = 2
_STORE_MB = 3072
_BUDGET = Budget(60.0, 7)
_SHORT = Budget(20.0, 40)


def run() -> list[Row]:
    """Sweeps, whole batches and empty rounds; then what the simulator says to each."""
    with Cluster(n_cpus=16, store_mb=_STORE_MB) as cluster, one_blas_thread:
        cluster.connect()
        warm_store(_STORE_MB)
        with ExitStack() as stack:
            crews = {
                n: stack.enter_context(RayExecutor(cluster.address, n_workers=n, n_jobs=1))
                for n in N_WORKERS
            }
            sweeps, batches = time_sweeps(crews), time_batches(crews)
            empty = time_empty(crews[2])
    return [*ratios(sweeps, empty), *validation(sweeps, batches)]


def time_sweeps(crews: dict[int, RayExecutor]) -> dict[str, Timed]:
    """One sampling pass over rows that are where they are needed."""
    plan = engines.sampling(WORK, "float64")
    batch = Batch(WORK.batches[0], time=0.0)
    executors = {f"threads {n}": ThreadExecutor(n) for n in (1, N_CORES)}
    executors |= {f"workers {n}": workers for n, workers in crews.items()}
    loaded = {name: executor.load(WORK.family, batch) for name, executor in executors.items()}
    tasks: dict[str, Task] = {
        name: lambda rows=rows: rows.assign(plan) for name, rows in loaded.items()
    }
    return by_turns(tasks, _BUDGET, clock=time.perf_counter)


def time_batches(crews: dict[int, RayExecutor]) -> dict[str, Timed]:
    """The whole step of a batch that comes from the driver, without sampling sweeps."""
    state, batch = settled()
    tasks: dict[str, Task] = {
        f"threads {n}": one_step(ThreadExecutor(n), state, batch) for n in (1, N_CORES)
    }
    tasks |= {f"workers {n}": one_step(workers, state, batch) for n, workers in crews.items()}
    return by_turns(tasks, _BUDGET, clock=time.perf_counter)


def settled() -> tuple[State, Batch]:
    """A state in the middle of the stream, and the batch that comes next."""
    first, second = (Batch(rows, WORK.state.time + n) for n, rows in enumerate(WORK.batches, 1))
    state, _, _ = step(WORK.family, WORK.config(), WORK.state, first, ThreadExecutor(N_CORES))
    return state, second


def one_step(executor: Any, state: State, batch: Batch) -> Task:
    return lambda: step(executor.with_kernels(WORK.family), WORK.config(), state, batch, executor)


def time_empty(workers: RayExecutor) -> dict[str, Timed]:
    """Rounds without work: ours, and bare Ray with one sum per worker."""
    plan = engines.sampling(WORK, "float64")
    n_plan = (plan.clusters.nbytes + plan.subclusters.nbytes) // 8
    n_sums = sums_size()
    ours = workers.load(Idle(n_sums), Batch(WORK.batches[0], time=0.0))  # type: ignore[arg-type]
    with bare(n_plan, n_sums) as least:
        tasks = {"ours, no work": lambda: ours.assign(plan), "bare, one sum a worker": least}
        return by_turns(tasks, _SHORT, clock=time.perf_counter)


@contextmanager
def bare(n_plan: int, n_back: int) -> Iterator[Task]:
    """Plan out, sums back and added, by plain Ray."""
    import ray

    plan = np.ones(n_plan)
    with workers(n_back, 2) as found:
        yield lambda: add_all(
            ray.get([w.round.remote(ref) for ref in [ray.put(plan)] for w in found])
        )


def sums_size() -> int:
    return WORK.n_clusters * (2 * WORK.family.n_stats + 1) + 2


@dataclass
class Idle:
    """A family for whose rows there is nothing to do."""

    size: int
    n_features: int = WORK.n_features

    @property
    def compiled(self) -> IdleKernel:
        return IdleKernel(self.size)

    @property
    def kernels(self) -> IdleKernel:
        return IdleKernel(self.size)


@dataclass
class IdleKernel:
    """Answers at once, with sums of the right size."""

    size: int

    def assign(self, rows: Any, *args: Any) -> tuple[Any, Any, Any]:
        n, subtrees = rows.shape[0], args[-2]
        return _zeros(n), _zeros(n), _zeros(len(subtrees), self.size)

    def threads(self, n: int) -> Any:
        return nullcontext()


_HELD: dict[tuple[int, int], np.ndarray] = {}


def _zeros(*shape: int) -> np.ndarray:
    """The same array again and again: to make it anew is work."""
    if shape not in _HELD:
        _HELD[shape] = np.zeros(shape)
    return _HELD[shape]


def ratios(sweeps: dict[str, Timed], empty: dict[str, Timed]) -> Iterator[Row]:
    """The bars."""
    two, one = sweeps["workers 2"], sweeps["workers 1"]
    yield compared("sweep, 2 workers / 2 threads", two, sweeps["threads 2"], bar=1.15)
    row = compared("sweep, efficiency of 2 workers against 1", one, two, bar=None)
    row |= {"value": row["value"] / 2, "minima": row["minima"] / 2}
    yield judged(row, bar=0.9, at_least=True)
    yield compared(
        "sweep, 2 threads against 1 in one process", sweeps["threads 1"], sweeps["threads 2"]
    )
    yield compared("sweep, 1 worker / 1 thread", one, sweeps["threads 1"])
    yield compared(
        "sweep, 4 workers on 2 processors / 2 threads", sweeps["workers 4"], sweeps["threads 2"]
    )
    ours = empty["ours, no work"]
    bare = empty["bare, one sum a worker"]
    yield compared("round without work / bare Ray, one sum a worker", ours, bare, bar=1.3)


def compared(figure: str, ours: Timed, other: Timed, *, bar: float | None = None) -> Row:
    row = {
        "figure": figure,
        "value": ours.median / other.median,
        "minima": ours.minimum / other.minimum,
        "seconds": ours.median,
        "other_seconds": other.median,
        "rounds": len(ours.samples),
        "load": os.getloadavg()[0],
    }
    return judged(row, bar=bar)


def validation(sweeps: dict[str, Timed], batches: dict[str, Timed]) -> Iterator[Row]:
    """What the simulator says, from the threads of the same run and the prices of the engine."""
    engine, parts = prices(read("engine")), spent_inside()
    for n in N_WORKERS:
        workers = Workers(n, 1, driver_threads=N_CORES, cores=N_CORES)
        busy = min(n, N_CORES)
        work = told(sweeps, parts, busy)
        found = {
            "sweep": (sweep_seconds(work, Job(WORK.n_rows), workers, engine=engine), sweeps),
            "batch": (
                sum(
                    replay(work, Job(WORK.n_rows, resident=False), workers, engine=engine).values()
                ),
                batches,
            ),
        }
        for what, (said, times) in found.items():
            real = times[f"workers {n}"]
            row = {
                "figure": f"simulator / real, {what}, {n} worker(s)",
                "value": said / real.median,
                "minima": said / real.minimum,
                "seconds": said,
                "other_seconds": real.median,
                "rounds": len(real.samples),
            }
            off = abs(row["value"] - 1)
            yield row | {"bar": "within 0.15", "verdict": "ok" if off <= 0.15 else "missed"}


def told(sweeps: dict[str, Timed], parts: dict[str, float], busy: int) -> Work:
    """The work by this run: a row of a pass takes what it takes while so many threads are busy."""
    row = sweeps[f"threads {busy}"].median / makespan(RowRange.full(WORK.n_rows), busy)
    shape = engines.sampling(WORK, "float64")
    asked = makespan(RowRange.full(1 << 14), N_CORES)
    return Work(
        n_features=WORK.n_features,
        n_clusters=WORK.n_clusters,
        sampling=row,
        predictive=row * parts["predictive / sampling"],
        asked=parts["asked"] / asked,
        sampling_step=0.0,
        predictive_step=0.0,
        rest=parts["driver"],
        label=parts["labels"] / WORK.n_rows,
        plan_bytes=shape.clusters.nbytes + shape.subclusters.nbytes,
        sums_bytes=8 * sums_size(),
    )


def spent_inside() -> dict[str, float]:
    """Wall seconds of the parts of one batch on the threads of this process."""
    state, batch = settled()
    found = []
    for _ in range(5):
        meter = Meter(N_CORES, clock=time.perf_counter)
        start = time.perf_counter()
        step(WORK.family, WORK.config(), state, batch, meter)
        total = time.perf_counter() - start
        found.append({**meter.spent, "driver": total - sum(meter.spent.values())})
    least = {name: float(np.median([parts[name] for parts in found])) for name in found[0]}
    tasks = {
        "sampling": engines.one_pass(WORK, engines.sampling(WORK, "float64")),
        "predictive": engines.one_pass(WORK, engines.predicting(WORK, "float64")),
    }
    times = by_turns(tasks, Budget(1.0, 3))
    return {
        "asked": least["asked assign"],
        "labels": least["labels"],
        "driver": least["driver"] + least["sample"],
        "predictive / sampling": times["predictive"].minimum / times["sampling"].minimum,
    }
