"""How dense rows of known clusters usually are: quantiles that follow the stream.

A row is novel at a rate r if its log density is below the r-quantile of the rows that came before
and belonged to a cluster. So the share of false alarms is r, whatever the shapes of the clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scstream.core.state import NOVEL
from scstream.errors import InputError
from scstream.families.base import Array, Labels

N_CALIBRATED = 512  # of a batch that take part
EVERY = 4  # batches; a young model uses every one
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_LEAST = 20  # rows of known clusters that say something about quantiles


@dataclass(frozen=True, eq=False)
class Calibration:
    """Quantiles at `RATES` of the log density of rows before they were learned."""

    log_density: Array  # (9,)
    weight: float  # faded number of rows

    def threshold(self, rate: float) -> float:
        """Return the log density below which a share `rate` of the rows of known clusters lies."""
        return float(np.interp(np.log(rate), np.log(RATES), self.log_density))


def calibrate(
    known: Calibration | None, log_density: Array, label: Labels, *, left: float
) -> Calibration | None:
    """Add the rows of a batch; `left` is the share of the weight that forgetting has left."""
    log_density = log_density[label != NOVEL]
    if len(log_density) < _LEAST:
        return known
    now = _quantiles(log_density)
    if known is None:
        return Calibration(now, float(len(log_density)))
    weight = left * known.weight + len(log_density)
    step = len(log_density) / weight
    return Calibration(known.log_density + step * (now - known.log_density), weight)


def _quantiles(values: Array) -> Array:  # (9,)
    """Return `np.quantile(values, RATES)`, for which numpy takes ten times as long."""
    ordered = np.sort(values)
    place = np.multiply(RATES, len(values) - 1)
    below = place.astype(np.int64)
    share, low = place - below, ordered[below]
    high = ordered[np.minimum(below + 1, len(values) - 1)]
    gap = high - low
    return np.where(share < 0.5, low + gap * share, high - gap * (1.0 - share))


def check_rate(rate: float) -> None:
    """Raise `InputError` for a rate that cannot be calibrated."""
    if not RATES[0] <= rate <= RATES[-1]:
        raise InputError(
            f"novelty must be between {RATES[0]} and {RATES[-1]}: the share of rows of known "
            f"clusters that may get the label -1, got {rate!r}."
        )
