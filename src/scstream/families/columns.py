"""What families of independent columns share: missing entries, and priors column by column."""

from __future__ import annotations

import numpy as np

from scstream.errors import InputError
from scstream.families.base import Array, Rows


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
