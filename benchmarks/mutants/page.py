"""The page of results, results/mutants.md."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from benchmarks.mutants.chosen import chosen_mutants
from benchmarks.mutants.explained import EQUIVALENT
from benchmarks.results_io import RESULTS

PAGE = """\
# Mutation run

Made by `python -m benchmarks.mutants` from `mutants.jsonl`; do not edit.

A mutant is a module of `core`, `families` or the numpy kernels with one thing changed: an operator,
a dropped term, a comparison, a constant, a removed statement. {n_chosen} mutants were chosen by
hand, the others are a random sample that depends on the source alone. A mutant is killed if a test
of its module fails (`benchmarks/mutants/run.py` lists them). The digests of tests/frozen, which
notice any change but do not say what is right, take no part. Tests run with the numpy kernels. The
exact sampler is left out: tests/exact plants its own errors.

**{n_killed} of {n} mutants are killed ({percent:.0f} %).**

{modules}

## Survivors

{survivors}

## All mutants

{mutants}
"""


def write_page(rows: dict[str, dict[str, Any]]) -> None:
    """Write the page, and print the score."""
    rows = dict(sorted(rows.items()))
    killed = [key for key, row in rows.items() if row["fate"] == "killed"]
    survivors = [key for key in rows if key not in killed]
    chosen = {mutant.key for mutant in chosen_mutants()}
    page = PAGE.format(
        n_chosen=len(chosen),
        n_killed=len(killed),
        n=len(rows),
        percent=100.0 * len(killed) / len(rows),
        modules=_by_module(rows),
        survivors=_table(
            ["mutant", "why"],
            [[_code(key), EQUIVALENT.get(key, "not explained")] for key in survivors],
        ),
        mutants=_table(
            ["mutant", "killed by"],
            [[_code(key), row["test"].split("[")[0] or "–"] for key, row in rows.items()],
        ),
    )
    (RESULTS / "mutants.md").write_text(page)
    print(f"{len(killed)} of {len(rows)} killed")


def _by_module(rows: dict[str, dict[str, Any]]) -> str:
    fates: dict[str, list[bool]] = defaultdict(list)
    for key, row in rows.items():
        fates[".".join(key.split(":")[0].split(".")[:2])].append(row["fate"] == "killed")
    lines = [[name, str(len(of)), str(sum(of))] for name, of in sorted(fates.items())]
    return _table(["module", "mutants", "killed"], lines)


def _code(key: str) -> str:
    return "`` " + key.replace("|", "\\|") + " ``"


def _table(head: list[str], lines: list[list[str]]) -> str:
    if not lines:
        return "None."
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
