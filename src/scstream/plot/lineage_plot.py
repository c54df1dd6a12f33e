"""Births, splits, merges, deaths and returns of clusters over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from scstream.core.state import Event
from scstream.families.base import Array
from scstream.plot.history import History, require_batches
from scstream.plot.style import (
    NEUTRAL,
    axes_or_new,
    batch_edges,
    colour_of,
    hide_spines,
    outline,
    text_colour,
)

_MARKS = {  # marker and legend text
    "born": (">", "born"),
    "split": ("^", "split off"),
    "merged": ("v", "merged into another"),
    "died": ("X", "died"),
    "returned": ("o", "returned"),
}
Mask = NDArray[np.bool_]

_HEIGHT = 0.8  # of a track, filled by the largest cluster


def lineage(history: History, *, ax: Axes | None = None, max_clusters: int = 40) -> Axes:
    """Draw a horizontal track for every cluster, from birth to death, as thick as its share.

    The line of a track is dotted in batches without rows of the cluster. A vertical line connects a
    cluster with one that was split from it, or with the one it was merged into.

    Parameters
    ----------
    history : History
        The recorded batches.
    ax : Axes, optional
        The axes to draw on; by default those of a new figure.
    max_clusters : int
        Maximum number of tracks: the clusters with the largest share at any time.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scstream import ScStream, plot
    >>> from scstream.datasets import births_and_deaths
    >>> history, model = plot.History(), ScStream(random_state=0)
    >>> for batch in births_and_deaths(3, birth_every=2, n_batches=5, random_state=0):
    ...     history.record(model.partial_fit(batch.X))
    >>> ax = plot.lineage(history, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['0', '1', '2', '3', '4']
    """
    ids, share, rows = require_batches(history).ids, history.share(), history.batch_share()
    ax = axes_or_new(ax)
    heaviest = np.sort(np.argsort(-np.nanmax(share, axis=0), kind="stable")[:max_clusters])
    tracks = {int(ids[column]): track for track, column in enumerate(heaviest)}
    scale = _HEIGHT / max(float(np.nanmax(share)), np.finfo(float).tiny)
    edges = batch_edges(history.time)
    for column in heaviest:
        cluster_id = int(ids[column])
        thickness, has_rows = scale * share[:, column], rows[:, column] > 0
        _draw_track(ax, cluster_id, tracks[cluster_id], thickness, has_rows, edges)
    _mark_events(ax, history, tracks)
    ax.set(xlabel="time", ylabel="cluster", yticks=range(len(tracks)), xlim=(edges[0], edges[-1]))
    ax.set_yticklabels([str(cluster_id) for cluster_id in tracks])
    ax.set_ylim(len(tracks) - 0.4, -0.6)
    if len(ids) > len(tracks):
        note = f"{len(ids) - len(tracks)} smaller clusters not shown"
        ax.annotate(note, (1, 0), xycoords="axes fraction", ha="right", va="bottom", color=NEUTRAL)
    hide_spines(ax)
    return ax


def _draw_track(
    ax: Axes, cluster_id: int, track: int, thickness: Array, has_rows: Mask, edges: Array
) -> None:
    """Draw a band of the share of a cluster, and a line that is dotted in batches without rows."""
    colour = colour_of(cluster_id)
    half = 0.5 * np.nan_to_num(thickness)
    ax.stairs(track + half, edges, baseline=track - half, fill=True, color=colour, alpha=0.45, lw=0)
    alive = ~np.isnan(thickness)
    for mask, style in ((alive & has_rows, "-"), (alive & ~has_rows, ":")):
        for begin, end in _runs(mask):
            ends = [edges[begin], edges[end]]
            ax.plot(ends, [track, track], color=colour, linestyle=style, linewidth=1.6)


def _runs(mask: Mask) -> list[tuple[int, int]]:
    """Return the start and the end of each run of True."""
    turns = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [(int(begin), int(end)) for begin, end in turns.reshape(-1, 2)]


def _mark_events(ax: Axes, history: History, tracks: dict[int, int]) -> None:
    used = []
    first = float(history.time[0])
    for event in history.events:
        cluster_id = event.other if event.kind in ("split", "merged") else event.id
        if cluster_id not in tracks or event.time < first:
            continue
        marker, _ = _MARKS[event.kind]
        _connect(ax, event, tracks)
        ax.plot(
            event.time,
            tracks[cluster_id],
            marker=marker,
            color=colour_of(cluster_id),
            markeredgecolor=text_colour(),
            markersize=7,
            linestyle="",
            path_effects=outline(ax, 2.0),
            zorder=4,
        )
        used.append(event.kind)
    _legend(ax, used)


def _connect(ax: Axes, event: Event, tracks: dict[int, int]) -> None:
    if event.other in tracks and event.id in tracks:
        ends = [tracks[event.id], tracks[event.other]]
        ax.plot(
            [event.time, event.time], ends, color=text_colour(), linewidth=0.8, alpha=0.7, zorder=3
        )


def _legend(ax: Axes, used: Sequence[str]) -> None:
    draw = partial(Line2D, [], [], color=NEUTRAL, markeredgecolor=text_colour(), linestyle="")
    marks = [
        draw(marker=marker, label=meaning)
        for kind, (marker, meaning) in _MARKS.items()
        if kind in used
    ]
    marks.append(Line2D([], [], color=NEUTRAL, linestyle=":", label="no rows"))
    ax.legend(
        handles=marks, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=9
    )
