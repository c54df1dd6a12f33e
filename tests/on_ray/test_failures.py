"""Workers die, freeze, come and go; the driver dies: every batch comes out the same."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from scstream import ScStream
from scstream.core.state import Batch
from scstream.distributed import RayExecutor
from scstream.distributed.engine import placement
from scstream.kernels import kernels_in_use
from scstream.model import Model, Settings
from tests.digests import digest
from tests.on_ray.cluster import Cluster, alive
from tests.on_ray.failures import (
    Trouble,
    eventually,
    freeze,
    kill,
    n_actors,
    n_references,
    rows_of,
)

ROOT = Path(__file__).resolve().parents[2]


def learn(learner: Model, batch: int) -> tuple[Model, Any]:
    learner, labels, _ = learner.update(rows_of(batch))
    return learner, digest([labels, learner.state, learner.events])


@pytest.mark.parametrize(("strike", "n_strikes"), [(kill, 5), (freeze, 2)])
def test_trouble_changes_no_bit_and_leaves_nothing(cluster: Cluster, strike: Any, n_strikes: int):
    before = n_references()
    plain = Settings(random_state=0)
    with RayExecutor(n_workers=2, n_jobs=1, min_rows=1, deadline=90.0) as executor:
        shared = Settings.of({"random_state": 0, "executor": executor})
        batch = 0
        with Trouble(cluster, strike, (0.2, 1.2)) as trouble:
            while trouble.n_strikes < n_strikes or batch < 4:
                plain, expected = learn(plain, batch)
                shared, found = learn(shared, batch)
                assert found == expected, f"batch {batch}"
                batch += 1
    assert eventually(lambda: n_actors() == 0)
    del shared, executor
    gc.collect()
    assert eventually(lambda: n_references() <= before)


def test_nodes_come_and_go(cluster: Cluster):
    """One worker on every node; a node that is lost in the middle of a batch costs time only."""
    plain = Settings(random_state=0)
    with RayExecutor(n_jobs=1, min_rows=1, deadline=90.0) as executor:
        shared = Settings.of({"random_state": 0, "executor": executor})

        def both(batch: int) -> int:
            nonlocal plain, shared
            plain, expected = learn(plain, batch)
            shared, found = learn(shared, batch)
            assert found == expected
            return len(executor._pool.workers)

        assert both(0) == 1
        node = cluster.add_node()
        assert both(1) == 2
        with Trouble(cluster, lambda _: node.kill(), (0.02, 0.02), n_workers=1):
            both(2)
        assert eventually(lambda: len(alive()) == 1)
        assert both(3) == 1
        second = cluster.add_node()
        assert both(4) == 2
        second.kill()
        assert eventually(lambda: len(alive()) == 1)


def blocks_on(node: str, batch: int) -> list[Any]:
    """Halves of a batch, made on a node by tasks that Ray can repeat elsewhere."""
    where = placement(node, soft=True)
    make = ray.remote(num_cpus=0, max_retries=-1, scheduling_strategy=where)(
        lambda half: np.array_split(rows_of(batch), 2)[half]
    )
    found = [make.remote(half) for half in range(2)]
    ray.wait(found, num_returns=2, fetch_local=False)
    return found


def test_rows_of_a_lost_node_are_rebuilt_and_labels_are_the_same(cluster: Cluster):
    """Rows are only on a node that is killed in the middle of the batch, or before it."""
    plain, here = ScStream(random_state=0), alive()
    with RayExecutor(n_jobs=1, min_rows=1, deadline=120.0) as executor:
        shared = ScStream(random_state=0, executor=executor)
        shared.partial_fit(executor.rows(blocks_on(here[0], 0)))
        plain.partial_fit(rows_of(0))
        for batch in (1, 2):
            node = cluster.add_node()
            (there,) = set(alive()) - set(here)
            rows = executor.rows(blocks_on(there, batch))
            loaded = executor.load(shared.family_, Batch(rows, 0.0))
            assert executor._pool.workers[there, kernels_in_use()] in loaded._homes
            pause = (0.02, 0.02) if batch == 1 else (0.0, 0.0)
            with Trouble(cluster, lambda _, node=node: node.kill(), pause, n_workers=1):
                shared.partial_fit(rows)
            plain.partial_fit(rows_of(batch))
            assert digest([shared.labels_, shared.state_]) == digest([plain.labels_, plain.state_])
            node.kill()
            assert eventually(lambda: alive() == here)


DRIVER = """
import json, os, sys, time
from pathlib import Path
import ray
from scstream import ScStream
from scstream.distributed import RayExecutor
from tests.on_ray.failures import rows_of

address, folder, n_batches = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
executor = RayExecutor(address, n_workers=2, n_jobs=1, min_rows=1)
saved = folder / "m.scstream"
model = ScStream.load(saved) if saved.exists() else ScStream(random_state=0)
model.executor = executor
start = model.state_.n_batches if saved.exists() else 0
for batch in range(start, n_batches):
    print(batch, flush=True)
    model.partial_fit(rows_of(batch))
    (folder / f"labels-{batch}.json").write_text(json.dumps(model.labels_.tolist()))
    model.save(saved)
"""


def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(cluster: Cluster, tmp_path: Path):
    n_batches = 6
    line = [sys.executable, "-c", DRIVER, cluster.address, str(tmp_path), str(n_batches)]
    first = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    while first.stdout.readline().strip() != "3":
        assert first.poll() is None
    time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert eventually(lambda: n_actors() == 0)
    second = subprocess.run(
        line, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=400
    )
    assert second.stdout.split()[0] in ("3", "4")
    model = ScStream(random_state=0)
    for batch in range(n_batches):
        model.partial_fit(rows_of(batch))
        said = json.loads((tmp_path / f"labels-{batch}.json").read_text())
        assert model.labels_.tolist() == said
    assert digest(ScStream.load(tmp_path / "m.scstream").state_) == digest(model.state_)


SESSIONS = """
import sys
import ray
from scstream import ScStream
from scstream.distributed import RayExecutor
from tests.on_ray.failures import rows_of

executor = RayExecutor(sys.argv[1], n_workers=1, n_jobs=1, min_rows=1, deadline=30.0)
model = ScStream(random_state=0, executor=executor).partial_fit(rows_of(0))
ray.shutdown()
model.partial_fit(rows_of(1))
ray.shutdown()
executor.close()
assert not ray.is_initialized()
print(model.labels_.sum())
"""


def test_a_driver_that_leaves_the_cluster_hires_anew(cluster: Cluster):
    line = [sys.executable, "-c", SESSIONS, cluster.address]
    done = subprocess.run(
        line, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=400
    )
    model = ScStream(random_state=0).partial_fit(rows_of(0)).partial_fit(rows_of(1))
    assert int(done.stdout) == model.labels_.sum()
