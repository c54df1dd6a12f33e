"""How much of the stream was new, and how well the rest was explained."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from scstream.plot.looks import colour_of, edges_of, given_or_new, ink, strip_above, tidy
from scstream.plot.record import History, seen

_LEAST_TOP = 0.02  # of the axis of shares, so that a single row does not look like a flood


def novelty(history: History, *, ax: Axes | None = None, density: bool = True) -> Axes:
    """Draw the share of rows of no cluster in each batch, and the mean log density above it.

    Both are of rows after they were learned: clusters that a batch founded are not new any more.

    Parameters
    ----------
    history : History
        What was seen.
    ax : Axes, optional
        Where to draw; by default a new figure.
    density : bool
        Whether to draw the mean log density in a strip above.

    Returns
    -------
    Axes
        Where it was drawn; the strip is the first of its ``child_axes``.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scstream import ScStream, plot
    >>> from scstream.datasets import stationary_gaussians
    >>> history, model = plot.History(), ScStream(random_state=0)
    >>> for batch in stationary_gaussians(3, n_batches=4, random_state=0):
    ...     history.see(model.partial_fit(batch.X))
    >>> plot.novelty(history, ax=Figure().subplots()).get_ylabel()
    'rows of no cluster'
    """
    share = np.nan_to_num(seen(history).novelty)
    ax = given_or_new(ax)
    edges = edges_of(history.time)
    ax.stairs(share, edges, fill=True, color=colour_of(3))
    top = max(1.15 * float(share.max()), _LEAST_TOP)
    ax.set(xlabel="time", ylabel="rows of no cluster", xlim=(edges[0], edges[-1]), ylim=(0, top))
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    tidy(ax)
    if density:
        above = strip_above(ax, top, 0.6)
        above.plot(history.time, history.mean_log_density, color=ink(), marker=".", linewidth=1.2)
        above.set_ylabel("mean log density")
        above.yaxis.set_major_locator(MaxNLocator(4))
    return ax
