"""Births, splits, merges, deaths and returns of clusters over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from scstream.core.state import Event
from scstream.families.base import Array
from scstream.model import Model
from scstream.plot.history import History, require_batches
from scstream.plot.inputs import model_of
from scstream.plot.style import (
    NEUTRAL,
    add_title,
    axes_or_new,
    batch_edges,
    colour_of,
    fit_labels,
    hide_spines,
    name_of,
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

Names = Mapping[int, str] | None
_LEGEND_COLUMNS = 3
_HEIGHT = 0.8  # of a track, filled by the largest cluster


def lineage(
    history: Any,
    *,
    ax: Axes | None = None,
    max_clusters: int = 40,
    names: Mapping[int, str] | None = None,
) -> Axes:
    """Draw a horizontal track for every cluster, from birth to death, as thick as its share.

    The line of a track is dotted in batches without rows of the cluster. A vertical line connects a
    cluster with one that was split from it, or with the one it was merged into. The tracks of a
    model are drawn from its events, without shares, and begin with the first event that it keeps.

    Parameters
    ----------
    history : History, ScStream or Model
        The recorded batches; or a model, whose events are drawn.
    ax : Axes, optional
        The axes to draw on; by default those of a new figure.
    max_clusters : int
        Maximum number of tracks: the clusters with the largest share at any time; of a model, the
        heaviest and then those that ended last.
    names : mapping of int to str, optional
        Names of clusters by id; a model also has those that people gave.

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
    >>> ax = plot.lineage(model, ax=Figure().subplots(), names={0: "first"})
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['first', '1', '2', '3', '4']
    """
    if isinstance(history, History):
        n_tracks = min(len(require_batches(history).ids), max_clusters)
        return _draw_history(history, axes_or_new(ax, n_tracks), max_clusters, names)
    model = model_of(history)
    n_tracks = min(len(_lives(model)), max_clusters)
    return _draw_model(model, axes_or_new(ax, n_tracks), max_clusters, names)


def _draw_history(history: History, ax: Axes, max_clusters: int, names: Names) -> Axes:
    ids, share, rows = require_batches(history).ids, history.share(), history.batch_share()
    heaviest = np.sort(np.argsort(-np.nanmax(share, axis=0), kind="stable")[:max_clusters])
    tracks = {int(ids[column]): track for track, column in enumerate(heaviest)}
    scale = _HEIGHT / max(float(np.nanmax(share)), np.finfo(float).tiny)
    edges = batch_edges(history.time)
    for column in heaviest:
        cluster_id = int(ids[column])
        thickness, has_rows = scale * share[:, column], rows[:, column] > 0
        _draw_track(ax, cluster_id, tracks[cluster_id], thickness, has_rows, edges)
    _mark_events(ax, history.events, float(history.time[0]), tracks, quiet=True)
    _finish(ax, tracks, names, n_hidden=len(ids) - len(tracks))
    ax.set_xlim(edges[0], edges[-1])
    return ax


def _draw_model(model: Model, ax: Axes, max_clusters: int, names: Names) -> Axes:
    """Draw the lives of clusters that the events of a model tell of."""
    lives = _lives(model)
    weight = dict(zip(model.state.ids.tolist(), model.state.weight.tolist(), strict=True))
    order = sorted(lives, key=lambda each: (-weight.get(each, -1.0), -lives[each][-1][1], each))
    tracks = {cluster_id: track for track, cluster_id in enumerate(sorted(order[:max_clusters]))}
    for cluster_id, track in tracks.items():
        for ends in lives[cluster_id]:
            ax.plot(ends, [track, track], color=colour_of(cluster_id), linewidth=2.5)
    first = min(begin for parts in lives.values() for begin, _ in parts)
    _mark_events(ax, model.events, first, tracks, quiet=False)
    _finish(ax, tracks, {**model.names, **(names or {})}, n_hidden=len(lives) - len(tracks))
    ax.margins(x=0.02)
    return ax


def _lives(model: Model) -> dict[int, list[tuple[float, float]]]:
    """Return when every cluster lived, as far as the events tell; at least now."""
    now = model.state.time
    first = min((event.time for event in model.events), default=now)
    begun: dict[int, float] = {}
    lives: dict[int, list[tuple[float, float]]] = {}
    for event in model.events:
        cluster_id = event.other if event.kind in ("split", "merged") else event.id
        if cluster_id is None or event.kind not in _MARKS:
            continue
        if event.kind in ("died", "merged"):
            lives.setdefault(cluster_id, []).append((begun.pop(cluster_id, first), event.time))
        else:
            begun[cluster_id] = event.time
    for cluster_id in model.state.ids.tolist():
        lives.setdefault(cluster_id, []).append((begun.get(cluster_id, first), now))
    return lives


def _finish(ax: Axes, tracks: dict[int, int], names: Names, *, n_hidden: int) -> None:
    ax.set(xlabel="time", ylabel="cluster", yticks=range(len(tracks)))
    ax.set_yticklabels([name_of(cluster_id, names) for cluster_id in tracks])
    ax.set_ylim(len(tracks) - 0.4, -0.6)
    fit_labels(ax, len(tracks))
    if n_hidden:
        note = f"{n_hidden} smaller clusters not shown"
        ax.annotate(note, (1, 1), xycoords="axes fraction", ha="right", va="bottom", color=NEUTRAL)
    hide_spines(ax)
    legend = ax.get_legend()
    n_lines = 0 if legend is None else -(-len(legend.get_texts()) // _LEGEND_COLUMNS)
    add_title(ax, "Births, splits, merges and deaths of clusters", pad=6.0 + 15.0 * n_lines)


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


def _mark_events(
    ax: Axes, events: Sequence[Event], first: float, tracks: dict[int, int], *, quiet: bool
) -> None:
    """Mark events from a time on; `quiet` says that lines may be dotted."""
    used = []
    for event in events:
        cluster_id = event.other if event.kind in ("split", "merged") else event.id
        if cluster_id not in tracks or event.time < first or event.kind not in _MARKS:
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
    _legend(ax, used, quiet=quiet)


def _connect(ax: Axes, event: Event, tracks: dict[int, int]) -> None:
    if event.other in tracks and event.id in tracks:
        ends = [tracks[event.id], tracks[event.other]]
        ax.plot(
            [event.time, event.time], ends, color=text_colour(), linewidth=0.8, alpha=0.7, zorder=3
        )


def _legend(ax: Axes, used: Sequence[str], *, quiet: bool) -> None:
    draw = partial(Line2D, [], [], color=NEUTRAL, markeredgecolor=text_colour(), linestyle="")
    marks = [
        draw(marker=marker, label=meaning)
        for kind, (marker, meaning) in _MARKS.items()
        if kind in used
    ]
    if quiet:
        marks.append(Line2D([], [], color=NEUTRAL, linestyle=":", label="no rows"))
    ax.legend(
        handles=marks,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        ncols=_LEGEND_COLUMNS,
        frameon=False,
        fontsize=9,
    )
