"""A file of groups of rows, written whole: Parquet or Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scstream.preprocess.block import Block
from scstream.stream.connectors.files.marks import HEAD, mark_of
from scstream.stream.source import Position, Record

RECORD_ROWS = 65_536  # of a group in one record


class GroupFile:
    """A file of groups of rows, written whole: Parquet or Arrow."""

    def __init__(self, path: Path, name: str, *, format: str, position: Position) -> None:
        self.path = path
        self.name = name
        self.inode = path.stat().st_ino
        self.offset = path.stat().st_size  # it is there as a whole
        self._format = format
        self._group = position.get("group", 0)  # None: behind the last
        self._row = position.get("row", 0)
        self.mark = mark_of(path, HEAD)
        self._groups: Any = None
        self._table: Any = None  # the current group

    def take(self, *, last: bool) -> Record | None:
        """Return the next rows; a file that cannot be read yet is waited for, unless it is last."""
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
        """Do nothing: the file was written whole."""

    def close(self) -> None:
        """Let go of the file."""
        if self._groups is not None:
            self._groups.close()

    def _find_rows(self) -> bool:
        """Make the group that has the next row the current one; tell if there is one."""
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
        """Return a record that ends there, and go there."""
        position = self._position()
        self._group, self._row = group, row
        return Record(position, self._position(), value)

    def _position(self) -> Position:
        place = {"file": self.name, "group": self._group, "row": self._row}
        return place | {"mark": self.mark}
