"""What the live page costs the process that learns: `python -m benchmarks.page_cost`.

Milliseconds of one core for a picture, microseconds for a batch while nobody looks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np

from scstream.families import Diagonal, Gaussian, Multinomial
from scstream.families.base import Family
from scstream.serve.live import Live
from scstream.serve.memory import LabelledRows
from scstream.serve.picture import render
from scstream.stream.model_version import ModelVersion
from tests.page.stage import model_version_of, state_of

N_ROWS = 600
SIZES = [
    ("gaussian", 2, 10),
    ("gaussian", 16, 50),
    ("gaussian", 16, 200),
    ("gaussian", 100, 200),
    ("gaussian", 1000, 20),
    ("diagonal", 384, 300),
    ("diagonal", 1000, 200),
    ("multinomial", 1000, 10_000),
]


def main() -> None:
    print("family        D      K   picture, ms   kB   batch, us   and 5 times a second, us")
    for name, n_features, n_clusters in SIZES:
        rng = np.random.default_rng(0)
        X = rng.poisson(3.0, size=(N_ROWS, n_features)).astype(np.float64)
        group = np.arange(N_ROWS) % n_clusters
        family = family_of(name, X)
        some = family.stats(X, group, min(n_clusters, N_ROWS))
        stats = np.resize(some, (n_clusters, family.n_stats))
        reading = model_version_of(family, state_of(family, stats))
        shown_rows = LabelledRows(X, group, np.zeros(N_ROWS))
        first = render(reading, learned=shown_rows)
        picture = seconds(
            lambda r=reading, t=shown_rows, f=first: render(
                r, learned=t, before=f.projection, hold=True
            )
        )
        size = len(json.dumps(first.values)) / 1000
        batches = [seen(reading, X, group, eager=eager) for eager in (False, True)]
        print(
            f"{name:11} {n_features:4} {n_clusters:6} {1e3 * picture:13.1f} {size:4.0f}"
            f" {1e6 * batches[0]:11.0f} {1e6 * batches[1]:27.0f}"
        )


def family_of(name: str, X: np.ndarray) -> Family:
    n = X.shape[1]
    if name == "gaussian":
        return Gaussian(mean=np.zeros(n), kappa=0.01, nu=n + 3.0, psi=np.eye(n))
    return Diagonal.weak_prior(X[:50]) if name == "diagonal" else Multinomial(np.ones(n))


def seen(reading: ModelVersion, X: np.ndarray, labels: np.ndarray, *, eager: bool) -> float:
    """Time of `Live.add_version`, where it is never due or always."""
    ticks = count()
    live = Live(clock=(lambda: float(next(ticks))) if eager else lambda: 0.0)
    readings = [replace(reading, batch=number) for number in range(300)]
    live.add_version(readings[0], X=X, labels=labels)
    started = time.thread_time()
    for each in readings[1:]:
        live.add_version(each, X=X, labels=labels)
    return (time.thread_time() - started) / (len(readings) - 1)


def seconds(task: Callable[[], object]) -> float:
    """Least time of five."""
    times = []
    for _ in range(5):
        started = time.thread_time()
        task()
        times.append(time.thread_time() - started)
    return min(times)


if __name__ == "__main__":
    main()
