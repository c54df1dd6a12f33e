"""What a pipeline has decided, recorded so that neither a crash nor a second instance can undo it.

Everything is a name in a `Store` that is written once: versions (checkpoints, and claims of
instances that started), batch boundaries, digests and savepoints. Publishing a checkpoint takes the
next version; an instance that finds it taken is fenced off and must stop.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, Self

from scstream.errors import CheckpointCorrupt, Fenced, InputError, NonDeterministicReplay
from scstream.io._packing import read_header
from scstream.io.header import Json
from scstream.io.records import sealed, unsealed
from scstream.stream.batcher import BatchBoundary
from scstream.stream.progress import Progress
from scstream.stream.segments import PREFIX as _SEGMENT
from scstream.stream.segments import SegmentList
from scstream.stream.source import Positions, Resume
from scstream.stream.store import Store, checked_name, number_of, numbered_name, numbered_names

VERSION, BOUNDARY, DIGEST, SAVEPOINT = "version-", "boundary-", "digest-", "savepoint-"
_HOUR = 3600.0
_OLD_DIGEST = re.compile(rb"[0-9a-f]{64}")  # without a checksum, of an earlier version


@dataclass(frozen=True)
class Claim:
    """The version that an instance takes when it starts."""

    claim: int
    host: str
    pid: int
    time: float

    def to_json(self) -> bytes:
        """Return the claim as JSON."""
        return sealed(asdict(self))

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Undo `to_json`."""
        return cls(**unsealed(content))


class _Kept(NamedTuple):
    """A checkpoint in the store; `batch` is the next batch."""

    version: int
    time: float
    batch: int
    resume: Resume = Resume({})  # where the source continues after it


