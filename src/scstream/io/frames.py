"""Tables of pandas, polars, pyarrow and other libraries that narwhals reads."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from scstream.errors import InputError
from scstream.families.base import Array


def is_table(X: Any) -> bool:
    """Return True if X is a table with named columns."""
    if nw.dependencies.is_into_dataframe(X):
        return True
    if hasattr(X, "collect") and hasattr(X, "lazy"):
        raise InputError("X is a lazy table; call X.collect() and pass the result.")
    return False


def column_names(table: Any) -> list[Any]:
    """Return the names of the columns of a table."""
    return list(nw.from_native(table, eager_only=True).columns)


def table_rows(table: Any) -> Array:  # (N, D)
    """Return the rows of a table as float64; a null becomes NaN."""
    frame = nw.from_native(table, eager_only=True)
    rows = np.empty(frame.shape)
    for place, column in enumerate(frame.iter_columns()):
        rows[:, place] = _numbers(column)
    return rows


def labels_like(table: Any, labels: Any, *, name: str = "cluster") -> Any:
    """Return labels as a column of the library of the table, with its index if it has one."""
    frame = nw.from_native(table, eager_only=True)
    series = nw.new_series(name, np.asarray(labels), backend=frame.implementation)
    index = nw.maybe_get_index(frame)
    return (series if index is None else nw.maybe_set_index(series, index=index)).to_native()


def _numbers(column: nw.Series[Any]) -> Array:  # (N,)
    dtype = column.dtype
    if dtype.is_numeric() or dtype in (nw.Boolean, nw.Object, nw.Unknown):
        try:
            return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise InputError(f"column {column.name!r} does not hold numbers: {error}.") from error
    raise InputError(
        f"column {column.name!r} holds {dtype}, not numbers; leave it out, or number its levels "
        "0, 1, 2, ... the same way in every batch (sklearn.preprocessing.OrdinalEncoder does it) "
        "and describe it by family='categorical'."
    )
