"""Messages to rows and back: JSON, columns of JSON, Arrow, raw numbers.

Nothing that a message holds can raise: what cannot be used becomes a reject with a reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scstream.errors import InputError
from scstream.io.schema import LARGEST
from scstream.preprocess.block import Block, Reject
from scstream.stream.checks import (
    key_column,
    out_of_range_reason,
    plain_column,
    text_column,
    time_column,
)
from scstream.stream.sink import Delivery, plain_rows

FORMATS = ("json", "columns", "arrow", "floats", "floats32")
SHOWN = 1000  # characters of a refused row

_BLANK = " \t\r\ufeff"  # a byte order mark may begin a file


@dataclass(frozen=True)
class Schema:
    """Which columns of a message are what.

    Parameters
    ----------
    features : sequence of str or None
        Columns of numbers, in this order. None: all columns of numbers in the first sound row that
        are not named below, in the order in which they come. A row that is a bare array of numbers
        has the columns "x0", "x1" and so on if none are named.
    keep : sequence of str
        Columns of any plain type, passed on to the sink; null where a row has none.
    key : str or None
        Column that says which model a row belongs to: text or a whole number.
    time : str or None
        Column of event time: a number of seconds since 1970, or text in ISO 8601, by default UTC.
    text : str or None
        Column of text, for the text steps of a pipeline.
    missing : bool
        Whether entries of features may be null, NaN or left out.

    Examples
    --------
    >>> from scstream.stream.messages import Schema
    >>> Schema(keep=["name"]).settle(["name", "x", "y"]).features
    ('x', 'y')
    """

    features: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    key: str | None = None
    time: str | None = None
    text: str | None = None
    missing: bool = False

    def __post_init__(self) -> None:
        if self.features is not None:
            object.__setattr__(self, "features", _names("features", self.features))
        object.__setattr__(self, "keep", _names("keep", self.keep))
        for role in ("key", "time", "text"):
            name = getattr(self, role)
            if name is not None and (not isinstance(name, str) or not name):
                raise InputError(f"{role} must be the name of a column, got {name!r}.")

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of all columns that travel with the features."""
        roles = [name for name in (self.key, self.time, self.text) if name is not None]
        return tuple(dict.fromkeys((*self.keep, *roles)))

    def settle(self, names: Iterable[str]) -> Schema:
        """Return the schema with features: those it has, or else these names that are free."""
        if self.features is not None:
            return self
        free = (name for name in names if name not in self.passed and name and _utf8(name))
        return replace(self, features=tuple(dict.fromkeys(free)))

    @property
    def is_empty(self) -> bool:
        """Whether a row would hold nothing to learn from."""
        return self.features == () and self.text is None


def _names(role: str, names: Any) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else tuple(names)
    for name in listed:
        if not isinstance(name, str) or not name:
            raise InputError(f"{role} must be names of columns, got {name!r} among them.")
        if listed.count(name) > 1:
            raise InputError(f"{role} names column {name!r} twice.")
    return listed


def _utf8(name: str) -> bool:
    """Whether a name can be encoded; one that cannot would fail in every file it is written to."""
    return name.isascii() or name.encode(errors="replace").decode() == name


class Reader(Protocol):
    """Reads messages of one format; its `schema` has features after the first sound row."""

    schema: Schema

    def read(self, value: bytes) -> Block:
        """Return the rows of a message; one of nothing but white space has none."""
        ...


