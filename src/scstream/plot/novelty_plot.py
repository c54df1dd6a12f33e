"""The share of novel rows and the mean log density over time."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from scstream.plot.history import History, require_batches
from scstream.plot.style import (
    add_title,
    axes_or_new,
    batch_edges,
    colour_of,
    hide_spines,
    inset_above,
    text_colour,
)

_MIN_TOP = 0.02  # of the vertical axis, so that a single row does not fill it


def novelty(history: History, *, ax: Axes | None = None, density: bool = True) -> Axes:
    """Draw the share of rows without a cluster in each batch, and the mean log density above it.

    Both are computed after the batch was learned: rows that formed a new cluster are not novel.

    Parameters
    ----------
    history : History
        The recorded batches.
    ax : Axes, optional
        The axes to draw on; by default those of a new figure.
    density : bool
        Whether to draw the mean log density in an inset above.

    Returns
    -------
    Axes
        The axes; the inset is the first of their ``child_axes``.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scstream import ScStream, plot
    >>> from scstream.datasets import stationary_gaussians
    >>> history, model = plot.History(), ScStream(random_state=0)
    >>> for batch in stationary_gaussians(3, n_batches=4, random_state=0):
    ...     history.record(model.partial_fit(batch.X))
    >>> plot.novelty(history, ax=Figure().subplots()).get_ylabel()
    'rows without a cluster'
    """
    share = np.nan_to_num(require_batches(history).novelty)
    ax = axes_or_new(ax)
    edges = batch_edges(history.time)
    ax.stairs(share, edges, fill=True, color=colour_of(3))
    top = max(1.15 * float(share.max()), _MIN_TOP)
    ax.set(
        xlabel="time", ylabel="rows without a cluster", xlim=(edges[0], edges[-1]), ylim=(0, top)
    )
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    hide_spines(ax)
    add_title(ax, "Rows without a cluster in each batch")
    if density:
        above = inset_above(ax, top, 0.6)
        above.plot(
            history.time, history.mean_log_density, color=text_colour(), marker=".", linewidth=1.2
        )
        above.set_ylabel("mean log density")
        above.yaxis.set_major_locator(MaxNLocator(4))
    return ax
