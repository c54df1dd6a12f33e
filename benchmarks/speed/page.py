"""The page: a table a part."""

from __future__ import annotations

from typing import Any

from benchmarks.speed.machine import sentence
from benchmarks.speed.timing import Row

_TITLES = {
    "rows": "One thread, CPU time: batches against k-means, passes against a bare matrix product",
    "words": "Counts of words in CSR",
    "columns": "Many columns",
    "single": "One row per call",
    "scaling": "Many clusters",
    "threads": "Two threads against one, wall time",
    "import": "Imports, CPU time",
    "paper": "The sizes of the paper's tables, for orientation",
    "growth": "A long stream at constant K",
    "isa": "One pass with every set of kernels",
}


def page(parts: dict[str, dict[str, Any]], before: dict[str, Any] | None = None) -> str:
    """All parts that were run, in the order of the titles, beside figures of an earlier version."""
    before = before or {"rows": []}
    lines = ["# Speed", "", "Made by `python -m benchmarks.speed --write`."]
    if before["rows"]:
        lines.append(f"*Before* are the medians of commit {before['commit']}.")
    told, old = None, {_key(row): row.get("value") for row in before["rows"]}
    for name in (name for name in _TITLES if name in parts):
        lines += ["", f"## {_TITLES[name]}", ""]
        machine = sentence(parts[name]["machine"])
        lines += [] if machine == told else [machine, ""]
        lines += table(parts[name]["rows"], old)
        told = machine
    return "\n".join(lines) + "\n"


def table(rows: list[Row], old: dict[Any, float | None]) -> list[str]:
    """Case, figure, measured, bar, verdict, note."""
    head = "| case | precision | figure | before | medians | minima | bar | | note |"
    return [head, "|---" * 9 + "|"] + [
        f"| {row['case']} | {row.get('precision', '–')} | {row['figure']} | "
        f"{_number(old.get(_key(row)))} | {_number(row.get('value'))} | "
        f"{_number(row.get('minima'))} | {row.get('bar') or '–'} | {_verdict(row)} | {_note(row)} |"
        for row in rows
    ]


def _key(row: Row) -> tuple[Any, ...]:
    return row["case"], row.get("precision"), row["figure"]


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
