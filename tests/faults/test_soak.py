"""One million rows through Redis: memory and time per batch stay what they were."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scstream.model import Model, Settings
from tests.faults.soak import N_FEATURES, ROWS, Soaked, distinct_messages, side_by_side

ROOT = Path(__file__).resolve().parents[2]
N_ROWS = 1_008_000
SOAK = """
import dataclasses, json, sys
from tests.faults.soak import soak
print(json.dumps(dataclasses.asdict(soak(int(sys.argv[1])))))
"""


@pytest.mark.slow
def test_memory_and_time_do_not_grow():
    """In a process of its own, whose memory is that of a pipeline and nothing else."""
    run = subprocess.run(
        [sys.executable, "-c", SOAK, str(N_ROWS)],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = Soaked(**json.loads(run.stdout))
    assert found.n_rows == N_ROWS
    assert abs(found.memory_drift) <= 0.02, found
    assert found.time_drift <= 0.10, found
    assert found.disk[1] <= 1.10 * found.disk[0], found
    assert found.n_edits >= 50 and found.n_rejected >= 100, found


class Slower:
    """A model that does a third more work."""

    def __init__(self, learner: Model) -> None:
        self._learner = learner

    def update(self, rows: np.ndarray) -> None:
        self._learner.update(np.concatenate([rows, rows[: len(rows) // 3]]))


def test_growth_is_detected():
    model, _, _ = Settings.of({"random_state": 0, "n_jobs": 1}).update(
        np.frombuffer(distinct_messages()[0]).reshape(ROWS, N_FEATURES)
    )
    alike = side_by_side(model, model, n_rounds=8)
    apart = side_by_side(model, Slower(model), n_rounds=8)
    sound = Soaked(1, 1.0, (80.0, 80.4), alike, (1.0, 1.0), (1.0, 1.0), (5, 5), (1.0, 1.0))
    assert abs(sound.memory_drift) < 0.02
    assert sound.time_drift < 0.10
    grown = dataclasses.replace(sound, memory=(80.0, 82.0), p99=apart)
    assert grown.memory_drift > 0.02
    assert grown.time_drift > 0.10
