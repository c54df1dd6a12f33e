"""A disk in memory that forgets what was not synced, as a real one may when the power fails.

Every operation that changes something is a step, and a crash can be set for any step: before it,
after it, or, of a write, in the middle. What is left then is up to `Loss`. Reads are no steps: to
be killed before a read is to be killed before the next change.
"""

from __future__ import annotations

import errno
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

SECTOR = 64  # bytes that are written whole or not at all; small, as the files of the tests are

When = Literal["before", "after", "middle"]


class FastPath(str):
    """The little of `pathlib.Path` that a store asks for, some five times as fast."""

    __slots__ = ()

    def __truediv__(self, name: str) -> FastPath:
        return FastPath(f"{self.rstrip('/')}/{name}")

    @property
    def parent(self) -> FastPath:
        return FastPath(self.rpartition("/")[0] or "/")


class Crash(BaseException):
    """The process is no more; nothing that it does from now on happens."""


@dataclass
class File:
    """Bytes of a file, those that would survive a power loss first."""

    content: bytearray = field(default_factory=bytearray)
    synced: int = 0
    dropped: list[tuple[int, int]] = field(default_factory=list)  # by a sync that failed

    def state(self) -> tuple[Hashable, ...]:
        return bytes(self.content), self.synced, tuple(self.dropped)


@dataclass(frozen=True)
class Change:
    """A change of names in a folder: `gone` is removed, `new` is given to a file."""

    folder: str
    gone: str | None
    new: str | None
    file: File | None


@dataclass(frozen=True)
class Loss:
    """What a crash leaves of content and of names that were not synced.

    A kill leaves everything. A power loss takes content: "all" of it, what follows some byte
    ("torn"), single sectors, which read as zeros ("holes"), or nothing ("none"); and changes of
    names: "all", "some" in any order, the "last" ones, or "none".
    """

    content: Literal["none", "all", "torn", "holes", "mixed"] = "none"
    names: Literal["none", "all", "some", "last"] = "none"


KILL = Loss()
LOSSES = (
    Loss("all", "all"),
    Loss("all", "none"),
    Loss("none", "all"),
    Loss("none", "some"),
    Loss("torn", "none"),
    Loss("torn", "last"),
    Loss("holes", "none"),
    Loss("mixed", "some"),
)


@dataclass(frozen=True)
class Fault:
    """What happens at a step.

    Parameters
    ----------
    step : int
        Which step from now.
    when : {"before", "after", "middle"}
        A crash before it, after it, or with half of a write done; of other operations "middle" is
        "after".
    error : int
        Not 0: the operation fails with this number in place of a crash, and all that follow work.
    """

    step: int
    when: When = "before"
    error: int = 0


