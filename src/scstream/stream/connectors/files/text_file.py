"""Read a file of lines, which may grow."""

from __future__ import annotations

import os
from pathlib import Path

from scstream.io.budget import MAX_CONTENT
from scstream.preprocess.block import Block
from scstream.stream.connectors.files.fingerprint import (
    HEAD,
    Fingerprint,
    check_same_file,
)
from scstream.stream.source import Position, Record

RECORD_BYTES = 65_536  # approximate size of a record


class TextFile:
    """A file of lines; a record is several whole lines."""

    def __init__(
        self, path: Path, name: str, *, offset: int, max_line: int, header: bytes | None
    ) -> None:
        self.path = path
        self.name = name
        self.offset = offset  # of the next byte to return
        self._max_line = max_line
        self._run = min(RECORD_BYTES, max_line)
        self._header = header  # begins every record; None: not read yet
        self._file = path.open("rb", buffering=0)
        self.inode = os.fstat(self._file.fileno()).st_ino
        self._buffer = b""
        self._at = 0  # where the offset is in the buffer
        self._long: tuple[int, str] | None = None  # a line that is too long: offset and beginning
        self._head = Fingerprint.of_bytes(self.inode, b"")  # of the part that was read
        self.fingerprint = str(
            Fingerprint.of_bytes(self.inode, _whole_lines(self._read_at(0, HEAD)))
        )

    def take(self, *, last: bool) -> Record | None:
        """Return the next lines; the last line of a finished file needs no line break."""
        if self._header is None and not self._read_header(last=last):
            return None
        if self._long is None:
            self._fill()
        if self._long is not None or self._first_line() > self._max_line:
            return self._reject_line(last=last)
        at = self._at
        end = self._buffer.rfind(b"\n", at, at + self._run) + 1 or self._buffer.find(b"\n", at) + 1
        if not end and last:
            end = len(self._buffer)
        if end <= at:
            self._buffer, self._at = b"", 0  # the writer may still change half a line
            return None
        return self._record(self.offset, (self._header or b"") + self._buffer[at:end], end=end)

    def verify(self) -> None:
        """Check that the file was not truncated or written again."""
        check_same_file(
            self.path,
            self._position(self.offset),
            inode=self.inode,
            size=os.fstat(self._file.fileno()).st_size,
            head=lambda length: self._read_at(0, length),
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _fill(self) -> None:
        """Read until a record is complete, or one line is too long."""
        while len(self._buffer) - self._at < self._run or self._buffer.find(b"\n", self._at) < 0:
            self._buffer, self._at = self._buffer[self._at :], 0
            more = self._read_at(self.offset + len(self._buffer), RECORD_BYTES)
            self._buffer += more
            if not more or len(self._buffer) > self._max_line + RECORD_BYTES:
                return

    def _first_line(self) -> int:
        """Return the length of the next line, as far as it was read."""
        end = self._buffer.find(b"\n", self._at)
        return (len(self._buffer) if end < 0 else end) - self._at

    def _reject_line(self, *, last: bool) -> Record | None:
        """Reject a line that is too long; only its beginning is kept in memory."""
        line = self._buffer[self._at : self._at + self._max_line]
        start, beginning = self._long or (self.offset, line[:MAX_CONTENT].decode(errors="replace"))
        while (end := self._buffer.find(b"\n", self._at) + 1) == 0:
            self.offset += len(self._buffer) - self._at
            self._buffer, self._at = self._read_at(self.offset, RECORD_BYTES), 0
            if not self._buffer:
                break
        if not end and not last:
            self._long = (start, beginning)
            return None
        self._long = None
        reason = f"the line at byte {start} of {self.name} is longer than {self._max_line} bytes."
        return self._record(start, Block.rejected(reason, beginning), end=end)

    def _record(self, start: int, value: bytes | Block, *, end: int) -> Record:
        """Return a record that ends at a place of the buffer, and go there."""
        position = self._position(start)
        self.offset += end - self._at
        self._at = end
        after = self._position(self.offset)
        if Fingerprint.parse(self.fingerprint).length < self._head.length:
            self.fingerprint = after["fingerprint"]
        return Record(position, after, value)

    def _position(self, offset: int) -> Position:
        length = min(offset, HEAD)
        if self._head.length != length:  # at most HEAD bytes: then it does not change any more
            self._head = Fingerprint.of_bytes(self.inode, self._read_at(0, length))
        return {"file": self.name, "offset": offset, "fingerprint": str(self._head)}

    def _read_header(self, *, last: bool) -> bool:
        """Read the line of column names; return whether it is complete."""
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


def _whole_lines(head: bytes) -> bytes:
    """Return the part of the head that does not change when the file grows."""
    return head if len(head) == HEAD else head[: head.rfind(b"\n") + 1]


def n_records(n_bytes: int) -> int:
    """Return about how many records some text makes."""
    return -(-n_bytes // RECORD_BYTES)


def length_of_whole_lines(path: Path) -> int:
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
