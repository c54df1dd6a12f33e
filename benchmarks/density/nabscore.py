"""The score of the Numenta Anomaly Benchmark, after its published definition.

Lavin and Ahmad, 2015. A detection in a window is worth the more the earlier it comes, and only the
best of a window counts; a window without one costs `MISSED`. A detection outside costs up to
`FALSE`, less just after a window. One threshold, the best, holds for all series. A detector that is
silent scores 0, one that detects the first row of every window and nothing else scores 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from benchmarks.density.files import Array, Series

MISSED, FALSE = 1.0, 0.11  # standard profile; a detection at the start of a window is worth 1

_FAR = 3.0  # widths after a window from which on a false detection costs all


class Scored(NamedTuple):
    """Best score of a detector over all thresholds, and where the threshold is."""

    score: float
    threshold: float


def probation(n_rows: int) -> int:
    """Number of first rows that are learned but not scored."""
    return min(int(0.15 * n_rows), 750)


def sigmoid(position: Array) -> Array:
    """Worth of a detection: position -1 is the start of a window, 0 its end, 1 a width later."""
    return np.where(position >= _FAR, -1.0, 2.0 * expit(-5.0 * position) - 1.0)


def worth(n_rows: int, windows: Sequence[tuple[int, int]]) -> tuple[Array, npt.NDArray[np.int64]]:
    """What a detection at each row is worth, and the window that it lies in, -1 for none."""
    row = np.arange(n_rows)
    value = np.full(n_rows, -FALSE)
    for first, last in sorted(windows):
        after = row > last
        value[after] = FALSE * sigmoid((row[after] - last) / max(last - first, 1))
    inside = np.full(n_rows, -1)
    best = sigmoid(np.array(-1.0))
    for number, (first, last) in enumerate(windows):
        within = np.arange(first, last + 1)
        value[within] = sigmoid((within - last - 1) / (last - first + 1)) / best
        inside[within] = number
    return value, inside


def gains(series: Series, scores: Array) -> tuple[Array, int]:
    """What each scored row adds when the threshold sinks to its score, and how many windows."""
    begin = probation(len(series.values))
    value, inside = worth(len(series.values), series.windows)
    value, inside, scores = value[begin:], inside[begin:], scores[begin:]
    gain = np.where(inside < 0, value, 0.0)
    windows = np.unique(inside[inside >= 0])
    for window in windows:
        rows = np.flatnonzero(inside == window)
        rows = rows[np.argsort(-scores[rows], kind="stable")]
        gain[rows] = np.diff(np.maximum.accumulate(np.append(-MISSED, value[rows])))
    return gain, len(windows)


def corpus_score(corpus: Sequence[Series], scores: Sequence[Array]) -> Scored:
    """Score of a detector, from its anomaly scores for every row of every series."""
    pairs = list(zip(corpus, scores, strict=True))
    gained, counts = zip(*(gains(series, mine) for series, mine in pairs), strict=True)
    level = np.concatenate([mine[probation(len(mine)) :] for _, mine in pairs])
    order = np.argsort(-level, kind="stable")
    level, total = level[order], np.cumsum(np.concatenate(gained)[order])
    is_threshold = np.append(level[1:] != level[:-1], True)
    total = np.append(0.0, total[is_threshold])
    threshold = np.append(np.inf, level[is_threshold])
    best = int(np.argmax(total))
    return Scored(100.0 * total[best] / (sum(counts) * (1.0 + MISSED)), float(threshold[best]))
