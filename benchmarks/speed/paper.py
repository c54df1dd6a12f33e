"""Time per batch at the sizes of the paper's tables, for orientation: other data and machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from benchmarks.speed import engines
from benchmarks.speed.rows import Case, chosen_cases, pairs_fit
from benchmarks.speed.timing import Budget, Row, by_turns

_PAPER = {  # milliseconds per batch on eight cores, of a data set of the size of a case
    "D=2 K=20": ("2-D Gaussians", 2.29),
    "D=10 K=7": ("CoverType", 10.5),
    "D=64 K=100": ("ImageNet100", 182.0),
    "D=128 K=1000": ("ImageNet1K", 785.0),
    "video frame": ("video", 600.0),
    "multinomial dense": ("multinomials", None),
}


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Wall time of `partial_fit` on all cores, for both algorithms."""
    for case in chosen_cases(quick=quick, only=only):
        if quick or case.name in _PAPER:
            yield from measure(case, Budget.of(quick))


def measure(case: Case, budget: Budget) -> Iterator[Row]:
    """Both algorithms by turns, in milliseconds."""
    work, n_threads = case.work, os.cpu_count() or 1
    learners = {
        algorithm: engines.Learner(work.model(paper=algorithm == "paper", n_jobs=n_threads), work)
        for algorithm in ("default", "paper")
        if algorithm == "default" or pairs_fit(work)
    }
    times = by_turns(learners, budget, clock=time.perf_counter)
    like, theirs = _PAPER.get(case.name, ("", None))
    for algorithm, timed in times.items():
        yield {
            "case": f"{case.name}, {like}" if like else case.name,
            "precision": "float64",
            "figure": f"partial_fit, {algorithm}, ms per batch on {n_threads} threads",
            "value": 1e3 * timed.median,
            "minima": 1e3 * timed.minimum,
            "verdict": "report",
            "note": f"K = {learners[algorithm].n_clusters:.4g}"
            + (f"; the paper's: {theirs:g} ms on 8 cores" if theirs else ""),
        }
