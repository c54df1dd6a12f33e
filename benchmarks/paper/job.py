"""All runs of one method on one stream: untuned, then tuned, each saved as soon as it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from benchmarks.paper.cache import Stored
from benchmarks.paper.method import Method
from benchmarks.paper.run import Outcome, Row, Worker, attempt, row, scored, series, worker
from benchmarks.paper.sets import DataSet
from benchmarks.paper.store import MODES
from benchmarks.paper.tune import FAILED, Judgement, Params, Tuned, tune

_N_TUNING = 10  # batches, as in the paper

Save = Callable[[Row, Mapping[str, npt.NDArray[Any]]], None]


@dataclass(frozen=True)
class Job:
    """A method on a stream with one seed, in the modes that are not done yet."""

    dataset: DataSet
    stored: Stored
    method: Method
    seed: int
    modes: tuple[str, ...] = MODES


@dataclass(frozen=True)
class Effort:
    """Trials of tuning, and CPU seconds: as many for all trials as for a run."""

    n_trials: int = 12
    limit: float = 600.0


def work(jobs: Sequence[Job], effort: Effort, save: Save) -> None:
    """Do the jobs one by one in one process, which is of their environment."""
    with worker(jobs[0].method.environment) as at:
        for job in jobs:
            _work(at, job, effort, save)


def _work(at: Worker, job: Job, effort: Effort, save: Save) -> None:
    """Run the modes of a job; if tuning found nothing better, tuned is what untuned was."""
    untuned = job.method.untuned(job.dataset.kind)
    plain: Outcome | None = None
    if "default" in job.modes:
        plain = _whole(at, job, untuned, effort)
        _enter(job, "default", untuned, plain, math.nan, save)
    if "tuned" in job.modes:
        params, _, seconds = tuned(at, job, effort)
        same = plain if params == untuned else None
        outcome = same or _whole(at, job, params, effort)
        _enter(job, "tuned", params, outcome, seconds, save)


def tuned(at: Worker, job: Job, effort: Effort) -> Tuned:
    """Tune on the first batches; batches that a trial does not reach count as zero."""
    n = min(_N_TUNING, job.stored.n_batches // 2)

    def judge(params: Params, limit: float) -> Judgement:
        parts = (at, job.dataset, job.stored, job.method, params)
        outcome = attempt(*parts, seed=job.seed, first=n, limit=limit)
        aris = scored(job.stored, outcome).ari
        seconds = float(outcome.seconds.sum()) if len(outcome.k) == n else outcome.elapsed
        return Judgement(float(aris.sum()) / (n - 1) if len(aris) else FAILED, seconds)

    return tune(
        job.method,
        job.dataset.kind,
        judge,
        n_trials=effort.n_trials,
        limit=effort.limit,
        hint=job.dataset.published,
        seed=job.seed,
    )


def _whole(at: Worker, job: Job, params: Params, effort: Effort) -> Outcome:
    parts = (at, job.dataset, job.stored, job.method, params)
    return attempt(*parts, seed=job.seed, first=job.stored.n_batches, limit=effort.limit)


def _enter(
    job: Job, mode: str, params: Params, outcome: Outcome, tune_seconds: float, save: Save
) -> None:
    result = scored(job.stored, outcome)
    figures = row(job.dataset, job.stored, job.method, outcome, result)
    chosen = {"mode": mode, "seed": job.seed, "tune_seconds": tune_seconds, "params": params}
    save(figures | chosen, series(outcome, result))
