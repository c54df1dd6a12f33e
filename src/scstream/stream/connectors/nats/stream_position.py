"""The position in a JetStream stream, and checks that the stream still has what comes next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nats.aio.client import Client

from scstream.errors import InputError, SourceChanged, SourceGap, SourceRegressed, StreamError
from scstream.stream.connectors.nats.connection import (
    NO_STREAM,
    Connection,
    JetStreamError,
    StreamInfo,
    StreamState,
    Unavailable,
    nanoseconds,
)
from scstream.stream.connectors.start_time import read_start_time
from scstream.stream.source import Position, Resume

_POSITION = re.compile(r"(\d+)(?:@(\d+)(\+?))?")


class StreamPosition:
    """Knows which message is next, and checks that no message was lost or replaced."""

    def __init__(self, connection: Connection, stream: str, subject: str | None) -> None:
        self.identity: dict[str, str] = {}
        self.next = 0  # sequence of the next message
        self.scanned = 0  # sequence up to which the server has searched for messages of `subject`
        self._tolerated = 0  # sequence up to which missing messages were accepted
        self._known_message: tuple[int, int, bool] | None = None  # sequence, time, was it read
        self._connection = connection
        self.stream = stream
        self.subject = subject
        self._where = f"The stream {stream!r} of {connection.server}"

    async def open(
        self,
        client: Client,
        *,
        resume: Resume | None,
        start: str | int | datetime,
        accept_gap: bool,
    ) -> StreamInfo:
        """Go to the first message to read, and check that it is available."""
        if resume is not None:
            self.identity = dict(resume.identity)
        info = await self._describe(client, accept_gap=accept_gap)
        now = {"stream": self.stream, "created": info["created"], "subject": self.subject or ""}
        if resume is None:
            seconds = read_start_time(start)
            if seconds is not None:
                start = await self._connection.sequence_at(client, self.stream, seconds)
            self._seek(self._checked_start(start, info["state"]))
        elif all(self.identity.get(name) == value for name, value in now.items()):
            self._seek(resume.positions.get("", self.identity["began"]))
        elif not accept_gap:
            raise self._changed(now)
        else:
            self.identity = {}
            self._seek(info["state"]["first_seq"])
        self.identity = {**now, "began": self.identity.get("began", str(self.next))}
        await self.check(client, thorough=True, accept_gap=accept_gap)
        return info

    async def check(
        self, client: Client, *, thorough: bool = False, accept_gap: bool = False
    ) -> int:
        """Check that nothing was lost; return the last sequence of the stream."""
        info = await self._describe(client)
        first, last = info["state"]["first_seq"], info["state"]["last_seq"]
        if info["created"] != self.identity["created"]:
            raise self._changed({"created": info["created"]})
        error: StreamError | None = None
        following = self.next
        if last < self.next - 1:
            error, following = self._regressed(f"it ends at message {last}"), last + 1
        elif first > max(self.next, self.scanned + 1):
            error, following = self._gap(self.next, first - 1), first
        elif thorough:
            error = await self._check_messages(client, info["state"])
        if error is not None and not accept_gap:
            raise error
        if error is not None:
            self.next, self._known_message, self._tolerated = following, None, last
        return last

    def advance(self, sequence: int, time: int) -> None:
        """Note that a message arrived; raise if messages before it are missing."""
        skipped = sequence > self.next and not self.subject
        if skipped and sequence - 1 > self._tolerated:
            raise self._gap(max(self.next, self._tolerated + 1), sequence - 1)
        self.next = sequence + 1
        self._known_message = (sequence, time, True)

    def _seek(self, position: Position) -> None:
        sequence, time, was_read = parse_position(position)
        self.next = sequence + was_read
        self._known_message = (sequence, time, was_read) if time else None

    def _checked_start(self, start: Position, state: StreamState) -> int:
        first, end = state["first_seq"], state["last_seq"] + 1
        if start in ("first", "last"):
            return first if start == "first" else end
        sequence, _, was_read = parse_position(start)
        if sequence + was_read > end:
            raise InputError(
                f"start is {start}, but {self._where[0].lower()}{self._where[1:]} ends at "
                f"{end - 1}; choose an existing message."
            )
        return max(first, sequence + was_read)

    async def _describe(
        self, client: Client, *, accept_gap: bool = False, **details: Any
    ) -> StreamInfo:
        """Return what the server reports about the stream; raise if it does not exist."""
        try:
            return await self._connection.stream(client, self.stream, **details)
        except JetStreamError as error:
            if error.code != NO_STREAM:
                raise StreamError(f"{self._where} cannot be read: {error}.") from None
        if not self.identity:
            raise StreamError(f"{self._where} does not exist; create it, or correct the name.")
        if accept_gap:
            raise Unavailable(f"there is no stream {self.stream!r} yet")
        raise SourceChanged(
            f"{self._where} is gone: it was deleted, or the server lost its storage. Restore it, "
            "or create it again and start with --accept-gap."
        )

    async def _check_messages(self, client: Client, state: StreamState) -> StreamError | None:
        """Check the message of the position, and look for single messages that were deleted."""
        if self._known_message is not None:
            sequence, time, was_read = self._known_message
            found = await self._connection.message(client, self.stream, seq=sequence)
            if found is None and not was_read:
                return self._gap(sequence, sequence)
            if found is not None and nanoseconds(found["time"]) != time:
                return self._regressed(f"message {sequence} is not the one that was read")
        if self.subject or not state.get("num_deleted"):
            return None
        info = await self._describe(client, deleted_details=True)
        deleted = info["state"].get("deleted") or []
        missing = [number for number in deleted if number > max(self.next - 1, self._tolerated)]
        return self._gap(missing[0], missing[-1]) if missing else None

    def _changed(self, now: Mapping[str, str]) -> SourceChanged:
        before = {name: self.identity.get(name) for name in now}
        what = [f"{n} {before[n]!r}, now {now[n]!r}" for n in now if before[n] != now[n]]
        return SourceChanged(
            f"{self._where} is not the one of the checkpoint (then {'; '.join(what)}). Start with "
            "--accept-gap to read this one from its beginning, or use another checkpoint folder."
        )

    def _regressed(self, what: str) -> SourceRegressed:
        return SourceRegressed(
            f"{self._where} lost messages: messages up to {self.next - 1} were read, but {what}. "
            "The server lost messages that it had confirmed, and gives their sequences to new "
            "ones. Restore them, or start with --accept-gap to continue with the next messages."
        )

    def _gap(self, first: int, last: int) -> SourceGap:
        which = f"message {first} is" if first == last else f"messages {first} to {last} are"
        perhaps = f" (some of them may be of {self.subject!r})" if self.subject else ""
        return SourceGap(
            f"{self._where} has a gap: {which} gone{perhaps}, but everything from {self.next} on "
            "was not read yet. Let the stream keep messages longer, and start with --accept-gap "
            "to continue without them."
        )


def parse_position(position: Position) -> tuple[int, int, bool]:
    """Return sequence, time (0 if unknown), and whether the position is after the message."""
    match = _POSITION.fullmatch(str(position))
    if match is None:
        raise InputError(f"{position!r} is not a position in a NATS stream; give a sequence.")
    return int(match[1]), int(match[2] or 0), bool(match[3])
