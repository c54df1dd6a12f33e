"""Time by the number of clusters, one process a number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_io import RESULTS
from benchmarks.speed.alone import Job
from benchmarks.speed.timing import Row, judged
from benchmarks.speed.workloads import Workload

_BEFORE = RESULTS / "speed-before.json"
_SLOPE_BAR = 0.6
_FASTER_BAR = 8.0
_MANY = 10_000
_CLUSTERS = (100, 1_000, _MANY)


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Rows of every number of clusters, the gain at the largest, then the slope."""
    points = []
    d, n_rows = (2, 100) if quick else (64, 1000)
    for k in (2, 8) if quick else _CLUSTERS:
        case = f"D={d} K={k}, scaling"
        if only not in case:
            continue
        for row in Job(case, Workload(n_rows, d, k, n_batches=20)).rows(quick=quick):
            yield row
            if "point" in row:
                points.append(row["point"] | {"seconds": row["seconds"]})
                yield from faster_row(case, row["point"])
    if len(points) > 1:
        yield slope_row(d, points)


def faster_row(case: str, point: Row) -> Iterator[Row]:
    """Speed at the largest number of clusters over that of an earlier version.

    Both were timed in units of the same matrix product, each in the run of its own.
    """
    old = [row["point"] for row in before()["rows"] if row["case"] == case and "point" in row]
    if point["k"] == _MANY and old:
        figure = f"partial_fit, speed over that of {before()['commit']}"
        row = {"case": case, "figure": figure, "value": old[0]["product"] / point["product"]}
        yield judged(row, bar=_FASTER_BAR, at_least=True)


def before() -> dict[str, Any]:
    """Figures of an earlier version: its commit and its rows."""
    found = json.loads(_BEFORE.read_text()) if _BEFORE.exists() else {"rows": []}
    return dict(found)


def slope_row(d: int, points: list[Row]) -> Row:
    """Slope of log time over log K: of the line through all points, and of the steepest step."""
    found = np.log([(point["k"], point["seconds"]) for point in points])
    steps = np.diff(found[:, 1]) / np.diff(found[:, 0])
    note = f"over K = {', '.join(str(point['k']) for point in points)}"
    row = {
        "case": f"D={d}, scaling",
        "figure": "partial_fit, slope in K",
        "value": float(np.polyfit(found[:, 0], found[:, 1], 1)[0]),
        "note": f"{note}; steepest step {steps.max():.3g}",
    }
    return judged(row, bar=_SLOPE_BAR)


def plot(rows: list[Row], path: Path) -> None:
    """Time of a batch and memory over K, on logarithmic axes."""
    from matplotlib.figure import Figure

    found = [row | row["point"] for row in rows if "point" in row]
    figure = Figure(figsize=(9, 4), layout="constrained")
    times, memory = figure.subplots(1, 2)
    k = [row["k"] for row in found]
    times.plot(k, [1e3 * row["seconds"] for row in found], "o-", label="partial_fit")
    times.plot(k, [1e3 * row["engine_seconds"] for row in found], "o-", label="MiniBatchKMeans")
    memory.plot(k, [row["state"] / 2**20 for row in found], "o-", label="state")
    times.set(ylabel="ms per batch of 1000 rows")
    memory.set(ylabel="MiB")
    for axes in (times, memory):
        axes.set(xlabel="clusters K", xscale="log", yscale="log")
        axes.legend(frameon=False, fontsize="small")
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
