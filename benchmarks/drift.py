"""What alerts are worth: ``python -m benchmarks.drift`` writes results/drift.md.

False alarms and delays of the detectors on series whose truth is known, then of all alerts on
models that learn streams with a planted change, then on the series of the Numenta Anomaly
Benchmark, whose windows somebody else has labelled.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt
from river import drift

from benchmarks.density import files
from benchmarks.density.anomalies import rows_of
from benchmarks.density.nabscore import probation
from benchmarks.runs import provenance
from scstream.model import Model, Settings
from scstream.observe.alerts import AlertOptions, AlertRules
from scstream.observe.events import BatchSummary

Array = npt.NDArray[np.float64]
Stream = Callable[[np.random.Generator, int], Array]  # rows of a batch, by its number

RESULT = Path(__file__).with_name("results") / "drift.md"
SPREADS = (1.0, 2.0, 3.0, 5.0, 10.0)  # of a drop
N_LONG, N_STREAMS, N_SEEDS = 50_000, 200, 10
BEFORE, AFTER = 100, 60  # batches of a stream, until the change and from it on
ROWS = 500
OWN = ("page-hinkley", "adwin")
KINDS = ("log_density", "born", "died", "novelty")

PAGE = """\
# Alerts: false alarms, delays, and what is noticed

Made by `python -m benchmarks.drift`; do not edit. {provenance}.

Alerts are those of `scstream.observe.alerts`, with the detectors of the section `[alerts]`. Their
input is the deviation of the mean log density of a batch from what is usual; river's detectors,
with default options, get the same input. What this means for a user is in docs/howto/alerts.md.

## False alarms

Series of {n_long:,} batches that stay as they are: alerts per 10,000 batches. A rate below 1 rests
on fewer than {few} alerts.

{false_alarms}

## Delays

The series is normal and drops for good after {before} batches. Batches until the alert: median
(95 % quantile) of {n_streams} series; missed is what was not told within {after} batches.

{delays}

## Changes that a model learns

`ScStream` with nothing set, batches of {rows} rows of four clusters in four columns, a change after
{before} batches; {n_seeds} streams of each. A cell says in how many of them an alert came after the
change, and after how many batches (median). The limit of novelty is 0.5 %; births and deaths are
told from 1 on. In the last column: streams with an alert of any kind before the change.

{scenes}

- A change that leaves rows probable lowers no density: a column that is stuck makes rows more
  alike, and the density rises. Births tell of it; what ADWIN says when the old clusters have died
  is no sign of it.
- Rows that no cluster explains found a new one as soon as `min_birth_weight` of them (5) come in a
  batch, even if they are scattered: so births tell of many odd rows, and novelty of few.
- A cluster that is gone is told only when it dies, some ten half-lives later.

## Numenta Anomaly Benchmark

The 58 series as in docs/evidence/density.md: value, step and mean of the last ten values; the first
rows are one batch, then batches of so many rows; alerts of log density, quiet for 10 batches. A
window is found if there is an alert in it. *At random* is what as many alerts of each series would
find on average if they fell anywhere in it. Pipelines tell the log density *after* rows were
learned; *before* is what the same alarm makes of the density that the model expected them with.

{nab}

Alerts of log density are a poor detector of these anomalies. With batches of 10 rows Page-Hinkley
finds half of the windows, twice what chance finds, and most alerts lie elsewhere; with batches of
50 rows most alerts lie in windows, and most windows are missed. Many windows hold values that are
ordinary at another hour, few series have more than a hundred batches of 50 rows, and a model that
has learned the rows of an anomaly does not find them odd any more: before they are learned the same
alarm finds three times as many windows, and more of its alerts are right. Scores of single rows are
the better tool here; docs/evidence/density.md compares them.
"""
CENTRES = 8.0 * np.eye(4)


def detectors() -> dict[str, Any]:
    """Ours as `[alerts]` has them, and river's with nothing set, all told the same numbers."""
    return {
        "page-hinkley": "page-hinkley",
        "adwin": "adwin",
        "river PageHinkley()": drift.PageHinkley(),
        "river ADWIN()": drift.ADWIN(),
    }


def told(alert_rules: AlertRules, densities: Array) -> list[int]:
    """Batches with an alert."""
    return [
        i
        for i, x in enumerate(densities.tolist())
        if alert_rules.check(BatchSummary(i, rows=ROWS, clusters=4, log_density=x))
    ]


def noises(rng: np.random.Generator, n: int) -> Iterator[tuple[str, Array]]:
    """Series that stay as they are."""
    yield "normal", rng.standard_normal(n)
    yield "heavy tails (t, 3 degrees)", rng.standard_t(3, n)
    yield "skewed (minus a gamma of shape 2)", -rng.gamma(2.0, size=n)
    for share in (0.3, 0.6):
        yield f"each batch remembers {share} of the last", _remembering(rng, n, share)