def reader(format: str, schema: Schema) -> Reader:
    r"""Return a reader of messages.

    Parameters
    ----------
    format : {"json", "columns", "arrow", "floats", "floats32"}
        "json" is one object, or array of numbers, per line; "columns" one object of arrays of the
        same length; "arrow" an Arrow IPC stream; "floats" and "floats32" a matrix of little-endian
        numbers, row by row, which is one row where the schema names no features.
    schema : Schema
        Which columns are what.

    Examples
    --------
    >>> from scstream.stream.messages import Schema, reader
    >>> lines = reader("json", Schema(keep=("name",)))
    >>> block = lines.read(b'{"x": 1.5, "name": "a"}\n{"x": null, "name": "b"}')
    >>> block.X.tolist(), block.extra["name"].tolist(), block.rejects[0].reason
    ([[1.5]], ['a'], "column 'x' is missing.")
    """
    if schema.is_empty:
        raise InputError("features is empty and there is no text; name a column to learn from.")
    if format in ("json", "columns"):
        from scstream.stream.json_messages import JsonColumns, JsonLines  # they build on this page

        return JsonLines(schema) if format == "json" else JsonColumns(schema)
    if format == "arrow":
        from scstream.stream.arrow import ArrowReader

        return ArrowReader(schema)
    if format not in FORMATS:
        raise InputError(f"there is no format {format!r}; use one of {', '.join(FORMATS)}.")
    if schema.passed or schema.features == ():
        raise InputError(
            f"messages of format {format!r} hold features only, no column {schema.passed[0]!r}; "
            "use arrow, columns or json."
        )
    return _Floats(schema, "<f4" if format == "floats32" else "<f8")


class _Floats:
    """A matrix of little-endian numbers."""

    def __init__(self, schema: Schema, dtype: str) -> None:
        self.schema = schema
        self._dtype = np.dtype(dtype)

    def read(self, value: bytes) -> Block:
        """Return the rows of a message."""
        count, rest = divmod(len(value), self._dtype.itemsize)
        schema = self.schema.settle(f"x{j}" for j in range(count))
        width = len(schema.features or ())
        if rest or (width and count % width):
            return Block.rejected(
                f"the message has {len(value)} bytes, which is no whole number of rows of {width} "
                f"numbers of {self._dtype.itemsize} bytes.",
                value[:40].hex(),
            )
        with np.errstate(invalid="ignore"):  # a NaN that signals
            X = np.frombuffer(value, self._dtype).astype(np.float64).reshape(-1, max(width, 1))
        block = build_block(schema, X, {}, bad={}, content=lambda i: json.dumps(X[i].tolist()))
        if len(block.row):
            self.schema = schema
        return block


def writer(format: str) -> Callable[[Delivery], list[bytes]]:
    """Return a function that turns a delivery into messages.

    Parameters
    ----------
    format : {"json", "columns", "arrow"}
        "json" gives a message per row, the others one per delivery. Numbers that JSON does not
        know, NaN and infinity, become null.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.stream.messages import writer
    >>> from scstream.stream.sink import Delivery
    >>> columns = {"batch": np.zeros(2, int), "index": np.arange(2), "cluster": np.array([3, 3])}
    >>> writer("json")(Delivery("demo", 0, columns))[1]
    b'{"batch":0,"index":1,"cluster":3}'
    """
    if format == "json":
        return lambda delivery: [to_json(row) for row in plain_rows(delivery)]
    if format == "columns":
        return lambda delivery: [to_json({n: v.tolist() for n, v in delivery.columns.items()})]
    if format == "arrow":
        from scstream.stream.arrow import stream_bytes

        return lambda delivery: [stream_bytes(delivery.columns)]
    raise InputError(f"labels cannot be written as {format!r}; use json, columns or arrow.")


def to_json(value: Any) -> bytes:
    r"""Return compact JSON in ASCII; what JSON does not know becomes null or text.

    Examples
    --------
    >>> from scstream.stream.messages import to_json
    >>> to_json({"x": float("nan"), "name": "é"})
    b'{"x":null,"name":"\\u00e9"}'
    """
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"), default=_known)
    except ValueError:
        text = json.dumps(_finite(value), separators=(",", ":"), default=_known)
    return text.encode()


