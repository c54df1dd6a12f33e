"""Tables of pandas, polars, pyarrow and other libraries that narwhals reads."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from scstream.errors import InputError
from scstream.families.base import Array
from scstream.io.column_types import BOOLEAN, Levels

_MANY_LEVELS = 50  # of a column of strings that is not text


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


def table_levels(table: Any) -> Levels | None:
    """Return the levels of the columns of a first table; None if all columns hold numbers."""
    frame = nw.from_native(table, eager_only=True)
    levels = tuple(_levels(column) for column in frame.iter_columns())
    return levels if any(each is not None for each in levels) else None


def table_rows(table: Any, levels: Levels | None = None) -> Array:  # (N, D)
    """Return the rows of a table as float64; a null becomes NaN.

    A column with levels becomes their numbers; a level that is not among them gets the number
    after the last.
    """
    frame = nw.from_native(table, eager_only=True)
    rows = np.empty(frame.shape)
    for place, column in enumerate(frame.iter_columns()):
        known = levels[place] if levels is not None and place < len(levels) else None
        is_number = known is None or known == BOOLEAN
        rows[:, place] = _numbers(column) if is_number else _codes(column, known or ())
    return rows


def take_column(table: Any, name: str) -> tuple[Any, Any]:
    """Return a table without one of its columns, and the entries of that column."""
    if isinstance(table, np.ndarray | list | tuple) or not is_table(table):
        raise InputError(
            f"time={name!r} names a column, but X is not a table; pass the times themselves."
        )
    frame = nw.from_native(table, eager_only=True)
    if name not in frame.columns:
        raise InputError(
            f"X has no column {name!r} of times; it has {', '.join(map(str, frame.columns))}."
        )
    return frame.drop(name).to_native(), frame.get_column(name).to_numpy()


def labels_like(table: Any, labels: Any, *, name: str = "cluster") -> Any:
    """Return labels as a column of the library of the table, with its index if it has one."""
    frame = nw.from_native(table, eager_only=True)
    series = nw.new_series(name, np.asarray(labels), backend=frame.implementation)
    index = nw.maybe_get_index(frame)
    return (series if index is None else nw.maybe_set_index(series, index=index)).to_native()


def _levels(column: nw.Series[Any]) -> tuple[str, ...] | None:
    """Return the levels of a column; None for a column of numbers."""
    dtype = column.dtype
    if dtype == nw.Boolean:
        return BOOLEAN
    if dtype in (nw.Enum, nw.Categorical):
        return tuple(map(str, column.cat.get_categories().to_list()))
    if dtype != nw.String:
        return None
    levels = sorted({str(value) for value in column.to_list() if _is_present(value)})
    if len(levels) > max(_MANY_LEVELS, len(column) // 2):
        raise InputError(
            f"column {column.name!r} holds text: {len(levels)} different ones in {len(column)} "
            "rows. Leave it out, or turn it into numbers first, for example by an embedding."
        )
    return tuple(levels)


def _codes(column: nw.Series[Any], levels: tuple[str, ...]) -> Array:  # (N,)
    """Return the number of the level of every entry, NaN for a missing one."""
    if column.dtype.is_temporal():
        raise InputError(
            f"column {column.name!r} holds {column.dtype}, but categories in the first batch; pass "
            "columns of the same types in every batch."
        )
    number = {level: float(code) for code, level in enumerate(levels)}
    unseen = float(len(levels))
    return np.array(
        [
            number.get(str(value), unseen) if _is_present(value) else np.nan
            for value in column.to_list()
        ],
        dtype=np.float64,
    )


def _is_present(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and np.isnan(value))


def _numbers(column: nw.Series[Any]) -> Array:  # (N,)
    dtype = column.dtype
    if dtype.is_numeric() or dtype in (nw.Boolean, nw.Object, nw.Unknown):
        try:
            return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise InputError(f"column {column.name!r} does not hold numbers: {error}.") from error
    if dtype.is_temporal():
        raise InputError(
            f"column {column.name!r} holds {dtype}. Pass the time of a batch as time=, and leave "
            "the column out; or derive numbers from it, such as the hour of the day."
        )
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        raise InputError(
            f"column {column.name!r} holds {dtype}, but numbers in the first batch; pass columns "
            "of the same types in every batch."
        )
    if dtype in (nw.List, nw.Array):
        raise InputError(
            f"column {column.name!r} holds vectors. Pass them as an array, one column for each "
            f"entry: numpy.array(table[{column.name!r}].to_list())."
        )
    raise InputError(
        f"column {column.name!r} holds {dtype}, not numbers; leave it out, or turn it into numbers "
        "first."
    )
