"""False alarms of the split evidence: ``python -m benchmarks.false_alarms``.

Streams of one cluster that never changes, drawn from each family. Every split is a mistake. Counts
splits by the evidence and splits by the ratio of marginals, and writes results/false-alarms.md.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import provenance
from scstream import Config
from scstream.core import moves
from scstream.core.window import Exponential
from scstream.families import Categorical
from scstream.model import Model, Settings

Array = npt.NDArray[np.float64]
Rng = np.random.Generator
Rows = Callable[[int], Array]  # that many rows of the cluster

N_BATCHES = 1000
CELLS = (  # rows of a batch, half-life, threshold, number of streams
    (100, 5.0, 5.0, 4),
    (1000, 5.0, 5.0, 2),
    (100, 50.0, 5.0, 1),
    (100, 5.0, 2.5, 2),
)
MIXED = {"gaussian": [0, 1], "poisson": [2, 3], "bernoulli": [4, 5, 6]}

PAGE = """\
# False alarms of the split evidence

Made by `python -m benchmarks.false_alarms` from `false-alarms.jsonl`; do not edit. {provenance}.

One cluster that never changes; its parameters and its rows are drawn from the family. `ScStream`
has its defaults but for the columns below. Streams have {n_batches} batches each. A split is
counted for the evidence if the ratio of marginals alone, with the same random number, would not
have accepted it. *Run length* is the mean number of batches until the first such split, with a
95 % interval for a constant rate; without a split it is a lower bound (95 %). *K* is the mean
number of clusters over all batches: it shows whether false splits are merged again.

{table}

## Clusters that are not of the family

One cluster of another shape than the family's, which is Gaussian. More clusters describe it better,
so that splits are no chance alarms: the family is wrong.

