"""Thousands of models in one process: ``python -m benchmarks.runtime.keys``.

5,000 keys with 100 rows each in every batch, D = 4. One run holds all models in memory, another
about a third of them, and a third has rows of a tenth of the keys in each batch, some keys far more
often than others. The later ones go on from a checkpoint of the first after one batch. The first
two must give the same labels and models bit for bit. Writes
``benchmarks/results/runtime-keys.csv``, a line for each batch.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_io import RESULTS
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.keyed import model_file
from scstream.stream.pool import ModelPool
from scstream.stream.progress import Progress
from scstream.stream.store import FolderStore

N_KEYS, N_ROWS, N_FEATURES, N_CLUSTERS = 5000, 100, 4, 4
RUNS = {  # bytes of memory for each key, share of the keys in a batch
    "all in memory": (1_000_000, 1.0),
    "a third in memory": (7_000, 1.0),
    "a third in memory, few keys at a time": (7_000, 0.1),
}
CHECKPOINT = 3  # batches


def main() -> None:
    """Measure every run in a process of its own, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=13)
    parser.add_argument("--keys", type=int, default=N_KEYS)
    parser.add_argument("--run", choices=RUNS)
    parser.add_argument("--start", type=Path, help="folder of the first checkpoint")
    parser.add_argument("--quick", action="store_true", help="200 keys; write nothing")
    choice = parser.parse_args()
    if choice.run:
        for line in measured(
            choice.run, choice.start, n_batches=choice.batches, n_keys=choice.keys
        ):
            print(json.dumps(line), flush=True)
        return
    n_keys = 200 if choice.quick else choice.keys
    with tempfile.TemporaryDirectory() as folder:
        lines = [line for name in RUNS for line in _apart(name, folder, choice.batches, n_keys)]
    full = [line for line in lines if "few" not in line["run"]]
    ends = {line["models"] for line in full if line["models"]}
    labels = {(line["batch"], line["labels"]) for line in full}
    same = len(ends) == 1 and len(labels) == choice.batches
    print(f"evicted models bit-identical to those never evicted: {same}")
    if not same:
        sys.exit(1)
    if not choice.quick:
        with (RESULTS / "runtime-keys.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
            table.writeheader()
            table.writerows(lines)


def measured(run: str, start: Path, *, n_batches: int, n_keys: int) -> Iterator[dict[str, Any]]:
    """Yield what each batch took; the first run leaves a checkpoint at `start`."""
    memory, share = RUNS[run]
    with tempfile.TemporaryDirectory() as folder:
        if any(start.iterdir()):
            shutil.copytree(start, folder, dirs_exist_ok=True)
        store = FolderStore(folder)
        checkpoint_log = CheckpointLog(store, newest=2, hourly=0)
        checkpoint_log.claim(time=0.0)
        pool = ModelPool.build(
            {"random_state": 1}, Steps(), column="key", store=store, memory=memory * n_keys
        )
        begin, first = rss(), 0
        for name, content in checkpoint_log.checkpoints():
            first = pool.restore(content, name=name).batch
        for number in range(first, n_batches):
            yield (
                {"run": run}
                | _measured_batch(
                    pool, checkpoint_log, a_parcel(number, share=share, n_keys=n_keys), begin=begin
                )
                | {"models": digest(pool) if number == n_batches - 1 else ""}
            )
            if number == 0:
                shutil.copytree(folder, start, dirs_exist_ok=True)


def _measured_batch(
    pool: ModelPool, checkpoint_log: CheckpointLog, source_batch: SourceBatch, *, begin: int
) -> dict[str, Any]:
    before = pool.n_loaded, pool.n_evicted
    started, cpu = time.perf_counter(), time.process_time()
    labels = pool.learn(source_batch).labels
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    freeze = write = write_cpu = 0.0
    if source_batch.batch % CHECKPOINT == 0:
        freeze, write, write_cpu = _checkpointed(pool, checkpoint_log, source_batch.batch + 1)
    names = checkpoint_log.store.names("segment-")
    return {
        "batch": source_batch.batch,
        "rows": len(labels),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "rows_per_cpu_second": round(len(labels) / cpu),
        "loaded": pool.n_loaded - before[0],
        "evicted": pool.n_evicted - before[1],
        "models_mb": round(pool.n_bytes / 1e6, 1),
        "rss_mb": round(rss() / 1e6, 1),
        "rss_above_start_mb": round((rss() - begin) / 1e6, 1),
        "freeze_ms": round(freeze * 1e3, 2),
        "checkpoint_seconds": round(write, 3),
        "checkpoint_cpu_seconds": round(write_cpu, 3),
        "segments": len(names),
        "segments_mb": round(sum(len(checkpoint_log.store.get(name)) for name in names) / 1e6, 1),
        "labels": hashlib.sha256(labels.tobytes()).hexdigest()[:16],
    }


def a_parcel(number: int, *, share: float, n_keys: int) -> SourceBatch:
    """Rows of some keys, shuffled; every key has four clusters of its own that drift."""
    rng = np.random.default_rng(number)
    popularity = 1.0 / np.arange(1, n_keys + 1)
    n_chosen = max(int(share * n_keys), 1)
    chosen = (
        np.arange(n_keys)
        if share == 1.0
        else rng.choice(n_keys, n_chosen, replace=False, p=popularity / popularity.sum())
    )
    key = rng.permutation(np.repeat(chosen, N_ROWS))
    centres = np.random.default_rng(9).normal(0, 8, (n_keys, N_CLUSTERS, N_FEATURES))
    cluster = rng.integers(0, N_CLUSTERS, len(key))
    X = centres[key, cluster] + 0.05 * number + rng.normal(size=(len(key), N_FEATURES))
    names = np.array([f"device-{k:05d}" for k in range(n_keys)], dtype=object)
    return SourceBatch(number, {}, None, Block.of(X, key=names[key]), ())


def digest(pool: ModelPool) -> str:
    """One digest of the files of all models."""
    found = hashlib.sha256()
    for key in sorted(pool.keys):
        found.update(model_file(pool.model(key), key))
    return found.hexdigest()[:16]


def rss() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _checkpointed(
    pool: ModelPool, checkpoint_log: CheckpointLog, batch: int
) -> tuple[float, float, float]:
    """Write a checkpoint; return what the freeze took, and the rest, by the clock and in CPU."""
    started = time.perf_counter()
    write = pool.freeze()
    frozen, cpu = time.perf_counter(), time.process_time()
    progress = Progress(batch, float(batch))
    checkpoint_log.publish(write(progress), time=float(batch), batch=batch)
    checkpoint_log.prune(time=float(batch))
    return frozen - started, time.perf_counter() - frozen, time.process_time() - cpu


def _apart(name: str, start: str, n_batches: int, n_keys: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.runtime.keys", "--run", name]
    command += ["--start", start, "--batches", str(n_batches), "--keys", str(n_keys)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    found = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for text in process.stdout:
            found.append(json.loads(text))
            print(text, end="", file=sys.stderr, flush=True)
    if process.returncode:
        sys.exit(process.returncode)
    return found


if __name__ == "__main__":
    main()
