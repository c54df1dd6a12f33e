"""Whole batches against mini-batch k-means, passes against bare matrix products: one thread."""

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
    fit_bar: float | None
    pass_bar: float
    engine: str = "expansion"


CASES = (
    Case("D=2 K=20", Workload(1000, 2, 20), 0.5, 3.0),
    Case("D=10 K=7", Workload(1000, 10, 7), 1.0, 1.5),
    Case("D=10 K=30", Workload(1000, 10, 30), 1.0, 1.5),
    Case("D=64 K=100", Workload(1000, 64, 100), 5.0, 0.6, "whitening"),
    Case("D=128 K=1000", Workload(1000, 128, 1000), 25.0, 0.6, "whitening"),
    Case("video frame", Workload(409_920, 5, 80, n_batches=10), 0.5, 2.0),
    Case("multinomial dense", Workload(1000, 100, 100, "dense"), None, 2.0),
    Case("multinomial sparse", Workload(1000, 100, 100, "sparse"), None, 0.6),
)
SMALL = (
    Case("D=2 K=5", Workload(200, 2, 5, n_batches=40), 0.5, 3.0),
    Case("D=20 K=3", Workload(100, 20, 3, n_batches=40), None, 0.6, "whitening"),
    Case("multinomial sparse", Workload(200, 50, 5, "sparse", n_batches=40), None, 0.6),
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
        tasks |= passes(case, precision)
        model = work.model(**engines.chosen(precision))
        learners[f"default {precision}"] = engines.Learner(model, work)
    if pairs_fit(work):
        learners["paper float64"] = engines.Learner(work.model(paper=True), work)
    tasks["predict"] = engines.Reader(learners["default float64"], work)
    times = by_turns(tasks | learners, budget, after={"predict": "default float64"})
    rows = [*fit_rows(case, learners, times), predict_row(case.name, times, "default float64")]
    return rows + [pass_row(case, precision, times) for precision in engines.precisions()]


def passes(case: Case, precision: str) -> dict[str, Task]:
    """A sampling pass and the bare product."""
    params = engines.sampling(case.work, precision)
    product = engines.expansion if case.engine == "expansion" else engines.whitening
    return {
        f"pass {precision}": engines.one_pass(case.work, params),
        f"product {precision}": product(case.work, precision),
    }


def pass_row(case: Case, precision: str, times: dict[str, Timed]) -> Row:
    """The sampling pass over its product."""
    row: Row = {"case": case.name, "precision": precision}
    row["figure"] = f"sampling pass / {case.engine} GEMM"
    row |= ratio(times, f"pass {precision}", f"product {precision}")
    return judged(row, bar=case.pass_bar)


def fit_rows(
    case: Case, learners: dict[str, engines.Learner], times: dict[str, Timed]
) -> Iterator[Row]:
    """Whole batches over those of k-means; the bar is for the default."""
    for name, learner in learners.items():
        if name == "kmeans":
            continue
        algorithm, precision = name.split()
        bar = case.fit_bar if name == "default float64" else None
        row = fit_row(case.name, times, name, learner.n_clusters, bar=bar, steady=learner.steady)
        yield row | {
            "precision": precision,
            "figure": f"partial_fit, {algorithm} / MiniBatchKMeans",
        }


def fit_row(
    case: str,
    times: dict[str, Timed],
    task: str,
    n_clusters: float,
    *,
    bar: float | None,
    steady: bool = True,
) -> Row:
    """`partial_fit` over that of k-means."""
    row = {"case": case, "figure": "partial_fit / MiniBatchKMeans"}
    row |= ratio(times, task, "kmeans") | {"note": f"K = {n_clusters:.4g}"}
    row = judged(row, bar=bar)
    return row if steady else row | {"verdict": "K not steady"}


def predict_row(case: str, times: dict[str, Timed], fit: str) -> Row:
    """`predict` over `partial_fit` of the same model."""
    row = {"case": case, "figure": "predict / partial_fit"} | ratio(times, "predict", fit)
    return judged(row, bar=1.0)


def pairs_fit(work: Workload) -> bool:
    """Whether the paper's algorithm, which looks at all pairs of clusters, can run."""
    n_pairs = work.n_clusters * (work.n_clusters - 1) // 2
    return n_pairs * work.family.n_stats <= _ALL_PAIRS
