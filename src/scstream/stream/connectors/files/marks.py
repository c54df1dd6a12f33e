"""Marks that tell a file from another: its inode, and a hash of how it begins."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scstream.errors import SourceChanged, SourceRegressed
from scstream.stream.source import Position

HEAD = 4096  # bytes at the beginning of a file that tell it from another


def compare(
    path: Path, position: Position, *, inode: int, size: int, head: Callable[[int], bytes]
) -> None:
    """Check that a file is the one of a position, and reaches it."""
    known, length, digest = read_mark(position.get("mark"))
    place = (
        f"byte {position['offset']}" if "offset" in position else f"group {position.get('group')}"
    )
    advice = "Bring the old file back, or start with --accept-gap to read this one from its start."
    if known not in ("", str(inode)):
        raise SourceChanged(
            f"{path} is another file than the one that was read to {place}: inode {inode}, not "
            f"{known}. {advice}"
        )
    if size < max(position.get("offset", 0), length):
        raise SourceRegressed(
            f"{path} was read to {place} and now ends at byte {size}: it was cut. {advice}"
        )
    if known and hash_of(head(length)) != digest:
        raise SourceChanged(
            f"{path} was read to {place} and now begins with other bytes: it was written anew. "
            f"{advice}"
        )


def reached(name: str, path: Path, offset: int) -> str:
    r"""Return how far a file was read, and a hash of the last bytes of that.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scstream.stream.connectors.files.marks import check_reached, reached
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.csv"
    ...     _ = path.write_text("x\n1\n2\n")
    ...     far = reached("rows.csv", path, 6)
    ...     _ = path.write_text("x\n1\n3\n4\n")
    ...     check_reached({"rows.csv": path}, far)
    Traceback (most recent call last):
    ...
    scstream.errors.SourceChanged: ... has other bytes before byte 6 than were read: ...
    """
    return f"{offset}:{hash_of(_tail(path, offset))}:{name}"


def check_reached(files: Mapping[str, Path], far: str) -> None:
    """Check that a file still holds what was read of it; one that is gone is not looked at."""
    offset, digest, name = far.split(":", 2)
    path = files.get(name)
    if path is None:
        return
    advice = "Bring the old rows back, or start with --accept-gap to read this one from its start."
    size = path.stat().st_size
    if size < int(offset):
        raise SourceRegressed(
            f"{path} was read to byte {offset} and now ends at byte {size}: it was cut. {advice}"
        )
    if hash_of(_tail(path, int(offset))) != digest:
        raise SourceChanged(
            f"{path} has other bytes before byte {offset} than were read: it was written anew. "
            f"{advice}"
        )


def _tail(path: Path, offset: int) -> bytes:
    start = max(offset - HEAD, 0)
    with path.open("rb") as file:
        file.seek(start)
        return file.read(offset - start)


def mark_of(path: Path, max_n: int) -> str:
    """Return the mark of a file by its first bytes, as far as there are any."""
    with path.open("rb") as file:
        head = file.read(max_n)
        return as_mark(os.fstat(file.fileno()).st_ino, len(head), digest=hash_of(head))


def as_mark(inode: int, length: int, *, digest: str) -> str:
    """Return a mark, which is text: positions are plain.

    Examples
    --------
    >>> from scstream.stream.connectors.files.marks import as_mark, read_mark
    >>> read_mark(as_mark(7, 2, digest="ab"))
    ('7', 2, 'ab')
    """
    return f"{inode}:{length}:{digest}"


def read_mark(mark: Any) -> tuple[str, int, str]:
    """Return inode, length and digest of a mark; nothing is a mark of no file."""
    if not mark:
        return "", 0, ""
    inode, length, digest = str(mark).split(":")
    return inode, int(length), digest


def hash_of(head: bytes) -> str:
    """Return the digest of the beginning of a file."""
    return hashlib.sha256(head).hexdigest()[:32]
