"""What exemplars cost: ``python -m benchmarks.exemplars``.

Two models learn the same batches in turn, in one process: one keeps five exemplars of every
cluster, the other keeps none. Writes results/exemplars.md.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.results_io import RESULTS
from benchmarks.runs import provenance
from scstream import ScStream

PAGE = """\
# Exemplars

Made by `python -m benchmarks.exemplars`; do not edit. {provenance}.

Two models learn the same batches in turn, in one process, with one thread: one with `exemplars=5`,
one without. *ms* is the mean CPU time of `partial_fit` without exemplars, *ratio* the time of all
batches with exemplars by that without; the slowest tenth of groups of eight batches is left out.
With *ids only*, ids are passed with every row and rows are not kept.

{table}
"""
HEAD = "family|D|K|rows of a batch|ms|ratio|ratio, ids only"
N_WARM = 10  # batches that are not counted


class Case(NamedTuple):
    """A stream of batches."""

    family: str
    n_features: int
    n_clusters: int
    n_rows: int
    n_batches: int


CASES = (
    Case("gaussian", 2, 3, 100, 300),
    Case("gaussian", 8, 10, 100, 300),
    Case("gaussian", 8, 10, 1000, 150),
    Case("gaussian", 8, 10, 10_000, 60),
    Case("gaussian", 8, 10, 100_000, 50),
    Case("gaussian", 16, 30, 1000, 100),
    Case("gaussian", 64, 30, 2000, 50),
    Case("diagonal", 16, 30, 1000, 100),
    Case("multinomial", 200, 20, 1000, 60),
    Case("direction", 384, 30, 1000, 50),
    Case("direction", 384, 300, 3000, 42),
)


def draw(case: Case, rng: np.random.Generator) -> Any:
    """Yield batches of rows of clusters that do not move."""
    D, K, N = case.n_features, case.n_clusters, case.n_rows
    centre = rng.normal(size=(K, D)) * 10.0
    words = rng.dirichlet(np.full(D, 0.05), size=K)
    for _ in range(case.n_batches):
        own = rng.integers(K, size=N)
        if case.family == "multinomial":
            yield rng.multinomial(50, words[own]).astype(np.float64)
        elif case.family == "direction":
            rows = centre[own] + 5.0 * rng.normal(size=(N, D))
            yield rows / np.linalg.norm(rows, axis=1, keepdims=True)
        else:
            yield centre[own] + rng.normal(size=(N, D))


def measure(case: Case) -> tuple[float, float, float]:
    """Return the mean time without exemplars, and the ratios of the others to it."""
    kept = (0, 5, {"n": 5, "rows": False})
    models = [ScStream(case.family, random_state=0, n_jobs=1, exemplars=each) for each in kept]
    ids = np.arange(case.n_rows)
    times = []
    for number, rows in enumerate(draw(case, np.random.default_rng(0))):
        took = [0.0, 0.0, 0.0]
        for turn in range(3):  # every model is the first one equally often
            which = (turn + number) % 3
            given = {"ids": ids} if which == 2 else {}
            start = time.process_time()
            models[which].partial_fit(rows, **given)
            took[which] = time.process_time() - start
        times.append(took)
    counted = np.array(times[N_WARM:])
    mean = np.array([_trimmed(each) for each in counted.T])
    return float(mean[0]), float(mean[1] / mean[0]), float(mean[2] / mean[0])


def _trimmed(times: Any) -> float:
    """Return the mean over groups of eight batches, without the slowest tenth of the groups."""
    groups = times[: len(times) // 8 * 8].reshape(-1, 8).mean(axis=1)
    return float(np.sort(groups)[: max(1, int(0.9 * len(groups)))].mean())


def main() -> None:
    """Measure all cases and write the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    lines = [HEAD.replace("|", " | "), " | ".join(["---"] * (HEAD.count("|") + 1))]
    for case in CASES:
        base, rows, ids = measure(case)
        cells = [*map(str, case[:4]), f"{1e3 * base:.2f}", f"{rows:.3f}", f"{ids:.3f}"]
        lines.append(" | ".join(cells))
        print(lines[-1], flush=True)
    table = "\n".join(f"| {line} |" for line in lines)
    (RESULTS / "exemplars.md").write_text(PAGE.format(provenance=provenance(), table=table))


if __name__ == "__main__":
    main()
