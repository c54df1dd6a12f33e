"""One row per call, against clusterers of river, which are made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any

from river import cluster
from threadpoolctl import threadpool_limits

from benchmarks.speed.timing import Budget, Row, Task, by_turns, judged, ratio
from benchmarks.speed.workloads import Workload
from scstream.river import ScStreamClusterer

_BAR = 60.0  # milliseconds for a thousand rows
_WORK = Workload(1000, 5, 8, n_batches=2)
_RADIUS = 5.0  # of micro-clusters of DBSTREAM, in standard deviations: it finds the eight clusters
_CHUNK = 200  # rows of one sample
_RIVALS: dict[str, Callable[[], Any]] = {
    "KMeans": lambda: cluster.KMeans(n_clusters=_WORK.n_clusters, seed=0),
    "DBSTREAM": lambda: cluster.DBSTREAM(clustering_threshold=_RADIUS),
}


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Milliseconds for a thousand rows; predicting and learning each row, over that of river."""
    case = "one row per call, K=8 D=5"
    if only not in case:
        return
    chunk = 20 if quick else _CHUNK
    with threadpool_limits(1):
        times = by_turns(tasks(chunk), Budget.of(quick))
    for name, timed in times.items():
        if "predict, then" not in name:
            row = {"case": case, "figure": f"{name}, ms per 1000 rows"}
            row |= {"value": 1e6 * timed.median / chunk, "minima": 1e6 * timed.minimum / chunk}
            yield judged(row, bar=None if name.startswith("river") else _BAR)
    for name in times:
        if name.startswith("river") and "predict, then" in name:
            row = {"case": case, "figure": f"predict, then partial_fit / {name}"}
            yield judged(row | ratio(times, "predict, then partial_fit", name), bar=1.0)


def tasks(chunk: int) -> dict[str, Task]:
    """Calls of scstream, of its adapter and of river, each with its own rows."""
    learning, predicting, both = (_WORK.model() for _ in range(3))
    adapter = ScStreamClusterer(seed=0)
    adapter.model = _WORK.model()
    found: dict[str, Task] = {
        "partial_fit": calls(chunk, learning.partial_fit),
        "predict": calls(chunk, predicting.predict),
        "predict, then partial_fit": calls(chunk, both.predict, both.partial_fit),
        "adapter's learn_one": calls(chunk, adapter.learn_one, as_dict=True),
    }
    for name, make in _RIVALS.items():
        found[f"river {name}.learn_one"] = calls(chunk, make().learn_one, as_dict=True)
        rival = make()
        steps = rival.predict_one, rival.learn_one
        found[f"river {name} (predict, then learn)"] = calls(chunk, *steps, as_dict=True)
    return found


def calls(chunk: int, *steps: Callable[[Any], object], as_dict: bool = False) -> Task:
    """Each of the steps with a row, then with the next one."""
    rows = [row for batch in _WORK.batches for row in batch]
    given = cycle([dict(enumerate(row.tolist())) if as_dict else row[None] for row in rows])
    for row in islice(given, len(rows)):  # in the middle of a stream
        steps[-1](row)

    def run() -> None:
        for row in islice(given, chunk):
            for step in steps:
                step(row)

    return run
