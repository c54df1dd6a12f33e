"""Tables of the simulator: efficiency by workers, and cores for a million rows per second.

The costs of Ray come from ``scale-engine.csv`` in the results; this writes ``scale-sim.json``
and ``scale-sim.csv``.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.results_io import RESULTS
from benchmarks.scale.rates import measure, work_of
from benchmarks.scale_sim import Engine, Job, Network, Work, Workers, local, overhead, replay
from benchmarks.speed.machine import describe

JSON = RESULTS / "scale-sim.json"
ASKED_FOR = 1e6  # rows per second
THREADS = 16  # of a node
GIGABITS = 25.0
WORKERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1000)
SIZES = (1 << 18, 1 << 20, 1 << 22)
COMING = (1 << 20, 1 << 22, 1 << 24)  # rows of a batch: one, four, seventeen seconds of stream
SCHEMES: dict[str, dict[str, bool]] = {
    "star": {},
    "reduce-scatter": {"scatter": True},
    "reduce-scatter, shared step": {"scatter": True, "shared_step": True},
}
CORES_FOR = ((2, 20), (16, 100), (64, 1000), (128, 1000), (384, 1000))
_BATCHES = sorted(int(2**k * f) for k in range(15, 25) for f in (1, 1.25, 1.5, 1.75))
_MOST_NODES = 400
_SHARE = 0.10  # of a batch, for engine and network
_GAIN = 1.5  # times as fast, to be worth a second node

Row = dict[str, Any]


def write(*, measured_before: bool) -> None:
    """Measure the kernels, unless that was done before; simulate, and write the tables."""
    known = json.loads(JSON.read_text())["rates"] if measured_before else []
    rates = measure(known)
    JSON.write_text(json.dumps({"rates": rates}))  # it takes minutes; the rest may fail
    engine = prices(read("engine"))
    rows = list(curves(rates, engine))
    with (RESULTS / "scale-sim.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    found = {
        "machine": describe(),
        "rates": rates,
        "engine": vars(engine),
        "cores": cores(rates, engine),
        "worth": worth(rates, engine),
        "notes": against_notes(rates, engine),
    }
    JSON.write_text(json.dumps(found, indent=1) + "\n")


def read(name: str) -> list[dict[str, str]]:
    """The table of a part, or nothing."""
    path = RESULTS / f"scale-{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def prices(rows: list[dict[str, str]]) -> Engine:
    """Prices of the engine from its measurements: slopes and intercepts of medians."""
    calls, latency = line(rows, "calls", "n")
    reference, _ = line(rows, "submitted", "n")
    chain, _ = line(rows, "references", "n")
    copy, put = line(rows, "put", "megabytes")
    out, _ = line(rows, "broadcast", "megabytes")
    back, _ = line(rows, "return", "megabytes")
    add, _ = line(rows, "add", "megabytes")
    return Engine(
        call=calls,
        latency=latency,
        put=put,
        reference=reference,
        part=max(0.0, chain - reference),
        copy=copy / 1e6,
        look=max(0.0, (out + back) / 2 - copy) / 1e6,
        add=add / 1e6,
    )


def line(rows: list[dict[str, str]], figure: str, by: str) -> tuple[float, float]:
    """Slope and intercept in seconds, neither below zero."""
    points = [(float(r[by]), float(r["median_ms"]) / 1e3) for r in rows if r["figure"] == figure]
    x, y = np.array(points).T
    slope, intercept = np.polyfit(x, y, 1)
    return max(0.0, float(slope)), max(0.0, float(min(intercept, y.min())))


def curves(rates: list[Row], engine: Engine) -> Iterator[Row]:
    """Seconds, efficiency and terms, for 1 to 1,000 workers of 16 threads."""
    for rate in rates:
        work = work_of(rate)
        for gigabits in (10.0, GIGABITS, 100.0):
            for n_rows in SIZES:
                for scheme, choice in SCHEMES.items():
                    job = Job(n_rows, **choice)
                    yield from curve(rate, work, job, engine, gigabits, scheme)


def curve(
    rate: Row, work: Work, job: Job, engine: Engine, gigabits: float, scheme: str
) -> Iterator[Row]:
    alone = local(work, job, THREADS)
    for n in WORKERS:
        workers = Workers(n, THREADS)
        spent = replay(work, job, workers, engine=engine, network=Network.of(gigabits))
        total = sum(spent.values())
        yield {
            "d": work.n_features,
            "k": work.n_clusters,
            "precision": rate["precision"],
            "gigabits": gigabits,
            "rows": job.n_rows,
            "scheme": scheme,
            "workers": n,
            "seconds": _short(total),
            "efficiency": _short(alone / (n * total)),
            **{name: _short(seconds) for name, seconds in spent.items()},
        }


def cores(rates: list[Row], engine: Engine) -> list[Row]:
    """Cores for a million rows a second, with and without the engine."""
    wanted = [rate for rate in rates if (rate["d"], rate["k"]) in CORES_FOR]
    return [needed(rate, engine, n_sweeps) for rate in wanted for n_sweeps in (0, 1)]


def needed(rate: Row, engine: Engine, n_sweeps: int) -> Row:
    """The least that gives a million rows a second, for one kind of work."""
    work = work_of(rate)
    row = {name: rate[name] for name in ("d", "k", "precision")} | {"sweeps": n_sweeps}
    row["kernels"] = ASKED_FOR * (n_sweeps * work.sampling + work.predictive + work.label)
    threads = alone(work, n_sweeps)
    if threads:
        return row | {"engine": False, "cores": threads}
    row |= {"engine": True}
    for n_rows in COMING:
        n, choice = fewest_nodes(work, engine, n_rows, n_sweeps)
        row[f"nodes {n_rows}"] = n
        if n:
            row["terms"] = terms(work, engine, n, Job(n_rows, n_sweeps, **choice))
            row["least batch"] = least_batches(work, engine, n, n_sweeps)
    return row


def terms(work: Work, engine: Engine, n: int, job: Job) -> Row:
    """Where the time of a batch goes."""
    workers, network = Workers(n, THREADS), Network.of(GIGABITS)
    spent = replay(work, job, workers, engine=engine, network=network)
    scheme = next(
        name
        for name, choice in SCHEMES.items()
        if Job(1, **choice) == replace(job, n_rows=1, n_sweeps=0)
    )
    return {"nodes": n, "rows": job.n_rows, "scheme": scheme, **spent}


def alone(work: Work, n_sweeps: int) -> int | None:
    """Threads of one process that do without an engine, if so few are enough."""
    job = Job(1 << 20, n_sweeps)
    for n_threads in range(1, THREADS + 1):
        if job.n_rows / local(work, job, n_threads) >= ASKED_FOR:
            return n_threads
    return None


def fewest_nodes(
    work: Work, engine: Engine, n_rows: int, n_sweeps: int
) -> tuple[int | None, dict[str, bool]]:
    """The fewest nodes that reach the rate with batches of this size, and the scheme."""
    network = Network.of(GIGABITS)
    least = int(ASKED_FOR * (n_sweeps * work.sampling + work.predictive) / THREADS)
    for n in range(max(2, least), _MOST_NODES):
        for choice in SCHEMES.values():
            job = Job(n_rows, n_sweeps, **choice)
            spent = replay(work, job, Workers(n, THREADS), engine=engine, network=network)
            if n_rows / sum(spent.values()) >= ASKED_FOR:
                return n, choice
    return None, {}


def least_batches(work: Work, engine: Engine, n: int, n_sweeps: int = 0) -> dict[str, int | None]:
    """The smallest batch that leaves engine and network less than their share, by scheme."""
    named = SCHEMES | {
        "star, one subtree a worker": {"aligned": True},
        "reduce-scatter, one subtree a worker": {"scatter": True, "aligned": True},
    }
    network = Network.of(GIGABITS)
    found = {
        name: least_batch(work, engine, Workers(n, THREADS), Job(1, n_sweeps, **choice), network)
        for name, choice in named.items()
    }
    only = Network.of(GIGABITS, tree=False)
    job = Job(1, n_sweeps, scatter=True)
    found["reduce-scatter, plan from the driver alone"] = least_batch(
        work, engine, Workers(n, THREADS), job, only
    )
    return found


def least_batch(
    work: Work, engine: Engine, workers: Workers, job: Job, network: Network
) -> int | None:
    """Beyond this size engine and network always take less than their share."""
    # Shares go up and down with the slices; what counts is the last batch that fails.
    least = None
    for n_rows in reversed(_BATCHES):
        this = replace(job, n_rows=n_rows)
        if overhead(work, this, workers, engine=engine, network=network) >= _SHARE:
            return least
        least = n_rows
    return least


def worth(rates: list[Row], engine: Engine) -> list[Row]:
    """The smallest batch that two nodes learn half as fast again as one, and what one takes."""
    out = []
    for rate in rates:
        work = work_of(rate)
        row = {name: rate[name] for name in ("d", "k", "precision")}
        for resident in (True, False):
            least, seconds = gain_from(work, engine, resident=resident)
            name = "resident" if resident else "from the driver"
            row |= {name: least, f"{name}, seconds of one node": seconds}
        out.append(row)
    return out


def gain_from(work: Work, engine: Engine, *, resident: bool) -> tuple[int | None, float | None]:
    network = Network.of(GIGABITS)
    for n_rows in _BATCHES:
        job = Job(n_rows, resident=resident)
        alone = local(work, job, THREADS)
        spent = replay(work, job, Workers(2, THREADS), engine=engine, network=network)
        if alone >= _GAIN * sum(spent.values()):
            return n_rows, alone
    return None, None


def against_notes(rates: list[Row], engine: Engine) -> Row:
    """The figures that the design notes worked out by hand, as the simulator has them."""
    rate = next(r for r in rates if (r["d"], r["k"], r["precision"]) == (64, 1000, "float64"))
    work, workers = work_of(rate), Workers(32, THREADS)
    found: Row = {"plan_bytes": work.plan_bytes, "sums_bytes": work.sums_bytes}
    for scheme, choice in list(SCHEMES.items())[:2]:
        for gigabits in (10.0, GIGABITS, 100.0):
            job, network = Job(1 << 22, **choice), Network.of(gigabits)
            spent = replay(work, job, workers, engine=engine, network=network)
            moved = spent["serialisation"] + spent["broadcast"] + spent["reduction"]
            found[f"{scheme}, {gigabits:g} Gb/s"] = moved
    found["least batch, 26 nodes"] = least_batches(work, engine, 26, 1)
    return found


def _short(value: float) -> float:
    return float(f"{value:.4g}")
