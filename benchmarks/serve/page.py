"""The page of the service, from the tables that the parts wrote."""

from __future__ import annotations

import csv
from typing import Any

from benchmarks.results_io import EVIDENCE, RESULTS

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

`python -m benchmarks serve flood --seconds 10`, on {machine} Each flood meets a service of its \
own: none, as a control, with 4 connections that predict all the time; 500 such connections; and \
4 of them beside 1,000 slow sockets of another address, each of which sends a byte of a request \
every second and is opened again when the service closes it. `/healthz` is asked ten times a \
second, on a new connection each time. Goals: every probe within 1 s, p99 / p50 of predictions at \
most 10. The percentiles are those of `wrk`, which adds requests that a client with a fixed rate \
would have sent while it waited.
"""
_LIMIT = """\
Probes and the ratio of 500 connections meet their goals. The ratio beside slow sockets misses \
its goal in one of three runs, and so does the control in another; other work kept the machine \
busy (column load). A form in which every request waited for one turn, at loads of 6 to 10, gave \
10 to 81 beside slow sockets in eleven runs, with no probe above 0.67 s, and 4.3 to 7 in six \
controls; how much of the difference is load was not measured. What was found with that form: \
half of the slow sockets are beyond the limit of their address, are closed after 2 s, and come \
back together. In one profiled run, seven of 17 turns of the event loop above 50 ms opened 184 to \
440 connections, in 63 to 91 ms; the two longest were a task and a write, which other processes \
may have interrupted. Accepting 8 connections in a turn lowered p99.9 of the processor time \
between two answers of a connection from 46 to 68 ms to 22 to 38 ms (five pairs of runs). It was \
left out: p99 / p50 was still 8 to 38 in eight runs, and one of them, at a load of 11, had a \
probe of 1.76 s. Whether that probe waited to be accepted was not measured.
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
        head = _HEAD.format(machine=rows[0]["machine"], **subject)
        parts += [head, _LOAD.format(n=len(rows) - 1), *_load(rows)]
    if (RESULTS / "serve-soak.csv").exists():
        found = [[name.replace("_", " "), value] for name, value in _read("soak")[0].items()]
        parts += [_SOAK, *_table([["what", "measured"], *found])]
    if (RESULTS / "serve-flood.csv").exists():
        parts += _floods(_read("flood"))
    (EVIDENCE / "serve.md").write_text("\n".join(parts).rstrip() + "\n")


def _load(rows: list[dict[str, Any]]) -> list[str]:
    lines = [list(_NAMES.values())]
    for row in rows:
        lines.append([_shown(name, row[name]) for name in _NAMES])
    return _table(lines)


def _floods(rows: list[dict[str, Any]]) -> list[str]:
    names = [name for name in rows[0] if name != "machine"]
    lines = [names, *([row[name] for name in names] for row in rows)]
    ranges = []
    for flood in dict.fromkeys(row["flood"] for row in rows):
        same = [row for row in rows if row["flood"] == flood]
        ratio, health = _range(same, "p99 / p50"), _range(same, "health max, ms")
        ranges.append(f"- {flood}: p99 / p50 {ratio}; slowest probe of a run {health} ms")
    return [_FLOOD.format(machine=rows[0]["machine"]), *ranges, "", _LIMIT, *_table(lines)]


def _range(rows: list[dict[str, Any]], name: str) -> str:
    values = sorted(float(row[name]) for row in rows)
    return f"{values[0]:g} to {values[-1]:g}"


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
