"""The two files that are read. They are not part of the project, and are checked before use."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.paper.files import stored

Array = npt.NDArray[np.float64]

_DAY = 1440  # minutes


class Series(NamedTuple):
    """One series of the Numenta Anomaly Benchmark."""

    name: str
    values: Array  # (N,)
    windows: list[tuple[int, int]]  # first and last row of every labelled anomaly


def flights() -> tuple[npt.NDArray[np.int64], Array]:  # (N,), (N, 3)
    """Minutes since the year began, and minute of the day, delay and distance of every flight.

    All three columns are whole numbers, on which a density has no bound: every entry gets uniform
    noise of one unit, once, the same for every method. The last day has one row and is left out.
    """
    with np.load(stored("flights_2001h1.npz")) as file:
        minute = np.cumsum(file["minute_step"].astype(np.int64))
        rows = np.column_stack([minute % _DAY, file["delay"], file["distance"]]).astype(float)
    rows += np.random.default_rng(0).random(rows.shape)
    whole = minute < minute[-1] // _DAY * _DAY
    return minute[whole], rows[whole]


def nab() -> list[Series]:
    """The 58 series with their windows, in the order of their names."""
    tables: dict[str, list[list[str]]] = {}
    windows: dict[str, Any] = {}
    with tarfile.open(stored("nab.tar.xz")) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is None:
                continue
            if member.name.endswith(".csv"):
                text = io.TextIOWrapper(content)
                tables[member.name.removeprefix("data/")] = list(csv.reader(text))[1:]
            elif member.name == "labels/combined_windows.json":
                windows = json.load(content)
    return [_series(name, tables[name], windows[name]) for name in sorted(tables)]


def _series(name: str, table: list[list[str]], windows: list[list[str]]) -> Series:
    row_of = {stamp: number for number, (stamp, _) in enumerate(table)}
    ends = [(row_of[first[:19]], row_of[last[:19]]) for first, last in windows]
    return Series(name.removesuffix(".csv"), np.array([float(value) for _, value in table]), ends)
