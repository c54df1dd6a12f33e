"""Figures of our own experiments: sampling sweeps, the last sweep, and how soon births are seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.paper.figures.style import BLUE, GREY, ORANGE, colour, save, sheet, tidy
from benchmarks.paper.own import DRAWN, SAMPLED, SETTLED
from benchmarks.paper.standings import OURS, PAPER

_LAST = {SETTLED: "settled\n(the paper)", DRAWN: "drawn from\nthe predictive", SAMPLED: "sampled"}


def sweeps(found: pd.DataFrame, path: Path) -> None:
    """Accuracy and CPU time against the number of sampling sweeps T, a column for each stream."""
    streams = list(found["stream"].unique())
    figure = sheet(5.2)
    grid = figure.subplots(2, len(streams), sharex=True, squeeze=False)
    for column, stream in enumerate(streams):
        some = found[found["stream"] == stream].assign(milliseconds=1000 * found["seconds"])
        paper, ours = some[some["method"] == PAPER], some[some["method"] == OURS]
        above, below = grid[:, column]
        for metric, style in (("ari", "-"), ("nmi", "--")):
            _mean_line(above, paper, metric, style, f"{metric.upper()}, paper's algorithm")
            above.axhline(
                ours[metric].mean(),
                color=BLUE,
                linestyle=style,
                label=f"{metric.upper()}, scstream's default (T = 0)",
            )
        _range(above, paper, "ari")
        above.set(title=f"{stream} ({paper['seed'].nunique()} seeds)")
        above.set_ylim(None, 1.01)
        _mean_line(below, paper, "milliseconds", "-", "")
        _range(below, paper, "milliseconds")
        below.axhline(ours["milliseconds"].mean(), color=BLUE)
        below.set(xlabel="sampling sweeps per batch, T", xticks=sorted(paper["n_sweeps"].unique()))
        below.set_ylim(0, None)
    grid[0, 0].set_ylabel("mean over batches")
    grid[1, 0].set_ylabel("CPU ms per batch")
    for axes in grid.ravel():
        tidy(axes)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    save(figure, path)


def _mean_line(axes: Axes, found: pd.DataFrame, column: str, style: str, label: str) -> None:
    means = found.groupby("n_sweeps")[column].mean()
    axes.plot(means, color=ORANGE, linestyle=style, marker="o", markersize=4, label=label)


def _range(axes: Axes, found: pd.DataFrame, column: str) -> None:
    """The range that the seeds span."""
    by_t = found.groupby("n_sweeps")[column]
    axes.fill_between(by_t.min().index, by_t.min(), by_t.max(), color=ORANGE, alpha=0.15, lw=0)


def last_sweep(found: pd.DataFrame, path: Path) -> None:
    """ARI by how the last sweep chooses labels; a thin line for each seed."""
    streams = list(found["stream"].unique())
    figure = sheet(3.6)
    for axes, stream in zip(figure.subplots(1, len(streams), sharey=True), streams, strict=True):
        wide = found[found["stream"] == stream].pivot(index="seed", columns="variant", values="ari")
        wide = wide[list(_LAST)]
        places = np.arange(len(_LAST))
        axes.plot(places, wide.to_numpy().T, color=GREY, lw=1, marker="o", markersize=3)
        means = wide.mean().to_numpy()
        axes.bar(places, means, width=0.5, color=ORANGE, alpha=0.35, zorder=0)
        for place, mean in zip(places, means, strict=True):
            axes.annotate(f"{mean:.2f}", (place, 0.02), ha="center", fontweight="bold")
        axes.set(title=stream, xticks=places, xticklabels=_LAST.values(), ylim=(0, 1))
        tidy(axes)
    figure.axes[0].set_ylabel("mean ARI of predictions")
    figure.supxlabel("labels of the last sweep of a batch, which are learned", fontsize="medium")
    save(figure, path)


def birth_delay(found: pd.DataFrame, path: Path) -> None:
    """Share of newborn clusters found within so many batches."""
    figure = sheet(3.4)
    titles = {"far": "newborns far from all others", "near": "newborns 4 deviations from another"}
    for axes, (distance, said) in zip(
        figure.subplots(1, 2, sharey=True), titles.items(), strict=True
    ):
        for method in (OURS, PAPER):
            mine = found[(found["distance"] == distance) & (found["method"] == method)]
            limit = np.arange(21)
            share = [(mine["delay"] <= d).mean() for d in limit]
            axes.step(limit, share, where="post", color=colour(method), lw=2.2, label=method)
            axes.annotate(
                f"{share[-1]:.0%} found" if share[-1] < 1 else "all found",
                (20, share[-1]),
                xytext=(0, -4),
                textcoords="offset points",
                ha="right",
                va="top",
                color=colour(method),
            )
        axes.set(title=said, xlabel="batches after the birth", ylim=(0, 1.03), xlim=(0, 20))
        axes.set_xticks(range(0, 21, 5))
        tidy(axes)
    figure.axes[0].set_ylabel("share of newborns found")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    save(figure, path)
