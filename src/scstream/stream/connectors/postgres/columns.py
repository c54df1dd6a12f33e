"""Types and values of the columns of a PostgreSQL table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.errors import SinkError
from scstream.stream.sink import Delivery

BINARY = {"boolean": "bool", "bigint": "int8", "double precision": "float8", "text": "text"}
_MAX_NAME_BYTES = 63  # PostgreSQL truncates longer names


def common_type(one: str, other: str) -> str:
    """Return a type for values of two types; a type that users chose stays as it is."""
    if one == other or one not in BINARY:
        return one
    return "double precision" if {one, other} == {"bigint", "double precision"} else "text"


def column_types(delivery: Delivery) -> tuple[tuple[str, str], ...]:
    """Return names and types of the columns of a delivery, without those that have no values."""
    types = [("job", "text")]
    for name, values in delivery.columns.items():
        if name == "job" or "\0" in name or len(name.encode()) > _MAX_NAME_BYTES:
            raise SinkError(
                f"a column cannot be called {name!r} in PostgreSQL: names have up to "
                f"{_MAX_NAME_BYTES} bytes, and job is the name of the pipeline. Rename it in "
                "prepare."
            )
        kind = _column_type(values)
        if kind:
            types.append((name, kind))
    return tuple(types)


def _column_type(values: NDArray[Any]) -> str:
    """Return the type of a column for some values; "" if all are missing."""
    kind = values.dtype.kind
    if kind == "O":
        return _type_of_objects(values.tolist())
    if kind == "u" and int(values.max(initial=0)) >= 2**63:
        return "text"
    return {"b": "boolean", "f": "double precision", "i": "bigint", "u": "bigint"}.get(kind, "text")


def _type_of_objects(values: list[Any]) -> str:
    types = {type(value) for value in values if value is not None}
    if not types:
        return ""
    if int in types and any(type(v) is int and not -(2**63) <= v < 2**63 for v in values):
        return "text"
    if len(types) == 1:
        return {bool: "boolean", int: "bigint", float: "double precision"}.get(types.pop(), "text")
    return "double precision" if types == {int, float} else "text"


def column_values(values: NDArray[Any], kind: str) -> list[Any]:
    """Return the values of a column as its type accepts them."""
    converted = values.tolist()
    if kind == "double precision" and values.dtype.kind == "O":
        return [None if value is None else float(value) for value in converted]
    if kind == "text":
        return [None if value is None else valid_text(value) for value in converted]
    return list(converted)


def valid_text(value: Any) -> str:
    """Return text that PostgreSQL can store."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if not isinstance(value, str):
        is_scalar = isinstance(value, np.generic)
        value = str(value) if is_scalar else json.dumps(value, default=str)
    if not value.isascii():
        value = value.encode(errors="replace").decode()
    return str(value).replace("\0", "\ufffd")