def _remembering(rng: np.random.Generator, n: int, share: float) -> Array:
    noise, values = rng.standard_normal(n) * np.sqrt(1.0 - share**2), np.zeros(n)
    for i in range(1, n):
        values[i] = share * values[i - 1] + noise[i]
    return values


def false_alarms() -> list[list[str]]:
    """Alerts per 10,000 batches of series that stay as they are."""
    rows = []
    for noise, values in noises(np.random.default_rng(0), N_LONG):
        candidates = [AlertRules(AlertOptions(log_density=each)) for each in detectors().values()]
        counts = [len(told(alert_rules, values)) for alert_rules in candidates]
        rows.append([noise, *(f"{count * 10_000 / N_LONG:.1f}" for count in counts)])
    return rows


def delays() -> list[list[str]]:
    """Batches until a drop is told: median, 95 % quantile, and how many of all never were."""
    rows = []
    for spread in SPREADS:
        cells = []
        for name in detectors():
            found = [_delay(name, spread, seed) for seed in range(N_STREAMS)]
            there = [delay for delay in found if delay]
            middle, late = np.percentile(there or [np.nan], [50, 95])
            missed = 1.0 - len(there) / len(found)
            cell = f"{middle:.0f} ({late:.0f}), {missed:.0%} missed" if there else "all missed"
            cells.append(cell.replace(", 0% missed", ""))
        rows.append([f"{spread:g}", *cells])
    return rows


def _delay(name: str, spread: float, seed: int) -> int | None:
    values = np.random.default_rng(seed).standard_normal(BEFORE + AFTER)
    values[BEFORE:] -= spread
    alert_rules = AlertRules(AlertOptions(log_density=detectors()[name]))
    return next((i - BEFORE + 1 for i in told(alert_rules, values) if i >= BEFORE), None)


def clusters(rng: np.random.Generator, n: int = ROWS) -> Array:
    """Rows of four clusters in four dimensions."""
    return CENTRES[rng.integers(0, 4, n)] + rng.standard_normal((n, 4))


def changed(change: Callable[[np.random.Generator, Array], Array]) -> Stream:
    """A stream that changes all of a sudden."""

    def rows(rng: np.random.Generator, batch: int) -> Array:
        X = clusters(rng)
        return change(rng, X) if batch >= BEFORE else X

    return rows


def _replaced(share: float, make: Callable[[np.random.Generator, int], Array]) -> Stream:
    def change(rng: np.random.Generator, X: Array) -> Array:
        n = int(share * len(X))
        X[:n] = make(rng, n)
        return X

    return changed(change)


def _scaled(column: int, by: float) -> Stream:
    return changed(lambda _, X: np.where(np.arange(4) == column, X * by, X))


def _without_first(rng: np.random.Generator, X: Array) -> Array:
    return CENTRES[rng.integers(1, 4, len(X))] + rng.standard_normal(X.shape)


HIGH_FLOOR = "10 % of the rows scattered, `min_birth_weight` 80"
SCENES: dict[str, Stream] = {
    "nothing changes": changed(lambda _, X: X),
    "clusters move, a tenth of a spread a batch": lambda rng, i: clusters(rng) + 0.1 * i,
    "a new cluster, 20 % of the rows": _replaced(0.2, lambda r, n: r.normal(-9.0, 1.0, (n, 4))),
    "a new cluster, 2 % of the rows": _replaced(0.02, lambda r, n: r.normal(-9.0, 1.0, (n, 4))),
    "20 % of the rows scattered": _replaced(0.2, lambda r, n: r.uniform(-90.0, 90.0, (n, 4))),
    "2 % of the rows scattered": _replaced(0.02, lambda r, n: r.uniform(-90.0, 90.0, (n, 4))),
    "4 of 500 rows scattered": _replaced(0.008, lambda r, n: r.uniform(-90.0, 90.0, (n, 4))),
    HIGH_FLOOR: _replaced(0.1, lambda r, n: r.uniform(-90.0, 90.0, (n, 4))),
    "everything jumps by 4 spreads": changed(lambda _, X: X + 4.0),
    "everything jumps by 1 spread": changed(lambda _, X: X + 1.0),
    "a column in another unit (times 2.54)": _scaled(0, 2.54),
    "a column is stuck at 0": _scaled(0, 0.0),
    "a cluster is gone": changed(_without_first),
}


def alerts_of(scene: str, seed: int, log_density: str) -> list[tuple[int, str]]:
    """Batches and kinds of all alerts while a model learns the stream of a scene."""
    rng, stream = np.random.default_rng(seed), SCENES[scene]
    params = {"min_birth_weight": 80.0} if scene == HIGH_FLOOR else {}
    batches = [stream(rng, i) for i in range(BEFORE + AFTER)]
    options = AlertOptions(
        log_density=log_density, novelty=0.005, births=True, deaths=True, quiet=AFTER
    )
    return [*raised(batches, AlertRules(options), random_state=seed, **params)]


