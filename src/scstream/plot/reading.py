"""Reading a model, whatever its face: the estimator, river's adapter, a learner or a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from scstream.errors import InputError
from scstream.families.base import Rows
from scstream.io.checkpoint import Snapshot
from scstream.io.frames import is_table, table_rows


def snapshot_of(model: Any) -> Snapshot:
    """Return what a model knows, which later batches do not change."""
    if hasattr(model, "state_"):
        names = getattr(model, "feature_names_in_", None)
        return Snapshot(
            family=model.family_,
            config=model.config_,
            state=model.state_,
            info=model.info_,
            events=tuple(model.events_),
            feature_names=None if names is None else tuple(str(name) for name in names),
        )
    if hasattr(getattr(model, "model", None), "state_"):
        return snapshot_of(model.model)
    snapshot = getattr(model, "snapshot", model)
    if not isinstance(snapshot, Snapshot) or snapshot.state.is_new:
        raise InputError(
            f"this {type(model).__name__} has learned nothing yet, or is no model of scstream; "
            "learn a batch with partial_fit first."
        )
    return snapshot


def rows_of(X: Any) -> Rows:
    """Return rows as float64, in CSR where they are sparse."""
    if sparse.issparse(X):
        return sparse.csr_array(X, dtype=np.float64)
    if not isinstance(X, np.ndarray | list | tuple) and is_table(X):
        return table_rows(X)
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2:
        raise InputError(f"X must be a table of rows and columns, got {rows.ndim} dimension(s).")
    return rows
