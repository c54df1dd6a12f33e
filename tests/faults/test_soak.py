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

from scstream.stream.clock import ManualClock
from tests.faults.soak import Soaked, side_by_side

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


class Worker:
    """A model that takes a second for a row, and another machine's noise now and then."""

    def __init__(self, clock: ManualClock, *, share: float, noise: np.random.Generator) -> None:
        self._clock, self._share, self._noise = clock, share, noise

    def update(self, rows: np.ndarray) -> None:
        self._clock.sleep(self._share * len(rows) + self._noise.exponential(len(rows)))


@pytest.mark.parametrize(("share", "grows"), [(1.0, False), (1.05, False), (1.2, True)])
def test_growth_is_detected(share: float, grows: bool):
    """Although single times differ by half or twice."""
    clock, noise = ManualClock(), np.random.default_rng(0)
    young = Worker(clock, share=1.0, noise=noise)
    old = Worker(clock, share=share, noise=noise)
    p99 = side_by_side(young, old, n_rounds=100, clock=clock.now)
    found = Soaked(1, 1.0, (80.0, 80.4), p99, (1.0, 1.0), (1.0, 1.0), (5, 5), (1.0, 1.0))
    assert (found.time_drift > 0.10) == grows
    assert abs(found.memory_drift) < 0.02
    assert dataclasses.replace(found, memory=(80.0, 82.0)).memory_drift > 0.02
