"""Arrow messages to rows, and rows to Arrow and Parquet."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scstream.errors import missing_extra
from scstream.io import budget
from scstream.preprocess.block import Block, Columns
from scstream.stream.arrow_header import BatchSizes, batch_sizes
from scstream.stream.checks import build_block, read_other_columns
from scstream.stream.json_messages import to_json
from scstream.stream.schema import Schema
from scstream.stream.vectors import entry_names, open_vectors, vector_widths

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import ipc, parquet, types
except ImportError as error:
    raise missing_extra("pyarrow", "arrow") from error

from scstream.stream import arrow_vectors

_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
DAMAGE = (
    pa.ArrowException,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    struct.error,
    MemoryError,
)


class ArrowReader:
    """Reads messages that are Arrow IPC streams; times may also be Arrow dates or timestamps."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def read(self, value: bytes) -> Block:
        """Return the rows of a message; a damaged message becomes one rejected row."""
        header = None
        try:
            header = StreamHeader.of(value)
            schema = self.schema.with_features(header.columns_of_numbers())
            schema = schema.with_widths(lambda name: _vector_width(header, value, name))
            block = _block(schema, _table(schema, header, value))
        except budget.TooLarge as error:
            return Block.rejected(f"the message {error}", _columns_of(header))
        except MemoryError:
            reason = (
                "the message needs more memory than is free when it is decoded; send it in parts, "
                "or give the process more memory and send it again."
            )
            return Block.rejected(reason, _columns_of(header))
        except DAMAGE as error:
            reason = f"the message is no Arrow stream to learn from: {short(error)}."
            return Block.rejected(reason, _columns_of(header))
        if len(block.row):
            self.schema = schema
        return block


class StreamHeader(NamedTuple):
    """The columns and sizes of an Arrow stream; nothing of it is decompressed yet."""

    schema: Any
    n_rows: int
    n_bytes: int  # of all columns and dictionaries once they are decompressed

    @classmethod
    def of(cls, value: bytes) -> StreamHeader:
        """Read the headers of a stream; raises one of `DAMAGE`."""
        sizes = list(read_sizes(value))
        with ipc.open_stream(value) as stream:
            schema = stream.schema
        n_rows = sum(max(each.n_rows, 0) for each in sizes if not each.is_dictionary)
        return cls(schema, n_rows, sum(each.n_bytes for each in sizes))

    def columns_of_numbers(self, *, nulls: bool = False) -> list[str]:
        """Return the names of the columns of numbers, and on request of those of nulls."""
        return [
            field.name
            for field in self.schema
            if _is_number(field.type) or (nulls and types.is_null(field.type))
        ]

    def check(self, n_columns: int) -> None:
        """Raise `TooLarge` if so many columns, or all buffers, need too much memory."""
        budget.check_table(self.n_rows, n_columns)
        budget.check_bytes(self.n_bytes, ", decompressed")


def stream_bytes(columns: Columns) -> bytes:
    """Return columns as an Arrow IPC stream."""
    return table_bytes(_as_table(columns))


def parquet_bytes(parts: Sequence[Columns]) -> bytes:
    """Return the rows of all parts as one Parquet file."""
    content = pa.BufferOutputStream()
    parquet.write_table(table_of(parts), content)
    return bytes(content.getvalue().to_pybytes())


