"""Flights: the log density of every batch before it is learned, for batches of three lengths."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.density import densities, files
from benchmarks.density.densities import Density, Ours, RiverGaussian, Static, Windowed
from benchmarks.density.files import Array

DAY = 1440
WEEK = 7 * DAY
OURS = "scstream, nothing set"

_WARM_DAYS = 10  # learned but not scored; the peers that are fitted once are fitted to them
_MEMORY = 7  # batches that half-life 5 holds in sum: 1 / (1 - 2 ** (-1 / 5))
_LONG = 10 * DAY  # minutes that a half-life of a week holds in sum: week / ln 2
_QUICK = 660  # minutes between scored batches of a quick run, at most
_LIMIT = 10.0  # CPU seconds after which a method that is slow row by row is stopped


class Setting(NamedTuple):
    """How the stream is cut."""

    width: int  # minutes of a batch
    columns: slice  # of minute of the day, delay and distance


SETTINGS = {
    "one hour": Setting(60, slice(0, 3)),
    "six hours": Setting(360, slice(0, 3)),
    "one day": Setting(DAY, slice(0, 3)),
    "one hour, without the minute": Setting(60, slice(1, 3)),
}


class Batch(NamedTuple):
    """Rows of one slot of the clock."""

    time: float  # minutes since the year began, at the end of the slot
    rows: Array  # (N, D)


@dataclass(frozen=True)
class Flights:
    """The stream, scaled by the part of it that is not scored."""

    minute: npt.NDArray[np.int64]  # (N,)
    rows: Array  # (N, D)
    warm: int  # minutes

    @classmethod
    def of(cls, minute: npt.NDArray[np.int64], rows: Array, *, warm_days: int) -> Flights:
        """Scale by mean and spread of the first days."""
        first = rows[minute < warm_days * DAY]
        return cls(minute, (rows - first.mean(axis=0)) / first.std(axis=0), warm_days * DAY)

    def batches(self, width: int) -> Iterator[Batch]:
        """Slots of `width` minutes that have rows, in order."""
        slot = self.minute // width
        cuts = np.flatnonzero(np.diff(slot)) + 1
        for begin, end in zip([0, *cuts], [*cuts, len(slot)], strict=True):
            yield Batch(float((slot[begin] + 1) * width), self.rows[begin:end])


@dataclass(frozen=True)
class Entry:
    """A method, and every which batch it is scored on (0: not at all) in each setting."""

    name: str
    make: Callable[[Flights, int], Density]  # of the stream and the chosen number of components
    every: tuple[int, int, int, int] = (1, 1, 1, 1)  # prime to 24, 4 and 7: no slot is passed over
    given_k: bool = False
    limit: float = np.inf


def _window(
    fit: Callable[[int], Callable[[Array], Any]], **span: float
) -> Callable[[Flights, int], Density]:
    lasting = {"batches": np.inf, "minutes": np.inf} | span
    return lambda flights, k: Windowed(fit(k), **lasting)


def _one_gaussian(k: int) -> Callable[[Array], Any]:
    return densities.OneGaussian


def _static(flights: Flights, k: int) -> Density:
    return Static(densities.gaussian_mixture(k)(_warm_rows(flights)))


ENTRIES = (
    Entry(OURS, lambda flights, k: Ours(timed=False)),
    Entry(
        "scstream, no motion",
        lambda flights, k: Ours(timed=False, motion=False),
    ),
    Entry(
        "scstream, coarseness 0",
        lambda flights, k: Ours(timed=False, coarseness=0.0),
    ),
    Entry("scstream, half-life a week", lambda flights, k: Ours(timed=True, half_life=WEEK)),
    Entry(
        "scstream, half-life a week, no motion",
        lambda flights, k: Ours(timed=True, half_life=WEEK, motion=False),
    ),
    Entry("GaussianMixture, fitted once", _static, given_k=True),
    Entry(
        "GaussianMixture, last 7 batches",
        _window(densities.gaussian_mixture, batches=_MEMORY),
        (97, 25, 5, 97),
        given_k=True,
    ),
    Entry(
        "GaussianMixture, last 10 days",
        _window(densities.gaussian_mixture, minutes=_LONG),
        (193, 49, 0, 193),
        given_k=True,
    ),
    Entry(
        "BayesianGaussianMixture, last 7 batches",
        _window(densities.bayesian_mixture, batches=_MEMORY),
        (193, 0, 13, 0),
        given_k=True,
    ),
    Entry("one Gaussian, last 7 batches", _window(_one_gaussian, batches=_MEMORY), (5, 1, 1, 5)),
    Entry("one Gaussian, last 10 days", _window(_one_gaussian, minutes=_LONG), (25, 5, 0, 25)),
    Entry(
        "river MultivariateGaussian", lambda flights, k: RiverGaussian(), (0, 0, 1, 0), limit=_LIMIT
    ),
)


def _warm_rows(flights: Flights) -> Array:
    return densities.thinned(flights.rows[flights.minute < flights.warm])


def follow(
    model: Density, batches: Iterator[Batch], *, warm: float, every: int = 1, limit: float = np.inf
) -> pd.DataFrame:
    """One line a scored batch: its end, rows, mean log density, components, CPU seconds."""
    lines = []
    spent = 0.0
    for number, batch in enumerate(batches):
        begin = time.process_time()
        scored = batch.time > warm and number % every == 0
        density = model.log_density(batch.rows, batch.time) if scored else np.zeros(0)
        model.learn(batch.rows, batch.time)
        seconds = time.process_time() - begin
        if scored:
            line = (batch.time, len(density), density.mean(), model.n_components, seconds)
            lines.append((number, *line))
        spent += seconds
        if spent > limit:
            break
    columns = ["batch", "time", "rows", "log_density", "k", "seconds"]
    return pd.DataFrame(lines, columns=columns)


def run(*, quick: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Results of every method for every length of batches, and their course day by day."""
    minute, rows = files.flights()
    if quick:
        rows = rows[minute < 4 * DAY]
        minute = minute[: len(rows)]
    warm_days = 1 if quick else _WARM_DAYS
    results, days = [], []
    for index, (name, setting) in enumerate(SETTINGS.items()):
        flights = Flights.of(minute, rows[:, setting.columns], warm_days=warm_days)
        k = densities.by_bic(_warm_rows(flights))
        ours = pd.DataFrame()
        for entry in (entry for entry in ENTRIES if entry.every[index]):
            most = max(_QUICK // setting.width, 2) if quick else entry.every[index]
            every = min(entry.every[index], most)
            course = follow_entry(entry, flights, setting.width, k=k, every=every)
            ours = course if entry.name == OURS else ours
            line = {"batches_of": name, "method": entry.name, "given_k": entry.given_k}
            results.append(line | summed(course, ours))
            days.append(by_day(course).assign(batches_of=name, method=entry.name))
            tell(results[-1])
    return pd.DataFrame(results), pd.concat(days, ignore_index=True)


def follow_entry(entry: Entry, flights: Flights, width: int, *, k: int, every: int) -> pd.DataFrame:
    """The course of one method on the stream."""
    batches = flights.batches(width)
    if entry.limit < np.inf:  # too slow to learn what is not scored
        batches = (batch for batch in batches if batch.time > flights.warm - width)
    model = entry.make(flights, k)
    return follow(model, batches, warm=flights.warm, every=every, limit=entry.limit)


def tell(line: dict[str, Any]) -> None:
    """Say what was found, as it is found."""
    said = f"{line['batches_of']:30}{line['method']:42}{line['log_density']:8.3f}"
    print(f"{said}{line['rows_per_second']:12,.0f} rows/s", file=sys.stderr, flush=True)


def summed(course: pd.DataFrame, ours: pd.DataFrame) -> dict[str, float]:
    """Means over the rows, and how much better ours did on the same batches."""
    both = course.merge(ours, on="time", suffixes=("", "_ours"))
    gain = both["log_density_ours"] - both["log_density"]
    mean = np.average(gain, weights=both["rows"])
    spread = np.sqrt(np.average((gain - mean) ** 2, weights=both["rows"]) / max(len(gain) - 1, 1))
    return {
        "n_batches": len(course),
        "rows": int(course["rows"].sum()),
        "log_density": np.average(course["log_density"], weights=course["rows"]),
        "ours_above": mean,
        "ours_above_error": spread,
        "k": course["k"].mean(),
        "cpu_seconds": course["seconds"].sum(),
        "rows_per_second": course["rows"].sum() / course["seconds"].sum(),
    }


def by_day(course: pd.DataFrame) -> pd.DataFrame:
    """Mean log density of the rows of a day, and the number of components at its end."""
    day = ((course["time"] - 1) // DAY).astype(int)
    total = (course["log_density"] * course["rows"]).groupby(day).sum()
    grouped = course.groupby(day)
    table = {"log_density": total / grouped["rows"].sum(), "k": grouped["k"].last()}
    return pd.DataFrame(table).rename_axis("day").reset_index()
