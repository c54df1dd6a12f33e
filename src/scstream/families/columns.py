"""What families of independent columns share: missing entries, and priors column by column."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from scstream.errors import InputError
from scstream.families.base import Array, Rows

E = TypeVar("E", bound=InputError)


def observed(X: Rows) -> tuple[Array, Array]:  # (N, D), (N, D)
    """Return which entries are present (1.0 or 0.0), and the rows with zeros for the missing."""
    X = np.asarray(X, dtype=np.float64)
    missing = np.isnan(X)
    return 1.0 - missing, np.where(missing, 0.0, X)


def positive(field: str, value: Array | float, size: int) -> Array:  # (size,)
    """Return `value` as a vector of positive numbers; one number stands for all columns."""
    vector = np.asarray(value, dtype=np.float64)
    if vector.ndim > 1 or not (np.isfinite(vector) & (vector > 0)).all():
        raise InputError(f"{field} must be a positive number or a vector of positive numbers.")
    if vector.ndim == 1 and len(vector) != size:
        raise InputError(f"{field} has {len(vector)} entries but {size} are needed.")
    return np.broadcast_to(vector, size).copy()


def placed(error: E, column: int, row: int | None = None) -> E:
    """Return an error that knows which entry it is about: "row 5, column 3" of its message.

    If it was about another place, such as one of a part of the columns, its message is changed.
    """
    text = str(error)
    if error.row is not None:
        text = text.replace(f"row {error.row}", f"row {row}", 1)
    if error.column is not None:
        text = text.replace(f"column {error.column}", f"column {column}", 1)
    error.args = (text,)
    error.column, error.row = int(column), None if row is None else int(row)
    return error
