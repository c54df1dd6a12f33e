"""Rows as scikit-learn's users pass them: arrays, tables, sparse matrices, rows on a cluster."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, timedelta
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from scstream.compute.rows import RemoteRows, canonical
from scstream.core.retype import known_entries
from scstream.errors import InputError
from scstream.families.base import Family, Rows
from scstream.families.scales import TooFar
from scstream.io.schema import check_entries, name_column

_ABOUT_TIMES = (
    "Pass the time of a batch as time=, and leave the column out; or derive numbers from it, such "
    "as the hour of the day."
)


def validate_rows(estimator: Any, X: Any, kind: Family | type[Family], *, first: bool) -> Rows:
    """Return rows as float64, in CSR if they are sparse and the family accepts sparse rows.

    With `first`, set `n_features_in_`, `feature_names_in_` and `_levels` of the estimator;
    otherwise check the columns against them. The entries are not checked: `Model.update` does that.
    """
    if not first and _is_plain(estimator, X):
        return X
    if isinstance(X, RemoteRows):
        return _remote_rows(estimator, X, kind, first=first)
    how = {
        "accept_sparse": "csr" if kind.accepts_sparse else False,
        "dtype": np.float64,
        "ensure_all_finite": False,
        "ensure_min_samples": 1 if first else 0,
    }
    _refuse_dates(X)
    try:
        if _is_table(X):
            from scstream.io.frames import table_levels, table_rows

            validate_data(estimator, X, reset=first, skip_check_array=True)
            levels = table_levels(X) if first else estimator.model_.settings.levels
            rows = check_array(table_rows(X, levels), estimator=estimator, input_name="X", **how)
            if first:
                estimator._levels = levels
        else:
            rows = validate_data(estimator, X, reset=first, **how)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        _explain_entries(X, error)
        if isinstance(error, TypeError):
            raise
        raise InputError(str(error)) from error
    return canonical(rows) if sparse.issparse(rows) else rows


def rows_to_predict(estimator: Any, X: Any, family: Family, *, typed: bool = False) -> Rows:
    """Return rows as float64; raise `InputError` if the family cannot compare them.

    A row that lies too far out to be learned can be compared: it belongs to no cluster. With
    `typed` the types of the columns were found by "auto": a value that a binary column did not
    have before says nothing yet, and is missing.
    """
    if isinstance(X, RemoteRows):
        raise InputError(
            "a model can learn rows on a cluster but not predict them; predict some of them, "
            "rows[places], or rows.gathered()."
        )
    rows = validate_rows(estimator, X, family, first=False)
    if typed and isinstance(rows, np.ndarray):
        rows = known_entries(family, rows)
    try:
        check_entries(rows, family)
        with suppress(TooFar):
            family.check(rows)
    except InputError as error:
        name_column(error, getattr(estimator, "feature_names_in_", None))
        raise
    return rows


def _refuse_dates(X: Any) -> None:
    """Raise if an array holds times, which numpy would count in nanoseconds."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise InputError(f"X holds {X.dtype}. {_ABOUT_TIMES}")


def _explain_entries(X: Any, error: Exception) -> None:
    """Raise an `InputError` that names the first text or time among the entries, if there is one.

    Other errors of scikit-learn say what is wrong.
    """
    if not isinstance(X, np.ndarray | list | tuple) or not _is_about_an_entry(error):
        return
    entries = np.asarray(X, dtype=object)
    if entries.ndim != 2:
        return
    for (row, column), value in np.ndenumerate(entries):
        place = f"row {row}, column {column}"
        if isinstance(value, date | timedelta | np.datetime64 | np.timedelta64):
            raise InputError(f"{place} holds the time {value}. {_ABOUT_TIMES}") from error
        if isinstance(value, str) and not _is_number(value):
            raise InputError(
                f"{place} holds the text {str(value)[:40]!r}: could not convert string to float. "
                "Pass a table of pandas or polars, in which a column of texts is one of "
                "categories; or leave the column out, or turn it into numbers first."
            ) from error


def _is_about_an_entry(error: Exception) -> bool:
    return isinstance(error, TypeError) or "could not convert string" in str(error)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_plain(estimator: Any, X: Any) -> bool:
    """Return True if scikit-learn would return exactly this array, after slower checks."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[1] == estimator.n_features_in_
        and "feature_names_in_" not in vars(estimator)
    )


def _is_table(X: Any) -> bool:
    if isinstance(X, np.ndarray | list | tuple) or sparse.issparse(X):
        return False
    from scstream.io.frames import is_table

    return is_table(X)


def _remote_rows(estimator: Any, X: RemoteRows, kind: Any, *, first: bool) -> RemoteRows:
    """Check the shape and the names of rows on a cluster."""
    if first:
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        if X.feature_names is not None:
            estimator.feature_names_in_ = np.array(X.feature_names, dtype=object)
    if first and not X.shape[0]:
        raise InputError("the first batch has no rows; the model needs some to start with.")
    if X.is_sparse and not kind.accepts_sparse:
        raise InputError(f"the {kind.name} family needs dense rows, but these are sparse.")
    known = getattr(estimator, "feature_names_in_", None)
    if X.feature_names is not None and known is not None and [*known] != [*X.feature_names]:
        raise InputError(
            f"the columns are {', '.join(X.feature_names)}, but the model was started with "
            f"{', '.join(known)}; give RayExecutor.rows these columns."
        )
    return X
