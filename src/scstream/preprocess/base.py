"""The interface of a preprocessing step, and checks that several steps use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.errors import InputError
from scstream.families.base import Rows
from scstream.io.header import Json, Plain
from scstream.io.schema import LARGEST
from scstream.preprocess.block import Block, Reject

Names = tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class Step(ABC):
    """One change of the columns of a stream.

    The fields of a step are its options, except `learned`: the fitted parameters, as plain values
    and arrays by name, or None before the first block.
    """

    learned: Plain | None = None

    name: ClassVar[str]
    reads_text: ClassVar[bool] = False

    @abstractmethod
    def apply(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Return the step for the next block, and this block with the new columns."""

    def with_columns(self, names: Names) -> Self:
        """Return the step for input columns of these names; called once, before the first block."""
        return self

    def feature_names(self, names: Names) -> Names:
        """Return the names of the output columns; None if they have no names, or none yet."""
        return names

    def options(self) -> Json:
        """Return the options of the step as plain values."""
        chosen = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in chosen
            if name != "learned"
        }

    def check_width(self, X: Rows, n_columns: int) -> None:
        """Raise unless the rows have as many columns as the rows that the step was fitted to."""
        if X.shape[1] != n_columns:
            raise InputError(
                f"{self.name} was fitted to {n_columns} columns and now gets {X.shape[1]}; send "
                "the same columns in every message, or start a new model."
            )


def check_option(step: Step, condition: bool, name: str, must: str) -> None:
    """Raise unless the condition on an option of a step holds."""
    if not condition:
        value = getattr(step, name)
        raise InputError(f"the option {name!r} of {step.name} must be {must}, got {value!r}.")


def is_whole(value: Any, least: int) -> bool:
    """Return True for an integer of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_positive(value: Any) -> bool:
    """Return True for a number above zero; infinity is one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def reject_rows(block: Block, bad: NDArray[np.bool_], reasons: str | Sequence[str]) -> Block:
    """Reject some of the valid rows (`bad`, shape (G,)), for one reason or one for each row."""
    which = np.flatnonzero(bad).tolist()
    reason = {i: reasons if isinstance(reasons, str) else reasons[i] for i in which}
    return block.reject([Reject(int(block.row[i]), reason[i]) for i in which])


def reject_missing(block: Block, name: str) -> Block:
    """Reject rows with a missing entry, for steps that combine columns."""
    if sparse.issparse(block.X):
        return block
    bad = np.isnan(block.X).any(axis=1)
    return reject_rows(block, bad, f"an entry is missing, and {name} needs every entry")


def reject_out_of_range(before: Block, after: Block, name: str) -> Block:
    """Reject rows that a step made too large for the model, or not finite.

    Entries that were missing before may still be missing.
    """
    entries = after.X.data if sparse.issparse(after.X) else after.X
    if entries.max(initial=0.0) <= LARGEST and entries.min(initial=0.0) >= -LARGEST:
        return after  # there is no NaN either: NaN makes both comparisons false
    X = after.X.toarray() if sparse.issparse(after.X) else after.X
    in_range = np.abs(X) <= LARGEST
    if not sparse.issparse(before.X) and np.isnan(before.X).any():
        in_range |= np.isnan(X)
    bad = ~in_range.all(axis=1)
    worst = [f"{value:g}" for value in np.abs(X).max(axis=1, initial=0.0)]
    reasons = [f"{name} makes an entry of the row {w}, which no model can take" for w in worst]
    return reject_rows(after, bad, reasons)