@dataclass
class CheckpointLog:
    """The log of one pipeline.

    Parameters
    ----------
    store : Store
        Where the log is stored.
    newest : int
        How many of the newest checkpoints are kept.
    hourly : int
        Number of hours for each of which one more checkpoint is kept.

    Examples
    --------
    >>> import tempfile
    >>> from scstream.stream.checkpoint_log import CheckpointLog
    >>> from scstream.stream.store import FolderStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = CheckpointLog(FolderStore(folder)), CheckpointLog(FolderStore(folder))
    ...     _ = first.claim(time=0.0), second.claim(time=0.0)
    ...     first.publish(b"labels of an instance that was fenced off", time=1.0, batch=1)
    Traceback (most recent call last):
    ...
    scstream.errors.Fenced: another instance has taken over ...
    """

    store: Store
    newest: int = 3
    hourly: int = 24
    version: int = -1
    epoch: int = -1
    records: tuple[str, ...] = (BOUNDARY, DIGEST)  # by batch, deleted with the checkpoints
    _kept: list[_Kept] = field(default_factory=list)
    _written: bytes = b""  # the newest checkpoint, until it is read back
    _segments: dict[str, SegmentList] = field(default_factory=dict)  # by name of the checkpoint

    def claim(self, *, time: float) -> int:
        """Become the only writer: the writer before finds the next version taken."""
        self.store.sweep()
        versions = self._versions()
        self.version = versions[-1] + 1 if versions else 0
        self._take(Claim(self.version, socket.gethostname(), os.getpid(), time).to_json())
        self.epoch = self.version
        self._kept = [kept for version in versions for kept in self._described(version)]
        return self.epoch

    def publish(
        self, content: bytes, *, time: float, batch: int, resume: Resume | None = None
    ) -> int:
        """Write a checkpoint as the next version."""
        self.version += 1
        self._take(content)
        self._written = content
        self._kept.append(_Kept(self.version, time, batch, resume or Resume({})))
        return self.version

    def checkpoints(self) -> Iterator[tuple[str, bytes]]:
        """Names and contents of the checkpoints, the newest first."""
        for version in reversed(self._versions()):
            name = numbered_name(VERSION, version)
            if not _is_claim(self.store.get(name, 0, 1)):
                yield name, self.store.get(name)

    def discard(self, name: str) -> None:
        """Do not count a damaged checkpoint as kept."""
        self._kept = [kept for kept in self._kept if numbered_name(VERSION, kept.version) != name]

    def record_boundary(self, boundary: BatchBoundary) -> BatchBoundary:
        """Record a boundary before it is used; return the recorded one, which may be older."""
        name = numbered_name(BOUNDARY, boundary.batch)
        if self.store.put_new(name, sealed(asdict(boundary))):
            return boundary
        return self._boundary(name)

    def boundaries(self, *, start: int) -> dict[int, BatchBoundary]:
        """Return the recorded boundaries of batches from `start` on."""
        names = numbered_names(self.store, BOUNDARY)
        found = [self._boundary(name) for name in names if number_of(BOUNDARY, name) >= start]
        return {boundary.batch: boundary for boundary in found}

    def _boundary(self, name: str) -> BatchBoundary:
        try:
            boundary = BatchBoundary(**unsealed(self.store.get(name)))
        except (ValueError, TypeError) as error:
            raise CheckpointCorrupt(
                f"{name}, where a batch was recorded to end, is damaged ({error}); restore it from "
                "a copy of the checkpoints, or start a new job with checkpoints of its own."
            ) from None
        if number_of(BOUNDARY, name) == boundary.batch:
            return boundary
        raise CheckpointCorrupt(
            f"{name} holds the end of batch {boundary.batch}; restore it from a copy of the "
            "checkpoints, or start a new job with checkpoints of its own."
        )

    def record_digest(self, batch: int, digest: str) -> None:
        """Record the digest of a batch, or compare it with the recorded one."""
        name = numbered_name(DIGEST, batch)
        if self.store.put_new(name, sealed({"batch": batch, "digest": digest})):
            return
        before = self._digest(name)
        if before != digest:
            raise NonDeterministicReplay(
                f"batch {batch} was learned again and gave the digest {digest[:12]} instead of "
                f"{before[:12]}; the machine, the libraries or the rows are not those of the first "
                "time. Restore them, or start a new job with checkpoints and a sink of its own."
            )

    def digests(self) -> dict[int, str]:
        """Return the recorded digests by batch."""
        names = numbered_names(self.store, DIGEST)
        return {number_of(DIGEST, name): self._digest(name) for name in names}

    def _digest(self, name: str) -> str:
        content = self.store.get(name)
        if _OLD_DIGEST.fullmatch(content):
            return content.decode()
        try:
            values = unsealed(content)
            if values != {"batch": number_of(DIGEST, name), "digest": values.get("digest")}:
                raise ValueError("it is not the digest of this batch")
        except ValueError as error:
            raise CheckpointCorrupt(
                f"{name}, the digest of the labels up to this batch, is damaged ({error}); restore "
                "it from a copy of the checkpoints, or delete it: then these labels are not "
                "compared."
            ) from None
        return str(values["digest"])

    def prune(self, *, time: float) -> None:
        """Delete what is not needed any more; the newest checkpoint is read back before."""
        if not self._kept or self._kept[-1].version != self.version:
            return
        self._read_back(numbered_name(VERSION, self.version))
        wanted = self._wanted(time) | {self.epoch}
        for version in self._versions():
            if version not in wanted and version < self.version:
                self.store.delete(numbered_name(VERSION, version))
        self._kept = [kept for kept in self._kept if kept.version in wanted]
        oldest = self.oldest_batch
        for prefix in self.records:
            for name in numbered_names(self.store, prefix):
                if number_of(prefix, name) < oldest:
                    self.store.delete(name)
        self._prune_segments()

    @property
    def oldest_batch(self) -> int:
        """The batch that comes after the oldest of the newest checkpoints."""
        return min((kept.batch for kept in self._kept[-self.newest :]), default=0)

    def oldest_positions(self, identity: Mapping[str, str]) -> Positions:
        """Where the oldest of the newest checkpoints continues in a source of this identity.

        The source must keep everything from here on: if newer checkpoints turn out to be damaged,
        the pipeline continues from the older one.
        """
        kept = [k.resume for k in self._kept[-self.newest :] if k.resume.identity == identity]
        return kept[0].positions if kept else {}

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
        """Return the content of a savepoint."""
        try:
            return self.store.get(checked_name(SAVEPOINT + name))
        except KeyError:
            known = [full.removeprefix(SAVEPOINT) for full in self.store.names(SAVEPOINT)]
            raise InputError(
                f"there is no savepoint {name!r}; there are: {', '.join(known) or 'none'}."
            ) from None

    def is_fenced(self) -> bool:
        """Whether another instance has claimed the pipeline since."""
        try:
            versions = self._versions()
        except OSError:  # unknown while the store fails
            return False
        return self.epoch >= 0 and bool(versions) and versions[-1] > self.version

    def fenced(self) -> Fenced:
        """Return the error to stop with."""
        return Fenced(
            "another instance has taken over this pipeline; this one stops and has committed "
            "nothing since. If you did not intend that, look for a second `scstream run` with the "
            f"same checkpoints: {self.owner()}."
        )

    def owner(self) -> Claim | None:
        """Return the newest claim."""
        for version in reversed(self._versions()):
            with suppress(KeyError, ValueError, TypeError):  # pruned meanwhile, or damaged
                content = self.store.get(numbered_name(VERSION, version), 0, 4096)
                if _is_claim(content):
                    return Claim.from_json(content)
        return None

    def _take(self, content: bytes) -> None:
        name = numbered_name(VERSION, self.version)
        mine = self.store.put_new(name, content) or self._is_mine(name, content)
        # A pruned name may be free again; it is ours only if no version is newer.
        if mine and self._versions()[-1] == self.version:
            return
        raise self.fenced()

    def _is_mine(self, name: str, content: bytes) -> bool:
        """Whether a write that seemed to fail was successful."""
        try:
            return self.store.get(name) == content
        except KeyError:
            return False

    def _read_back(self, name: str) -> None:
        written, self._written = self._written, b""
        if self.store.get(name) != written:
            raise CheckpointCorrupt(
                f"the checkpoint {name} reads back other than it was written; older ones were "
                "kept. Check the disk or the object store."
            )

    def _described(self, version: int) -> Iterator[_Kept]:
        """Time and batch of a checkpoint; nothing for a claim or a damaged checkpoint."""
        with suppress(ValueError, LookupError, TypeError):
            progress = Progress.from_header(self._header(numbered_name(VERSION, version)))
            yield _Kept(version, progress.time, progress.batch, progress.resume)

    def _header(self, name: str) -> Json:
        """Return the header of a checkpoint; raises ValueError for a claim or if it is damaged."""
        start = self.store.get(name, 0, 8)
        if _is_claim(start):
            raise ValueError(f"{name} is a claim")
        return read_header(self.store.get(name, 0, 8 + int.from_bytes(start, "little")))

    def _prune_segments(self) -> None:
        """Delete segments that no checkpoint or savepoint refers to.

        Segments from the limit of the newest checkpoint on may be in use by what comes after it.
        """
        segments = numbered_names(self.store, _SEGMENT)
        if not segments:
            return
        kept = [numbered_name(VERSION, version) for version, *_ in self._kept]
        self._segments = {n: self._segments.get(n) or self._segments_of(n) for n in kept}
        savepoints = [self._segments_of(name) for name in self.store.names(SAVEPOINT)]
        referenced = {n for part in (*self._segments.values(), *savepoints) for n in part.numbers}
        limit = self._segments[kept[-1]].limit
        for name in segments:
            if number_of(_SEGMENT, name) < limit and number_of(_SEGMENT, name) not in referenced:
                self.store.delete(name)

    def _segments_of(self, name: str) -> SegmentList:
        try:
            return SegmentList(**self._header(name)["pipeline"]["segments"])
        except (ValueError, LookupError, TypeError):
            return SegmentList()

    def _versions(self) -> Sequence[int]:
        return [number_of(VERSION, name) for name in numbered_names(self.store, VERSION)]

    def _wanted(self, now: float) -> set[int]:
        newest = {kept.version for kept in self._kept[-self.newest :]}
        hourly = {
            int(kept.time // _HOUR): kept.version
            for kept in self._kept
            if now - kept.time < self.hourly * _HOUR
        }
        return newest | set(hourly.values())


def _is_claim(content: bytes) -> bool:
    return content[:1] == b"{"  # a checkpoint begins with a length, a multiple of 8
