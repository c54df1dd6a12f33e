"""Conversion of the models and rows that users pass to plots."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from scstream.errors import InputError
from scstream.families.base import Rows
from scstream.io.frames import is_table, table_rows
from scstream.model import Model


def model_of(model: Any) -> Model:
    """Return the `Model` inside an estimator or an adapter; later batches do not change it."""
    for inner in (getattr(model, "model_", None), getattr(model, "model", None)):
        if inner is not None:
            return model_of(inner)
    if not isinstance(model, Model) or model.state.is_new:
        raise InputError(
            f"this {type(model).__name__} is not a model of scstream, or has learned nothing yet; "
            "learn a batch with partial_fit first."
        )
    return model


def rows_of(X: Any) -> Rows:
    """Return rows as float64, in CSR if they are sparse."""
    if sparse.issparse(X):
        return sparse.csr_array(X, dtype=np.float64)
    if not isinstance(X, np.ndarray | list | tuple) and is_table(X):
        return table_rows(X)
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2:
        raise InputError(f"X must be a table of rows and columns, got {rows.ndim} dimension(s).")
    return rows
