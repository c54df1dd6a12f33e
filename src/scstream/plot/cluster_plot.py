"""Rows and clusters of one model."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Ellipse

from scstream.core.state import NOVEL
from scstream.errors import InputError
from scstream.families.base import Array, Labels, Rows
from scstream.model import Model
from scstream.plot.inputs import model_of, rows_of
from scstream.plot.projection import PlotProjection
from scstream.plot.style import axes_or_new, colour_of, hide_spines, marker_of, outline, text_colour

_LINE_WIDTH = 1.4
_MAX_NAMED = 40  # maximum number of clusters whose ids are written
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
) -> Axes:
    """Draw clusters as ellipses with their ids, and rows in the colours of their clusters.

    One column is drawn along the horizontal axis, with the index of the row on the vertical axis.
    Two columns are drawn directly. More columns are projected on the two directions in which the
    clusters differ most, in units of the standard deviation within clusters. Counts are drawn as
    shares of their row, categories as indicators of their levels. Rows without a cluster are
    hollow; the ellipse of a cluster without rows in the last batch is dashed.

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
    named = set(state.ids[np.argsort(-state.weight, kind="stable")[:_MAX_NAMED]].tolist())
    for place, cluster_id in enumerate(state.ids.tolist()):
        line = "--" if inactive[place] else "-"
        if projection.is_line:
            centre, deviation = centres[place, 0], np.sqrt(covariances[place, 0, 0])
            low, high = centre - n_std * deviation, centre + n_std * deviation
            ax.axvspan(low, high, color=colour_of(cluster_id), alpha=0.12, linewidth=0, zorder=1)
            ax.axvline(centre, color=colour_of(cluster_id), zorder=3, ls=line, lw=_LINE_WIDTH)
            at, where = (centre, 0.97), ax.get_xaxis_transform()
        else:
            ax.add_patch(_ellipse(centres[place], covariances[place], n_std, cluster_id, line))
            at, where = tuple(centres[place]), ax.transData
        if cluster_id in named:
            _write_id(ax, cluster_id, at, where)


def _write_id(ax: Axes, cluster_id: int, at: Any, where: Any) -> None:
    ax.text(
        at[0],
        at[1],
        str(cluster_id),
        transform=where,
        color=text_colour(),
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
        facecolor=to_rgba(colour, 0.12),
        edgecolor=colour,
        zorder=3,
        linestyle=line,
        linewidth=_LINE_WIDTH,
    )
