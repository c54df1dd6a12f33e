"""Decode the rows in the body of a request, JSON or Arrow, and check them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from scstream.errors import missing_extra
from scstream.families.base import Array
from scstream.io.budget import check_json
from scstream.io.header import Plain
from scstream.io.schema import LARGEST
from scstream.preprocess.block import Block
from scstream.serve.api_errors import ApiError
from scstream.serve.model import text_of
from scstream.stream.checks import NUMBERS, number_column, quoted, text_column
from scstream.stream.keyed_version import KeyedVersion, Version
from scstream.stream.schema import Schema

try:
    import orjson
except ImportError as error:
    raise missing_extra("orjson", "serve") from error

JSON = b"application/json"
ARROW = b"application/vnd.apache.arrow.stream"
_LONG = 2**18  # bytes of a body whose brackets are counted before it is parsed
_MAX_QUOTES = 100_000  # quotation marks at which a body is split
_PARTS = ("columns", "rows", "time", "probabilities", "key")


@dataclass(frozen=True)
class RowFormat:
    """The rows that a model accepts: columns of numbers, or one column of text."""

    names: tuple[str, ...]
    text: str | None = None  # then there are no other columns
    missing: bool = False  # entries may be null

    @classmethod
    def of(cls, version: Version) -> Self:
        """Return the format of rows before preprocessing."""
        if isinstance(version, KeyedVersion):
            return cls(() if version.text else version.columns or (), text=version.text)
        family = version.model.family
        text = text_of(version)
        if text is not None:
            return cls((), text=text)
        names = version.columns
        if names is None:
            names = tuple(f"x{j}" for j in range(family.n_features))
        return cls(names, missing=family.handles_missing)

    @property
    def width(self) -> int:
        """Number of columns of numbers."""
        return len(self.names)


@dataclass(frozen=True)
class RowsRequest:
    """The rows of a request, before preprocessing, and its options."""

    rows: Array | Block
    time: float | None = None
    probabilities: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows if isinstance(self.rows, Block) else len(self.rows)

    @property
    def block(self) -> Block:
        """The rows as a block."""
        return self.rows if isinstance(self.rows, Block) else Block.of(self.rows)


def read_json(body: bytes, form: RowFormat, *, max_n: int) -> RowsRequest:
    """Read a body of JSON; raises `ApiError`, or `TooLarge`."""
    return rows_request(load_json(body, form, max_n=max_n), body, form, max_n=max_n)


def load_json(body: bytes, form: RowFormat, *, max_n: int) -> Plain:
    """Return the fields of a body of JSON, whose rows are not checked yet."""
    if len(body) > _LONG and form.text is None:
        # An empty array takes a few bytes in a body, but many in memory.
        _check_count(body.count(b"[") + body.count(b"{") - form.width - len(_PARTS), max_n)
    check_json(body)
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(
            "NotJson",
            f"the body is not JSON: {error}. NaN and Infinity are not JSON; write a "
            "missing entry as null.",
        ) from None
    if type(content) is not dict:
        raise _invalid("the body must be a JSON object with 'columns' or 'rows'.")
    for name in content:
        if name not in _PARTS:
            raise _invalid(f"the body has a field {quoted(name)}; it may have {', '.join(_PARTS)}.")
    if ("columns" in content) == ("rows" in content):
        raise _invalid("the body must have either 'columns' or 'rows'.")
    return content


def key_of(content: Plain, given: str | None) -> str | None:
    """Return the key in the body or in the query; raises `ApiError` if they contradict."""
    key = content.get("key")
    if key is None:
        return given
    if type(key) not in (str, int):
        raise _invalid(f"'key' must be a text or a whole number, got {quoted(key)}.")
    if given not in (None, str(key)):
        raise _invalid("the body and the query name different keys; give one of them.")
    return str(key)


def rows_request(content: Plain, body: bytes, form: RowFormat, *, max_n: int) -> RowsRequest:
    """Return the rows in the fields of a body, and its options."""
    rows = _rows(content, body, form, max_n)
    return RowsRequest(rows, _time(content.get("time")), _flag(content.get("probabilities", False)))


def read_arrow(body: bytes, form: RowFormat, *, max_n: int) -> RowsRequest:
    """Read a body that is an Arrow IPC stream; raises `ApiError`, or `TooLarge`."""
    from scstream.stream.arrow import DAMAGE, ArrowReader, StreamHeader, short

    try:
        header = StreamHeader.of(body)
    except DAMAGE as error:
        raise ApiError("NotArrow", f"the body is not an Arrow stream: {short(error)}.") from None
    _check_count(header.n_rows, max_n, is_header=True)
    header.check(form.width)
    if form.text is None:
        _check_names(header.columns_of_numbers(nulls=form.missing), form.names)
    block = ArrowReader(Schema(form.names, text=form.text, missing=form.missing)).read(body)
    if block.rejects:
        is_torn = len(block.rejects) == 1 and not block.X.shape[1] and form.text is None
        first = block.rejects[0]
        detail = first.reason if is_torn else f"row {first.row} cannot be used: {first.reason}"
        raise ApiError("NotArrow" if is_torn else "InputError", detail)
    return RowsRequest(block)


def _rows(content: Plain, body: bytes, form: RowFormat, max_n: int) -> Array | Block:
    if "rows" in content:
        entries = content["rows"]
        if form.text is not None:
            raise _invalid(f"this model reads the column of text {form.text!r}; send 'columns'.")
        if type(entries) is not list:
            raise _invalid("'rows' must be an array of arrays of numbers.")
        _check_count(len(entries), max_n)
        if not entries:
            return np.zeros((0, form.width))
        X = _as_table(entries, body)
        return X if X is not None and X.shape[1] == form.width else _row_by_row(entries, form)
    columns = content["columns"]
    if type(columns) is not dict:
        raise _invalid("'columns' must be an object of arrays, one for each column.")
    if form.text is not None:
        return _text_block(columns, form.text, max_n)
    try:
        lists = [columns[name] for name in form.names]
    except KeyError:
        lists = []
    if len(lists) != len(columns) or not lists:
        _check_names(tuple(columns), form.names)
    if type(lists[0]) is list:
        _check_count(len(lists[0]), max_n)
    X = _as_table(lists, body)
    return _column_by_column(lists, form) if X is None else np.ascontiguousarray(X.T)


def _as_table(lists: list[Any], body: bytes) -> Array | None:  # (number of lists, their length)
    """Return lists of numbers as a table; None if the entries must be checked one by one.

    `array` rejects texts and nulls, but takes booleans for numbers.
    """
    if _may_hold_booleans(body) or not all(type(values) is list for values in lists):
        return None
    width = len(lists[0])
    entries: list[Any] = []
    for values in lists:
        if len(values) != width:
            return None
        entries += values
    try:
        numbers = array("d", entries)
    except (TypeError, OverflowError):
        return None
    return np.frombuffer(numbers).reshape(len(lists), width)


def _may_hold_booleans(body: bytes) -> bool:
    """Return True if "true" or "false" may occur outside of quoted names."""
    if b"t" not in body and b"f" not in body:
        return False
    if b"\\" in body:  # an escaped quotation mark does not end a name
        return True
    between = b"".join(body.split(b'"', _MAX_QUOTES)[::2])
    return b"t" in between or b"f" in between


def _column_by_column(lists: list[Any], form: RowFormat) -> Array:
    for name, values in zip(form.names, lists, strict=True):
        if type(values) is not list:
            raise _invalid(f"column {quoted(name)} must be an array of numbers.")
        if len(values) != len(lists[0]):
            raise _invalid(
                f"columns {quoted(form.names[0])} and {quoted(name)} differ in length, "
                f"{len(lists[0])} and {len(values)}; send one entry of each for every row."
            )
    X = np.empty((len(lists[0]), form.width))
    bad: dict[int, str] = {}
    for j, (name, values) in enumerate(zip(form.names, lists, strict=True)):
        X[:, j] = number_column(name, values, bad, missing=form.missing)
    if bad:
        row = min(bad)
        raise _invalid(f"row {row} cannot be used: {bad[row]}")
    return X


def _row_by_row(entries: list[Any], form: RowFormat) -> Array:
    for i, row in enumerate(entries):
        if type(row) is not list:
            raise _invalid(f"row {i} must be an array of numbers, in the order of the columns.")
        if len(row) != form.width:
            raise _invalid(
                f"row {i} has {len(row)} entries where {form.width} are expected, in this order: "
                f"{_join_names(form.names)}."
            )
    return _column_by_column([list(column) for column in zip(*entries, strict=True)], form)


def _text_block(columns: Mapping[str, object], name: str, max_n: int) -> Block:
    _check_names(tuple(columns), (name,))
    values = columns[name]
    if type(values) is not list:
        raise _invalid(f"column {quoted(name)} must be an array of texts.")
    _check_count(len(values), max_n)
    bad: dict[int, str] = {}
    texts = text_column(name, values, bad)
    if bad:
        row = min(bad)
        raise _invalid(f"row {row} cannot be used: {bad[row]}")
    return Block.of(np.zeros((len(values), 0)), **{name: texts})


def _check_names(found: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in found:
            raise _invalid(
                f"there is no column {quoted(name)} of numbers; this model needs the columns "
                f"{_join_names(wanted)}."
            )
    for name in found:
        if name not in wanted:
            raise _invalid(
                f"this model has no column {quoted(name)}; leave it out. It has the columns "
                f"{_join_names(wanted)}."
            )


def _check_count(n_rows: int, max_n: int, *, is_header: bool = False) -> None:
    if n_rows > max_n:
        raise ApiError(
            "TooLarge" if is_header else "TooManyRows",
            f"the body has {n_rows} rows and {max_n} are allowed; send them in parts.",
        )


def _time(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in NUMBERS or not abs(value) <= LARGEST:
        raise _invalid(
            f"'time' {quoted(value)} must be a number within {LARGEST:g} of zero, on the clock of "
            "the batches that the model has learned."
        )
    return float(value)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise _invalid("'probabilities' must be true or false.")
    return value


def _join_names(names: Sequence[str]) -> str:
    shown = ", ".join(map(quoted, names[:_MAX_NAMES]))
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES} more"


_MAX_NAMES = 20  # names of columns in a message


def _invalid(detail: str) -> ApiError:
    return ApiError("InputError", detail)
