"""Messages that a person told the pipeline to skip: records in the store of its checkpoints.

A record is written before any checkpoint that comes after its messages, and is never changed: a
resumed or replayed pipeline skips the same messages.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from scstream.errors import CheckpointCorrupt, InputError
from scstream.io._packing import read_header
from scstream.io.budget import MAX_CONTENT
from scstream.io.records import sealed, unsealed
from scstream.preprocess.block import Block
from scstream.stream.batcher import Offset
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.progress import Progress
from scstream.stream.source import Position, Record, Source, SourceWrapper
from scstream.stream.store import Store, number_of, numbered_name, numbered_names

SKIP = "skip-"
_BEGAN = "began"  # where a job began is no part of what the source is
_POSITION = re.compile(r"(\d+)(?:-(\d+))?(?:@[^+]*)?(\+?)")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Skip:
    """Consecutive messages of a partition that are not read.

    Parameters
    ----------
    first, last : str
        Offsets of the first and the last message.
    partition : str
        The partition; "" for a source without partitions.
    identity : mapping of str to str
        The source, as its checkpoint identifies it; messages of another source are not skipped.
    time : float
        When it was recorded, in seconds since 1970.

    Examples
    --------
    >>> from scstream.stream.skips import Skip
    >>> skip = Skip("1200", "1203", partition="2")
    >>> skip.contains("2", 1203), skip.contains("2", 1204), skip.contains("0", 1203)
    (True, False, False)
    """

    first: str
    last: str
    partition: str = ""
    identity: Mapping[str, str] = field(default_factory=dict)
    time: float = 0.0

    def __post_init__(self) -> None:
        if _message_at(self.first) > _message_at(self.last):
            raise InputError(f"the last offset, {self.last}, comes before {self.first}; swap them.")

    def __str__(self) -> str:
        messages = f"messages {self.first} to {self.last}"
        if self.first == self.last:
            messages = f"message {self.first}"
        return f"{messages} of partition {self.partition}" if self.partition else messages

    def contains(self, partition: str, position: Position) -> bool:
        """Whether the message at a position is skipped."""
        if partition != self.partition:
            return False
        return _message_at(self.first) <= _message_at(position) <= _message_at(self.last)

    def is_committed(self, offset: Offset) -> bool:
        """Whether rows of the messages come before an offset."""
        first, reached = _message_at(self.first), _message_at(offset.position)
        has_begun = offset.row > 0 or str(offset.position).endswith("+")
        return reached > first or (reached == first and has_begun)


class SkippingSource(SourceWrapper):
    """A source that gives one rejected row in place of each message that is skipped."""

    def __init__(self, source: Source, skips: Sequence[Skip]) -> None:
        super().__init__(source)
        self._skips = skips

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next messages."""
        return [self._checked(record) for record in self._source.read(max_n, timeout)]

    def _checked(self, record: Record) -> Record:
        if not any(skip.contains(record.partition, record.position) for skip in self._skips):
            return record
        where = f" of partition {record.partition}" if record.partition else ""
        _log.warning("the message at %s%s is skipped", record.position, where)
        return replace(record, value=_skipped(record.value))


def record_skip(store: Store, skip: Skip, *, now: float) -> Skip:
    """Record that messages are skipped, and fence off an instance that does not know it.

    Parameters
    ----------
    store : Store
        The store of the pipeline, which must be stopped.
    skip : Skip
        The messages.
    now : float
        The time, in seconds since 1970.

    Returns
    -------
    Skip
        What was recorded. Raises `InputError` if rows of the messages are committed already.

    Examples
    --------
    >>> from scstream.stream.skips import Skip, record_skip
    >>> from scstream.stream.store import MemoryStore
    >>> record_skip(MemoryStore(), Skip("7", "7"), now=0.0)
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: the pipeline has no checkpoint yet; start it once, and then skip ...
    """
    with store.lock():
        log = CheckpointLog(store)
        progress = _newest_progress(log)
        _check_open(skip, progress)
        skip = replace(skip, identity=_stable(progress.identity), time=now)
        name = _write(store, skip)
        # Whoever claims after this has read the record; whoever claimed before cannot commit.
        log.claim(time=now)
        try:
            _check_open(skip, _newest_progress(log))
        except InputError:
            store.delete(name)
            raise
    return skip


def read_skips(store: Store, identity: Mapping[str, str]) -> list[Skip]:
    """Return the recorded skips of a source; raises `CheckpointCorrupt`."""
    found = []
    for name in numbered_names(store, SKIP):
        try:
            found.append(Skip(**unsealed(store.get(name))))
        except (ValueError, TypeError) as error:
            raise CheckpointCorrupt(
                f"{name}, which says what messages are skipped, is damaged ({error}); restore it "
                "from a copy of the checkpoints."
            ) from None
    return [skip for skip in found if skip.identity == _stable(identity)]


def _write(store: Store, skip: Skip) -> str:
    names = numbered_names(store, SKIP)
    number = number_of(SKIP, names[-1]) + 1 if names else 0
    while not store.put_new(numbered_name(SKIP, number), sealed(asdict(skip))):
        number += 1
    return numbered_name(SKIP, number)


def _newest_progress(log: CheckpointLog) -> Progress:
    for _, content in log.checkpoints():
        with suppress(ValueError, LookupError, TypeError):  # damaged: the pipeline uses the next
            progress = Progress.from_header(read_header(content))
            if progress.identity:  # a migrated job has none before its first start
                return progress
    raise InputError(
        "the pipeline has no checkpoint yet; start it once, and then skip what stops it."
    )


def _check_open(skip: Skip, progress: Progress) -> None:
    offset = progress.offsets.get(skip.partition)
    if offset is not None and skip.is_committed(offset):
        raise InputError(
            f"{skip}: rows up to {offset.position} are committed already, and what is committed "
            "stays; skip only messages that come after it."
        )


def _skipped(value: bytes | Block) -> Block:
    content = "" if isinstance(value, Block) else value[:MAX_CONTENT].decode(errors="replace")
    # Not complete: one row stands for the whole message, which must not be sent again by accident.
    return Block.rejected("skipped: see scstream skip.", content)


def _stable(identity: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in identity.items() if name != _BEGAN}


def _message_at(position: Position) -> tuple[int, int]:
    """Return the place of a message in the order of its partition; raises `InputError`."""
    found = _POSITION.fullmatch(str(position))
    if found is None:
        raise InputError(
            f"{str(position)[:80]!r} is no offset of a message; give it as dead letters show it, "
            "such as 1200 for Kafka, NATS and HTTP, or 1700000000000-0 for Redis."
        )
    return int(found[1]), int(found[2] or 0)
