"""Rows with a time each: read the times, and learn the rows in their order.

The rows of one table may be from a minute or from a year. They are sorted by time and cut where
the oldest row of a piece would have lost half its weight. A piece is learned as a batch at the
time of its newest row, in which older rows have the weight that the kernel leaves of them. The
sum of weights is then what it would be if every row had come alone, to a percent: rows of small
pieces are held, and may be learned a little later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scstream.compute.rows import RemoteRows
from scstream.core.notes import NO_NOTES, Notes
from scstream.core.window import Kernel
from scstream.errors import InputError, TimeError
from scstream.families.base import Array, Rows
from scstream.io.parameters import read_kernel
from scstream.io.schema import read_time, read_weight
from scstream.learning import Update
from scstream.model import Model, Settings

Learn = Callable[..., Update]  # of model, rows, time, weight, ids and texts

_LEAST_LEFT = 0.5  # share of a row's weight when the piece that it is in is learned


def has_row_times(time: Any) -> bool:
    """Return True if `time` has a time for every row, or names the column that has them."""
    return hasattr(time, "__len__")


def take_times(X: Any, time: Any) -> tuple[Any, Any]:
    """Return the rows without the column that `time` names, and the times in that column."""
    if not isinstance(time, str):
        return X, time
    from scstream.io.frames import take_column  # narwhals is loaded for tables only

    return take_column(X, time)


def learn_in_order(
    start: Settings | Model,
    rows: Rows,
    times: Any,
    weight: Any,
    learn: Learn,
    *,
    notes: Notes = NO_NOTES,
) -> Update:
    """Learn rows with a time each; `start` is unchanged if that raises."""
    if isinstance(rows, RemoteRows):
        raise InputError("rows on a cluster are learned at one time; pass time= as one number.")
    n_rows = rows.shape[0]
    times, weight = read_times(times, n_rows), read_weight(weight, n_rows)
    now = start.time if isinstance(start, Model) else -np.inf
    if not n_rows:
        return learn(start, rows, now if isinstance(start, Model) else None, weight)
    if isinstance(start, Model) and start.config.late == "error":
        _check_in_order(times, now)
    order = np.argsort(times, kind="stable")
    kernel, labels = _kernel_of(start), np.empty(n_rows, dtype=np.int64)
    for piece in _pieces(np.maximum(times[order], now), kernel):
        places = order[piece]
        time = max(float(times[places[-1]]), now)
        left = _left(kernel, time - times[places], None if weight is None else weight[places])
        own = notes.take(places)
        update = learn(start, rows[places], time, left, own.ids, own.texts)
        start, labels[places] = update.model, update.labels
    return update._replace(labels=labels)


def read_times(times: Any, n_rows: int) -> Array:  # (N,)
    """Return the times of rows as `read_time` reads one: numbers as they are, dates in seconds."""
    values = np.asarray(times)
    if values.shape != (n_rows,):
        raise InputError(
            f"time has shape {values.shape} but X has {n_rows} rows; give one time for the whole "
            "batch, or one per row."
        )
    if values.dtype.kind == "M":
        seconds = (values - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    elif values.dtype.kind in "iuf":
        seconds = values.astype(np.float64)
    else:
        return np.array([read_time(value) for value in values], dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(seconds))
    if len(wrong):
        raise InputError(
            f"time is {values[wrong[0]]} at row {wrong[0]}; every row needs a finite number or a "
            "date: fill it in, or drop the row."
        )
    return np.asarray(seconds)


def _check_in_order(times: Array, now: float) -> None:
    late = np.flatnonzero(times < now)
    if len(late):
        row = late[np.argmin(times[late])]
        raise TimeError(
            f"{len(late)} of {len(times)} rows are older than time {now:g}, which the model has "
            f"seen, the oldest from time {times[row]:g} (row {row}); pass rows in order of time, "
            "or use late='add'."
        )


def _kernel_of(start: Settings | Model) -> Kernel:
    if isinstance(start, Model):
        return start.config.kernel
    given = start.config
    return read_kernel(start.kernel, start.half_life) if given is None else given.kernel


def _pieces(times: Array, kernel: Kernel) -> Iterator[slice]:
    """Cut times in increasing order where a piece would hold rows that have lost too much."""
    begin, n_rows = 0, len(times)
    while begin < n_rows:
        first = times[begin]

        def is_too_late(row: int, first: float = first) -> bool:
            return bool(kernel.weight(np.array([times[row] - first]))[0] < _LEAST_LEFT)

        end = bisect_left(range(n_rows), True, begin + 1, key=is_too_late)
        yield slice(begin, end)
        begin = end


def _left(kernel: Kernel, age: Array, weight: Array | None) -> Array | None:
    """Return the weights of rows of these ages; None if all are one."""
    if weight is None and not age.any():
        return None
    left = kernel.weight(age)
    return left if weight is None else left * weight
