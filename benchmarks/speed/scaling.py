"""Time and memory by the number of clusters; run as a module, one point of the plot."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

from benchmarks.speed import engines, fresh
from benchmarks.speed.timing import Budget, Row, by_turns, judged
from benchmarks.speed.workloads import Workload
from scstream.core.state import State

_BAR = 1.05
_DIMENSIONS = (16, 64)
_CLUSTERS = (10, 100, 1_000, 10_000)
_N_ROWS = 2_000
_PATIENCE = 300.0  # seconds for one point
_FIGURES = {"pass": "sampling pass", "fit": "partial_fit"}


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """A row for every point, then the slopes."""
    for d in (2,) if quick else _DIMENSIONS:
        points = []
        for k in (2, 8) if quick else _CLUSTERS:
            n_rows = 100 if quick else _N_ROWS
            parts, why = fresh.reports(
                "benchmarks.speed.scaling", n_rows, d, k, int(quick), seconds=_PATIENCE
            )
            points.append({"k": k} | {key: v for part in parts for key, v in part.items()})
            yield point_row(d, points[-1], why)
        for key, name in _FIGURES.items():
            yield slope_row(d, key, name, points)


def point_row(d: int, point: Row, why: str) -> Row:
    """Time per row and memory of one point."""
    memory = (
        f"state {_mega(point, 'state')}, peak {_mega(point, 'peak')}, idle {_mega(point, 'idle')}"
    )
    return {
        "case": f"D={d} K={point['k']}",
        "figure": "partial_fit, µs per row",
        "value": 1e6 * point["fit"] if "fit" in point else None,
        "note": f"pass {1e6 * point.get('pass', np.nan):.4g} µs per row; {memory}"
        + (f"; {why}" if why else ""),
        "verdict": "report" if not why else "cut off",
        "point": {"d": d} | point,
    }


def slope_row(d: int, key: str, name: str, points: list[Row]) -> Row:
    """Slope of log time over log K: of the line through all points, and of the steepest step."""
    found = np.log([(p["k"], p[key]) for p in points if key in p])
    slope = float(np.polyfit(found[:, 0], found[:, 1], 1)[0]) if len(found) > 1 else None
    note = f"over K = {', '.join(str(p['k']) for p in points if key in p)}"
    if slope is not None:
        note += f"; steepest step {(np.diff(found[:, 1]) / np.diff(found[:, 0])).max():.3g}"
    row = {"case": f"D={d}", "figure": f"{name}, slope in K", "value": slope, "note": note}
    return judged(row, bar=_BAR)


def plot(rows: list[Row], path: Path) -> None:
    """Time per row and memory over K, on logarithmic axes."""
    from matplotlib.figure import Figure

    points = [row["point"] for row in rows if "point" in row]
    figure = Figure(figsize=(9, 4), layout="constrained")
    times, memory = figure.subplots(1, 2)
    lines = [(times, key, name, 1e6) for key, name in _FIGURES.items()]
    lines += [(memory, "state", "state", 2.0**-20), (memory, "peak", "peak of process", 2.0**-20)]
    for d in sorted({point["d"] for point in points}):
        for axes, key, name, unit in lines:
            mine = [(p["k"], unit * p[key]) for p in points if p["d"] == d and key in p]
            axes.plot(*np.array(mine).reshape(-1, 2).T, "o-", label=f"{name}, D={d}")
    times.set(ylabel="µs per row")
    memory.set(ylabel="MiB")
    for axes in (times, memory):
        axes.set(xlabel="clusters K", xscale="log", yscale="log")
        axes.legend(frameon=False, fontsize="small")
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def measure(n_rows: int, d: int, k: int, *, quick: bool) -> Iterator[Row]:
    """Time one point in this process, in the order of cost."""
    work = Workload(n_rows, d, k, n_batches=20)
    yield {"idle": peak_bytes()}
    yield {"state": state_bytes(work.state)}
    budget = Budget(0.05, 2) if quick else Budget(5.0, 3)
    params = engines.sampling(work, "float64")
    yield {
        "pass": by_turns({"pass": engines.one_pass(work, params)}, budget)["pass"].median / n_rows
    }
    learner = engines.Learner(work.model(), work, warm_up=0.0)
    yield {"fit": by_turns({"fit": learner}, budget)["fit"].median / n_rows}
    yield {"found": learner.n_clusters, "peak": peak_bytes()}


def state_bytes(state: State) -> int:
    """Bytes of all arrays of a state."""
    values = [getattr(state, field.name) for field in fields(state)]
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray))


def peak_bytes() -> int:
    """Largest resident memory of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _mega(point: Row, key: str) -> str:
    return f"{point[key] / 2**20:.4g} MiB" if key in point else "unknown"


if __name__ == "__main__":
    size = [int(word) for word in sys.argv[1:]]
    for report in measure(*size[:3], quick=bool(size[3])):
        print(json.dumps(report), flush=True)
