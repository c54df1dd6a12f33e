"""``python -m benchmarks prepare [--quick] [--again] [--jobs N]``.

Scores the model behind every way to scale a stream, writes ``benchmarks/results/prepare.csv`` (a
line for each run) and from it ``docs/evidence/prepare.md``. Runs that the table has are not done
again, unless with ``--again``. ``--quick`` runs one small set, prints, and writes nothing.
"""

from __future__ import annotations

import argparse
import os

import pandas as pd

from benchmarks.results_io import RESULTS

PATH = RESULTS / "prepare.csv"


def main(arguments: list[str] | None = None) -> None:
    """Run, save, and make the page."""
    for library in ("OPENBLAS", "OMP", "MKL"):  # one thread for every run
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(prog="python -m benchmarks prepare", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small set; write nothing")
    parser.add_argument("--again", action="store_true", help="do every run again")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    choice = parser.parse_args(arguments)
    from benchmarks.prepare import page, runs

    if choice.quick:
        print(runs.measure(runs.quick_jobs(), choice.jobs).to_string(index=False))
        return
    known = None if choice.again or not PATH.exists() else pd.read_csv(PATH)
    found = runs.measure(runs.jobs(), choice.jobs, known)
    found.to_csv(PATH, index=False, float_format="%.6g")
    page.write(found)