class SimulatedDisk:
    """Files and folders in memory; implements `scstream.io.disk.Disk`.

    Parameters
    ----------
    random : Random
        Decides what is lost, and how much a short write writes.
    folders : iterable of str
        Those that are there from the beginning.
    short : float
        Share of writes that write less than they were given.
    ignored : set of str
        Operations that are left out, as a program would that forgot them: a planted defect.
    """

    CONTENT = ("_names", "_lasting", "_folders_lasting", "_changes")  # what outlives a process

    def __init__(
        self,
        random: Random,
        folders: Iterable[str] = ("/",),
        *,
        short: float = 0.0,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        self.random = random
        self.short = short
        self.ignored = ignored
        self.fault: Fault | None = None
        self.steps: list[str] = []  # operations since the process started
        self.room: int | None = None  # bytes until the disk is full
        self._names: dict[str, dict[str, File]] = {folder: {} for folder in folders}
        self._lasting: dict[str, dict[str, File]] = {folder: {} for folder in folders}
        self._folders_lasting = set(folders)
        self._changes: list[Change] = []
        self._open: dict[int, File] = {}
        self._dead = False
        self._next = 3

    def boot(self, fault: Fault | None = None, *, loss: Loss = KILL) -> None:
        """Start a new process after a crash; only what the loss leaves is there."""
        if loss != KILL:
            self._lose(loss)
        self._open.clear()
        self._dead, self.fault, self.steps = False, fault, []

    def state(self) -> Hashable:
        """All names and files, and what of them would survive a power loss."""
        return tuple(
            (folder, folder in self._folders_lasting, name, *file.state())
            for folders in (self._names, self._lasting)
            for folder, names in sorted(folders.items())
            for name, file in [("", File()), *sorted(names.items())]
        )

    def step(self, what: str, *, write: tuple[File, memoryview] | None = None) -> None:
        """Count a change, and crash or fail if that was set for it."""
        if self._dead:
            raise Crash
        fault = self.fault
        self.steps.append(what)
        if fault is None or len(self.steps) <= fault.step:
            return
        if fault.error:
            self.fault = None
            raise OSError(fault.error, f"injected into {what}")
        if fault.when == "before" or (fault.when == "middle" and write is not None):
            self._dead = True
            if write is not None and fault.when == "middle":
                file, content = write
                file.content += content[: self.random.randint(0, len(content))]
            raise Crash

    def done(self) -> None:
        """Crash if that was set for after the step."""
        fault = self.fault
        if fault is not None and len(self.steps) > fault.step:
            self._dead = True
            raise Crash

    def make_folder(self, path: Path) -> None:
        """Make a folder as `MachineDisk` does: make it, then make that last, whoever made it."""
        folder = str(path)
        above = FastPath(_split(folder)[0])
        if folder not in self._names:
            self.make_folder(above)
            self.step("make_folder")
            self._names[folder] = {}
            self._lasting.setdefault(folder, {})
            self.done()
        self.sync_folder(above)

    def names(self, folder: Path) -> list[str]:
        self._alive()
        return sorted(self._folder(str(folder)))

    def size(self, path: Path) -> int:
        return len(self._file(path).content)

    def read(self, path: Path, start: int = 0, length: int = -1) -> bytes:
        content = self._file(path).content
        return bytes(content[start:] if length < 0 else content[start : start + length])

    def peek(self, path: Path) -> bytes:
        """Read as somebody else does, who is still there after a crash; nothing if it is not."""
        folder, name = _split(path)
        file = self._names.get(folder, {}).get(name)
        return bytes(file.content) if file else b""

    def create(self, path: Path) -> int:
        names, name = self._place(path)
        if name in names:
            raise FileExistsError(errno.EEXIST, "there is one", str(path))
        return self._opened(path, names, name)

    def append(self, path: Path) -> int:
        names, name = self._place(path)
        if name not in names:
            return self._opened(path, names, name)
        self._alive()
        return self._handle(names[name])

    def write(self, handle: int, content: memoryview) -> int:
        file = self._open[handle]
        self.step("write", write=(file, content))
        n_bytes = len(content)
        if self.room is not None:
            n_bytes = min(n_bytes, self.room)
            if not n_bytes and len(content):
                raise OSError(errno.ENOSPC, "the simulated disk is full")
            self.room -= n_bytes
        if n_bytes > 1 and self.short and self.random.random() < self.short:
            n_bytes = self.random.randint(1, n_bytes - 1)
        file.content += content[:n_bytes]
        self.done()
        return n_bytes

    def sync(self, handle: int) -> None:
        """Make content last; one that fails drops it, and the next one knows nothing of that."""
        file = self._open[handle]
        try:
            self.step("sync")
        except OSError:
            if file.synced < len(file.content):
                file.dropped.append((file.synced, len(file.content)))
                file.synced = len(file.content)
            raise
        if "sync" not in self.ignored:
            file.synced = len(file.content)
        self.done()

    def close(self, handle: int) -> None:
        self._alive()
        del self._open[handle]

    def truncate(self, path: Path, length: int) -> None:
        file = self._file(path)
        self.step("truncate")
        if "truncate" not in self.ignored:
            del file.content[length:]
            file.content += bytes(length - len(file.content))
            file.synced = length
            file.dropped = [(a, min(b, length)) for a, b in file.dropped if a < length]
        self.done()

    def link(self, old: Path, new: Path) -> None:
        file = self._file(old)
        folder, name = _split(new)
        names = self._folder(folder)
        if name in names and "compare" not in self.ignored:
            raise FileExistsError(errno.EEXIST, "there is one", str(new))
        self.step("link")
        self._change(Change(folder, None, name, file))
        self.done()

    def replace(self, old: Path, new: Path) -> None:
        file = self._file(old)
        self.step("replace")
        folder, name = _split(new)
        self._change(Change(folder, _split(old)[1], name, file))
        self.done()

    def remove(self, path: Path) -> None:
        folder, name = _split(path)
        self._alive()
        if name not in self._folder(folder):
            return
        self.step("remove")
        self._change(Change(folder, name, None, None))
        self.done()

    def sync_folder(self, path: Path) -> None:
        self.step("sync_folder")
        if "sync_folder" not in self.ignored:
            folder = str(path)
            for change in [c for c in self._changes if c.folder == folder]:
                _apply(self._lasting, change)
            self._changes = [c for c in self._changes if c.folder != folder]
            self._folders_lasting.update(
                inner for inner in self._names if _split(inner)[0] == folder
            )
        self.done()

    def _alive(self) -> None:
        if self._dead:
            raise Crash

    def _place(self, path: Path) -> tuple[dict[str, File], str]:
        folder, name = _split(path)
        return self._folder(folder), name

    def _folder(self, folder: str) -> dict[str, File]:
        try:
            return self._names[folder]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such folder", folder) from None

    def _file(self, path: Path) -> File:
        self._alive()
        names, name = self._place(path)
        try:
            return names[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path)) from None

    def _opened(self, path: Path, names: dict[str, File], name: str) -> int:
        self.step("create")
        file = File()
        self._change(Change(_split(path)[0], None, name, file))
        self.done()
        return self._handle(file)

    def _handle(self, file: File) -> int:
        self._next += 1
        self._open[self._next] = file
        return self._next

    def _change(self, change: Change) -> None:
        _apply(self._names, change)
        self._changes.append(change)

    def _lose(self, loss: Loss) -> None:
        """The power fails."""
        for change in _left(self._changes, loss.names, self.random):
            _apply(self._lasting, change)
        if loss.names != "none":
            for folder in set(self._lasting) - self._folders_lasting:
                if loss.names == "all" or self.random.random() < 0.5:
                    del self._lasting[folder]
        self._folders_lasting = set(self._lasting)
        files = {id(f): f for names in self._lasting.values() for f in names.values()}
        for file in files.values():
            _lose_content(file, loss.content, self.random)
        self._names = {folder: dict(names) for folder, names in self._lasting.items()}
        self._changes = []


