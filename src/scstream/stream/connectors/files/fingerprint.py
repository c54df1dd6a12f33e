"""Fingerprints that identify a file: its inode, and a hash of its first bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from scstream.errors import SourceChanged, SourceRegressed
from scstream.stream.source import Position

HEAD = 4096  # bytes at the beginning of a file that are hashed
_ADVICE = "Restore the old file, or start with --accept-gap to read this one from its start."


class Fingerprint(NamedTuple):
    """Inode, number of hashed bytes, and their hash; written as text, as positions are JSON."""

    inode: str
    length: int
    digest: str

    def __str__(self) -> str:
        return f"{self.inode}:{self.length}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """Read what `str` wrote; "" is the fingerprint of no file."""
        inode, length, digest = text.split(":") if text else ("", "0", "")
        return cls(inode, int(length), digest)

    @classmethod
    def of_bytes(cls, inode: int, head: bytes) -> Fingerprint:
        """Return the fingerprint of a file that begins with these bytes."""
        return cls(str(inode), len(head), digest_of(head))

    @classmethod
    def of_file(cls, path: Path, n_bytes: int) -> Fingerprint:
        """Return the fingerprint by the first bytes of a file, or fewer if it is shorter."""
        with path.open("rb") as file:
            head = file.read(n_bytes)
            return cls.of_bytes(os.fstat(file.fileno()).st_ino, head)


def check_same_file(
    path: Path, position: Position, *, inode: int, size: int, head: Callable[[int], bytes]
) -> None:
    """Check that a file is the one of a position, and that it is long enough."""
    known = Fingerprint.parse(position.get("fingerprint") or "")
    where = (
        f"byte {position['offset']}" if "offset" in position else f"group {position.get('group')}"
    )
    if known.inode not in ("", str(inode)):
        raise SourceChanged(
            f"{path} is not the file that was read to {where}: its inode is {inode}, not "
            f"{known.inode}. {_ADVICE}"
        )
    if size < max(position.get("offset", 0), known.length):
        raise SourceRegressed(
            f"{path} was read to {where} and now ends at byte {size}: it was truncated. {_ADVICE}"
        )
    if known.inode and digest_of(head(known.length)) != known.digest:
        raise SourceChanged(
            f"{path} was read to {where} and now begins with other bytes: it was written again. "
            f"{_ADVICE}"
        )


def progress_text(name: str, path: Path, offset: int) -> str:
    """Return how far a file was read, with a hash of the last bytes before that."""
    return f"{offset}:{digest_of(_bytes_before(path, offset))}:{name}"


def check_progress(files: Mapping[str, Path], progress: str) -> None:
    """Check that a file still has what was read of it; a missing file is not checked."""
    offset, digest, name = progress.split(":", 2)
    path = files.get(name)
    if path is None:
        return
    size = path.stat().st_size
    if size < int(offset):
        raise SourceRegressed(
            f"{path} was read to byte {offset} and now ends at byte {size}: it was truncated. "
            f"{_ADVICE}"
        )
    if digest_of(_bytes_before(path, int(offset))) != digest:
        raise SourceChanged(
            f"{path} has other bytes before byte {offset} than were read: it was written again. "
            f"{_ADVICE}"
        )


def _bytes_before(path: Path, offset: int) -> bytes:
    start = max(offset - HEAD, 0)
    with path.open("rb") as file:
        file.seek(start)
        return file.read(offset - start)


def digest_of(head: bytes) -> str:
    """Return the hash of some bytes of a file."""
    return hashlib.sha256(head).hexdigest()[:32]
