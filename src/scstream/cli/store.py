"""Stores of checkpoints, as commands open them: without creating or changing anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scstream.cli.settings import Tables
from scstream.errors import InputError
from scstream.stream import config, connectors
from scstream.stream.checkpoint_log import VERSION
from scstream.stream.store import Store, numbered_names


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
    return reversed(numbered_names(store, VERSION))
