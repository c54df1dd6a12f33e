"""Measure what each part of the default algorithm gains: ``python -m benchmarks.ablation``.

Each part that can be turned off is turned off in turn, and the paper's algorithm is run with the
paper's priors. The table has fractions of the oracle's ARI (full-stream NMI in brackets), with
standard errors. Parts that became constants are in the committed results only.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.cases import CASES, FRESH, Case
from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import Row, mean_and_error, provenance, run
from scstream import Config

PAPER_2D = {"kappa": 1.0, "mean": 0.0, "nu": 4.0, "psi": 1.02}
PAPER_64D = {"kappa": 1.0, "mean": 0.0, "nu": 562.0, "psi": 0.51}


VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "1 vague prior": {"prior": "weak"},
    "3 no births": {"births": False},
    "9 no motion": {"motion": False},
    "11 no evidence": {"config": Config(split_evidence=None, merge_evidence=None)},
    "14 a sampling sweep on every batch": {"n_sweeps": 1},
    "15 heavy clusters split for any gain": {"coarseness": 0.0},
    "archive on": {"archive": True},
    "paper, auto prior": {"algorithm": "paper"},
    "paper, paper's prior": {"algorithm": "paper"},
}
STREAMS = {  # number of seeds, number of batches
    "2-D, speed .08": (4, 60),
    "2-D, speed .25": (4, 60),
    "64-D recurring": (2, 30),
    "multinomial, 60 trials": (2, 20),
}


def work(variant: str, name: str, seed: int) -> Row:
    """Run one variant on one seed of a case."""
    case = CASES[name]
    choices = dict(VARIANTS[variant])
    if variant == "paper, paper's prior":
        choices["prior"] = PAPER_2D if name.startswith("2-D") else PAPER_64D
    n_batches = STREAMS[name][1]
    bare = Case(case.name, lambda s: case.stream(s).take(n_batches), (seed,), {}, case.choices)
    return {"variant": variant, "case": name, "seed": seed} | run(bare, seed, choices)


def table(rows: list[Row]) -> str:
    """The page: a line a variant, a column a stream."""
    head = ["# Ablation", "", "Made by `python -m benchmarks.ablation`.", provenance(), ""]
    sizes = "; ".join(f"{name}: {s} seeds, {b} batches" for name, (s, b) in STREAMS.items())
    head += [
        "Fraction of the oracle's ARI ± standard error (full-stream NMI; mean K).",
        "",
        sizes,
        "",
    ]
    head += ["| variant | " + " | ".join(STREAMS) + " |", "|---" * (1 + len(STREAMS)) + "|"]
    lines = []
    for variant in VARIANTS:
        cells = []
        for name in STREAMS:
            found = [r for r in rows if r["variant"] == variant and r["case"] == name]
            cells.append(cell(found) if found else "–")
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join(head + lines) + "\n"


def cell(rows: list[Row]) -> str:
    """Fraction of the oracle with its error, NMI and K."""
    fraction, error, _ = mean_and_error(rows, "fraction_of_oracle")
    nmi, k = mean_and_error(rows, "full_nmi")[0], mean_and_error(rows, "k")[0]
    return f"{fraction:.3f} ± {error:.3f} ({nmi:.3f}; {k:.0f})"


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    choice = parser.parse_args()
    jobs = {
        f"{variant} / {name} / {seed}": (variant, name, seed)
        for name, (n_seeds, _) in STREAMS.items()
        for seed in tuple(FRESH)[:n_seeds]
        for variant in VARIANTS
        if not (variant == "paper, paper's prior" and name.startswith("multinomial"))
    }
    page = table(list(fill(RESULTS / "ablation.jsonl", jobs, work, choice.jobs).values()))
    print(page)
    (RESULTS / "ablation.md").write_text(page)


if __name__ == "__main__":
    main()
