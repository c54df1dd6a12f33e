"""The `Store` protocol: named objects that appear whole or not at all, with a compare-and-set."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from scstream.errors import AlreadyRunning, InputError
from scstream.io.disk import Disk, MachineDisk, write_whole

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NUMBER = re.compile(r"[0-9]{15,}")
_TEMPORARY = ".tmp-"
_TRIES = 3


class Store(Protocol):
    """Objects by name. A name has up to 64 letters, digits, dots, dashes and underscores."""

    def put(self, name: str, content: bytes) -> None:
        """Write an object, or replace it; durable on return."""

    def put_new(self, name: str, content: bytes) -> bool:
        """Write an object unless the name is taken, atomically; return whether it was written."""

    def get(self, name: str, start: int = 0, length: int = -1) -> bytes:
        """Read an object, or a part of it; raises KeyError."""

    def read(self, name: str) -> tuple[bytes, str]:
        """Return an object that `replace` wrote and its revision; raises KeyError."""

    def replace(self, name: str, content: bytes, *, revision: str | None) -> str | None:
        """Write an object if it still has this revision (None: if it does not exist), atomically.

        Returns the new revision, or None if another writer was first. Names that are written this
        way are not used with the other methods, and never get the same content twice: a revision
        may be a hash of the content.
        """

    def names(self, prefix: str = "") -> list[str]:
        """Names that begin with `prefix`, sorted."""

    def delete(self, name: str) -> None:
        """Delete an object; it may be gone already."""

    def sweep(self) -> None:
        """Delete what crashes left behind; only the one writer may call it."""

    def lock(self, *, take_over: bool = False) -> AbstractContextManager[None]:
        """Keep other instances out while inside, as far as this store can; see `claim`."""


class FolderStore:
    """A store in a folder, which only its owner can enter.

    Parameters
    ----------
    folder : path
        Created if it does not exist.
    disk : Disk, optional
        The file system; by default that of the machine.

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
        """Write an object, or replace it."""
        path = self._temporary(content)
        try:
            self._disk.replace(path, self._path(name))
            self._disk.sync_folder(self.folder)
        finally:
            self._disk.remove(path)

    def put_new(self, name: str, content: bytes) -> bool:
        """Write an object unless the name is taken."""
        for _ in range(_TRIES):
            path = self._temporary(content)
            try:
                self._disk.link(path, self._path(name))
                self._disk.sync_folder(self.folder)
                return True
            except FileExistsError:
                return False
            except FileNotFoundError:  # another instance started and has deleted the temporary file
                continue
            finally:
                self._disk.remove(path)
        return False

    def get(self, name: str, start: int = 0, length: int = -1) -> bytes:
        """Read an object, or a part of it."""
        try:
            return self._disk.read(self._path(name), start, length)
        except FileNotFoundError:
            raise KeyError(name) from None

    def read(self, name: str) -> tuple[bytes, str]:
        """Return an object that `replace` wrote and its revision."""
        return read_revision(self, name)

    def replace(self, name: str, content: bytes, *, revision: str | None) -> str | None:
        """Write an object if it still has this revision."""
        return put_revision(self, name, content, revision=revision)

    def names(self, prefix: str = "") -> list[str]:
        """Names that begin with `prefix`, sorted."""
        names = self._disk.names(self.folder)
        return [name for name in names if name.startswith(prefix) and _NAME.fullmatch(name)]

    def delete(self, name: str) -> None:
        """Delete an object."""
        self._disk.remove(self._path(name))

    def sweep(self) -> None:
        """Delete temporary files that a crash left behind."""
        for name in self._disk.names(self.folder):
            if name.startswith(_TEMPORARY):
                self._disk.remove(self.folder / name)

    @contextmanager
    def lock(self, *, take_over: bool = False) -> Iterator[None]:
        """Keep other instances on this machine out; raises `AlreadyRunning`.

        The lock ends with the process. It is a convenience: what excludes two writers is the
        version that each of them has to take. `take_over` replaces the file of the lock, because a
        process that hangs keeps the lock of the old one.
        """
        if os.name != "posix":
            yield
            return
        import fcntl

        path = self.folder / ".lock"
        if take_over:
            path.unlink(missing_ok=True)
        with path.open("a+") as file:
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

    def _temporary(self, content: bytes) -> Path:
        """Write under a unique temporary name; `sweep` deletes what a crash leaves."""
        path = self.folder / f"{_TEMPORARY}{secrets.token_hex(8)}"
        try:
            write_whole(self._disk, path, content)
        except BaseException:
            self._disk.remove(path)
            raise
        return path


