"""Check the entries of messages, column by column, and build blocks of the valid rows.

Nothing that a message holds raises an error here: a row that cannot be used becomes a reject with
a reason. `bad` collects the reasons by row number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scstream.io.budget import MAX_CONTENT, MAX_CONTENTS, MAX_LETTERS, TooLarge
from scstream.io.schema import LARGEST, read_time
from scstream.preprocess.block import Block, Reject
from scstream.stream.schema import Schema

NUMBERS = frozenset({int, float})
PLAIN: frozenset[type] = frozenset({int, float, str, bool, type(None)})
Row = TypeVar("Row")
Read = Callable[[Any, bytes], Block]
_TEXT = frozenset({str})
_BLANK = " \t\r\ufeff"  # a byte order mark may begin a file


def within_budget(read: Read) -> Read:
    """Let a method that reads a message return one rejected row if the message is too large."""

    @wraps(read)
    def bounded(self: Any, value: bytes) -> Block:
        try:
            return read(self, value)
        except TooLarge as error:
            return reject_message(f"the message {error}", value)

    return bounded


def build_block(
    schema: Schema,
    X: NDArray[np.float64],  # (N, D)
    extra: Mapping[str, NDArray[Any]],
    *,
    bad: dict[int, str],
    content: Callable[[int], str],
    complete: bool = True,
) -> Block:
    """Return rows as a block; reject those in `bad` and those with an entry out of range.

    `complete` says whether `content` returns rows as they came.
    """
    if X.size and not (X.min() >= -LARGEST and X.max() <= LARGEST):  # also if one of them is NaN
        fits = (X >= -LARGEST) & (X <= LARGEST)  # (N, D); abs would copy all rows
        if schema.missing:
            fits |= np.isnan(X)
        for i in np.flatnonzero(~fits.all(axis=1)).tolist():
            j = int(np.argmin(fits[i]))
            bad.setdefault(i, _out_of_range((schema.features or ())[j], float(X[i, j])))
    row = np.arange(len(X))
    if not bad:
        return Block(len(X), row, X, extra)
    valid = np.ones(len(X), dtype=bool)
    valid[list(bad)] = False
    letters = _Letters()
    rejects = tuple(letters.reject(i, bad[i], content, complete) for i in sorted(bad))
    return Block(
        len(X), row[valid], X[valid], {n: values[valid] for n, values in extra.items()}, rejects
    )


def read_other_columns(
    schema: Schema, column: Callable[[str], Sequence[Any]], bad: dict[int, str]
) -> dict[str, NDArray[Any]]:
    """Return the columns that are no features: times as float64, all others as plain values."""
    # The last one holds where a column has two roles.
    kinds = {schema.text: text_column, schema.key: _key_column, schema.time: _time_column}
    extra: dict[str, NDArray[Any]] = {}
    for name in schema.other_columns:
        extra[name] = kinds.get(name, _plain_column)(name, column(name), bad)
    return extra


def block_of_lines(
    lines: Sequence[str],
    broken: dict[int, str],
    parse: Callable[[str], Row | str],
    build: Callable[[list[Row], Callable[[int], str]], Block],
) -> Block:
    """Return a block of lines; reject those in `broken` and those that `parse` gives a reason for.

    `build` makes a block of parsed rows and of a function that returns the text of a row.
    """
    rows: list[Row] = []
    at: list[int] = []  # the line of each row
    altered = set(broken)  # lines that are not as they came
    for i, line in enumerate(lines):
        row = broken.get(i) or parse(line)
        if isinstance(row, str):
            broken[i] = row
        else:
            rows.append(row)
            at.append(i)
    block = build(rows, lambda i: lines[at[i]])
    if not broken:
        return block
    number = np.array(at, dtype=np.int64)
    letters = _Letters()
    rejects = [
        letters.reject(i, reason, lines.__getitem__, i not in altered)
        for i, reason in broken.items()
    ]
    rejects += [replace(r, row=at[r.row]) for r in block.rejects]
    rejects.sort(key=lambda reject: reject.row)
    return Block(len(lines), number[block.row], block.X, block.extra, tuple(rejects))


def text_lines(value: bytes, *, blank: str = _BLANK) -> tuple[list[str], dict[int, str]]:
    """Return the lines of a message that are not blank, and a reason for each that is not UTF-8."""
    try:
        lines = [line.strip(blank) for line in value.decode().split("\n")]
        return [line for line in lines if line], {}
    except UnicodeDecodeError:
        raw = [line for line in value.split(b"\n") if line.decode(errors="replace").strip(blank)]
    broken = {
        i: "the line is not text in UTF-8." for i, line in enumerate(raw) if not _decodes(line)
    }
    return [line.decode(errors="replace").strip(blank) for line in raw], broken


def reject_message(reason: str, value: bytes) -> Block:
    """Return the block of a message that cannot be read, with its text or the beginning of it."""
    try:
        content, is_text = value[: 4 * MAX_CONTENT].decode(), True
    except UnicodeDecodeError:
        content, is_text = value[: 4 * MAX_CONTENT].decode(errors="replace"), False
    complete = is_text and len(value) <= 4 * MAX_CONTENT and len(content) <= MAX_CONTENT
    return Block.rejected(reason, content[:MAX_CONTENT], complete=complete)


class _Letters:
    """The rejected rows of one message; their contents are bounded, each and together."""

    def __init__(self) -> None:
        self._n_left, self._characters_left = MAX_LETTERS, MAX_CONTENTS

    def reject(
        self, row: int, reason: str, content: Callable[[int], str], complete: bool
    ) -> Reject:
        if self._n_left <= 0 or self._characters_left <= 0:
            return Reject(row, reason)
        text = content(row)
        kept = text[:MAX_CONTENT]
        self._n_left, self._characters_left = self._n_left - 1, self._characters_left - len(kept)
        return Reject(row, reason, kept, complete and len(kept) == len(text))


def number_column(
    name: str, values: Sequence[Any], bad: dict[int, str], *, missing: bool
) -> NDArray[np.float64]:  # (N,)
    """Return plain values as numbers."""
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
    """Return an entry as a number, or the reason why it is none."""
    if type(value) in NUMBERS:
        try:
            return float(value)
        except OverflowError:
            return f"column {quoted(name)} holds a whole number that is out of range."
    if value is None:
        return math.nan if missing else f"column {quoted(name)} is missing."
    return f"column {quoted(name)} {_instead('a number', value)}."


def text_column(name: str, values: Sequence[Any], bad: dict[int, str]) -> NDArray[Any]:
    """Return a column of text."""
    return _each(name, values, bad, _text, ready=_TEXT)


def quoted(value: Any) -> str:
    """Return a value as an error message shows it: at most one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _out_of_range(name: str, entry: float) -> str:
    if math.isnan(entry):
        return f"column {quoted(name)} holds NaN or nothing."
    return f"column {quoted(name)} holds {entry:g}, which is out of range."


