"""What happens along a stream: nearness to the oracle, number of clusters, cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.paper.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    brief,
    plain_log,
    save,
    sheet,
    small_title,
    smooth,
    tidy,
)
from benchmarks.paper.standings import OURS, PAPER, Results, in_mode, peers, title

FloatArray = npt.NDArray[np.float64]
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_COLUMNS = 3


def near_oracle(results: Results, path: Path) -> None:
    """Running ARI over that of the Bayes classifier, on the streams whose truth is known."""
    series = results.series.dropna(subset=["oracle_ari"])
    names = [name for name in results.units() if name in set(series["set"])]
    figure = sheet(0.6 + 2.3 * len(names))
    for axes, name in zip(figure.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        lines = in_mode(results.of(name), "tuned")
        for line, shade in zip(_leaders(lines), (BLUE, ORANGE, GREEN, RED, GREY), strict=False):
            mine = _batches(series, name, line["method"], line["mode"])
            width = _window(lines)
            near = smooth(mine["ari"], width) / smooth(mine["oracle_ari"], width)
            label = brief(line["method"]) + (" (given K)" if line["given_k"] else "")
            top = 5 if line["method"] == OURS else 2
            axes.plot(mine["batch"], near, color=shade, label=label, lw=1.8, zorder=top)
        axes.axhline(1.0, color=BLACK, linestyle=":", linewidth=1.2)
        axes.set_title(title(name), loc="left")
        axes.set_ylim(max(0.0, axes.get_ylim()[0]), 1.04)
        axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        tidy(axes)
    axes.set_xlabel("batch of 1000 rows")
    figure.supylabel("ARI over the ARI of the Bayes classifier", fontsize="medium")
    save(figure, path)


def _leaders(lines: pd.DataFrame) -> list[dict[str, object]]:
    """Ours, the paper's, and the three best peers."""
    own = [lines[lines["method"] == method] for method in (OURS, PAPER)]
    chosen = pd.concat([*own, peers(lines).head(3)])
    return [{str(k): v for k, v in line.items()} for line in chosen.to_dict("records")]


def _window(lines: pd.DataFrame) -> int:
    """Batches to average over, so that a long stream does not become a thick band."""
    return int(lines["batches"].max()) // 25


def _batches(series: pd.DataFrame, name: str, method: object, mode: object) -> pd.DataFrame:
    """The batches of one line, means over seeds."""
    at = (series["set"] == name) & (series["method"] == method) & (series["mode"] == mode)
    figures = ["ari", "oracle_ari", "k", "k_true", "seconds"]
    return series[at].groupby("batch")[figures].mean().reset_index()


def clusters(results: Results, names: list[str], path: Path) -> None:
    """Clusters of the models and of the truth, nothing tuned for ours."""
    n_rows = -(-len(names) // _COLUMNS)
    figure = sheet(0.9 + 1.75 * n_rows)
    grid = figure.subplots(n_rows, _COLUMNS, squeeze=False).ravel()
    for axes, name in zip(grid, names, strict=False):
        _count_panel(axes, results, name)
    for axes in grid[len(names) :]:
        axes.remove()
    figure.supxlabel("batch", fontsize="medium")
    figure.supylabel("number of clusters", fontsize="medium")
    handles = {line.get_label(): line for axes in grid[: len(names)] for line in axes.lines}
    figure.legend(
        handles=list(handles.values())[::-1], loc="outside upper center", ncols=4, frameon=False
    )
    save(figure, path)


def _count_panel(axes: Axes, results: Results, name: str) -> None:
    lines = results.of(name)
    rivals = peers(lines[~lines["given_k"]]).dropna(subset=["k_mean"]).head(1)
    chosen = [
        (OURS, "default", BLUE, "scstream, untuned"),
        (PAPER, "tuned", ORANGE, "paper's algorithm, tuned"),
        *(
            (m, mode, GREEN, "best peer that infers K")
            for m, mode in rivals[["method", "mode"]].values
        ),
    ]
    truth = results.series[results.series["set"] == name].groupby("batch")["k_true"].mean()
    drawn = [(truth.index, truth, BLACK, "truth: classes in the batch")]
    for method, mode, shade, label in chosen:
        mine = _batches(results.series, name, method, mode)
        drawn.append((mine["batch"], mine["k"], shade, label))
    for batch, k, shade, label in reversed(drawn):
        axes.plot(batch, smooth(k, _window(lines)), color=shade, label=label, lw=1.5)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    low, high = min(low, high / 4) / 1.2, high * 1.2
    axes.set_ylim(low, high)
    plain_log(axes.yaxis, [tick for tick in _TICKS if low <= tick <= high])
    small_title(axes, title(name))
    at = {"xycoords": "axes fraction", "fontsize": 8, "ha": "right"}
    axes.annotate(brief(" ".join(rivals["method"])), (0.99, 0.03), color=GREEN, **at)
    tidy(axes)


def cost(results: Results, sizes: pd.DataFrame, name: str, path: Path) -> None:
    """CPU time of a batch and size of the model along a long stream."""
    figure = sheet(4.2)
    left, right = figure.subplots(1, 2)
    lines = results.of(name)
    lines = lines[(lines["mode"] == "default") & (2 * lines["reached"] >= lines["batches"])]
    times = {}
    for method in lines["method"]:
        mine = _batches(results.series, name, method, "default")
        part = mine["batch"] // max(1, len(mine) // 20)
        times[method] = mine.groupby(part)[["batch", "seconds"]].median().to_numpy() * (1, 1000)
    bytes_ = {str(m): part[["batch", "bytes"]].to_numpy() for m, part in sizes.groupby("method")}
    _curves(left, times)
    _curves(right, {method: curve / (1, 1024) for method, curve in bytes_.items()})
    left.set_title("CPU milliseconds per batch", loc="left")
    right.set_title("size of the model, KiB", loc="left")
    save(figure, path)


def _curves(axes: Axes, curves: dict[str, FloatArray]) -> None:
    """Lines over batches, each named at its right end."""
    for method, curve in curves.items():
        shade, width = _look(method)
        axes.plot(*curve.T, color=shade, lw=width, zorder=5 if method == OURS else 2)
    axes.set(yscale="log", xlabel="batch of 1000 rows")
    low, high = axes.get_ylim()
    plain_log(axes.yaxis, [tick for tick in 10.0 ** np.arange(-2, 7) if low <= tick <= high])
    axes.set_xlim(0, max(curve[-1, 0] for curve in curves.values()))
    _name_ends(axes, {method: float(curve[-1, 1]) for method, curve in curves.items()})
    tidy(axes)


def _look(method: str) -> tuple[str, float]:
    return {OURS: (BLUE, 2.4), PAPER: (ORANGE, 1.8)}.get(method, (GREY, 1.2))


def _name_ends(axes: Axes, ends: dict[str, float]) -> None:
    """Name lines outside of the axes, no two names nearer than a line of text."""
    low, high = np.log10(axes.get_ylim())
    place = -np.inf
    for method in sorted(ends, key=lambda method: ends[method]):
        place = max(np.log10(ends[method]), place + (high - low) / 24)
        shade, _ = _look(method)
        axes.annotate(
            brief(method),
            (1.0, 10.0**place),
            xycoords=axes.get_yaxis_transform(),
            xytext=(5, 0),
            textcoords="offset points",
            color=BLACK if shade == GREY else shade,
            fontsize=8,
            va="center",
        )
