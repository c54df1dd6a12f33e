"""``python -m benchmarks serve {load,soak,page} [options]``: measure, write the table, the page."""

from __future__ import annotations

import argparse
import csv
import os
from importlib import import_module
from typing import Any

from benchmarks.ledger import RESULTS

PARTS = ("load", "soak", "page")


def main(arguments: list[str]) -> None:
    """Run the part that is named first."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks serve")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seconds", type=float, help="of load: of every round, or in all")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if chosen.part != "page":
        how = {} if chosen.seconds is None else {"seconds": chosen.seconds}
        write(chosen.part, import_module(f"benchmarks.serve.{chosen.part}").run(**how))
    import_module("benchmarks.serve.page").write()


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """Save the table of a part and show it."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    with (RESULTS / f"serve-{name}.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, names, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    for row in rows:
        print(name, row, flush=True)
