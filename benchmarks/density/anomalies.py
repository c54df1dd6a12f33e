"""NAB: how well improbable rows point to anomalies, series by series and over all of them."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.density import detectors, files
from benchmarks.density.files import Array, Series
from benchmarks.density.nabscore import corpus_score, probation

SHOWN = (
    "realKnownCause/machine_temperature_system_failure",
    "realKnownCause/ec2_request_latency_system_failure",
    "realKnownCause/nyc_taxi",
)

_NOISE = 0.01  # spreads of the values: without it a density of repeated values has no bound
_AVERAGED = 10  # values whose mean is a column
_POINTS = 800  # at most, of a series in the figure
_SETTLE = 20  # scores before a score is compared with them


def rows_of(values: Array) -> Array:  # (N, 3)
    """Value, step from the last value, and mean of the last ten; scaled by the first rows alone."""
    given = probation(len(values))
    value = scaled(values[:, None], given)[:, 0]
    value = value + _NOISE * np.random.default_rng(0).standard_normal(len(value))
    total = np.append(0.0, np.cumsum(value))
    end = np.arange(1, len(value) + 1)
    begin = np.maximum(end - _AVERAGED, 0)
    mean = (total[end] - total[begin]) / (end - begin)
    return scaled(np.column_stack([value, np.diff(value, prepend=value[0]), mean]), given)


def scaled(rows: Array, given: int) -> Array:
    """Rows less the mean of the given ones, over their spread."""
    spread = rows[:given].std(axis=0)
    return (rows - rows[:given].mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def calibrated(scores: Array, given: int) -> Array:
    """How far a score lies above the mean of those before it, in their spreads.

    One threshold for all series asks for scores of one scale; this gives every detector one.
    """
    past = pd.Series(scores[given:]).expanding(_SETTLE)
    mean, spread = (column.shift().to_numpy() for column in (past.mean(), past.std()))
    found = np.zeros(len(scores))
    found[given:] = np.nan_to_num((scores[given:] - mean) / np.maximum(spread, 1e-6))
    return found


def separation(series: Series, scores: Array) -> dict[str, float]:
    """ROC AUC and average precision of the rows in windows; NaN if there are none."""
    given = probation(len(scores))
    inside = np.zeros(len(scores), dtype=bool)
    for first, last in series.windows:
        inside[first : last + 1] = True
    inside, scores = inside[given:], scores[given:]
    if not inside.any():
        return {"share": 0.0, "auc": np.nan, "ap": np.nan}
    return {
        "share": inside.mean(),
        "auc": roc_auc_score(inside, scores),
        "ap": average_precision_score(inside, scores),
    }


def run(*, quick: bool) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Results of every detector over all series, of every series, and points for the figure."""
    corpus = [series for series in files.nab() if not quick or "realTraffic" in series.name]
    rows = [rows_of(series.values) for series in corpus]
    totals, lines, shown = [], [], [pd.DataFrame()]
    for entry in detectors.ENTRIES:
        begin = time.process_time()
        scores = [
            entry.scores(x, series.values, probation(len(x)))
            for x, series in zip(rows, corpus, strict=True)
        ]
        speed = sum(map(len, rows)) / (time.process_time() - begin)
        pairs = list(zip(corpus, scores, strict=True))
        each = pd.DataFrame([separation(*pair) for pair in pairs])
        lines.append(each.assign(series=[s.name for s in corpus], detector=entry.name))
        totals.append({"detector": entry.name} | total(corpus, scores, each))
        totals[-1]["rows_per_second"] = speed
        if entry.name == detectors.OURS:
            shown += [points(*pair) for pair in pairs if pair[0].name in SHOWN]
        nab = f"NAB {totals[-1]['nab']:5.1f}"
        print(f"{entry.name:40}{nab}{speed:12,.0f} rows/s", file=sys.stderr, flush=True)
    return pd.DataFrame(totals), pd.concat(lines), pd.concat(shown)


def total(corpus: list[Series], scores: list[Array], each: pd.DataFrame) -> dict[str, Any]:
    """Means over series that have windows, and the score of NAB with and without calibration."""
    raw = corpus_score(corpus, scores)
    even = [calibrated(mine, probation(len(mine))) for mine in scores]
    return {
        "n_series": len(corpus),
        "auc": each["auc"].mean(),
        "ap": each["ap"].mean(),
        "share": each.loc[each["share"] > 0, "share"].mean(),
        "nab": raw.score,
        "threshold": raw.threshold,
        "nab_calibrated": corpus_score(corpus, even).score,
    }


def points(series: Series, scores: Array) -> pd.DataFrame:
    """A course for the figure: mean value and highest score of every few rows."""
    width = -(-len(scores) // _POINTS)
    table = pd.DataFrame({"value": series.values, "score": scores})
    table["window"] = False
    for first, last in series.windows:
        table.loc[first:last, "window"] = True
    table.loc[: probation(len(scores)) - 1, "score"] = np.nan
    grouped = table.groupby(table.index // width)
    course = grouped.agg({"value": "mean", "score": "max", "window": "max"})
    return course.assign(series=series.name, row=course.index * width)
