"""What is run for long: every part returns the lines of a table."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
Line = dict[str, Any]


def simdisk(scale: float, jobs: int) -> list[Line]:
    """Crashes of a simulated disk, over and over in every setup."""
    from tests.faults.simulation import SETUPS

    each = round(1_000_000 * scale / len(SETUPS))
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(_crashes, SETUPS, [each] * len(SETUPS)))


def _crashes(name: str, wanted: int) -> Line:
    from tests.faults.crashes import crash_after_crash, every_crash, every_error
    from tests.faults.simulation import SETUPS, reference

    setup, start, n_crashes, n_chains = SETUPS[name], time.monotonic(), 0, 0
    expected = reference(setup)
    n_single = 0
    for world in chain(every_crash(setup), every_error(setup)):
        world.check(expected)
        n_single += 1
    while n_crashes < wanted:
        world, n = crash_after_crash(setup, 1_000_000 + n_chains)
        world.check(expected)
        n_crashes, n_chains = n_crashes + n, n_chains + 1
    seconds = round(time.monotonic() - start, 1)
    return {
        **{"setup": name, "single crashes and errors": n_single, "chained crashes": n_crashes},
        **{"chains": n_chains, "wrong": 0, "seconds": seconds},
    }


def kills(scale: float, jobs: int) -> list[Line]:
    """kill -9 of real pipelines."""
    count = str(round(1000 * scale))
    return [
        _called("kill_loop", kind, "--kills", count, "--rows", "2400", "--seed", "11")
        for kind in ("file", "redis", "nats")
    ]


def edits(scale: float, jobs: int) -> list[Line]:
    """kill -9 of real pipelines while people edit the clusters."""
    count = str(round(200 * scale))
    return [
        {"edits": how, **_called("kill_loop", kind, "--kills", count, how, "--seed", "11")}
        for kind, how in (("file", "--edits"), ("nats", "--edits"), ("file", "--live"))
    ]


def brokers(scale: float, jobs: int) -> list[Line]:
    """Brokers killed and restarted behind a bad network, the pipeline killed too."""
    rounds = str(max(round(20 * scale), 1))
    return [
        _called(
            *("kill_loop", kind, "--kills", "1", "--rows", "10000", "--rounds", rounds),
            *("--broker", "0.5", "--chaos", "--life", "4", "--seed", "11"),
        )
        for kind in ("redis", "nats")
    ]


def kafka(scale: float, jobs: int) -> list[Line]:
    """kill -9 of pipelines from Kafka to Kafka."""
    count = str(round(1000 * scale))
    how = ("--rows", "2400", "--life", "0.4", "--seed", "11")
    return [_called("kill_loop", "kafka", "--kills", count, *how)]


def kafka_brokers(scale: float, jobs: int) -> list[Line]:
    """kill -9 of a broker of three, the pipeline killed too."""
    count = str(round(100 * scale))
    return [
        _called(
            *("kill_loop", "kafka-three", "--kills", "1", "--broker-kills", count),
            *("--rows", "10000", "--broker", "0.9", "--life", "4", "--seed", "11"),
        )
    ]


def table_kills(scale: float, jobs: int) -> list[Line]:
    """kill -9 of pipelines that write to tables."""
    count = str(round(200 * scale))
    return [
        _called("kill_loop", kind, "--kills", count, "--rows", "2400", "--seed", "11")
        for kind in ("delta", "iceberg")
    ]


def qdrant_kills(scale: float, jobs: int) -> list[Line]:
    """kill -9 of pipelines that write payloads of Qdrant's points."""
    count = str(round(200 * scale))
    return [_called("kill_loop", "qdrant", "--kills", count, "--rows", "2400", "--seed", "11")]


def zombies(scale: float, jobs: int) -> list[Line]:
    """Instances that were stopped and overtaken, and go on."""
    count = str(round(100 * scale))
    return [_called("zombies", kind, count) for kind in ("file", "redis", "nats")]


def failover(scale: float, jobs: int) -> list[Line]:
    """Working instances killed, frozen and cut off while a standby waits."""
    rounds = [("cut", "nats", 100), ("freeze", "folder", 40), ("freeze", "nats", 40)]
    rounds += [("freeze", "s3", 20), ("kill", "folder", 40), ("kill", "nats", 40)]
    return [
        _called("failover", fault, store, str(max(round(n * scale), 1)), "2")
        for fault, store, n in [*rounds, ("kill", "s3", 20)]
    ]


def fuzz(scale: float, jobs: int) -> list[Line]:
    """Fuzzed messages through reader and model."""
    each = round(200_000 * scale / 4)
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(_fuzzed, range(100, 104), [each] * 4))


