"""Checks of rows, weights and times; errors say what to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from scstream.core.notes import Marks, Notes
from scstream.errors import InputError
from scstream.families.base import Array, Family, Rows
from scstream.families.columns import placed

LARGEST = 1e100  # beyond it squares and their sums overflow
_FEW = 1 << 12  # entries for which one sum is faster than two extremes


def check_entries(X: Rows, family: Family | type[Family]) -> None:
    """Raise unless every entry is a number that the family can take."""
    entries = X if isinstance(X, np.ndarray) else X.data if sparse.issparse(X) else X
    if entries.size <= _FEW and np.vdot(entries, entries) <= LARGEST:
        return  # the sum of squares is not below any square, and NaN if an entry is missing
    if entries.max(initial=0.0) <= LARGEST and entries.min(initial=0.0) >= -LARGEST:
        return  # nothing is missing either: a NaN is the largest of all, and not below anything
    bad = ~(np.abs(entries) <= LARGEST)
    if family.handles_missing:
        bad &= ~np.isnan(entries)
    if not bad.any():
        return
    row, column = _place(X, int(np.flatnonzero(bad)[0]))
    value = X[row, column]
    place = f"at row {row}, column {column}"
    if np.isnan(value):
        error = InputError(
            f"Input X contains NaN {place}; the {family.name} family needs every entry: fill it "
            "in, drop the row, or use a family that handles missing values, such as 'diagonal'."
        )
        raise placed(error, column, row)
    kind = "infinity (inf)" if np.isinf(value) else f"{value:g}, a value too large,"
    error = InputError(
        f"Input X contains {kind} {place}; entries must be between -{LARGEST:g} and "
        f"{LARGEST:g}: clip or rescale the column, or drop the row."
    )
    raise placed(error, column, row)


def name_column(error: InputError, feature_names: Sequence[str] | None) -> None:
    """Add the name of the column to an error that says its position only."""
    column = error.column
    if column is None or feature_names is None or column >= len(feature_names):
        return
    place, named = f"column {column}", f"column {column} ({str(feature_names[column])!r})"
    if named not in str(error):
        error.args = (str(error).replace(place, named, 1),)


def read_weight(weight: Any, n_rows: int) -> Array | None:
    """Return the weights of the rows as float64, None for none."""
    if weight is None:
        return None
    try:
        values = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight must hold numbers: {error}.") from error
    if values.ndim == 0:
        values = np.full(n_rows, values)
    if values.shape != (n_rows,):
        raise InputError(
            f"sample_weight has shape {values.shape} but X has {n_rows} rows; give one weight "
            "per row."
        )
    wrong = ~((values >= 0.0) & (values <= LARGEST))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"sample_weight is {values[row]} at row {row}; weights must be finite and must not "
            "be negative."
        )
    return values


def read_notes(ids: Any, texts: Any, n_rows: int) -> Notes:
    """Return ids and texts of the rows of a batch."""
    return Notes(_marks("ids", ids, n_rows), _marks("texts", texts, n_rows))


def _marks(name: str, values: Any, n_rows: int) -> Marks | None:
    if values is None:
        return None
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise InputError(f"{name} must be a sequence with one entry per row, got {values!r:.80}.")
    if len(values) != n_rows:
        raise InputError(f"{name} has {len(values)} entries but X has {n_rows} rows.")
    if isinstance(values, np.ndarray):
        return values.copy()  # rows may be held, and the caller may change its array
    marks = np.empty(n_rows, dtype=object)
    marks[:] = [*values]
    return marks


def read_time(time: Any) -> float:
    """Return a time as a float: a number as it is, a date and time in seconds since 1970 (UTC)."""
    seconds = _seconds(time)
    if seconds is None or not np.isfinite(seconds):
        raise InputError(
            f"time is {time!r}; it must be one finite number, datetime or numpy.datetime64 for "
            "the whole batch."
        )
    return seconds


def _seconds(time: Any) -> float | None:
    if isinstance(time, np.datetime64):
        return float((time - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    if isinstance(time, datetime):
        try:
            return float((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
        except ValueError:  # pandas.NaT is a datetime
            return None
    return float(time) if isinstance(time, Real) else None


def _place(X: Rows, entry: int) -> tuple[int, int]:
    """Row and column of an entry, counted in the order of storage."""
    if sparse.issparse(X):
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        return row, int(X.indices[entry])
    row, column = divmod(entry, X.shape[1])
    return row, column
