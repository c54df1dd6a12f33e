"""Rows and clusters of one model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Ellipse
from matplotlib.transforms import Bbox

from scstream.core.state import NOVEL
from scstream.errors import InputError
from scstream.families.base import Array, Labels, Rows
from scstream.io.tables import counted
from scstream.model import Model
from scstream.plot.inputs import model_of, rows_of
from scstream.plot.projection import PlotProjection
from scstream.plot.style import (
    NEUTRAL,
    add_title,
    axes_or_new,
    colour_of,
    figure_of,
    hide_spines,
    marker_of,
    name_of,
    outline,
    text_colour,
)

_LINE_WIDTH = 1.4
_MANY = 20  # clusters, beyond which ellipses are hardly filled and names are smaller
_FONT_SIZE = 10.0  # of names
_MIN_VARIANCE = 1e-9  # minimum variance of an ellipse, as a fraction of the largest


def clusters(
    model: Any,
    X: Any = None,
    *,
    labels: Any = None,
    ax: Axes | None = None,
    n_std: float = 2.0,
    max_rows: int = 2000,
    projection: PlotProjection | None = None,
    names: Mapping[int, str] | None = None,
) -> Axes:
    """Draw clusters as ellipses with their ids, and rows in the colours of their clusters.

    One column is drawn along the horizontal axis, with the index of the row on the vertical axis.
    Two columns are drawn directly. More columns are projected on the two directions in which the
    clusters differ most, in units of the standard deviation within clusters. Counts are drawn as
    shares of their row, categories as indicators of their levels. Rows without a cluster are
    hollow; the ellipse of a cluster without rows in the last batch is dashed. Names are written
    from the largest cluster on, where there is room for them.

    Parameters
    ----------
    model : ScStream, Model or Frame
        A model that has learned at least one batch.
    X : array, table or CSR matrix of shape (N, D), optional
        Rows to draw; none by default.
    labels : array of shape (N,), optional
        Cluster ids of the rows, such as ``model.labels_``; by default the prediction at the time
        of the last batch.
    ax : Axes, optional
        The axes to draw on; by default those of a new figure.
    n_std : float
        Size of the ellipses in standard deviations. Two contain 86 % of the rows of a Gaussian
        cluster in two dimensions.
    max_rows : int
        Maximum number of rows; of more, every n-th row is drawn.
    projection : PlotProjection, optional
        The projection of another plot; ``animate`` uses it for fixed axes.
    names : mapping of int to str, optional
        Names of clusters by id, for those that people gave no name or another one.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scstream import ScStream, plot
    >>> from scstream.datasets import stationary_gaussians
    >>> batch = next(iter(stationary_gaussians(3, batch_size=300, random_state=1)))
    >>> model = ScStream(random_state=0).fit(batch.X)
    >>> ax = plot.clusters(model, batch.X, ax=Figure().subplots())
    >>> len(ax.patches), [text.get_text() for text in ax.texts]
    (3, ['0', '1', '2'])
    """
    model, X, labels = _inputs(model, X, labels)
    rows = None if X is None else rows_of(X)
    labels = None if rows is None else labels_or_predict(model, rows, labels)
    projection = projection or PlotProjection.of([model])
    ax = axes_or_new(ax)
    if rows is not None:
        places = every_nth(np.arange(len(labels)), max_rows)
        rows, labels = rows[places], labels[places]
        _draw_rows(ax, projection.points(model, rows, labels), labels)
    _draw_clusters(ax, model, projection, n_std)
    if projection.is_line:
        ax.set(xlabel=projection.axis_names[0], ylabel="row")
        ax.yaxis.set_visible(rows is not None)
    else:
        ax.set(xlabel=projection.axis_names[0], ylabel=projection.axis_names[1])
    ax.autoscale_view()
    _write_names(ax, model, projection, {**model.names, **(names or {})})
    add_title(ax, f"{counted(model.state.n_clusters, 'cluster')} at time {model.state.time:g}")
    hide_spines(ax)
    return ax


def _inputs(model: Any, X: Any, labels: Any) -> tuple[Model, Any, Any]:
    """Return model, rows and labels of a frame, or the arguments."""
    if hasattr(model, "rows") and X is None:
        return model.model, model.rows, model.labels
    return model_of(model), X, labels


def labels_or_predict(model: Model, rows: Rows, labels: Any) -> Labels:  # (N,)
    """Return the given labels after a check, or those that the model predicts."""
    if labels is None:
        model.family.check(rows)
        return label_rows(model, rows)
    given = np.asarray(labels, dtype=np.int64)
    if given.shape != (rows.shape[0],):
        raise InputError(f"there are {rows.shape[0]} rows but labels of shape {given.shape}.")
    return given


def label_rows(model: Model, rows: Rows) -> Labels:  # (N,)
    """Return the most probable cluster of every row at the time of the last batch."""
    return model.at(model.state.time).labels(rows)


def every_nth(indices: Labels, max_n: int) -> Labels:
    """Return every n-th index, with the smallest n that leaves at most this many."""
    return indices[:: max(-(-len(indices) // max(max_n, 1)), 1)]


def _draw_rows(ax: Axes, points: Array, labels: Labels) -> None:
    if points.shape[1] == 1:
        points = np.column_stack([points[:, 0], np.arange(len(points))])
    size = float(np.clip(9000 / max(len(points), 1), 6, 24))
    for cluster_id in np.unique(labels).tolist():
        x, y = points[labels == cluster_id].T
        scatter = partial(ax.scatter, x, y, s=size, marker=marker_of(cluster_id), zorder=2)
        if cluster_id == NOVEL:
            edge = text_colour()
            scatter(label="no cluster", facecolors="none", edgecolors=edge, linewidths=0.8)
        else:
            colour = colour_of(cluster_id)
            scatter(label=f"cluster {cluster_id}", color=colour, alpha=0.55, linewidths=0)


def _draw_clusters(ax: Axes, model: Model, projection: PlotProjection, n_std: float) -> None:
    state = model.state
    centres, covariances = projection.centres(model), projection.covariances(model)
    inactive = state.current[:, :, 0].sum(axis=1) <= 0
    fill = 0.12 if state.n_clusters <= _MANY else 0.03
    for place, cluster_id in enumerate(state.ids.tolist()):
        line = "--" if inactive[place] else "-"
        if projection.is_line:
            centre, deviation = centres[place, 0], np.sqrt(covariances[place, 0, 0])
            low, high = centre - n_std * deviation, centre + n_std * deviation
            ax.axvspan(low, high, color=colour_of(cluster_id), alpha=fill, linewidth=0, zorder=1)
            ax.axvline(centre, color=colour_of(cluster_id), zorder=3, ls=line, lw=_LINE_WIDTH)
        else:
            ellipse = _ellipse(centres[place], covariances[place], n_std, cluster_id, line)
            ellipse.set_facecolor(to_rgba(colour_of(cluster_id), fill))
            ax.add_patch(ellipse)


def _write_names(
    ax: Axes, model: Model, projection: PlotProjection, names: Mapping[int, str]
) -> None:
    """Write names of clusters, the largest first, where they do not cover one another."""
    state, centres = model.state, projection.centres(model)
    size = _FONT_SIZE if state.n_clusters <= _MANY else 0.8 * _FONT_SIZE
    where = ax.get_xaxis_transform() if projection.is_line else ax.transData
    taken: dict[int, Bbox] = {}
    texts = [name_of(cluster_id, names) for cluster_id in state.ids.tolist()]
    at = [(x[0], 0.97) if projection.is_line else (x[0], x[1]) for x in centres.tolist()]
    for place in np.argsort(-state.weight, kind="stable").tolist():
        box = _box(ax, where.transform(at[place]), texts[place], size)
        if not any(box.overlaps(other) for other in taken.values()):
            taken[place] = box
    for place in sorted(taken):
        _write_name(ax, texts[place], at[place], where, size)
    if len(taken) < state.n_clusters:
        note = f"{state.n_clusters - len(taken)} smaller clusters without a name here"
        ax.annotate(note, (1, 1), xycoords="axes fraction", ha="right", va="bottom", color=NEUTRAL)


def _box(ax: Axes, middle: Any, text: str, size: float) -> Bbox:
    """Return the pixels that a text covers, about."""
    pixels = size * figure_of(ax).dpi / 72.0
    width, height = 0.65 * pixels * len(text), pixels
    return Bbox.from_bounds(middle[0] - width / 2, middle[1] - height / 2, width, height)


def _write_name(ax: Axes, name: str, at: Any, where: Any, size: float) -> None:
    ax.text(
        at[0],
        at[1],
        name,
        transform=where,
        color=text_colour(),
        fontsize=size,
        weight="bold",
        ha="center",
        va="center",
        clip_on=True,
        path_effects=outline(ax),
        zorder=5,
    )


def _ellipse(centre: Array, covariance: Array, n_std: float, cluster_id: int, line: str) -> Ellipse:
    variance, axes = np.linalg.eigh(covariance)
    variance = np.maximum(variance, _MIN_VARIANCE * max(float(variance[-1]), 1e-300))
    width, height = 2 * n_std * np.sqrt(variance[::-1])
    angle = float(np.degrees(np.arctan2(axes[1, -1], axes[0, -1])))
    colour = colour_of(cluster_id)
    return Ellipse(
        (float(centre[0]), float(centre[1])),
        width,
        height,
        angle=angle,
        edgecolor=colour,
        zorder=3,
        linestyle=line,
        linewidth=_LINE_WIDTH,
    )