def _fuzzed(seed: int, wanted: int) -> Line:
    from tests.faults.fuzz import check_state, streams

    start, n_rows, n_refused = time.monotonic(), 0, 0
    for model, labels, refused in islice(streams(seed), wanted):
        n_rows, n_refused = n_rows + len(labels), n_refused + refused
        if model.snapshot is not None:
            check_state(model)
    seconds = round(time.monotonic() - start, 1)
    counts = {"seed": seed, "batches": wanted, "rows learned": n_rows, "rows refused": n_refused}
    return {**counts, "wrong": 0, "seconds": seconds}


def reader(scale: float, jobs: int) -> list[Line]:
    """Hostile model files by atheris."""
    seconds = max(round(300 * scale), 5)
    run = _python("-m", "tests.faults.reader_fuzz", str(seconds), "7")
    said = dict(re.findall(r"stat::(\w+):\s+(\d+)", run.stderr))
    assert run.returncode == 0, run.stderr[-3000:]
    count = int(said["number_of_executed_units"])
    memory = int(said["peak_rss_mb"])
    return [{"seconds": seconds, "files": count, "peak MB": memory, "wrong": 0}]


def bombs(scale: float, jobs: int) -> list[Line]:
    """Small bodies that describe large tables, to the service and to every source."""
    lines = []
    for target in ("service", "file", "http", "redis", "nats", "kafka"):
        line = _called("bombing", target)
        assert not line["wrong"], line
        lines.append({**line, "wrong": 0})
    return lines


def soak(scale: float, jobs: int) -> list[Line]:
    """Rows through Redis into a model and back, with dead letters, edits and alerts."""
    sizes = ((100_000_000, 10_000), (10_000_000, 1_000))
    whole = [max(round(n_rows * scale / batch_rows / 16), 1) * 16 for n_rows, batch_rows in sizes]
    return [_soaked(n * rows, rows) for n, (_, rows) in zip(whole, sizes, strict=True)]


def _soaked(n_rows: int, batch_rows: int) -> Line:
    code = (
        "import dataclasses, json, sys; from tests.faults.soak import soak; "
        "print(json.dumps(dataclasses.asdict(soak(*map(int, sys.argv[1:])))))"
    )
    run = _python("-c", code, str(n_rows), str(batch_rows))
    assert run.returncode == 0, run.stderr[-3000:]
    from tests.faults.soak import Soaked

    found = Soaked(**json.loads(run.stdout))
    pairs = ("memory", "disk", "p99", "plain_p99", "median")
    values = {
        f"{name}, {when}": round(getattr(found, name)[i], 3)
        for name in pairs
        for i, when in enumerate(("early", "late"))
    }
    drifts = {"memory drift": found.memory_drift, "p99 drift": found.time_drift}
    rounded = {name: f"{100 * value:+.1f} %" for name, value in drifts.items()}
    sizes = {"rows": found.n_rows, "of a batch": batch_rows}
    events = {"edits": found.n_edits, "dead letters": found.n_rejected}
    return {**sizes, **events, **values, **rounded, "seconds": found.seconds}


def explosion(scale: float, jobs: int) -> list[Line]:
    """Rows made to found clusters."""
    import numpy as np

    from tests.faults.attack import HALF_LIFE, N_CALM, siege

    lines = []
    for most in (60, 1000):
        start = time.monotonic()
        found = siege(max_clusters=most, n_attack=max(round(1000 * scale), 20))
        before = float(np.median(found.agreement[5:N_CALM]))
        after = float(np.median(found.agreement[-HALF_LIFE:]))
        lines.append(
            {
                **{"max_clusters": most, "batches": len(found.n_clusters)},
                **{"K before": found.n_clusters[N_CALM - 1], "K at most": found.n_clusters.max()},
                "K two half-lives after": found.n_clusters[-1],
                **{"ARI before": round(before, 3), "ARI after": round(after, 3)},
                "births and splits at most": found.n_born[found.attack].max(),
                "batches above max(8, K/4)": found.n_above,
                "MB gained": round(float(found.memory.max() - found.memory[N_CALM]), 1),
                "seconds": round(time.monotonic() - start, 1),
            }
        )
    return lines


def _called(module: str, *arguments: str) -> Line:
    run = _python("-m", f"tests.faults.{module}", *arguments)
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    found: Line = json.loads(run.stdout.splitlines()[-1])
    return found


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


PARTS: Mapping[str, Callable[[float, int], list[Line]]] = {
    part.__name__: part
    for part in (
        *(simdisk, kills, edits, brokers, kafka, kafka_brokers, table_kills, qdrant_kills),
        *(zombies, failover, fuzz, reader, bombs, soak, explosion),
    )
}
