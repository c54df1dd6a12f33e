"""The style of all plots: colours and markers of clusters, and plain axes.

The colours are those of Okabe and Ito, without the two that are invisible on white or on black, and
the olive of Paul Tol; they can be distinguished with any colour vision. Text and lines use the
colours of the current matplotlib style, so light and dark styles both work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patheffects import AbstractPathEffect, withStroke

from scstream.families.base import Array

NEUTRAL = "#8a8a8a"  # visible on white and on black
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#999933")
N_COLOURS = len(_COLOURS)
_INCHES = 0.17  # height of a line of text
HATCHES = ("", "//", "..", "\\\\", "xx", "--")  # for ids with the same colour
_MARKERS = ("o", "s", "^", "D", "v", "P")  # coprime to the colours: 42 different pairs


def colour_of(cluster_id: int) -> str:
    """Return the colour of a cluster; grey for rows without a cluster.

    Parameters
    ----------
    cluster_id : int
        Id of a cluster, or -1 for none.

    Returns
    -------
    str
        A matplotlib colour; it depends on the id only.

    Examples
    --------
    >>> from scstream.plot import colour_of
    >>> colour_of(0), colour_of(7), colour_of(-1)
    ('#0072B2', '#0072B2', '#8a8a8a')
    """
    return NEUTRAL if cluster_id < 0 else _COLOURS[cluster_id % N_COLOURS]


def marker_of(cluster_id: int) -> str:
    """Return the marker of a cluster; ids with the same colour have different ones.

    Parameters
    ----------
    cluster_id : int
        Id of a cluster, or -1 for none.

    Returns
    -------
    str
        A matplotlib marker.

    Examples
    --------
    >>> from scstream.plot import marker_of
    >>> marker_of(0), marker_of(7)
    ('o', 's')
    """
    return "o" if cluster_id < 0 else _MARKERS[cluster_id % len(_MARKERS)]


def hatch_of(cluster_id: int) -> str:
    """Return the hatch of a cluster in areas; ids with the same colour have different ones."""
    return "" if cluster_id < 0 else HATCHES[cluster_id // N_COLOURS % len(HATCHES)]


def name_of(cluster_id: int, names: Mapping[int, str] | None) -> str:
    """Return the name of a cluster that people gave it, or its id."""
    return (names or {}).get(cluster_id) or str(cluster_id)


def add_title(ax: Axes, title: str, *, pad: float | None = None) -> None:
    """Write a title at the left, unless the axes have one."""
    if not any(ax.get_title(loc=loc) for loc in ("left", "center", "right")):
        ax.set_title(title, loc="left", pad=pad)


def fit_labels(ax: Axes, n_labels: int) -> None:
    """Make labels of the vertical axis so small that they do not overlap."""
    points = 72.0 * ax.bbox.height / figure_of(ax).dpi
    size = float(np.clip(0.85 * points / max(n_labels, 1), 4.5, 10.0))
    ax.tick_params(axis="y", labelsize=size)


def figure_of(ax: Axes) -> Figure:
    """Return the figure that the axes are in."""
    return cast(Figure, ax.get_figure(root=True))


def axes_or_new(ax: Axes | None, n_lines: int = 0) -> Axes:
    """Return the axes, or those of a new pyplot figure, which the caller shows and closes.

    A new figure is high enough for `n_lines` lines of text beside the axes.
    """
    if ax is not None:
        return ax
    from matplotlib import pyplot

    width, height = mpl.rcParams["figure.figsize"]
    size = (width, max(height, _INCHES * n_lines + 1.2))
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def hide_spines(ax: Axes) -> None:
    """Hide the top and right spines."""
    ax.spines[["top", "right"]].set_visible(False)


def text_colour() -> str:
    """Return the text colour of the current style."""
    return str(mpl.rcParams["text.color"])


def outline(ax: Axes, width: float = 2.5) -> list[AbstractPathEffect]:
    """Return an outline in the background colour, which keeps text readable."""
    return [withStroke(linewidth=width, foreground=ax.get_facecolor())]


def contrast_colour(colour: str) -> str:
    """Return black or white, whichever has more contrast to a colour."""
    red, green, blue = to_rgb(colour)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def inset_above(ax: Axes, top: float, part: float) -> Axes:
    """Return inset axes in the upper `part` of the axes, whose own data end at `top`.

    They lie inside the axes, so that layouts need not make room for them.
    """
    ax.set_ylim(0.0, top / (1.0 - part))
    ticks = [
        tick for tick in ax.yaxis.get_major_locator().tick_values(0.0, top) if 0 <= tick <= top
    ]
    ax.set_yticks(ticks)
    ax.spines["left"].set_bounds(0.0, top)
    ax.yaxis.label.set_y(0.5 * (1.0 - part))
    above = ax.inset_axes((0.0, 1.0 - 0.9 * part, 1.0, 0.9 * part), sharex=ax)
    above.tick_params(labelbottom=False, bottom=False)
    above.spines["bottom"].set_visible(False)
    hide_spines(above)
    return above


def batch_edges(time: Array) -> Array:  # (B,) -> (B + 1,)
    """Return the boundaries between batches: halfway between their times."""
    middle = 0.5 * (time[1:] + time[:-1])
    first = middle[0] if len(middle) else time[0] + 0.5
    last = middle[-1] if len(middle) else time[-1] - 0.5
    return np.concatenate([[2 * time[0] - first], middle, [2 * time[-1] - last]])
