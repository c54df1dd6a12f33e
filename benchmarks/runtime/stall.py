"""How long a checkpoint holds up the batches: K = 1000 clusters, D = 64 features.

A checkpoint is written behind, on a thread of its own; what it takes from the batches meanwhile is
the stall. It is measured as the time of the batches that overlap a checkpoint, beyond the median
of those that do not, as a share of the interval between two checkpoints.
"""

from __future__ import annotations

import csv
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.results_io import RESULTS
from scstream.core import default
from scstream.core.cluster_edits import add_clusters, subclusters_of
from scstream.core.state import Transition
from scstream.families.base import Array
from scstream.model import Model, Settings
from scstream.observe.events import BatchLearned, CheckpointWritten
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import Batching
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.messages import reader
from scstream.stream.processor import OneModel
from scstream.stream.runner import CheckpointPolicy, Pipeline
from scstream.stream.schema import Schema
from scstream.stream.sink import NullSink
from scstream.stream.source import Record
from scstream.stream.store import FolderStore


class Endless:
    """Rows of many clusters, made as they are asked for."""

    def __init__(self, n_clusters: int, n_features: int, n_rows: int, n_batches: int) -> None:
        rng = np.random.default_rng(0)
        self.centres = rng.normal(size=(n_clusters, n_features)) * 12.0
        self._noise = rng.normal(size=(n_rows, n_features))
        self._n_rows, self._n_batches, self._at = n_rows, n_batches, 0

    def identity(self):
        return {}

    def open(self, resume, *, accept_gap=False):
        self._at = 0

    def read(self, max_n, timeout):
        if self.done:
            return []
        rng = np.random.default_rng(self._at)
        X = self.centres[rng.integers(len(self.centres), size=self._n_rows)]
        record = Record(self._at, self._at + 1, Block.of(X + rng.permutation(self._noise)))
        self._at += 1
        return [record]

    def acknowledge(self, positions):
        pass

    @property
    def done(self):
        return self._at >= self._n_batches

    def lag(self):
        return None

    def close(self):
        pass


def grown(centres: Array, *, n_rows: int = 100) -> Model:
    """Return a model that knows one cluster around every centre."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(len(centres)), n_rows)
    X = centres[group] + rng.normal(size=(len(group), centres.shape[1]))
    n_features = centres.shape[1]
    prior = {"mean": 0.0, "kappa": 0.01, "nu": n_features + 10.0, "psi": 9.0}
    params = {"prior": prior, "half_life": 200.0, "max_clusters": 2 * len(centres)}
    model, _, _ = Settings.of({"random_state": 0, **params}).update(X[:n_rows])
    family, state = model.family, model.state
    stats = 50.0 * family.stats(X, group, len(centres))[state.n_clusters :]  # as if of more rows
    known = np.full(len(stats), -1)
    current = subclusters_of(family, default.RULES.edits, stats, stats)
    return replace(model, state=add_clusters(Transition.of(state), current, known).state)


def measure(
    n_clusters: int = 1000,
    n_features: int = 64,
    *,
    n_rows: int = 4000,
    n_batches: int = 240,
    warm_up: int = 5,
    seconds: float = 10.0,
) -> dict[str, float]:
    """Run a pipeline with the usual pace of checkpoints and split its time."""
    batches: list[tuple[float, float, int]] = []  # start, end, K
    commits: list[tuple[float, float]] = []
    last = time.monotonic()

    def emit(event):
        nonlocal last
        if isinstance(event, BatchLearned):
            now = time.monotonic()
            batches.append((last, now, event.clusters))
            last = now
        elif isinstance(event, CheckpointWritten):
            commits[-1] = (commits[-1][0], time.monotonic())

    with tempfile.TemporaryDirectory(dir=".") as folder:
        source = Endless(n_clusters, n_features, n_rows, n_batches)
        pipeline = Pipeline(
            job="stall",
            source=source,
            reader=reader("floats", Schema()),
            processor=OneModel(grown(source.centres), Steps()),
            sink=NullSink(),
            checkpoint_log=CheckpointLog(FolderStore(folder)),
            batching=Batching(rows=n_rows),
            checkpoint_policy=CheckpointPolicy(batches=10**9, seconds=seconds, digests=0),
            emit=emit,
        )
        commit = pipeline._commit

        def marked(outlet):
            commits.append((time.monotonic(), float("inf")))
            commit(outlet)

        pipeline._commit = marked  # type: ignore[method-assign]
        pipeline.run()
        size = max(path.stat().st_size for path in Path(folder).glob("version-*"))
    return _summary(batches[warm_up:], commits, size)


def _summary(batches, commits, size) -> dict[str, float]:
    spent = np.array([end - start for start, end, _ in batches])
    overlaps = np.array(
        [any(start < done and end > begun for begun, done in commits) for start, end, _ in batches]
    )
    usual = float(np.median(spent[~overlaps]))
    shares, durations = [], []
    starts = [begun for begun, _ in commits]
    for (begun, done), after in zip(commits[1:-1], starts[2:], strict=True):
        inside = [e - s for s, e, _ in batches if s < done and e > begun]
        if inside and batches[0][0] <= begun:
            shares.append(max(sum(inside) - usual * len(inside), 0.0) / (after - begun))
            durations.append(done - begun)
    return {
        "clusters": batches[-1][2],
        "checkpoint_mb": size / 1e6,
        "intervals": len(shares),
        "batch_ms": 1e3 * usual,
        "checkpoint_s": float(np.median(durations)),
        "stall_median_percent": 100 * float(np.median(shares)),
        "stall_p99_percent": 100 * float(np.quantile(shares, 0.99)),
    }


def main() -> None:
    """Measure, print and keep."""
    figures = measure()
    with (RESULTS / "runtime-stall.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, figures)
        writer.writeheader()
        writer.writerow({name: f"{value:.4g}" for name, value in figures.items()})
    for name, value in figures.items():
        print(f"{name:<22} {value:.4g}")


if __name__ == "__main__":
    main()
