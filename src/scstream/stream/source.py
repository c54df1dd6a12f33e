"""Where rows come from. A position is a value: a source can be asked to go on from any of them."""

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
        Where the message is: to read from here is to read it again.
    after : Position
        Where the next message of the partition is.
    value : bytes or Block
        What it holds: bytes for `scstream.stream.messages` to read, or rows already read.
    partition : str
        Part of the source with an order of its own, such as a partition; a source without parts
        has one partition with an empty name.
    time : float or None
        When the source took the message, in seconds since 1970, if it says so.

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
    """What a checkpoint remembers of a source.

    Parameters
    ----------
    identity : mapping of str to str
        `Source.identity` of then.
    positions : mapping
        Where to go on, by partition.

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

    Within a partition the order and the content of messages never change, so that reading from the same
    position twice gives the same twice. Connectors raise `SourceChanged` where the source is not
    the one that the checkpoint knows, `SourceRegressed` where it ends before a position that was
    read already, and `SourceGap` where messages at a position are gone; the last two may be
    accepted by the user. A server that is away for a while is waited for, not an error.
    """

    def identity(self) -> Mapping[str, str]:
        """Which source this is: values that differ if it was deleted and made anew."""
        ...

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Go to where `resume` says, or to the beginning; check that it is still there."""
        ...

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next messages, at most so many; none if none comes in `timeout` seconds."""
        ...

    def acknowledge(self, positions: Positions) -> None:
        """Tell the source that everything before these positions is safe with us."""
        ...

    @property
    def done(self) -> bool:
        """Whether there will be no more messages, as at the end of a file that is not followed."""
        ...

    def lag(self) -> int | None:
        """How many messages wait behind the last one read; None if the source cannot tell."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...


class SourceWrapper:
    """A source that passes everything on; what a subclass says otherwise is done otherwise.

    Parameters
    ----------
    source : Source
        What is wrapped.

    Examples
    --------
    >>> from scstream.stream.connectors import source
    >>> from scstream.stream.source import SourceWrapper
    >>> SourceWrapper(source("stdin")).lag() is None
    True
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def identity(self) -> Mapping[str, str]:
        """Which source this is."""
        return self._source.identity()

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Go to where `resume` says."""
        self._source.open(resume, accept_gap=accept_gap)

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next messages."""
        return self._source.read(max_n, timeout)

    def acknowledge(self, positions: Positions) -> None:
        """Tell the source what is safe with us."""
        self._source.acknowledge(positions)

    @property
    def done(self) -> bool:
        """Whether there will be no more messages."""
        return self._source.done

    def lag(self) -> int | None:
        """How many messages wait."""
        return self._source.lag()

    def close(self) -> None:
        """Let go of connections and files."""
        self._source.close()
