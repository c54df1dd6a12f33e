"""The paper's sets, figures side by side: ``python -m benchmarks.paper_tables [--jobs N]``.

For each set of the paper's Tables 1 and 2: what the paper prints for its method, what the authors'
program reached where it was measured, paper mode with the prior that the paper gives (for counts it
gives none; there the prior is ours), and the default. Results go to
``benchmarks/results/paper-tables.jsonl`` and ``paper-tables.md``; a run that was cut off goes on.
"""

from __future__ import annotations

import argparse
import os
from functools import cache

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.paper.methods.ours import chosen
from benchmarks.paper.published import METRICS, caveat, published
from benchmarks.paper.sets import SETS, Table
from benchmarks.paper_rules import ORIGINAL, prequential_scores
from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import Row, mean_and_error, provenance
from scstream import ScStream

SEEDS = (0, 1)
UNITS = {  # line of the paper's tables: our set, most batches
    "gauss2d": ("gauss2d", 1000),
    "covertype": ("covertype", 600),
    "imagenet100-recurring": ("imagenet100-recurring", 600),
    "multinomial": ("multinomial", 60),
    "20news": ("20news-nostop-shuffled", 600),
}
ALGORITHMS = ("paper", "printed", "default")
SHOWN = ("ari", "nmi", "full_nmi")


@cache
def loaded(name: str) -> Table:
    """Rows and labels of a set."""
    return SETS[name].load()


def work(unit: str, algorithm: str, seed: int) -> Row:
    """Predict, score and learn a set."""
    name, most = UNITS[unit]
    entry, table = SETS[name], loaded(name)
    given = {"prior": "auto", "half_life": 5.0}
    if algorithm != "default" and entry.published is not None:
        given = entry.published
    settings = chosen(n_features=table.X.shape[1], k=0, kind=entry.kind, seed=seed, **given)
    n_rows = min(table.X.shape[0], most * entry.batch)
    model = ScStream(algorithm=algorithm, n_jobs=1, **settings)
    scores = prequential_scores(model, table.X[:n_rows], table.y[:n_rows], entry.batch)
    return {"unit": unit, "algorithm": algorithm, "seed": seed} | scores


def line(name: str, scores: list[str]) -> str:
    """One line of a table."""
    return f"| {name} | " + " | ".join(scores) + " |"


def page(rows: list[Row]) -> str:
    """The page: a table a set."""
    lines = ["# The paper's tables", "", "Made by `python -m benchmarks.paper_tables`."]
    lines += [provenance(), "", "Mean ± standard error over seeds.", ""]
    for unit, (name, most) in UNITS.items():
        lines += [f"## {SETS[name].title}", ""]
        if caveat(unit):
            lines += [caveat(unit), ""]
        if most < 600:
            lines += [f"Ours on the first {most} batches.", ""]
        lines += ["| | ARI | NMI | full NMI | seeds |", "|---|---|---|---|---|"]
        for each in published(unit):
            if each.method == "ScStream":
                found = dict(zip(METRICS, each.scores, strict=True))
                lines.append(line("printed in the paper", [f"{found[m]}" for m in SHOWN] + ["–"]))
        if unit == "gauss2d":
            for prior in ("2-D, paper's prior", "2-D, tuned prior"):
                shown = [f"{score:.3f}" for score in ORIGINAL[prior]]
                lines.append(line(f"the authors' program ({prior})", [*shown, "1"]))
        for algorithm in ALGORITHMS:
            found_rows = [r for r in rows if (r["unit"], r["algorithm"]) == (unit, algorithm)]
            cells = []
            for metric in SHOWN:
                mean, error, n = mean_and_error(found_rows, metric)
                cells.append(f"{mean:.3f}" if np.isnan(error) else f"{mean:.3f} ± {error:.3f}")
            lines.append(line(f'`algorithm="{algorithm}"`', [*cells, str(n)]))
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    n_jobs = parser.parse_args().jobs
    jobs = {
        f"{unit} / {algorithm} / {seed}": (unit, algorithm, seed)
        for seed in SEEDS
        for unit in UNITS
        for algorithm in ALGORITHMS
    }
    text = page(list(fill(RESULTS / "paper-tables.jsonl", jobs, work, n_jobs).values()))
    print(text)
    (RESULTS / "paper-tables.md").write_text(text)


if __name__ == "__main__":
    main()
