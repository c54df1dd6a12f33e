"""The format of the journal: how an entry is written as bytes, and read again."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scstream.io.disk import Disk

BODY, KEYS = 0, 1  # kinds of entries
# Sign, checksum, length of the body, number, safe, time, kind, length of the key; then both.
_ENTRY = struct.Struct("<8sIIQQdBH")
_SUMMED = 12  # offset of the part that the checksum covers
_WINDOW = 2**20  # bytes read at once


@dataclass(frozen=True)
class Entry:
    """One body in the journal."""

    number: int
    time: float
    key: str
    body: bytes
    safe: int = 0  # all bodies before this number were synced when this one was written


@dataclass(frozen=True)
class Known:
    """The idempotency keys of earlier bodies, at the beginning of every file."""

    keys: list[tuple[str, int, int]]


def packed(entry: Entry, sign: bytes, *, kind: int = BODY) -> bytes:
    """Return an entry as bytes."""
    key = entry.key.encode()
    sizes = (len(entry.body), entry.number, entry.safe, entry.time, kind, len(key))
    content = _ENTRY.pack(sign, 0, *sizes)[_SUMMED:] + key + entry.body
    return sign + struct.pack("<I", zlib.crc32(content)) + content


def entry_at(buffer: bytes, at: int) -> tuple[Entry | Known | None, int]:
    """Return the entry at an offset, and its end; None if it is damaged or incomplete."""
    if len(buffer) - at < _ENTRY.size:
        return None, at + _ENTRY.size
    _, checksum, n_body, number, safe, when, kind, n_key = _ENTRY.unpack_from(buffer, at)
    key_ends = at + _ENTRY.size + n_key
    end = key_ends + n_body
    is_complete = end <= len(buffer)
    if not is_complete or zlib.crc32(memoryview(buffer)[at + _SUMMED : end]) != checksum:
        return None, end
    body = buffer[key_ends:end]
    if kind == KEYS:
        return Known([tuple(known) for known in json.loads(body)]), end
    return Entry(number, when, buffer[key_ends - n_key : key_ends].decode(), body, safe), end


def entries_of(
    disk: Disk, path: Path, start: int, length: int, *, sign: bytes
) -> Iterator[tuple[Entry | Known, int]]:
    """Yield the entries of a file and where each ends; stop at a length or at a damaged entry."""
    buffer, base, at = b"", start, 0  # the buffer begins at `base`; the next entry is `at` in it
    while base + at < length:
        entry, end = entry_at(buffer, at)
        if entry is None and end > len(buffer):
            if base + end > length:
                return
            window = min(max(end - at, _WINDOW), length - base - at)
            buffer, base, at = disk.read(path, base + at, window), base + at, 0
            if len(buffer) < window:
                return
        elif entry is None or buffer[at : at + len(sign)] != sign:
            return
        else:
            yield entry, base + end
            at = end
