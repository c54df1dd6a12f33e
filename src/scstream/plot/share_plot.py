"""The shares of clusters over time as stacked bands, and the number of clusters."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from scstream.families.base import Array
from scstream.plot.history import History, require_batches
from scstream.plot.style import (
    N_COLOURS,
    NEUTRAL,
    axes_or_new,
    batch_edges,
    colour_of,
    contrast_colour,
    hide_spines,
    inset_above,
    text_colour,
)

_THICK = 0.045  # minimum share of a band for its id to be written
_HATCHES = ("", "//", "..", "\\\\", "xx", "--")  # for ids with the same colour


def weights(
    history: History, *, ax: Axes | None = None, max_clusters: int = 12, count: bool = True
) -> Axes:
    """Draw the share of every cluster over time as stacked bands, oldest at the bottom.

    Shares are of the total weight, as in ``model.clusters_``. Small clusters are drawn together in
    grey; the gap below 100 % is the share of rows without a cluster.

    Parameters
    ----------
    history : History
        The recorded batches.
    ax : Axes, optional
        The axes to draw on; by default those of a new figure.
    max_clusters : int
        Maximum number of clusters with their own band: those with the largest share at any time.
    count : bool
        Whether to draw the number of clusters in an inset above.

    Returns
    -------
    Axes
        The axes; the inset is the first of their ``child_axes``.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scstream import ScStream, plot
    >>> from scstream.datasets import births_and_deaths
    >>> history, model = plot.History(), ScStream(random_state=0)
    >>> for batch in births_and_deaths(2, weight=0.3, birth_every=4, n_batches=8, random_state=0):
    ...     history.record(model.partial_fit(batch.X))
    >>> ax = plot.weights(history, ax=Figure().subplots())
    >>> sorted(text.get_text() for text in ax.texts)
    ['0', '1', '2']
    """
    ids, share = require_batches(history).ids.tolist(), np.nan_to_num(history.share())  # (B, I)
    ax = axes_or_new(ax)
    edges = batch_edges(history.time)
    heaviest = np.sort(np.argsort(-share.max(axis=0), kind="stable")[:max_clusters])
    base = np.zeros(len(share))
    for column in heaviest:
        top = base + share[:, column]
        _draw_band(ax, ids[column], base, top, edges)
        base = top
    others = np.delete(share, heaviest, axis=1)
    if others.size:
        ax.stairs(base + others.sum(axis=1), edges, baseline=base, fill=True, color=NEUTRAL)
        _write_name(
            ax, f"{others.shape[1]} others", base, base + others.sum(axis=1), edges, NEUTRAL
        )
    ax.set(xlabel="time", ylabel="share of rows", xlim=(edges[0], edges[-1]), ylim=(0, 1))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    hide_spines(ax)
    if count:
        _count(inset_above(ax, 1.0, 0.22), history, edges)
    return ax


def _draw_band(ax: Axes, cluster_id: int, low: Array, high: Array, edges: Array) -> None:
    colour = colour_of(cluster_id)
    ax.stairs(
        high,
        edges,
        baseline=low,
        fill=True,
        facecolor=colour,
        edgecolor=ax.get_facecolor(),
        linewidth=0.6,
        hatch=_HATCHES[cluster_id // N_COLOURS % len(_HATCHES)],
        label=f"cluster {cluster_id}",
    )
    _write_name(ax, str(cluster_id), low, high, edges, colour)


def _write_name(ax: Axes, text: str, low: Array, high: Array, edges: Array, colour: str) -> None:
    """Write a name into a band, in the middle of its longest part that is thick enough."""
    thick = np.append(high - low >= _THICK, False)
    ends = np.flatnonzero(np.diff(thick.astype(np.int8), prepend=0))
    if not len(ends):
        return
    begin, end = max(ends.reshape(-1, 2).tolist(), key=lambda part: part[1] - part[0])
    middle = (begin + end - 1) // 2
    at = 0.5 * (edges[middle] + edges[middle + 1]), 0.5 * (low[middle] + high[middle])
    box = {"boxstyle": "round,pad=0.15", "facecolor": colour, "edgecolor": "none"}
    ax.text(
        *at, text, color=contrast_colour(colour), ha="center", va="center", weight="bold", bbox=box
    )


def _count(ax: Axes, history: History, edges: Array) -> None:
    ax.stairs(history.n_clusters, edges, baseline=None, color=text_colour(), linewidth=1.5)
    low, high = history.n_clusters.min(), history.n_clusters.max()
    margin = max(1.0, 0.2 * (high - low))
    ax.set(ylabel="clusters", ylim=(low - margin, high + margin))
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
