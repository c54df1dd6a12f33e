"""Where checkpoints live: named contents that appear whole, and a compare-and-set on names."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from scstream.errors import AlreadyRunning, InputError
from scstream.io.disk import Disk, MachineDisk, write_whole

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DRAFT = ".draft-"
_TRIES = 3


class Store(Protocol):
    """Contents by name. A name has up to 64 letters, digits, dots, dashes and underscores."""

    def put(self, name: str, content: bytes) -> None:
        """Write a content, in place of one that may be there; durable on return."""
        ...

    def put_new(self, name: str, content: bytes) -> bool:
        """Write a content unless the name is taken, in one indivisible act; tell whether it was."""
        ...

    def get(self, name: str, start: int = 0, length: int = -1) -> bytes:
        """Read a content, or a part of it; raises KeyError."""
        ...

    def names(self, prefix: str = "") -> list[str]:
        """Names that begin so, sorted."""
        ...

    def delete(self, name: str) -> None:
        """Remove a name; it may be gone already."""
        ...

    def sweep(self) -> None:
        """Remove what crashes left behind; only the one writer may ask for it."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Keep other instances out while inside, as far as this store can; see `CheckpointLog.claim`."""
        ...


class FolderStore:
    """A store in a folder of the machine, which only its owner can enter.

    Parameters
    ----------
    folder : path
        Is made if it is not there.
    disk : Disk, optional
        By default that of the machine.

    Examples
    --------
    >>> import tempfile
    >>> from scstream.stream.store import FolderStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = FolderStore(folder)
    ...     first, second = store.put_new("a-1", b"one"), store.put_new("a-1", b"two")
    ...     first, second, store.get("a-1"), store.names("a-")
    (True, False, b'one', ['a-1'])
    """

    def __init__(self, folder: str | Path, disk: Disk | None = None) -> None:
        self.folder = Path(folder)
        self._disk = disk or MachineDisk()
        self._disk.make_folder(self.folder)

    def put(self, name: str, content: bytes) -> None:
        """Write a content, in place of one that may be there."""
        draft = self._draft(content)
        try:
            self._disk.replace(draft, self._path(name))
            self._disk.sync_folder(self.folder)
        finally:
            self._disk.remove(draft)

    def put_new(self, name: str, content: bytes) -> bool:
        """Write a content unless the name is taken."""
        for _ in range(_TRIES):
            draft = self._draft(content)
            try:
                self._disk.link(draft, self._path(name))
                self._disk.sync_folder(self.folder)
                return True
            except FileExistsError:
                return False
            except FileNotFoundError:  # an instance that starts has swept the draft away
                continue
            finally:
                self._disk.remove(draft)
        return False

    def get(self, name: str, start: int = 0, length: int = -1) -> bytes:
        """Read a content."""
        try:
            return self._disk.read(self._path(name), start, length)
        except FileNotFoundError:
            raise KeyError(name) from None

    def names(self, prefix: str = "") -> list[str]:
        """Names that begin so."""
        names = self._disk.names(self.folder)
        return [name for name in names if name.startswith(prefix) and _NAME.fullmatch(name)]

    def delete(self, name: str) -> None:
        """Remove a name."""
        self._disk.remove(self._path(name))

    def sweep(self) -> None:
        """Remove drafts that a crash left behind; for the only writer, when it starts."""
        for name in self._disk.names(self.folder):
            if name.startswith(_DRAFT):
                self._disk.remove(self.folder / name)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other instances on this machine out; raises `AlreadyRunning`.

        The lock goes with the process, however it ends. It is a courtesy: what makes two writers
        impossible is the version that each of them has to take.
        """
        if os.name != "posix":
            yield
            return
        import fcntl

        with (self.folder / ".lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise AlreadyRunning(
                    f"process {file.read().strip() or 'unknown'} on this machine already uses the "
                    f"checkpoints in {self.folder}; stop it, or take over from it with --take-over "
                    "if it hangs."
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def _path(self, name: str) -> Path:
        return self.folder / checked_name(name)

    def _draft(self, content: bytes) -> Path:
        """Write under a name that nobody else uses; `sweep` removes what a crash leaves."""
        path = self.folder / f"{_DRAFT}{secrets.token_hex(8)}"
        try:
            write_whole(self._disk, path, content)
        except BaseException:
            self._disk.remove(path)
            raise
        return path


def checked_name(name: str) -> str:
    """Return the name if a store can hold it.

    Examples
    --------
    >>> from scstream.stream.store import checked_name
    >>> checked_name("../passwd")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: '../passwd' cannot be a name here; use up to 64 letters, ...
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be a name here; use up to 64 letters, digits, dots, dashes and "
            "underscores, and begin with a letter or digit."
        )
    return name
