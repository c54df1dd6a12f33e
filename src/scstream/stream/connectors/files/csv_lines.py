"""Read and write lines of CSV; a line is a row, so fields cannot have line breaks."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scstream.io import budget
from scstream.preprocess.block import Block
from scstream.stream.checks import (
    block_of_lines,
    build_block,
    number_column,
    read_other_columns,
    text_lines,
    within_budget,
)
from scstream.stream.schema import Schema
from scstream.stream.sink import Delivery, plain_rows


def csv_line(values: Sequence[Any], delimiter: str = ",") -> bytes:
    """Return one line of CSV; None is an empty field."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(values)
    return line.getvalue().encode(errors="replace")


def csv_rows(delivery: Delivery, columns: Sequence[str], *, header: bool) -> Iterator[bytes]:
    """Yield the rows of a delivery as lines of CSV."""
    if header:
        yield csv_line(columns)
    for row in plain_rows(delivery):
        yield csv_line([row.get(name) for name in columns])


class CsvReader:
    """Read lines of CSV; the first line has the names of the columns.

    Columns that are kept stay text.
    """

    def __init__(self, schema: Schema, *, delimiter: str = ",") -> None:
        self.schema = schema
        self._delimiter = delimiter
        self._head: tuple[bytes, list[str]] = (b"", [])  # the last header line, and its names

    @within_budget
    def read(self, value: bytes) -> Block:
        """Return the rows of some lines, the first of which is the header."""
        budget.check_lines(value, self._delimiter.encode())
        head, _, body = value.partition(b"\n")
        if self._head[0] != head:
            self._head = (head, self._names(head))
        names = self._head[1]
        return block_of_lines(
            *text_lines(body, blank="\r\ufeff"),
            lambda line: self._fields(line, names),
            lambda rows, content: _block_of_fields(self.schema, names, rows, content),
        )

    def _names(self, head: bytes) -> list[str]:
        """Return the names of the columns; none if the header is invalid."""
        names = self._split(head.decode(errors="replace").strip("\r\ufeff"))
        names = [] if isinstance(names, str) else [name.strip() for name in names]
        return names if len(set(names)) == len(names) else []

    def _fields(self, line: str, names: list[str]) -> list[str] | str:
        if not names:
            return "the file does not begin with a header of unique column names."
        fields = self._split(line)
        if isinstance(fields, str):
            return fields
        if len(fields) != len(names):
            return f"the line has {len(fields)} fields where the header has {len(names)}."
        return fields if self.schema.features is not None else self._infer_features(names, fields)

    def _split(self, line: str) -> list[str] | str:
        """Return the fields of a line, or why it is invalid."""
        if '"' not in line:
            return line.split(self._delimiter)
        try:
            return next(csv.reader([line], delimiter=self._delimiter, strict=True))
        except csv.Error as error:
            return f"the line is not CSV: {error}."

    def _infer_features(self, names: list[str], row: list[str]) -> list[str] | str:
        """Use the numeric columns of the first valid row as features."""
        numeric = [
            n for n, field in zip(names, row, strict=True) if isinstance(_cell(field), float)
        ]
        trial = self.schema.with_features(numeric)
        if trial.is_empty:
            return "the line has no column of numbers."
        block = _block_of_fields(trial, names, [row], lambda i: "")
        if block.rejects:
            return block.rejects[0].reason
        self.schema = trial
        return row


def _block_of_fields(
    schema: Schema, names: list[str], rows: list[list[str]], content: Callable[[int], str]
) -> Block:
    column = {name: j for j, name in enumerate(names)}
    bad: dict[int, str] = {}

    def fields(name: str) -> list[str] | list[None]:
        return [row[column[name]] for row in rows] if name in column else [None] * len(rows)

    features = schema.features or ()
    X = budget.new_table(len(rows), len(features))  # (N, D)
    for j, name in enumerate(features):
        X[:, j] = number_column(name, _cells(fields(name)), bad, missing=schema.missing)
    kept = read_other_columns(
        schema, lambda n: _cells(fields(n)) if n == schema.time else fields(n), bad
    )
    return build_block(schema, X, kept, bad=bad, content=content)


def _cells(fields: Sequence[str | None]) -> list[float | str | None]:
    """Return the numbers of a column, at once if it has only numbers."""
    try:
        if not any("_" in field for field in fields if field):  # Python reads 1_000 as a number
            return list(map(float, fields))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    return [None if field is None else _cell(field) for field in fields]


def _cell(field: str) -> float | str | None:
    """Return a field as a number, as None, or as text."""
    if not field.strip():
        return None
    try:
        return field if "_" in field else float(field)
    except ValueError:
        return field
