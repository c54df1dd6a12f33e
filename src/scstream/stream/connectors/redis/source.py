"""Entries of a Redis stream, in order of their ids."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scstream.errors import InputError, SourceChanged, SourceGap, SourceRegressed, StreamError
from scstream.stream.connectors.redis.doctor import findings
from scstream.stream.connectors.redis.link import (
    Away,
    EntryId,
    Link,
    ResponseError,
    StreamState,
    before,
    parsed_id,
    said,
    shown_id,
    state_of,
)
from scstream.stream.findings import Finding
from scstream.stream.secrets import masked
from scstream.stream.source import Position, Positions, Record, Resume

_POSITION = re.compile(r"(\d+-\d+)(?:@(\d*)(?:\.([0-9a-f]{8}))?(\+?))?")
_READ_BYTES = 16 << 20  # most that one `read` returns, about


@dataclass(frozen=True)
class _Place:
    """Where to read: after entry `last`, which was number `number` of the stream.

    `mark` is the fingerprint of an entry that must be as it was, if it is still there: the last one
    that was read, or the one that is read next.
    """

    last: EntryId
    number: int | None = None
    mark: tuple[EntryId, int] | None = None

    @property
    def is_inside(self) -> bool:
        """Whether the marked entry is still to be read."""
        return self.mark is not None and self.mark[0] > self.last


class RedisSource:
    """A Redis stream; one field of every entry holds the message.

    The position of an entry is "id@number.checksum", and "+" behind it means right after that
    entry; a plain id is a position too. The number counts the entries that the stream ever had,
    and the checksum is of the message: by both, a stream that was deleted and made anew, or that
    lost its end, is told from the one that was read, though Redis keeps no date of creation. That
    takes Redis 7.0 or newer.

    Parameters
    ----------
    url : str
        Address of a server, "redis://user:password@host:6379/0".
    stream : str
        Key of the stream. It may be missing: then it is empty.
    field : str
        Field of an entry that holds the message.
    start : "first", "last" or str
        Where a pipeline without a checkpoint begins: at the first entry that is there, after the
        last one, or at an id.
    trim : bool
        Remove entries that are safe with us; only where nobody else reads the stream.
    patience : float, optional
        Seconds that a server that is away is waited for; by default for ever.

    Examples
    --------
    >>> from scstream.stream.connectors.redis import RedisSource
    >>> RedisSource("redis://me:hunter2@broker:6379/0", "rows")
    RedisSource('redis://***@broker:6379/0', 'rows')
    >>> RedisSource("redis://broker", "rows", start="yesterday")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: 'yesterday' is no position in a Redis stream; ...
    """

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        field: str = "row",
        start: str = "first",
        trim: bool = False,
        patience: float | None = None,
    ) -> None:
        if start not in ("first", "last"):
            _parsed(start)
        self.stream = stream
        self._field = field.encode()
        self._start = start
        self._trim = trim
        self._url = url
        self._patience = patience
        self._link: Link | None = None
        self._identity: dict[str, str] = {}
        self._place = _Place((0, 0))
        self._must_check = False
        self._size = 1 << 20  # about how many bytes an entry has; at first we ask for few

    def __repr__(self) -> str:
        return f"RedisSource({masked(self._url)!r}, {self.stream!r})"

    def identity(self) -> Mapping[str, str]:
        """Key of the stream, and where reading began."""
        self._open_link()
        return self._identity

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Connect, and check that the stream still has what was not read yet."""
        self.close()
        link = self._link = Link(self._url, patience=self._patience)
        try:
            state = link.insist(lambda: self._state(link))
            self._begin(resume, state, accept_gap=accept_gap)
            link.insist(lambda: self._check(link, accept_gap=accept_gap))
        except BaseException:
            self.close()
            raise

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next entries, at most so many, and about 16 MB of them."""
        link = self._open_link()
        try:
            if not link.is_due(timeout):
                return []
            if self._must_check:
                self._check(link)
                self._must_check = False
            entries = self._fetch(link, max_n)
            if not entries and timeout > 0:
                self._await_news(link, timeout)
                entries = self._fetch(link, max_n)
        except Away:
            self._must_check = True
            return []
        link.is_well()
        return [self._record(*entry) for entry in entries]

    def acknowledge(self, positions: Positions) -> None:
        """Remove what was read, if `trim` is set; a server that is away is told next time."""
        if not self._trim or "" not in positions:
            return
        place = _parsed(positions[""])
        keep = place.mark[0] if place.mark else place.last
        with contextlib.suppress(Away):
            self._open_link().ask("XTRIM", self.stream, "MINID", "=", shown_id(keep))

    @property
    def done(self) -> bool:
        """False: there may always be more."""
        return False

    def lag(self) -> int | None:
        """Entries behind the last one that was read; None if that cannot be told."""
        try:
            state = self._state(self._open_link())
        except Away:
            return None
        if state.added is None or self._place.number is None:
            return None
        return max(0, state.added - self._place.number)

    def close(self) -> None:
        """Disconnect."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def doctor(self) -> list[Finding]:
        """Say how the server keeps entries, and for how long."""
        return findings(self._url, self.stream, role="source")

    def _open_link(self) -> Link:
        if self._link is None:
            raise StreamError(f"{self!r} is not open; call `open` first.")
        return self._link

    def _begin(self, resume: Resume | None, state: StreamState, *, accept_gap: bool) -> None:
        """Find out where to read first."""
        now = {"stream": self.stream, "field": self._field.decode()}
        if resume is None:
            self._place = _started(self._start, state)
            self._identity = {**now, "began": _shown(self._place)}
            return
        before_now = {name: resume.identity.get(name) for name in now}
        if before_now == now:
            self._place = _parsed(resume.positions.get("", resume.identity["began"]))
            self._identity = dict(resume.identity)
        elif accept_gap:
            self._place = _started("first", state)
            self._identity = {**now, "began": _shown(self._place)}
        else:
            raise SourceChanged(
                f"{self!r} is not the source of the checkpoint (then {before_now}, now {now}). "
                "Start with --accept-gap to read this one from its beginning, or with a "
                "checkpoint folder of its own."
            )

    def _state(self, link: Link) -> StreamState:
        try:
            return state_of(link.ask_in_turn(("XINFO", "STREAM", self.stream))[0])
        except ResponseError as error:
            raise StreamError(f"{self!r} cannot be read: {said(error)}.") from None

    def _check(self, link: Link, *, accept_gap: bool = False) -> None:
        """Check that nothing is lost, also with a look at the entry of the position."""
        mark = self._place.mark
        asked = shown_id(mark[0] if mark else (0, 0))
        answers = link.ask_in_turn(
            ("XINFO", "STREAM", self.stream), ("XRANGE", self.stream, asked, asked)
        )
        state = state_of(answers[0])
        error = self._fault(state) or self._fault_of_mark(state, answers[1])
        if error is not None and not accept_gap:
            raise error
        if error is not None:
            self._place = self._place_after(error, state)

    def _place_after(self, error: StreamError, state: StreamState) -> _Place:
        """Where to go on after a fault that was accepted."""
        place = self._place
        is_trimmed = state.first is None or state.first > place.last
        if isinstance(error, SourceChanged) or (isinstance(error, SourceGap) and is_trimmed):
            return _started("first", state)
        return _started("last", state) if state.last <= place.last else _Place(place.last)

    def _fault(self, state: StreamState) -> StreamError | None:
        """What is wrong with the stream, if anything, given what was read."""
        place = self._place
        if state.last < place.last:
            return self._regressed(f"it ends at {shown_id(state.last)}")
        n_removed = state.n_removed
        if n_removed is None or place.number is None:
            return None
        if state.first is not None and state.first <= place.last:
            return self._gap("some entries were deleted") if state.deleted > place.last else None
        if n_removed > place.number:
            return self._gap(f"{n_removed - place.number} entries are gone")
        if n_removed < place.number:
            return SourceChanged(
                f"{self!r} is not the one of the checkpoint: {place.number} entries up to "
                f"{shown_id(place.last)} were read, and only {n_removed} ever left this one; it "
                "was deleted and made anew. Start with --accept-gap to read it from its "
                "beginning, or with a checkpoint folder of its own."
            )
        return None

    def _fault_of_mark(self, state: StreamState, found: Any) -> StreamError | None:
        """What is wrong with the entry of the position."""
        place = self._place
        if place.mark is None or isinstance(found, ResponseError):
            return None
        entry, checksum = place.mark
        if found:
            same = _checksum(self._message(found[0][1])) == checksum
            return None if same else self._regressed(f"{shown_id(entry)} has another content now")
        if place.is_inside:
            return self._gap(f"{shown_id(entry)} is gone")
        if state.first is not None and state.first <= entry and state.deleted < entry:
            return self._regressed(f"{shown_id(entry)} is not there, though nobody deleted it")
        return None

    def _regressed(self, what: str) -> SourceRegressed:
        return SourceRegressed(
            f"{self!r} went back: entries up to {shown_id(self._place.last)} were read, and "
            f"{what}. The server lost entries that it had confirmed. Bring them back, or start "
            "with --accept-gap to go on with what comes next."
        )

    def _gap(self, what: str) -> SourceGap:
        return SourceGap(
            f"{self!r} has a gap: {what}, and everything after {shown_id(self._place.last)} was "
            "still to be read. Let the stream keep entries longer (MAXLEN, MINID), and start with "
            "--accept-gap to go on without them."
        )

    def _fetch(self, link: Link, max_n: int) -> list[tuple[EntryId, bytes]]:
        """Read entries, and look at the same time whether any are missing before them."""
        count = max(1, min(max_n, _READ_BYTES // max(1, self._size)))
        told, found = link.ask_in_turn(
            ("XINFO", "STREAM", self.stream),
            ("XRANGE", self.stream, f"({shown_id(self._place.last)}", "+", "COUNT", count),
        )
        state = state_of(told)
        entries = [(parsed_id(name), self._message(fields)) for name, fields in found]
        error = self._fault(state)
        if error is None and len(entries) < count:
            error = self._fault_at_end(state, len(entries))
        if error is not None:
            raise error
        if entries:
            self._size = 64 + sum(len(message) for _, message in entries) // len(entries)
        return entries

    def _fault_at_end(self, state: StreamState, n_left: int) -> StreamError | None:
        """What the numbers say once everything was read: a lost end that was overwritten."""
        if state.added is None or self._place.number is None:
            return None
        missing = self._place.number + n_left - state.added
        return self._regressed(f"{missing} of them were never added to it") if missing else None

    def _await_news(self, link: Link, timeout: float) -> None:
        milliseconds = max(1, int(1000 * min(timeout, 1.0)))
        last = shown_id(self._place.last)
        link.ask("XREAD", "COUNT", 1, "BLOCK", milliseconds, "STREAMS", self.stream, last)

    def _record(self, entry: EntryId, message: bytes) -> Record:
        number = None if self._place.number is None else self._place.number + 1
        self._place = _Place(entry, number, (entry, _checksum(message)))
        after = _shown(self._place)
        return Record(after.removesuffix("+"), after, message, time=entry[0] / 1000)

    def _message(self, fields: Mapping[bytes, bytes] | None) -> bytes:
        return (fields or {}).get(self._field, b"")


def _started(start: str, state: StreamState) -> _Place:
    """The place where a pipeline begins that knows nothing yet."""
    if start == "last" or (start == "first" and state.first is None):
        return _Place(state.last, state.added)
    if start == "first" and state.first is not None:
        has_holes = state.deleted >= state.first  # so it is unknown which number the first one has
        return _Place(before(state.first), None if has_holes else state.n_removed)
    return _Place(_parsed(start).last)


def _parsed(position: Position) -> _Place:
    """Read a position.

    Examples
    --------
    >>> _parsed("7-1@20.00c0ffee+")
    _Place(last=(7, 1), number=20, mark=((7, 1), 12648430))
    >>> _parsed("7-1@20.00c0ffee")
    _Place(last=(7, 0), number=19, mark=((7, 1), 12648430))
    """
    match = _POSITION.fullmatch(str(position))
    if match is None:
        raise InputError(f"{position!r} is no position in a Redis stream; give an id, as 1700-0.")
    entry, number = parsed_id(match[1]), int(match[2]) if match[2] else None
    mark = (entry, int(match[3], 16)) if match[3] else None
    if match[4]:
        return _Place(entry, number, mark)
    return _Place(before(entry), None if number is None else number - 1, mark)


def _shown(place: _Place) -> str:
    """Write the position right after a place."""
    number = "" if place.number is None else place.number
    checksum = f".{place.mark[1]:08x}" if place.mark else ""
    return f"{shown_id(place.last)}@{number}{checksum}+"


def _checksum(message: bytes) -> int:
    """Tell messages apart by their beginning and length; they may be large."""
    return zlib.crc32(message[:1024]) ^ (len(message) & 0xFFFFFFFF)
