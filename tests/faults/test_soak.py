"""Four million rows through Redis: memory and time per batch stay what they were."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.faults.soak import Soaked, calm_p99

ROOT = Path(__file__).resolve().parents[2]
N_ROWS = 4_000_000
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


def test_growth_would_be_seen():
    times = np.random.default_rng(0).gamma(400.0, 0.0025, 2000)
    alike = (calm_p99(times), calm_p99(times[::-1]))
    sound = Soaked(1, 1.0, (80.0, 80.4), alike, (1.0, 1.0), (1.0, 1.0), (5, 5))
    assert abs(sound.memory_drift) < 0.02
    assert sound.time_drift < 0.10
    grown = dataclasses.replace(
        sound, memory=(80.0, 82.0), p99=(calm_p99(times), calm_p99(times * 1.12))
    )
    assert grown.memory_drift > 0.02
    assert grown.time_drift > 0.10
