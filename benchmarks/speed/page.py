"""The page: a table a part."""

from __future__ import annotations

from typing import Any

from benchmarks.speed.machine import sentence
from benchmarks.speed.timing import Row

_TITLES = {
    "rows": "One thread, CPU time: passes against a bare matrix product, batches against k-means",
    "threads": "Two threads against one, wall time",
    "paper": "The sizes of the paper's tables, for orientation",
    "scaling": "Time and memory by the number of clusters",
    "growth": "A long stream at constant K",
    "import": "Imports, CPU time",
    "isa": "One pass with every set of kernels",
}


def page(parts: dict[str, dict[str, Any]]) -> str:
    """All parts that were run, in the order of the titles."""
    lines = ["# Speed", "", "Made by `python -m benchmarks.speed --write`."]
    told = None
    for name in (name for name in _TITLES if name in parts):
        lines += ["", f"## {_TITLES[name]}", ""]
        machine = sentence(parts[name]["machine"])
        lines += [] if machine == told else [machine, ""]
        lines += table(parts[name]["rows"])
        told = machine
    return "\n".join(lines) + "\n"


def table(rows: list[Row]) -> list[str]:
    """Case, figure, measured, bar, verdict, note."""
    head = ["| case | precision | figure | medians | minima | bar | | note |", "|---" * 8 + "|"]
    return head + [
        f"| {row['case']} | {row.get('precision', '–')} | {row['figure']} | "
        f"{_number(row.get('value'))} | {_number(row.get('minima'))} | {row.get('bar') or '–'} | "
        f"{_verdict(row)} | {_note(row)} |"
        for row in rows
    ]


def _verdict(row: Row) -> str:
    verdict = row["verdict"]
    return f"**{verdict}**" if verdict == "missed" else str(verdict)


def _note(row: Row) -> str:
    parts = [row["note"]] if "note" in row else []
    if "seconds" in row:
        parts.append(f"{_time(row['seconds'])} / {_time(row['engine_seconds'])}")
    return "; ".join(parts)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