def table_of(parts: Sequence[Columns]) -> Any:
    """Return the rows of all parts as one Arrow table."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    return _as_table({name: _joined([_column_of(part, name) for part in parts]) for name in names})


def short(error: BaseException | None) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split())[:200].rstrip(".")


def _columns_of(header: StreamHeader | None) -> str:
    """Return names and types of the columns of a rejected message, if it has some."""
    try:
        return "" if header is None else str(header.schema.to_string())[: budget.MAX_CONTENT]
    except UnicodeDecodeError:
        return ""


def table_bytes(table: Any) -> bytes:
    """Return a table as an Arrow IPC stream."""
    content = pa.BufferOutputStream()
    with ipc.new_stream(content, table.schema) as stream:
        stream.write_table(table)
    return bytes(content.getvalue().to_pybytes())


def _as_table(columns: Columns) -> Any:
    return pa.table({name: _as_array(values) for name, values in columns.items()})


def _as_array(values: NDArray[Any]) -> Any:
    """Return a column in Arrow; values of several types, or of none, become text."""
    if values.dtype != object:
        return pa.array(values)
    try:
        array = pa.array(values.tolist())
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in values.tolist()])
    return array.cast(pa.string()) if types.is_null(array.type) else array


def _column_of(part: Columns, name: str) -> NDArray[Any]:
    if name in part:
        return part[name]
    return np.full(len(next(iter(part.values()))), None, dtype=object)


def _joined(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """Join columns; numpy would turn numbers next to text into text."""
    mixed = len({column.dtype.kind for column in columns}) > 1
    return np.concatenate([column.astype(object) if mixed else column for column in columns])


def read_sizes(content: Any) -> Iterator[BatchSizes]:
    """Yield the sizes of the record batches and dictionaries of a stream, from their headers."""
    messages = ipc.MessageReader.open_stream(content)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        if message.type in ("record batch", "dictionary") and message.body is not None:
            yield batch_sizes(memoryview(message.metadata), memoryview(message.body))


def needed_columns(schema: Schema, columns: Any) -> list[int]:
    """Return the indices of the columns (an Arrow schema) that the roles need.

    A schema without features needs all columns of numbers.
    """
    vectors = (*vector_widths(schema.features), *open_vectors(schema.features))
    wanted = {*(schema.features or ()), *vectors, *schema.other_columns}
    return [
        i
        for i, field in enumerate(columns)
        if field.name in wanted or (schema.features is None and _is_number(field.type))
    ]


def _table(schema: Schema, header: StreamHeader, value: bytes) -> Any:
    """Decode the columns that are needed; check names, types and sizes before that."""
    _check_columns(schema, header.schema)
    header.check(len(schema.features or ()) + len(schema.other_columns))
    return _decode(value, needed_columns(schema, header.schema))


def _vector_width(header: StreamHeader, value: bytes, name: str) -> int:
    """Return the number of entries of the first list of a column."""
    header.check(1)
    return arrow_vectors.width(_decode(value, [*header.schema.get_all_field_indices(name)]), name)


def _decode(value: bytes, columns: list[int]) -> Any:
    options = ipc.IpcReadOptions(included_fields=columns, use_threads=False)
    with ipc.open_stream(value, options=options) as stream:
        return stream.read_all()


def _block(schema: Schema, table: Any) -> Block:
    names = schema.features or ()
    columns = {name: table.column(name) for name in table.column_names}
    for column in columns.values():
        column.validate(full=True)
    bad: dict[int, str] = {}
    vectors = arrow_vectors.entries(schema, table, bad)
    by_column = np.empty((len(names), table.num_rows))  # (D, N); `_table` has checked its size
    with np.errstate(invalid="ignore"):  # a signalling NaN
        for j, name in enumerate(names):
            if name in vectors:
                by_column[j] = vectors[name]
            else:
                by_column[j] = _numbers(columns[name]) if name in columns else np.nan
    X = np.ascontiguousarray(by_column.T)  # (N, D)
    del by_column  # there is no room for a third copy
    nulls = [None] * table.num_rows

    def values_of(name: str) -> Sequence[Any]:
        if name not in columns:
            return nulls
        return _times(columns[name]) if name == schema.time else _values(columns[name])

    extra = read_other_columns(schema, values_of, bad)

    def content(i: int) -> str:
        row = dict(zip(names, X[i].tolist(), strict=True))
        return to_json(row | {name: values[i] for name, values in extra.items()}).decode()

    # A value that is no number is NaN by now.
    return build_block(schema, X, extra, bad=bad, content=content, complete=False)


def _check_columns(schema: Schema, columns: Any) -> None:
    """Raise ValueError unless an Arrow schema has the features, and each name once."""
    if schema.is_empty:
        raise ValueError("it has no column of numbers")
    n_columns = Counter(columns.names)
    types_of = dict(zip(columns.names, columns.types, strict=True))
    widths = {n: w for n, w in vector_widths(schema.features).items() if n in types_of}
    entries = {entry for name, width in widths.items() for entry in entry_names(name, width)}
    features = [name for name in schema.features or () if name not in entries]
    for name in (*features, *widths, *schema.other_columns):
        if n_columns[name] > 1:
            raise ValueError(f"it has the column {name!r} more than once")
    for name in features:
        if name not in types_of:
            if not schema.missing or types_of.keys().isdisjoint((*features, *widths)):
                raise ValueError(f"it has no column {name!r}")
        elif not _is_feature(types_of[name], schema):
            raise ValueError(f"column {name!r} is of type {types_of[name]}, not of numbers")
    for name in schema.other_columns:
        if name in types_of and not _has_plain_values(types_of[name]):
            raise ValueError(f"a column of type {types_of[name]} has no plain values")
    if types_of.keys().isdisjoint((*features, *widths, *schema.other_columns)):
        raise ValueError(f"it has no column {schema.text!r}")


def _is_number(kind: Any) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_feature(kind: Any, schema: Schema) -> bool:
    return _is_number(kind) or bool(schema.missing and types.is_null(kind))


def _numbers(column: Any) -> NDArray[Any]:  # (N,)
    if types.is_null(column.type) or types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy())


def _times(column: Any) -> Sequence[Any]:
    """Return Arrow times as seconds, other values as they are."""
    if types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    if not types.is_timestamp(column.type):
        return _values(column)
    ticks = column.cast(pa.int64()).to_numpy()
    return [float(tick) for tick in ticks / _PER_SECOND[column.type.unit]]


def _has_plain_values(kind: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(is_kind(kind) for is_kind in _PLAIN_TYPES)


_PLAIN_TYPES = (
    *(types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null),
    *(types.is_string, types.is_large_string, types.is_string_view, types.is_temporal),
)


def _values(column: Any) -> Sequence[Any]:
    """Return a column as plain values."""
    kind = column.type
    if types.is_dictionary(kind):  # decoding it in Arrow would copy a long text for every row
        return _within([value for chunk in column.chunks for value in _decoded(chunk)])
    if types.is_string_view(kind):
        return _within(entry.as_py() for entry in column)
    if types.is_temporal(kind) or types.is_decimal(kind):
        column = column.cast(pa.string())
    return list(column.to_pylist())


def _decoded(chunk: Any) -> Sequence[Any]:
    words = _values(pa.chunked_array([chunk.dictionary]))
    return [None if i is None else words[i] for i in chunk.indices.to_pylist()]


def _within(values: Iterable[Any]) -> Sequence[Any]:
    """Return values one at a time, as long as texts that may share their bytes are not too long."""
    found, length = [], 0
    for value in values:
        found.append(value)
        if type(value) is str:
            length += len(value)
            budget.check_texts(length)
    return found
