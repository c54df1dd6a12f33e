"""A sequence of states as a moving picture."""

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
from scstream.plot.looks import given_or_new
from scstream.plot.picture import Picture
from scstream.plot.reading import model_of, rows_of
from scstream.plot.scatter import clusters, given_labels, thinned

_ROOM = 0.04  # around what is drawn, as a share of its width


@dataclass(frozen=True, eq=False)
class Frame:
    """A model after a batch, and some rows of the batch; later batches do not change it.

    Parameters
    ----------
    snapshot : Model
        What the model knew.
    rows : array or CSR array of shape (N, D)
        The rows that are drawn.
    labels : array of shape (N,)
        Ids of their clusters, -1 for a row that belongs to none.

    Examples
    --------
    >>> from scstream import ScStream, plot
    >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
    >>> plot.frame(model, [[0.3]]).labels
    array([0])
    """

    snapshot: Model
    rows: Rows  # (N, D)
    labels: Labels  # (N,)


def frame(model: Any, X: Any, *, labels: Any = None, max_rows: int = 500) -> Frame:
    """Keep a model as it is, with some rows, for a moving picture.

    Parameters
    ----------
    model : ScStream or Model
        A model that has learned at least one batch.
    X : array, table or CSR matrix of shape (N, D)
        Rows to draw.
    labels : array of shape (N,), optional
        Ids of the clusters of the rows; by default what the model says.
    max_rows : int
        Most rows to keep; of more, every so many is kept.

    Returns
    -------
    Frame
        What `animate` and `clusters` draw.

    Examples
    --------
    >>> from scstream import ScStream, plot
    >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
    >>> plot.frame(model, [[0.1], [0.2], [0.3]], max_rows=2).rows
    array([[0.1],
           [0.3]])
    """
    snapshot, rows = model_of(model), rows_of(X)
    places = thinned(np.arange(rows.shape[0]), max_rows)
    if labels is not None:
        return Frame(snapshot, rows[places], given_labels(snapshot, rows, labels)[places])
    return Frame(snapshot, rows[places], given_labels(snapshot, rows[places], None))


def animate(
    frames: Sequence[Frame], *, ax: Axes | None = None, interval: float = 150, **choices: Any
) -> FuncAnimation:
    """Draw frames one after the other, as `clusters` does, with axes that stay where they are.

    The same frames give the same picture, byte for byte: ``movie.save("stream.gif",
    writer="pillow")``. In a notebook, ``movie.to_jshtml()`` is a player.

    Parameters
    ----------
    frames : sequence of Frame
        What `frame` kept, in order.
    ax : Axes, optional
        Where to draw; by default a new figure.
    interval : float
        Milliseconds from frame to frame.
    **choices : object
        Other arguments of `clusters`.

    Returns
    -------
    FuncAnimation
        The animation. Keep it for as long as it shall run.

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
        raise InputError("there are no frames; keep one with plot.frame(model, X) after a batch.")
    ax = given_or_new(ax)
    picture = Picture.of([each.snapshot for each in frames])
    limits = _limits(frames, picture)

    def draw(number: int) -> list[Artist]:
        ax.clear()
        clusters(frames[number], ax=ax, picture=picture, **choices)
        ax.set_title(f"time {frames[number].snapshot.state.time:g}", loc="left")
        ax.set_xlim(*limits[0])
        if not picture.is_line:
            ax.set_ylim(*limits[1])
        return [ax]

    draw(0)  # who shows the figure without playing it sees the beginning
    figure = cast(Figure, ax.get_figure(root=True))
    return FuncAnimation(figure, draw, frames=len(frames), interval=interval)


def _limits(frames: Sequence[Frame], picture: Picture) -> list[tuple[float, float]]:
    """Lowest and highest place along each axis that anything has in any frame."""
    corners: list[Array] = []
    for each in frames:
        points = picture.points(each.snapshot, each.rows, each.labels)
        centres = picture.centres(each.snapshot)
        std = np.sqrt(np.einsum("kaa->ka", picture.covariances(each.snapshot)))
        corners += [points, centres - 2 * std, centres + 2 * std]
    every = np.concatenate(corners)
    low, high = every.min(axis=0), every.max(axis=0)
    room = _ROOM * np.maximum(high - low, np.finfo(float).tiny)
    return [(float(a), float(b)) for a, b in zip(low - room, high + room, strict=True)]
