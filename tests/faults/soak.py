"""Rows through Redis into a model and back to Redis, for long: memory and time must not grow.

Rows are sent as they are needed, and both streams are trimmed, so that the broker keeps little.
Some rows cannot be used and become dead letters, clusters get names, and alert rules watch.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from scstream.model import Model
from scstream.stream.batcher import SourceBatch
from scstream.stream.config import build
from scstream.stream.edit_queue import EditRequest, submit
from scstream.stream.processor import Learned, OneModel
from tests.faults.kill_loop import forked, kill
from tests.servers import RedisServer

ROWS = 1000  # of a message, and of a batch, unless others are asked for
N_FEATURES = 4
_AHEAD = 400  # messages that wait in the broker, more than three checkpoints need
_PERIOD = 4  # batches after which moves of a model begin again
_ROUNDS = 20  # in which the two models learn all messages
_DISTINCT = 50  # messages, sent over and over
_EDIT_EVERY = 20  # batches
_ROTATED = {"max_bytes": 4096, "max_files": 3}  # so small that files of dead letters come and go
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
    disk: tuple[float, float]  # median megabytes of checkpoints and dead letters
    n_edits: int = 0
    n_rejected: int = 0

    @property
    def memory_drift(self) -> float:
        return self.memory[1] / self.memory[0] - 1.0

    @property
    def time_drift(self) -> float:
        return self.p99[1] / self.p99[0] - 1.0


def distinct_messages(n_rows: int = ROWS) -> list[bytes]:
    """Rows of five clusters as raw numbers; one row of every tenth message has no number."""
    rng = np.random.default_rng(0)
    centres = 8.0 * rng.normal(size=(5, N_FEATURES))
    messages = []
    for place in range(_DISTINCT):
        rows = rng.normal(size=(n_rows, N_FEATURES)) + centres[rng.integers(0, 5, n_rows)]
        if place % 10 == 9:
            rows[7, 1] = np.nan
        messages.append(rows.tobytes())
    return messages


def produce(server: RedisServer, n_messages: int, n_rows: int) -> None:
    """Send messages, never many ahead, and throw away labels that were written."""
    import redis

    client = redis.Redis.from_url(server.url)
    contents, n_sent = distinct_messages(n_rows), 0
    while True:
        for _ in range(min(_AHEAD - client.xlen("rows"), n_messages - n_sent)):
            client.xadd("rows", {"row": contents[n_sent % _DISTINCT]})
            n_sent += 1
        client.xtrim("labels", maxlen=10, approximate=False)
        time.sleep(0.01)


def soak(n_rows: int, batch_rows: int = ROWS) -> Soaked:
    """Send so many rows through a pipeline."""
    n_batches = n_rows // batch_rows
    # So that the models after a quarter and at the end have the same moves before them.
    assert n_batches % (4 * _PERIOD) == 0, f"{n_batches} batches are not a multiple of 16"
    n_messages = n_batches + n_batches // 1000 + 2  # for the rows that cannot be used
    with tempfile.TemporaryDirectory(prefix="scstream-soak-") as place:
        folder = Path(place)
        with RedisServer(folder / "server") as server:
            send = partial(produce, server, n_messages, batch_rows)
            producer = forked(send, folder / "errors.txt")
            try:
                return _soaked(folder, server, n_batches, batch_rows)
            finally:
                kill(producer)


def _soaked(folder: Path, server: RedisServer, n_batches: int, batch_rows: int) -> Soaked:
    dead = {"kind": "file", "path": str(folder / "dead" / "letters.jsonl"), **_ROTATED}
    (folder / "dead").mkdir()
    pipeline = build(
        {
            "source": {
                **{"kind": "redis", "url": server.url, "stream": "rows", "trim": True},
                "format": "floats",
            },
            "schema": {"features": [f"x{i}" for i in range(N_FEATURES)]},
            "model": {"random_state": 0, "n_jobs": 1, "max_events": 10},
            "batch": {"rows": batch_rows},
            "sink": {"kind": "redis", "url": server.url, "stream": "labels", "format": "columns"},
            "dead_letters": dead,
            "alerts": {"novelty": 0.5, "rejected": 0.5, "births": True, "deaths": True},
            "checkpoint": {"folder": str(folder / "state"), "batches": 50},
        }
    )
    model = cast(OneModel, pipeline.processor)
    learn, young = model.learn, model.model
    quarter = n_batches // 4
    times, memory, disk = np.zeros(n_batches), np.zeros(n_batches), np.zeros(n_batches)
    sizes = np.zeros(n_batches, dtype=int)
    n_edits = n_rejected = 0

    def watched(source_batch: SourceBatch) -> Learned:
        nonlocal young, n_edits, n_rejected
        start = time.thread_time()
        learned = learn(source_batch)
        batch = source_batch.batch
        times[batch] = 1e3 * (time.thread_time() - start)
        memory[batch] = resident()
        sizes[batch] = learned.n_clusters
        n_rejected += len(learned.block.rejects)
        if batch % _EDIT_EVERY == 0:
            disk[batch : batch + _EDIT_EVERY] = megabytes(folder / "state", folder / "dead")
            ids = learned.labels[learned.labels >= 0]
            request = EditRequest("name", id=int(ids[0]), name=f"named before {batch + 1}")
            submit(pipeline.checkpoint_log.store, request)
            n_edits += 1
        if batch == quarter - 1:
            young = model.model
        return learned

    model.learn = watched  # type: ignore[method-assign]
    start = time.monotonic()
    pipeline.run(until=n_batches)
    seconds = time.monotonic() - start
    early, late = slice(quarter, 2 * quarter), slice(-quarter, None)
    return Soaked(
        n_rows=n_batches * batch_rows,
        seconds=round(seconds, 1),
        memory=(float(np.median(memory[early])), float(np.median(memory[late]))),
        p99=side_by_side(young, model.model),
        plain_p99=(float(np.percentile(times[early], 99)), float(np.percentile(times[late], 99))),
        median=(float(np.median(times[early])), float(np.median(times[late]))),
        n_clusters=(int(sizes[early][-1]), int(sizes[-1])),
        disk=(float(np.median(disk[early])), float(np.median(disk[late]))),
        n_edits=n_edits,
        n_rejected=n_rejected,
    )


def side_by_side(
    young: Model,
    old: Model,
    n_rounds: int = _ROUNDS,
    clock: Callable[[], float] = time.thread_time,
) -> tuple[float, float]:
    """The 99th percentile of the times of two models over all messages, each at its fastest.

    They learn the same rows by turns, because a machine is not as fast now as it was a second ago;
    and many times, because other processes only ever make it slower.
    """
    messages = [np.frombuffer(m).reshape(ROWS, N_FEATURES) for m in distinct_messages()]
    messages = [rows[np.isfinite(rows).all(axis=1)] for rows in messages]
    times = np.zeros((n_rounds, 2, _DISTINCT))
    for round_ in range(n_rounds):
        for place, rows in enumerate(messages):
            for who in (round_ % 2, 1 - round_ % 2):
                start = clock()
                (young, old)[who].update(rows)
                times[round_, who, place] = 1e3 * (clock() - start)
    of_young, of_old = np.percentile(times.min(axis=0), 99, axis=1)
    return float(of_young), float(of_old)


def resident() -> float:
    """Megabytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / 2**20


def megabytes(*folders: Path) -> float:
    """Megabytes of the files in folders; a file may be pruned while they are counted."""
    total = 0
    for folder in folders:
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):
                total += path.stat().st_size
    return total / 2**20
