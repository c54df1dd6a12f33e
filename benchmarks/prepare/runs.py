"""One run: a set, a way to scale it, a model and a seed; scores after the warm-up."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.cases import Labelled
from benchmarks.paper import files
from benchmarks.paper.methods.ours import given_prior
from benchmarks.paper.progress import progress
from benchmarks.paper.sets import numbered
from benchmarks.prepare.scalers import BY_NAME, OFFLINE, WAYS
from benchmarks.runs import provenance
from scstream import ScStream
from scstream.metrics import FullStreamScore, PrequentialStep, prequential
from scstream.preprocess.block import Block

BATCH = 1000
WARM = 10  # batches that no run is scored on, so that all are scored on the same rows
COVERTYPE = "covertype"
DEFAULT, PAPER, GIVEN = "default", "paper", "default, the paper's prior"
MODELS: dict[str, dict[str, Any]] = {  # what they are told; the prior is the one for CoverType
    DEFAULT: {},
    PAPER: {"algorithm": "paper"},
    GIVEN: {"prior": given_prior("gaussian", 10, psi=0.78)},
}
_SEEDS = {DEFAULT: 5, PAPER: 5, GIVEN: 3}
_OTHERS = ("electricity", "noaa", "shuttle", "kdd99")
_LONG = "kdd99"  # takes longest: two seeds in place of five
MAIN = (
    OFFLINE,
    "frozen after 1 batch",
    "frozen after 5 batches",
    "frozen after 10 batches",
    "running, half-life 5 (the model's)",
    "running, half-life 50",
    "running, never forgets",
    "mean frozen, spread with half-life 5",
    "spread frozen, mean with half-life 5",
    "not scaled",
)


class Job(NamedTuple):
    """What one run is."""

    set: str
    way: str
    model: str
    seed: int


def quick_jobs() -> list[Job]:
    """Runs that take seconds."""
    return [Job("noaa", way, DEFAULT, 0) for way in MAIN]


def jobs() -> list[Job]:
    """All runs: every way on CoverType, the main ones on the other sets."""
    wanted = [
        Job(COVERTYPE, way.name, model, seed)
        for model, n_seeds in _SEEDS.items()
        for way in WAYS
        for seed in range(n_seeds)
    ]
    for name in _OTHERS:
        seeds = range(2 if name == _LONG else 5)
        wanted += [Job(name, way, DEFAULT, seed) for way in MAIN for seed in seeds]
    return wanted


@cache
def table(name: str) -> tuple[Any, Any]:
    """Rows as they are stored, and classes."""
    if name == "kdd99":
        X, y = files.kdd()
    elif name in ("electricity", "noaa"):
        X, y = files.table({"electricity": "elec2", "noaa": "noaa_weather"}[name])
    else:
        X, y = files.arrays({"covertype": "covtype"}.get(name, name))
    return np.asarray(X, dtype=np.float64), numbered(y)


def batches(X: Any, y: Any, first: int) -> Iterator[Labelled]:
    """Whole batches, the first one as long as several."""
    edges = [0, *range(first * BATCH, len(y) + 1, BATCH)]
    for time, (start, stop) in enumerate(pairwise(edges)):
        yield Labelled(X[start:stop], y[start:stop], float(time))


class Prepared:
    """The model behind its scaler, as a pipeline has it: a batch is scaled, then labelled."""

    def __init__(self, scaler: Any, model: ScStream) -> None:
        self._scaler, self._model = scaler, model

    @property
    def n_clusters_(self) -> int:
        """Number of clusters now."""
        return int(self._model.n_clusters_)

    def predict(self, X: Any) -> Any:
        """Ids of the rows, scaled as they are going to be learned."""
        return self._model.predict(self._scaler.take(Block.of(X))[1].X)

    def partial_fit(self, X: Any) -> None:
        """Learn a batch, scaler first."""
        self._scaler, block = self._scaler.take(Block.of(X))
        self._model.partial_fit(block.X)


def run(job: Job) -> dict[str, Any]:
    """Scores over the batches after the warm-up, and over all but the first one."""
    way = BY_NAME[job.way]
    X, y = table(job.set)
    behind = ScStream(n_jobs=1, random_state=job.seed, **MODELS[job.model])
    model = Prepared(way.scaler(), behind)
    full = FullStreamScore()

    def watch(step: PrequentialStep) -> None:
        if step.number + way.first > WARM and step.predicted is not None:
            full.update(step.batch.y, step.predicted)

    result = prequential(model, batches(way.rows(X), y, way.first), oracle=False, callback=watch)
    late = result.time + way.first > WARM
    scores = {name: float(column[late].mean()) for name, column in result.scores.items()}
    return (
        job._asdict()
        | scores
        | {
            "full_nmi": float(full.nmi()),
            "k": float(result.k[late].mean()),
            "batches": int(late.sum()),
            "ari_all": float(result.ari.mean()),
            "nmi_all": float(result.nmi.mean()),
        }
    )


def measure(wanted: list[Job], n_jobs: int, known: pd.DataFrame | None = None) -> pd.DataFrame:
    """All runs in the order they were asked for; those that are known are not done again."""
    lines = [] if known is None else known.to_dict("records")
    rows = {Job(*(line[name] for name in Job._fields)): line for line in lines}
    missing = [job for job in wanted if job not in rows]
    with ProcessPoolExecutor(n_jobs) as pool, progress(len(missing)) as bar:
        for job, row in zip(missing, pool.map(run, missing), strict=True):
            rows[job] = row | {"made_with": provenance()}
            bar.done(", ".join(map(str, job)))
    return pd.DataFrame([rows[job] for job in wanted])
