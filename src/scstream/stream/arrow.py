"""Everything that needs pyarrow: messages and files of Arrow and Parquet to rows, and back."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.errors import missing_extra
from scstream.preprocess.block import Block, Columns
from scstream.stream.checks import SHOWN, build_block, read_other_columns
from scstream.stream.json_messages import to_json
from scstream.stream.schema import Schema

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import ipc, parquet, types
except ImportError as error:
    raise missing_extra("pyarrow", "arrow") from error

_MAX_ROWS = 2**20  # of a message; a column of nulls takes no bytes for any number of rows
_MAX_BYTES = 2**28  # of a decompressed message
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_DAMAGE = (
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
        table = None
        try:
            table = _table(value)
            schema = self.schema.with_features(f.name for f in table.schema if _is_number(f.type))
            block = _block(schema, table)
        except _DAMAGE as error:
            reason = f"the message is no Arrow stream to learn from: {_short(error)}."
            return Block.rejected(reason, _columns_of(table))
        if len(block.row):
            self.schema = schema
        return block


def stream_bytes(columns: Columns) -> bytes:
    """Return columns as an Arrow IPC stream."""
    return _ipc_bytes(_as_table(columns))


def parquet_bytes(parts: Sequence[Columns]) -> bytes:
    """Return the rows of all parts as one Parquet file."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    joined = {name: _joined([_column_of(part, name) for part in parts]) for name in names}
    content = pa.BufferOutputStream()
    parquet.write_table(_as_table(joined), content)
    return bytes(content.getvalue().to_pybytes())


def open_groups(path: Path, format: str) -> ParquetGroups | ArrowGroups:
    """Open a file of row groups ("parquet") or of record batches ("arrow", file or stream)."""
    return ParquetGroups(path) if format == "parquet" else ArrowGroups(path)


def group_bytes(table: Any, start: int, stop: int) -> bytes:
    """Return some rows of a group as a message for `ArrowReader`."""
    return _ipc_bytes(table.slice(start, stop - start))


class ParquetGroups:
    """Row groups of a Parquet file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _as_value_error(path):
            self._file = parquet.ParquetFile(path)

    def group(self, number: int) -> Any:
        """Return a group as an Arrow table, None after the last; raises ValueError on damage."""
        if number >= self._file.num_row_groups:
            return None
        with _as_value_error(self._path):
            return self._file.read_row_group(number)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ArrowGroups:
    """Record batches of an Arrow file, which lists them, or of an Arrow stream, which does not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = pa.OSFile(str(path), "rb")
        self._is_file = self._file.read(6) == b"ARROW1"
        self._open()

    def group(self, number: int) -> Any:
        """Return a group as an Arrow table, None after the last; raises ValueError on damage."""
        with _as_value_error(self._path):
            if self._is_file:
                has = number < self._reader.num_record_batches
                return pa.table(self._reader.get_batch(number)) if has else None
            if number < self._next:
                self._open()
            while self._next <= number:
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    return None
                self._next += 1
            return pa.table(batch)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self) -> None:
        self._next = 0
        self._file.seek(0)
        with _as_value_error(self._path):
            open_file = ipc.open_file if self._is_file else ipc.open_stream
            self._reader = open_file(self._file)


