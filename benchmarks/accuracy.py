"""Accuracy against the bars: ``python -m benchmarks.accuracy [--quick] [--case PART] [--jobs N]``.

Seeds were not used for tuning and nothing is set by hand. Results go to
``benchmarks/results/accuracy.jsonl``, one line a run, and the table to ``accuracy.md`` beside it; a
run that was cut off goes on where it stopped. ``--quick`` prints one seed of each quick case only.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.cases import CASES, Case
from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import Row, mean_and_error, provenance, run

QUICK = ("2-D, speed .08", "births, near", "null")


def work(name: str, seed: int) -> Row:
    """Run one seed of a case by its name."""
    return {"case": name, "seed": seed} | run(CASES[name], seed)


def judged(case: Case, rows: list[Row]) -> list[str]:
    """Lines of the table for one case: figure, bar, verdict."""
    lines = []
    for bar, bound in case.bars.items():
        name = bar.removeprefix("max_")
        mean, error, n = mean_and_error(rows, name)
        reached = mean <= bound if bar.startswith("max_") else mean >= bound
        sign = "≤" if bar.startswith("max_") else "≥"
        spread = "" if n == 1 else f" ± {error:.4f}"
        verdict = "reached" if reached else "**missed**"
        lines.append(
            f"| {case.name} | {name} | {mean:.4f}{spread} | {sign} {bound:g} | {n} | {verdict} |"
        )
    return lines


def context(case: Case, rows: list[Row]) -> str:
    """One line of further figures for a case."""
    names = ("ari", "oracle_ari", "nmi", "full_nmi", "k", "rows_per_second")
    shown = [f"{name} {mean_and_error(rows, name)[0]:.4g}" for name in names if name in rows[0]]
    return f"| {case.name} | {', '.join(shown)} |"


def table(results: dict[str, list[Row]]) -> str:
    """The page: bars first, then the context of each case."""
    head = ["# Accuracy", "", "Made by `python -m benchmarks.accuracy`.", provenance(), ""]
    head += ["| case | figure | measured | bar | seeds | |", "|---|---|---|---|---|---|"]
    bars = [line for name, rows in results.items() for line in judged(CASES[name], rows)]
    more = ["", "| case | mean over batches and seeds |", "|---|---|"]
    more += [context(CASES[name], rows) for name, rows in results.items()]
    return "\n".join(head + bars + more) + "\n"


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed of the quick cases")
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    choice = parser.parse_args()
    names = [n for n in (QUICK if choice.quick else CASES) if choice.case in n]
    seeds = {n: CASES[n].seeds[: 1 if choice.quick else None] for n in names}
    jobs = {f"{n} / {s}": (n, s) for n in names for s in seeds[n]}
    if choice.quick:
        rows = {key: work(*args) for key, args in jobs.items()}
    else:
        rows = fill(RESULTS / "accuracy.jsonl", jobs, work, choice.jobs)
    by_case = {n: [row for row in rows.values() if row["case"] == n] for n in names}
    page = table(by_case)
    print(page)
    if not choice.quick and not choice.case:
        (RESULTS / "accuracy.md").write_text(page)


if __name__ == "__main__":
    main()
