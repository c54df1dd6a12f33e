"""Methods that say how unusual a row is before they learn it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfc
from sklearn.ensemble import IsolationForest

from benchmarks.density import densities
from benchmarks.density.files import Array
from scstream import ScStream

BATCH = 50  # rows that ours learns at once
OURS = "scstream, nothing set"

_WINDOW, _STEP = 1000, 500  # rows that a peer is fitted to, and after how many anew
_LONG_WINDOW, _LONG_STEP = 6400, 100  # the same in NAB's windowed Gaussian
_SMALLEST = 1e-6  # spread of values that are all the same

Detector = Callable[[Array, Array, int], Array]


@dataclass(frozen=True)
class Entry:
    """A detector: scores (N,) of rows (N, 3) or raw values (N,), the first of which are given."""

    name: str
    scores: Detector


def ours(half_life: Callable[[int], float | None]) -> Detector:
    """Minus the log density; the given rows are the first batch."""

    def scores(rows: Array, values: Array, given: int) -> Array:
        model = ScStream(half_life=half_life(given), random_state=0, n_jobs=1)
        model.partial_fit(rows[:given])
        found = np.zeros(len(rows))
        for begin in range(given, len(rows), BATCH):
            batch = rows[begin : begin + BATCH]
            found[begin : begin + BATCH] = -model.score_samples(batch)
            model.partial_fit(batch)
        return found

    return scores


def windowed(fit: Callable[[Array], Any]) -> Detector:
    """Minus the score of a model that is fitted anew from time to time to the last rows."""

    def scores(rows: Array, values: Array, given: int) -> Array:
        found = np.zeros(len(rows))
        for begin in range(given, len(rows), _STEP):
            model = fit(rows[max(begin - _WINDOW, 0) : begin])
            found[begin : begin + _STEP] = -model.score_samples(rows[begin : begin + _STEP])
        return found

    return scores


def mixture(rows: Array, values: Array, given: int) -> Array:
    """A mixture of Gaussians whose number BIC chooses on the given rows."""
    fit = densities.gaussian_mixture(densities.by_bic(rows[:given]))
    return windowed(fit)(rows, values, given)


def half_space_trees(rows: Array, values: Array, given: int) -> Array:
    """River's trees behind its scaler, as its documentation advises."""
    from river import anomaly, preprocessing

    return _one_by_one(preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=0), rows)


def _one_by_one(model: Any, rows: Array) -> Array:
    found = np.zeros(len(rows))
    for number, row in enumerate(rows.tolist()):
        x = dict(enumerate(row))
        if number:
            found[number] = model.score_one(x)
        model.learn_one(x)
    return found


def gaussian_scorer(rows: Array, values: Array, given: int) -> Array:
    """River's Gaussian of all values so far."""
    from river import anomaly

    model, found = anomaly.GaussianScorer(), np.zeros(len(values))
    for number, value in enumerate(values.tolist()):
        found[number] = model.score_one(None, value)
        model.learn_one(None, value)
    return found


def z_score(rows: Array, values: Array, given: int) -> Array:
    """Distance from the mean of a window of values, in its spreads."""
    centred = values - values.mean()
    sums = np.append(0.0, np.cumsum(centred)), np.append(0.0, np.cumsum(centred**2))
    row = np.arange(len(values))
    end = np.where(row <= _LONG_WINDOW, row, row - (row - _LONG_WINDOW) % _LONG_STEP)
    begin = np.maximum(end - _LONG_WINDOW, 0)
    first, second = ((total[end] - total[begin]) / np.maximum(end - begin, 1) for total in sums)
    spread = np.sqrt(np.maximum(second - first**2, 0.0))
    found = np.abs(centred - first) / np.maximum(spread, _SMALLEST)
    found[0] = 0.0
    return found


def tail_probability(rows: Array, values: Array, given: int) -> Array:
    """NAB's own windowed Gaussian, written with the 12 digits of NAB's result files."""
    return np.round(1.0 - 0.5 * erfc(z_score(rows, values, given) / np.sqrt(2.0)), 12)


ENTRIES = (
    Entry(OURS, ours(lambda given: 5.0)),
    Entry("scstream, half-life of the first rows", ours(lambda given: given / BATCH)),
    Entry("scstream, never forgets", ours(lambda given: None)),
    Entry("GaussianMixture, last 1000 rows", mixture),
    Entry(
        "IsolationForest, last 1000 rows",
        windowed(lambda X: IsolationForest(random_state=0, n_jobs=1).fit(X)),
    ),
    Entry("river HalfSpaceTrees", half_space_trees),
    Entry("river GaussianScorer", gaussian_scorer),
    Entry("Gaussian window, z-score", z_score),
    Entry("NAB's windowed Gaussian", tail_probability),
)
