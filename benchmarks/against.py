"""``python -m benchmarks.against OTHER``: CPU time of `partial_fit` against another checkout.

OTHER is the folder of another checkout with its compiled kernels. Processes of both take turns, so
that the machine's other work weighs on both alike. The first figure is the ratio of the fastest
turns, the second the median of the ratios.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CASES = {  # rows of a batch, columns, clusters, batches
    "1 row, D=4, K=10": (1, 4, 10, 2000),
    "1,000 rows, D=8, K=20": (1000, 8, 20, 40),
    "10,000 rows, D=16, K=30": (10_000, 16, 30, 12),
}
TURNS = 7
MEASURE = """
import json, sys, time
import numpy as np
from scstream import ScStream
n, d, k, batches = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
centres = rng.normal(size=(k, d)) * 10
def rows(n):
    return centres[rng.integers(k, size=n)] + rng.normal(size=(n, d))
model = ScStream(random_state=0, n_jobs=1).partial_fit(rows(2000))
data = [rows(n) for _ in range(batches)]
for X in data[: batches // 4]:
    model.partial_fit(X)
start = time.process_time()
for X in data[batches // 4 :]:
    model.partial_fit(X)
print(time.process_time() - start)
"""


def seconds(tree: Path, case: tuple[int, ...]) -> float:
    """Measure in a process that imports scstream from a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps(case)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(found.stdout)


def main(other: str) -> None:
    """Print a line for each case."""
    trees = [ROOT, Path(other).resolve()]
    for name, case in CASES.items():
        times: dict[Path, list[float]] = {tree: [] for tree in trees}
        for turn in range(TURNS):
            for tree in trees if turn % 2 else trees[::-1]:
                times[tree].append(seconds(tree, case))
        ours, theirs = (times[tree] for tree in trees)
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        print(f"{name}: {min(ours) / min(theirs):.3f}, median {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
