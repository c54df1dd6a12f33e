"""The `Source` protocol: where rows come from. A source can continue from any position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from scstream.preprocess.block import Block

Position = Any  # plain JSON: a number, a string, or a dict or list of them
Positions = Mapping[str, Position]  # by partition: where to read next


@dataclass(frozen=True)
class Record:
    """One message of a source.

    Parameters
    ----------
    position : Position
        Where the message is: reading from here gives it again.
    after : Position
        Where the next message of the partition is.
    value : bytes or Block
        The content: bytes for `scstream.stream.messages` to read, or rows that are read already.
    partition : str
        Part of the source with an order of its own; a source without partitions uses "".
    time : float or None
        When the source received the message, in seconds since 1970, if it is known.

    Examples
    --------
    >>> from scstream.stream.source import Record
    >>> Record(position=7, after=8, value=b'{"x": 1.5}').partition
    ''
    """

    position: Position
    after: Position
    value: bytes | Block
    partition: str = ""
    time: float | None = None


@dataclass(frozen=True)
class Resume:
    """What a checkpoint stores of a source.

    Parameters
    ----------
    identity : mapping of str to str
        `Source.identity` when the checkpoint was written.
    positions : mapping
        Where to continue, by partition.

    Examples
    --------
    >>> from scstream.stream.source import Resume
    >>> Resume({"stream": "rows", "created": "2026-01-01"}, {"": 42}).positions
    {'': 42}
    """

    identity: Mapping[str, str]
    positions: Positions = field(default_factory=dict)


class Source(Protocol):
    """A stream of messages in partitions, each partition in its order.

    Within a partition the order and the content of messages never change, so that reading from the
    same position twice gives the same messages. Connectors raise `SourceChanged` if the source is
    not the one of the checkpoint, `SourceRegressed` if it ends before a position that was read, and
    `SourceGap` if messages at a position are gone; the user may accept the last two. A server that
    is away for a while is no error: the connector waits for it.

    A source or sink of a server also has a property `connected`: whether the server worked when it
    was used last, or None if that is unknown. `Pipeline.connections` and the metrics show it.
    """

    def identity(self) -> Mapping[str, str]:
        """Return values that identify the source; they differ if it was deleted and recreated."""

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Go to the positions of `resume`, or to the beginning; check that they still exist."""

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next messages, at most `max_n`; none if none comes in `timeout` seconds."""

    def acknowledge(self, positions: Positions) -> None:
        """Tell the source that everything before these positions is committed."""

    @property
    def done(self) -> bool:
        """Whether no more messages will come, as at the end of a file that is not followed."""

    def lag(self) -> int | None:
        """Number of messages after the last one read; None if it is unknown."""

    def close(self) -> None:
        """Close connections and files."""


class SourceWrapper:
    """A source that forwards every call to another source; subclasses override some."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def identity(self) -> Mapping[str, str]:
        """Return the identity of the source."""
        return self._source.identity()

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Open the source."""
        self._source.open(resume, accept_gap=accept_gap)

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next messages."""
        return self._source.read(max_n, timeout)

    def acknowledge(self, positions: Positions) -> None:
        """Acknowledge messages."""
        self._source.acknowledge(positions)

    @property
    def done(self) -> bool:
        """Whether no more messages will come."""
        return self._source.done

    def lag(self) -> int | None:
        """Number of messages after the last one read."""
        return self._source.lag()

    def close(self) -> None:
        """Close connections and files."""
        self._source.close()