class MemoryStore:
    """A store in memory, optionally on top of another store that is only read.

    Names of the other store that start with `hidden` are not visible.
    """

    def __init__(self, base: Store | None = None, *, hidden: str = " ") -> None:
        self._base = base
        self._hidden = hidden
        self._contents: dict[str, bytes] = {}
        self._deleted: set[str] = set()

    def put(self, name: str, content: bytes) -> None:
        """Store a content under a name."""
        self._contents[name] = content
        self._deleted.discard(name)

    def put_new(self, name: str, content: bytes) -> bool:
        """Store a content unless the name exists."""
        if name in self.names(name):
            return False
        self.put(name, content)
        return True

    def get(self, name: str, start: int = 0, length: int = -1) -> bytes:
        """Return a content, from the base store if it is not in memory."""
        if name in self._contents:
            return self._contents[name][start : None if length < 0 else start + length]
        if self._base is None or name in self._deleted or name.startswith(self._hidden):
            raise KeyError(name)
        return self._base.get(name, start, length)

    def read(self, name: str) -> tuple[bytes, str]:
        """Return an object that `replace` wrote and its revision."""
        return read_revision(self, name)

    def replace(self, name: str, content: bytes, *, revision: str | None) -> str | None:
        """Write an object if it still has this revision."""
        return put_revision(self, name, content, revision=revision)

    def names(self, prefix: str = "") -> list[str]:
        """Return the names that start with a prefix."""
        below = set() if self._base is None else set(self._base.names(prefix)) - self._deleted
        visible = {name for name in below if not name.startswith(self._hidden)}
        return sorted(visible | {name for name in self._contents if name.startswith(prefix)})

    def delete(self, name: str) -> None:
        """Remove a name from memory; the base store keeps it."""
        self._contents.pop(name, None)
        self._deleted.add(name)

    def sweep(self) -> None:
        """Do nothing: there are no temporary files."""

    def lock(self, *, take_over: bool = False) -> AbstractContextManager[None]:
        """Return an empty context: no other process sees this store."""
        return nullcontext()


def numbered_name(prefix: str, number: int) -> str:
    """Return the name of a numbered object; names are in the order of their numbers."""
    return f"{prefix}{number:015d}"


def number_of(prefix: str, name: str) -> int:
    """Return the number in a name that `numbered_name` made."""
    return int(name.removeprefix(prefix))


def numbered_names(store: Store, prefix: str) -> list[str]:
    """Return the names that `numbered_name` made, and none of copies such as "version-0.bak"."""
    return [name for name in store.names(prefix) if _NUMBER.fullmatch(name.removeprefix(prefix))]


def checked_name(name: str) -> str:
    """Return the name; raises `InputError` if a store cannot hold it."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be a name here; use up to 64 letters, digits, dots, dashes and "
            "underscores, and begin with a letter or digit."
        )
    return name


def read_revision(store: Store, name: str) -> tuple[bytes, str]:
    """Implement `Store.read` with numbered names, the newest of which counts."""
    while True:
        numbers = [number_of(f"{name}-", found) for found in numbered_names(store, f"{name}-")]
        if not numbers:
            raise KeyError(name)
        with suppress(KeyError):  # replaced since it was listed
            return store.get(numbered_name(f"{name}-", numbers[-1])), str(numbers[-1])


def put_revision(store: Store, name: str, content: bytes, *, revision: str | None) -> str | None:
    """Implement `Store.replace` with `put_new`: each revision takes the next number.

    Only older revisions are deleted, so a writer that comes late finds a newer one.
    """
    prefix, number = f"{name}-", 0 if revision is None else int(revision) + 1
    if not store.put_new(numbered_name(prefix, number), content):
        return None
    for found in numbered_names(store, prefix):
        if number_of(prefix, found) > number:
            store.delete(numbered_name(prefix, number))
            return None
        if number_of(prefix, found) < number:
            store.delete(found)
    return str(number)
