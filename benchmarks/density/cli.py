"""``python -m benchmarks density [--part flights|nab] [--quick] [--page]``.

Writes tables under ``benchmarks/results`` and from them ``docs/evidence/density.md`` with its
figures. ``--quick`` runs small parts, prints, and writes nothing; ``--page`` only draws the page.
"""

from __future__ import annotations

import argparse
import os

import pandas as pd

_PARTS = ("flights", "nab")


def main(arguments: list[str] | None = None) -> None:
    """Run the parts, save them, and make the page."""
    for library in ("OPENBLAS", "OMP", "MKL"):  # one thread for everybody
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(prog="python -m benchmarks density", description=__doc__)
    parser.add_argument("--part", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--quick", action="store_true", help="small parts; write nothing")
    parser.add_argument("--page", action="store_true", help="only make the page from the tables")
    choice = parser.parse_args(arguments)
    from benchmarks.density import page

    for part in () if choice.page else choice.part:
        tables = measure(part, quick=choice.quick)
        if choice.quick:
            print(next(iter(tables.values())).to_string(index=False))
        else:
            page.save(tables)
    if not choice.quick:
        page.write()


def measure(part: str, *, quick: bool) -> dict[str, pd.DataFrame]:
    """The tables of one part, by name; the first is the summary."""
    import river

    from benchmarks.density import anomalies, flights
    from benchmarks.runs import provenance

    made_with = f"{provenance()}, river {river.__version__}"
    if part == "flights":
        results, days = flights.run(quick=quick)
        return {"flights": results.assign(made_with=made_with), "flights-days": days}
    totals, each, shown = anomalies.run(quick=quick)
    return {"nab": totals.assign(made_with=made_with), "nab-series": each, "nab-shown": shown}
