"""`scstream checkpoints` and `scstream savepoint`: they read only the headers of checkpoints."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass

from scstream.cli.render import console, duration, format_size, print_json, print_table
from scstream.cli.store import version_names
from scstream.errors import CheckpointCorrupt, InputError
from scstream.io._packing import read_header, unseal
from scstream.stream.checkpoint_log import SAVEPOINT, VERSION, CheckpointLog, Claim
from scstream.stream.progress import Progress
from scstream.stream.store import Store, number_of

_CLAIM = b"{"  # first byte of a claim: a version that an instance wrote when it started
_ATTEMPTS = 10


@dataclass(frozen=True)
class CheckpointInfo:
    """Header of one checkpoint; `progress` is None if the header is damaged."""

    name: str
    progress: Progress | None
    clusters: int | None
    n_bytes: int

    @property
    def label(self) -> str:
        """Number of the version, or name of the savepoint."""
        if self.name.startswith(VERSION):
            return str(number_of(VERSION, self.name))
        return self.name.removeprefix(SAVEPOINT)

    def to_dict(self, owners: dict[int, str], *, now: float) -> dict[str, object]:
        """Return it for JSON."""
        progress = self.progress
        epoch = None if progress is None else progress.epoch
        is_version = self.name.startswith(VERSION)
        return {
            **({"version": int(self.label)} if is_version else {"savepoint": self.label}),
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


def list_checkpoints(store: Store) -> list[CheckpointInfo]:
    """Return the checkpoints, then the savepoints, the newest first."""
    found = [*version_names(store), *store.names(SAVEPOINT)]
    return [info for name in found if (info := _read_info(store, name)) is not None]


def owners_by_epoch(store: Store) -> dict[int, str]:
    """Return the process of every instance that claimed the pipeline."""
    owners = {}
    for name in version_names(store):
        if _first_bytes(store, name)[:1] == _CLAIM:
            with suppress(KeyError, TypeError, ValueError):
                claim = Claim.from_json(store.get(name))
                owners[claim.claim] = f"process {claim.pid} on {claim.host}"
    return owners


def has_checkpoint(store: Store) -> bool:
    """Return True if there is any checkpoint, valid or damaged."""
    return any(_first_bytes(store, name)[:1] not in (_CLAIM, b"") for name in version_names(store))


def create_savepoint(store: Store, name: str) -> CheckpointInfo:
    """Copy the newest checkpoint to a savepoint; the pipeline may run meanwhile."""
    for _ in range(_ATTEMPTS):
        try:
            CheckpointLog(store).savepoint(name)
            break
        except KeyError:
            continue  # the running instance removed it between listing and reading
    else:
        raise InputError("the checkpoints change faster than they can be copied; try again.")
    content = store.get(SAVEPOINT + name)
    try:
        unseal(content)
    except Exception as error:
        store.delete(SAVEPOINT + name)
        raise CheckpointCorrupt(
            f"the newest checkpoint is damaged ({error}), so no savepoint was made; try again "
            "after the pipeline has written another checkpoint."
        ) from error
    info = _read_info(store, SAVEPOINT + name)
    assert info is not None
    return info


def print_checkpoints(store: Store, *, as_json: bool) -> None:
    """Print the checkpoints as a table or as JSON."""
    now, owners, checkpoints = time.time(), owners_by_epoch(store), list_checkpoints(store)
    if as_json:
        print_json([info.to_dict(owners, now=now) for info in checkpoints])
    elif not checkpoints:
        console().print("there are no checkpoints yet")
    else:
        counts = ["version", "batch", "rows", "K", "age", "size"]
        rows = [_table_row(info, owners, now) for info in checkpoints]
        print_table([*counts, "instance"], rows, right=counts)


def _table_row(info: CheckpointInfo, owners: dict[int, str], now: float) -> list[str]:
    progress = info.progress
    if progress is None:
        return [info.label, "damaged", "", "", "", format_size(info.n_bytes), ""]
    epoch = progress.epoch
    owner = f" ({owners[epoch]})" if epoch in owners else ""
    clusters = "" if info.clusters is None else f"{info.clusters:,}"
    age = duration(max(now - progress.time, 0.0))
    counts = [f"{progress.batch:,}", f"{progress.rows:,}", clusters]
    return [info.label, *counts, age, format_size(info.n_bytes), f"{epoch}{owner}"]


def _read_info(store: Store, name: str) -> CheckpointInfo | None:
    """Read a header; None for a claim, or if the checkpoint was just removed."""
    try:
        first = _first_bytes(store, name)
        if first[:1] in (_CLAIM, b""):
            return None
        content = store.get(name, 0, 8 + int.from_bytes(first, "little"))
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
        n_bytes = len(content) + max(ends, default=0)
        return CheckpointInfo(name, progress, header.get("n_clusters"), n_bytes)
    except (ValueError, LookupError, TypeError, AttributeError):
        return CheckpointInfo(name, None, None, len(store.get(name)))


def _first_bytes(store: Store, name: str) -> bytes:
    try:
        return store.get(name, 0, 8)
    except KeyError:
        return b""
