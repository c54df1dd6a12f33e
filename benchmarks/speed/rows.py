"""Passes against bare matrix products, whole batches against mini-batch k-means: one thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from benchmarks.speed import engines
from benchmarks.speed.timing import Budget, Row, Task, Timed, by_turns, judged, ratio
from benchmarks.speed.workloads import Workload

_ALL_PAIRS = 1 << 28  # numbers that the statistics of all pairs of clusters may hold


@dataclass(frozen=True)
class Case:
    """A workload with its bars; None where the number is only reported."""

    name: str
    work: Workload
    pass_bar: float
    fit_bar: float | None
    engine: str = "expansion"


CASES = (
    Case("D=2 K=20", Workload(1000, 2, 20), 2.5, 0.5),
    Case("D=10 K=7", Workload(1000, 10, 7), 1.5, 1.0),
    Case("D=10 K=30", Workload(1000, 10, 30), 1.5, 2.0),
    Case("D=64 K=100", Workload(1000, 64, 100), 0.6, None, "whitening"),
    Case("D=128 K=1000", Workload(1000, 128, 1000), 0.6, None, "whitening"),
    Case("video frame", Workload(409_920, 5, 80, n_batches=10), 2.0, 0.7),
    Case("multinomial dense", Workload(1000, 100, 100, "dense"), 2.0, None),
    Case("multinomial sparse", Workload(1000, 100, 100, "sparse"), 0.6, None),
)
SMALL = (
    Case("D=2 K=5", Workload(200, 2, 5, n_batches=40), 2.5, 0.5),
    Case("D=20 K=3", Workload(100, 20, 3, n_batches=40), 0.6, None, "whitening"),
    Case("multinomial sparse", Workload(200, 50, 5, "sparse", n_batches=40), 0.6, None),
)


def chosen_cases(*, quick: bool, only: str) -> list[Case]:
    """Cases whose name contains a text, small ones for a quick run."""
    return [case for case in (SMALL if quick else CASES) if only in case.name]


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Rows of every case."""
    with threadpool_limits(1):
        for case in chosen_cases(quick=quick, only=only):
            yield from measure(case, Budget.of(quick))


def measure(case: Case, budget: Budget) -> list[Row]:
    """Time everything about a case by turns."""
    work = case.work
    learners = {"kmeans": engines.Learner(engines.kmeans(work), work)}
    tasks: dict[str, Task] = {}
    for precision in engines.precisions():
        tasks |= passes(work, precision)
        model = work.model(**engines.chosen(precision))
        learners[f"default {precision}"] = engines.Learner(model, work)
    if pairs_fit(work):
        learners["paper float64"] = engines.Learner(work.model(paper=True), work)
    times = by_turns(tasks | learners, budget)
    rows = [row for p in engines.precisions() for row in pass_rows(case, p, times)]
    return [*rows, *fit_rows(case, learners, times)]


def passes(work: Workload, precision: str) -> dict[str, Task]:
    """Passes of both kinds, the drawing of parameters, and the bare products."""
    tasks: dict[str, Task] = {
        f"sampling pass {precision}": engines.one_pass(work, engines.sampling(work, precision)),
        f"predictive pass {precision}": engines.one_pass(work, engines.predicting(work, precision)),
        f"drawing of parameters {precision}": lambda: engines.sampling(work, precision),
        f"expansion {precision}": engines.expansion(work, precision),
    }
    if work.kind == "gaussian":
        tasks[f"whitening {precision}"] = engines.whitening(work, precision)
    return tasks


def pass_rows(case: Case, precision: str, times: dict[str, Timed]) -> Iterator[Row]:
    """The sampling pass over its product, with the bar; then what is worth knowing beside it."""
    other = "whitening" if case.engine == "expansion" else "expansion"
    figures = [
        ("sampling pass", case.engine),
        ("sampling pass", other),
        ("predictive pass", case.engine),
        ("drawing of parameters", case.engine),
    ]
    for n, (what, engine) in enumerate(figures):
        if f"{engine} {precision}" in times:
            row: Row = {"case": case.name, "precision": precision}
            row["figure"] = f"{what} / {engine} GEMM"
            row |= ratio(times, f"{what} {precision}", f"{engine} {precision}")
            yield judged(row, bar=None if n else case.pass_bar)


def fit_rows(
    case: Case, learners: dict[str, engines.Learner], times: dict[str, Timed]
) -> Iterator[Row]:
    """Whole batches over those of k-means."""
    for name, learner in learners.items():
        if name == "kmeans":
            continue
        algorithm, precision = name.split()
        row: Row = {"case": case.name, "precision": precision}
        row["figure"] = f"partial_fit, {algorithm} / MiniBatchKMeans"
        row |= ratio(times, name, "kmeans") | {"note": f"K = {learner.n_clusters:.4g}"}
        row = judged(row, bar=case.fit_bar if algorithm == "default" else None)
        yield row if learner.steady else row | {"verdict": "K not steady"}
    if "paper float64" not in learners:
        yield {
            "case": case.name,
            "precision": "float64",
            "figure": "partial_fit, paper / MiniBatchKMeans",
            "verdict": "left out",
            "note": "the statistics of all pairs of clusters would not fit into memory",
        }


def pairs_fit(work: Workload) -> bool:
    """Whether the paper's algorithm, which looks at all pairs of clusters, can run."""
    n_pairs = work.n_clusters * (work.n_clusters - 1) // 2
    return n_pairs * work.family.n_stats <= _ALL_PAIRS
