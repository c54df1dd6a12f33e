"""A file of lines, which may still grow."""

from __future__ import annotations

import os
from pathlib import Path

from scstream.preprocess.block import Block
from scstream.stream.checks import shown
from scstream.stream.connectors.files.marks import HEAD, as_mark, compare, hash_of, read_mark
from scstream.stream.source import Position, Record

RECORD_BYTES = 65_536  # of a record


class TextFile:
    """A file of lines, read in runs of whole lines."""

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        offset: int,
        max_line: int,
        header: bytes | None,
    ) -> None:
        self.path = path
        self.name = name
        self.offset = offset  # of the next byte to be passed on
        self._max_line = max_line
        self._run = min(RECORD_BYTES, max_line)
        self._header = header  # goes before the lines of every record; None: not read yet
        self._file = path.open("rb", buffering=0)
        self.inode = os.fstat(self._file.fileno()).st_ino
        self._buffer = b""
        self._at = 0  # where in the buffer the offset is
        self._long: tuple[int, str] | None = None  # a line beyond measure: where, how it begins
        self._head = (0, hash_of(b""))  # length and digest of the head, as far as it was read
        first_look = _lines_of(self._read_at(0, HEAD))
        self.mark = as_mark(self.inode, len(first_look), digest=hash_of(first_look))

    def take(self, *, last: bool) -> Record | None:
        """Return the next lines; the last one needs no line break if the file is finished."""
        if self._header is None and not self._read_header(last=last):
            return None
        if self._long is None:
            self._fill()
        if self._long is not None or self._first_line() > self._max_line:
            return self._pass_over(last=last)
        at = self._at
        end = self._buffer.rfind(b"\n", at, at + self._run) + 1 or self._buffer.find(b"\n", at) + 1
        if not end and last:
            end = len(self._buffer)
        if end <= at:
            self._buffer, self._at = b"", 0  # who writes may still take half a line back
            return None
        return self._record(self.offset, (self._header or b"") + self._buffer[at:end], end=end)

    def verify(self) -> None:
        """Check that the file is as long as it was, and begins as it did."""
        compare(
            self.path,
            self._position(self.offset),
            inode=self.inode,
            size=os.fstat(self._file.fileno()).st_size,
            head=lambda length: self._read_at(0, length),
        )

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _fill(self) -> None:
        """Read until a run is there, or more of one line than there may be."""
        while len(self._buffer) - self._at < self._run or self._buffer.find(b"\n", self._at) < 0:
            self._buffer, self._at = self._buffer[self._at :], 0
            more = self._read_at(self.offset + len(self._buffer), RECORD_BYTES)
            self._buffer += more
            if not more or len(self._buffer) > self._max_line + RECORD_BYTES:
                return

    def _first_line(self) -> int:
        """Return how long the next line is, or what is there of it."""
        end = self._buffer.find(b"\n", self._at)
        return (len(self._buffer) if end < 0 else end) - self._at

    def _pass_over(self, *, last: bool) -> Record | None:
        """Refuse a line beyond measure, of which only the beginning is kept in memory."""
        begins = self._buffer[self._at : self._at + self._max_line]
        start, begins_with = self._long or (self.offset, shown(begins))
        while (end := self._buffer.find(b"\n", self._at) + 1) == 0:
            self.offset += len(self._buffer) - self._at
            self._buffer, self._at = self._read_at(self.offset, RECORD_BYTES), 0
            if not self._buffer:
                break
        if not end and not last:
            self._long = (start, begins_with)
            return None
        self._long = None
        reason = f"the line at byte {start} of {self.name} is longer than {self._max_line} bytes."
        return self._record(start, Block.rejected(reason, begins_with), end=end)

    def _record(self, start: int, value: bytes | Block, *, end: int) -> Record:
        """Return a record that ends there in the buffer, and go there."""
        position = self._position(start)
        self.offset += end - self._at
        self._at = end
        after = self._position(self.offset)
        _, marked, _ = read_mark(self.mark)
        if marked < self._head[0]:
            self.mark = after["mark"]
        return Record(position, after, value)

    def _position(self, offset: int) -> Position:
        length = min(offset, HEAD)
        if self._head[0] != length:  # once it is as long as it gets it stays
            self._head = (length, hash_of(self._read_at(0, length)))
        mark = as_mark(self.inode, length, digest=self._head[1])
        return {"file": self.name, "offset": offset, "mark": mark}

    def _read_header(self, *, last: bool) -> bool:
        """Read the names of the columns, which every record begins with; tell if they are there."""
        head = self._read_at(0, self._max_line)
        end = head.find(b"\n") + 1
        if not end and not last:
            return False
        end = end or len(head)
        self._header = head[:end].rstrip(b"\r\n") + b"\n"
        self.offset = max(self.offset, end)
        return True

    def _read_at(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length)


def _lines_of(head: bytes) -> bytes:
    """Return what stays as it is of the head of a file that grows: whole lines, or all of it."""
    return head if len(head) == HEAD else head[: head.rfind(b"\n") + 1]


def records_in(n_bytes: int) -> int:
    """Return about how many records so much text makes.

    Examples
    --------
    >>> from scstream.stream.connectors.files.text import records_in
    >>> records_in(65_537)
    2
    """
    return -(-n_bytes // RECORD_BYTES)


def whole_lines(path: Path) -> int:
    """Return the length of a file up to its last line break."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(end - RECORD_BYTES, 0)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
