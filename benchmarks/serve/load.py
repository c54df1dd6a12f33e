"""Rows per second through HTTP against those of `predict` in process, round by round."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import orjson

from benchmarks.serve.subject import N_CLUSTERS, N_FEATURES, N_ROWS, Blobs, body_of, served
from benchmarks.serve.wrk import Load, wrk
from benchmarks.speed.machine import describe, sentence
from scstream import ScStream

ROUNDS = 5
CONNECTIONS = 4
Parse = Callable[[bytes], Any]


def run(seconds: float = 8.0) -> list[dict[str, Any]]:
    """Take turns, so that a machine that gets slower slows both down."""
    blobs = Blobs()
    model = ScStream(random_state=0)
    for _ in range(5):
        model.partial_fit(blobs.rows(5_000))
    body = body_of(blobs.rows(N_ROWS))
    columns = [f"x{d}" for d in range(N_FEATURES)]
    rounds: list[tuple[Load, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.scstream")
        model.save(file)
        with served(str(file), log=Path(folder, "log")) as (url, _):
            wrk(f"{url}/predict", body, seconds=2, connections=CONNECTIONS)  # warm-up
            for _ in range(ROUNDS):
                inside = {
                    name: in_process(model, body, columns, parse, seconds=seconds / 4)
                    for name, parse in (("orjson", orjson.loads), ("json", json.loads))
                }
                inside["none"] = in_process(model, body, columns, None, seconds=seconds / 4)
                rounds.append(
                    (wrk(f"{url}/predict", body, seconds=seconds, connections=CONNECTIONS), inside)
                )
    rows = [_row(load, inside, model.n_clusters_) for load, inside in rounds] + [_summary(rounds)]
    return [{**row, "machine": sentence(describe())} for row in rows]


def in_process(
    model: ScStream, body: bytes, columns: list[str], parse: Parse | None, *, seconds: float
) -> float:
    """Rows per second of `predict` on the rows of a body, which is parsed each time or once."""

    def table(parsed: Any) -> Any:
        return np.array([parsed["columns"][name] for name in columns]).T

    once = table(json.loads(body))
    n, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(20):
            model.predict(once if parse is None else table(parse(body)))
        n += 20
    return n * N_ROWS / (time.perf_counter() - start)


def _row(load: Load, inside: dict[str, float], n_clusters: int) -> dict[str, Any]:
    served_rows = load.rate * N_ROWS
    return {
        "rows": N_ROWS,
        "d": N_FEATURES,
        "k": n_clusters,
        "connections": CONNECTIONS,
        "rows_per_s": round(served_rows),
        "p50_us": round(load.p50),
        "p99_us": round(load.p99),
        "p99/p50": round(load.p99 / load.p50, 2),
        "errors": load.errors,
        "requests": load.requests,
        **{f"in process, {name}": round(rate) for name, rate in inside.items()},
        **{f"ratio, {name}": round(served_rows / rate, 3) for name, rate in inside.items()},
    }


def _summary(rounds: list[tuple[Load, dict[str, float]]]) -> dict[str, Any]:
    rows = [_row(load, inside, N_CLUSTERS) for load, inside in rounds]
    middle = {
        name: round(median(row[name] for row in rows), 3) for name in rows[0] if name != "errors"
    }
    return {**middle, "errors": sum(row["errors"] for row in rows), "round": "median"}
