"""Workloads in processes of their own: time against k-means, and memory."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.speed import engines, fresh
from benchmarks.speed.rows import fit_row, predict_row
from benchmarks.speed.timing import Budget, Row, by_turns, judged, ratio
from benchmarks.speed.workloads import Workload
from scstream import ScStream
from scstream.core.state import State

_PATIENCE = 600.0  # seconds
_FIRST = 3  # models that learn a first batch


@dataclass(frozen=True)
class Job:
    """A workload with its bars; a first batch is learned where it has one."""

    case: str
    work: Workload
    fit_bar: float | None = None
    first_bar: float | None = None

    def rows(self, *, quick: bool) -> Iterator[Row]:
        """Run this module; a quick run needs no process of its own."""
        if quick:
            yield from measure(self, quick=True)
            return
        module, job = "benchmarks.speed.alone", json.dumps(asdict(self))
        found, why = fresh.reports(module, job, seconds=_PATIENCE)
        yield from found
        if why:
            yield {"case": self.case, "figure": "all", "verdict": "cut off", "note": why}


def measure(job: Job, *, quick: bool) -> Iterator[Row]:
    """Time and memory of learning, time of predicting, seconds of a first batch."""
    work = job.work
    _ = work.batches
    state, model = state_bytes(work.state), work.model()
    forget_peak()
    before = peak_bytes()
    learner = engines.Learner(model, work)
    memory = f"state {_mega(state)}, learning adds {_mega(peak_bytes() - before)}"
    tasks = {
        "fit": learner,
        "predict": engines.Reader(learner, work),
        "kmeans": engines.Learner(engines.kmeans(work), work),
        "product": engines.expansion(work, "float64"),
    }
    times = by_turns(tasks, Budget.of(quick), after={"predict": "fit"})
    k, steady = learner.n_clusters, learner.steady
    row = fit_row(job.case, times, "fit", k, bar=job.fit_bar, steady=steady)
    product = ratio(times, "fit", "product")["value"]
    row["note"] += f"; {product:.3g} expansion GEMMs; {memory}"
    yield row | {"point": {"k": work.n_clusters, "product": product, "state": state}}
    yield predict_row(job.case, times, "fit")
    if job.first_bar is not None:
        yield first_row(job)


def first_row(job: Job) -> Row:
    """CPU seconds of a first batch with nothing known."""
    seconds = []
    for _ in range(_FIRST):
        model = ScStream(job.work.kind, random_state=0, n_jobs=1)
        start = time.thread_time()
        model.partial_fit(job.work.batches[0])
        seconds.append(time.thread_time() - start)
    row = {"case": job.case, "figure": "first batch, s", "value": float(np.median(seconds))}
    row |= {"minima": min(seconds), "note": f"K = {model.n_clusters_}"}
    return judged(row, bar=job.first_bar)


def state_bytes(state: State) -> int:
    """Bytes of all arrays of a state."""
    values = [getattr(state, field.name) for field in fields(state)]
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray))


def forget_peak() -> None:
    """Let the largest resident memory begin again, where the system can do that."""
    file = Path("/proc/self/clear_refs")
    if file.exists():
        file.write_text("5")


def peak_bytes() -> int:
    """Largest resident memory of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _mega(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:.4g} MiB"


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["work"] = Workload(**given["work"])
    with threadpool_limits(1):
        for found in measure(Job(**given), quick=False):
            print(json.dumps(found), flush=True)