def _time_column(name: str, values: Sequence[Any], bad: dict[int, str]) -> NDArray[np.float64]:
    """Return times as seconds since 1970."""
    return _each(name, values, bad, _seconds).astype(np.float64)


def _key_column(name: str, values: Sequence[Any], bad: dict[int, str]) -> NDArray[Any]:
    """Return keys as text; a whole number is a key too."""
    return _each(name, values, bad, _key, ready=_TEXT)


def _plain_column(name: str, values: Sequence[Any], bad: dict[int, str]) -> NDArray[Any]:
    """Return plain values as they are; arrays and objects are not plain."""
    return _each(name, values, bad, _plain_value, ready=PLAIN)


def _each(
    name: str,
    values: Sequence[Any],
    bad: dict[int, str],
    read: Callable[[Any], Any],
    *,
    ready: frozenset[type] = frozenset(),
) -> NDArray[Any]:  # (N,)
    """Read every value; skip that if all values are ready as they are."""
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


def _seconds(value: Any) -> float:
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


def _key(value: Any) -> str:
    if type(value) is int:
        return str(value)
    return _text(value)


def _text(value: Any) -> str:
    """Return text that can be encoded: JSON can hold half a surrogate pair, which cannot."""
    if not isinstance(value, str):
        raise ValueError(_instead("text", value))
    return value if value.isascii() else value.encode(errors="replace").decode()


def _plain_value(value: Any) -> Any:
    if type(value) not in PLAIN:
        raise ValueError(_instead("a plain value", value))
    return _text(value) if isinstance(value, str) else value


def _instead(wanted: str, value: Any) -> str:
    if value is None:
        return "is missing"
    kinds: dict[type, str] = {list: "an array", dict: "an object"}
    return f"holds {kinds.get(type(value)) or quoted(value)}, which is not {wanted}"


def _decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