def _split(path: object) -> tuple[str, str]:
    """Folder and name of a path."""
    folder, _, name = str(path).rpartition("/")
    return folder or "/", name


def _apply(folders: dict[str, dict[str, File]], change: Change) -> None:
    names = folders[change.folder]
    if change.gone is not None:
        names.pop(change.gone, None)
    if change.new is not None and change.file is not None:
        names[change.new] = change.file


def _left(changes: list[Change], how: str, random: Random) -> list[Change]:
    """Changes of names that reached the disk all the same."""
    if how == "none":
        return changes
    if how == "all":
        return []
    if how == "last":
        return changes[: random.randint(0, len(changes))]
    return [change for change in changes if random.random() < 0.5]


def _lose_content(file: File, how: str, random: Random) -> None:
    if how == "mixed":
        how = random.choice(("none", "all", "torn", "holes"))
    n_bytes, synced = len(file.content), file.synced
    if how == "all":
        del file.content[synced:]
    elif how == "torn" and n_bytes > synced:
        del file.content[random.randint(synced, n_bytes) :]
    elif how == "holes" and n_bytes > synced:
        for start in range(synced - synced % SECTOR, n_bytes, SECTOR):
            if random.random() < 0.5:
                first, last = max(start, synced), min(start + SECTOR, n_bytes)
                file.content[first:last] = bytes(last - first)
    for start, stop in file.dropped:  # a sync has failed: never written, whatever came after
        length = min(stop, len(file.content)) - start
        if length > 0:
            file.content[start : start + length] = bytes(length)
    file.dropped.clear()
    file.synced = len(file.content)
