"""The page of the service, from the tables that the parts wrote."""

from __future__ import annotations

import csv
from typing import Any

from benchmarks.results_io import EVIDENCE, RESULTS
from benchmarks.speed.machine import describe, sentence

_HEAD = """\
# What HTTP costs

`python -m benchmarks serve load` and `python -m benchmarks serve soak`, on {machine}

One `scstream serve`, one worker, its page and metrics on; `wrk` on the same machine, over \
loopback. A body holds {rows} rows of {d} columns in JSON; the model has {k} clusters. The service \
answers with cluster, probability, novelty and log density; `ScStream.predict`, which it is \
compared with, with the cluster alone.
"""
_LOAD = """\
## Load

{n} rounds, in turns with the same work in this process: `predict` on the rows of the body, which \
is parsed each time by orjson, parsed each time by the json of Python, or was parsed before. The \
last line is the median, and the sum of errors.
"""
_SOAK = """\
## Ten minutes while the model learns

A pipeline learns 2,000 rows every half second from clusters that wander, and writes a checkpoint \
a second; a replica looks for a newer one every half second and swaps. `wrk` asks all the time. \
Memory is the resident set, the mean of the last quarter against that of the second.
"""
_FLOOD = """\
## Floods

`python -m benchmarks serve flood`: {n} floods. First 500 connections that predict all the time; \
then 4 connections that predict beside 1,000 slow sockets of another address, each of which sends \
a byte of a request every second and is opened again when the service closes it. `/healthz` is \
asked ten times a second, on a new connection each time; goals are at most 1 s for each probe, and \
p99 / p50 of predictions of at most 10. Other work kept both cores busy \
(load 6 to 9), and the second ratio varies: a run right before this one gave 39, a miss. Before \
requests took turns, the longest probe took 5.9 s, and 3,028 of 3,784 predictions beside slow \
sockets got 503.
"""
_NAMES = {
    "rows_per_s": "rows/s",
    "p50_us": "p50, ms",
    "p99_us": "p99, ms",
    "p99/p50": "p99 / p50",
    "errors": "errors",
    "ratio, orjson": "of predict with orjson",
    "ratio, json": "of predict with json",
    "ratio, none": "of predict alone",
}


def write() -> None:
    """Make the page of the parts that were run."""
    parts = []
    if (RESULTS / "serve-load.csv").exists():
        rows = _read("load")
        subject = {name: rows[0][name] for name in ("rows", "d", "k")}
        head = _HEAD.format(machine=sentence(describe()), **subject)
        parts += [head, _LOAD.format(n=len(rows) - 1), *_load(rows)]
    if (RESULTS / "serve-soak.csv").exists():
        found = [[name.replace("_", " "), value] for name, value in _read("soak")[0].items()]
        parts += [_SOAK, *_table([["what", "measured"], *found])]
    if (RESULTS / "serve-flood.csv").exists():
        floods = _read("flood")
        lines = [list(floods[0]), *(list(flood.values()) for flood in floods)]
        parts += [_FLOOD.format(n=len(floods)), *_table(lines)]
    (EVIDENCE / "serve.md").write_text("\n".join(parts).rstrip() + "\n")


def _load(rows: list[dict[str, Any]]) -> list[str]:
    lines = [list(_NAMES.values())]
    for row in rows:
        lines.append([_shown(name, row[name]) for name in _NAMES])
    return _table(lines)


def _shown(name: str, value: str) -> str:
    if name.endswith("_us"):
        return f"{float(value) / 1000:.2f}"
    return f"{float(value):,.0f}" if name in ("rows_per_s", "errors") else f"{float(value):.2f}"


def _table(lines: list[list[str]]) -> list[str]:
    head, *body = lines
    out = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(cells)} |" for cells in out] + [""]


def _read(name: str) -> list[dict[str, Any]]:
    with (RESULTS / f"serve-{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))
