"""Scale columns to mean zero and variance one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypedDict, cast

import numpy as np
from scipy import sparse

from scstream.core.held import elapsed
from scstream.core.window import Exponential
from scstream.errors import InputError
from scstream.families.base import Array, Rows
from scstream.preprocess.base import Step, check_option, is_positive
from scstream.preprocess.block import Block

_CONSTANT = 1e-14  # a standard deviation below this fraction of the mean is round-off
MODES = ("frozen", "running")


class ColumnStats(TypedDict):
    """Number of entries, mean and summed squared deviation of each column."""

    weight: Array  # (D,)
    mean: Array  # (D,)
    squares: Array  # (D,)


@dataclass(frozen=True, eq=False)
class Standardise(Step):
    """Subtract the mean of each column and divide by its standard deviation.

    A constant column is centred but not scaled. Missing entries stay missing and are ignored when
    the mean and the standard deviation are estimated.

    Parameters
    ----------
    mode : {"frozen", "running"}
        "frozen" estimates the scale from the first batch and keeps it, so the meaning of the
        coordinates never changes. "running" updates the estimate with each batch, before scaling.
    half_life : float, optional
        With "running": the time after which a batch counts half, in the model's unit of time
        (batches, if rows have no time). None or infinity: old batches never count less.
    clip : float, optional
        Clip the output to [-clip, clip] standard deviations.
    centre : bool
        Whether to subtract the mean. Must be false for CSR rows, which stay sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.scale import Standardise
    >>> step, block = Standardise().apply(Block.of(np.array([[1.0], [3.0]])), time=None)
    >>> block.X.ravel()
    array([-1.,  1.])
    >>> _, block = step.apply(Block.of(np.array([[4.0]])), time=None)
    >>> block.X.ravel()
    array([2.])
    """

    mode: str = "frozen"
    half_life: float | None = None
    clip: float | None = None
    centre: bool = True

    name: ClassVar[str] = "standardise"

    def __post_init__(self) -> None:
        check_option(self, self.mode in MODES, "mode", "'frozen' or 'running'")
        clip, half_life = self.clip, self.half_life
        lasts = half_life is None or is_positive(half_life)
        check_option(self, lasts, "half_life", "a positive number")
        check_option(self, clip is None or is_positive(clip), "clip", "a positive number")
        check_option(self, isinstance(self.centre, bool), "centre", "true or false")
        if half_life is not None and self.mode == "frozen":
            raise InputError(
                "standardise has a half_life only in mode 'running'; in mode 'frozen' it keeps "
                "the scale of the first batch."
            )

    def apply(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Update the scale if the mode requires it, then scale the block."""
        if self.centre and sparse.issparse(block.X):
            raise InputError(
                "standardise cannot centre sparse rows without making them dense; set "
                "centre = false, or remove the step: counts need no scaling."
            )
        after = self._learn(block.X, time)
        X = after._scaled(block.X)
        return after, replace(block, X=X)

    def _learn(self, X: Rows, time: float | None) -> Self:
        if self.learned is None:
            if self.mode == "frozen" and X.shape[0] < 2:
                raise InputError(
                    "standardise estimates the scale from the first batch, which has one valid "
                    "row; make the first batch larger (batch.first), or use mode = 'running'."
                )
            return replace(self, learned={**column_stats(X), "time": 0.0 if time is None else time})
        self.check_width(X, len(self.learned["mean"]))
        if self.mode == "frozen":
            return self
        now = self.learned["time"]
        time = now + elapsed(X.shape[0]) if time is None else time
        # A late batch gets the weight that it would have now if it had arrived in time.
        age = np.array([time - now, now - time]).clip(0)
        old_weight, new_weight = Exponential(self.half_life).weight(age).tolist()
        known = cast(ColumnStats, self.learned)
        both = pooled(known, column_stats(X), old_weight=old_weight, new_weight=new_weight)
        return replace(self, learned={**both, "time": max(time, now)})

    def _scaled(self, X: Rows) -> Rows:
        assert self.learned is not None
        mean, scale = self.learned["mean"], std(cast(ColumnStats, self.learned))
        if sparse.issparse(X):
            out: Any = sparse.csr_array((X.data / scale[X.indices], X.indices, X.indptr), X.shape)
        else:
            out = (X - mean if self.centre else X) / scale
        if self.clip is not None:
            entries = out.data if sparse.issparse(out) else out
            np.clip(entries, -self.clip, self.clip, out=entries)
        return out


def column_stats(X: Rows) -> ColumnStats:
    """Return number, mean and summed squared deviation of the entries of each column.

    The first entry of each column is subtracted first, so that a constant column has deviations
    of exactly zero.
    """
    if sparse.issparse(X):
        return _sparse_column_stats(X)
    present = ~np.isnan(X)
    first = X[present.argmax(axis=0), np.arange(X.shape[1])]  # (D,)
    first = np.where(np.isnan(first), 0.0, first)
    weight = present.sum(axis=0).astype(np.float64)
    off = np.where(present, X - first, 0.0)
    shift = off.sum(axis=0) / np.maximum(weight, 1.0)
    squares = (np.where(present, off - shift, 0.0) ** 2).sum(axis=0)
    return {"weight": weight, "mean": first + shift, "squares": squares}


def _sparse_column_stats(X: Rows) -> ColumnStats:
    n_rows, n_columns = X.shape
    mean = np.bincount(X.indices, X.data, minlength=n_columns) / n_rows
    squares = np.bincount(X.indices, (X.data - mean[X.indices]) ** 2, minlength=n_columns)
    zeros = n_rows - np.bincount(X.indices, minlength=n_columns)
    weight = np.full(n_columns, float(n_rows))
    return {"weight": weight, "mean": mean, "squares": squares + zeros * mean**2}


def pooled(
    old: ColumnStats, new: ColumnStats, *, old_weight: float, new_weight: float
) -> ColumnStats:
    """Return the statistics of the weighted union of old and new entries."""
    n_old, n_new = old_weight * old["weight"], new_weight * new["weight"]
    weight = n_old + n_new
    share = n_new / np.where(weight > 0, weight, 1.0)
    step = new["mean"] - old["mean"]
    squares = old_weight * old["squares"] + new_weight * new["squares"] + step**2 * n_old * share
    return {"weight": weight, "mean": old["mean"] + share * step, "squares": squares}


def std(known: ColumnStats) -> Array:  # (D,)
    """Return the standard deviation of each column, 1 for a constant column."""
    scale = np.sqrt(known["squares"] / np.where(known["weight"] > 0, known["weight"], 1.0))
    return np.where(scale > _CONSTANT * np.abs(known["mean"]), scale, 1.0)
