"""An append-only journal of request bodies on disk; a body is there completely or not at all."""

from __future__ import annotations

import json
import os
import threading
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scstream.errors import SourceRegressed, StreamError
from scstream.io.disk import Disk, MachineDisk, write_all, write_whole
from scstream.stream.connectors.http.packing import (
    KEYS,
    Entry,
    Known,
    entries_of,
    entry_at,
    packed,
)

_READ_BYTES = 2**20  # after which a read takes no further body
_SEGMENT = "rows-"


@dataclass
class _Segment:
    """A file of the journal, up to its last synced byte."""

    path: Path
    first: int  # number of its first body
    stop: int  # number of the first body after it
    length: int = 0


class Journal:
    """Bodies in order, numbered from 0, in files of bounded length."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        segment_bytes: int = 2**26,
        n_keys: int = 10_000,
        disk: Disk | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.identity = ""
        self._disk = disk or MachineDisk()
        self._segment_bytes = segment_bytes
        self._n_keys = n_keys
        self._keys: dict[str, tuple[int, int]] = {}  # number and checksum of the body, oldest first
        self._segments: list[_Segment] = []
        self._handle: int | None = None
        self._grown = threading.Condition()
        self._cursor = (
            -1,
            Path(),
            0,
        )  # number, file and offset of the next body, if bodies are read in order

    @property
    def _sign(self) -> bytes:
        """The bytes that every entry starts with."""
        return bytes.fromhex(self.identity)[:8]

    @property
    def first(self) -> int:
        """Number of the oldest body that is kept."""
        return self._segments[0].first

    @property
    def next(self) -> int:
        """Number of the next body."""
        return self._segments[-1].stop

    @property
    def n_bytes(self) -> int:
        """Length of all files."""
        with self._grown:
            return sum(segment.length for segment in self._segments)

    def open(self) -> None:
        """Read the files; remove an incomplete entry at the end, which was never confirmed."""
        self._disk.make_folder(self.folder)
        self.identity = self._read_identity()
        self._keys.clear()
        self._segments.clear()
        names = [n for n in self._disk.names(self.folder) if n.startswith(_SEGMENT)]
        for name in names:
            self._recover(self.folder / name, is_last=name == names[-1])
        if not self._segments:
            self._begin_segment(_first_number(names[-1]) if names else 0)
            return
        self._handle = self._disk.append(self._segments[-1].path)
        self._disk.sync(
            self._handle
        )  # what a process wrote before it was killed may not be on disk yet
        self._disk.sync_folder(self.folder)

    def append(self, bodies: Sequence[tuple[str, bytes]], *, now: float) -> list[int]:
        """Write and sync bodies with their keys; return their numbers."""
        if self._handle is None:
            self._repair()
        if self._segments[-1].length >= self._segment_bytes:
            self._begin_segment(self.next)
        segment = self._segments[-1]
        numbers = list(range(segment.stop, segment.stop + len(bodies)))
        safe = segment.stop
        entries = [Entry(n, now, *body, safe) for n, body in zip(numbers, bodies, strict=True)]
        content = b"".join(packed(entry, self._sign) for entry in entries)
        self._write(content)
        with self._grown:
            segment.length += len(content)
            segment.stop += len(bodies)
            for entry in entries:
                self._keep_key(entry.key, entry.number, zlib.crc32(entry.body))
            self._grown.notify_all()
        return numbers

    def find_key(self, key: str) -> tuple[int, int] | None:
        """Return number and checksum of the body of a key, if the key is kept."""
        return self._keys.get(key)

    def wait(self, number: int, timeout: float) -> bool:
        """Wait until the body of a number exists."""
        with self._grown:
            return self._grown.wait_for(lambda: self.next > number, timeout)

    def wake(self) -> None:
        """End a wait early."""
        with self._grown:
            self._grown.notify_all()

    def read(self, number: int, max_n: int = 1000) -> list[Entry]:
        """Return bodies from a number on, about a megabyte of them at once."""
        with self._grown:
            segments = [s for s in self._segments if s.first <= number < s.stop]
            if not segments:
                return []
            path, length = segments[0].path, segments[0].length
        start = self._cursor[2] if self._cursor[:2] == (number, path) else 0
        found: list[Entry] = []
        n_bytes = 0
        for entry, end in entries_of(self._disk, path, start, length, sign=self._sign):
            if isinstance(entry, Entry) and entry.number >= number:
                found.append(entry)
                n_bytes += len(entry.body)
                self._cursor = (entry.number + 1, path, end)
            if len(found) >= max_n or n_bytes >= _READ_BYTES:
                break
        if not found:
            raise SourceRegressed(
                f"the journal {self.folder} is damaged: body {number} in {path.name}, which was "
                "confirmed, cannot be read. Restore the file, or move the folder away and start "
                "with --accept-gap."
            )
        return found

    def forget(self, before: int) -> None:
        """Remove files of which all bodies have lower numbers; the newest file stays."""
        while True:
            with self._grown:
                if len(self._segments) < 2 or self._segments[0].stop > before:
                    return
                segment = self._segments.pop(0)
            self._disk.remove(segment.path)
            self._disk.sync_folder(
                self.folder
            )  # after every file, so that a crash leaves no gap between files

    def close(self) -> None:
        """Close the file."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._disk.close(handle)

    def _read_identity(self) -> str:
        path, temporary = self.folder / "identity", self.folder / ".draft-identity"
        try:
            return self._disk.read(path).decode()
        except FileNotFoundError:
            self._disk.remove(temporary)
            write_whole(self._disk, temporary, uuid.uuid4().hex.encode())
            self._disk.replace(temporary, path)
            self._disk.sync_folder(self.folder)
            return self._disk.read(path).decode()

    def _recover(self, path: Path, *, is_last: bool) -> None:
        first = _first_number(path.name)
        size = self._disk.size(path)
        segment = _Segment(path, first, first)
        for entry, end in entries_of(self._disk, path, 0, size, sign=self._sign):
            if isinstance(entry, Known):
                for known in entry.keys:
                    self._keep_key(*known)
            elif entry.number != segment.stop:
                break
            else:
                segment.stop = entry.number + 1
                self._keep_key(entry.key, entry.number, zlib.crc32(entry.body))
            segment.length = end
        follows = not self._segments or self._segments[-1].stop == first
        if not follows or (
            segment.length < size and not (is_last and self._is_torn(segment, size))
        ):
            raise SourceRegressed(
                f"the journal {self.folder} is damaged at {path.name}: bodies that were confirmed "
                "are gone. Restore its files, or move the folder away and start with --accept-gap."
            )
        if segment.length == 0:  # not even its keys: the process crashed while it created the file
            self._disk.remove(path)
            return
        if segment.length < size:
            self._disk.truncate(path, segment.length)
        self._segments.append(segment)

    def _is_torn(self, segment: _Segment, size: int) -> bool:
        """Return True if the damaged entry after the valid part was never confirmed to a client.

        Every entry contains `safe`: how many bodies were synced when it was written. If a later
        entry counts the damaged one among them, the damaged one was confirmed. Entries are found
        by their sign, which no client knows, so a body cannot contain a false entry.
        """
        tail = self._disk.read(segment.path, segment.length, size - segment.length)
        at = tail.find(self._sign)
        while at >= 0:
            entry, _ = entry_at(tail, at)
            if isinstance(entry, Entry) and entry.safe > segment.stop:
                return False
            at = tail.find(self._sign, at + 1)
        return True

    def _keep_key(self, key: str, number: int, checksum: int) -> None:
        """Keep the idempotency key of a body; drop the oldest key if there are too many."""
        if key:
            self._keys.pop(key, None)
            self._keys[key] = (number, checksum)
            if len(self._keys) > self._n_keys:
                del self._keys[next(iter(self._keys))]

    def _begin_segment(self, first: int) -> None:
        """Begin a new file; it starts with the idempotency keys that are kept."""
        self.close()
        path = self.folder / f"{_SEGMENT}{first:020d}.log"
        keys = json.dumps([[key, *known] for key, known in self._keys.items()]).encode()
        content = packed(Entry(first, 0.0, "", keys), self._sign, kind=KEYS)
        self._disk.remove(path)  # left by an attempt that failed
        self._handle = self._disk.create(path)
        self._write(content, is_new=True)
        with self._grown:
            self._segments = [s for s in self._segments if s.path != path]
            self._segments.append(_Segment(path, first, first, len(content)))

    def _write(self, content: bytes, *, is_new: bool = False) -> None:
        if self._handle is None:
            raise StreamError(f"the journal {self.folder} is closed; open it first.")
        try:
            write_all(self._disk, self._handle, content)
            self._disk.sync(self._handle)
            if is_new:
                self._disk.sync_folder(self.folder)
        except OSError:
            self.close()  # a second sync may succeed although data is lost; see `_repair`
            raise

    def _repair(self) -> None:
        """Continue after a failed write: remove what may not be on disk, and begin a new file."""
        segment = self._segments[-1]
        if self._disk.size(segment.path) > segment.length:
            self._disk.truncate(segment.path, segment.length)
        self._begin_segment(self.next)


def _first_number(name: str) -> int:
    """Return the number of the first body of a file."""
    return int(name.removeprefix(_SEGMENT).removesuffix(".log"))
