"""Groups of clusters on shapes that no cluster has: ``python -m benchmarks.levels``.

Every batch is predicted by clusters and by groups, then learned. Writes results/levels.md.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_digits, make_blobs, make_circles, make_moons
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from benchmarks.paper.files import arrays, recipe
from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import provenance
from scstream.core.groups import Groups
from scstream.model import Model, Settings

SEEDS = range(5)
PAGE = """\
# Groups of clusters

Made by `python -m benchmarks.levels` from `levels.jsonl`; do not edit. {provenance}.

Nothing is set. Every batch is predicted, then learned; the ARI is the mean over batches, here with
its standard deviation over {n_seeds} seeds. *One group* is the share of batches after which all
clusters are one group. *Ids kept* is the share of weight whose group has the id that it had after
the batch before. *ms* are the median times of learning a batch and of making groups, on a shared
machine that other programs kept busy; groups are made only when they are asked for.

{table}
"""
NUMBERS = ("clusters", "groups", "k", "g", "true", "one", "kept", "ms", "join")
HEAD = "stream|bar|ARI of clusters|ARI of groups|K|groups|true|one group|ids kept|ms|ms of groups"


class Stream(NamedTuple):
    """Rows, true labels, and the number of rows in a batch."""

    X: Any
    y: Any
    batch: int


def skewed(
    seed: int, sigma: float, n_clusters: int = 8, n_features: int = 5, box: float = 10.0
) -> Stream:
    """Log-normal clusters."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-box, box, (n_clusters, n_features))
    y = rng.integers(n_clusters, size=10_000)
    return Stream(centre[y] + np.exp(sigma * rng.standard_normal((10_000, n_features))), y, 500)


def student(seed: int) -> Stream:
    """Clusters with heavy tails in five columns."""
    rng = np.random.default_rng(seed)
    y = rng.integers(8, size=10_000)
    return Stream(rng.uniform(-10, 10, (8, 5))[y] + rng.standard_t(3, (10_000, 5)), y, 500)


def curved(seed: int, make: Callable[..., Any], **choices: float) -> Stream:
    """Two moons or two rings."""
    return Stream(*make(10_000, random_state=seed, **choices), 500)


def blobs(seed: int) -> Stream:
    """Eight round clusters in five columns."""
    return Stream(*make_blobs(10_000, 5, centers=8, random_state=seed), 500)