{misfits}
"""


def gaussian(n_features: int) -> Callable[[Rng], Rows]:
    """Mean and covariance of a normal-inverse-Wishart distribution."""

    def cluster(rng: Rng) -> Rows:
        scale = np.eye(n_features)
        sigma = stats.invwishart.rvs(n_features + 4, scale, random_state=rng)
        factor = np.linalg.cholesky(np.atleast_2d(sigma))
        centre = 3.0 * rng.standard_normal(n_features)
        return lambda n: centre + rng.standard_normal((n, n_features)) @ factor.T

    return cluster


def diagonal(rng: Rng) -> Rows:
    centre, std = rng.standard_normal(5), 1.0 / np.sqrt(rng.gamma(3.0, size=5))
    return lambda n: centre + std * rng.standard_normal((n, 5))


def multinomial(rng: Rng) -> Rows:
    share = rng.dirichlet(np.full(50, 0.5))
    return lambda n: rng.multinomial(60, share, size=n).astype(float)


def bernoulli(rng: Rng) -> Rows:
    share = rng.random(12)
    return lambda n: (rng.random((n, 12)) < share).astype(float)


def categorical(rng: Rng) -> Rows:
    bounds = rng.dirichlet(np.ones(4), size=6).cumsum(axis=1)[:, :-1]
    return lambda n: (rng.random((n, 6, 1)) > bounds).sum(axis=2).astype(float)


def poisson(rng: Rng) -> Rows:
    rate = rng.gamma(2.0, 2.0, size=6)
    return lambda n: rng.poisson(rate, size=(n, 6)).astype(float)


def mixed(rng: Rng) -> Rows:
    parts = gaussian(2)(rng), poisson(rng), bernoulli(rng)
    return lambda n: np.column_stack([parts[0](n), parts[1](n)[:, :2], parts[2](n)[:, :3]])


def student(rng: Rng) -> Rows:
    return lambda n: rng.standard_t(3.0, (n, 5))


def log_normal(rng: Rng) -> Rows:
    return lambda n: rng.lognormal(0.0, 0.8, (n, 5))


NULLS: dict[str, tuple[Any, Callable[[Rng], Rows]]] = {
    "gaussian, 2 columns": ("gaussian", gaussian(2)),
    "gaussian, 16 columns": ("gaussian", gaussian(16)),
    "diagonal, 5 columns": ("diagonal", diagonal),
    "multinomial, 50 columns, 60 trials": ("multinomial", multinomial),
    "bernoulli, 12 columns": ("bernoulli", bernoulli),
    "categorical, 6 columns of 4 levels": (Categorical((4,) * 6, 1.0), categorical),
    "poisson, 6 columns": ("poisson", poisson),
    "mixed: gaussian, poisson, bernoulli": (MIXED, mixed),
}
MISFITS: dict[str, tuple[Any, Callable[[Rng], Rows]]] = {
    "Student's t, 3 degrees of freedom, 5 columns": ("gaussian", student),
    "log-normal, sigma 0.8, 5 columns": ("gaussian", log_normal),
}


@contextmanager
def counted_splits() -> Iterator[Counter[str]]:
    """Count splits that the ratio accepts, and those that only the evidence accepts."""
    counts: Counter[str] = Counter()
    accept = moves.accept_splits

    def accept_and_count(family: Any, config: Config, *args: Any, **sweep: Any) -> Any:
        found, n_proposed = accept(family, config, *args, **sweep)
        by_ratio = accept(family, replace(config, split_evidence=None), *args, **sweep)[0]
        counts["ratio"] += len(np.intersect1d(found, by_ratio))
        counts["evidence"] += len(np.setdiff1d(found, by_ratio))
        return found, n_proposed

    with patch.object(moves, "accept_splits", accept_and_count):
        yield counts


def work(
    null: str, n_rows: int, half_life: float, threshold: float, seed: int, n_batches: int
) -> dict[str, Any]:
    """Learn one stream, and count its splits."""
    streams = NULLS | MISFITS
    family, cluster = streams[null]
    rng = np.random.default_rng([seed, list(streams).index(null)])
    rows = cluster(rng)
    config = Config(seed=seed, kernel=Exponential(half_life), split_evidence=threshold)
    model: Settings | Model = Settings(family=family, config=config, n_jobs=1)
    n_clusters, first, n_born = [], n_batches, 0
    with counted_splits() as counts:
        for batch in range(n_batches):
            model, _, info = model.update(rows(n_rows))
            n_clusters.append(model.state.n_clusters)
            n_born += sum(event.kind == "born" for event in info.events) if batch else 0
            if counts["evidence"]:
                first = min(first, batch)
    return {
        "null": null,
        "rows": n_rows,
        "half_life": half_life,
        "threshold": threshold,
        "seed": seed,
        "batches": n_batches,
        "by_evidence": counts["evidence"],
        "by_ratio": counts["ratio"],
        "born": n_born,
        "first": first,
        "alarm": int(counts["evidence"] > 0),
        "mean_k": float(np.mean(n_clusters)),
    }


def run_length(observed: int, n_alarms: int) -> str:
    """Mean batches until an alarm, with a 95 % interval: alarms at a constant rate."""
    low = 2.0 * observed / stats.chi2.ppf(0.975, 2 * n_alarms + 2)
    if not n_alarms:
        return f"> {2.0 * observed / stats.chi2.ppf(0.95, 2):.0f}"
    high = 2.0 * observed / stats.chi2.ppf(0.025, 2 * n_alarms)
    return f"{observed / n_alarms:.0f} ({low:.0f} to {high:.0f})"


def line(rows: list[dict[str, Any]]) -> list[str]:
    """One line of the table, from the streams of one cell."""
    thousands = sum(row["batches"] for row in rows) / 1000.0
    one = rows[0]
    return [
        one["null"],
        f"{one['rows']}",
        f"{one['half_life']:g}",
        f"{one['threshold']:g}",
        f"{sum(row['by_evidence'] for row in rows) / thousands:.1f}",
        run_length(sum(row["first"] for row in rows), sum(row["alarm"] for row in rows)),
        f"{sum(row['by_ratio'] for row in rows) / thousands:.1f}",
        f"{sum(row['born'] for row in rows) / thousands:.1f}",
        f"{np.mean([row['mean_k'] for row in rows]):.2f}",
        f"{len(rows)}",
    ]


HEAD = [
    "stream",
    "rows",
    "half-life",
    "threshold",
    "splits by evidence per 1,000 batches",
    "run length",
    "splits by ratio per 1,000",
    "births per 1,000",
    "K",
    "streams",
]


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each cell."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = (row["rows"], row["half_life"], row["threshold"], row["null"])
        cells.setdefault(key, []).append(row)
    streams = list(NULLS | MISFITS)
    order = sorted(cells, key=lambda key: (key[1], -key[2], key[0], streams.index(key[3])))
    lines = [HEAD, ["---"] * len(HEAD), *(line(cells[key]) for key in order)]
    return "\n".join("| " + " | ".join(cell) + " |" for cell in lines)


def page(rows: dict[str, dict[str, Any]]) -> str:
    """The page of results."""
    return PAGE.format(
        provenance=provenance(),
        n_batches=N_BATCHES,
        table=table([row for row in rows.values() if row["null"] in NULLS]),
        misfits=table([row for row in rows.values() if row["null"] in MISFITS]),
    )


def main() -> None:
    """Run what is not in the results yet, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cells = [(null, *cell) for cell in CELLS for null in NULLS]
    cells += [(null, *CELLS[0][:3], 2) for null in MISFITS]
    jobs = {
        f"{null}; {n_rows} rows, half-life {half_life:g}, threshold {threshold:g}, seed {seed}": (
            (null, n_rows, half_life, threshold, seed, N_BATCHES)
        )
        for null, n_rows, half_life, threshold, n_seeds in cells
        for seed in range(n_seeds)
    }
    rows = fill(RESULTS / "false-alarms.jsonl", jobs, work, options.jobs)
    (RESULTS / "false-alarms.md").write_text(page(rows))


if __name__ == "__main__":
    main()
