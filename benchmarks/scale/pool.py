"""10,000 keyed models on two workers, of which more join, leave and are killed, and in one process.

Every batch has rows of all keys, mixed, and is learned twice: by `ModelPool` here, and by `RayPool`
on a cluster of this machine. Labels, rows refused and counts must be the same after every batch,
and the files of all models at the end, read from the checkpoint of the one by the other. Seconds
of the clock say something on a machine that does nothing else; those of processors always do.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import ray

from benchmarks.runtime.keys import digest
from scstream.distributed.keyed_pool import RayPool
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.pool import ModelPool
from scstream.stream.processor import Learned
from scstream.stream.store import FolderStore
from tests.on_ray.cluster import Cluster

N_KEYS, N_ROWS, N_FEATURES, N_CLUSTERS = 10_000, 10, 2, 3
EVENTS = {  # what happens at a batch
    3: "a worker joins",
    5: "a worker leaves",
    7: "a worker is killed",
    8: "a checkpoint after it",
}
N_BATCHES = 11
PARAMS = {"random_state": 1, "n_jobs": 1}
Row = dict[str, Any]


def run(n_keys: int = N_KEYS) -> list[Row]:
    """Return a line for every batch, and one for the models at the end."""
    os.environ.update({"RAY_worker_niceness": "0"})  # as the process they are compared with
    with tempfile.TemporaryDirectory() as folder, Cluster(n_cpus=3, store_mb=1024) as cluster:
        cluster.connect()
        alone = ModelPool.build(
            PARAMS, Steps(), column="key", store=FolderStore(Path(folder, "alone")), memory="2GB"
        )
        pool = RayPool.build(
            PARAMS,
            Steps(),
            column="key",
            store=FolderStore(Path(folder, "shared")),
            memory="2GB",
            workers=2,
            address=cluster.address,
        )
        rows = list(_batches(alone, pool, n_keys))
        rows.append(_end(alone, pool, folder))
        pool.close()
    if not all(row["same"] for row in rows):
        raise SystemExit(f"the pool differs from one process: {rows}")
    return rows


def _batches(alone: ModelPool, pool: RayPool, n_keys: int) -> Iterator[Row]:
    waited = _watched(pool)
    for number in range(N_BATCHES):
        source_batch, event = a_parcel(number, n_keys), EVENTS.get(number, "")
        cpu_alone = -time.process_time()
        seconds_alone, expected = _timed(
            lambda source_batch=source_batch: alone.learn(source_batch)
        )
        cpu_alone += time.process_time()
        _prepare(pool, event, seconds_alone)
        waited.clear()
        before = _cpu(pool)
        seconds, learned = _timed(lambda source_batch=source_batch: pool.learn(source_batch))
        cpu = {name: spent - before.get(name, 0.0) for name, spent in _cpu(pool).items()}
        driver, busiest = cpu.pop(""), max(cpu.values())
        yield {
            "batch": number,
            "event": event,
            "workers": len(pool.workers),
            "keys": len(pool.keys),
            "rows": len(learned.labels),
            "one_process_s": round(seconds_alone, 2),
            "pool_s": round(seconds, 2),
            "of_it_waiting_s": round(sum(waited), 2),
            "times_as_fast": round(seconds_alone / seconds, 2),
            "one_process_cpu_s": round(cpu_alone, 2),
            "driver_cpu_s": round(driver, 2),
            "busiest_worker_cpu_s": round(busiest, 2),
            "workers_cpu_s": round(sum(cpu.values()), 2),
            "times_as_fast_by_cpu": round(cpu_alone / (driver + busiest), 2),
            "checkpoint_s": round(_timed(pool.freeze)[0], 2) if "checkpoint" in event else "",
            "same": _same(learned, expected),
        }


def _cpu(pool: RayPool) -> dict[str, float]:
    """Seconds of a processor that workers have used so far, and this process under no name."""
    asked = {
        f"{name}/{actor._actor_id.hex()}": actor.__ray_call__.remote(lambda _: time.process_time())
        for name, actor in pool._workers._actors.items()
    }
    return {"": time.process_time()} | {name: ray.get(each) for name, each in asked.items()}


def _prepare(pool: RayPool, event: str, seconds: float) -> None:
    """Bring about what is to happen at a batch that takes one process so long."""
    if event in ("a worker joins", "a worker leaves"):
        pool.rescale(3 if "joins" in event else 2)
        while len(pool._workers.refresh()) != pool._workers.n_wanted:
            time.sleep(0.05)
    if "killed" in event:
        actor = pool._workers._actors[pool.workers[0]]
        pid = ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))
        Timer(seconds / 4, os.kill, (pid, signal.SIGKILL)).start()


def _end(alone: ModelPool, pool: RayPool, folder: str) -> Row:
    """Whether all models are the same, read by a pool of the other kind."""
    content = pool.freeze()({})
    read = ModelPool.build(
        PARAMS, Steps(), column="key", store=FolderStore(Path(folder, "shared")), memory="2GB"
    )
    read.restore(content, name="the checkpoint of the pool on Ray")
    same = digest(read) == digest(alone)
    return {"event": "files of all models", "keys": len(read.keys), "same": same}


def a_parcel(number: int, n_keys: int) -> SourceBatch:
    """Rows of all keys, mixed; every key has clusters of its own that drift."""
    rng = np.random.default_rng(number)
    key = rng.permutation(np.repeat(np.arange(n_keys), N_ROWS))
    centres = np.random.default_rng(9).normal(0, 8, (n_keys, N_CLUSTERS, N_FEATURES))
    cluster = rng.integers(0, N_CLUSTERS, len(key))
    X = centres[key, cluster] + 0.05 * number + rng.normal(size=(len(key), N_FEATURES))
    names = np.array([f"device-{k:05d}" for k in range(n_keys)], dtype=object)
    return SourceBatch(number, {}, None, Block.of(X, key=names[key]), ())


def _same(learned: Learned, other: Learned) -> bool:
    return (
        learned.labels.tobytes() == other.labels.tobytes()
        and learned.block.row.tobytes() == other.block.row.tobytes()
        and learned.block.rejects == other.block.rejects
        and (learned.n_clusters, learned.n_events) == (other.n_clusters, other.n_events)
    )


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def _watched(pool: RayPool) -> list[float]:
    """Seconds of every call of the workers, from now on."""
    waited: list[float] = []
    call = pool._workers.call

    def watched(*arguments: Any) -> Any:
        seconds, results = _timed(lambda: call(*arguments))
        waited.append(seconds)
        return results

    pool._workers.call = watched  # type: ignore[method-assign]
    return waited


if __name__ == "__main__":
    from benchmarks.scale.cli import main

    main(["pool"])