def zipf(seed: int) -> Stream:
    """Thirty round clusters whose sizes follow Zipf's law."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, 31)
    y = rng.choice(30, size=20_000, p=share / share.sum())
    return Stream(rng.uniform(-10, 10, (30, 5))[y] + rng.standard_normal((20_000, 5)), y, 500)


def gauss2d(seed: int) -> Stream:
    """Twenty drifting Gaussians in the plane that meet and overlap."""
    found = recipe("gen_gauss2d").generate(n=100_000, seed=20220328 + seed)
    return Stream(found["X"], found["y"], 1000)


def digits(seed: int) -> Stream:
    """Sixteen principal components of the 1,797 digits, four times in random order."""
    X, y = load_digits(return_X_y=True)
    X = PCA(16, random_state=0).fit_transform(X)
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(len(y)) for _ in range(4)])
    return Stream(X[order], y[order], 300)


def table(_: int, name: str, batch: int, most: int | None = None) -> Stream:
    """Rows of a file in its own order."""
    X, y = arrays(name)
    return Stream(np.asarray(X, dtype=np.float64)[:most], y[:most], batch)


STREAMS: dict[str, tuple[Callable[[int], Stream], str]] = {
    "log-normal .8": (partial(skewed, sigma=0.8), ">= .90"),
    "log-normal 1.2, centres within 20": (partial(skewed, sigma=1.2, box=20.0), ">= .85"),
    "log-normal 1.2, centres within 10": (partial(skewed, sigma=1.2), ""),
    "log-normal .8, 10 columns": (partial(skewed, sigma=0.8, n_features=10), ">= .90"),
    "log-normal 1.2, 10 columns, centres within 20": (
        partial(skewed, sigma=1.2, n_features=10, box=20.0),
        ">= .85",
    ),
    "one log-normal cluster .8": (partial(skewed, sigma=0.8, n_clusters=1), "one group >= .95"),
    "one log-normal cluster 1.2": (partial(skewed, sigma=1.2, n_clusters=1), ""),
    "moons, noise .05": (partial(curved, make=make_moons, noise=0.05), ">= .90"),
    "moons, noise .1": (partial(curved, make=make_moons, noise=0.1), ""),
    "rings, noise .05": (partial(curved, make=make_circles, noise=0.05, factor=0.5), ">= .60"),
    "rings, noise .08": (partial(curved, make=make_circles, noise=0.08, factor=0.5), ""),
    "Student-t, 3 degrees": (student, ""),
    "gauss2d": (gauss2d, "clusters - .01"),
    "blobs": (blobs, "clusters - .01"),
    "Zipf sizes": (zipf, "clusters - .01"),
    "digits": (digits, ""),
    "Keystroke": (partial(table, name="keystroke", batch=100), ""),
    "CoverType": (partial(table, name="covtype", batch=1000, most=50_000), ""),
    "News-T embeddings": (partial(table, name="minilm_news_t", batch=1000), "clusters"),
    "20News embeddings": (partial(table, name="minilm_20news_bodies_bydate", batch=1000), ".34"),
}


def work(name: str, seed: int) -> dict[str, Any]:
    """Predict and learn one stream."""
    X, y, size = STREAMS[name][0](seed)
    model: Model = Settings(random_state=seed, n_jobs=1).update(X[:size]).model
    rows = []
    for start in range(size, len(X) - size + 1, size):
        batch, truth = X[start : start + size], y[start : start + size]
        before = model.groups()
        clusters = model.at().labels(batch)
        groups = model.at(level="group").labels(batch)
        times = [time.perf_counter()]
        model = model.update(batch).model
        times.append(time.perf_counter())
        after = model.groups()
        times.append(time.perf_counter())
        found = adjusted_rand_score(truth, clusters), adjusted_rand_score(truth, groups)
        numbers = model.state.n_clusters, len(after), len(after) == 1, kept(before, after)
        rows.append([*found, *numbers, *np.diff(times) * 1000.0])
    columns = ("clusters", "groups", "k", "g", "one", "kept")
    mean = dict(zip(columns, np.mean(rows, axis=0).tolist(), strict=False))
    learn, join = np.median(np.array(rows)[:, -2:], axis=0).tolist()
    return {"stream": name, "seed": seed} | mean | {"true": len(set(y)), "ms": learn, "join": join}


def kept(before: Groups, after: Groups) -> float:
    """Share of the weight of old clusters whose group has the same id as before."""
    _, old, new = np.intersect1d(before.cluster, after.cluster, return_indices=True)
    weight = after.cluster_weight[new]
    return float(weight @ (before.group[old] == after.group[new]) / weight.sum())


def lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| " + " | ".join(HEAD.split("|")) + " |"
    yield "|" + " --- |" * (HEAD.count("|") + 1)
    for name, (_, bar) in STREAMS.items():
        found = [row for row in rows if row["stream"] == name]
        mean = {key: np.mean([row[key] for row in found]) for key in NUMBERS}
        spread = {key: np.std([row[key] for row in found]) for key in ("clusters", "groups")}
        ari = [f"{mean[key]:.3f} ± {spread[key]:.3f}" for key in ("clusters", "groups")]
        counts = [f"{mean['k']:.1f}", f"{mean['g']:.1f}", f"{mean['true']:.0f}"]
        shares = [f"{mean['one']:.2f}", f"{mean['kept']:.3f}"]
        times = [f"{mean['ms']:.1f}", f"{mean['join']:.1f}"]
        yield "| " + " | ".join([name, bar, *ari, *counts, *shares, *times]) + " |"


def main() -> None:
    """Run what is not in the results yet, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(STREAMS))
    options = parser.parse_args()
    jobs = {f"{name}, {seed}": (name, seed) for name in options.only for seed in SEEDS}
    rows = list(fill(RESULTS / "levels.jsonl", jobs, work, options.jobs).values())
    if options.only == list(STREAMS):
        page = PAGE.format(
            provenance=provenance(), n_seeds=len(SEEDS), table="\n".join(lines(rows))
        )
        (RESULTS / "levels.md").write_text(page)


if __name__ == "__main__":
    main()
