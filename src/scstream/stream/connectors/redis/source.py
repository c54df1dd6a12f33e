"""Read the entries of a Redis stream in order of their ids."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any

from redis.exceptions import ResponseError

from scstream.errors import InputError, SourceChanged, SourceGap, SourceRegressed, StreamError
from scstream.stream.connectors.redis.connection import (
    Connection,
    EntryId,
    StreamClient,
    StreamState,
    Unavailable,
    error_text,
    format_id,
    parse_id,
    parse_state,
    previous_id,
)
from scstream.stream.connectors.redis.doctor import findings
from scstream.stream.connectors.start_time import read_start_time
from scstream.stream.findings import Finding
from scstream.stream.source import Position, Positions, Record, Resume

_POSITION = re.compile(r"(\d+-\d+)(?:@(\d*)(?:\.([0-9a-f]{8}))?(\+?))?")
_FIRST_TIME = (10**11, 0)  # ids of streams whose ids are times are larger (1973)
_READ_BYTES = 16 << 20  # approximate maximum size of the result of `read`


@dataclass(frozen=True)
class _Cursor:
    """Where to read: after entry `last`, which was number `number` of the stream."""

    last: EntryId
    number: int | None = None
    # Id and checksum of an entry that must be unchanged if it still exists: the last one that was
    # read, or the next one.
    known_entry: tuple[EntryId, int] | None = None

    @property
    def is_known_entry_unread(self) -> bool:
        return self.known_entry is not None and self.known_entry[0] > self.last


class RedisSource(StreamClient):
    """Read a Redis stream; one field of every entry is the message.

    The position of an entry is "id@number.checksum", followed by "+" for the position right after
    the entry; a bare id is a position too. The number counts the entries that were ever added to
    the stream, and the checksum is of the message. Redis does not store when a stream was created;
    number and checksum show whether the stream was created again or lost its last entries. That
    needs Redis 7.0 or newer.

    Parameters
    ----------
    url : str
        Address of a server, "redis://user:password@host:6379/0".
    stream : str
        Key of the stream. A missing stream counts as empty.
    field : str
        Field of an entry that has the message.
    start : "first", "last", str or datetime
        Where a pipeline without a checkpoint begins: at the first available entry, after the last
        one, at an id, or at a time such as "2026-01-01T00:00Z", if the server chose the ids.
    trim : bool
        Remove entries that a checkpoint covers; only if nothing else reads the stream.
    retry_timeout : float, optional
        Seconds to wait for an unavailable server before stopping; by default there is no limit.

    Examples
    --------
    >>> from scstream.stream.connectors.redis import RedisSource
    >>> RedisSource("redis://me:hunter2@broker:6379/0", "rows")
    RedisSource('redis://***@broker:6379/0', 'rows')
    >>> RedisSource("redis://broker", "rows", start="yesterday")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: 'yesterday' is not a position in a Redis stream; ...
    """

    done = False  # a stream has no end

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        field: str = "row",
        start: str | datetime = "first",
        trim: bool = False,
        retry_timeout: float | None = None,
    ) -> None:
        if start not in ("first", "last") and read_start_time(start) is None:
            _parse_position(start)
        super().__init__(url, stream, retry_timeout)
        self._field = field.encode()
        self._start = start
        self._trim = trim
        self._identity: dict[str, str] = {}
        self._cursor = _Cursor((0, 0))
        self._must_check = False
        self._entry_bytes = 1 << 20  # average size of an entry; large at first, to request few

    def identity(self) -> Mapping[str, str]:
        """Return key and field of the stream, and the first position."""
        self._open_connection()
        return self._identity

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Connect, and check that the stream still has what was not read yet."""
        connection = self._connect()
        try:
            state = connection.retry(lambda: self._state(connection))
            self._seek(resume, state, accept_gap=accept_gap)
            connection.retry(lambda: self._check(connection, accept_gap=accept_gap))
        except BaseException:
            self.close()
            raise

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return up to `max_n` entries, about 16 MB at most."""
        connection = self._open_connection()
        try:
            if not connection.is_due(timeout):
                return []
            if self._must_check:
                self._check(connection)
                self._must_check = False
            entries = self._fetch(connection, max_n)
            if not entries and timeout > 0:
                self._await_entry(connection, timeout)
                entries = self._fetch(connection, max_n)
        except Unavailable:
            self._must_check = True
            return []
        connection.succeeded()
        return [self._record(*entry) for entry in entries]

    def acknowledge(self, positions: Positions) -> None:
        """Remove what was read, if `trim` is set; a failure is ignored until the next call."""
        if not self._trim or "" not in positions:
            return
        cursor = _parse_position(positions[""])
        keep = cursor.known_entry[0] if cursor.known_entry else cursor.last
        with contextlib.suppress(Unavailable):
            self._open_connection().execute("XTRIM", self.stream, "MINID", "=", format_id(keep))

    def lag(self) -> int | None:
        """Return the number of unread entries; None if it is unknown."""
        try:
            state = self._state(self._open_connection())
        except Unavailable:
            return None
        if state.added is None or self._cursor.number is None:
            return None
        return max(0, state.added - self._cursor.number)

    def doctor(self) -> list[Finding]:
        """Explain how and for how long the server stores entries."""
        return findings(self._url, self.stream, role="source")

    def _seek(self, resume: Resume | None, state: StreamState, *, accept_gap: bool) -> None:
        """Set the cursor to where reading begins."""
        now = {"stream": self.stream, "field": self._field.decode()}
        before = None if resume is None else {name: resume.identity.get(name) for name in now}
        if resume is not None and before == now:
            self._cursor = _parse_position(resume.positions.get("", resume.identity["began"]))
            self._identity = dict(resume.identity)
        elif resume is None or accept_gap:
            self._cursor = self._first_cursor(state) if resume is None else _beginning(state)
            self._identity = {**now, "began": _format_position(self._cursor)}
        else:
            raise SourceChanged(
                f"{self!r} is not the source of the checkpoint (then {before}, now {now}). Start "
                "with --accept-gap to read this one from its beginning, or use another checkpoint "
                "folder."
            )

    def _first_cursor(self, state: StreamState) -> _Cursor:
        """Return where a pipeline without a checkpoint begins."""
        if self._start == "first":
            return _beginning(state)
        if self._start == "last":
            return _end(state)
        seconds = read_start_time(self._start)
        if seconds is None:
            return _Cursor(_parse_position(self._start).last)
        if (0, 0) < state.last < _FIRST_TIME:
            raise InputError(
                f"{self!r} cannot be read from a time: its ids, such as {format_id(state.last)}, "
                "are no times. Start at 'first' or at an id."
            )
        first = ceil(1000 * seconds), 0
        if state.first is None or first > state.last:
            return _end(state)
        return _beginning(state) if first <= state.first else _Cursor(previous_id(first))

    def _state(self, connection: Connection) -> StreamState:
        try:
            return parse_state(connection.execute_all([("XINFO", "STREAM", self.stream)])[0])
        except ResponseError as error:
            raise StreamError(f"{self!r} cannot be read: {error_text(error)}.") from None

    def _check(self, connection: Connection, *, accept_gap: bool = False) -> None:
        """Check that nothing is lost, and that the known entry is unchanged."""
        known_entry = self._cursor.known_entry
        entry_id = format_id(known_entry[0] if known_entry else (0, 0))
        info, found = connection.execute_all(
            [("XINFO", "STREAM", self.stream), ("XRANGE", self.stream, entry_id, entry_id)]
        )
        state = parse_state(info)
        error = self._stream_error(state) or self._known_entry_error(state, found)
        if error is not None and not accept_gap:
            raise error
        if error is not None:
            self._cursor = self._cursor_after(error, state)

    def _cursor_after(self, error: StreamError, state: StreamState) -> _Cursor:
        """Return where to continue after an error that was accepted."""
        cursor = self._cursor
        is_trimmed = state.first is None or state.first > cursor.last
        if isinstance(error, SourceChanged) or (isinstance(error, SourceGap) and is_trimmed):
            return _beginning(state)
        return _end(state) if state.last <= cursor.last else _Cursor(cursor.last)

    def _stream_error(self, state: StreamState) -> StreamError | None:
        """Return what is wrong with the stream, given what was read."""
        cursor = self._cursor
        if state.last < cursor.last:
            return self._regressed(f"it ends at {format_id(state.last)}")
        n_removed = state.n_removed
        if n_removed is None or cursor.number is None:
            return None
        if state.first is not None and state.first <= cursor.last:
            return self._gap("some entries were deleted") if state.deleted > cursor.last else None
        if n_removed > cursor.number:
            return self._gap(f"{n_removed - cursor.number} entries are gone")
        if n_removed < cursor.number:
            return SourceChanged(
                f"{self!r} is not the one of the checkpoint: {cursor.number} entries up to "
                f"{format_id(cursor.last)} were read, but only {n_removed} were ever removed from "
                "this one; it was deleted and created again. Start with --accept-gap to read it "
                "from its beginning, or use another checkpoint folder."
            )
        return None

    def _known_entry_error(self, state: StreamState, found: Any) -> StreamError | None:
        """Return what is wrong with the known entry."""
        cursor = self._cursor
        if cursor.known_entry is None or isinstance(found, ResponseError):
            return None
        entry, checksum = cursor.known_entry
        if found:
            is_same = _checksum(self._message(found[0][1])) == checksum
            return None if is_same else self._regressed(f"{format_id(entry)} has another content")
        if cursor.is_known_entry_unread:
            return self._gap(f"{format_id(entry)} is gone")
        if state.first is not None and state.first <= entry and state.deleted < entry:
            return self._regressed(f"{format_id(entry)} is missing, although it was not deleted")
        return None

    def _regressed(self, what: str) -> SourceRegressed:
        return SourceRegressed(
            f"{self!r} lost entries: entries up to {format_id(self._cursor.last)} were read, but "
            f"{what}. The server lost entries that it had confirmed. Restore them, or start with "
            "--accept-gap to continue with the next entries."
        )

    def _gap(self, what: str) -> SourceGap:
        return SourceGap(
            f"{self!r} has a gap: {what}, but everything after {format_id(self._cursor.last)} was "
            "not read yet. Let the stream keep entries longer (MAXLEN, MINID), and start with "
            "--accept-gap to continue without them."
        )

    def _fetch(self, connection: Connection, max_n: int) -> list[tuple[EntryId, bytes]]:
        """Read entries, and check in the same request that none are missing before them."""
        count = max(1, min(max_n, _READ_BYTES // max(1, self._entry_bytes)))
        info, found = connection.execute_all(
            [
                ("XINFO", "STREAM", self.stream),
                ("XRANGE", self.stream, f"({format_id(self._cursor.last)}", "+", "COUNT", count),
            ]
        )
        state = parse_state(info)
        entries = [(parse_id(name), self._message(fields)) for name, fields in found]
        error = self._stream_error(state)
        if error is None and len(entries) < count:
            error = self._end_error(state, len(entries))
        if error is not None:
            raise error
        if entries:
            self._entry_bytes = 64 + sum(len(message) for _, message in entries) // len(entries)
        return entries

    def _end_error(self, state: StreamState, n_left: int) -> StreamError | None:
        """Check the number of entries at the end: lost entries may have been written over."""
        if state.added is None or self._cursor.number is None:
            return None
        missing = self._cursor.number + n_left - state.added
        return self._regressed(f"{missing} of them were never added to it") if missing else None

    def _await_entry(self, connection: Connection, timeout: float) -> None:
        milliseconds = max(1, int(1000 * min(timeout, 1.0)))
        last = format_id(self._cursor.last)
        connection.execute("XREAD", "COUNT", 1, "BLOCK", milliseconds, "STREAMS", self.stream, last)

    def _record(self, entry: EntryId, message: bytes) -> Record:
        number = None if self._cursor.number is None else self._cursor.number + 1
        self._cursor = _Cursor(entry, number, (entry, _checksum(message)))
        after = _format_position(self._cursor)
        return Record(after.removesuffix("+"), after, message, time=entry[0] / 1000)

    def _message(self, fields: Mapping[bytes, bytes] | None) -> bytes:
        return (fields or {}).get(self._field, b"")


def _end(state: StreamState) -> _Cursor:
    """Return the cursor after the last entry."""
    return _Cursor(state.last, state.added)


def _beginning(state: StreamState) -> _Cursor:
    """Return the cursor before the first entry."""
    if state.first is None:
        return _end(state)
    has_holes = state.deleted >= state.first  # the number of the first entry is unknown
    return _Cursor(previous_id(state.first), None if has_holes else state.n_removed)


def _parse_position(position: Position) -> _Cursor:
    """Parse a position, "7-1@20.00c0ffee+"."""
    match = _POSITION.fullmatch(str(position))
    if match is None:
        raise InputError(
            f"{position!r} is not a position in a Redis stream; give an id such as 1700-0."
        )
    entry, number = parse_id(match[1]), int(match[2]) if match[2] else None
    known_entry = (entry, int(match[3], 16)) if match[3] else None
    if match[4]:
        return _Cursor(entry, number, known_entry)
    return _Cursor(previous_id(entry), None if number is None else number - 1, known_entry)


def _format_position(cursor: _Cursor) -> str:
    """Return the position of a cursor."""
    number = "" if cursor.number is None else cursor.number
    checksum = f".{cursor.known_entry[1]:08x}" if cursor.known_entry else ""
    return f"{format_id(cursor.last)}@{number}{checksum}+"


def _checksum(message: bytes) -> int:
    """Return a checksum of the beginning and the length of a message, which may be large."""
    return zlib.crc32(message[:1024]) ^ (len(message) & 0xFFFFFFFF)
