"""Box plots of the scores of several methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from scstream.errors import InputError
from scstream.families.base import Array
from scstream.io.tables import counted
from scstream.metrics.prequential import PrequentialResult
from scstream.plot.style import (
    NEUTRAL,
    add_title,
    axes_or_new,
    colour_of,
    hide_spines,
    text_colour,
)

_QUANTILES = {"whislo": 0.05, "q1": 0.25, "med": 0.5, "q3": 0.75, "whishi": 0.95}


def boxes(
    scores: Mapping[str, ArrayLike | PrequentialResult],
    metric: str = "ari",
    *,
    ax: Axes | None = None,
    highlight: Sequence[str] = (),
    colours: Mapping[str, str] | None = None,
) -> Axes:
    """Draw a box for every method: quartiles of its scores, with whiskers from 5 to 95 %.

    Methods are ordered by their mean, the best on top; a dot marks the mean. Batches without a
    score are ignored.

    Parameters
    ----------
    scores : mapping of str to array or PrequentialResult
        Scores over batches, or results of `scstream.metrics.prequential`, by method.
    metric : str
        The column of a result; also the label of the axis.
    ax : Axes, optional
        The axes to draw on; by default those of a new figure.
    highlight : sequence of str
        Methods to highlight in blue and bold; the others are grey.
    colours : mapping of str to str, optional
        Other colours for single methods.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scstream import plot
    >>> scores = {"one": [0.2, 0.3, 0.5], "another": [0.7, 0.9, 0.8]}
    >>> ax = plot.boxes(scores, ax=Figure().subplots(), highlight=["another"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['one', 'another']
    """
    columns = {name: _column(name, score, metric) for name, score in scores.items()}
    if not columns:
        raise InputError("there are no scores to draw; pass scores by the name of their method.")
    ax = axes_or_new(ax)
    ordered = sorted(columns, key=lambda name: float(columns[name].mean()))
    for place, name in enumerate(ordered, 1):
        shade = colour_of(0) if name in highlight else NEUTRAL
        _box(ax, columns[name], place, (colours or {}).get(name, shade))
    scored = metric.upper() if len(metric) <= 4 else metric
    ax.set(xlabel=scored)
    add_title(ax, f"{scored} of {counted(len(ordered), 'method')}, 5 to 95 % of the batches")
    ax.set_yticks(range(1, 1 + len(ordered)), ordered)
    for label, name in zip(ax.get_yticklabels(), ordered, strict=True):
        label.set_fontweight("bold" if name in highlight else "normal")
    ax.grid(axis="x", color=NEUTRAL, alpha=0.3, linewidth=0.7)
    ax.set_axisbelow(True)
    hide_spines(ax)
    return ax


def _column(name: str, score: Any, metric: str) -> Array:
    values = score.scores[metric] if hasattr(score, "scores") else score
    values = np.asarray(values, dtype=np.float64).ravel()
    values = values[np.isfinite(values)]
    if not len(values):
        raise InputError(f"{name!r} has no {metric} to draw; leave it out.")
    return values


def _box(ax: Axes, values: Array, place: int, shade: str) -> None:
    box = {name: np.quantile(values, at) for name, at in _QUANTILES.items()}
    ax.bxp(
        [box],
        positions=[place],
        orientation="horizontal",
        widths=0.6,
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": shade, "edgecolor": shade, "alpha": 0.85},
        medianprops={"color": ax.get_facecolor(), "linewidth": 1.8},
        whiskerprops={"color": shade},
        capprops={"color": shade},
    )
    ax.plot(values.mean(), place, marker="o", markersize=4, color=text_colour(), zorder=5)
