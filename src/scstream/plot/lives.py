"""The lives of clusters: births, splits, merges, deaths and returns over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from scstream.core.state import Event
from scstream.families.base import Array
from scstream.plot.looks import (
    NEUTRAL,
    colour_of,
    edges_of,
    given_or_new,
    halo,
    ink,
    tidy,
)
from scstream.plot.record import History, seen

_MARKS = {  # marker, and what it means
    "born": (">", "born"),
    "split": ("^", "split off"),
    "merged": ("v", "merged into another"),
    "died": ("X", "died"),
    "returned": ("o", "returned"),
}
_HEIGHT = 0.8  # of the lane that the heaviest cluster fills


def lineage(history: History, *, ax: Axes | None = None, max_n: int = 40) -> Axes:
    """Draw a lane for every id, as long as its cluster lived and as thick as it was heavy.

    A dotted line is a cluster that waits without rows. A thin line across lanes leads from a
    cluster to one that split off it, or into the one it was merged with.

    Parameters
    ----------
    history : History
        What was seen.
    ax : Axes, optional
        Where to draw; by default a new figure.
    most : int
        Most lanes to draw: of the clusters that were heaviest at any time.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scstream import ScStream, plot
    >>> from scstream.datasets import births_and_deaths
    >>> history, model = plot.History(), ScStream(random_state=0)
    >>> for batch in births_and_deaths(3, birth_every=2, n_batches=5, random_state=0):
    ...     history.see(model.partial_fit(batch.X))
    >>> ax = plot.lineage(history, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['0', '1', '2', '3', '4']
    """
    ids, share, fresh = seen(history).ids, history.share(), history.fresh()
    ax = given_or_new(ax)
    heaviest = np.sort(np.argsort(-np.nanmax(share, axis=0), kind="stable")[:max_n])
    lanes = {int(ids[column]): lane for lane, column in enumerate(heaviest)}
    scale = _HEIGHT / max(float(np.nanmax(share)), np.finfo(float).tiny)
    edges = edges_of(history.time)
    for column in heaviest:
        identity = int(ids[column])
        _lane(ax, identity, lanes[identity], scale * share[:, column], fresh[:, column], edges)
    _mark_events(ax, history, lanes)
    ax.set(xlabel="time", ylabel="cluster", yticks=range(len(lanes)), xlim=(edges[0], edges[-1]))
    ax.set_yticklabels([str(identity) for identity in lanes])
    ax.set_ylim(len(lanes) - 0.4, -0.6)
    if len(ids) > len(lanes):
        note = f"{len(ids) - len(lanes)} lighter ones not shown"
        ax.annotate(note, (1, 0), xycoords="axes fraction", ha="right", va="bottom", color=NEUTRAL)
    tidy(ax)
    return ax


def _lane(ax: Axes, identity: int, lane: int, thickness: Array, fresh: Array, edges: Array) -> None:
    """A band of the cluster's weight; through it a line, dotted where it has no rows."""
    colour = colour_of(identity)
    half = 0.5 * np.nan_to_num(thickness)
    ax.stairs(lane + half, edges, baseline=lane - half, fill=True, color=colour, alpha=0.45, lw=0)
    alive = ~np.isnan(thickness)
    for there, style in ((alive & (fresh > 0), "-"), (alive & ~(fresh > 0), ":")):
        for begin, end in _runs(there):
            ends = [edges[begin], edges[end]]
            ax.plot(ends, [lane, lane], color=colour, linestyle=style, linewidth=1.6)


def _runs(there: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Begin and end of each unbroken stretch."""
    turns = np.flatnonzero(np.diff(there.astype(np.int8), prepend=0, append=0))
    return [(int(begin), int(end)) for begin, end in turns.reshape(-1, 2)]


def _mark_events(ax: Axes, history: History, lanes: dict[int, int]) -> None:
    used = []
    first = float(history.time[0])
    for event in history.events:
        whose = event.other if event.kind in ("split", "merged") else event.id
        if whose not in lanes or event.time < first:
            continue
        marker, _ = _MARKS[event.kind]
        _connect(ax, event, lanes)
        ax.plot(
            event.time,
            lanes[whose],
            marker=marker,
            color=colour_of(whose),
            markeredgecolor=ink(),
            markersize=7,
            linestyle="",
            path_effects=halo(ax, 2.0),
            zorder=4,
        )
        used.append(event.kind)
    _legend(ax, used)


def _connect(ax: Axes, event: Event, lanes: dict[int, int]) -> None:
    if event.other in lanes and event.id in lanes:
        ends = [lanes[event.id], lanes[event.other]]
        ax.plot([event.time, event.time], ends, color=ink(), linewidth=0.8, alpha=0.7, zorder=3)


def _legend(ax: Axes, used: Sequence[str]) -> None:
    looks: dict[str, Any] = {"color": NEUTRAL, "markeredgecolor": ink(), "linestyle": ""}
    marks = [
        Line2D([], [], marker=marker, label=meaning, **looks)
        for kind, (marker, meaning) in _MARKS.items()
        if kind in used
    ]
    marks.append(Line2D([], [], color=NEUTRAL, linestyle=":", label="waits without rows"))
    ax.legend(
        handles=marks, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=9
    )
