"""Same seed, same data: the same bits, whatever the process around the model looks like."""

import os
import subprocess
import sys

SCRIPT = """
import hashlib, sys
from dataclasses import fields
import numpy as np
from scstream import ScStream
from scstream.core import row_ranges
from scstream.datasets import recurring_gaussians

row_ranges._TYPICAL = 64
model = ScStream(random_state=3, n_jobs=int(sys.argv[1]))
digest = hashlib.sha256()
choices = {"n_active": 4, "swap": 2, "n_batches": 4, "batch_size": 300, "random_state": 1}
for batch in recurring_gaussians(8, 16, **choices):
    digest.update(model.partial_fit(batch.X).labels_.tobytes())
for field in fields(model.state_):
    value = getattr(model.state_, field.name)
    if isinstance(value, np.ndarray):
        digest.update(value.tobytes())
print(digest.hexdigest())
"""


def digest(n_jobs: int, **environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(n_jobs)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


def test_threads_blas_and_hash_seed_do_not_change_results() -> None:
    alone = digest(1, OPENBLAS_NUM_THREADS="1", PYTHONHASHSEED="0")
    assert digest(3, OPENBLAS_NUM_THREADS="4", PYTHONHASHSEED="3") == alone
