"""Write deliveries as entries of a Redis stream, whose ids are made of batch and row."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from redis.exceptions import ResponseError

from scstream.errors import SinkError
from scstream.stream.connectors.message_writer import MessageWriter
from scstream.stream.connectors.redis.connection import (
    Connection,
    EntryId,
    StreamClient,
    Unavailable,
    error_text,
    format_id,
    parse_id,
    parse_state,
)
from scstream.stream.connectors.redis.doctor import findings, server_version
from scstream.stream.findings import Finding
from scstream.stream.sink import Delivery, SinkPosition

_CHUNK = 1000  # entries of one transaction
_CHUNK_BYTES = 4 << 20
_WAIT_MILLISECONDS = 1000
_NO_ENTRY = (0, 0)


@dataclass(frozen=True)
class _Entry:
    """An entry that is to be added."""

    id: EntryId
    job: str
    content: bytes


class RedisSink(StreamClient):
    """Write to a Redis stream; nothing else may write to it.

    With the format "json" a row is the entry `<batch + 1>-<index>`; with another format a delivery
    is the entry `<batch + 1>-0`. The fields are `job` and `row`. Redis rejects an id that is not
    above the last one, so no entry can exist twice. Entries are sent in transactions, so no entry
    is missing before an existing one. After an outage or a restart the sink reads the last id and
    continues after it. Readers may trim the stream, but should keep its last entry.

    Parameters
    ----------
    url : str
        Address of a server, "redis://user:password@host:6379/0".
    stream : str
        Key of the stream; the first entry creates it.
    format : {"arrow", "columns", "json"}
        An entry is a delivery as an Arrow stream or as JSON columns, or a row as a JSON object.
    accept_loss : bool
        Continue if the server lost entries that it had confirmed.
    retry_timeout : float, optional
        Seconds to wait for an unavailable server before stopping; by default there is no limit.

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
        format: Literal["arrow", "columns", "json"] = "arrow",
        accept_loss: bool = False,
        retry_timeout: float | None = None,
    ) -> None:
        super().__init__(url, stream, retry_timeout)
        self._writer = MessageWriter(format)
        self._accept_loss = accept_loss
        self._queue: deque[_Entry] = deque()
        self._n_bytes = 0
        self._confirmed: EntryId = _NO_ENTRY
        self._n_added = 0  # entries that were ever added up to that one, at least
        self._last: EntryId = _NO_ENTRY  # the last id of the stream at the last check
        self._existing: dict[EntryId, tuple[str | None, bytes | None]] = {}  # some entries between
        self._can_wait = False

    def open(self, position: SinkPosition | None) -> None:
        """Connect, and find which entries after `position` exist."""
        connection = self._connect()
        self._queue.clear()
        self._n_bytes = 0
        self._confirmed = parse_id(position["id"]) if position else _NO_ENTRY
        self._n_added = position["added"] if position else 0
        try:
            connection.retry(lambda: self._check(connection))
            self._can_wait = connection.retry(lambda: server_version(connection)) >= (7, 2)
            connection.succeeded()
        except BaseException:
            self.close()
            raise

    def write(self, delivery: Delivery) -> None:
        """Queue the entries of a delivery; send them when there are many."""
        connection = self._open_connection()
        for index, content in self._writer.messages(delivery):
            self._queue.append(_Entry((delivery.batch + 1, index), delivery.job, content))
            self._n_bytes += len(content)
        while len(self._queue) >= _CHUNK or self._n_bytes >= _CHUNK_BYTES:
            self._send(connection)

    def flush(self) -> SinkPosition:
        """Send the queue, and wait for the disk of the server if it offers that."""
        connection = self._open_connection()
        while self._queue:
            self._send(connection)
        if self._can_wait:
            connection.retry(lambda: self._await_disk(connection))
        connection.retry(lambda: self._check(connection))  # the server may have restarted
        connection.succeeded()
        return {"id": format_id(self._confirmed), "added": self._n_added}

    def doctor(self) -> list[Finding]:
        """Explain what a confirmation of the server means."""
        return findings(self._url, self.stream, role="sink")

    def _check(self, connection: Connection) -> None:
        """Find the end of the stream, and check that it has not lost entries."""
        since = f"({format_id(self._confirmed)}"
        info, first, last = connection.execute_all(
            [
                ("XINFO", "STREAM", self.stream),
                ("XRANGE", self.stream, since, "+", "COUNT", 1),
                ("XREVRANGE", self.stream, "+", since, "COUNT", 1),
            ]
        )
        try:
            state = parse_state(info)
        except ResponseError as error:
            raise SinkError(f"{self!r} cannot be written: {error_text(error)}.") from None
        n_added = self._n_added if state.added is None else state.added
        if (state.last < self._confirmed or n_added < self._n_added) and not self._accept_loss:
            raise SinkError(
                f"{self!r} has lost entries: it had confirmed {self._n_added} up to "
                f"{format_id(self._confirmed)}, but has had {n_added} up to "
                f"{format_id(state.last)} now. Restore them, or set `accept_loss` to continue "
                "without them."
            )
        self._last = state.last
        self._n_added = n_added if state.last <= self._confirmed else self._n_added
        self._existing = {
            parse_id(name): (_text(fields.get(b"job")), fields.get(b"row"))
            for name, fields in (*first, *last)
        }

    def _send(self, connection: Connection) -> None:
        """Send one chunk, and repeat that until it succeeds."""
        while True:
            self._skip_existing()
            chunk = self._chunk()
            if not chunk:
                return
            try:
                self._add(connection, chunk)
            except Unavailable:  # unknown whether they were added
                connection.retry(lambda: self._check(connection))
            else:
                connection.succeeded()
                return

    def _skip_existing(self) -> None:
        """Drop queued entries that exist; raise if the stream has entries of another writer."""
        if self._queue and self._last > self._confirmed:
            self._check_writer(self._queue[0])
        while self._queue and self._queue[0].id <= self._last:
            entry = self._queue[0]
            if self._existing.get(entry.id, (entry.job, entry.content))[1] != entry.content:
                raise self._foreign(f"the entry {format_id(entry.id)} has another content")
            self._drop_first()
            if entry.id > self._confirmed:
                self._confirmed = entry.id
                self._n_added += 1

    def _check_writer(self, entry: _Entry) -> None:
        jobs = {job for job, _ in self._existing.values()}
        if jobs - {entry.job}:
            raise self._foreign(f"entries of the job {(jobs - {entry.job}).pop()!r}")
        if not jobs and entry.id <= self._last:
            raise self._foreign(
                f"its last id is {format_id(self._last)}, and no entry is left to compare with"
            )

    def _foreign(self, what: str) -> SinkError:
        return SinkError(
            f"{self!r} has entries that this pipeline did not write: {what}. Give every job its "
            "own stream, or delete this one."
        )

    def _drop_first(self) -> None:
        self._n_bytes -= len(self._queue.popleft().content)

    def _chunk(self) -> list[_Entry]:
        chunk: list[_Entry] = []
        n_bytes = 0
        for entry in self._queue:
            if len(chunk) == _CHUNK or (chunk and n_bytes + len(entry.content) > _CHUNK_BYTES):
                break
            chunk.append(entry)
            n_bytes += len(entry.content)
        return chunk

    def _add(self, connection: Connection, chunk: list[_Entry]) -> None:
        """Add entries, all of them or none."""
        commands = [
            ("XADD", self.stream, format_id(entry.id), "job", entry.job, "row", entry.content)
            for entry in chunk
        ]
        for answer in connection.execute_all(commands, transaction=True):
            if isinstance(answer, ResponseError):
                if "equal or smaller" in str(answer):
                    raise Unavailable("another instance has added entries")
                raise SinkError(f"{self!r} rejects {format_id(chunk[0].id)}: {error_text(answer)}.")
        for _ in chunk:
            self._drop_first()
        self._confirmed = self._last = chunk[-1].id
        self._n_added += len(chunk)

    def _await_disk(self, connection: Connection) -> None:
        """Wait until the entries are on the disk of the server, if it writes a log."""
        try:
            answer = connection.execute("WAITAOF", 1, 0, _WAIT_MILLISECONDS)
        except ResponseError:
            self._can_wait = False  # no log: `doctor` explains what that means
            return
        if not answer[0]:
            raise Unavailable("the disk of the server is slow")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
