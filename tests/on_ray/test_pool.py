"""A pool of models on real workers, hired, dismissed and killed amid batches: as in one process."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer

import numpy as np
import pytest
import ray

from scstream.distributed import keyed_workers as workers_module
from scstream.distributed.keyed_pool import RayPool
from scstream.errors import EngineError
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.config import build
from scstream.stream.keyed import model_file
from scstream.stream.pool import ModelPool
from scstream.stream.processor import Learned
from scstream.stream.progress import Progress
from scstream.stream.store import FolderStore
from tests.on_ray.cluster import Cluster, alive

N_KEYS = 500
PARAMS = {"random_state": 3, "n_jobs": 1}


def make_batch(number: int, *, n_keys: int = N_KEYS) -> SourceBatch:
    """Rows of half of the keys, four each, mixed."""
    rng = np.random.default_rng(number)
    key = rng.permutation(np.repeat(rng.choice(n_keys, n_keys // 2, replace=False), 4))
    X = rng.normal(size=(len(key), 2)) + 9.0 * rng.integers(0, 2, size=(len(key), 1))
    who = np.array([f"key-{k}" for k in key], dtype=object)
    return SourceBatch(number, {}, None, Block.of(X, who=who), ())


def in_one_process(folder: Path, **options: object) -> ModelPool:
    return ModelPool.build(PARAMS, Steps(), column="who", store=FolderStore(folder), **options)


def same(learned: Learned, other: Learned) -> None:
    np.testing.assert_array_equal(learned.labels, other.labels)
    np.testing.assert_array_equal(learned.block.row, other.block.row)
    assert learned.block.rejects == other.block.rejects
    assert (learned.n_clusters, learned.info) == (other.n_clusters, other.info)


def files_of(pool: ModelPool) -> dict[str, bytes]:
    return {key: model_file(pool.model(key), key) for key in pool.keys}


def pid_of(pool: RayPool, name: str) -> int:
    call = pool._workers._actors[name].__ray_call__.remote(lambda _: os.getpid())
    return int(ray.get(call, timeout=300))


def pid_of_live_worker(pool: RayPool) -> int:
    """The first worker that answers; one that was killed before may not be noticed yet."""
    for name in pool.workers:
        with suppress(ray.exceptions.RayActorError):
            return pid_of(pool, name)
    raise AssertionError("every worker is dead")


def in_use() -> float:
    """Processors that actors have taken."""
    return float(ray.cluster_resources()["CPU"] - ray.available_resources().get("CPU", 0.0))


def wait_until(condition: object, seconds: float = 30.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def make(cluster: Cluster, tmp_path: Path) -> Iterator[object]:
    """Pools of this cluster, closed at the end; all in one folder."""
    made: list[RayPool] = []
    before = in_use()

    def pool(**options: object) -> RayPool:
        made.append(
            RayPool.build(
                PARAMS,
                Steps(),
                column="who",
                store=FolderStore(tmp_path / "shared"),
                address=cluster.address,
                **options,
            )
        )
        return made[-1]

    yield pool
    for each in made:
        each.close()
    wait_until(lambda: in_use() <= before)  # no actor is left


def test_join_leave_and_kill_amid_batches(make, tmp_path: Path):
    options = {"max_keys": N_KEYS - 20, "memory": "4MB", "segment": "200kB"}
    source_batches = [make_batch(number) for number in range(8)]
    alone = in_one_process(tmp_path / "alone", **options)
    batches = [alone.learn(source_batch) for source_batch in source_batches]
    pool = make(workers=2, **options)
    sizes = {0: 2, 1: 3, 3: 1, 5: 2}  # workers, from which batch on
    for number, other in enumerate(batches):
        if number in sizes:
            pool.rescale(sizes[number])
            wait_until(lambda: len(pool._workers.refresh()) == pool._workers.n_wanted)
        if number in (2, 6, 7):
            pid = pid_of_live_worker(pool)
            Timer(0.04 * (number - 2), os.kill, (pid, signal.SIGKILL)).start()
        same(pool.learn(source_batches[number]), other)
        assert number not in sizes or len(pool.workers) == sizes[number]
        if number == 5:
            write = pool.freeze()
    assert any(batch.block.rejects for batch in batches)
    assert alone.n_evicted > 100
    assert files_of(pool) == files_of(alone)
    pool.close()
    content = write(Progress(6))
    for again in (make(workers=1, **options), in_one_process(tmp_path / "shared", **options)):
        assert again.restore(content, name="c").batch == 6
        same(again.learn(source_batches[6]), batches[6])


def test_workers_follow_the_nodes(make, cluster: Cluster, tmp_path: Path):
    source_batches = [make_batch(number, n_keys=60) for number in range(6)]
    alone, pool = in_one_process(tmp_path / "alone"), make()

    def learn(number: int) -> int:
        same(pool.learn(source_batches[number]), alone.learn(source_batches[number]))
        return len(pool.workers)

    wait_until(lambda: len(alive()) == 1)  # after tests before this one
    assert learn(0) == 4
    node = cluster.add_node(n_cpus=2)
    learn(1)  # two more are asked for
    wait_until(lambda: len(pool._workers.refresh()) == 6)
    assert learn(2) == 6
    node.kill()
    learn(3)
    wait_until(lambda: len(alive()) == 1)
    learn(4)
    assert learn(5) == 4


def test_a_pipeline_with_workers(cluster: Cluster, tmp_path: Path):
    rng = np.random.default_rng(3)
    rows = "".join(
        json.dumps({"who": f"key-{i % 17}", "x": float(x), "y": float(i % 2)}) + "\n"
        for i, x in enumerate(rng.normal(size=600))
    )
    (tmp_path / "rows.jsonl").write_text(rows)
    texts = []
    for name, keys in {"alone": {}, "ray": {"workers": 2, "address": cluster.address}}.items():
        settings = {
            "job": "one",
            "source": {"kind": "file", "path": str(tmp_path / "rows.jsonl")},
            "schema": {"features": ["x", "y"], "key": "who"},
            "sink": {"kind": "file", "path": str(tmp_path / f"{name}.csv")},
            "batch": {"rows": 100},
            "checkpoint": {"folder": str(tmp_path / name), "batches": 2},
            "keys": keys,
        }
        build(settings).run(until=3)
        other = {"workers": 1, "address": cluster.address} if name == "ray" else keys
        assert build({**settings, "keys": other}).run() == 3
        texts.append((tmp_path / f"{name}.csv").read_text())
    assert texts[0] == texts[1]


def test_sentences(make, monkeypatch):
    crowd = make(workers=9)
    with monkeypatch.context() as patch:
        patch.setattr(workers_module, "_START", 3.0)
        with pytest.raises(
            EngineError, match=r"\d of 9 workers of the pool have started: .*status"
        ):
            crowd.learn(make_batch(0, n_keys=5))
    crowd.close()
    elsewhere = make(workers=1)
    monkeypatch.setattr(elsewhere._workers._store, "put", lambda name, content: None)
    with pytest.raises(EngineError, match="does not see the checkpoints"):
        elsewhere.learn(make_batch(0, n_keys=5))
    hasty = make(workers=1, deadline=0.001)
    with pytest.raises(EngineError, match=r"has not answered within 0\.001 s"):
        hasty.learn(make_batch(0))
