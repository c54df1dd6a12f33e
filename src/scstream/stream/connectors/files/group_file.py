"""Read a file of row groups: Parquet or Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scstream.preprocess.block import Block
from scstream.stream.connectors.files.fingerprint import HEAD, Fingerprint
from scstream.stream.source import Position, Record

RECORD_ROWS = 65_536  # maximum number of rows of a record


class GroupFile:
    """A file of row groups, which is complete when it appears."""

    def __init__(self, path: Path, name: str, *, format: str, position: Position) -> None:
        self.path = path
        self.name = name
        self.inode = path.stat().st_ino
        self.offset = path.stat().st_size
        self.fingerprint = str(Fingerprint.of_file(path, HEAD))
        self._format = format
        self._group = position.get("group", 0)  # None: after the last
        self._row = position.get("row", 0)
        self._groups: Any = None
        self._table: Any = None  # the current group

    def take(self, *, last: bool) -> Record | None:
        """Return the next rows; an unreadable file is tried again later, unless it is the last."""
        from scstream.stream.arrow import group_bytes

        try:
            if not self._find_rows():
                return None
        except ValueError as error:
            if self._groups is None and not last:
                return None
            return self._record(None, 0, Block.rejected(f"{error}.", self.name))
        stop = min(self._row + RECORD_ROWS, self._table.num_rows)
        return self._record(self._group, stop, group_bytes(self._table, self._row, stop))

    def verify(self) -> None:
        """Do nothing: the file does not grow."""

    def close(self) -> None:
        """Close the file."""
        if self._groups is not None:
            self._groups.close()

    def _find_rows(self) -> bool:
        """Go to the group that has the next row; return whether there is one."""
        from scstream.stream.arrow import open_groups

        if self._group is not None and self._groups is None:
            self._groups = open_groups(self.path, self._format)
        while self._group is not None:
            if self._table is None:
                self._table = self._groups.group(self._group)
            if self._table is None:
                return False
            if self._row < self._table.num_rows:
                return True
            self._group, self._row, self._table = self._group + 1, 0, None
        return False

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
