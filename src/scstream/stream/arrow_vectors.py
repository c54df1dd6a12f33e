"""Arrow columns of lists, such as embeddings, as one array of numbers for each entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pyarrow import compute, types

from scstream.stream.schema import Schema
from scstream.stream.vectors import MAX_WIDTH, entry_names, vector_widths, wrong_length


def width(table: Any, name: str) -> int:
    """Return the number of entries of the first list of a column; raises ValueError."""
    if name not in table.column_names:
        raise ValueError(f"it has no column {name!r}")
    table.column(name).validate(full=True)
    lengths = _lengths(table.column(name), name)
    found = int(next((length for length in lengths.tolist() if length >= 0), 0))
    if not 1 <= found <= MAX_WIDTH:
        raise ValueError(f"column {name!r} has no list of 1 to {MAX_WIDTH} numbers")
    return found


def entries(schema: Schema, table: Any, bad: dict[int, str]) -> dict[str, NDArray[np.float64]]:
    """Return the features of columns of lists by name; rows with other lengths are bad."""
    found: dict[str, NDArray[np.float64]] = {}
    for name, n_entries in vector_widths(schema.features).items():
        if name in table.column_names:
            X = _matrix(table.column(name), name, n_entries, bad, missing=schema.missing)
            found |= dict(zip(entry_names(name, n_entries), X.T, strict=True))
    return found


def _matrix(
    column: Any, name: str, n_entries: int, bad: dict[int, str], *, missing: bool
) -> NDArray[np.float64]:  # (N, D)
    lengths = _lengths(column, name)
    fits = lengths == n_entries
    for i in np.flatnonzero(~fits).tolist():
        if lengths[i] >= 0:
            bad.setdefault(i, wrong_length(name, int(lengths[i]), n_entries))
        elif not missing:
            bad.setdefault(i, f"column {name!r} is missing.")
    X = np.full((len(lengths), n_entries), np.nan)
    present = lengths >= 0
    with np.errstate(invalid="ignore"):  # a signalling NaN
        values = np.asarray(compute.list_flatten(column).to_numpy(), dtype=np.float64)
        X[fits] = values[np.repeat(fits[present], lengths[present])].reshape(-1, n_entries)
    return X


def _lengths(column: Any, name: str) -> NDArray[np.int64]:  # (N,), -1 for null
    kind = column.type
    is_list = any(
        is_kind(kind) for is_kind in (types.is_list, types.is_large_list, types.is_fixed_size_list)
    )
    if not is_list or not (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)):
        raise ValueError(f"column {name!r} is of type {kind}, not of lists of numbers")
    lengths = compute.list_value_length(column).cast(pa.int64())
    return np.asarray(compute.fill_null(lengths, -1).to_numpy(), dtype=np.int64)
