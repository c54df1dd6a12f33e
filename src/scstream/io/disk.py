"""The operations on files that a pipeline uses, as a protocol and on the disk of the machine.

Pipelines write everything durable through a `Disk`. Tests replace it by a simulated disk, which
loses or truncates what was not synced before a crash.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from scstream.errors import DiskFull

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Disk(Protocol):
    """Operations on files; none is durable before the file, or its folder, is synced."""

    def make_folder(self, path: Path) -> None:
        """Create a folder that only its owner can enter, and its parents, and sync them."""

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, sorted."""

    def size(self, path: Path) -> int:
        """Return the length of a file; raises FileNotFoundError."""

    def read(self, path: Path, start: int = 0, length: int = -1) -> bytes:
        """Read a file, or a part of it; raises FileNotFoundError."""

    def create(self, path: Path) -> int:
        """Open a new file for writing; raises FileExistsError."""

    def append(self, path: Path) -> int:
        """Open a file, new or old, for writing at its end."""

    def write(self, handle: int, content: memoryview) -> int:
        """Write the beginning of the content, or all of it; return how many bytes."""

    def sync(self, handle: int) -> None:
        """Sync the content of a file."""

    def close(self, handle: int) -> None:
        """Close an open file."""

    def truncate(self, path: Path, length: int) -> None:
        """Truncate a file to a length, and sync it."""

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name; raises FileExistsError if the name exists."""

    def replace(self, old: Path, new: Path) -> None:
        """Rename a file over another."""

    def remove(self, path: Path) -> None:
        """Remove a name; do nothing if it does not exist."""

    def sync_folder(self, path: Path) -> None:
        """Sync the names in a folder."""


class MachineDisk:
    """The disk of the machine."""

    def make_folder(self, path: Path) -> None:
        """Create a folder."""
        if not path.is_dir():
            self.make_folder(path.parent)
            path.mkdir(mode=0o700, exist_ok=True)
        self.sync_folder(
            path.parent
        )  # also if it exists: the process that created it may have crashed

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder."""
        return sorted(os.listdir(folder))

    def size(self, path: Path) -> int:
        """Return the length of a file."""
        return path.stat().st_size

    def read(self, path: Path, start: int = 0, length: int = -1) -> bytes:
        """Read a file."""
        with path.open("rb") as file:
            file.seek(start)
            return file.read(length)

    def create(self, path: Path) -> int:
        """Open a new file."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def append(self, path: Path) -> int:
        """Open a file at its end."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, handle: int, content: memoryview) -> int:
        """Write."""
        return os.write(handle, content)

    def sync(self, handle: int) -> None:
        """Sync a file."""
        os.fsync(handle)

    def close(self, handle: int) -> None:
        """Close a file."""
        os.close(handle)

    def truncate(self, path: Path, length: int) -> None:
        """Truncate a file."""
        with path.open("rb+") as file:
            file.truncate(length)
            os.fsync(file.fileno())

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name."""
        os.link(old, new)

    def replace(self, old: Path, new: Path) -> None:
        """Rename a file."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Remove a name."""
        path.unlink(missing_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Sync the names in a folder; only POSIX systems can, and only they need it."""
        if os.name != "posix":
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def reports_full_disk() -> Iterator[None]:
    """Raise `DiskFull` instead of any error that a full disk, or a used-up quota, has caused."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not (isinstance(cause, OSError) and cause.errno in _FULL):
            cause = cause.__cause__
        if cause is None:
            raise
        name = getattr(cause, "filename", None)
        raise DiskFull(
            f"a disk is full{f', and {name} could not be written' if name else ''} "
            f"({os.strerror(getattr(cause, 'errno', 0))}); free space and start again with "
            "--resume: the pipeline continues from its last checkpoint, and no row is lost or "
            "repeated."
        ) from error


def write_all(disk: Disk, handle: int, content: bytes) -> None:
    """Write the whole content; one call of `Disk.write` may write only a part of it."""
    unwritten = memoryview(content)
    while unwritten:
        unwritten = unwritten[disk.write(handle, unwritten) :]


def write_whole(disk: Disk, path: Path, content: bytes) -> None:
    """Write a new file and sync its content, but not its name."""
    handle = disk.create(path)
    try:
        write_all(disk, handle, content)
        disk.sync(handle)
    finally:
        disk.close(handle)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that appears complete or not at all, even if the power fails."""
    disk = MachineDisk()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # umask applies
        try:
            write_all(disk, handle, content)
            disk.sync(handle)
        finally:
            disk.close(handle)
        disk.replace(temporary, path)
    except BaseException:
        disk.remove(temporary)
        raise
    disk.sync_folder(path.parent)
