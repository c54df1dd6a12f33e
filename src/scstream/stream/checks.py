"""Single entries of a message: what is a number, a time, a key, text, and what to say if not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.io.schema import LARGEST, read_time

NUMBERS = frozenset({int, float})
_TEXT = frozenset({str})
PLAIN: frozenset[type] = frozenset({int, float, str, bool, type(None)})


def number_column(
    name: str, values: Sequence[Any], bad: dict[int, str], *, missing: bool
) -> NDArray[np.float64]:  # (N,)
    """Return a list of plain values as numbers; rows that hold something else go to `bad`.

    Examples
    --------
    >>> from scstream.stream.checks import number_column
    >>> number_column("x", [1, 2.5], {}, missing=False)
    array([1. , 2.5])
    """
    if NUMBERS.issuperset(map(type, values)):
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:  # a whole number beyond all floats
            pass
    X = np.full(len(values), np.nan)
    for i, value in enumerate(values):
        entry = number(name, value, missing=missing)
        if isinstance(entry, str):
            bad.setdefault(i, entry)
        else:
            X[i] = entry
    return X


def number(name: str, value: Any, *, missing: bool) -> float | str:
    """Return an entry as a number, or why it is none.

    Examples
    --------
    >>> from scstream.stream.checks import number
    >>> number("x", 2, missing=False), number("x", None, missing=False)
    (2.0, "column 'x' is missing.")
    """
    if type(value) in NUMBERS:
        try:
            return float(value)
        except OverflowError:
            return f"column {quoted(name)} holds a whole number that is out of range."
    if value is None:
        return math.nan if missing else f"column {quoted(name)} is missing."
    return f"column {quoted(name)} {_instead('a number', value)}."


def out_of_range_reason(name: str, entry: float) -> str:
    """Say why a number cannot be an entry.

    Examples
    --------
    >>> from scstream.stream.checks import out_of_range_reason
    >>> out_of_range_reason("x", float("inf"))
    "column 'x' holds inf, which is out of range."
    """
    if math.isnan(entry):
        return f"column {quoted(name)} holds NaN or nothing."
    return f"column {quoted(name)} holds {entry:g}, which is out of range."


def seconds(value: Any) -> float:
    """Return a time as seconds since 1970; raises ValueError with a reason.

    Examples
    --------
    >>> from scstream.stream.checks import seconds
    >>> seconds("1970-01-01T01:00:00.5+01:00")
    0.5
    """
    if type(value) in NUMBERS:
        if not abs(value) <= LARGEST:
            raise ValueError("holds a time that is out of range")
        return float(value)
    if not isinstance(value, str):
        raise ValueError(_instead("a time", value))
    try:
        return read_time(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        raise ValueError(_instead("a time", value)) from None


def time_column(name: str, values: Sequence[Any], bad: dict[int, str]) -> NDArray[np.float64]:
    """Return times as seconds since 1970; rows that hold something else go to `bad`.

    Examples
    --------
    >>> from scstream.stream.checks import time_column
    >>> time_column("at", ["1970-01-02", 5], {})
    array([8.64e+04, 5.00e+00])
    """
    return _each(name, values, bad, seconds).astype(np.float64)


def key_column(name: str, values: Sequence[Any], bad: dict[int, str]) -> NDArray[Any]:
    """Return keys as text; rows that hold neither text nor a whole number go to `bad`.

    Examples
    --------
    >>> from scstream.stream.checks import key_column
    >>> key_column("who", [7, "b"], {})
    array(['7', 'b'], dtype=object)
    """
    return _each(name, values, bad, _key, ready=_TEXT)


def text_column(name: str, values: Sequence[Any], bad: dict[int, str]) -> NDArray[Any]:
    """Return text; rows that hold something else go to `bad`.

    Examples
    --------
    >>> from scstream.stream.checks import text_column
    >>> bad = {}
    >>> text_column("detail", ["a", 7], bad), bad
    (array(['a', None], dtype=object), {1: "column 'says' holds 7, which is not text."})
    """
    return _each(name, values, bad, _text, ready=_TEXT)


def plain_column(name: str, values: Sequence[Any], bad: dict[int, str]) -> NDArray[Any]:
    """Return plain values as they are; rows that hold an array or an object go to `bad`.

    Examples
    --------
    >>> from scstream.stream.checks import plain_column
    >>> plain_column("name", ["a", None, 1.5], {})
    array(['a', None, 1.5], dtype=object)
    """
    return _each(name, values, bad, _plain, ready=PLAIN)


def _each(
    name: str,
    values: Sequence[Any],
    bad: dict[int, str],
    read: Callable[[Any], Any],
    *,
    ready: frozenset[type] = frozenset(),
) -> NDArray[Any]:  # (N,)
    """Read every value, unless all are ready; where one cannot be read its row is bad."""
    column = np.full(len(values), None, dtype=object)
    if ready.issuperset(map(type, values)) and all(v.isascii() for v in values if type(v) is str):
        column[:] = values
        return column
    for i, value in enumerate(values):
        try:
            column[i] = read(value)
        except ValueError as error:
            bad.setdefault(i, f"column {quoted(name)} {error}.")
    return column


def _key(value: Any) -> str:
    if type(value) is int:
        return str(value)
    return _text(value)


def _text(value: Any) -> str:
    """Return text that can be encoded: half a surrogate pair, which JSON can hold, cannot."""
    if not isinstance(value, str):
        raise ValueError(_instead("text", value))
    return value if value.isascii() else value.encode(errors="replace").decode()


def _plain(value: Any) -> Any:
    if type(value) not in PLAIN:
        raise ValueError(_instead("a plain value", value))
    return _text(value) if isinstance(value, str) else value


def quoted(value: Any) -> str:
    """Return a value as a reason shows it, which is no longer than a line.

    Examples
    --------
    >>> from scstream.stream.checks import quoted
    >>> quoted("x")
    "'x'"
    """
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _instead(wanted: str, value: Any) -> str:
    if value is None:
        return "is missing"
    kinds: dict[type, str] = {list: "an array", dict: "an object"}
    return f"holds {kinds.get(type(value)) or quoted(value)}, which is not {wanted}"