class _as_value_error:
    """Turns what pyarrow raises on a damaged file into ValueError; disk errors pass."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        damaged = isinstance(error, pa.ArrowException) or (
            isinstance(error, OSError) and error.errno is None
        )
        if damaged:
            raise ValueError(f"{self._path.name} is damaged: {_short(error)}") from error


def _short(error: BaseException | None) -> str:
    return " ".join(str(error).split())[:200].rstrip(".")


def _columns_of(table: Any) -> str:
    """Return names and types of the columns of a rejected message, if it has some."""
    try:
        return "" if table is None else str(table.schema.to_string())[:SHOWN]
    except UnicodeDecodeError:
        return ""


def _ipc_bytes(table: Any) -> bytes:
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


def _table(value: bytes) -> Any:
    """Read a stream; raises ValueError if it has too many rows or bytes."""
    if _decompressed_size(value) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES} bytes when decompressed")
    with ipc.open_stream(value) as stream:
        table = stream.read_all()
    if table.num_rows > _MAX_ROWS:
        raise ValueError(f"it has more than {_MAX_ROWS} rows")
    return table


def _block(schema: Schema, table: Any) -> Block:
    names = schema.features or ()
    columns = _checked_columns(schema, table)
    by_column = np.empty((len(names), table.num_rows))  # (D, N)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        for j, name in enumerate(names):
            by_column[j] = _numbers(columns[name]) if name in columns else np.nan
    X = np.ascontiguousarray(by_column.T)  # (N, D)
    bad: dict[int, str] = {}
    nulls = [None] * table.num_rows

    def values_of(name: str) -> Sequence[Any]:
        if name not in columns:
            return nulls
        return _times(columns[name]) if name == schema.time else _values(columns[name])

    extra = read_other_columns(schema, values_of, bad)

    def content(i: int) -> str:
        row = dict(zip(names, X[i].tolist(), strict=True))
        return to_json(row | {name: values[i] for name, values in extra.items()}).decode()

    return build_block(schema, X, extra, bad=bad, content=content)


def _checked_columns(schema: Schema, table: Any) -> dict[str, pa.ChunkedArray]:
    """Return the columns of the schema, each of them validated; raises ValueError."""
    if schema.is_empty:
        raise ValueError("it has no column of numbers")
    names = table.column_names
    features = schema.features or ()
    wanted = {
        name: table.column(name) for name in (*features, *schema.other_columns) if name in names
    }
    for name in features:
        if name not in wanted:
            if not schema.missing or wanted.keys().isdisjoint(features):
                raise ValueError(f"it has no column {name!r}")
        elif not _is_feature(wanted[name].type, schema):
            raise ValueError(f"column {name!r} is of type {wanted[name].type}, not of numbers")
    for column in wanted.values():
        column.validate(full=True)
    return wanted


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


def _values(column: Any) -> Sequence[Any]:
    """Return a column as plain values; raises ValueError if its type has none."""
    kind = column.type
    if types.is_dictionary(kind):  # decoding it in Arrow would copy a long text for every row
        return [value for chunk in column.chunks for value in _decoded(chunk)]
    if types.is_string_view(kind):
        return _string_views(column)
    if types.is_temporal(kind) or types.is_decimal(kind):
        column = column.cast(pa.string())
    elif not (_is_number(kind) or any(is_kind(kind) for is_kind in _PLAIN_TYPES)):
        raise ValueError(f"a column of type {kind} has no plain values")
    return list(column.to_pylist())


_PLAIN_TYPES = (types.is_string, types.is_large_string, types.is_boolean, types.is_null)


def _decoded(chunk: Any) -> Sequence[Any]:
    words = _values(pa.chunked_array([chunk.dictionary]))
    return [None if i is None else words[i] for i in chunk.indices.to_pylist()]


def _string_views(column: Any) -> Sequence[Any]:
    """Return texts one at a time, within the limit: many may share the same bytes."""
    texts, length = [], 0
    for entry in column:
        texts.append(entry.as_py())
        length += len(texts[-1] or "")
        if length > _MAX_BYTES:
            raise ValueError(f"a column has more than {_MAX_BYTES} characters when decompressed")
    return texts


def _decompressed_size(value: bytes) -> int:
    """Return the size of the decompressed buffers of a stream, as it declares it."""
    total = 0
    messages = ipc.MessageReader.open_stream(value)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return total
        if message.type in ("record batch", "dictionary") and message.body is not None:
            total += _decompressed_batch_size(
                memoryview(message.metadata), memoryview(message.body)
            )


def _decompressed_batch_size(head: memoryview, body: memoryview) -> int:
    """Add up the declared sizes of the compressed buffers of a record batch.

    The header is a FlatBuffers table, which pyarrow has verified: Message (field 1 the kind of its
    field 2), DictionaryBatch (field 1 a RecordBatch), RecordBatch (field 2 its buffers as pairs of
    offset and length, field 3 the compression).
    """
    message = struct.unpack_from("<I", head, 0)[0]
    kind = head[_field(head, message, 1)]
    batch = _follow(head, _field(head, message, 2))
    if kind == 2:
        batch = _follow(head, _field(head, batch, 1))
    if not _field(head, batch, 3):
        return 0
    buffers = _follow(head, _field(head, batch, 2))
    total = 0
    for i in range(struct.unpack_from("<I", head, buffers)[0]):
        offset, length = struct.unpack_from("<qq", head, buffers + 4 + 16 * i)
        if length >= 8:
            total += max(struct.unpack_from("<q", body, offset)[0], 0)  # -1: not compressed
    return total


def _field(head: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a FlatBuffers table; 0 if it has none."""
    index = table - struct.unpack_from("<i", head, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", head, index)[0]:
        return 0
    offset = struct.unpack_from("<H", head, index + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _follow(head: memoryview, at: int) -> int:
    return int(at + struct.unpack_from("<I", head, at)[0])
