"""Deliveries as entries of a Redis stream, whose ids say which batch and row they are."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from scstream.errors import InputError, SinkError, StreamError
from scstream.stream.connectors.redis.doctor import findings, server_version
from scstream.stream.connectors.redis.link import (
    Away,
    EntryId,
    Link,
    ResponseError,
    parsed_id,
    said,
    shown_id,
    state_of,
)
from scstream.stream.findings import Finding
from scstream.stream.messages import writer
from scstream.stream.secrets import masked
from scstream.stream.sink import Delivery, SinkPosition

Format = Literal["arrow", "columns", "json"]

_CHUNK = 1000  # entries that are sent in one transaction
_CHUNK_BYTES = 4 << 20
_WAIT_MILLISECONDS = 1000
_FIRST = (0, 0)


@dataclass(frozen=True)
class _Entry:
    """An entry that is to be added."""

    id: EntryId
    job: str
    content: bytes


class RedisSink:
    """A Redis stream that nobody else writes to.

    A row of the format "json" is the entry `<batch + 1>-<index>`, a delivery of another format
    `<batch + 1>-0`. The fields are `job` and `row`. Redis refuses an id that is not above the last
    one, so nothing can be there twice. Entries are sent in transactions, so that none is missing
    before one that is there. After an outage or a restart the sink looks at the last id, and goes
    on behind it. Readers may trim the stream, but should leave its last entry.

    Parameters
    ----------
    url : str
        Address of a server, "redis://user:password@host:6379/0".
    stream : str
        Key of the stream; the first entry makes it.
    format : {"arrow", "columns", "json"}
        An entry is a delivery as an Arrow stream or as JSON columns, or a row as a JSON object.
    accept_loss : bool
        Go on where the server has lost entries of ours that it had confirmed.
    patience : float, optional
        Seconds that a server that is away is waited for; by default for ever.

    Examples
    --------
    >>> from scstream.stream.connectors.redis import RedisSink
    >>> RedisSink("redis://broker:6379/0", "labels", format="json")
    RedisSink('redis://broker:6379/0', 'labels')
    >>> RedisSink("redis://broker:6379/0", "labels", format="floats")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: format is 'floats'; choose 'arrow', 'columns' or 'json'.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        format: Format = "arrow",
        accept_loss: bool = False,
        patience: float | None = None,
    ) -> None:
        if format not in ("arrow", "columns", "json"):
            raise InputError(f"format is {format!r}; choose 'arrow', 'columns' or 'json'.")
        self.stream = stream
        self._write = writer(format)
        self._by_row = format == "json"
        self._accept_loss = accept_loss
        self._url = url
        self._patience = patience
        self._link: Link | None = None
        self._waiting: deque[_Entry] = deque()
        self._n_bytes = 0
        self._done: EntryId = _FIRST  # the last entry that is known to be there
        self._n_added = 0  # entries that the stream has had up to that one, at least
        self._there: EntryId = _FIRST  # the last id of the stream when we looked
        self._found: dict[EntryId, tuple[str | None, bytes | None]] = {}  # some of those between
        self._can_wait = False

    def __repr__(self) -> str:
        return f"RedisSink({masked(self._url)!r}, {self.stream!r})"

    def open(self, position: SinkPosition | None) -> None:
        """Connect, and look which entries behind `position` are there."""
        self.close()
        link = self._link = Link(self._url, patience=self._patience)
        self._waiting.clear()
        self._n_bytes = 0
        self._done = parsed_id(position["id"]) if position else _FIRST
        self._n_added = position["added"] if position else 0
        try:
            link.insist(lambda: self._look_back(link))
            self._can_wait = link.insist(lambda: server_version(link)) >= (7, 2)
            link.is_well()
        except BaseException:
            self.close()
            raise

    def write(self, delivery: Delivery) -> None:
        """Queue the entries of a delivery; send them when there are many."""
        link = self._open_link()
        entries = self._entries(delivery)
        self._waiting.extend(entries)
        self._n_bytes += sum(len(entry.content) for entry in entries)
        while len(self._waiting) >= _CHUNK or self._n_bytes >= _CHUNK_BYTES:
            self._send(link)

    def flush(self) -> SinkPosition:
        """Send the rest, and wait for the disk of the server where it offers that."""
        link = self._open_link()
        while self._waiting:
            self._send(link)
        if self._can_wait:
            link.insist(lambda: self._await_disk(link))
        link.insist(lambda: self._look_back(link))  # the server may have restarted unnoticed
        return {"id": shown_id(self._done), "added": self._n_added}

    def close(self) -> None:
        """Disconnect; a `write` or `flush` that waits ends with an error."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def doctor(self) -> list[Finding]:
        """Say what a reply of the server means."""
        return findings(self._url, self.stream, role="sink")

    def _open_link(self) -> Link:
        if self._link is None:
            raise StreamError(f"{self!r} is not open; call `open` first.")
        return self._link

    def _entries(self, delivery: Delivery) -> list[_Entry]:
        job, major, contents = delivery.job, delivery.batch + 1, self._write(delivery)
        if not self._by_row:
            return [_Entry((major, 0), job, content) for content in contents]
        indices = np.asarray(delivery.columns["index"])
        if np.any(indices[1:] <= indices[:-1]):
            raise SinkError(
                f"Batch {delivery.batch} of {job!r} has rows that are not in order of `index`."
            )
        return [
            _Entry((major, index), job, content)
            for index, content in zip(indices.tolist(), contents, strict=True)
        ]

    def _look_back(self, link: Link) -> None:
        """See where the stream ends, and that it has not lost what it had."""
        since = f"({shown_id(self._done)}"
        told, first, last = link.ask_in_turn(
            ("XINFO", "STREAM", self.stream),
            ("XRANGE", self.stream, since, "+", "COUNT", 1),
            ("XREVRANGE", self.stream, "+", since, "COUNT", 1),
        )
        try:
            state = state_of(told)
        except ResponseError as error:
            raise SinkError(f"{self!r} cannot be written: {said(error)}.") from None
        n_added = self._n_added if state.added is None else state.added
        if (state.last < self._done or n_added < self._n_added) and not self._accept_loss:
            raise SinkError(
                f"{self!r} has lost entries: it had confirmed {self._n_added} up to "
                f"{shown_id(self._done)}, and has had {n_added} up to {shown_id(state.last)} now. "
                "Bring them back, or set `accept_loss` to go on without them."
            )
        self._there = state.last
        self._n_added = n_added if state.last <= self._done else self._n_added
        self._found = {
            parsed_id(name): (_text(fields.get(b"job")), fields.get(b"row"))
            for name, fields in (*first, *last)
        }

    def _send(self, link: Link) -> None:
        """Send one chunk, however often that takes."""
        while True:
            self._skip_what_is_there()
            chunk = self._chunk()
            if not chunk:
                return
            try:
                self._add(link, chunk)
            except Away:  # nobody knows whether they were added
                link.insist(lambda: self._look_back(link))
            else:
                link.is_well()
                return

    def _skip_what_is_there(self) -> None:
        """Drop entries that the stream holds already; if others are there, it is not ours."""
        if self._waiting and self._there > self._done:
            self._check_ours(self._waiting[0])
        while self._waiting and self._waiting[0].id <= self._there:
            entry = self._waiting[0]
            if self._found.get(entry.id, (entry.job, entry.content))[1] != entry.content:
                raise self._foreign(f"the entry {shown_id(entry.id)} has another content")
            self._drop_first()
            if entry.id > self._done:
                self._done = entry.id
                self._n_added += 1

    def _check_ours(self, entry: _Entry) -> None:
        jobs = {job for job, _ in self._found.values()}
        if jobs - {entry.job}:
            raise self._foreign(f"entries of the job {(jobs - {entry.job}).pop()!r}")
        if not jobs and entry.id <= self._there:
            raise self._foreign(
                f"its last id is {shown_id(self._there)}, and no entry is left to compare with"
            )

    def _foreign(self, what: str) -> SinkError:
        return SinkError(
            f"{self!r} holds what this pipeline did not write: {what}. Give every job a stream of "
            "its own, or delete this one."
        )

    def _drop_first(self) -> None:
        self._n_bytes -= len(self._waiting.popleft().content)

    def _chunk(self) -> list[_Entry]:
        chunk: list[_Entry] = []
        n_bytes = 0
        for entry in self._waiting:
            if len(chunk) == _CHUNK or (chunk and n_bytes + len(entry.content) > _CHUNK_BYTES):
                break
            chunk.append(entry)
            n_bytes += len(entry.content)
        return chunk

    def _add(self, link: Link, chunk: list[_Entry]) -> None:
        """Add entries, all of them or none."""
        commands = [
            ("XADD", self.stream, shown_id(entry.id), "job", entry.job, "row", entry.content)
            for entry in chunk
        ]
        for answer in link.ask_together(*commands):
            if isinstance(answer, ResponseError):
                if "equal or smaller" in str(answer):
                    raise Away("another instance has added entries")
                raise SinkError(f"{self!r} refuses {shown_id(chunk[0].id)}: {said(answer)}.")
        for _ in chunk:
            self._drop_first()
        self._done = self._there = chunk[-1].id
        self._n_added += len(chunk)

    def _await_disk(self, link: Link) -> None:
        """Wait until what was added is on the disk of the server, if it writes a log at all."""
        try:
            answer: Any = link.ask("WAITAOF", 1, 0, _WAIT_MILLISECONDS)
        except ResponseError:
            self._can_wait = False  # no log: `doctor` says what that means
            return
        if not answer[0]:
            raise Away("the disk of the server is slow")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
