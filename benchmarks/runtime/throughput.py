"""What the runtime costs: NATS -> model -> NATS through `scstream run`, and as a bare loop.

Batches of 1000 rows, D = 16, K about 30, Arrow messages. The bare loop is what one would write in a
notebook: nats-py, pyarrow and `partial_fit`, with neither checkpoints nor checks. Both run
on the same server, in turns, in processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nats
import numpy as np
import pyarrow as pa

from benchmarks.results_io import RESULTS
from tests.servers import NatsServer

N_FEATURES, N_CLUSTERS, N_ROWS = 16, 30, 1000
NAMES = [f"x{d}" for d in range(N_FEATURES)]


def message(seed: int) -> bytes:
    """Rows of the clusters as an Arrow stream."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(N_CLUSTERS, N_FEATURES)) * 4.0
    X = centres[rng.integers(N_CLUSTERS, size=N_ROWS)] + rng.normal(size=(N_ROWS, N_FEATURES))
    table = pa.record_batch([pa.array(column) for column in X.T], names=NAMES)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(table)
    return sink.getvalue().to_pybytes()


async def fill(url: str, n_batches: int) -> None:
    """Make the streams; put the rows into one of them."""
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(name="rows", subjects=["rows"])
    for name in ("bare", "confirmed", "labels"):
        await stream.add_stream(name=name, subjects=[name])
    for seed in range(n_batches):
        await stream.publish("rows", message(seed % 50))
    await client.close()


async def bare(url: str, n_batches: int, *, confirmed: bool) -> dict[str, float]:
    """Consume, learn, publish; `confirmed` waits for the server after every message."""
    from scstream import ScStream

    client = await nats.connect(url)
    stream = client.jetstream()
    consumer = await stream.pull_subscribe("rows", stream="rows")
    model, done, start = ScStream(random_state=0), 0, 0.0
    while done < n_batches:
        for incoming in await consumer.fetch(50, timeout=5):
            table = pa.ipc.open_stream(incoming.data).read_all()
            X = np.column_stack([column.to_numpy() for column in table.columns])
            model.partial_fit(X)
            labels = pa.record_batch([pa.array(model.labels_)], names=["cluster"])
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, labels.schema) as writer:
                writer.write_batch(labels)
            if confirmed:
                await stream.publish("confirmed", sink.getvalue().to_pybytes())
            else:
                await client.publish("bare", sink.getvalue().to_pybytes())
            await incoming.ack()
            done += 1
            if done == 1:
                start = time.monotonic()  # the first batch is another kind of work
    await client.flush()
    seconds = time.monotonic() - start
    await client.close()
    return {"seconds": seconds, "clusters": model.n_clusters_}


def runtime(url: str, n_batches: int) -> dict[str, float]:
    """Do the same as a pipeline, with checkpoints at their usual pace."""
    from scstream.observe.events import BatchLearned, Stopped
    from scstream.stream.config import build

    times, clusters = [], [0]

    def emit(event):
        if isinstance(event, BatchLearned):
            times.append(time.monotonic())
            clusters[0] = event.clusters
        elif isinstance(event, Stopped):
            times.append(time.monotonic())

    with tempfile.TemporaryDirectory(dir=".") as folder:
        pipeline = build(
            {
                "job": f"throughput{time.time_ns()}",
                "source": {"kind": "nats", "url": url, "stream": "rows", "format": "arrow"},
                "sink": {
                    "kind": "nats",
                    "url": url,
                    "stream": "labels",
                    "subject": "labels",
                    "format": "arrow",
                },
                "model": {"random_state": 0},
                "checkpoint": {"folder": folder},
            },
            emit=emit,
        )
        pipeline.run(until=n_batches)
    return {"seconds": times[-1] - times[0], "clusters": clusters[0]}


WAYS = ("bare", "confirmed", "runtime")


def one(way: str, url: str, n_batches: int) -> dict[str, float]:
    """Run one way in this process."""
    if way == "runtime":
        return runtime(url, n_batches)
    return asyncio.run(bare(url, n_batches, confirmed=way == "confirmed"))


def apart(way: str, url: str, n_batches: int) -> dict[str, float]:
    """Run one way in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.runtime.throughput", "--way", way, "--url", url]
    done = subprocess.run(
        [*command, "--batches", str(n_batches)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


async def emptied(url: str) -> None:
    """Empty the streams of labels."""
    client = await nats.connect(url)
    for name in ("bare", "confirmed", "labels"):
        await client.jetstream().purge_stream(name)
    await client.close()


def compare(n_batches: int, n_rounds: int) -> list[dict[str, float | str]]:
    """Run all ways in turns on one server."""
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as folder, NatsServer(folder) as server:
        asyncio.run(fill(server.url, n_batches))
        for turn in range(n_rounds):
            for way in WAYS:
                asyncio.run(emptied(server.url))
                figures = apart(way, server.url, n_batches)
                rate = (n_batches - 1) * N_ROWS / figures["seconds"]
                rows.append({"round": turn, "way": way, "rows_per_s": rate, **figures})
                print(f"{way:<10} {rate:>10,.0f} rows/s  K = {figures['clusters']}", flush=True)
    return rows


def main() -> None:
    """Compare, print the ratios and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--url")
    chosen = parser.parse_args()
    if chosen.way:
        print(json.dumps(one(chosen.way, chosen.url, chosen.batches)))
        return
    rows = compare(chosen.batches, chosen.rounds)
    path = Path(RESULTS, "runtime-throughput.csv")
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    rate = {
        way: statistics.median(float(row["rows_per_s"]) for row in rows if row["way"] == way)
        for way in WAYS
    }
    for way in WAYS[:-1]:
        print(f"runtime / {way}: {rate['runtime'] / rate[way]:.2f}")


if __name__ == "__main__":
    main()
