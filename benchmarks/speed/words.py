"""Streams of texts as counts of words in CSR, against k-means given the clusters that are found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.paper.files import Missing
from benchmarks.paper.sets import SETS
from benchmarks.speed.rows import fit_row, predict_row
from benchmarks.speed.timing import Row, Timed
from scstream import ScStream

_BARS = {"20news-nostop-shuffled": 5.0, "news-t": 4.0, "tweets-t": 4.0}
_ROUNDS = 5


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Rows of every stream whose file is there."""
    with threadpool_limits(1):
        for name, bar in ({"counts-quick": None} if quick else _BARS).items():
            case = f"{name} words"
            if only not in case:
                continue
            try:
                yield from measure(case, batches_of(name), bar, n_rounds=2 if quick else _ROUNDS)
            except Missing as error:
                figure = "partial_fit / MiniBatchKMeans"
                yield {"case": case, "figure": figure, "verdict": "skipped", "note": str(error)}


def batches_of(name: str) -> list[Any]:
    """The batches of a stream; a short rest is left out."""
    X, size = SETS[name].load().X, SETS[name].batch
    return [X[start : start + size] for start in range(0, X.shape[0] - size + 1, size)]


def measure(case: str, batches: list[Any], bar: float | None, *, n_rounds: int) -> Iterator[Row]:
    """Time the stream after its first batch, batch by batch in turn with k-means."""
    from sklearn.cluster import MiniBatchKMeans

    first, *rest = batches
    model = ScStream("multinomial", random_state=0, n_jobs=1).partial_fit(first)
    start = model.model_
    k = max(model.partial_fit(batch).n_clusters_ for batch in rest)
    kmeans = MiniBatchKMeans(k, batch_size=first.shape[0], n_init=1, random_state=0)
    kmeans.partial_fit(first)
    seconds = np.zeros((3, n_rounds))
    for number in range(n_rounds):
        model.model_ = start
        for batch in rest:
            calls = model.predict, model.partial_fit, kmeans.partial_fit
            seconds[:, number] += [_seconds(call, batch) for call in calls]
    names = ("predict", "fit", "kmeans")
    times = {name: Timed(each / len(rest)) for name, each in zip(names, seconds, strict=True)}
    yield fit_row(case, times, "fit", k, bar=bar)
    yield predict_row(case, times, "fit")


def _seconds(call: Callable[[Any], object], batch: Any) -> float:
    start = time.thread_time()
    call(batch)
    return time.thread_time() - start
