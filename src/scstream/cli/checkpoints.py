"""What is kept of a pipeline: its checkpoints and savepoints, read from their headers alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scstream.cli.places import version_names
from scstream.cli.show import console, duration, size, table
from scstream.errors import CheckpointCorrupt, InputError
from scstream.io._packing import read_header, unseal
from scstream.stream.checkpoint_log import SAVEPOINT, VERSION, CheckpointLog
from scstream.stream.progress import Progress
from scstream.stream.store import Store

_CLAIM = b"{"


@dataclass(frozen=True)
class Kept:
    """One checkpoint, as its header describes it.

    Parameters
    ----------
    name : str
        Under which it is stored.
    progress : Progress or None
        What the pipeline knew then; None if the header is damaged.
    clusters : int or None
        Number of clusters.
    n_bytes : int
        Size of its content.

    Examples
    --------
    >>> from scstream.cli.checkpoints import Kept
    >>> Kept("version-000000000000007", None, 5, 1000).label
    '7'
    """

    name: str
    progress: Progress | None
    clusters: int | None
    n_bytes: int

    @property
    def label(self) -> str:
        """Number of the version, or name of the savepoint."""
        if self.name.startswith(VERSION):
            return str(int(self.name.removeprefix(VERSION)))
        return self.name.removeprefix(SAVEPOINT)

    def _named(self) -> dict[str, Any]:
        if self.name.startswith(VERSION):
            return {"version": int(self.label)}
        return {"savepoint": self.label}

    def plain(self, owners: dict[int, str], *, now: float) -> dict[str, Any]:
        """Return it for JSON."""
        progress = self.progress
        epoch = None if progress is None else progress.epoch
        return {
            **self._named(),
            "batch": progress and progress.batch,
            "rows": progress and progress.rows,
            "rejected": progress and progress.rejected,
            "clusters": self.clusters,
            "age": progress and round(now - progress.time, 1),
            "bytes": self.n_bytes,
            "epoch": epoch,
            "owner": owners.get(epoch) if epoch is not None else None,
            "damaged": self.progress is None,
        }


def kept_in(store: Store) -> list[Kept]:
    """Return the checkpoints and then the savepoints, the newest first.

    Examples
    --------
    >>> from scstream.cli.checkpoints import kept_in
    >>> from scstream.cli.places import Scratch
    >>> kept_in(Scratch())
    []
    """
    names = [*version_names(store), *store.names(SAVEPOINT)]
    return [kept for name in names if (kept := _look(store, name)) is not None]


def owners_of(store: Store) -> dict[int, str]:
    """Return who claimed the pipeline, by epoch.

    Examples
    --------
    >>> from scstream.cli.checkpoints import owners_of
    >>> from scstream.cli.places import Scratch
    >>> scratch = Scratch()
    >>> scratch.put("version-000000000000000", b'{"claim": 0, "host": "here", "pid": 7, "time": 1}')
    >>> owners_of(scratch)
    {0: 'process 7 on here'}
    """
    return {
        claim["claim"]: f"process {claim['pid']} on {claim['host']}" for claim in _claims(store)
    }


def has_checkpoint(store: Store) -> bool:
    """Whether there is anything to go on from, sound or damaged.

    Examples
    --------
    >>> from scstream.cli.checkpoints import has_checkpoint
    >>> from scstream.cli.places import Scratch
    >>> has_checkpoint(Scratch())
    False
    """
    return any(_start(store, name)[:1] not in (_CLAIM, b"") for name in version_names(store))


def save(store: Store, name: str) -> Kept:
    """Keep the newest checkpoint for ever; an instance may run meanwhile.

    Examples
    --------
    >>> from scstream.cli.checkpoints import save
    >>> from scstream.cli.places import Scratch
    >>> save(Scratch(), "before-the-move")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: there is no checkpoint yet to make a savepoint of.
    """
    for _ in range(10):
        try:
            CheckpointLog(store).savepoint(name)
            break
        except KeyError:
            continue  # pruned by the instance that runs between the listing and the reading
    else:
        raise InputError("the checkpoints change faster than they can be copied; try again.")
    content = store.get(SAVEPOINT + name)
    try:
        unseal(content)
    except Exception as error:
        store.delete(SAVEPOINT + name)
        raise CheckpointCorrupt(
            f"the newest checkpoint is damaged ({error}), and no savepoint was made of it; let the "
            "pipeline write another one."
        ) from error
    kept = _look(store, SAVEPOINT + name)
    assert kept is not None
    return kept


def show(store: Store, *, now: float | None = None) -> None:
    """Print what is kept as a table.

    Examples
    --------
    >>> from scstream.cli.checkpoints import show
    >>> from scstream.cli.places import Scratch
    >>> show(Scratch())
    there are no checkpoints yet
    """
    now = time.time() if now is None else now
    owners, everything = owners_of(store), kept_in(store)
    if not everything:
        console().print("there are no checkpoints yet")
        return
    table(
        ["version", "batch", "rows", "K", "age", "size", "instance"],
        [_row(kept, owners, now) for kept in everything],
        right=["version", "batch", "rows", "K", "age", "size"],
    )


def _row(kept: Kept, owners: dict[int, str], now: float) -> list[str]:
    progress = kept.progress
    if progress is None:
        return [kept.label, "damaged", "", "", "", size(kept.n_bytes), ""]
    epoch = progress.epoch
    owner = f" ({owners[epoch]})" if epoch in owners else ""
    clusters = "" if kept.clusters is None else f"{kept.clusters:,}"
    age = duration(max(now - progress.time, 0.0))
    counts = [f"{progress.batch:,}", f"{progress.rows:,}", clusters]
    return [kept.label, *counts, age, size(kept.n_bytes), f"{epoch}{owner}"]


def _look(store: Store, name: str) -> Kept | None:
    """Read a header; None for a claim, or for what was pruned just now."""
    try:
        start = _start(store, name)
        if start[:1] in (_CLAIM, b""):
            return None
        content = store.get(name, 0, 8 + int.from_bytes(start, "little"))
    except KeyError:
        return None
    try:
        header = read_header(content)
        ends = [
            entry["data_offsets"][1]
            for key, entry in json.loads(content[8:]).items()
            if key != "__metadata__"
        ]
        progress = Progress.from_header(header)
        clusters = header.get("n_clusters")
        return Kept(name, progress, clusters, len(content) + max(ends, default=0))
    except (ValueError, LookupError, TypeError, AttributeError):
        return Kept(name, None, None, len(store.get(name)))


def _start(store: Store, name: str) -> bytes:
    try:
        return store.get(name, 0, 8)
    except KeyError:
        return b""


def _claims(store: Store) -> Iterator[dict[str, Any]]:
    for name in version_names(store):
        if _start(store, name)[:1] == _CLAIM:
            try:
                yield json.loads(store.get(name))
            except (KeyError, ValueError):
                continue
