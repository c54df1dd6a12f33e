"""Columns of a delivery as columns of a PostgreSQL table: their types, and values that fit them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.errors import SinkError
from scstream.stream.sink import Delivery

BINARY = {"boolean": "bool", "bigint": "int8", "double precision": "float8", "text": "text"}
_LONGEST_NAME = 63  # bytes; PostgreSQL cuts the rest off


def wider(one: str, other: str) -> str:
    """Return the type of a column that can hold values of two types.

    A type that is none of ours is the user's choice, and taken for wide enough.

    Examples
    --------
    >>> from scstream.stream.connectors.postgres.columns import wider
    >>> wider("bigint", "double precision"), wider("bigint", "boolean"), wider("date", "text")
    ('double precision', 'text', 'date')
    """
    if one == other or one not in BINARY:
        return one
    return "double precision" if {one, other} == {"bigint", "double precision"} else "text"


def types_of(delivery: Delivery) -> tuple[tuple[str, str], ...]:
    """Names and types of the columns of a delivery; those that hold nothing are left out."""
    types = [("job", "text")]
    for name, values in delivery.columns.items():
        if name == "job" or "\0" in name or len(name.encode()) > _LONGEST_NAME:
            raise SinkError(
                f"a column cannot be called {name!r} in PostgreSQL; names have up to "
                f"{_LONGEST_NAME} bytes, and job is the name of the pipeline. Rename it in prepare."
            )
        kind = _type_of(values)
        if kind:
            types.append((name, kind))
    return tuple(types)


def _type_of(values: NDArray[Any]) -> str:
    """Type of a column for some values; "" if all are missing."""
    kind = values.dtype.kind
    if kind == "O":
        return _type_of_objects(values.tolist())
    if kind == "u" and int(values.max(initial=0)) >= 2**63:
        return "text"
    return {"b": "boolean", "f": "double precision", "i": "bigint", "u": "bigint"}.get(kind, "text")


def _type_of_objects(values: list[Any]) -> str:
    held = {type(value) for value in values if value is not None}
    if not held:
        return ""
    if int in held and any(type(v) is int and not -(2**63) <= v < 2**63 for v in values):
        return "text"
    if len(held) == 1:
        return {bool: "boolean", int: "bigint", float: "double precision"}.get(held.pop(), "text")
    return "double precision" if held == {int, float} else "text"


def values_of(values: NDArray[Any], kind: str) -> list[Any]:
    """Values of a column as what the type takes."""
    plain = values.tolist()
    if kind == "double precision" and values.dtype.kind == "O":
        return [None if value is None else float(value) for value in plain]
    if kind == "text":
        return [None if value is None else clean(value) for value in plain]
    return list(plain)


def clean(value: Any) -> str:
    """Return text that PostgreSQL can hold."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    text = value if isinstance(value, str) else _as_text(value)
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return text.replace("\0", "\ufffd")


def _as_text(value: Any) -> str:
    return str(value) if isinstance(value, np.generic) else json.dumps(value, default=str)
