"""The lives of clusters: what was born, split, merged, died and returned, beside the truth."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from benchmarks.paper.figures.style import BLACK, BLUE, GREEN, ORANGE, RED, save, sheet, tidy

_BAND = "#d9d9d9"
_MARKS = {  # marker, colour, what it means
    "born": (">", GREEN, "born"),
    "split": ("^", ORANGE, "split off"),
    "merged": ("v", RED, "merged"),
    "died": ("X", BLACK, "died"),
    "returned": ("o", GREEN, "returned under its old id"),
}
_SOME = 5  # rows of an id in a batch that count as a sign of life
_SHIFT = 0.26  # of the second id within the lane of a class


def lineage(rows: pd.DataFrame, events: pd.DataFrame, path: Path) -> None:
    """One lane for each true cluster: a band while it has rows, a line for the id that has them.

    An id is drawn in the lane of the true cluster that gave it most of its rows.
    """
    rows = rows[rows["id"] >= 0]
    home = rows.groupby(["id", "label"])["rows"].sum().unstack().idxmax(axis=1)
    first = rows.groupby("label")["batch"].min().sort_values(kind="stable")
    lanes = {label: place for place, label in enumerate(first.index)}
    at = {int(i): lanes[home[i]] + shift for i, shift in _shifts(home).items()}
    figure = sheet(1.3 + 0.42 * len(lanes))
    axes = figure.subplots()
    _bands(axes, rows, lanes)
    for cluster, y in at.items():
        spells = _spells(events, cluster, int(rows["batch"].max()))
        _life(axes, rows[rows["id"] == cluster], spells, y)
    _marks(axes, events, at)
    axes.set(xlabel="batch", ylabel="true cluster, by its first rows", yticks=range(len(lanes)))
    axes.set_yticklabels([str(label) for label in lanes])
    axes.set_xlim(-4, rows["batch"].max() + 4)
    axes.invert_yaxis()
    tidy(axes, grid="x")
    figure.legend(handles=_legend(), loc="outside upper center", ncols=4, frameon=False)
    save(figure, path)


def _shifts(home: pd.Series) -> dict[int, float]:
    """The first id of a lane in its middle, later ones below."""
    place = home.sort_index().groupby(home.sort_index()).cumcount()
    return {int(i): _SHIFT * int(n) for i, n in place.items()}


def _bands(axes: Axes, rows: pd.DataFrame, lanes: dict[int, int]) -> None:
    for label, lane in lanes.items():
        batches = rows.loc[rows["label"] == label, "batch"].unique()
        spans = [(batch - 0.5, 1.0) for batch in batches]
        axes.broken_barh(spans, (lane - 0.36, 0.72), color=_BAND, linewidth=0)


def _life(axes: Axes, rows: pd.DataFrame, spells: list[tuple[int, int]], y: float) -> None:
    """A thick line where the id has rows, a dotted one where it waits."""
    for begin, end in spells:
        axes.plot([begin, end], [y, y], color=BLUE, lw=1.1, linestyle=":", zorder=2)
    busy = rows.groupby("batch")["rows"].sum()
    busy = busy[busy >= _SOME].index.to_series()
    for _, run in busy.groupby((busy.diff() != 1).cumsum()):
        axes.plot([run.min() - 0.5, run.max() + 0.5], [y, y], color=BLUE, lw=3.2, zorder=3)
    at = {"xytext": (-8, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
    axes.annotate(f"{rows['id'].iloc[0]}", (spells[0][0], y), fontsize=8, color=BLUE, **at)


def _spells(events: pd.DataFrame, cluster: int, last: int) -> list[tuple[int, int]]:
    """From each beginning of an id to its next end, or to the end of the stream."""
    kind, mine, other = events["kind"], events["id"] == cluster, events["other"] == cluster
    begins = mine & kind.isin(("born", "returned")) | other & (kind == "split")
    ends = mine & (kind == "died") | other & (kind == "merged")
    over = events.loc[ends, "batch"].tolist()
    starts = sorted(events.loc[begins, "batch"].tolist()) or [0]
    return [(start, min([end for end in over if end >= start], default=last)) for start in starts]


def _marks(axes: Axes, events: pd.DataFrame, at: dict[int, float]) -> None:
    """A mark where something happened; splits and merges are tied to the other side."""
    for event in events.to_dict("records"):
        child = event["other"] if event["kind"] in ("split", "merged") else event["id"]
        if child not in at:
            continue
        marker, shade, _ = _MARKS[event["kind"]]
        axes.plot(event["batch"], at[child], marker, color=shade, markersize=7, zorder=5)
        if child != event["id"] and event["id"] in at:
            ends = [at[event["id"]], at[child]]
            axes.plot([event["batch"]] * 2, ends, color=shade, lw=1.3, zorder=4)


def _legend() -> list[Line2D | Patch]:
    lines = [
        Patch(color=_BAND, label="the true cluster has rows"),
        Line2D([], [], color=BLUE, lw=3.2, label="an id of the model has rows"),
        Line2D([], [], color=BLUE, lw=1.1, linestyle=":", label="the id waits, without rows"),
    ]
    marks = [
        Line2D([], [], marker=marker, color=shade, linestyle="", markersize=7, label=said)
        for marker, shade, said in _MARKS.values()
    ]
    return lines + marks
