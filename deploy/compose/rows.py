"""Rows for the demonstration: clusters that drift, one that comes and goes, and some bad rows."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from typing import Any

import nats
import numpy as np
from nats.js.api import DiscardPolicy, StreamConfig

CENTRES = np.array([[0, 0, 0], [8, 0, 2], [0, 8, 4], [-8, -4, 6], [6, 8, -6]], dtype=float)
MOTION = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1], [-1, 0, 0]], dtype=float)
PERIOD = 600.0  # seconds in which a cluster goes around and the last one comes and goes
KEPT = 2**30  # bytes of each stream that the broker keeps; the oldest messages go first


def rows_at(seconds: float, n_rows: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return rows as they are some time after the start."""
    phase = 2 * np.pi * seconds / PERIOD
    shares = np.array([4.0, 3.0, 2.0, 2.0, 2.0 if np.sin(phase) < 0 else 0.0])
    kinds = rng.choice(len(CENTRES), size=n_rows, p=shares / shares.sum())
    points = CENTRES[kinds] + 3 * np.sin(phase) * MOTION[kinds] + rng.normal(size=(n_rows, 3))
    stray = rng.random(n_rows) < 0.01  # belongs to nothing
    points[stray] = rng.uniform(-40, 40, size=(int(stray.sum()), 3))
    rows: list[dict[str, Any]] = [dict(zip("xyz", map(float, row), strict=True)) for row in points]
    for i in np.flatnonzero(rng.random(n_rows) < 0.001):
        rows[i]["y"] = "n/a"
    return rows


async def make_streams(broker: Any) -> None:
    """Make the streams of rows and labels, unless they are there."""
    for name in ("rows", "labels"):
        await broker.add_stream(
            StreamConfig(name=name, subjects=[name], max_bytes=KEPT, discard=DiscardPolicy.OLD)
        )


async def publish(broker: Any, rate: int, total: int | None) -> None:
    """Publish so many rows per second, for ever or so many in all."""
    rng, began, sent = np.random.default_rng(0), time.monotonic(), 0
    per_message = max(rate // 50, 1)
    while total is None or sent < total:
        n_rows = per_message if total is None else min(per_message, total - sent)
        rows = rows_at(time.monotonic() - began, n_rows, rng)
        await broker.publish("rows", "\n".join(map(json.dumps, rows)).encode())
        sent += n_rows
        await asyncio.sleep(max(sent / rate - (time.monotonic() - began), 0))


async def main() -> None:
    """Connect to the broker at NATS_URL and do what the flags say."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--streams", action="store_true", help="only make the streams")
    flags.add_argument("--rate", type=int, default=500, help="rows per second")
    flags.add_argument("--total", type=int, help="end after so many rows")
    chosen = flags.parse_args()
    client = await nats.connect(os.environ["NATS_URL"])
    try:
        if chosen.streams:
            await make_streams(client.jetstream())
        else:
            await publish(client.jetstream(), chosen.rate, chosen.total)
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main())
