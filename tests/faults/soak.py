"""Rows through Redis into a model and back to Redis, for long: memory and time must not grow.

A message holds 1,000 rows. Rows are sent as they are needed, and both streams are trimmed, so that
the broker keeps little.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from scstream.model import Model
from scstream.stream.batcher import SourceBatch
from scstream.stream.config import build
from scstream.stream.processor import Learned, OneModel
from tests.faults.kill_loop import forked, kill
from tests.servers import RedisServer

ROWS = 1000  # of a message, and of a batch
N_FEATURES = 4
_AHEAD = 400  # messages that wait in the broker, more than three checkpoints need
_ROUNDS = 40  # in which the two models learn all messages
_DISTINCT = 50  # messages, sent over and over
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Soaked:
    """What was measured; the first quarter is warm-up, the second is compared with the last.

    Times are milliseconds of processor time of a batch.
    """

    n_rows: int
    seconds: float
    memory: tuple[float, float]  # median resident megabytes
    p99: tuple[float, float]  # of the model after the warm-up and of the last, see `side_by_side`
    plain_p99: tuple[float, float]
    median: tuple[float, float]
    n_clusters: tuple[int, int]

    @property
    def memory_drift(self) -> float:
        return self.memory[1] / self.memory[0] - 1.0

    @property
    def time_drift(self) -> float:
        return self.p99[1] / self.p99[0] - 1.0


def distinct_messages() -> list[bytes]:
    """Rows of five clusters as raw numbers."""
    rng = np.random.default_rng(0)
    centres = 8.0 * rng.normal(size=(5, N_FEATURES))
    return [
        (rng.normal(size=(ROWS, N_FEATURES)) + centres[rng.integers(0, 5, ROWS)]).tobytes()
        for _ in range(_DISTINCT)
    ]


def produce(server: RedisServer, n_batches: int) -> None:
    """Send messages, never many ahead, and throw away labels that were written."""
    import redis

    client = redis.Redis.from_url(server.url)
    contents, n_sent = distinct_messages(), 0
    while True:
        for _ in range(min(_AHEAD - client.xlen("rows"), n_batches - n_sent)):
            client.xadd("rows", {"row": contents[n_sent % _DISTINCT]})
            n_sent += 1
        client.xtrim("labels", maxlen=10, approximate=False)
        time.sleep(0.01)


def soak(n_rows: int) -> Soaked:
    """Send so many rows through a pipeline."""
    n_batches = n_rows // ROWS
    with tempfile.TemporaryDirectory(prefix="scstream-soak-") as place:
        folder = Path(place)
        with RedisServer(folder / "server") as server:
            producer = forked(lambda: produce(server, n_batches), folder / "errors.txt")
            try:
                return _soaked(folder, server, n_batches)
            finally:
                kill(producer)


def _soaked(folder: Path, server: RedisServer, n_batches: int) -> Soaked:
    pipeline = build(
        {
            "source": {
                **{"kind": "redis", "url": server.url, "stream": "rows", "trim": True},
                "format": "floats",
            },
            "schema": {"features": [f"x{i}" for i in range(N_FEATURES)]},
            "model": {"random_state": 0, "n_jobs": 1},
            "batch": {"rows": ROWS},
            "sink": {"kind": "redis", "url": server.url, "stream": "labels", "format": "columns"},
            "checkpoint": {"folder": str(folder / "state"), "batches": 50},
        }
    )
    model = cast(OneModel, pipeline.processor)
    learn, young = model.learn, model.model
    quarter = n_batches // 4
    times, memory, sizes = np.zeros(n_batches), np.zeros(n_batches), np.zeros(n_batches, dtype=int)

    def watched(source_batch: SourceBatch) -> Learned:
        nonlocal young
        start = time.thread_time()
        learned = learn(source_batch)
        times[source_batch.batch] = 1e3 * (time.thread_time() - start)
        memory[source_batch.batch] = resident()
        sizes[source_batch.batch] = learned.n_clusters
        if source_batch.batch == quarter - 1:  # both models do the same number of batches mod 4
            young = model.model
        return learned

    model.learn = watched  # type: ignore[method-assign]
    start = time.monotonic()
    pipeline.run(until=n_batches)
    seconds = time.monotonic() - start
    early, late = slice(quarter, 2 * quarter), slice(-quarter, None)
    return Soaked(
        n_rows=n_batches * ROWS,
        seconds=round(seconds, 1),
        memory=(float(np.median(memory[early])), float(np.median(memory[late]))),
        p99=side_by_side(young, model.model),
        plain_p99=(float(np.percentile(times[early], 99)), float(np.percentile(times[late], 99))),
        median=(float(np.median(times[early])), float(np.median(times[late]))),
        n_clusters=(int(sizes[early][-1]), int(sizes[-1])),
    )


def side_by_side(young: Model, old: Model) -> tuple[float, float]:
    """The 99th percentile of the times of two models over all messages, each at its fastest.

    They learn the same rows by turns, because a machine is not as fast now as it was a second ago;
    and many times, because other processes only ever make it slower.
    """
    messages = [np.frombuffer(m).reshape(ROWS, N_FEATURES) for m in distinct_messages()]
    times = np.zeros((_ROUNDS, 2, _DISTINCT))
    for round_ in range(_ROUNDS):
        for place, rows in enumerate(messages):
            for who in (round_ % 2, 1 - round_ % 2):
                start = time.thread_time()
                (young, old)[who].update(rows)
                times[round_, who, place] = 1e3 * (time.thread_time() - start)
    of_young, of_old = np.percentile(times.min(axis=0), 99, axis=1)
    return float(of_young), float(of_old)


def resident() -> float:
    """Megabytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / 2**20
