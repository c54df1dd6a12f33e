"""What a pipeline has decided, written down where a crash or a second instance cannot undo it.

Everything is a name in a `Store` that is written once: versions (checkpoints, and claims of an
instance that starts), cuts, digests and savepoints. To publish is to take the next version; who
finds it taken has been overtaken and must stop.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from scstream.errors import CheckpointCorrupt, Fenced, InputError, NonDeterministicReplay
from scstream.io._packing import read_header
from scstream.stream.batcher import BatchBoundary
from scstream.stream.segments import PREFIX as _SEGMENT
from scstream.stream.store import Store, checked_name

VERSION, _CUT, DIGEST, SAVEPOINT = "version-", "cut-", "digest-", "savepoint-"
_NO_SEGMENTS: Mapping[str, Any] = {"held": [], "next": 0}
_HOUR = 3600.0


@dataclass
class CheckpointLog:
    """The log of one pipeline.

    Parameters
    ----------
    store : Store
        Where it is kept.
    newest : int
        Checkpoints to keep, the newest ones.
    hourly : int
        Hours for each of which one more is kept.

    Examples
    --------
    >>> import tempfile
    >>> from scstream.stream.checkpoint_log import CheckpointLog
    >>> from scstream.stream.store import FolderStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ours, theirs = CheckpointLog(FolderStore(folder)), CheckpointLog(FolderStore(folder))
    ...     _ = ours.claim(at=0.0), theirs.claim(at=0.0)
    ...     ours.publish(b"labels of an instance that was overtaken", at=1.0, batch=1)
    Traceback (most recent call last):
    ...
    scstream.errors.Fenced: another instance has taken over ...
    """

    store: Store
    newest: int = 3
    hourly: int = 24
    version: int = -1
    epoch: int = -1
    _kept: list[tuple[int, float, int]] = field(default_factory=list)  # version, time, batch
    _written: bytes = b""  # the newest checkpoint, until it was re-read
    _held: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # segments, by version

    def claim(self, *, at: float) -> int:
        """Become the one writer: whoever was it before finds the next version taken."""
        self.store.sweep()
        taken = self._versions()
        self.version = taken[-1] + 1 if taken else 0
        claim = {"claim": self.version, "host": socket.gethostname(), "pid": os.getpid(), "at": at}
        self._take(json.dumps(claim).encode())
        self.epoch = self.version
        self._kept = [entry for version in taken for entry in self._entries(version)]
        return self.epoch

    def publish(self, content: bytes, *, at: float, batch: int) -> int:
        """Write a checkpoint as the next version."""
        self.version += 1
        self._take(content)
        self._written = content
        self._kept.append((self.version, at, batch))
        return self.version

    def checkpoints(self) -> Iterator[tuple[str, bytes]]:
        """Names and contents of the checkpoints, the newest first."""
        for version in reversed(self._versions()):
            name = _name(VERSION, version)
            if not _is_claim(self.store.get(name, 0, 1)):
                yield name, self.store.get(name)

    def forget(self, name: str) -> None:
        """Count a checkpoint no more: it is damaged."""
        self._kept = [entry for entry in self._kept if _name(VERSION, entry[0]) != name]

    def agree(self, cut: BatchBoundary) -> BatchBoundary:
        """Write a cut down before it is acted on; return the one that holds."""
        name, content = _name(_CUT, cut.batch), json.dumps(cut.plain()).encode()
        if self.store.put_new(name, content):
            return cut
        return BatchBoundary(**json.loads(self.store.get(name)))

    def planned(self, *, after: int) -> dict[int, BatchBoundary]:
        """Cuts of batches from `after` on that were written down already."""
        names = [name for name in self.store.names(_CUT) if _number(_CUT, name) >= after]
        cuts = [BatchBoundary(**json.loads(self.store.get(name))) for name in names]
        return {cut.batch: cut for cut in cuts}

    def confirm(self, batch: int, digest: str) -> None:
        """Write the digest of a batch down, or compare it with the one that is there."""
        name = _name(DIGEST, batch)
        if self.store.put_new(name, digest.encode()):
            return
        before = self.store.get(name).decode()
        if before != digest:
            raise NonDeterministicReplay(
                f"batch {batch} was learned again and gave the digest {digest[:12]} in place of "
                f"{before[:12]}; the machine, the libraries or the rows are not those of the first "
                "time. Put them back, or start a new job with checkpoints and a sink of its own."
            )

    def digest(self, batch: int) -> str | None:
        """Digest of a batch, if it was written down and is still kept."""
        try:
            return self.store.get(_name(DIGEST, batch)).decode()
        except KeyError:
            return None

    def prune(self, *, at: float) -> None:
        """Delete what no promise needs: the newest is re-read before older ones go."""
        if not self._kept or self._kept[-1][0] != self.version:
            return
        self._read_again(_name(VERSION, self.version))
        wanted = self._wanted(at) | {self.epoch}
        for version in self._versions():
            if version not in wanted and version < self.version:
                self.store.delete(_name(VERSION, version))
        self._kept = [entry for entry in self._kept if entry[0] in wanted]
        oldest = min(batch for _, _, batch in self._kept[-self.newest :])
        for prefix in (_CUT, DIGEST):
            for name in self.store.names(prefix):
                if _number(prefix, name) < oldest:
                    self.store.delete(name)
        self._collect()

    def savepoint(self, name: str) -> None:
        """Keep the newest checkpoint for ever, under a name."""
        label = checked_name(SAVEPOINT + name)
        while found := next(self.checkpoints(), None):
            version, content = found
            if not self.store.put_new(label, content):
                raise InputError(f"there is a savepoint {name!r} already; choose another name.")
            if version in self.store.names(VERSION):
                return
            self.store.delete(label)  # pruned while it was copied, and its segments with it
        raise InputError("there is no checkpoint yet to make a savepoint of.")

    def read_savepoint(self, name: str) -> bytes:
        """Content of a savepoint."""
        try:
            return self.store.get(checked_name(SAVEPOINT + name))
        except KeyError:
            there = [full.removeprefix(SAVEPOINT) for full in self.store.names(SAVEPOINT)]
            raise InputError(
                f"there is no savepoint {name!r}; there are: {', '.join(there) or 'none'}."
            ) from None

    def is_overtaken(self) -> bool:
        """Whether another instance has claimed the pipeline since."""
        try:
            versions = self._versions()
        except OSError:  # of a store that fails nothing can be said
            return False
        return self.epoch >= 0 and bool(versions) and versions[-1] > self.version

    def overtaken(self) -> Fenced:
        """Return the error to stop with."""
        return Fenced(
            "another instance has taken over this pipeline; this one stops and has committed "
            "nothing since. If that was not meant, look for a second `scstream run` with the same "
            f"checkpoints: {self.owner()}."
        )

    def owner(self) -> dict[str, Any] | None:
        """Who claimed the pipeline last."""
        for version in reversed(self._versions()):
            with suppress(KeyError):  # pruned meanwhile
                content = self.store.get(_name(VERSION, version), 0, 4096)
                if _is_claim(content):
                    found: dict[str, Any] = json.loads(content)
                    return found
        return None

    def _take(self, content: bytes) -> None:
        name = _name(VERSION, self.version)
        mine = self.store.put_new(name, content) or self._is_mine(name, content)
        # A name that was pruned may be free again; it is ours only if nothing is newer.
        if mine and self._versions()[-1] == self.version:
            return
        raise self.overtaken()

    def _is_mine(self, name: str, content: bytes) -> bool:
        """Whether a write that seemed to fail had come through after all."""
        try:
            return self.store.get(name) == content
        except KeyError:
            return False

    def _read_again(self, name: str) -> None:
        written, self._written = self._written, b""
        if self.store.get(name) != written:
            raise CheckpointCorrupt(
                f"the checkpoint {name} reads back other than it was written; older ones were "
                "kept. Check the disk or the object store."
            )

    def _entries(self, version: int) -> Iterator[tuple[int, float, int]]:
        """When a checkpoint was written, and the batch that follows it; nothing for a claim."""
        progress = self._pipeline(_name(VERSION, version)).get("progress")
        if progress is not None:
            yield version, float(progress["at"]), int(progress["batch"])

    def _pipeline(self, name: str) -> Mapping[str, Any]:
        """What the header of a checkpoint says; nothing for a claim, or where it is damaged."""
        try:
            start = self.store.get(name, 0, 8)
            if _is_claim(start):
                return {}
            header = read_header(self.store.get(name, 0, 8 + int.from_bytes(start, "little")))
            pipeline: Mapping[str, Any] = header["pipeline"]
        except (ValueError, LookupError, TypeError):
            return {}  # a damaged one is nothing to go back to
        return pipeline

    def _collect(self) -> None:
        """Delete segments that no checkpoint or savepoint refers to.

        Those from the limit of the newest checkpoint on may be in use by what comes after it.
        """
        segments = self.store.names(_SEGMENT)
        if not segments:
            return
        kept = [_name(VERSION, version) for version, _, _ in self._kept]
        self._held = {name: self._held.get(name) or self._segments(name) for name in kept}
        savepoints = [self._segments(name) for name in self.store.names(SAVEPOINT)]
        held = {n for part in (*self._held.values(), *savepoints) for n in part["held"]}
        limit = self._held[kept[-1]]["next"]
        for name in segments:
            if _number(_SEGMENT, name) < limit and _number(_SEGMENT, name) not in held:
                self.store.delete(name)

    def _segments(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._pipeline(name).get("segments", _NO_SEGMENTS)
        return found

    def _versions(self) -> list[int]:
        return [_number(VERSION, name) for name in self.store.names(VERSION)]

    def _wanted(self, at: float) -> set[int]:
        wanted = {version for version, _, _ in self._kept[-self.newest :]}
        hours = {
            int(time // _HOUR): version
            for version, time, _ in self._kept
            if at - time < self.hourly * _HOUR
        }
        return wanted | set(hours.values())


def _name(prefix: str, number: int) -> str:
    return f"{prefix}{number:015d}"


def _number(prefix: str, name: str) -> int:
    return int(name.removeprefix(prefix))


def _is_claim(content: bytes) -> bool:
    return content[:1] == b"{"  # a checkpoint begins with a length, a multiple of 8
