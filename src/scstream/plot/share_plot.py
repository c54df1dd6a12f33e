"""The shares of clusters: over time as stacked bands, or of one model as bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from scstream.families.base import Array
from scstream.io.tables import counted
from scstream.model import Model
from scstream.plot.history import History, require_batches
from scstream.plot.inputs import model_of
from scstream.plot.style import (
    NEUTRAL,
    add_title,
    axes_or_new,
    batch_edges,
    colour_of,
    contrast_colour,
    fit_labels,
    hatch_of,
    hide_spines,
    inset_above,
    name_of,
    text_colour,
)

_THICK = 0.045  # minimum share of a band for its name to be written
Names = Mapping[int, str] | None


def weights(
    history: Any,
    *,
    ax: Axes | None = None,
    max_clusters: int = 20,
    count: bool = True,
    names: Names = None,
) -> Axes:
    """Draw the share of every cluster: over time as stacked bands, or of a model as bars.

    Shares are of the total weight, as in ``model.clusters_``. Bands lie in the order of ids, the
    oldest at the bottom, bars in the order of shares. Small clusters are drawn together in grey;
    the gap below 100 % is the share of rows without a cluster. Bands that are too thin for their
    name are listed beside the plot.

    Parameters
    ----------
    history : History, ScStream or Model
        The recorded batches; or a model, whose present shares are drawn.
    ax : Axes, optional
        The axes to draw on; by default those of a new figure.
    max_clusters : int
        Maximum number of clusters with their own band or bar: those with the largest share at any
        time.
    count : bool
        Whether to draw the number of clusters in an inset above the bands.
    names : mapping of int to str, optional
        Names of clusters by id; a model also has those that people gave.

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
    >>> ax = plot.weights(model, ax=Figure().subplots(), names={2: "new"})
    >>> sorted(label.get_text() for label in ax.get_yticklabels())
    ['0', '1', 'new']
    """
    if isinstance(history, History):
        return _draw_bands(require_batches(history), axes_or_new(ax), max_clusters, names, count)
    model = model_of(history)
    n_bars = min(model.state.n_clusters, max_clusters)
    return _draw_bars(model, axes_or_new(ax, n_bars), max_clusters, names)


def _draw_bands(history: History, ax: Axes, max_clusters: int, names: Names, count: bool) -> Axes:
    ids, share = history.ids.tolist(), np.nan_to_num(history.share())  # (B, I)
    edges = batch_edges(history.time)
    heaviest = np.sort(np.argsort(-share.max(axis=0), kind="stable")[:max_clusters])
    base, all_named = np.zeros(len(share)), True
    for column in heaviest:
        top = base + share[:, column]
        all_named &= _draw_band(ax, ids[column], name_of(ids[column], names), base, top, edges)
        base = top
    others = np.delete(share, heaviest, axis=1)
    if others.size:
        text, top = f"{others.shape[1]} others", base + others.sum(axis=1)
        ax.stairs(top, edges, baseline=base, fill=True, color=NEUTRAL, label=text)
        all_named &= _write_name(ax, text, base, top, edges, NEUTRAL)
    ax.set(xlabel="time", ylabel="share of rows", xlim=(edges[0], edges[-1]), ylim=(0, 1))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    hide_spines(ax)
    if not all_named:
        ax.legend(
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            borderaxespad=0.0,
            reverse=True,
            frameon=False,
            fontsize=8,
            labelspacing=0.3,
        )
    add_title(ax, "Share of each cluster over time")
    if count:
        _count(inset_above(ax, 1.0, 0.22), history, edges)
    return ax


def _draw_bars(model: Model, ax: Axes, max_clusters: int, names: Names) -> Axes:
    """Draw the shares of a model now, the largest on top."""
    state, names = model.state, {**model.names, **(names or {})}
    share = state.share
    order = np.argsort(-share, kind="stable")
    shown = order[:max_clusters]
    bars = [
        (name_of(int(state.ids[place]), names), share[place], int(state.ids[place]))
        for place in shown
    ]
    if len(shown) < len(order):
        rest = f"{len(order) - len(shown)} others, together {share[order[max_clusters:]].sum():.0%}"
        ax.annotate(rest, (1, 0), xycoords="axes fraction", ha="right", va="bottom", color=NEUTRAL)
    for place, (_, width, cluster_id) in enumerate(bars):
        colour, hatch = colour_of(cluster_id), hatch_of(cluster_id)
        edge = ax.get_facecolor()  # the colour of hatches
        ax.barh(place, width, color=colour, hatch=hatch, edgecolor=edge, linewidth=0)
    ax.set_yticks(range(len(bars)), [name for name, *_ in bars])
    ax.set(xlabel="share of rows", ylabel="cluster", ylim=(len(bars) - 0.4, -0.6))
    fit_labels(ax, len(bars))
    ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    hide_spines(ax)
    add_title(ax, f"Share of {counted(state.n_clusters, 'cluster')} at time {state.time:g}")
    return ax


def _draw_band(ax: Axes, cluster_id: int, name: str, low: Array, high: Array, edges: Array) -> bool:
    """Draw a band; return True if its name fits into it."""
    colour = colour_of(cluster_id)
    ax.stairs(
        high,
        edges,
        baseline=low,
        fill=True,
        facecolor=colour,
        edgecolor=ax.get_facecolor(),
        linewidth=0.6,
        hatch=hatch_of(cluster_id),
        label=name if name != str(cluster_id) else f"cluster {cluster_id}",
    )
    return _write_name(ax, name, low, high, edges, colour)


def _write_name(ax: Axes, text: str, low: Array, high: Array, edges: Array, colour: str) -> bool:
    """Write a name into a band, in the middle of its longest part that is thick enough."""
    thick = np.append(high - low >= _THICK, False)
    ends = np.flatnonzero(np.diff(thick.astype(np.int8), prepend=0))
    if not len(ends):
        return False
    begin, end = max(ends.reshape(-1, 2).tolist(), key=lambda part: part[1] - part[0])
    middle = (begin + end - 1) // 2
    at = 0.5 * (edges[middle] + edges[middle + 1]), 0.5 * (low[middle] + high[middle])
    box = {"boxstyle": "round,pad=0.15", "facecolor": colour, "edgecolor": "none"}
    ax.text(
        *at, text, color=contrast_colour(colour), ha="center", va="center", weight="bold", bbox=box
    )
    return True


def _count(ax: Axes, history: History, edges: Array) -> None:
    ax.stairs(history.n_clusters, edges, baseline=None, color=text_colour(), linewidth=1.5)
    low, high = history.n_clusters.min(), history.n_clusters.max()
    margin = max(1.0, 0.2 * (high - low))
    ax.set(ylabel="clusters", ylim=(low - margin, high + margin))
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True, prune="lower"))
