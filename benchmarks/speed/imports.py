"""CPU time of imports in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.speed.timing import Row, Timed, judged, ratio

_CLOCK = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"
_PAIRS = (  # candidate, engine, bar
    ("scstream", "numpy", 2.0),
    ("scstream.estimator", "sklearn.cluster", None),
)


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Imports by turns, each in a process of its own."""
    n_rounds, pairs = (1, _PAIRS[:1]) if quick else (15, _PAIRS)
    modules = [module for pair in pairs for module in pair[:2]]
    samples: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(n_rounds + 1):
        for module in modules:
            samples[module].append(seconds(module))
    # The first round fills the disk cache.
    times = {module: Timed(np.array(values[1:])) for module, values in samples.items()}
    for candidate, engine, bar in pairs:
        row: Row = {"case": "import", "figure": f"import {candidate} / import {engine}"}
        yield judged(row | ratio(times, candidate, engine), bar=bar)


def seconds(module: str) -> float:
    """CPU seconds of an import, without those of starting Python."""
    done = subprocess.run(
        [sys.executable, "-c", _CLOCK.format(module)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)
