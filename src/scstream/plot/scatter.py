"""Rows and clusters at one moment."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Ellipse

from scstream.core.state import NOVEL
from scstream.errors import InputError
from scstream.families.base import Array, Labels, Rows
from scstream.model import Model
from scstream.plot.looks import colour_of, given_or_new, halo, ink, marker_of, tidy
from scstream.plot.picture import Picture
from scstream.plot.reading import model_of, rows_of

_MOST_NAMED = 40  # clusters whose ids are written: more could not be read
_ONE_WIDTH = 1e-9  # least variance of an ellipse, as a share of the largest


def clusters(
    model: Any,
    X: Any = None,
    *,
    labels: Any = None,
    ax: Axes | None = None,
    n_std: float = 2.0,
    max_rows: int = 2000,
    picture: Picture | None = None,
) -> Axes:
    """Draw clusters as ellipses with their ids, and rows in the colours of their clusters.

    One column is drawn along the horizontal axis, with rows one above the other in their order;
    two columns are drawn as they are; more are seen along the two directions in which the clusters
    differ most, in units of the spread within clusters. Counts are drawn as shares of their row,
    categories as indicators of their levels. Rows of no cluster are hollow; the ellipse of a
    cluster without rows in the last batch is dashed.

    Parameters
    ----------
    model : ScStream, Model or Frame
        A model that has learned at least one batch.
    X : array, table or CSR matrix of shape (N, D), optional
        Rows to draw; none by default.
    labels : array of shape (N,), optional
        Ids of the clusters of the rows, such as ``model.labels_``; by default what the model says
        at the time of its last batch.
    ax : Axes, optional
        Where to draw; by default a new figure.
    n_std : float
        Standard deviations from the centre of an ellipse to its rim. Two hold 86 % of the rows of
        a Gaussian cluster in the plane.
    max_rows : int
        Most rows to draw; of more, every so many is drawn.
    picture : Picture, optional
        The projection of another drawing, as ``animate`` uses it to keep its axes.

    Returns
    -------
    Axes
        Where it was drawn.

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
    snapshot, X, labels = _what(model, X, labels)
    rows = None if X is None else rows_of(X)
    labels = None if rows is None else given_labels(snapshot, rows, labels)
    picture = picture or Picture.of([snapshot])
    ax = given_or_new(ax)
    if rows is not None:
        places = thinned(np.arange(len(labels)), max_rows)
        rows, labels = rows[places], labels[places]
        _draw_rows(ax, picture.points(snapshot, rows, labels), labels)
    _draw_clusters(ax, snapshot, picture, n_std)
    if picture.is_line:
        ax.set(xlabel=picture.axis_names[0], ylabel="row")
        ax.yaxis.set_visible(rows is not None)
    else:
        ax.set(xlabel=picture.axis_names[0], ylabel=picture.axis_names[1])
    ax.autoscale_view()
    tidy(ax)
    return ax


def _what(model: Any, X: Any, labels: Any) -> tuple[Model, Any, Any]:
    """Return the model and the rows of a frame, or what was given."""
    if hasattr(model, "rows") and X is None:
        return model.snapshot, model.rows, model.labels
    return model_of(model), X, labels


def given_labels(snapshot: Model, rows: Rows, labels: Any) -> Labels:  # (N,)
    """Labels as they are given, one for every row, or those of the model."""
    if labels is None:
        snapshot.family.check(rows)
        return label_rows(snapshot, rows)
    given = np.asarray(labels, dtype=np.int64)
    if given.shape != (rows.shape[0],):
        raise InputError(f"there are {rows.shape[0]} rows but labels of shape {given.shape}.")
    return given


def label_rows(snapshot: Model, rows: Rows) -> Labels:  # (N,)
    """Most probable cluster of every row at the time of the last batch."""
    return snapshot.at(snapshot.state.time).labels(rows)


def thinned(places: Labels, max_n: int) -> Labels:
    """Every so many of the places, so that at most so many are left."""
    return places[:: max(-(-len(places) // max(max_n, 1)), 1)]


def _draw_rows(ax: Axes, points: Array, labels: Labels) -> None:
    if points.shape[1] == 1:
        points = np.column_stack([points[:, 0], np.arange(len(points))])
    size = float(np.clip(9000 / max(len(points), 1), 6, 24))
    for identity in np.unique(labels).tolist():
        x, y = points[labels == identity].T
        if identity == NOVEL:
            look: dict[str, Any] = {"facecolors": "none", "edgecolors": ink(), "linewidths": 0.8}
            name = "no cluster"
        else:
            look = {"color": colour_of(identity), "alpha": 0.55, "linewidths": 0}
            name = f"cluster {identity}"
        ax.scatter(x, y, s=size, marker=marker_of(identity), label=name, zorder=2, **look)


def _draw_clusters(ax: Axes, snapshot: Model, picture: Picture, n_std: float) -> None:
    state = snapshot.state
    centres, covariances = picture.centres(snapshot), picture.covariances(snapshot)
    silent = state.current[:, :, 0].sum(axis=1) <= 0
    named = set(state.ids[np.argsort(-state.weight, kind="stable")[:_MOST_NAMED]].tolist())
    for place, identity in enumerate(state.ids.tolist()):
        look: dict[str, Any] = {"linestyle": "--" if silent[place] else "-", "linewidth": 1.4}
        if picture.is_line:
            centre, deviation = centres[place, 0], np.sqrt(covariances[place, 0, 0])
            low, high = centre - n_std * deviation, centre + n_std * deviation
            ax.axvspan(low, high, color=colour_of(identity), alpha=0.12, linewidth=0, zorder=1)
            ax.axvline(centre, color=colour_of(identity), zorder=3, **look)
            at, where = (centre, 0.97), ax.get_xaxis_transform()
        else:
            ax.add_patch(_ellipse(centres[place], covariances[place], n_std, identity, look))
            at, where = tuple(centres[place]), ax.transData
        if identity in named:
            _write_id(ax, identity, at, where)


def _write_id(ax: Axes, identity: int, at: Any, where: Any) -> None:
    ax.text(
        at[0],
        at[1],
        str(identity),
        transform=where,
        color=ink(),
        weight="bold",
        ha="center",
        va="center",
        clip_on=True,
        path_effects=halo(ax),
        zorder=5,
    )


def _ellipse(
    centre: Array, covariance: Array, n_std: float, identity: int, look: dict[str, Any]
) -> Ellipse:
    variance, axes = np.linalg.eigh(covariance)
    variance = np.maximum(variance, _ONE_WIDTH * max(float(variance[-1]), 1e-300))
    width, height = 2 * n_std * np.sqrt(variance[::-1])
    angle = float(np.degrees(np.arctan2(axes[1, -1], axes[0, -1])))
    colour = colour_of(identity)
    return Ellipse(
        (float(centre[0]), float(centre[1])),
        width,
        height,
        angle=angle,
        facecolor=to_rgba(colour, 0.12),
        edgecolor=colour,
        zorder=3,
        **look,
    )
