"""Messages to rows and back: JSON lines, JSON columns, Arrow, raw numbers.

Nothing that a message holds raises an error: a row that cannot be used becomes a reject with a
reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from scstream.errors import InputError
from scstream.io.budget import check_table
from scstream.preprocess.block import Block
from scstream.stream.checks import build_block, within_budget
from scstream.stream.json_messages import JsonColumns, JsonLines, to_json
from scstream.stream.schema import Reader, Schema
from scstream.stream.sink import Delivery, plain_rows

FORMATS = ("json", "columns", "arrow", "floats", "floats32")


def reader(format: str, schema: Schema) -> Reader:
    """Return a reader of messages.

    "json" is one object, or array of numbers, per line; "columns" one object of arrays of the same
    length; "arrow" an Arrow IPC stream; "floats" and "floats32" a matrix of little-endian numbers,
    row by row, which is one row if the schema names no features.
    """
    if schema.is_empty:
        raise InputError("features is empty and there is no text; name a column to learn from.")
    if format == "json":
        return JsonLines(schema)
    if format == "columns":
        return JsonColumns(schema)
    if format == "arrow":
        from scstream.stream.arrow import ArrowReader

        return ArrowReader(schema)
    if format not in FORMATS:
        raise InputError(f"there is no format {format!r}; use one of {', '.join(FORMATS)}.")
    if not schema.is_complete and schema.features is not None:
        raise InputError(f"messages of format {format!r} hold no arrays; name single numbers.")
    if schema.other_columns or schema.features == ():
        raise InputError(
            f"messages of format {format!r} hold features only, no column "
            f"{schema.other_columns[0]!r}; use arrow, columns or json."
        )
    return _Floats(schema, "<f4" if format == "floats32" else "<f8")


class _Floats:
    """Reads a matrix of little-endian numbers."""

    def __init__(self, schema: Schema, dtype: str) -> None:
        self.schema = schema
        self._dtype = np.dtype(dtype)

    @within_budget
    def read(self, value: bytes) -> Block:
        """Return the rows of a message."""
        count, remainder = divmod(len(value), self._dtype.itemsize)
        schema = self.schema.with_features(f"x{j}" for j in range(count))
        width = len(schema.features or ())
        if remainder or (width and count % width):
            return Block.rejected(
                f"the message has {len(value)} bytes, which is no whole number of rows of {width} "
                f"numbers of {self._dtype.itemsize} bytes.",
                value[:40].hex(),
            )
        check_table(count // max(width, 1), width)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            X = np.frombuffer(value, self._dtype).astype(np.float64).reshape(-1, max(width, 1))
        block = build_block(
            schema, X, {}, bad={}, content=lambda i: json.dumps(X[i].tolist()), complete=False
        )
        if len(block.row):
            self.schema = schema
        return block


def writer(format: str) -> Callable[[Delivery], list[bytes]]:
    """Return a function that turns a delivery into messages.

    "json" gives a message per row, "columns" and "arrow" one per delivery. JSON has no NaN and
    infinity: they become null.
    """
    if format == "json":
        return lambda delivery: [to_json(row) for row in plain_rows(delivery)]
    if format == "columns":
        return lambda delivery: [to_json({n: v.tolist() for n, v in delivery.columns.items()})]
    if format == "arrow":
        from scstream.stream.arrow import stream_bytes

        return lambda delivery: [stream_bytes(delivery.columns)]
    raise InputError(f"labels cannot be written as {format!r}; use json, columns or arrow.")
