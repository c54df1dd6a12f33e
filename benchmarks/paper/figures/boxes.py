"""Scores of single batches: a box for each method, one figure for each set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from benchmarks.paper.figures.style import WHO, brief, colour, kind, save, sheet, tidy
from benchmarks.paper.published import METRICS, published
from benchmarks.paper.standings import OURS, Results, in_mode

_LABELS = {"ari": "ARI of a batch", "nmi": "NMI of a batch"}


def boxes(results: Results, name: str, path: Path) -> None:
    """Boxes of ARI and NMI over batches, each method at its best setting; ours untuned too."""
    lines = results.of(name)
    untuned = lines[(lines["method"] == OURS) & (lines["mode"] == "default")]
    lines = pd.concat([in_mode(lines, "tuned"), untuned]).drop_duplicates(["method", "mode"])
    lines = lines.sort_values("ari", kind="stable")
    figure = sheet(1.3 + 0.27 * len(lines))
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, metric in ((left, "ari"), (right, "nmi")):
        _panel(axes, results, lines, metric)
        _published(axes, str(lines["unit"].iloc[0]), metric)
    left.set_yticks(range(1, 1 + len(lines)), [_said(line) for line in lines.to_dict("records")])
    for label, line in zip(left.get_yticklabels(), lines.to_dict("records"), strict=True):
        label.set_fontweight("bold" if line["method"] == OURS else "normal")
    kinds = {
        kind(m, g): colour(m, g) for m, g in zip(lines["method"], lines["given_k"], strict=True)
    }
    handles = [Patch(color=kinds[who], label=WHO[who]) for who in WHO if who in kinds]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    save(figure, path)


def _panel(axes: Axes, results: Results, lines: pd.DataFrame, metric: str) -> None:
    series = results.series[results.series["set"] == lines["set"].iloc[0]]
    groups = dict(iter(series.groupby(["method", "mode"])[metric]))
    for place, line in enumerate(lines.to_dict("records"), 1):
        values = groups[line["method"], line["mode"]].dropna()
        shade = colour(line["method"], line["given_k"])
        quantiles = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95))
        box = dict(zip(("whislo", "q1", "med", "q3", "whishi"), quantiles, strict=True))
        axes.bxp(
            [box],
            positions=[place],
            orientation="horizontal",
            widths=0.62,
            showfliers=False,
            patch_artist=True,
            boxprops={"facecolor": shade, "edgecolor": shade},
            medianprops={"color": "white", "linewidth": 1.8},
            whiskerprops={"color": shade},
            capprops={"color": shade},
        )
    axes.set(xlabel=_LABELS[metric])
    tidy(axes, grid="x")


def _published(axes: Axes, unit: str, metric: str) -> None:
    """The paper's own figure as a dashed line."""
    for line in published(unit):
        value = line.scores[METRICS.index(metric)]
        if line.method == "ScStream" and value is not None:
            axes.axvline(value, color="black", linestyle=":", linewidth=1.2, zorder=0)
            axes.annotate(
                "ScStream, published",
                (value, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                fontsize="small",
                ha="center",
            )


def _said(line: dict[str, object]) -> str:
    note = {"tuned": ", tuned", "default": ", untuned"}[str(line["mode"])]
    return brief(str(line["method"])) + (note if line["method"] == OURS else "")
