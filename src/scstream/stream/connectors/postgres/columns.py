"""Types and values of the columns of a PostgreSQL table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.errors import SinkError
from scstream.stream.kept_types import KeptType
from scstream.stream.sink import Delivery

BINARY = {"boolean": "bool", "bigint": "int8", "double precision": "float8", "text": "text"}
_MAX_NAME_BYTES = 63  # PostgreSQL truncates longer names


_SQL_TYPES = {
    "int": "bigint",
    "int32": "integer",
    "int16": "smallint",
    "float": "double precision",
    "float32": "real",
    "bool": "boolean",
    "text": "text",
    "time": "timestamp with time zone",
}
_KEPT_TYPES = {sql: kept for kept, sql in _SQL_TYPES.items()} | {
    "character varying": "text",
    "numeric": "float",
    "timestamp without time zone": "time",
}


def stores(column: str, kind: str) -> bool:
    """Whether a column takes values of a type; the server judges a type that users chose."""
    is_wider = (column, kind) == ("double precision", "bigint")
    return column in (kind, "text") or column not in BINARY or is_wider


def sql_type(kept: str) -> str:
    """Return the type of a column for a type of `schema.keep`."""
    kind = KeptType.parse(kept)
    own = _SQL_TYPES[kind.kind] if kind.length is None else f"character varying({kind.length})"
    return f"{own} NOT NULL" if kind.required else own


def kept_type(column: str) -> str:
    """Return the type of `schema.keep` for a column; as it is if there is none."""
    if column.startswith("character varying("):
        return column.replace("character varying", "text")
    return _KEPT_TYPES.get(column, column)


def created_types(deliveries: Iterable[Delivery]) -> dict[str, str]:
    """Return the columns of a new table; those without values and types are text."""
    types: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for delivery in deliveries:
        known = {n: sql_type(kind) for n, kind in delivery.types.items() if n in delivery.columns}
        types = dict(column_types(delivery)) | types | known
        unknown |= dict.fromkeys(delivery.columns, "text")
    return unknown | types


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
