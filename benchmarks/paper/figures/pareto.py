"""Speed against accuracy: one panel for each set, and the front that nobody beats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.paper.figures.style import (
    WHO,
    brief,
    colour,
    kind,
    plain_log,
    save,
    sheet,
    small_title,
    tidy,
)
from benchmarks.paper.standings import OURS, PAPER, Results, front

_MARKS = {OURS: "D", PAPER: "o", False: "o", True: "s"}
_COLUMNS = 3


def pareto(results: Results, panels: dict[str, list[str]], path: Path) -> None:
    """Draw panels by title; a panel with several sets shows their means."""
    n_rows = -(-len(panels) // _COLUMNS)
    figure = sheet(0.9 + 2.35 * n_rows)
    grid = figure.subplots(n_rows, _COLUMNS, squeeze=False).ravel()
    for axes, (heading, sets) in zip(grid, panels.items(), strict=False):
        lines = results.lines[results.lines["set"].isin(sets)]
        _panel(axes, lines.groupby(["method", "mode"], as_index=False).agg(_MEANS))
        several = f" (mean of {len(sets)})" if len(sets) > 1 else ""
        small_title(axes, heading + several)
    for axes in grid[len(panels) :]:
        axes.remove()
    figure.supxlabel("rows per CPU second", fontsize="medium")
    figure.supylabel("mean ARI over batches", fontsize="medium")
    figure.legend(handles=_legend(), loc="outside upper center", ncols=4, frameon=False)
    save(figure, path)


_MEANS = {"ari": "mean", "rows_per_second": "mean", "given_k": "first"}


def _panel(axes: Axes, lines: pd.DataFrame) -> None:
    best = front(lines)
    axes.step(best["rows_per_second"], best["ari"], where="post", color="#bbbbbb", linewidth=1.5)
    for line in lines.to_dict("records"):
        who = kind(line["method"], line["given_k"])
        shade = colour(line["method"], line["given_k"])
        face = shade if line["mode"] == "tuned" else "white"
        size = 52 if who == OURS else 24
        axes.scatter(
            line["rows_per_second"],
            line["ari"],
            marker=_MARKS[who],
            s=size,
            facecolor=face,
            edgecolor=shade,
            linewidth=1.3,
            zorder=4 if who == OURS else 3,
        )
    axes.set_xscale("log")
    low, high = lines["rows_per_second"].min(), lines["rows_per_second"].max()
    axes.set_xlim(low / 2.2, high * 4)
    decades = np.arange(np.ceil(np.log10(low / 2)), np.floor(np.log10(high * 4)) + 1)
    plain_log(axes.xaxis, 10.0**decades)
    bottom, top = axes.get_ylim()
    room = 0.14 * (top - bottom)
    axes.set_ylim(bottom - room, top + room)
    _name(axes, best)
    tidy(axes, grid="both")


def _name(axes: Axes, best: pd.DataFrame) -> None:
    """Name two others on the front: the fastest and the most accurate."""
    others = best[~best["method"].isin((OURS, PAPER))]
    chosen = pd.concat([others.head(1), others.tail(1)]).drop_duplicates("method")
    for place, line in enumerate(chosen.to_dict("records")):
        axes.annotate(
            brief(line["method"]).split(",")[0],
            (line["rows_per_second"], line["ari"]),
            xytext=(0, 5 if place else -5),
            textcoords="offset points",
            fontsize=8,
            ha="center",
            va="bottom" if place else "top",
        )


def _legend() -> list[Line2D]:
    looks: dict[str, Any] = {"linestyle": "", "markeredgewidth": 1.3}
    who = [
        Line2D([], [], marker=_MARKS[each], color=_shade(each), label=WHO[each], **looks)
        for each in WHO
    ]
    modes = [
        Line2D([], [], marker="o", color="black", label="tuned", **looks),
        Line2D(
            [], [], marker="o", color="black", markerfacecolor="white", label="untuned", **looks
        ),
        Line2D([], [], color="#bbbbbb", label="Pareto front"),
    ]
    return who + modes


def _shade(who: object) -> str:
    return colour(str(who)) if isinstance(who, str) else colour("", bool(who))
