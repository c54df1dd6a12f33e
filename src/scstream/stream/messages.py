"""Messages to rows and back: JSON, columns of JSON, Arrow, raw numbers.

Nothing that a message holds can raise: what cannot be used becomes a reject with a reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scstream.errors import InputError
from scstream.stream.block import Block, Reject
from scstream.stream.sink import Delivery, plain_rows

FORMATS = ("json", "columns", "arrow", "floats", "floats32")
LARGEST = 1e100  # of an entry; its square is still a number
SHOWN = 1000  # characters of a refused row

_NUMBERS = frozenset({int, float})
_TEXT = frozenset({str})
_PLAIN: frozenset[type] = frozenset({int, float, str, bool, type(None)})
_BLANK = " \t\r\ufeff"  # a byte order mark may begin a file
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


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
    >>> block.X.tolist(), block.kept["name"].tolist(), block.rejects[0].reason
    ([[1.5]], ['a'], "column 'x' is missing.")
    """
    if schema.is_empty:
        raise InputError("features is empty and there is no text; name a column to learn from.")
    if format == "json":
        return _JsonLines(schema)
    if format == "columns":
        return _JsonColumns(schema)
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


def judged(
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
    >>> from scstream.stream.messages import Schema, judged
    >>> X = np.array([[1.0], [np.inf]])
    >>> judged(Schema(("x",)), X, {}, bad={}, content=str).rejects[0].reason
    "column 'x' holds inf, which is out of range."
    """
    if X.size and not (X.min() >= -LARGEST and X.max() <= LARGEST):  # also if one of them is NaN
        fits = np.abs(X) <= LARGEST  # (N, D)
        if schema.missing:
            fits |= np.isnan(X)
        for i in np.flatnonzero(~fits.all(axis=1)).tolist():
            j = int(np.argmin(fits[i]))
            bad.setdefault(i, _misfit((schema.features or ())[j], float(X[i, j])))
    row = np.arange(len(X))
    if not bad:
        return Block(len(X), row, X, kept)
    sound = np.ones(len(X), dtype=bool)
    sound[list(bad)] = False
    rejects = tuple(Reject(i, bad[i], content(i)[:SHOWN]) for i in sorted(bad))
    return Block(
        len(X), row[sound], X[sound], {n: values[sound] for n, values in kept.items()}, rejects
    )


def among(
    block: Block, at: Sequence[int], lines: Sequence[str], *, broken: Mapping[int, str]
) -> Block:
    """Return a block of some lines, those numbered `at`, as one of all; the others are broken.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.stream.block import Block
    >>> from scstream.stream.messages import among
    >>> whole = among(Block.of(np.ones((1, 1))), [1], ["{", "[1]"], broken={0: "torn."})
    >>> whole.row, whole.rejects
    (array([1]), (Reject(row=0, reason='torn.', content='{'),))
    """
    if not broken:
        return block
    number = np.array(at, dtype=np.int64)
    rejects = [Reject(i, reason, lines[i][:SHOWN]) for i, reason in broken.items()]
    rejects += [Reject(at[r.row], r.reason, r.content) for r in block.rejects]
    rejects.sort(key=lambda reject: reject.row)
    return Block(len(lines), number[block.row], block.X, block.kept, tuple(rejects))


def passed_on(
    schema: Schema, column: Callable[[str], Sequence[Any]], bad: dict[int, str]
) -> dict[str, NDArray[Any]]:
    """Return the columns that are no features; rows that hold none of the right kind go to `bad`.

    Times are float64, all others hold plain Python values, so that blocks join without a change
    of type.

    Examples
    --------
    >>> from scstream.stream.messages import Schema, passed_on
    >>> columns = {"at": ["1970-01-02", 5], "who": [7, "b"]}
    >>> passed_on(Schema(time="at", key="who"), columns.__getitem__, {})
    {'who': array(['7', 'b'], dtype=object), 'at': array([8.64e+04, 5.00e+00])}
    """
    kept: dict[str, NDArray[Any]] = {}
    for name in schema.passed:
        values = column(name)
        if name == schema.time:
            kept[name] = _each(name, values, bad, seconds).astype(np.float64)
        elif name == schema.key:
            kept[name] = _each(name, values, bad, _key, ready=_TEXT)
        elif name == schema.text:
            kept[name] = _each(name, values, bad, _text, ready=_TEXT)
        else:
            kept[name] = _each(name, values, bad, _plain, ready=_PLAIN)
    return kept


def number_column(
    name: str, values: Sequence[Any], bad: dict[int, str], *, missing: bool
) -> NDArray[np.float64]:  # (N,)
    """Return a list of plain values as numbers; rows that hold something else go to `bad`.

    Examples
    --------
    >>> from scstream.stream.messages import number_column
    >>> number_column("x", [1, 2.5], {}, missing=False)
    array([1. , 2.5])
    """
    if _NUMBERS.issuperset(map(type, values)):
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:  # a whole number beyond all floats
            pass
    X = np.full(len(values), np.nan)
    for i, value in enumerate(values):
        entry = _number(name, value, missing=missing)
        if isinstance(entry, str):
            bad.setdefault(i, entry)
        else:
            X[i] = entry
    return X


def seconds(value: Any) -> float:
    """Return a time as seconds since 1970; raises ValueError with a reason.

    Examples
    --------
    >>> from scstream.stream.messages import seconds
    >>> seconds("1970-01-01T01:00:00.5+01:00")
    0.5
    """
    if type(value) in _NUMBERS:
        if not abs(value) <= LARGEST:
            raise ValueError("holds a time that is out of range")
        return float(value)
    if not isinstance(value, str):
        raise ValueError(_instead("a time", value))
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(_instead("a time", value)) from None


class _JsonLines:
    """One row per line: where messages end between lines changes nothing."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def read(self, value: bytes) -> Block:
        """Return the rows of a message."""
        lines, broken = text_lines(value)
        rows: list[dict[str, Any]] = []
        at: list[int] = []
        for i, line in enumerate(lines):
            row = broken.get(i) or self._parse(line)
            if isinstance(row, str):
                broken[i] = row
            else:
                rows.append(row)
                at.append(i)
        block = _block_of_objects(self.schema, rows, lambda i: lines[at[i]])
        return among(block, at, lines, broken=broken)

    def _parse(self, line: str) -> dict[str, Any] | str:
        """Return the row of a line by names of columns, or why there is none."""
        try:
            row, end = _scan(line, 0)
        except (ValueError, RecursionError, StopIteration):
            return "the line is not JSON."
        if end != len(line):
            return "the line is not JSON: more follows its first value."
        if self.schema.features is not None:
            return row if type(row) is dict else _named(row, self.schema.features)
        return self._settle(row)

    def _settle(self, row: Any) -> dict[str, Any] | str:
        """Take the columns of numbers of the first sound row for the features."""
        if isinstance(row, list) and _NUMBERS.issuperset(map(type, row)):
            row = {f"x{j}": value for j, value in enumerate(row)}
        if not isinstance(row, dict):
            return _NO_ROW
        trial = self.schema.settle(n for n, v in row.items() if type(v) in _NUMBERS)
        if trial.is_empty:
            return "the row has no column of numbers."
        block = _block_of_objects(trial, [row], lambda i: "")
        if block.rejects:
            return block.rejects[0].reason
        self.schema = trial
        return row


class _JsonColumns:
    """One object of arrays of the same length."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def read(self, value: bytes) -> Block:
        """Return the rows of a message."""
        if not value.strip():
            return Block.of(np.zeros((0, len(self.schema.features or ()))))
        try:
            columns = json.loads(value.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            return Block.refused("the message is not JSON.", shown(value))
        if not isinstance(columns, dict):
            return Block.refused("the message is not a JSON object of columns.", shown(value))
        schema = self.schema.settle(n for n, v in columns.items() if _is_numbers(v))
        reason = _unfit_columns(schema, columns)
        if reason:
            return Block.refused(reason, shown(value))
        block = _block_of_columns(schema, columns)
        if len(block.row):
            self.schema = schema
        return block


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
            return Block.refused(
                f"the message has {len(value)} bytes, which is no whole number of rows of {width} "
                f"numbers of {self._dtype.itemsize} bytes.",
                value[:40].hex(),
            )
        X = np.frombuffer(value, self._dtype).astype(np.float64).reshape(-1, max(width, 1))
        block = judged(schema, X, {}, bad={}, content=lambda i: json.dumps(X[i].tolist()))
        if len(block.row):
            self.schema = schema
        return block


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


def shown(value: bytes) -> str:
    """Return the beginning of a message as text.

    Examples
    --------
    >>> from scstream.stream.messages import shown
    >>> shown(b"abc")
    'abc'
    """
    return value[:SHOWN].decode(errors="replace")


def _block_of_objects(
    schema: Schema, rows: list[dict[str, Any]], content: Callable[[int], str]
) -> Block:
    bad: dict[int, str] = {}
    X = _matrix(schema, rows, bad)
    kept = passed_on(schema, lambda name: [row.get(name) for row in rows], bad)
    return judged(schema, X, kept, bad=bad, content=content)


def _matrix(
    schema: Schema, rows: list[dict[str, Any]], bad: dict[int, str]
) -> NDArray[np.float64]:  # (N, D)
    """Return the features of rows: all at once if they are all numbers, else one by one."""
    names = schema.features or ()
    X = np.full((len(rows), len(names)), np.nan)
    try:
        entries = _flat(rows, names)
        if (_NUMBERS | {type(None)} if schema.missing else _NUMBERS).issuperset(map(type, entries)):
            return np.array(entries, dtype=np.float64).reshape(X.shape)
    except (KeyError, OverflowError):  # a column that is not there, a number beyond all floats
        pass
    for i, row in enumerate(rows):
        if names and row.keys().isdisjoint(names):
            bad[i] = f"the row has no column {_quoted(names[0])}, nor any other feature."
            continue
        for j, name in enumerate(names):
            entry = _number(name, row.get(name), missing=schema.missing)
            if isinstance(entry, str):
                bad.setdefault(i, entry)
            else:
                X[i, j] = entry
    return X


def _flat(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[Any]:
    if len(names) > 1:
        return list(chain.from_iterable(map(itemgetter(*names), rows)))
    return [row[name] for row in rows for name in names]


def _block_of_columns(schema: Schema, columns: Mapping[str, list[Any]]) -> Block:
    names = schema.features or ()
    n_rows = len(next(columns[n] for n in (*names, *schema.passed) if n in columns))
    bad: dict[int, str] = {}
    nothing = [None] * n_rows
    X = np.empty((n_rows, len(names)))
    for j, name in enumerate(names):
        X[:, j] = number_column(name, columns.get(name, nothing), bad, missing=schema.missing)
    kept = passed_on(schema, lambda name: columns.get(name, nothing), bad)
    here = [name for name in (*names, *schema.passed) if name in columns]

    def content(i: int) -> str:
        row = {name: columns[name][i] for name in here}
        return to_json({n: v if type(v) in _PLAIN else "..." for n, v in row.items()}).decode()

    return judged(schema, X, kept, bad=bad, content=content)


def _unfit_columns(schema: Schema, columns: Mapping[str, Any]) -> str:
    """Say why columns cannot be rows, if they cannot."""
    if schema.is_empty:
        return "the message has no column of numbers."
    if schema.features and columns.keys().isdisjoint(schema.features):
        return f"the message has no column {_quoted(schema.features[0])}, nor any other feature."
    needed = [name for name in (*(schema.features or ()), *schema.passed) if name in columns]
    if not needed:
        return f"the message has no column {_quoted(schema.text)}."
    for name in needed:
        if not isinstance(columns[name], list):
            return f"column {_quoted(name)} is not an array."
        if len(columns[name]) != len(columns[needed[0]]):
            return f"columns {_quoted(needed[0])} and {_quoted(name)} differ in length."
    return ""


_NO_ROW = "the line is neither a JSON object nor an array of numbers."


def _named(row: Any, names: tuple[str, ...]) -> dict[str, Any] | str:
    """Return an array of entries by names of columns."""
    if not isinstance(row, list):
        return _NO_ROW
    if len(row) != len(names):
        return f"the row has {len(row)} entries where {len(names)} are expected."
    return dict(zip(names, row, strict=True))


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
            bad.setdefault(i, f"column {_quoted(name)} {error}.")
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
    if type(value) not in _PLAIN:
        raise ValueError(_instead("a plain value", value))
    return _text(value) if isinstance(value, str) else value


def _number(name: str, value: Any, *, missing: bool) -> float | str:
    """Return an entry as a number, or why it is none."""
    if type(value) in _NUMBERS:
        try:
            return float(value)
        except OverflowError:
            return f"column {_quoted(name)} holds a whole number that is out of range."
    if value is None:
        return math.nan if missing else f"column {_quoted(name)} is missing."
    return f"column {_quoted(name)} {_instead('a number', value)}."


def _misfit(name: str, entry: float) -> str:
    if math.isnan(entry):
        return f"column {_quoted(name)} holds NaN or nothing."
    return f"column {_quoted(name)} holds {entry:g}, which is out of range."


def _instead(wanted: str, value: Any) -> str:
    if value is None:
        return "is missing"
    kinds: dict[type, str] = {list: "an array", dict: "an object"}
    return f"holds {kinds.get(type(value)) or _quoted(value)}, which is not {wanted}"


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _is_numbers(column: Any) -> bool:
    """Whether a column is an array with numbers in it, and nothing else but nulls."""
    kinds = set(map(type, column)) if isinstance(column, list) else set()
    return bool(kinds & _NUMBERS) and kinds <= _NUMBERS | {type(None)}


def _utf8(name: str) -> bool:
    """Whether a name can be encoded; one that cannot would fail in every file it is written to."""
    return name.isascii() or name.encode(errors="replace").decode() == name


def _decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _names(role: str, names: Any) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else tuple(names)
    for name in listed:
        if not isinstance(name, str) or not name:
            raise InputError(f"{role} must be names of columns, got {name!r} among them.")
        if listed.count(name) > 1:
            raise InputError(f"{role} names column {name!r} twice.")
    return listed


def _known(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
