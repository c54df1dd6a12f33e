"""A thousand batches on two workers: what the driver and the object store take must stay flat."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from scstream.distributed import RayExecutor
from scstream.model import Model, Settings
from tests.faults.soak import resident
from tests.on_ray.cluster import Cluster
from tests.on_ray.failures import bytes_in_store, n_references, rows_of, worker_processes

N_BATCHES = 1_000
N_ROWS = 50_000


def run() -> list[dict[str, Any]]:
    """Compare the second quarter of the batches with the last."""
    batches = [rows_of(batch, n_rows=N_ROWS) for batch in range(5)]
    driver, workers, store, objects = ([] for _ in range(4))
    start = time.monotonic()
    with Cluster() as cluster:
        cluster.connect()
        with RayExecutor(n_workers=2, n_jobs=1, min_rows=1) as executor:
            model: Settings | Model = Settings.of({"random_state": 0, "executor": executor})
            for batch in range(N_BATCHES):
                model, _, _ = model.update(batches[batch % len(batches)])
                driver.append(resident())
                objects.append(n_references())
                store.append(bytes_in_store() / 2**20)
                if batch % 10 == 0:
                    workers.append(sum(map(_resident_of, worker_processes(cluster))))
    figures = {
        "driver, MB": driver,
        "workers, MB": workers,
        "object store, MB": store,
        "objects the driver knows": objects,
    }
    return [
        {"what": what, **_drift(np.array(values)), "batches": N_BATCHES, "rows": N_ROWS}
        for what, values in figures.items()
    ] + [{"what": "seconds", "late": round(time.monotonic() - start, 1)}]


def _drift(values: np.ndarray) -> dict[str, Any]:
    quarter = len(values) // 4
    early, late = np.mean(values[quarter : 2 * quarter]), np.mean(values[-quarter:])
    return {
        "early": round(float(early), 2),
        "late": round(float(late), 2),
        "drift": f"{100 * (late / max(early, 1e-9) - 1):+.1f} %",
    }


def _resident_of(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096 / 2**20
