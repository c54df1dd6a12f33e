"""Files of Arrow and Parquet, group by group, as messages for `ArrowReader`.

A group is read in parts, and only in the columns that are needed; its sizes are checked before
that.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scstream.errors import missing_extra
from scstream.io import budget
from scstream.stream.arrow import needed_columns, read_sizes, short
from scstream.stream.parquet_pages import pages
from scstream.stream.schema import Schema

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import compute, ipc, parquet, types
except ImportError as error:
    raise missing_extra("pyarrow", "arrow") from error

RECORD_ROWS = 65_536  # maximum number of rows of a part
_RECORD_TEXT = budget.MAX_BYTES // 4  # maximum number of bytes of the texts of a part
_SHARED = 64  # times the bytes of a group that its texts may need beyond `budget.MAX_BYTES`
_MAGIC = b"ARROW1\0\0"  # before the stream in an Arrow file


def open_groups(path: Path, format: str, schema: Schema | None) -> ParquetGroups | ArrowGroups:
    """Open a file of row groups ("parquet") or of record batches ("arrow", file or stream).

    `schema` says which columns are needed; None for all.
    """
    return (ParquetGroups if format == "parquet" else ArrowGroups)(path, schema)


class ParquetGroups:
    """Row groups of a Parquet file."""

    def __init__(self, path: Path, schema: Schema | None) -> None:
        self._path = path
        with _as_value_error(path), parquet.ParquetFile(path) as file:
            columns = file.schema_arrow
            needed = _needed(schema, columns)
            self._names = [columns.names[i] for i in needed]
            texts = [columns.names[i] for i in needed if _is_text(columns.types[i])]
            # One long text may stand in many rows; as a dictionary it is in memory once.
            self._file = parquet.ParquetFile(path, read_dictionary=texts, buffer_size=2**20)
        self._n_rows = _record_rows(schema, len(needed))

    def tables(self, number: int, row: int) -> Iterator[Any] | None:
        """Yield a group from a row on, in parts; None after the last group.

        Raises ValueError on damage, also between two parts.
        """
        if number >= self._file.num_row_groups:
            return None
        return self._parts(number, row)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _parts(self, number: int, row: int) -> Iterator[Any]:
        with _as_value_error(self._path):
            n_rows, n_bytes = self._checked_sizes(number)
            found = self._file.iter_batches(
                n_rows, row_groups=[number], columns=self._names, use_threads=False
            )
            n_texts = 0
            for batch in found:
                table = pa.table(batch)
                n_texts += _text_bytes(table)  # also of rows that are skipped: same end after each
                _check_texts(n_texts, n_bytes)
                skipped = min(row, batch.num_rows)
                row -= skipped
                yield from _parts(table.slice(skipped), n_rows)

    def _checked_sizes(self, number: int) -> tuple[int, int]:
        """Return how many rows of a group may be read at once, and its bytes; raises `TooLarge`."""
        group = self._file.metadata.row_group(number)
        leaves = [group.column(i) for i in range(group.num_columns)]
        n_bytes = sum(leaf.total_compressed_size for leaf in leaves)
        _check_rows(group.num_rows, n_bytes)
        largest, n_rows = 0, self._n_rows
        with self._path.open("rb") as file:

            def read(at: int, length: int) -> bytes:
                file.seek(at)
                return file.read(length)

            for leaf in leaves:
                if leaf.path_in_schema.split(".")[0] not in self._names:
                    continue
                start = leaf.dictionary_page_offset or leaf.data_page_offset
                found = list(pages(read, start, leaf.total_compressed_size))
                longest = max((page.n_bytes for page in found), default=0)
                if any(page.shares_prefixes for page in found):
                    n_rows = min(n_rows, max(budget.MAX_BYTES // max(longest, 1), 1))
                largest += longest
        budget.check_bytes(largest, ", for one page of every column")
        return n_rows, n_bytes


class ArrowGroups:
    """Record batches of an Arrow file or an Arrow stream."""

    def __init__(self, path: Path, schema: Schema | None) -> None:
        self._path = path
        self._file = pa.OSFile(str(path), "rb")
        self._headers = pa.OSFile(str(path), "rb")  # read one message ahead of the other
        self._start = 0
        with _as_value_error(path):
            if self._file.read(len(_MAGIC)) == _MAGIC:
                ipc.open_file(self._file)  # a file that is complete has a footer
                self._start = len(_MAGIC)
            self._file.seek(self._start)
            columns = ipc.open_stream(self._file).schema
        needed = _needed(schema, columns)
        self._included = needed or [0]  # none would mean all
        self._n_rows = _record_rows(schema, len(needed))
        self._open()

    def tables(self, number: int, row: int) -> Iterator[Any] | None:
        """Yield a group from a row on, in parts; None after the last group.

        Raises ValueError on damage.
        """
        with _as_value_error(self._path):
            if number < self._next:
                self._open()
            batch = None
            while self._next <= number:
                if not self._check_next():
                    return None
                batch = self._reader.read_next_batch()
                self._next += 1
            table = pa.table(batch)
            _check_texts(_text_bytes(table), self._batch_bytes + self._dictionary_bytes)
        return _parts(table.slice(row), self._n_rows)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._headers.close()

    def _open(self) -> None:
        self._next = self._batch_bytes = self._dictionary_bytes = 0
        for file in (self._file, self._headers):
            file.seek(self._start)
        options = ipc.IpcReadOptions(included_fields=self._included, use_threads=False)
        with _as_value_error(self._path):
            self._reader = ipc.open_stream(self._file, options=options)
            self._sizes = read_sizes(self._headers)

    def _check_next(self) -> bool:
        """Check the sizes of the next batch and its dictionaries; return whether there is one."""
        for sizes in self._sizes:
            budget.check_bytes(sizes.n_bytes, ", decompressed")
            if not sizes.is_dictionary:
                _check_rows(sizes.n_rows, sizes.n_bytes)
                self._batch_bytes = sizes.n_bytes
                return True
            self._dictionary_bytes += sizes.n_bytes
        return False


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
            raise ValueError(f"{self._path.name} is damaged: {short(error)}.") from error
        if isinstance(error, budget.TooLarge):
            raise ValueError(f"a group of {self._path.name} {error}") from error


def _needed(schema: Schema | None, columns: Any) -> list[int]:
    return list(range(len(columns))) if schema is None else needed_columns(schema, columns)


def _record_rows(schema: Schema | None, n_needed: int) -> int:
    """Return how many rows fit into a part; columns that the file lacks are counted, too."""
    named = () if schema is None else (*(schema.features or ()), *schema.other_columns)
    return budget.max_rows(max(len(named), n_needed), RECORD_ROWS)


def _check_rows(n_rows: int, n_bytes: int) -> None:
    """Raise `TooLarge` if there are many rows that take hardly any bytes."""
    if n_rows > 8 * n_bytes:
        budget.check_rows(n_rows)


def _check_texts(n_texts: int, n_bytes: int) -> None:
    """Raise `TooLarge` if long texts take hardly any bytes; the sink would get all of them."""
    if n_texts > _SHARED * n_bytes:
        budget.check_texts(n_texts)


def _parts(table: Any, n_rows: int) -> Iterator[Any]:
    """Yield a table in parts of so many rows, and of fewer if their texts are long."""
    for start in range(0, table.num_rows, n_rows):
        part = table.slice(start, n_rows)
        if part.num_rows > 1 and _text_bytes(part) > _RECORD_TEXT:
            yield from _parts(part, (part.num_rows + 1) // 2)
        else:
            yield part


def _text_bytes(table: Any) -> int:
    """Return the bytes of all texts, as if each were in memory for itself."""
    total = 0
    for column in table.columns:
        for chunk in column.chunks:
            if types.is_dictionary(chunk.type) and _is_text(chunk.type.value_type):
                lengths = compute.binary_length(chunk.dictionary).take(chunk.indices)
            elif _is_text(chunk.type):
                lengths = compute.binary_length(chunk)
            else:
                continue
            total += compute.sum(lengths).as_py() or 0
    return total


def _is_text(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))
