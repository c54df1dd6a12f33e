"""A long stream at constant K: neither the time of a batch nor memory may grow.

Every few batches the model of the beginning learns one batch too, from the state it had then. The
time of a late batch is given as a multiple of that one's, so that a busy machine slows both.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.results_io import RESULTS
from benchmarks.speed.timing import Row
from benchmarks.speed.workloads import Workload

_BAR = 0.05
_WORK = Workload(1_000, 2, 20, n_batches=500)
_ENDS = (100, 1_000, 3_000, 10_000, 30_000, 100_000)
_EVERY = 5  # batches of the stream for one of the beginning
_PATIENCE = 600.0  # seconds for the whole stream


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Time and memory of the last window, over those of the beginning."""
    work = Workload(100, 2, 5, n_batches=40) if quick else _WORK
    ends = (10, 20, 40) if quick else _ENDS
    with threadpool_limits(1):
        windows = list(measure(work, ends))
    yield from judge(work, windows, complete=windows[-1]["last"] == ends[-1])


def judge(work: Workload, windows: list[Row], *, complete: bool) -> Iterator[Row]:
    """Worst departure from the beginning among all windows."""
    first, last = windows[0], windows[-1]
    times = [window["ratio"] for window in windows]
    memory = [window["resident"] / first["resident_then"] for window in windows]
    until = f"batches {first['first']} to {last['last']}, K = {last['n_clusters']:.4g}"
    for figure, ratios in (("time per batch", times), ("resident memory", memory)):
        worst = max(ratios, key=lambda value: abs(value - 1.0))
        kept = abs(worst - 1.0) <= _BAR
        yield {
            "case": f"D={work.n_features} K={work.n_clusters}",
            "figure": f"{figure}, over that of the beginning",
            "value": worst,
            "bar": f"1 ± {_BAR:g}",
            "verdict": ("ok" if kept else "missed") if complete else "cut off",
            "note": until,
        } | ({"windows": windows} if ratios is times else {})


def measure(work: Workload, ends: tuple[int, ...]) -> Iterator[Row]:
    """Learn on and on; a report at the end of every window."""
    model, beginning = work.model(), work.model()
    # Filled before the first look at memory: notes must not look like growth.
    now, then, clusters = np.full((3, ends[-1]), -1.0)
    began = time.monotonic()
    for n in range(ends[0]):
        model.partial_fit(work.batches[n % len(work.batches)])
    early, resident = model.model_, resident_bytes()
    for first, last in pairwise(ends):
        for n in range(first, last):
            batch = work.batches[n % len(work.batches)]
            now[n] = _seconds(model, batch)
            clusters[n] = model.n_clusters_
            if n % _EVERY == 0:
                beginning.model_ = early
                then[n] = _seconds(beginning, batch)
            if time.monotonic() - began > _PATIENCE:
                break
        late, reference = (times[first : n + 1] for times in (now, then))
        yield window(late, reference[reference >= 0]) | {
            "first": first,
            "last": n + 1,
            "resident_then": resident,
            "n_clusters": float(clusters[first : n + 1].mean()),
        }
        if n + 1 < last:
            return


def window(late: np.ndarray, reference: np.ndarray) -> Row:
    """Times of a window of the stream, and memory at its end."""
    return {
        "seconds": float(np.median(late)),
        "seconds_then": float(np.median(reference)),
        "ratio": float(np.median(late) / np.median(reference)),
        "resident": resident_bytes(),
    }


def _seconds(model: Any, batch: Any) -> float:
    start = time.thread_time()
    model.partial_fit(batch)
    return time.thread_time() - start


def resident_bytes() -> int:
    """Resident memory of this process now; where that is not told, the largest so far."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def save(rows: list[Row]) -> None:
    """Write the windows, and a plot of them."""
    from matplotlib.figure import Figure

    windows = rows[0]["windows"]
    (RESULTS / "speed-growth.json").write_text(json.dumps(windows, indent=1) + "\n")
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    times, memory = figure.subplots(1, 2)
    last = [window["last"] for window in windows]
    times.plot(last, [window["ratio"] for window in windows], "o-")
    memory.plot(last, [window["resident"] / 2**20 for window in windows], "o-")
    times.set(ylabel="time per batch, over that of the beginning", ylim=(0.8, 1.2))
    memory.set(ylabel="resident memory, MiB")
    memory.set_ylim(bottom=0.0)
    for axes in (times, memory):
        axes.set(xlabel="batches", xscale="log")
        axes.grid(alpha=0.3)
    figure.savefig(RESULTS / "speed-growth.png", dpi=120)
