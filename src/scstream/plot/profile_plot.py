"""What the clusters of a model are like: a heat map of clusters and features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from scstream.errors import InputError
from scstream.families.base import Array
from scstream.io.tables import counted
from scstream.model import Model
from scstream.plot.inputs import model_of
from scstream.plot.style import add_title, axes_or_new, figure_of, fit_labels, name_of
from scstream.view.columns import columns_of

_COLOUR_MAP = "PuOr_r"  # orange is more, violet is less; for any colour vision
_MOST = 3.0  # standard deviations at which colours end
_LINE = 50  # characters that fit below the plot
_FEW = 150  # cells in which numbers are written


def profile(
    model: Any,
    *,
    ax: Axes | None = None,
    max_clusters: int = 50,
    max_features: int = 30,
    names: Mapping[int, str] | None = None,
) -> Axes:
    """Draw how far the mean of every cluster is from the mean of all rows, feature by feature.

    Distances are in standard deviations of all rows that the model has, so that features in any
    unit can be compared. Counts are shares of their row, categories indicators of their levels.
    Clusters are in the order of their weight, features in the order of the table; if there are too
    many, those are drawn in which the clusters differ most.

    Parameters
    ----------
    model : ScStream or Model
        A model that has learned at least one batch.
    ax : Axes, optional
        The axes to draw on; by default those of a new figure.
    max_clusters : int
        Maximum number of clusters: the heaviest.
    max_features : int
        Maximum number of features.
    names : mapping of int to str, optional
        Names of clusters by id, for those that people gave no name or another one.

    Returns
    -------
    Axes
        The axes; the heat map is the first of their ``images``.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scstream import ScStream, plot
    >>> from scstream.datasets import stationary_gaussians
    >>> batch = next(iter(stationary_gaussians(3, 4, batch_size=300, random_state=1)))
    >>> model = ScStream(random_state=0).fit(batch.X)
    >>> ax = plot.profile(model, ax=Figure().subplots(), names={0: "large"})
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['x0', 'x1', 'x2', 'x3']
    >>> ax.images[0].get_array().shape
    (3, 4)
    """
    if min(max_clusters, max_features) < 1:
        raise InputError("max_clusters and max_features must be whole numbers from 1.")
    model = model_of(model)
    values, columns = standardised_means(model)
    share = model.state.share
    kept = np.argsort(-share, kind="stable")[:max_clusters]
    differs = share @ np.square(values)  # (C,)
    drawn = np.sort(np.argsort(-differs, kind="stable")[:max_features])
    ax = axes_or_new(ax, len(kept))
    _draw(ax, values[np.ix_(kept, drawn)])
    ids, names = model.state.ids[kept].tolist(), {**model.names, **(names or {})}
    ax.set_yticks(range(len(kept)), [name_of(each, names) for each in ids])
    ax.set_xticks(range(len(drawn)), [columns[column] for column in drawn])
    ax.set(xlabel="feature", ylabel="cluster, heaviest first")
    if sum(len(columns[column]) + 2 for column in drawn) > _LINE:
        ax.tick_params(axis="x", rotation=90)
    fit_labels(ax, len(kept))
    add_title(ax, _title(len(kept), len(share), len(drawn), len(columns)))
    return ax


def standardised_means(model: Model) -> tuple[Array, list[str]]:  # (K, C), names of columns
    """Return the means of clusters in standard deviations from the mean of all rows."""
    columns, stats, state = columns_of(model.family), model.shapes, model.state
    means, stds = columns.centres(stats), columns.stds(stats)  # (K, C)
    share = state.weight / max(float(state.weight.sum()), np.finfo(float).tiny)
    middle = share @ means
    total = np.sqrt(share @ (np.square(stds) + np.square(means - middle)))
    names = columns.column_names(model.feature_names)
    return (means - middle) / np.where(total > 0, total, 1.0), names


def _draw(ax: Axes, values: Array) -> None:
    bound = min(max(float(np.abs(values).max(initial=0.0)), 1.0), _MOST)
    image = ax.imshow(values, cmap=_COLOUR_MAP, vmin=-bound, vmax=bound, aspect="auto")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    extend = "both" if np.abs(values).max(initial=0.0) > bound else "neither"
    bar = figure_of(ax).colorbar(image, ax=ax, extend=extend, fraction=0.05, pad=0.02)
    bar.set_label("standard deviations from the mean of all rows")
    bar.outline.set_visible(False)
    if values.size > _FEW:
        return
    for (row, column), value in np.ndenumerate(values):
        dark = abs(value) > 0.6 * bound
        colour = "white" if dark else "black"
        text = f"{value:+.1f}".replace("-", "−")
        ax.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)


def _title(n_clusters: int, all_clusters: int, n_columns: int, all_columns: int) -> str:
    title = f"Profile of {counted(n_clusters, 'cluster')}"
    if n_clusters < all_clusters:
        title = f"Profile of the {n_clusters} heaviest of {counted(all_clusters, 'cluster')}"
    if n_columns < all_columns:
        title += f", the {n_columns} most different of {all_columns:,} columns"
    return title
