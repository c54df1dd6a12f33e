"""Columns of mean zero and variance one, as far as the rows so far can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from scstream.core.window import Exponential
from scstream.errors import InputError
from scstream.families.base import Array, Rows
from scstream.preprocess.base import Step, is_positive, option
from scstream.preprocess.block import Block

_CONSTANT = 1e-14  # a spread below this part of the mean is round-off
MODES = ("frozen", "running")

Moments = Mapping[str, Any]  # weight (D,), mean (D,), squares (D,), time


@dataclass(frozen=True, eq=False)
class Standardise(Step):
    """Subtract the mean of each column and divide by its standard deviation.

    A column that has not varied is only centred: what varies later comes in its own units. Missing
    entries stay missing and teach nothing.

    Parameters
    ----------
    mode : {"frozen", "running"}
        "frozen" learns from the first batch and keeps what it learned, so that coordinates mean
        the same for ever; "running" goes on learning, each batch before it is scaled.
    half_life : float, optional
        Of "running": after how much time, in the model's unit (batches, where rows carry no time),
        a batch counts half; None or infinity never forgets.
    clip : float, optional
        Largest value that comes out, in standard deviations; larger ones become this one.
    centre : bool
        Whether to subtract the mean. CSR rows stay CSR, so for them it must be false.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.scale import Standardise
    >>> step, block = Standardise().take(Block.of(np.array([[1.0], [3.0]])), time=None)
    >>> block.X.ravel()
    array([-1.,  1.])
    >>> _, block = step.take(Block.of(np.array([[4.0]])), time=None)
    >>> block.X.ravel()
    array([2.])
    """

    mode: str = "frozen"
    half_life: float | None = None
    clip: float | None = None
    centre: bool = True

    name: ClassVar[str] = "standardise"

    def __post_init__(self) -> None:
        option(self, self.mode in MODES, "mode", "'frozen' or 'running'")
        half_life, clip = self.half_life, self.clip
        option(self, half_life is None or is_positive(half_life), "half_life", "a positive number")
        option(self, clip is None or is_positive(clip), "clip", "a positive number")
        option(self, isinstance(self.centre, bool), "centre", "true or false")
        if half_life is not None and self.mode == "frozen":
            raise InputError(
                "standardise has a half_life only in mode 'running'; in mode 'frozen' it keeps "
                "what the first batch taught it."
            )

    def take(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Learn from the block where the mode says so, then scale it."""
        if self.centre and sparse.issparse(block.X):
            raise InputError(
                "standardise cannot centre sparse rows, which would not be sparse any more; set "
                "centre = false, or leave the step out: counts need no scaling."
            )
        after = self._learn(block.X, time)
        X = after._scaled(block.X)
        return after, replace(block, X=X)

    def _learn(self, X: Rows, time: float | None) -> Self:
        if self.learned is None:
            if self.mode == "frozen" and X.shape[0] < 2:
                raise InputError(
                    "standardise learns its scale from the first batch, which has one sound row; "
                    "make the first batch larger (batch.first), or use mode = 'running'."
                )
            return replace(self, learned=moments(X) | {"time": 0.0 if time is None else time})
        self.check_width(X, len(self.learned["mean"]))
        if self.mode == "frozen":
            return self
        now = self.learned["time"]
        time = now + 1.0 if time is None else time
        # A batch from the past counts as much as it would by now if it had come in time.
        fading, late = Exponential(self.half_life).weight(
            np.array([time - now, now - time]).clip(0)
        )
        both = pooled(self.learned, moments(X), fading=float(fading), late=float(late))
        return replace(self, learned=both | {"time": max(time, now)})

    def _scaled(self, X: Rows) -> Rows:
        assert self.learned is not None
        mean, scale = self.learned["mean"], std(self.learned)
        if sparse.issparse(X):
            out: Any = sparse.csr_array((X.data / scale[X.indices], X.indices, X.indptr), X.shape)
        else:
            out = (X - mean if self.centre else X) / scale
        if self.clip is not None:
            entries = out.data if sparse.issparse(out) else out
            np.clip(entries, -self.clip, self.clip, out=entries)
        return out


def moments(X: Rows) -> dict[str, Array]:
    """Return number, mean and summed squared deviation of the entries of each column.

    Entries are counted from the first one of their column, so that a column of equal numbers has
    deviations of exactly zero.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.scale import moments
    >>> found = moments(np.array([[1.0, 5.0], [3.0, np.nan]]))
    >>> found["weight"], found["mean"], found["squares"]
    (array([2., 1.]), array([2., 5.]), array([2., 0.]))
    """
    if sparse.issparse(X):
        return _sparse_moments(X)
    present = ~np.isnan(X)
    first = X[present.argmax(axis=0), np.arange(X.shape[1])]  # (D,)
    first = np.where(np.isnan(first), 0.0, first)
    weight = present.sum(axis=0).astype(np.float64)
    off = np.where(present, X - first, 0.0)
    shift = off.sum(axis=0) / np.maximum(weight, 1.0)
    squares = (np.where(present, off - shift, 0.0) ** 2).sum(axis=0)
    return {"weight": weight, "mean": first + shift, "squares": squares}


def _sparse_moments(X: Rows) -> dict[str, Array]:
    n_rows, n_columns = X.shape
    mean = np.bincount(X.indices, X.data, minlength=n_columns) / n_rows
    squares = np.bincount(X.indices, (X.data - mean[X.indices]) ** 2, minlength=n_columns)
    zeros = n_rows - np.bincount(X.indices, minlength=n_columns)
    weight = np.full(n_columns, float(n_rows))
    return {"weight": weight, "mean": mean, "squares": squares + zeros * mean**2}


def pooled(old: Moments, new: Moments, *, fading: float, late: float) -> dict[str, Array]:
    """Return the moments of old entries, faded, and new ones, weighted, together.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.scale import moments, pooled
    >>> halves = [moments(np.array([[1.0], [2.0]])), moments(np.array([[3.0]]))]
    >>> pooled(*halves, fading=1.0, late=1.0)["mean"]
    array([2.])
    """
    n_old, n_new = fading * old["weight"], late * new["weight"]
    weight = n_old + n_new
    share = n_new / np.where(weight > 0, weight, 1.0)
    step = new["mean"] - old["mean"]
    squares = fading * old["squares"] + late * new["squares"] + step**2 * n_old * share
    return {"weight": weight, "mean": old["mean"] + share * step, "squares": squares}


def std(known: Moments) -> Array:  # (D,)
    """Return the standard deviation of each column, one where it has not varied.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.scale import moments, std
    >>> std(moments(np.array([[7.0, 0.0], [7.0, 4.0]])))
    array([1., 2.])
    """
    scale = np.sqrt(known["squares"] / np.where(known["weight"] > 0, known["weight"], 1.0))
    return np.where(scale > _CONSTANT * np.abs(known["mean"]), scale, 1.0)
