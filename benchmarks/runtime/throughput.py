"""What the runtime costs: NATS -> model -> NATS through a pipeline, and as a bare loop.

Batches of 1000 rows, D = 16, K about 30, messages in Arrow or JSON (``--format``). "memory" is
`partial_fit` on arrays in memory. "bare" is what one would write in a notebook: nats-py, pyarrow or
json, and `partial_fit`, with neither checkpoints nor checks; "confirmed" waits for the server after
every message. "one" is a pipeline that decodes in its own process, "two" one with two decoding
processes; their labels must be the same. All run on the same server, in turns, in processes of
their own, and ratios are those of a turn. Times are those of the whole run after the imports,
decoding processes that start included: a pipeline reads ahead, so a part of the run would have rows
that were decoded before it. On a machine with other work, compare "cpu": CPU seconds of the
process, all threads; "decoders_cpu" are those of the decoding processes.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nats
import numpy as np
import pyarrow as pa

from benchmarks.results_io import RESULTS
from tests.servers import NatsServer

N_FEATURES, N_CLUSTERS, N_ROWS = 16, 30, 1000
NAMES = [f"x{d}" for d in range(N_FEATURES)]
STREAMS = ("bare", "confirmed", "labels")
PIPELINES = {"one": 0, "two": 2}  # decoding processes
WAYS = ("memory", "bare", "confirmed", *PIPELINES)
RATIOS = (("one", "memory"), ("two", "memory"), ("two", "bare"), ("two", "one"))


def rows_of(seed: int) -> np.ndarray:  # (N_ROWS, N_FEATURES)
    """Rows of the clusters."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(N_CLUSTERS, N_FEATURES)) * 4.0
    return centres[rng.integers(N_CLUSTERS, size=N_ROWS)] + rng.normal(size=(N_ROWS, N_FEATURES))


def message(seed: int, format: str = "arrow") -> bytes:
    """Rows of the clusters as a message."""
    X = rows_of(seed)
    if format == "json":
        return b"\n".join(json.dumps(dict(zip(NAMES, row, strict=True))).encode() for row in X)
    return arrow({name: pa.array(column) for name, column in zip(NAMES, X.T, strict=True)})


