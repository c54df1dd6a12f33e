"""Rows of small batches, which are held until there are enough of them to be learned together.

A cluster cannot be born of one row, and a prior cannot be fitted to five. Rows of batches below
`Config.min_batch` therefore get the label that the clusters predict, and are learned when
`min_batch` rows are there. A young model, started with fewer than `enough_rows`, is started again
with all rows so far, until there are enough. Rows that no cluster explains stay for the next time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.core.config import Config
from scstream.core.state import NOVEL, Batch
from scstream.families.base import Array, Labels, Rows, unit_weight

_UNIT_ROWS = 1000.0
_ENOUGH = 2  # times `min_batch`: rows to fit a prior to
_GROWTH = 1.5  # of the rows of a young model, after which it is started again
_LEAST_LEFT = 0.9  # share of a row's weight below which forgetting does not wait for more rows
_NOVEL_BIRTHS = 2.0  # times `min_birth_weight`: rows without a cluster that do not wait


@dataclass(frozen=True, eq=False)
class Held:
    """Rows of small batches, oldest first."""

    rows: Rows  # (N, D)
    weight: Array  # (N,)
    time: Array  # (N,)
    label: Labels  # (N,) that was reported
    n_tried: int  # that many rows at the front were passed to the algorithm before
    young: bool  # all rows of the stream are here

    @classmethod
    def of(cls, batch: Batch, label: Labels, *, n_tried: int = 0, young: bool = False) -> Self:
        """Return the rows of a batch."""
        time = np.full(batch.n_rows, batch.time)
        return cls(batch.rows, unit_weight(batch.rows, batch.weight), time, label, n_tried, young)

    def __len__(self) -> int:
        return len(self.time)

    def joined(self, other: Self) -> Self:
        """Return these rows and then the rows of the other."""
        return replace(
            self,
            rows=_stacked(self.rows, other.rows),
            weight=np.concatenate([self.weight, other.weight]),
            time=np.concatenate([self.time, other.time]),
            label=np.concatenate([self.label, other.label]),
        )

    def take(self, rows: NDArray[np.bool_] | slice, *, n_tried: int = 0) -> Self:
        """Return some of the rows; they are no longer all rows of the stream."""
        weight, time, label = self.weight[rows], self.time[rows], self.label[rows]
        return type(self)(self.rows[rows], weight, time, label, n_tried, young=False)

    def as_batch(self, config: Config, time: float) -> Batch:
        """Return the rows as one batch, with the weights that they have left."""
        return Batch(self.rows, time, self.weight * config.kernel.weight(time - self.time))

    def may_start(self, config: Config) -> bool:
        """Return True if a young model has grown so much that it is to be started again."""
        return len(self) >= min(_GROWTH * self.n_tried, enough_rows(config))

    def must_learn(self, config: Config, time: float) -> bool:
        """Return True if the rows are enough to be learned, or cannot wait for others."""
        fresh = slice(self.n_tried, None)
        oldest = time - self.time[fresh][:1]
        if config.kernel.weight(oldest)[0] < _LEAST_LEFT:
            return True
        novel = self.weight[fresh][self.label[fresh] == NOVEL].sum()
        enough = len(self) - self.n_tried >= config.min_batch
        return not self.young and bool(enough or novel >= _NOVEL_BIRTHS * config.min_birth_weight)

    def unexplained(self, config: Config, time: float, label: Labels) -> NDArray[np.bool_]:
        """Return which rows may still be part of a new cluster, after they got these labels."""
        keep = (label == NOVEL) & (config.kernel.weight(time - self.time) >= _LEAST_LEFT)
        too_many = np.flatnonzero(keep)[: -enough_rows(config)]
        keep[too_many] = False
        return np.asarray(keep)


def _stacked(first: Rows, second: Rows) -> Rows:
    """Put rows below others; in CSR if either are sparse."""
    if sparse.issparse(first) or sparse.issparse(second):
        return sparse.vstack([sparse.csr_array(first), sparse.csr_array(second)], format="csr")
    return np.concatenate([first, second])


def holds(config: Config, batch: Batch) -> bool:
    """Return True if the rows of a batch are too few to be learned alone."""
    return config.algorithm == "default" and 0 < batch.n_rows < config.min_batch


def is_young(config: Config, batch: Batch) -> bool:
    """Return True if the rows of a first batch are too few to settle the prior."""
    small = config.min_batch > 1 and batch.n_rows < enough_rows(config)
    return config.algorithm == "default" and small


def elapsed(n_rows: int) -> float:
    """Return the time that a batch without a time takes: a thousand rows, or more, are one unit."""
    return min(n_rows / _UNIT_ROWS, 1.0)


def enough_rows(config: Config) -> int:
    """Return the number of rows that a prior is fitted to."""
    return _ENOUGH * config.min_batch