def _known(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def build_block(
    schema: Schema,
    X: NDArray[np.float64],  # (N, D)
    kept: Mapping[str, NDArray[Any]],
    *,
    bad: dict[int, str],
    content: Callable[[int], str],
) -> Block:
    """Return rows as a block, those refused that are in `bad` or hold an entry out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.stream.messages import Schema, build_block
    >>> X = np.array([[1.0], [np.inf]])
    >>> build_block(Schema(("x",)), X, {}, bad={}, content=str).rejects[0].reason
    "column 'x' holds inf, which is out of range."
    """
    if X.size and not (X.min() >= -LARGEST and X.max() <= LARGEST):  # also if one of them is NaN
        fits = np.abs(X) <= LARGEST  # (N, D)
        if schema.missing:
            fits |= np.isnan(X)
        for i in np.flatnonzero(~fits.all(axis=1)).tolist():
            j = int(np.argmin(fits[i]))
            bad.setdefault(i, out_of_range_reason((schema.features or ())[j], float(X[i, j])))
    row = np.arange(len(X))
    if not bad:
        return Block(len(X), row, X, kept)
    sound = np.ones(len(X), dtype=bool)
    sound[list(bad)] = False
    rejects = tuple(Reject(i, bad[i], content(i)[:SHOWN]) for i in sorted(bad))
    return Block(
        len(X), row[sound], X[sound], {n: values[sound] for n, values in kept.items()}, rejects
    )


def read_other_columns(
    schema: Schema, column: Callable[[str], Sequence[Any]], bad: dict[int, str]
) -> dict[str, NDArray[Any]]:
    """Return the columns that are no features; rows that hold none of the right kind go to `bad`.

    Times are float64, all others hold plain Python values, so that blocks join without a change
    of type.

    Examples
    --------
    >>> from scstream.stream.messages import Schema, read_other_columns
    >>> columns = {"at": ["1970-01-02", 5], "who": [7, "b"]}
    >>> read_other_columns(Schema(time="at", key="who"), columns.__getitem__, {})
    {'who': array(['7', 'b'], dtype=object), 'at': array([8.64e+04, 5.00e+00])}
    """
    # The last one holds where a column has two roles.
    kinds = {schema.text: text_column, schema.key: key_column, schema.time: time_column}
    kept: dict[str, NDArray[Any]] = {}
    for name in schema.passed:
        kept[name] = kinds.get(name, plain_column)(name, column(name), bad)
    return kept


def with_broken_lines(
    block: Block, at: Sequence[int], lines: Sequence[str], *, broken: Mapping[int, str]
) -> Block:
    """Return a block of some lines, those numbered `at`, as one of all; the others are broken.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.stream.messages import with_broken_lines
    >>> whole = with_broken_lines(Block.of(np.ones((1, 1))), [1], ["{", "[1]"], broken={0: "torn."})
    >>> whole.row, whole.rejects
    (array([1]), (Reject(row=0, reason='torn.', content='{'),))
    """
    if not broken:
        return block
    number = np.array(at, dtype=np.int64)
    rejects = [Reject(i, reason, lines[i][:SHOWN]) for i, reason in broken.items()]
    rejects += [Reject(at[r.row], r.reason, r.content) for r in block.rejects]
    rejects.sort(key=lambda reject: reject.row)
    return Block(len(lines), number[block.row], block.X, block.extra, tuple(rejects))


def text_lines(value: bytes, *, blank: str = _BLANK) -> tuple[list[str], dict[int, str]]:
    r"""Return the lines of a message that are not blank, and which of them are no text, and why.

    Examples
    --------
    >>> from scstream.stream.messages import text_lines
    >>> text_lines(b"a\r\n\nb\n")
    (['a', 'b'], {})
    >>> text_lines(b"a\n\xff\n")[1]
    {1: 'the line is not text in UTF-8.'}
    """
    try:
        lines = [line.strip(blank) for line in value.decode().split("\n")]
        return [line for line in lines if line], {}
    except UnicodeDecodeError:
        raw = [line for line in value.split(b"\n") if line.decode(errors="replace").strip(blank)]
    broken = {
        i: "the line is not text in UTF-8." for i, line in enumerate(raw) if not _decodes(line)
    }
    return [line.decode(errors="replace").strip(blank) for line in raw], broken


def _decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def shown(value: bytes) -> str:
    """Return the beginning of a message as text.

    Examples
    --------
    >>> from scstream.stream.messages import shown
    >>> shown(b"abc")
    'abc'
    """
    return value[:SHOWN].decode(errors="replace")
