"""Speed: ``python -m benchmarks.speed [--part ...] [--case PART] [--json] [--quick] [--write]``.

By default the parts that make the promises: rows, words, columns, single, scaling, threads, import.
``--part all`` adds paper, growth and isa. ``--case "D=64 K=100"`` runs what contains this name.
``--write`` saves ``benchmarks/results/speed.json`` and ``speed.md`` with their plots; parts that
were not run keep what they had. ``speed-before.json`` has the figures of an earlier version.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from benchmarks.results_io import RESULTS
from benchmarks.speed import (
    columns,
    growth,
    imports,
    isa,
    paper,
    rows,
    scaling,
    single,
    threads,
    words,
)
from benchmarks.speed.machine import describe
from benchmarks.speed.page import page
from benchmarks.speed.timing import Row

_DEFAULT = ("rows", "words", "columns", "single", "scaling", "threads", "import")


class Part(Protocol):
    """A part gives its rows one by one."""

    def __call__(self, *, quick: bool, only: str) -> Iterator[Row]: ...


PARTS: dict[str, Part] = {
    "rows": rows.run,
    "words": words.run,
    "columns": columns.run,
    "single": single.run,
    "scaling": scaling.run,
    "threads": threads.run,
    "import": imports.run,
    "paper": paper.run,
    "growth": growth.run,
    "isa": isa.run,
}
SAVERS: dict[str, Callable[[list[Row]], None]] = {
    "scaling": lambda found: scaling.plot(found, RESULTS / "speed-k.png"),
    "growth": growth.save,
}


def measure(name: str, *, quick: bool, only: str) -> dict[str, Any]:
    """Run a part and say as it goes what was found."""
    found = []
    for row in PARTS[name](quick=quick, only=only):
        found.append(row)
        value = row.get("value")
        shown = "" if value is None else f"{value:.3g}"
        line = f"{row['case']:20} {row.get('precision', ''):8} {row['figure']:50} {shown:>8}"
        print(line, row.get("bar") or "", row["verdict"], file=sys.stderr, flush=True)
    return {"machine": describe(), "rows": found}


def write(parts: dict[str, dict[str, Any]]) -> None:
    """Save new parts beside the old ones."""
    path = RESULTS / "speed.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    everything = kept | parts
    path.write_text(json.dumps(everything, indent=1) + "\n")
    (RESULTS / "speed.md").write_text(page(everything, scaling.before()))
    for name in parts.keys() & SAVERS.keys():
        SAVERS[name](parts[name]["rows"])


def main(arguments: list[str] | None = None) -> None:
    """Run parts, print them, and save them if wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--part", nargs="+", choices=[*PARTS, "all"], default=list(_DEFAULT))
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a page")
    parser.add_argument("--quick", action="store_true", help="small sizes: a test of the harness")
    parser.add_argument("--write", action="store_true", help="save under benchmarks/results")
    choice = parser.parse_args(arguments)
    if choice.write and (choice.quick or choice.case):
        parser.error("--write saves whole parts; leave out --quick and --case.")
    names = list(PARTS) if "all" in choice.part else choice.part
    parts = {name: measure(name, quick=choice.quick, only=choice.case) for name in names}
    print(json.dumps(parts, indent=1) if choice.json else page(parts, scaling.before()))
    if choice.write:
        write(parts)


if __name__ == "__main__":
    main()
