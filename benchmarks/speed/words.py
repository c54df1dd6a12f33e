"""Streams of texts as counts of words in CSR, against k-means given the clusters that are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.paper.files import Missing
from benchmarks.paper.sets import SETS
from benchmarks.speed.rows import fit_row, predict_row
from benchmarks.speed.timing import Budget, Row, by_turns
from scstream import ScStream

_BATCH = 1000
_BARS = {"20news-nostop-bydate": 5.0, "news-t": 4.0, "tweets-t": 4.0}


@dataclass(frozen=True)
class Stream:
    """A labelled stream of the comparison, cut into batches; a short rest is left out."""

    name: str
    batch: int = _BATCH

    @cached_property
    def batches(self) -> list[Any]:
        X = SETS[self.name].load().X
        return [X[b * self.batch : (b + 1) * self.batch] for b in range(X.shape[0] // self.batch)]


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Rows of every stream whose file is there."""
    bars = {"counts-quick": None} if quick else _BARS
    with threadpool_limits(1):
        for name, bar in bars.items():
            if only in f"{name} words":
                try:
                    yield from measure(Stream(name, 250 if quick else _BATCH), bar, quick=quick)
                except Missing as error:
                    yield {
                        "case": f"{name} words",
                        "figure": "partial_fit / MiniBatchKMeans",
                        "verdict": "skipped",
                        "note": str(error),
                    }


def measure(stream: Stream, bar: float | None, *, quick: bool) -> Iterator[Row]:
    """Learn the first half of a stream, then time the second half again and again."""
    from sklearn.cluster import MiniBatchKMeans

    half = len(stream.batches) // 2
    model = ScStream("multinomial", random_state=0, n_jobs=1)
    for batch in stream.batches[:half]:
        model.partial_fit(batch)
    start, k, found = model.model_, model.n_clusters_, []
    kmeans = MiniBatchKMeans(k, batch_size=stream.batch, n_init=1, random_state=0)
    kmeans.partial_fit(stream.batches[half - 1])
    mine, theirs, unseen = (cycle(stream.batches[half:]) for _ in range(3))
    n_left = 0

    def fit() -> None:
        nonlocal n_left
        if n_left == 0:
            model.model_, n_left = start, len(stream.batches) - half
        model.partial_fit(next(mine))
        n_left -= 1
        found.append(model.n_clusters_)

    tasks = {
        "fit": fit,
        "kmeans": lambda: kmeans.partial_fit(next(theirs)),
        "predict": lambda: model.predict(next(unseen)),
    }
    times = by_turns(tasks, Budget.of(quick), after={"predict": "fit"})
    case = f"{stream.name} words"
    row = fit_row(case, times, "fit", sum(found) / len(found), bar=bar)
    yield row | {"note": f"{row['note']}; k-means has {k}"}
    yield predict_row(case, times, "fit")
