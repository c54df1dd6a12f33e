"""JSON messages: a row per line, or an object of columns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.io import budget
from scstream.io.header import Json
from scstream.preprocess.block import Block
from scstream.stream.checks import (
    NUMBERS,
    PLAIN,
    block_of_lines,
    build_block,
    number,
    number_column,
    quoted,
    read_other_columns,
    reject_message,
    text_lines,
    within_budget,
)
from scstream.stream.schema import Schema
from scstream.stream.vectors import MAX_WIDTH, entry_names, open_vectors, spread, vector_widths

Row = Json  # entries by column name
_NO_ROW = "the line is neither a JSON object nor an array of numbers."
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class JsonLines:
    """Reads one row per line: an object, or an array of numbers."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @within_budget
    def read(self, value: bytes) -> Block:
        """Return the rows of a message."""
        budget.check_json(value)
        return block_of_lines(
            *text_lines(value),
            self._parse,
            lambda rows, content: _block_of_objects(self.schema, rows, content),
        )

    def _parse(self, line: str) -> Row | str:
        """Return the row of a line by column name, or the reason why there is none."""
        try:
            row, end = _scan(line, 0)
        except (ValueError, RecursionError, StopIteration):
            return "the line is not JSON."
        if end != len(line):
            return "the line is not JSON: more follows its first value."
        if self.schema.features is None:
            return self._infer_features(row)
        if type(row) is not dict:
            return _named(row, self.schema.features)
        if not self.schema.is_complete:
            reason = self._infer_widths(row)
            if reason:
                return reason
        widths = vector_widths(self.schema.features)
        return spread(row, widths) if widths else row

    def _infer_widths(self, row: Row) -> str:
        """Take the lengths of the vectors of the first valid row; return what is wrong with it."""
        for name in open_vectors(self.schema.features):
            vector = row.get(name)
            if not isinstance(vector, list) or not 1 <= len(vector) <= MAX_WIDTH:
                return f"column {quoted(name)} holds no array of 1 to {MAX_WIDTH} numbers."
        trial = self.schema.with_widths(lambda name: len(row[name]))
        entries = spread(row, vector_widths(trial.features))
        if isinstance(entries, str):
            return entries
        block = _block_of_objects(trial, [entries], lambda i: "")
        if block.rejects:
            return block.rejects[0].reason
        self.schema = trial
        return ""

    def _infer_features(self, row: Any) -> Row | str:
        """Take the columns of numbers of the first valid row as features."""
        if isinstance(row, list) and NUMBERS.issuperset(map(type, row)):
            row = {f"x{j}": value for j, value in enumerate(row)}
        if not isinstance(row, dict):
            return _NO_ROW
        trial = self.schema.with_features(n for n, v in row.items() if type(v) in NUMBERS)
        if trial.is_empty:
            return "the row has no column of numbers."
        block = _block_of_objects(trial, [row], lambda i: "")
        if block.rejects:
            return block.rejects[0].reason
        self.schema = trial
        return row


def _named(row: Any, names: tuple[str, ...]) -> Row | str:
    """Return an array of entries by column name."""
    if not isinstance(row, list):
        return _NO_ROW
    if len(row) != len(names):
        return f"the row has {len(row)} entries where {len(names)} are expected."
    return dict(zip(names, row, strict=True))


def _block_of_objects(schema: Schema, rows: list[Row], content: Callable[[int], str]) -> Block:
    bad: dict[int, str] = {}
    X = _matrix(schema, rows, bad)
    extra = read_other_columns(schema, lambda name: [row.get(name) for row in rows], bad)
    return build_block(schema, X, extra, bad=bad, content=content)


def _matrix(schema: Schema, rows: list[Row], bad: dict[int, str]) -> NDArray[np.float64]:  # (N, D)
    """Return the features of rows: all at once if all are numbers, else one by one."""
    names = schema.features or ()
    X = budget.new_table(len(rows), len(names))
    X.fill(np.nan)
    try:
        entries = _flat(rows, names)
        if (NUMBERS | {type(None)} if schema.missing else NUMBERS).issuperset(map(type, entries)):
            return np.array(entries, dtype=np.float64).reshape(X.shape)
    except (KeyError, OverflowError):  # an absent column, a number beyond all floats
        pass
    for i, row in enumerate(rows):
        if names and row.keys().isdisjoint(names):
            bad[i] = f"the row has no column {quoted(names[0])}, nor any other feature."
            continue
        for j, name in enumerate(names):
            entry = number(name, row.get(name), missing=schema.missing)
            if isinstance(entry, str):
                bad.setdefault(i, entry)
            else:
                X[i, j] = entry
    return X


