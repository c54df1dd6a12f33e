"""Rows in the body of a request, JSON or Arrow, to what a model can be asked about."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from scstream.errors import missing_extra
from scstream.families.base import Array
from scstream.io.schema import LARGEST
from scstream.preprocess.block import Block
from scstream.serve.model import text_of
from scstream.serve.refusals import Refusal
from scstream.stream.checks import NUMBERS, number_column, quoted, text_column
from scstream.stream.model_version import ModelVersion
from scstream.stream.schema import Schema

try:
    import orjson
except ImportError as error:
    raise missing_extra("orjson", "serve") from error

JSON = b"application/json"
ARROW = b"application/vnd.apache.arrow.stream"
_LONG = 2**18  # bytes of a body that is looked at before it is parsed
_MOST_NAMES = 100_000  # quotation marks that are looked between
_PARTS = ("columns", "rows", "time", "probabilities")


@dataclass(frozen=True)
class Form:
    """What rows must look like so that a model can take them.

    Parameters
    ----------
    names : tuple of str
        Columns of numbers, in order.
    text : str or None
        The column of text, where the steps of the model read one; then there are no others.
    missing : bool
        Whether an entry may be null.

    Examples
    --------
    >>> from scstream.serve.bodies import Form
    >>> Form(("x", "y")).width
    2
    """

    names: tuple[str, ...]
    text: str | None = None
    missing: bool = False

    @classmethod
    def of(cls, reading: ModelVersion) -> Self:
        """Return the form of the rows of a model, as they are before its steps."""
        family = reading.model.family
        text = text_of(reading)
        if text is not None:
            return cls((), text=text)
        names = reading.columns
        if names is None:
            names = tuple(f"x{j}" for j in range(family.n_features))
        return cls(names, missing=family.handles_missing)

    @property
    def width(self) -> int:
        """Number of columns of numbers."""
        return len(self.names)


@dataclass(frozen=True)
class Question:
    """Rows, and what is asked about them.

    Parameters
    ----------
    rows : array of shape (N, D) or Block
        The rows, before the steps of the model.
    time : float or None
        When they are seen.
    probabilities : bool
        Whether the probability of every cluster is asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.serve.bodies import Question
    >>> Question(np.zeros((3, 2))).n_rows
    3
    """

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


def read_json(body: bytes, form: Form, *, max_n: int) -> Question:
    """Read a body of JSON; raises `Refusal`.

    Parameters
    ----------
    body : bytes
        ``{"columns": {"x": [..], ..}}`` or ``{"rows": [[..], ..]}``, and beside them optionally
        "time" and "probabilities".
    form : Form
        What the rows must look like.
    most : int
        Most rows.

    Examples
    --------
    >>> from scstream.serve.bodies import Form, read_json
    >>> read_json(b'{"columns": {"y": [2, 4], "x": [1, 3]}}', Form(("x", "y")), max_n=9).rows
    array([[1., 2.],
           [3., 4.]])
    >>> read_json(b'{"rows": [[1]]}', Form(("x", "y")), max_n=9)
    Traceback (most recent call last):
    ...
    scstream.serve.refusals.Refusal: row 0 has 1 entries where 2 are expected, ...
    """
    if len(body) > _LONG and form.text is None:
        # Empty arrays are a few bytes in a body, and many in memory.
        _check_count(body.count(b"[") + body.count(b"{") - form.width - len(_PARTS), max_n)
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(
            "NotJson",
            f"the body is not JSON: {error}. NaN and Infinity are not JSON; an entry that is "
            "missing is null.",
        ) from None
    if type(content) is not dict:
        raise _unfit("the body must be a JSON object with 'columns' or 'rows'.")
    for name in content:
        if name not in _PARTS:
            raise _unfit(f"the body has a field {quoted(name)}; it may have {', '.join(_PARTS)}.")
    if ("columns" in content) == ("rows" in content):
        raise _unfit("the body must have either 'columns' or 'rows'.")
    rows = _rows(content, body, form, max_n)
    return Question(rows, _time(content.get("time")), _flag(content.get("probabilities", False)))


def read_arrow(body: bytes, form: Form, *, max_n: int) -> Question:
    """Read a body that is an Arrow IPC stream; raises `Refusal`.

    Parameters
    ----------
    body : bytes
        The stream. Its columns may be in any order.
    form, most
        As in `read_json`.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.serve.bodies import Form, read_arrow
    >>> from scstream.stream.arrow import stream_bytes
    >>> body = stream_bytes({"y": np.array([2.0]), "x": np.array([1.0])})
    >>> read_arrow(body, Form(("x", "y")), max_n=9).rows.X
    array([[1., 2.]])
    """
    from scstream.stream.arrow import ArrowReader

    schema = Schema(
        features=None if form.text is None else (), text=form.text, missing=form.missing
    )
    reader = ArrowReader(schema)
    block = reader.read(body)
    _check_count(block.n_rows, max_n)
    if block.rejects:
        torn = len(block.rejects) == 1 and not block.X.shape[1] and form.text is None
        first = block.rejects[0]
        detail = first.reason if torn else f"row {first.row} cannot be used: {first.reason}"
        raise Refusal("NotArrow" if torn else "InputError", detail)
    if form.text is not None:
        return Question(block)
    found = reader.schema.features or form.names  # a stream without rows settles nothing
    _check_names(found, form.names)
    order = [found.index(name) for name in form.names]
    return Question(Block.of(np.ascontiguousarray(block.X.reshape(-1, len(found))[:, order])))


def _rows(content: Mapping[str, Any], body: bytes, form: Form, max_n: int) -> Array | Block:
    if "rows" in content:
        entries = content["rows"]
        if form.text is not None:
            raise _unfit(f"this model reads the column of text {form.text!r}; send 'columns'.")
        if type(entries) is not list:
            raise _unfit("'rows' must be an array of arrays of numbers.")
        _check_count(len(entries), max_n)
        if not entries:
            return np.zeros((0, form.width))
        X = _at_once(entries, body)
        return X if X is not None and X.shape[1] == form.width else _row_by_row(entries, form)
    columns = content["columns"]
    if type(columns) is not dict:
        raise _unfit("'columns' must be an object of arrays, one for each column.")
    if form.text is not None:
        return _texts(columns, form.text, max_n)
    try:
        lists = [columns[name] for name in form.names]
    except KeyError:
        lists = []
    if len(lists) != len(columns) or not lists:
        _check_names(tuple(columns), form.names)
    if type(lists[0]) is list:
        _check_count(len(lists[0]), max_n)
    X = _at_once(lists, body)
    return _column_by_column(lists, form) if X is None else np.ascontiguousarray(X.T)


def _at_once(lists: list[Any], body: bytes) -> Array | None:  # (number of lists, their length)
    """Return lists of numbers as a table; None where that takes a closer look.

    An array takes neither texts nor nulls for numbers, but truth values it does.
    """
    if _may_hold_truth(body) or not all(type(values) is list for values in lists):
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


def _may_hold_truth(body: bytes) -> bool:
    """Whether a "true" or "false" may stand outside of the names, which stand between quotes."""
    if b"t" not in body and b"f" not in body:
        return False
    if b"\\" in body:  # a quotation mark in a name may be one that ends nothing
        return True
    between = b"".join(body.split(b'"', _MOST_NAMES)[::2])
    return b"t" in between or b"f" in between


def _column_by_column(lists: list[Any], form: Form) -> Array:
    for name, values in zip(form.names, lists, strict=True):
        if type(values) is not list:
            raise _unfit(f"column {quoted(name)} must be an array of numbers.")
        if len(values) != len(lists[0]):
            raise _unfit(
                f"columns {quoted(form.names[0])} and {quoted(name)} differ in length, "
                f"{len(lists[0])} and {len(values)}; send one entry of each for every row."
            )
    X = np.empty((len(lists[0]), form.width))
    bad: dict[int, str] = {}
    for j, (name, values) in enumerate(zip(form.names, lists, strict=True)):
        X[:, j] = number_column(name, values, bad, missing=form.missing)
    if bad:
        row = min(bad)
        raise _unfit(f"row {row} cannot be used: {bad[row]}")
    return X


def _row_by_row(entries: list[Any], form: Form) -> Array:
    for i, row in enumerate(entries):
        if type(row) is not list:
            raise _unfit(f"row {i} must be an array of numbers, in the order of the columns.")
        if len(row) != form.width:
            raise _unfit(
                f"row {i} has {len(row)} entries where {form.width} are expected, in this order: "
                f"{_listed(form.names)}."
            )
    return _column_by_column([list(column) for column in zip(*entries, strict=True)], form)


def _texts(columns: Mapping[str, Any], name: str, max_n: int) -> Block:
    _check_names(tuple(columns), (name,))
    values = columns[name]
    if type(values) is not list:
        raise _unfit(f"column {quoted(name)} must be an array of texts.")
    _check_count(len(values), max_n)
    bad: dict[int, str] = {}
    texts = text_column(name, values, bad)
    if bad:
        row = min(bad)
        raise _unfit(f"row {row} cannot be used: {bad[row]}")
    return Block.of(np.zeros((len(values), 0)), **{name: texts})


def _check_names(found: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in found:
            raise _unfit(
                f"there is no column {quoted(name)} of numbers; this model needs the columns "
                f"{_listed(wanted)}."
            )
    for name in found:
        if name not in wanted:
            raise _unfit(
                f"this model has no column {quoted(name)}; leave it out. It has the columns "
                f"{_listed(wanted)}."
            )


def _check_count(n_rows: int, max_n: int) -> None:
    if n_rows > max_n:
        raise Refusal(
            "TooManyRows",
            f"the body has {n_rows} rows and {max_n} are allowed; send them in parts.",
        )


def _time(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in NUMBERS or not abs(value) <= LARGEST:
        raise _unfit(
            f"'time' {quoted(value)} must be a number within {LARGEST:g} of zero, on the clock of "
            "the batches that the model has learned."
        )
    return float(value)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise _unfit("'probabilities' must be true or false.")
    return value


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(quoted, names[:_SHOWN]))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


_SHOWN = 20  # names of columns in a sentence


def _unfit(detail: str) -> Refusal:
    return Refusal("InputError", detail)