def arrow(columns: dict[str, Any]) -> bytes:
    """Columns as an Arrow stream."""
    table = pa.record_batch(list(columns.values()), names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(table)
    return sink.getvalue().to_pybytes()


def rows_in(content: bytes, format: str) -> np.ndarray:  # (N_ROWS, N_FEATURES)
    """Decode a message as one would in a notebook."""
    if format == "json":
        rows = [json.loads(line) for line in content.splitlines()]
        return np.array([[row[name] for name in NAMES] for row in rows])
    table = pa.ipc.open_stream(content).read_all()
    return np.column_stack([column.to_numpy() for column in table.columns])


async def fill(url: str, n_batches: int, format: str) -> None:
    """Make the streams; put the rows into one of them."""
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(name="rows", subjects=["rows"])
    for name in STREAMS:
        await stream.add_stream(name=name, subjects=[name])
    contents = [message(seed, format) for seed in range(50)]
    for number in range(n_batches):
        await stream.publish("rows", contents[number % 50])
    await client.close()


def in_memory(n_batches: int) -> dict[str, Any]:
    """Learn arrays."""
    from scstream import ScStream

    arrays, model = [rows_of(seed) for seed in range(50)], ScStream(random_state=0)
    start, cpu = time.monotonic(), time.process_time()
    for number in range(n_batches):
        model.partial_fit(arrays[number % 50])
    used = time.process_time() - cpu
    return {"seconds": time.monotonic() - start, "clusters": model.n_clusters_, "cpu": used}


async def bare(url: str, n_batches: int, format: str, *, confirmed: bool) -> dict[str, Any]:
    """Consume, learn, publish; `confirmed` waits for the server after every message."""
    from scstream import ScStream

    client = await nats.connect(url)
    stream = client.jetstream()
    consumer = await stream.pull_subscribe("rows", stream="rows")
    model, done = ScStream(random_state=0), 0
    start, cpu = time.monotonic(), time.process_time()
    while done < n_batches:
        for incoming in await consumer.fetch(50, timeout=5):
            model.partial_fit(rows_in(incoming.data, format))
            labels = arrow({"cluster": pa.array(model.labels_)})
            if confirmed:
                await stream.publish("confirmed", labels)
            else:
                await client.publish("bare", labels)
            await incoming.ack()
            done += 1
    await client.flush()
    seconds, used = time.monotonic() - start, time.process_time() - cpu
    await client.close()
    return {"seconds": seconds, "clusters": model.n_clusters_, "cpu": used}


def pipeline(url: str, n_batches: int, format: str, *, decoders: int) -> dict[str, Any]:
    """Do the same as a pipeline, with checkpoints at their usual pace."""
    from scstream.observe.events import BatchLearned, Started, Stopped
    from scstream.stream.config import build

    times, clusters, digest, cpu = [], [0], hashlib.sha256(), []

    def emit(event):
        if isinstance(event, Started | Stopped):
            times.append((time.monotonic(), time.process_time()))
        elif isinstance(event, BatchLearned):
            clusters[0] = event.clusters
            if event.batch + 1 == n_batches:  # the decoding processes still run
                cpu.append(children_cpu())

    source = {"kind": "nats", "url": url, "stream": "rows", "format": format}
    sink = {"kind": "nats", "url": url, "stream": "labels", "subject": "labels"}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        settings = {
            "job": f"throughput{time.time_ns()}",
            "source": {**source, "decoders": decoders},
            "sink": {**sink, "format": "arrow"},
            "model": {"random_state": 0},
            "checkpoint": {"folder": folder},
        }
        built = build(settings, emit=emit)
        built.on_batch = lambda _, learned: digest.update(learned.labels.tobytes())
        built.run(until=n_batches)
    (start, cpu_before), (end, cpu_after) = times
    return {
        "seconds": end - start,
        "clusters": clusters[0],
        "labels": digest.hexdigest()[:16],
        "cpu": cpu_after - cpu_before,
        "decoders_cpu": cpu[0],
    }


def children_cpu() -> float:
    """CPU seconds of the processes that this one has started and that still run."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == os.getpid():
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def one(way: str, url: str, n_batches: int, format: str) -> dict[str, Any]:
    """Run one way in this process."""
    if way == "memory":
        return in_memory(n_batches)
    if way in PIPELINES:
        return pipeline(url, n_batches, format, decoders=PIPELINES[way])
    return asyncio.run(bare(url, n_batches, format, confirmed=way == "confirmed"))


def apart(way: str, url: str, n_batches: int, format: str) -> dict[str, Any]:
    """Run one way in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.runtime.throughput", "--way", way, "--url", url]
    command += ["--batches", str(n_batches), "--format", format]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


async def emptied(url: str) -> None:
    """Empty the streams of labels."""
    client = await nats.connect(url)
    for name in STREAMS:
        await client.jetstream().purge_stream(name)
    await client.close()


def compare(n_batches: int, n_rounds: int, format: str, ways: tuple[str, ...]) -> list[dict]:
    """Run the ways in turns on one server."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, NatsServer(folder) as server:
        asyncio.run(fill(server.url, n_batches, format))
        for turn in range(n_rounds):
            for way in ways:
                asyncio.run(emptied(server.url))
                figures = {"labels": "", "decoders_cpu": 0.0}
                figures |= apart(way, server.url, n_batches, format)
                figures["load"] = os.getloadavg()[0]
                rate = n_batches * N_ROWS / figures["seconds"]
                rows.append({"format": format, "round": turn, "way": way, "rows_per_s": rate})
                rows[-1] |= {name: figures[name] for name in sorted(figures)}
                print(f"{way:<10} {rate:>10,.0f} rows/s  {figures}", flush=True)
    assert len({row["labels"] for row in rows if row["labels"]}) <= 1, "labels differ"
    return rows


def ratios(rows: list[dict[str, Any]]) -> None:
    """Print the ratios of the rates in the same turn: median, best and worst."""
    rate = {(row["round"], row["way"]): row["rows_per_s"] for row in rows}
    turns = sorted({turn for turn, _ in rate})
    for way, other in RATIOS:
        if (0, way) in rate and (0, other) in rate:
            found = [rate[turn, way] / rate[turn, other] for turn in turns]
            print(
                f"{way} / {other}: median {statistics.median(found):.2f}, "
                f"best {max(found):.2f}, worst {min(found):.2f}"
            )


def main() -> None:
    """Compare, print the ratios and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--format", choices=("arrow", "json"), default="arrow")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--url")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results")
    chosen = parser.parse_args()
    if chosen.way:
        print(json.dumps(one(chosen.way, chosen.url, chosen.batches, chosen.format)))
        return
    rows = compare(chosen.batches, chosen.rounds, chosen.format, tuple(chosen.ways))
    ratios(rows)
    if chosen.keep:
        with Path(RESULTS, f"runtime-throughput-{chosen.format}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