def _flat(rows: list[Row], names: tuple[str, ...]) -> list[Any]:
    if len(names) > 1:
        return list(chain.from_iterable(map(itemgetter(*names), rows)))
    return [row[name] for row in rows for name in names]


class JsonColumns:
    """Reads one object of arrays of the same length."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @within_budget
    def read(self, value: bytes) -> Block:
        """Return the rows of a message."""
        budget.check_json(value)
        if not value.strip():
            return Block.of(np.zeros((0, len(self.schema.features or ()))))
        try:
            columns = json.loads(value.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            return reject_message("the message is not JSON.", value)
        if not isinstance(columns, dict):
            return reject_message("the message is not a JSON object of columns.", value)
        schema = self.schema.with_features(n for n, v in columns.items() if _is_numbers(v))
        bad: dict[int, str] = {}
        if schema.features:
            schema, columns = _spread_columns(schema, columns, bad)
        reason = _columns_error(schema, columns)
        if reason:
            return reject_message(reason, value)
        block = _block_of_columns(schema, columns, bad)
        if len(block.row):
            self.schema = schema
        return block


def _is_numbers(column: Any) -> bool:
    """Whether a column is an array with numbers in it, and nothing else but nulls."""
    kinds = set(map(type, column)) if isinstance(column, list) else set()
    return bool(kinds & NUMBERS) and kinds <= NUMBERS | {type(None)}


def _columns_error(schema: Schema, columns: Row) -> str:
    """Return the reason why columns cannot be read as rows; empty if they can."""
    if schema.is_empty:
        return "the message has no column of numbers."
    if schema.features and columns.keys().isdisjoint(schema.features):
        return f"the message has no column {quoted(schema.features[0])}, nor any other feature."
    needed = [name for name in (*(schema.features or ()), *schema.other_columns) if name in columns]
    if not needed:
        return f"the message has no column {quoted(schema.text)}."
    for name in needed:
        if not isinstance(columns[name], list):
            return f"column {quoted(name)} is not an array."
        if len(columns[name]) != len(columns[needed[0]]):
            return f"columns {quoted(needed[0])} and {quoted(name)} differ in length."
    return ""


def _spread_columns(schema: Schema, columns: Row, bad: dict[int, str]) -> tuple[Schema, Row]:
    """Return schema and columns with a column for each entry of the vectors."""
    vectors = {n: columns.get(n) for n in open_vectors(schema.features)}
    lengths = {n: _vector_length(column) for n, column in vectors.items()}
    if all(1 <= length <= MAX_WIDTH for length in lengths.values()):
        schema = schema.with_widths(lengths.__getitem__)
    for name, width in vector_widths(schema.features).items():
        column = columns.get(name)
        if not isinstance(column, list):
            continue
        rows = [spread({name: vector}, {name: width}) for vector in column]
        for i, row in enumerate(rows):
            if isinstance(row, str):
                bad.setdefault(i, row)
        entries = [{} if isinstance(row, str) else row for row in rows]
        columns = {**columns, **{n: [e.get(n) for e in entries] for n in entry_names(name, width)}}
    return schema, columns


def _vector_length(column: Any) -> int:
    """Return the length of the first array of a column, 0 if it has none."""
    arrays = (v for v in column if isinstance(v, list)) if isinstance(column, list) else iter(())
    return len(next(arrays, []))


def _block_of_columns(
    schema: Schema, columns: Mapping[str, list[Any]], bad: dict[int, str]
) -> Block:
    names = schema.features or ()
    present = [name for name in (*names, *schema.other_columns) if name in columns]
    n_rows = len(columns[present[0]])
    nulls = [None] * n_rows
    X = budget.new_table(n_rows, len(names))
    for j, name in enumerate(names):
        X[:, j] = number_column(name, columns.get(name, nulls), bad, missing=schema.missing)
    extra = read_other_columns(schema, lambda name: columns.get(name, nulls), bad)

    def content(i: int) -> str:
        row = {name: columns[name][i] for name in present}
        return to_json({n: v if type(v) in PLAIN else "..." for n, v in row.items()}).decode()

    return build_block(schema, X, extra, bad=bad, content=content, complete=False)


def to_json(value: Any) -> bytes:
    """Return compact JSON in ASCII; NaN and infinity become null, unknown types become text."""
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"), default=_to_plain)
    except ValueError:
        text = json.dumps(_without_nan(value), separators=(",", ":"), default=_to_plain)
    return text.encode()


def _to_plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
