"""What must be true of a JetStream stream for reading to go on: nothing lost, nothing replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scstream.errors import InputError, SourceChanged, SourceGap, SourceRegressed, StreamError
from scstream.stream.connectors.nats.link import (
    NO_STREAM,
    Away,
    Client,
    Link,
    Refused,
    nanoseconds,
)
from scstream.stream.source import Position, Resume

_POSITION = re.compile(r"(\d+)(?:@(\d+)(\+?))?")


class Guard:
    """Knows which message comes next, and looks whether the stream still has it.

    Parameters
    ----------
    link : Link
        How to ask the server.
    stream : str
        Name of the stream.
    subject : str or None
        Which of its messages are read.
    """

    def __init__(self, link: Link, stream: str, subject: str | None) -> None:
        self.identity: dict[str, str] = {}
        self.next = 0  # sequence that is read next
        self.scanned = 0  # sequence up to which the server has looked for messages of `subject`
        self._tolerated = 0  # sequence up to which missing messages were accepted
        self._mark: tuple[int, int, bool] | None = None  # message, its time, whether it was read
        self._link = link
        self.stream = stream
        self.subject = subject
        self._where = f"The stream {stream!r} of NATS at {link.url}"

    async def begin(
        self, client: Client, *, resume: Resume | None, start: str | int, accept_gap: bool
    ) -> dict[str, Any]:
        """Find out where to read first and whether that can be done; describe the stream."""
        if resume is not None:
            self.identity = dict(resume.identity)
        info = await self._survey(client, accept_gap=accept_gap)
        now = {"stream": self.stream, "created": info["created"], "subject": self.subject or ""}
        if resume is None:
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
        info = await self._survey(client)
        first, last = info["state"]["first_seq"], info["state"]["last_seq"]
        if info["created"] != self.identity["created"]:
            raise self._changed({"created": info["created"]})
        error: StreamError | None = None
        go_on = self.next
        if last < self.next - 1:
            error, go_on = self._regressed(f"it ends at message {last}"), last + 1
        elif first > max(self.next, self.scanned + 1):
            error, go_on = self._gap(self.next, first - 1), first
        elif thorough:
            error = await self._compare(client, info["state"])
        if error is not None and not accept_gap:
            raise error
        if error is not None:
            self.next, self._mark, self._tolerated = go_on, None, last
        return int(last)

    def arrived(self, sequence: int, time: int) -> None:
        """Note that a message came; raise if others should have come before it."""
        skipped = sequence > self.next and not self.subject
        if skipped and sequence - 1 > self._tolerated:
            raise self._gap(max(self.next, self._tolerated + 1), sequence - 1)
        self.next = sequence + 1
        self._mark = (sequence, time, True)

    def _seek(self, position: Position) -> None:
        sequence, time, after = parsed(position)
        self.next = sequence + after
        self._mark = (sequence, time, after) if time else None

    def _checked_start(self, start: str | int, state: Mapping[str, Any]) -> int:
        first, end = state["first_seq"], state["last_seq"] + 1
        if start in ("first", "last"):
            return int(first if start == "first" else end)
        sequence, _, after = parsed(start)
        if sequence + after > end:
            raise InputError(
                f"start is {start}, and {self._where[0].lower()}{self._where[1:]} ends at "
                f"{end - 1}; choose a message that is there."
            )
        return int(max(first, sequence + after))

    async def _survey(
        self, client: Client, *, accept_gap: bool = False, **details: Any
    ) -> dict[str, Any]:
        """What the server says about the stream; raise if there is none."""
        try:
            return await self._link.stream(client, self.stream, **details)
        except Refused as refusal:
            if refusal.code != NO_STREAM:
                raise StreamError(f"{self._where} cannot be read: {refusal}.") from None
        if not self.identity:
            raise StreamError(f"{self._where} does not exist; create it, or correct the name.")
        if accept_gap:
            raise Away(f"there is no stream {self.stream!r} yet")
        raise SourceChanged(
            f"{self._where} is gone: it was deleted, or the server lost its storage. Bring it "
            "back, or make it anew and start with --accept-gap."
        )

    async def _compare(self, client: Client, state: Mapping[str, Any]) -> StreamError | None:
        """Look at the message of the position, and for messages that were deleted one by one."""
        if self._mark is not None:
            sequence, time, was_read = self._mark
            found = await self._link.message(client, self.stream, seq=sequence)
            if found is None and not was_read:
                return self._gap(sequence, sequence)
            if found is not None and nanoseconds(found["time"]) != time:
                return self._regressed(f"its message {sequence} is another one than was read")
        if self.subject or not state.get("num_deleted"):
            return None
        details = await self._survey(client, deleted_details=True)
        gone = details["state"].get("deleted") or []
        missing = [sequence for sequence in gone if sequence > max(self.next - 1, self._tolerated)]
        return self._gap(missing[0], missing[-1]) if missing else None

    def _changed(self, now: Mapping[str, str]) -> SourceChanged:
        before = {name: self.identity.get(name) for name in now}
        what = [f"{n} {before[n]!r}, now {now[n]!r}" for n in now if before[n] != now[n]]
        return SourceChanged(
            f"{self._where} is not the one of the checkpoint (then {'; '.join(what)}). Start with "
            "--accept-gap to read this one from its beginning, or with a checkpoint folder of its "
            "own."
        )

    def _regressed(self, what: str) -> SourceRegressed:
        return SourceRegressed(
            f"{self._where} went back: messages up to {self.next - 1} were read, and {what}. The "
            "server lost messages that it had confirmed, and gives their sequences to new ones. "
            "Bring them back, or start with --accept-gap to go on with what comes next."
        )

    def _gap(self, first: int, last: int) -> SourceGap:
        which = f"message {first} is" if first == last else f"messages {first} to {last} are"
        perhaps = f" (some of them perhaps of {self.subject!r})" if self.subject else ""
        return SourceGap(
            f"{self._where} has a gap: {which} gone{perhaps}, and everything from {self.next} on "
            "was still to be read. Let the stream keep messages longer, and start with "
            "--accept-gap to go on without them."
        )


def parsed(position: Position) -> tuple[int, int, bool]:
    """Return sequence, time (0 if it is not known) and whether the position is behind the message.

    Examples
    --------
    >>> parsed("42@1700000000000000000+")
    (42, 1700000000000000000, True)
    >>> parsed(42)
    (42, 0, False)
    """
    match = _POSITION.fullmatch(str(position))
    if match is None:
        raise InputError(f"{position!r} is no position in a NATS stream; give a sequence.")
    return int(match[1]), int(match[2] or 0), bool(match[3])
