"""``python -m benchmarks.mutants``: try mutants of the core, the families and the kernels."""

from __future__ import annotations

import argparse
import json
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.mutants.page import write_page
from benchmarks.mutants.run import judge
from benchmarks.mutants.selection import selected_mutants
from benchmarks.results_io import RESULTS, fill, read

RESULT = RESULTS / "mutants.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one mutant of each module")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", metavar="TEXT", help="'survived', or a part of a name")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument(
        "name", nargs="?", help="try mutants whose name contains this; save nothing"
    )
    options = parser.parse_args()
    mutants = {mutant.key: mutant for mutant in selected_mutants(quick=options.quick)}
    if options.name:
        mutants = {key: mutant for key, mutant in mutants.items() if options.name in key}
    if options.list:
        print(*mutants, sep="\n")
    elif options.name or options.quick:
        for key, mutant in mutants.items():
            print(key, judge(mutant), flush=True)
    else:
        forget(keep=set(mutants), again=options.again)
        rows = fill(
            RESULT, {key: (mutant,) for key, mutant in mutants.items()}, judge, options.jobs
        )
        write_page(rows)


def forget(keep: set[str], *, again: str | None) -> None:
    """Remove results of mutants that do not exist any more, and of those to be tried again."""
    rows = [
        row
        for key, row in read(RESULT).items()
        if key in keep and not (again and (again == row["fate"] or again in key))
    ]
    RESULT.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
