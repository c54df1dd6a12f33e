"""Stores of checkpoints as commands look at them: without making, claiming or changing anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from scstream.errors import InputError
from scstream.stream import config, connectors
from scstream.stream.checkpoint_log import VERSION
from scstream.stream.store import Store


def open_store(settings: Mapping[str, Any], *, must_exist: bool = True) -> Store:
    """Open where the checkpoints of a pipeline are; a folder must be there already.

    Examples
    --------
    >>> from scstream.cli.places import open_store
    >>> open_store({"checkpoint": {"folder": "no-such-folder"}})
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: there is no folder 'no-such-folder' with checkpoints; name ...
    """
    table = settings.get("checkpoint", {})
    place = str(table.get("folder", config.FOLDER))
    if must_exist and is_folder(place) and not Path(place).is_dir():
        raise InputError(
            f"there is no folder {place!r} with checkpoints; name the one that a run was given "
            "with --checkpoint."
        )
    try:
        return connectors.store(place, **table.get("options", {}))
    except OSError as error:
        raise InputError(f"the folder {place!r} cannot be used: {error.strerror}.") from error


def is_folder(place: str) -> bool:
    """Whether a place is a folder of this machine and not an address.

    Examples
    --------
    >>> from scstream.cli.places import is_folder
    >>> is_folder("checkpoints"), is_folder("s3://bucket/job")
    (True, False)
    """
    return "://" not in place


class Scratch:
    """A store in memory, over another one that is only read.

    Versions of the other are not seen: they are the business of the instance that writes them.

    Examples
    --------
    >>> from scstream.cli.places import Scratch
    >>> scratch = Scratch()
    >>> scratch.put_new("a", b"1"), scratch.put_new("a", b"2"), scratch.get("a")
    (True, False, b'1')
    """

    def __init__(self, below: Store | None = None) -> None:
        self._below = below
        self._own: dict[str, bytes] = {}
        self._gone: set[str] = set()

    def put(self, name: str, content: bytes) -> None:
        """Keep a content."""
        self._own[name] = content
        self._gone.discard(name)

    def put_new(self, name: str, content: bytes) -> bool:
        """Keep a content unless the name is taken."""
        if name in self.names(name):
            return False
        self.put(name, content)
        return True

    def get(self, name: str, start: int = 0, length: int = -1) -> bytes:
        """Read a content, from the store below if it is not here."""
        if name in self._own:
            return self._own[name][start : None if length < 0 else start + length]
        if self._below is None or name in self._gone or _is_version(name):
            raise KeyError(name)
        return self._below.get(name, start, length)

    def names(self, prefix: str = "") -> list[str]:
        """Names that begin so."""
        below = self._below.names(prefix) if self._below is not None else []
        seen = {name for name in below if name not in self._gone and not _is_version(name)}
        return sorted(seen | {name for name in self._own if name.startswith(prefix)})

    def delete(self, name: str) -> None:
        """Forget a name; the store below keeps it."""
        self._own.pop(name, None)
        self._gone.add(name)

    def sweep(self) -> None:
        """Do nothing."""

    def lock(self) -> AbstractContextManager[None]:
        """Nobody else is here."""
        return nullcontext()


def _is_version(name: str) -> bool:
    return name.startswith(VERSION)


def version_names(store: Store) -> Iterator[str]:
    """Names of versions, the newest first.

    Examples
    --------
    >>> from scstream.cli.places import Scratch, version_names
    >>> scratch = Scratch()
    >>> scratch.put("version-000000000000002", b"")
    >>> list(version_names(scratch))
    ['version-000000000000002']
    """
    return reversed(store.names(VERSION))
