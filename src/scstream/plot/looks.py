"""One look for all pictures: colours and markers of ids, and axes with little on them.

Colours are those of Okabe and Ito, without the two that vanish on white or on black, and the olive
of Paul Tol; people of any colour vision tell them apart. Text and lines take the colours of the
style in use, so that light and dark styles both work.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patheffects import AbstractPathEffect, withStroke

from scstream.families.base import Array

NEUTRAL = "#8a8a8a"  # seen on white and on black
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#999933")
N_COLOURS = len(_COLOURS)
_MARKERS = ("o", "s", "^", "D", "v", "P")  # prime to the colours: 42 ids before a pair returns


def colour_of(identity: int) -> str:
    """Return the colour of a cluster; grey for rows of no cluster.

    Parameters
    ----------
    identity : int
        Id of a cluster, or -1 for none.

    Returns
    -------
    str
        A colour as matplotlib reads it, the same for the same id for ever.

    Examples
    --------
    >>> from scstream.plot import colour_of
    >>> colour_of(0), colour_of(7), colour_of(-1)
    ('#0072B2', '#0072B2', '#8a8a8a')
    """
    return NEUTRAL if identity < 0 else _COLOURS[identity % N_COLOURS]


def marker_of(identity: int) -> str:
    """Return the marker of a cluster; ids with the same colour have different ones.

    Parameters
    ----------
    identity : int
        Id of a cluster, or -1 for none.

    Returns
    -------
    str
        A marker as matplotlib reads it.

    Examples
    --------
    >>> from scstream.plot import marker_of
    >>> marker_of(0), marker_of(7)
    ('o', 's')
    """
    return "o" if identity < 0 else _MARKERS[identity % len(_MARKERS)]


def given_or_new(ax: Axes | None) -> Axes:
    """Return the axes, or those of a new figure of pyplot, which its caller shows and closes."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def tidy(ax: Axes) -> None:
    """Take away what says nothing."""
    ax.spines[["top", "right"]].set_visible(False)


def ink() -> str:
    """Colour of text in the style in use."""
    return str(mpl.rcParams["text.color"])


def halo(ax: Axes, width: float = 2.5) -> list[AbstractPathEffect]:
    """A rim in the colour of the background, so that text is read on whatever lies below."""
    return [withStroke(linewidth=width, foreground=ax.get_facecolor())]


def ink_on(colour: str) -> str:
    """Black or white, whichever is read better on a colour."""
    red, green, blue = to_rgb(colour)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def strip_above(ax: Axes, top: float, part: float) -> Axes:
    """Give the upper `part` of some axes to smaller ones; what was there ends at `top`.

    They lie inside the axes, so that no layout has to make room for them.
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
    tidy(above)
    return above


def edges_of(time: Array) -> Array:  # (B,) -> (B + 1,)
    """Where the picture of one batch ends and that of the next begins: halfway between them."""
    middle = 0.5 * (time[1:] + time[:-1])
    first = middle[0] if len(middle) else time[0] + 0.5
    last = middle[-1] if len(middle) else time[-1] - 0.5
    return np.concatenate([[2 * time[0] - first], middle, [2 * time[-1] - last]])
