"""Types of kept columns: a table has one type per column, and a row that does not fit is rejected.

The types are decided batch by batch, not message by message: which partition is read first is
chance, and the order of rows within a batch is not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scstream.errors import InputError, SinkError
from scstream.preprocess.block import Block, Reject

AUTO = "auto"  # fixed by the first batch that has a value
TYPES = ("int", "int32", "int16", "float", "float32", "bool", "text", "time")
_TYPE = re.compile(r"(int|int32|int16|float|float32|bool|text|time)(?:\((\d+)\))?( not null)?")
_BITS = {"int": 64, "int32": 32, "int16": 16}
_EXACT = 2**53  # whole numbers up to this one are floats without rounding
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class KeptType:
    """Type of one column, and whether it may be null; `length` limits characters of text.

    Examples
    --------
    >>> from scstream.stream.kept_types import KeptType
    >>> KeptType.parse("text(3)").read("abc")
    'abc'
    >>> KeptType.parse("int").read(1.5)
    Traceback (most recent call last):
    ...
    ValueError: holds 1.5, which is not of type int
    """

    kind: str
    length: int | None = None
    required: bool = False

    @classmethod
    def parse(cls, text: Any) -> Self:
        """Read a type such as "int", "text(80)" or "float not null"."""
        match = _TYPE.fullmatch(text) if isinstance(text, str) else None
        if match is None or (match[2] and match[1] != "text"):
            raise InputError(
                f"there is no type {text!r} for a column of schema.keep; there are: "
                f"{', '.join(TYPES)}, and text(80) for text of at most 80 characters. Write a name "
                "that has a colon in a table: keep = {'a:b' = 'text'}."
            )
        return cls(match[1], int(match[2]) if match[2] else None, bool(match[3]))

    def __str__(self) -> str:
        length = "" if self.length is None else f"({self.length})"
        return f"{self.kind}{length}{' not null' if self.required else ''}"

    def read(self, value: Any) -> Any:
        """Return a value as the type holds it; raises ValueError if it does not fit exactly."""
        if value is None:
            if self.required:
                raise ValueError("is missing, and the column must not be null")
            return None
        fitting = _READ[self.kind](value)
        if fitting is None or not self._is_in_range(fitting):
            shown = repr(value)
            shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
            raise ValueError(f"holds {shown}, which is not of type {self}")
        return fitting

    def stores(self, other: KeptType) -> bool:
        """Whether a column of this type can store every value of another type."""
        if self.required and not other.required:
            return False
        if self.kind == "text":
            is_text = other.kind == "text" and other.length is not None
            return self.length is None or (is_text and (other.length or 0) <= self.length)
        wider = {"int32": ("int",), "int16": ("int32", "int"), "float32": ("float",)}
        return self.kind in (other.kind, *wider.get(other.kind, ()))

    def _is_in_range(self, value: Any) -> bool:
        if self.kind in _BITS:
            limit = 1 << (_BITS[self.kind] - 1)
            return bool(-limit <= value < limit)
        if self.kind == "float32":
            return not math.isfinite(value) or abs(value) <= _LARGEST_FLOAT32
        return self.length is None or len(value) <= self.length


def _read_int(value: Any) -> int | None:
    if type(value) is float and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value if type(value) is int else None


def _read_float(value: Any) -> float | None:
    if type(value) is int and abs(value) <= _EXACT:
        return float(value)
    return value if type(value) is float else None


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_time(value: Any) -> str | None:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()


_READ: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_BITS, _read_int),
    **dict.fromkeys(("float", "float32"), _read_float),
    "bool": lambda value: value if type(value) is bool else None,
    "text": _read_text,
    "time": _read_time,
}


@dataclass
class KeptTypes:
    """The types of kept columns as far as they are known; a column without one takes any value.

    Parameters
    ----------
    types : dict of str to str
        Types by column; "auto" is fixed by the first batch that has a value.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.stream.kept_types import KeptTypes
    >>> kept = KeptTypes({"id": "auto"})
    >>> _ = kept.fit(Block.of(np.zeros((2, 1)), id=np.array([7, 8], dtype=object)))
    >>> block = kept.fit(Block.of(np.zeros((2, 1)), id=np.array([9, 1.5], dtype=object)))
    >>> kept.types, [reject.row for reject in block.rejects]
    ({'id': 'int'}, [1])
    """

    types: dict[str, str] = field(default_factory=dict)

    @property
    def known(self) -> dict[str, str]:
        """The types that are fixed."""
        return {name: kind for name, kind in self.types.items() if kind != AUTO}

    def adopt(self, names: Iterable[str], table: Mapping[str, str] | None) -> bool:
        """Take the types of a sink's table; return whether that changed something.

        `table` is None if the sink takes any value. A type that is known must fit the table.
        """
        if table is None:
            return False
        before = dict(self.types)
        for name in names:
            known, column = self.types.get(name, AUTO), table.get(name)
            if known == AUTO:
                self.types[name] = AUTO if column is None else str(_of_column(name, column))
            elif column is not None and not _of_column(name, column).stores(KeptType.parse(known)):
                raise SinkError(
                    f"the column {name!r} of schema.keep has the type {known}, but the table of "
                    f"the sink has it as {column}; use another table, or another type in a new job."
                )
        return self.types != before

    def fit(self, block: Block) -> Block:
        """Return the rows with kept values as their types hold them; reject rows that misfit."""
        rejects: dict[int, Reject] = {}
        extra = dict(block.extra)
        for name in self.types:
            if name not in extra or not len(block.row):
                continue
            values = extra[name].tolist()
            if self.types[name] == AUTO:
                self.types[name] = _common_type(values)
            if self.types[name] != AUTO:
                extra[name] = self._column(name, values, block, rejects)
        fitted = Block(block.n_rows, block.row, block.X, extra, block.rejects)
        return fitted.reject(list(rejects.values()))

    def _column(
        self, name: str, values: list[Any], block: Block, rejects: dict[int, Reject]
    ) -> NDArray[Any]:  # (G,)
        kept = KeptType.parse(self.types[name])
        column = np.full(len(values), None, dtype=object)
        for i, value in enumerate(values):
            try:
                column[i] = kept.read(value)
            except ValueError as error:
                row = int(block.row[i])
                rejects.setdefault(row, Reject(row, f"column {name!r} {error}."))
        return column


def _of_column(name: str, column: str) -> KeptType:
    try:
        return KeptType.parse(column)
    except InputError:
        raise SinkError(
            f"the table of the sink has the column {name!r} of schema.keep as {column}, which "
            "rows cannot be checked for; make it text, a whole number, a float, a boolean or a "
            "timestamp, or convert it in a view."
        ) from None


def _common_type(values: list[Any]) -> str:
    """Return a type that holds all values; "auto" if there are none."""
    types = {type(value) for value in values if value is not None}
    if not types:
        return AUTO
    limit = 1 << 63
    if types == {int} and all(-limit <= value < limit for value in values if value is not None):
        return "int"
    if types <= {int, float} and float in types:
        return "float"
    return "bool" if types == {bool} else "text"
