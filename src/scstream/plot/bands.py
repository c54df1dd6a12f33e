"""Shares of clusters over time, one on top of the other, and their number."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from scstream.families.base import Array
from scstream.plot.looks import (
    N_COLOURS,
    NEUTRAL,
    colour_of,
    edges_of,
    given_or_new,
    ink,
    ink_on,
    strip_above,
    tidy,
)
from scstream.plot.record import History, seen

_THICK = 0.045  # share from which on a band has room for its id
_HATCHES = ("", "//", "..", "\\\\", "xx", "--")  # of ids that share a colour


def weights(
    history: History, *, ax: Axes | None = None, max_n: int = 12, count: bool = True
) -> Axes:
    """Draw the share of every cluster over time as stacked bands, oldest at the bottom.

    Shares are of the faded number of rows, as in ``model.clusters_``. Light clusters are drawn
    together in grey; the gap up to one are rows of no cluster.

    Parameters
    ----------
    history : History
        What was seen.
    ax : Axes, optional
        Where to draw; by default a new figure.
    most : int
        Most clusters to draw one by one: those that were heaviest at any time.
    count : bool
        Whether to draw the number of clusters in a strip above.

    Returns
    -------
    Axes
        Where it was drawn; the strip is the first of its ``child_axes``.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scstream import ScStream, plot
    >>> from scstream.datasets import births_and_deaths
    >>> history, model = plot.History(), ScStream(random_state=0)
    >>> for batch in births_and_deaths(2, weight=0.3, birth_every=4, n_batches=8, random_state=0):
    ...     history.see(model.partial_fit(batch.X))
    >>> ax = plot.weights(history, ax=Figure().subplots())
    >>> sorted(text.get_text() for text in ax.texts)
    ['0', '1', '2']
    """
    ids, share = seen(history).ids.tolist(), np.nan_to_num(history.share())  # (B, I)
    ax = given_or_new(ax)
    edges = edges_of(history.time)
    heaviest = np.sort(np.argsort(-share.max(axis=0), kind="stable")[:max_n])
    base = np.zeros(len(share))
    for column in heaviest:
        top = base + share[:, column]
        _band(ax, ids[column], base, top, edges)
        base = top
    rest = np.delete(share, heaviest, axis=1)
    if rest.size:
        ax.stairs(base + rest.sum(axis=1), edges, baseline=base, fill=True, color=NEUTRAL)
        _name(ax, f"{rest.shape[1]} others", base, base + rest.sum(axis=1), edges, NEUTRAL)
    ax.set(xlabel="time", ylabel="share of rows", xlim=(edges[0], edges[-1]), ylim=(0, 1))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    tidy(ax)
    if count:
        _count(strip_above(ax, 1.0, 0.22), history, edges)
    return ax


def _band(ax: Axes, identity: int, low: Array, high: Array, edges: Array) -> None:
    colour = colour_of(identity)
    ax.stairs(
        high,
        edges,
        baseline=low,
        fill=True,
        facecolor=colour,
        edgecolor=ax.get_facecolor(),
        linewidth=0.6,
        hatch=_HATCHES[identity // N_COLOURS % len(_HATCHES)],
        label=f"cluster {identity}",
    )
    _name(ax, str(identity), low, high, edges, colour)


def _name(ax: Axes, text: str, low: Array, high: Array, edges: Array, colour: str) -> None:
    """Write a name into a band, in the middle of its longest thick part."""
    thick = np.append(high - low >= _THICK, False)
    ends = np.flatnonzero(np.diff(thick.astype(np.int8), prepend=0))
    if not len(ends):
        return
    begin, end = max(ends.reshape(-1, 2).tolist(), key=lambda part: part[1] - part[0])
    middle = (begin + end - 1) // 2
    at = 0.5 * (edges[middle] + edges[middle + 1]), 0.5 * (low[middle] + high[middle])
    box = {"boxstyle": "round,pad=0.15", "facecolor": colour, "edgecolor": "none"}
    ax.text(*at, text, color=ink_on(colour), ha="center", va="center", weight="bold", bbox=box)


def _count(ax: Axes, history: History, edges: Array) -> None:
    ax.stairs(history.n_clusters, edges, baseline=None, color=ink(), linewidth=1.5)
    low, high = history.n_clusters.min(), history.n_clusters.max()
    room = max(1.0, 0.2 * (high - low))
    ax.set(ylabel="clusters", ylim=(low - room, high + room))
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
