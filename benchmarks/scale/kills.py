"""Workers killed -9 at random moments, a hundred times: every batch must come out the same."""

from __future__ import annotations

import gc
import time
from typing import Any

from scstream.distributed import RayExecutor
from scstream.model import Settings
from tests.digests import digest
from tests.on_ray.cluster import Cluster
from tests.on_ray.failures import Trouble, eventually, kill, n_actors, n_references, rows_of

N_KILLS = 100
WAYS = {"sums added here": 8, "sums added by the workers": 2}  # from so many workers on


def run() -> list[dict[str, Any]]:
    """Kill workers while batches are learned, in both ways to add the sums."""
    with Cluster() as cluster:
        cluster.connect()
        return [_killed(cluster, way, scatter_from) for way, scatter_from in WAYS.items()]


def _killed(cluster: Cluster, way: str, scatter_from: int) -> dict[str, Any]:
    before, start = n_references(), time.monotonic()
    plain, batch, wrong = Settings(random_state=0), 0, 0
    with RayExecutor(
        n_workers=2, n_jobs=1, min_rows=1, scatter_from=scatter_from, deadline=300.0
    ) as executor:
        shared = Settings.of({"random_state": 0, "executor": executor})
        with Trouble(cluster, kill, (0.0, 1.0)) as trouble:
            while trouble.n_strikes < N_KILLS:
                plain, expected, _ = plain.update(rows_of(batch))
                shared, found, _ = shared.update(rows_of(batch))
                same = digest([found, shared.state]) == digest([expected, plain.state])
                wrong, batch = wrong + (not same), batch + 1
    actors_gone = eventually(lambda: n_actors() == 0)
    del shared, executor
    gc.collect()
    objects_gone = eventually(lambda: n_references() <= before)
    return {
        "way": way,
        "kills": trouble.n_strikes,
        "batches": batch,
        "wrong": wrong,
        "actors left": 0 if actors_gone else n_actors(),
        "objects left": 0 if objects_gone else n_references() - before,
        "seconds": round(time.monotonic() - start, 1),
    }
