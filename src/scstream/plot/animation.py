"""An animation of a sequence of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from matplotlib.animation import FuncAnimation
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scstream.errors import InputError
from scstream.families.base import Array, Labels, Rows
from scstream.model import Model
from scstream.plot.cluster_plot import clusters, every_nth, labels_or_predict
from scstream.plot.inputs import model_of, rows_of
from scstream.plot.projection import PlotProjection
from scstream.plot.style import axes_or_new

_MARGIN = 0.04  # margin, as a fraction of the range of the data


@dataclass(frozen=True, eq=False)
class Frame:
    """A model after a batch, and some rows of the batch. Later batches do not change it.

    Parameters
    ----------
    model : Model
        The model.
    rows : array or CSR array of shape (N, D)
        The rows to draw.
    labels : array of shape (N,)
        Cluster ids of the rows, -1 for a row without a cluster.

    Examples
    --------
    >>> from scstream import ScStream, plot
    >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
    >>> plot.frame(model, [[0.3]]).labels
    array([0])
    """

    model: Model
    rows: Rows  # (N, D)
    labels: Labels  # (N,)


def frame(model: Any, X: Any, *, labels: Any = None, max_rows: int = 500) -> Frame:
    """Store the current model and some rows for an animation.

    Parameters
    ----------
    model : ScStream or Model
        A model that has learned at least one batch.
    X : array, table or CSR matrix of shape (N, D)
        Rows to draw.
    labels : array of shape (N,), optional
        Cluster ids of the rows; by default the prediction of the model.
    max_rows : int
        Maximum number of rows; of more, every n-th row is used.

    Returns
    -------
    Frame
        Input of `animate` and `clusters`.

    Examples
    --------
    >>> from scstream import ScStream, plot
    >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
    >>> plot.frame(model, [[0.1], [0.2], [0.3]], max_rows=2).rows
    array([[0.1],
           [0.3]])
    """
    model, rows = model_of(model), rows_of(X)
    places = every_nth(np.arange(rows.shape[0]), max_rows)
    if labels is not None:
        return Frame(model, rows[places], labels_or_predict(model, rows, labels)[places])
    return Frame(model, rows[places], labels_or_predict(model, rows[places], None))


def animate(
    frames: Sequence[Frame], *, ax: Axes | None = None, interval: float = 150, **choices: Any
) -> FuncAnimation:
    """Animate frames, drawn as `clusters` does, with fixed axes.

    Save it with ``movie.save("stream.gif", writer="pillow")``; the same frames give the same bytes.
    In a notebook, ``movie.to_jshtml()`` returns a player.

    Parameters
    ----------
    frames : sequence of Frame
        Results of `frame`, in order.
    ax : Axes, optional
        The axes to draw on; by default those of a new figure.
    interval : float
        Milliseconds between two frames.
    **choices : object
        Other arguments of `clusters`.

    Returns
    -------
    FuncAnimation
        The animation. Keep a reference to it while it runs.

    Examples
    --------
    >>> import tempfile
    >>> from matplotlib.figure import Figure
    >>> from scstream import ScStream, plot
    >>> from scstream.datasets import drifting_gaussians
    >>> model, frames = ScStream(random_state=0), []
    >>> for batch in drifting_gaussians(3, n_batches=3, batch_size=200, random_state=0):
    ...     frames.append(plot.frame(model.partial_fit(batch.X), batch.X))
    >>> movie = plot.animate(frames, ax=Figure(figsize=(2, 2)).subplots())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     movie.save(f"{folder}/stream.gif", writer="pillow", dpi=50)
    """
    if not frames:
        raise InputError("there are no frames; call plot.frame(model, X) after each batch.")
    ax = axes_or_new(ax)
    projection = PlotProjection.of([each.model for each in frames])
    limits = _limits(frames, projection)

    def draw(number: int) -> list[Artist]:
        ax.clear()
        ax.set_title(f"time {frames[number].model.state.time:g}", loc="left")
        clusters(frames[number], ax=ax, projection=projection, **choices)
        ax.set_xlim(*limits[0])
        if not projection.is_line:
            ax.set_ylim(*limits[1])
        return [ax]

    draw(0)  # the figure shows the first frame until the animation runs
    figure = cast(Figure, ax.get_figure(root=True))
    return FuncAnimation(figure, draw, frames=len(frames), interval=interval)


def _limits(frames: Sequence[Frame], projection: PlotProjection) -> list[tuple[float, float]]:
    """Return the range of the data of all frames along each axis, with a margin."""
    corners: list[Array] = []
    for each in frames:
        points = projection.points(each.model, each.rows, each.labels)
        centres = projection.centres(each.model)
        std = np.sqrt(np.einsum("kaa->ka", projection.covariances(each.model)))
        corners += [points, centres - 2 * std, centres + 2 * std]
    every = np.concatenate(corners)
    low, high = every.min(axis=0), every.max(axis=0)
    margin = _MARGIN * np.maximum(high - low, np.finfo(float).tiny)
    return [(float(a), float(b)) for a, b in zip(low - margin, high + margin, strict=True)]
