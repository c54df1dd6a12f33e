"""Ten minutes of load on a replica while a pipeline learns and the replica swaps checkpoints."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

from benchmarks.serve.subject import (
    N_FEATURES,
    N_ROWS,
    Blobs,
    Rows,
    body_of,
    command,
    resident,
    served,
)
from benchmarks.serve.wrk import wrk

_BATCH = 2_000  # rows
_EVERY = 0.5  # seconds between two batches, and between two looks for a checkpoint
_NAMES = [f"x{d}" for d in range(N_FEATURES)]


def run(seconds: float = 600.0) -> list[dict[str, Any]]:
    """Measure memory all the time; the second quarter is compared with the last."""
    blobs = Blobs(wander=0.05)
    over = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "state")
        pipeline = _pipeline(state, Path(folder, "run.log"))
        feeder = threading.Thread(target=_feed, args=(pipeline, blobs, over))
        feeder.start()
        while len(list(state.glob("version-*"))) < 3:
            time.sleep(0.2)
        options = ("--every", str(_EVERY))
        with served(str(state), *options, log=Path(folder, "serve.log")) as (url, pid):
            first = _version(url)
            watch = Watch({"service": pid, "pipeline": pipeline.pid})
            watch.start()
            body = body_of(blobs.rows(N_ROWS))
            load = wrk(f"{url}/predict", body, seconds=seconds, connections=4)
            last = _version(url)
            watch.over.set()
            watch.join()
        over.set()
        feeder.join()
        code = pipeline.wait(60)
    return [
        {
            "seconds": round(load.seconds),
            "requests": load.requests,
            "errors": load.errors,
            "rows_per_s": round(load.rate * N_ROWS),
            "p50_us": round(load.p50),
            "p99_us": round(load.p99),
            "versions": last - first,
            "pipeline ended with": code,
            **{f"{name}, MB": round(values[-1], 1) for name, values in watch.seen.items()},
            **{f"{name}, drift": _drift(values) for name, values in watch.seen.items()},
        }
    ]


class Watch(threading.Thread):
    """Looks at the memory of processes every second."""

    def __init__(self, pids: dict[str, int]) -> None:
        super().__init__()
        self.over = threading.Event()
        self.seen: dict[str, list[float]] = {name: [] for name in pids}
        self._pids = pids

    def run(self) -> None:
        while not self.over.wait(1.0):
            for name, pid in self._pids.items():
                self.seen[name].append(resident(pid))


def _pipeline(state: Path, log: Path) -> subprocess.Popen[bytes]:
    features = f"schema.features={json.dumps(_NAMES)}"
    sets = ("source.format=csv", f"batch.rows={_BATCH}", "checkpoint.seconds=1", features)
    options = [option for each in sets for option in ("--set", each)]
    with log.open("wb") as stderr:
        return subprocess.Popen(
            command("run", "--source", "stdin", "--checkpoint", str(state), *options),
            stdin=subprocess.PIPE,
            stderr=stderr,
        )


def _feed(pipeline: subprocess.Popen[bytes], blobs: Blobs, over: threading.Event) -> None:
    assert pipeline.stdin is not None
    with pipeline.stdin as pipe:
        pipe.write(",".join(_NAMES).encode() + b"\n")
        while not over.wait(_EVERY):
            pipe.write(_csv(blobs.rows(_BATCH)))
            pipe.flush()


def _csv(rows: Rows) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows.round(6).tolist())
    return text.getvalue().encode()


def _version(url: str) -> int:
    with urlopen(f"{url}/readyz", timeout=5) as answer:
        return int(json.load(answer)["version"])


def _drift(values: list[float]) -> str:
    quarter = len(values) // 4
    early, late = np.mean(values[quarter : 2 * quarter]), np.mean(values[-quarter:])
    return f"{100 * (late / early - 1):+.1f} %"
