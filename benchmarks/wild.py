"""Rows as people have them, nothing set: predict a batch, then learn it.

``python -m benchmarks.wild`` runs all streams with five seeds and writes the table; ``--quick``
runs one seed of the drawn streams. Record 0027 says which choices looked at which streams, and that
Electricity and Shuttle are not fully held out. `before` is ``family="gaussian"`` on the same stream
(three seeds for noise, seed 0 for telling binary columns and integers); for the other streams it is
what was measured before, in the case of the small tables and digits on another seed or order.

A stream is a function of a seed that returns batches of rows and labels: add it to `STREAMS` with
its bar.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn import datasets as samples

from benchmarks.paper.sets import SETS
from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import provenance
from scstream import ScStream
from scstream.metrics import adjusted_rand

SEEDS = range(5)
_N_ROWS = 20_000

Batches = Iterator[tuple[Any, Any]]


@dataclass(frozen=True)
class Stream:
    """A labelled stream, the ARI to reach, and what was reached before ``family="auto"``."""

    batches: Callable[[int], Batches]
    bar: float | None
    before: float
    held_out: bool = False
    quick: bool = False
    fit: bool = False  # one table, learned by `fit`


def cut(X: Any, y: Any, size: int, n_batches: int | None = None) -> Batches:
    """Cut a table into batches; what is left at the end counts if it is half of one."""
    for start in range(0, len(y), size):
        if 2 * (len(y) - start) < size or (n_batches is not None and start >= size * n_batches):
            return
        yield X[start : start + size], y[start : start + size]


def gaussians(seed: int, d: int = 5) -> tuple[Any, Any, np.random.Generator]:
    """Eight Gaussian clusters with covariances of their own."""
    rng = np.random.default_rng(seed)
    centre = 4.0 * rng.normal(size=(8, d))
    y = rng.integers(8, size=_N_ROWS)
    turns = [np.linalg.qr(rng.normal(size=(d, d)))[0] * rng.uniform(0.5, 1.5, d) for _ in range(8)]
    noise = rng.normal(size=(_N_ROWS, d))
    return centre[y] + np.einsum("nij,nj->ni", np.array(turns)[y], noise), y, rng


def plain(seed: int) -> Batches:
    """Gaussian clusters in five columns."""
    X, y, _ = gaussians(seed)
    return cut(X, y, 1000)


def binary(seed: int) -> Batches:
    """Five Gaussian columns beside eight binary ones that say nothing."""
    X, y, rng = gaussians(seed)
    return cut(np.c_[X, rng.random((_N_ROWS, 8)) < 0.1], y, 1000)


def telling_binary(seed: int) -> Batches:
    """Five Gaussian columns beside eight binary ones whose shares depend on the cluster."""
    X, y, rng = gaussians(seed)
    return cut(np.c_[X, rng.random((_N_ROWS, 8)) < rng.random((8, 8))[y]], y, 1000)


def noise(seed: int) -> Batches:
    """Ten useful columns beside forty of noise."""
    X, y, rng = gaussians(seed, 10)
    return cut(np.c_[X, rng.normal(size=(_N_ROWS, 40))], y, 1000)


def integers(seed: int, width: float) -> Batches:
    """Gaussian clusters, rounded to multiples of a width; their own widths are 0.5 to 1.5."""
    X, y, _ = gaussians(seed)
    return cut(np.round(X / width), y, 1000)


def digits(seed: int) -> Batches:
    """Images of digits, 64 columns."""
    X, y = samples.load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return cut(X[order], y[order], 200)


def table(seed: int, name: str, n_batches: int | None = None) -> Batches:
    """One of the measured streams of the comparison, standardised."""
    stream = SETS[name].load()
    return cut(stream.X, stream.y, SETS[name].batch, n_batches)


def sample(seed: int, name: str) -> Batches:
    """A small table of scikit-learn."""
    if name == "blobs":
        yield samples.make_blobs(3000, centers=3, random_state=0)
    else:
        yield getattr(samples, f"load_{name}")(return_X_y=True)


STREAMS: dict[str, Stream] = {
    "Gaussian K8 D5": Stream(plain, None, 1.0, quick=True),
    "8 binary columns beside 5 Gaussian": Stream(binary, 0.95, 0.001, quick=True),
    "8 telling binary columns": Stream(telling_binary, 0.95, 0.385, quick=True),
    "40 noise columns": Stream(noise, 0.80, 0.783, quick=True),
    "integers, width 3": Stream(partial(integers, width=3.0), 0.75, 0.307, quick=True),
    "integers, width 4": Stream(partial(integers, width=4.0), 0.75, 0.309, quick=True),
    "digits": Stream(digits, 0.75, 0.221),
    "Keystroke": Stream(partial(table, name="keystroke"), 0.60, 0.480),
    "KDD 99": Stream(partial(table, name="kdd99"), 0.67, 0.636),
    "CoverType, 100 batches": Stream(partial(table, name="covertype", n_batches=100), 0.052, 0.062),
    "wine by fit": Stream(partial(sample, name="wine"), 0.90, 0.91, fit=True, quick=True),
    "iris by fit": Stream(partial(sample, name="iris"), 0.90, 0.94, fit=True, quick=True),
    "cancer by fit": Stream(partial(sample, name="breast_cancer"), 0.75, 0.76, fit=True),
    "blobs by fit": Stream(partial(sample, name="blobs"), 0.70, 0.48, fit=True, quick=True),
    "Outdoor": Stream(partial(table, name="outdoor"), 0.48, 0.426, held_out=True),
    "Shuttle": Stream(partial(table, name="shuttle"), 0.33, 0.264, held_out=True),
    "Electricity": Stream(partial(table, name="electricity"), 0.043, 0.053, held_out=True),
    "NOAA": Stream(partial(table, name="noaa"), 0.019, 0.029, held_out=True),
}


def run(name: str, seed: int) -> dict[str, Any]:
    """Score one seed of one stream: mean ARI over batches, or that of `fit`."""
    stream, started = STREAMS[name], time.perf_counter()
    model = ScStream(random_state=seed)
    scores = []
    for number, (X, y) in enumerate(stream.batches(seed)):
        if stream.fit:
            scores.append(adjusted_rand(y, model.fit(X).labels_))
            continue
        if number:
            scores.append(adjusted_rand(y, model.predict(X)))
        model.partial_fit(X)
    return {
        "ari": float(np.mean(scores)),
        "k": model.n_clusters_,
        "choice": model.choice_,
        "seconds": round(time.perf_counter() - started, 1),
    }


def page(rows: dict[str, dict[str, Any]], n_seeds: int) -> str:
    """The table of the results, development and held-out streams apart."""
    lines = ["# Streams as they are, nothing set", "", f"{provenance()}; {n_seeds} seeds.", ""]
    for title, held_out in (("Development", False), ("Held out", True)):
        lines += [f"## {title}", "", "| stream | ARI | sd | K | bar | before | family |"]
        lines += ["|---|---|---|---|---|---|---|"]
        for name, stream in STREAMS.items():
            runs = [rows[key] for key in rows if key.rpartition("/")[0] == name]
            if stream.held_out != held_out or not runs:
                continue
            ari = np.array([each["ari"] for each in runs])
            families = sorted({each["choice"].split(",")[0] for each in runs})
            k = np.mean([each["k"] for each in runs])
            missed = stream.bar is not None and ari.mean() < stream.bar
            bar = "" if stream.bar is None else f"{stream.bar:.3g}{' (missed)' * int(missed)}"
            spread = f"{ari.std(ddof=1):.3f}" if len(ari) > 1 else ""
            lines.append(
                f"| {name} | {ari.mean():.3f} | {spread} | {k:.0f} | {bar} | {stream.before:.3g} "
                f"| {', '.join(families)} |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run the streams that have no result yet, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed of the drawn streams")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="names of streams")
    options = parser.parse_args()
    seeds = range(1) if options.quick else SEEDS
    jobs = {
        f"{name}/{seed}": (name, seed)
        for name, stream in STREAMS.items()
        for seed in seeds
        if (stream.quick or not options.quick) and (not options.only or name in options.only)
    }
    if options.quick:
        print(page({key: run(*args) for key, args in jobs.items()}, 1))
        return
    rows = fill(RESULTS / "wild.jsonl", jobs, run, options.jobs)
    text = page(rows, len(seeds))
    (RESULTS / "wild.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
