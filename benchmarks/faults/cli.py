"""``python -m benchmarks faults [PART ...] [--scale S] [--jobs N]``.

Runs the long fault tests, writes ``benchmarks/results/faults-PART.csv`` and from these tables
``docs/evidence/faults.md``. A part that finds a fault ends with an error and writes nothing.
``--page`` only makes the page again.
"""

from __future__ import annotations

import argparse
import csv
import os

from benchmarks.faults import page
from benchmarks.faults.parts import PARTS, Line
from benchmarks.results_io import RESULTS


def main(arguments: list[str] | None = None) -> None:
    """Run the parts that are named, or all."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the long counts")
    parser.add_argument("--jobs", type=int, default=1, help="processes, where a part can use them")
    parser.add_argument("--page", action="store_true", help="only make the page")
    choice = parser.parse_args(arguments)
    unknown = [name for name in choice.parts if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    for name in [] if choice.page else choice.parts or PARTS:
        found = PARTS[name](choice.scale, choice.jobs)
        lines = [{**line, "scale": choice.scale} for line in found]
        write(name, lines)
        for line in lines:
            print(name, line)
    page.write()


def write(name: str, lines: list[Line]) -> None:
    """Save the table of a part."""
    with (RESULTS / f"faults-{name}.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
