"""Kill a pipeline that alerts, over and over: ``python -m tests.stream.killed_alerts FOLDER``.

Every run is a fork of this process that is killed at a random instant; a round ends when one comes
to the last batch. Its alerts must be, byte for byte, those of a run that nobody disturbed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from scstream.stream.config import build
from tests.faults.kill_loop import ended, forked, kill

BATCHES, BATCH_ROWS = 90, 100
JUMPS = (40, 65)  # batches from which on everything is somewhere else
KILLS = 8
_PATIENCE = 60.0  # seconds for one run
ALERTS = {
    "novelty": 0.05,
    "log_density": "page-hinkley",
    "births": True,
    "deaths": True,
    "memory": 32,
    "quiet": 4,
}


def rows_of(*, seed: int = 0) -> list[dict[str, float]]:
    """Three clusters that jump, and a stray row in every batch."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    rows = []
    for batch in range(BATCHES):
        X = centres[rng.integers(0, 3, BATCH_ROWS)] + rng.standard_normal((BATCH_ROWS, 2))
        X += 5.0 * sum(batch >= jump for jump in JUMPS)
        X[0] = rng.uniform(-400.0, 400.0, 2)
        rows += [{"x": round(x, 6), "y": round(y, 6)} for x, y in X.tolist()]
    return rows


def settings_of(folder: Path, name: str) -> dict[str, Any]:
    return {
        "job": "alarmed",
        "source": {"kind": "file", "path": str(folder / "rows.jsonl")},
        "batch": {"rows": BATCH_ROWS},
        "model": {"random_state": 7, "n_jobs": 1, "half_life": 0.5},
        "checkpoint": {"folder": str(folder / f"{name}-state"), "batches": 3},
        "alerts": {**ALERTS, "sink": {"kind": "file", "path": str(folder / f"{name}.jsonl")}},
    }


def killed(folder: Path) -> dict[str, Any]:
    lines = "".join(json.dumps(row) + "\n" for row in rows_of())
    (folder / "rows.jsonl").write_text(lines)
    random, kills, rounds, log = Random(0), 0, 0, folder / "errors.txt"

    def start(name: str) -> int:
        return forked(lambda: build(settings_of(folder, name)).run() and None, log)

    assert ended(start("whole"), within=_PATIENCE), log.read_text()
    whole, others = (folder / "whole.jsonl").read_bytes(), 0
    while kills < KILLS:
        name = f"round-{rounds}"
        while not ended(pid := start(name), within=random.expovariate(1.0 / 0.25)):
            kill(pid)
            kills += 1
        rounds += 1
        others += (folder / f"{name}.jsonl").read_bytes() != whole
    return {"kills": kills, "rounds": rounds, "alerts": whole.count(b"\n"), "others": others}


if __name__ == "__main__":
    print(json.dumps(killed(Path(sys.argv[1]))))