def raised(
    batches: Sequence[Array], alert_rules: AlertRules, *, before: bool = False, **params: Any
) -> Iterator[tuple[int, str]]:
    """Learn batches, and yield the alerts: batch and kind.

    With `before`, the rules get the log density of the rows before they are learned.
    """
    model: Settings | Model = Settings.of({"n_jobs": 1, **params})
    for i, X in enumerate(batches):
        before_learning = np.nan
        if before and isinstance(model, Model):
            before_learning = float(model.at().log_density(X).mean())
        model, _, info = model.update(X)
        summary = BatchSummary(
            batch=i,
            rows=len(X),
            clusters=model.state.n_clusters,
            novel=info.n_novel,
            log_density=before_learning if before else info.mean_log_density,
            events=Counter(event.kind for event in info.events),
        )
        yield from ((i, alert.kind) for alert in alert_rules.check(summary))


def scenes() -> list[list[str]]:
    """Which alerts tell of a change, in how many of the streams, and after how many batches."""
    rows = []
    for name in SCENES:
        quick = [alerts_of(name, seed, "page-hinkley") for seed in range(N_SEEDS)]
        slow = [alerts_of(name, seed, "adwin") for seed in range(N_SEEDS)]
        cells = [_summary(quick, "log_density"), _summary(slow, "log_density")]
        cells += [_summary(quick, kind) for kind in KINDS[1:]]
        early = sum(any(i < BEFORE for i, _ in run) for run in quick)
        rows.append([name, *cells, str(early)])
    return rows


def _summary(runs: Sequence[list[tuple[int, str]]], kind: str) -> str:
    after = [[i - BEFORE + 1 for i, k in run if k == kind and i >= BEFORE] for run in runs]
    first = [found[0] for found in after if found]
    return f"{len(first)}, {np.median(first):.0f}" if first else "-"


def anomalies(batch: int, options: AlertOptions, *, before: bool) -> list[str]:
    """How alerts of log density fall into the windows of NAB, batches of so many rows."""
    n_alerts = n_inside = n_found = n_windows = n_batches = n_in_windows = 0
    by_chance = 0.0
    for series in files.nab():
        rows, given = rows_of(series.values), probation(len(series.values))
        starts = range(given, len(rows), batch)
        batches = [rows[:given], *(rows[begin : begin + batch] for begin in starts)]
        found = raised(batches, AlertRules(options), before=before, random_state=0)
        alerts = [i - 1 for i, _ in found if i]
        inside = [_windows(series, begin, begin + batch) for begin in starts]
        n_alerts += len(alerts)
        n_inside += sum(bool(inside[i]) for i in alerts)
        n_found += len({window for i in alerts for window in inside[i]})
        lengths = Counter(window for each in inside for window in each)
        missed = [(1.0 - n / len(inside)) ** len(alerts) for n in lengths.values()]
        n_windows += len(missed)
        by_chance += len(missed) - sum(missed)
        n_batches += len(inside)
        n_in_windows += sum(map(bool, inside))
    return [
        str(batch),
        "before" if before else "after",
        f"{n_found} of {n_windows}",
        f"{by_chance:.0f}",
        str(n_alerts),
        f"{n_inside / max(n_alerts, 1):.0%}",
        f"{n_in_windows / n_batches:.0%}",
        f"{(n_alerts - n_inside) * 1000 / (n_batches - n_in_windows):.1f}",
    ]


def _windows(series: files.Series, begin: int, end: int) -> list[int]:
    return [i for i, (first, last) in enumerate(series.windows) if first < end and last >= begin]


def nab() -> list[list[str]]:
    """Alerts on the Numenta Anomaly Benchmark, by detector and size of batches."""
    return [
        [name, *anomalies(batch, AlertOptions(log_density=name), before=before)]
        for name in OWN
        for batch in (10, 50)
        for before in (False, True)
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of a page."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def main() -> None:
    """Measure everything and write the page."""
    names = list(detectors())
    heads = {
        "scenes": ["change", *OWN, *KINDS[1:], "before the change"],
        "nab": [
            "detector",
            "rows",
            "density",
            "windows found",
            "at random",
            "alerts",
            "in windows",
        ],
    }
    RESULT.write_text(
        PAGE.format(
            provenance=provenance(),
            n_long=N_LONG,
            few=N_LONG // 10_000,
            n_streams=N_STREAMS,
            n_seeds=N_SEEDS,
            before=BEFORE,
            after=AFTER,
            rows=ROWS,
            false_alarms=table(["series", *names], false_alarms()),
            delays=table(["drop, spreads", *names], delays()),
            scenes=table(heads["scenes"], scenes()),
            nab=table([*heads["nab"], "share of windows", "elsewhere, per 1,000"], nab()),
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
