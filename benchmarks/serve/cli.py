"""``python -m benchmarks serve {load,soak,flood,page}``: measure, write the table, the page."""

from __future__ import annotations

import argparse
import os
from importlib import import_module

from benchmarks.results_io import write_table

PARTS = ("load", "soak", "flood", "page")


def main(arguments: list[str]) -> None:
    """Run the part that is named first."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks serve")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seconds", type=float, help="of load: of every round, or in all")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if chosen.part != "page":
        how = {} if chosen.seconds is None else {"seconds": chosen.seconds}
        write_table(
            "serve", chosen.part, import_module(f"benchmarks.serve.{chosen.part}").run(**how)
        )
    import_module("benchmarks.serve.page").write()
