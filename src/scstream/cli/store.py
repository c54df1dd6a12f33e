"""Stores of checkpoints, as commands open them: without creating or changing anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from scstream.cli.settings import Tables
from scstream.errors import InputError
from scstream.stream import config, connectors
from scstream.stream.checkpoint_log import VERSION
from scstream.stream.store import Store


def open_store(settings: Tables, *, must_exist: bool = True) -> Store:
    """Open the checkpoint store of a pipeline; by default a folder must exist already."""
    table = settings.get("checkpoint", {})
    place = str(table.get("folder", config.FOLDER))
    if must_exist and is_local(place) and not Path(place).is_dir():
        raise InputError(
            f"there is no folder {place!r} with checkpoints; give the folder of the run with "
            "--checkpoint."
        )
    try:
        return connectors.store(place, **table.get("options", {}))
    except OSError as error:
        raise InputError(f"the folder {place!r} cannot be used: {error.strerror}.") from error


def is_local(place: str) -> bool:
    """Return True for a path on this machine, False for an address such as s3://bucket/job."""
    return "://" not in place


def version_names(store: Store) -> Iterator[str]:
    """Return the names of the checkpoint versions, the newest first."""
    return reversed(store.names(VERSION))


class MemoryStore:
    """A store in memory, optionally on top of another store that is only read.

    The checkpoint versions of the other store are hidden: its own pipeline manages them.
    """

    def __init__(self, base: Store | None = None) -> None:
        self._base = base
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
        if self._base is None or name in self._deleted or name.startswith(VERSION):
            raise KeyError(name)
        return self._base.get(name, start, length)

    def names(self, prefix: str = "") -> list[str]:
        """Return the names that start with a prefix."""
        base = self._base.names(prefix) if self._base is not None else []
        visible = {n for n in base if n not in self._deleted and not n.startswith(VERSION)}
        return sorted(visible | {name for name in self._contents if name.startswith(prefix)})

    def delete(self, name: str) -> None:
        """Remove a name from memory; the base store keeps it."""
        self._contents.pop(name, None)
        self._deleted.add(name)

    def sweep(self) -> None:
        """Do nothing: there are no temporary files."""

    def lock(self) -> AbstractContextManager[None]:
        """Return an empty context: no other process sees this store."""
        return nullcontext()
