"""Read a file of row groups: Parquet or Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scstream.preprocess.block import Block
from scstream.stream.connectors.files.fingerprint import HEAD, Fingerprint
from scstream.stream.schema import Schema
from scstream.stream.source import Position, Record


class GroupFile:
    """A file of row groups, which is complete when it appears; `schema` says what is needed."""

    def __init__(
        self, path: Path, name: str, *, format: str, position: Position, schema: Schema | None
    ) -> None:
        self.path = path
        self.name = name
        self.inode = path.stat().st_ino
        self.offset = path.stat().st_size
        self.fingerprint = str(Fingerprint.of_file(path, HEAD))
        self._format = format
        self._group = position.get("group", 0)  # None: after the last
        self._row = position.get("row", 0)
        self._schema = schema
        self._groups: Any = None
        self._tables: Iterator[Any] | None = None  # parts of the current group

    def take(self, *, last: bool) -> Record | None:
        """Return the next rows; an unreadable file is tried again later, unless it is the last."""
        from scstream.stream.arrow import table_bytes

        try:
            table = self._next_part()
        except ValueError as error:
            if self._groups is None and not last:
                return None
            return self._record(None, 0, Block.rejected(str(error), self.name))
        if table is None:
            return None
        return self._record(self._group, self._row + table.num_rows, table_bytes(table))

    def verify(self) -> None:
        """Do nothing: the file does not grow."""

    def close(self) -> None:
        """Close the file."""
        if self._groups is not None:
            self._groups.close()

    def _next_part(self) -> Any:
        """Return the next rows as an Arrow table; None after the last."""
        from scstream.stream.arrow_files import open_groups

        if self._group is not None and self._groups is None:
            self._groups = open_groups(self.path, self._format, self._schema)
        while self._group is not None:
            if self._tables is None:
                self._tables = self._groups.tables(self._group, self._row)
            if self._tables is None:
                return None
            table = next(self._tables, None)
            if table is not None:
                return table
            self._group, self._row, self._tables = self._group + 1, 0, None
        return None

    def _record(self, group: int | None, row: int, value: bytes | Block) -> Record:
        """Return a record that ends at a row, and go there."""
        position = self._position()
        self._group, self._row = group, row
        return Record(position, self._position(), value)

    def _position(self) -> Position:
        return {
            "file": self.name,
            "group": self._group,
            "row": self._row,
            "fingerprint": self.fingerprint,
        }
