"""Columns of few values: rows are spread around them, so that ties do not found clusters.

Values on a grid of width w are rounded: the value itself lies within w / 2 of it. Equal values have
no variance, and a cluster of them would have any density. Normal noise of nearly half a step makes
the density of a grid smooth (noise of standard deviation s leaves ripples of 2 exp(-2 (pi s/w)^2)).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scstream.core.config import Config
from scstream.core.rng import key_for
from scstream.core.state import Batch
from scstream.families.base import Array
from scstream.kernels import Kernels

_STD = 0.45  # steps


def dithered(
    kernels: Kernels, config: Config, batch: Batch, widths: Array, *, number: int
) -> Batch:
    """Return the rows of the batch of this number with noise in the columns of few values."""
    columns = np.flatnonzero(widths)
    if not len(columns) or not batch.n_rows:
        return batch
    key = key_for(config.seed, batch=number, sweep=0, purpose="dither")
    noise = kernels.normals(key, np.arange(batch.n_rows), 0, len(columns))
    rows = np.array(batch.rows, dtype=np.float64)
    rows[:, columns] += _STD * widths[columns] * noise
    return replace(batch, rows=rows)
