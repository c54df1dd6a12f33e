"""Figures of the page: the density of flights over time, and scores of three series."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import matplotlib.dates as mdates
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.density.flights import OURS

_BEGIN = date(2001, 1, 1)
_SCORE, _FOUND, _WINDOW = "#b2182b", "#2166ac", "#fdae61"
_NAMED = 3  # improbable days that get their date
_LINES = {
    OURS: "#b2182b",
    "scstream, half-life a week": "#2166ac",
    "GaussianMixture, fitted once": "#4d9221",
    "one Gaussian, last 7 batches": "#7f7f7f",
}
_SATURDAY = 5
_APART = timedelta(days=7)  # between days that get their date


def flights(days: pd.DataFrame, path: Path) -> None:
    """Log density day by day for batches of a day and of an hour, and K."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    daily, hourly, count = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 2))
    for axes, width, names in ((daily, "one day", list(_LINES)[:3]), (hourly, "one hour", _LINES)):
        for name in names:
            course = _course(days, width, name)["log_density"]
            axes.plot(course.index, course, color=_LINES[name], lw=1.2, label=name)
        axes.set_title(
            f"log density of a row before it is learned, batches of {width}", fontsize=10
        )
        axes.set_ylabel("nats per row")
    _name_worst(daily, _course(days, "one day", OURS)["log_density"])
    for width, style in (("one day", "-"), ("one hour", ":")):
        for name in list(_LINES)[:2]:
            course = _course(days, width, name)["k"]
            count.plot(course.index, course, style, color=_LINES[name], lw=1.2)
    count.set_title("number of clusters; batches of one day solid, of one hour dotted", fontsize=10)
    count.set(yscale="log", ylabel="K")
    handles, labels = hourly.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    count.xaxis.set_major_locator(mdates.MonthLocator())
    count.xaxis.set_major_formatter(mdates.DateFormatter("%-d %b"))
    _save(figure, path)


def _course(days: pd.DataFrame, width: str, name: str) -> pd.DataFrame:
    course = days[(days["batches_of"] == width) & (days["method"] == name)]
    return course.set_index(pd.Index([_date(day) for day in course["day"]]))


def _date(day: int) -> date:
    return _BEGIN + timedelta(days=int(day))


def _name_worst(axes: Axes, density: pd.Series) -> None:
    named: list[date] = []
    for day, value in density.sort_values().items():
        if len(named) < _NAMED and all(abs(day - other) > _APART for other in named):
            named.append(day)
            place = {"textcoords": "offset points", "fontsize": 8, "va": "top", "ha": "center"}
            axes.annotate(f"{day:%a %-d %b}", (day, value), (0, -8), **place)
    saturdays = [day for day in density.index if day.weekday() == _SATURDAY]
    for day in saturdays:
        axes.axvline(day, color="0.85", lw=0.7, zorder=0)
    axes.margins(y=0.15)


def nab(shown: pd.DataFrame, threshold: float, path: Path) -> None:
    """Value and score of three series; windows shaded, detections marked."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    names = shown["series"].unique()
    parts = figure.subfigures(len(names), 1, squeeze=False)[:, 0]
    for part, name in zip(parts, names, strict=True):
        course = shown[shown["series"] == name].reset_index(drop=True)
        value, score = part.subplots(2, 1, sharex=True)
        part.suptitle(name, fontsize=9)
        value.plot(course["row"], course["value"], color="0.3", lw=0.7)
        score.plot(course["row"], course["score"], color=_SCORE, lw=0.7)
        score.axhline(threshold, color=_FOUND, lw=0.8, ls="--")
        high = course[course["score"] >= threshold]
        score.plot(high["row"], high["score"], "v", color=_FOUND, ms=4)
        score.set(yscale="symlog", ylabel="−log density")
        score.set_xlabel("row", loc="right", labelpad=-6)
        value.set(ylabel="value")
        for axes in (value, score):
            axes.fill_between(
                course["row"],
                0,
                1,
                where=course["window"],
                transform=axes.get_xaxis_transform(),
                color=_WINDOW,
                alpha=0.4,
                lw=0,
            )
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    for axes in figure.get_axes():
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
