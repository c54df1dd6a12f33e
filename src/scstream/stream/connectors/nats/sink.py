"""Write deliveries as messages on a subject of a JetStream stream, each of them once."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypedDict

from nats.aio.client import Client
from nats.aio.msg import Msg

from scstream.errors import InputError, SinkError
from scstream.stream.connectors.message_writer import MessageWriter
from scstream.stream.connectors.nats.connection import (
    NO_STREAM,
    Connection,
    JetStreamError,
    Server,
    StoredMessage,
    StreamInfo,
    Unavailable,
    checked,
    checked_name,
    checked_subject,
)
from scstream.stream.connectors.nats.doctor import findings
from scstream.stream.connectors.nats.worker import StreamClient, Worker
from scstream.stream.findings import Finding
from scstream.stream.sink import Delivery, SinkPosition

_ID = re.compile(r"([^/]+)/(\d+)(?:/(\d+))?")
_QUEUE_BYTES = 64 << 20  # size of the queue above which `write` blocks
_MAX_IN_FLIGHT = 512  # messages that are sent and not confirmed
_MAX_IN_FLIGHT_BYTES = 4 << 20
_CONFIRM_SECONDS = 5.0
_OUT_OF_ORDER = {10070, 10071, 10158, 10164}  # the last message is not the expected one
_FULL = {10028, 10047}  # no memory or storage at the moment
_HEADER_BYTES = 512  # maximum size of our headers
_WHOLE = -1  # index of a message with a whole delivery


@dataclass(frozen=True)
class _Message:
    """A message that is to be published."""

    job: str
    batch: int
    index: int
    content: bytes

    @property
    def id(self) -> str:
        return f"{self.job}/{self.batch}" + (f"/{self.index}" if self.index != _WHOLE else "")

    @property
    def key(self) -> tuple[int, int]:
        return self.batch, self.index


@dataclass(frozen=True)
class _End:
    """The last message of the subject, as far as known."""

    sequence: int = 0
    id: str = ""


class _Position(TypedDict, total=False):
    """The position of the sink: when the stream was created, and its last confirmed message."""

    created: str
    sequence: int
    id: str


class NatsSink(StreamClient["_Publisher"]):
    """Write to a subject of a JetStream stream; nothing else may write to that subject.

    Every message has the header `Nats-Msg-Id`, "job/batch/index" in the format "json" and
    "job/batch" in the others, and names the message that must be the last one before it. The
    server therefore rejects messages that are out of order or exist already, not only within its
    window for duplicates. After an outage or a restart the sink reads the end of the subject and
    continues after it. Other subjects of the stream may have other writers, but then fewer
    messages can be in flight; a separate stream is faster.

    Parameters
    ----------
    url : str
        Address of a server, "nats://user:password@host:4222", or several separated by commas.
    stream : str
        Name of the stream.
    subject : str
        Subject to publish on; it belongs to the stream.
    format : {"arrow", "columns", "json"}
        A message is a delivery as an Arrow stream or as JSON columns, or a row as a JSON object.
    create : bool
        Create the stream, on disk and without limits, if it does not exist.
    accept_loss : bool
        Continue if the server lost messages that it had confirmed.
    retry_timeout : float, optional
        Seconds to wait for an unavailable server before stopping; by default there is no limit.
    credentials : str, optional
        Path of a credentials file.
    domain : str, optional
        JetStream domain.
    monitor : str, optional
        Monitoring address of the server, "http://host:8222", for `doctor`.

    Examples
    --------
    >>> from scstream.stream.connectors.nats import NatsSink
    >>> NatsSink("nats://broker:4222", "labels", "labels.out", format="json")
    NatsSink('nats://broker:4222', 'labels', 'labels.out')
    >>> NatsSink("nats://broker:4222", "labels", "labels.*")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: 'labels.*' has wildcards; ...
    """

    def __init__(
        self,
        url: str,
        stream: str,
        subject: str,
        *,
        format: Literal["arrow", "columns", "json"] = "arrow",
        create: bool = False,
        accept_loss: bool = False,
        retry_timeout: float | None = None,
        credentials: str | None = None,
        domain: str | None = None,
        monitor: str | None = None,
    ) -> None:
        if set("*>") & set(subject):
            raise InputError(f"{subject!r} has wildcards; a sink publishes on one subject.")
        server = Server(url, credentials, domain, monitor, retry_timeout)
        super().__init__(server, checked_name(stream))
        self.subject = checked_subject(subject)
        self._writer = MessageWriter(format)
        self.create = create
        self.accept_loss = accept_loss

    def __repr__(self) -> str:
        return f"NatsSink({self._server.address!r}, {self.stream!r}, {self.subject!r})"

    def open(self, position: SinkPosition | None) -> None:
        """Connect, and find which messages after `position` exist."""
        self._start(_Publisher(self._connect(), self, position or {}))

    def write(self, delivery: Delivery) -> None:
        """Send the messages of a delivery, without waiting for their confirmation."""
        job, batch = delivery.job, delivery.batch
        if "/" in job:
            raise SinkError(f"The name of the job {job!r} has a slash; choose one without.")
        is_per_row = self._writer.is_per_row
        self._open_worker().add(
            [
                _Message(job, batch, index if is_per_row else _WHOLE, content)
                for index, content in self._writer.messages(delivery)
            ]
        )

    def flush(self) -> SinkPosition:
        """Wait until the server has confirmed everything."""
        return self._open_worker().flush()

    def doctor(self) -> list[Finding]:
        """Explain what a confirmation of the server means."""
        return findings(self._server, self.stream, role="sink")


class _Publisher(Worker):
    """Publishes messages in order on the loop of the connection, many at a time."""

    def __init__(self, connection: Connection, sink: NatsSink, position: _Position) -> None:
        super().__init__(connection)
        self._sink = sink
        self._stream, self._subject = sink.stream, sink.subject
        self._created = position.get("created", "")
        self._confirmed = _End(position.get("sequence", 0), position.get("id", ""))
        self._existing = _End()  # the last message of the subject at the last check
        self._is_skipping = False  # whether queued messages may exist already
        self._contents: dict[str, bytes] = {}  # of some existing messages, by id
        self._last = 0  # sequence of the last message on the subject
        self._queue: deque[_Message] = deque()
        self._in_flight: deque[tuple[int, _Message]] = deque()
        self._n_bytes = 0  # of both
        self._n_in_flight_bytes = 0
        self._n_sent = 0
        self._max_in_flight = _MAX_IN_FLIGHT
        self._rejection: Exception | None = None

    def add(self, messages: list[_Message]) -> None:
        """Queue messages; wait while the queue is full."""
        with self._changed:
            self._await(lambda: self._n_bytes < _QUEUE_BYTES)
            self._queue.extend(messages)
            self._n_bytes += sum(len(message.content) for message in messages)
        self._connection.call_soon(self._wakeup.set)

    def flush(self) -> SinkPosition:
        """Wait until everything is confirmed."""
        with self._changed:
            self._await(lambda: not self._queue and not self._in_flight)
            end = self._confirmed
        return {"created": self._created, "sequence": end.sequence, "id": end.id}

    def _await(self, condition: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: self._error or condition())
        if self._error is not None:
            raise self._error

    async def _check(self, client: Client, *, is_first: bool = False) -> None:
        """Find the end of the subject, and queue unconfirmed messages again."""
        with self._changed:
            self._queue.extendleft(message for _, message in reversed(self._in_flight))
            self._in_flight.clear()
        self._n_in_flight_bytes = 0
        self._rejection = None
        info = await self._describe(client)
        last = await self._connection.message(client, self._stream, last_by_subj=self._subject)
        self._existing = _end(last)
        self._last = self._existing.sequence
        self._check_loss(info)
        self._contents = {}
        self._is_skipping = self._existing.sequence > self._confirmed.sequence
        if last is not None and self._is_skipping:
            after = {"seq": self._confirmed.sequence + 1, "next_by_subj": self._subject}
            first = await self._connection.message(client, self._stream, **after) or last
            self._contents = {_end(found).id: _content(found) for found in (first, last)}

    async def _describe(self, client: Client) -> StreamInfo:
        try:
            return await self._connection.stream(client, self._stream)
        except JetStreamError as error:
            if error.code != NO_STREAM:
                raise SinkError(f"{self._where} cannot be written: {error}.") from None
        if not self._sink.create:
            raise SinkError(f"{self._where} does not exist; create it, or set `create`.")
        config = {"name": self._stream, "subjects": [self._subject], "storage": "file"}
        try:
            info: StreamInfo = await self._connection.request(
                client, f"STREAM.CREATE.{self._stream}", **config
            )
        except JetStreamError as error:
            raise SinkError(f"{self._where} cannot be created: {error}.") from None
        return info

    def _check_loss(self, info: StreamInfo) -> None:
        """Raise if a confirmed message is missing and no limit of the stream removed it."""
        state, confirmed = info["state"], self._confirmed.sequence
        is_new = self._created not in ("", info["created"])
        was_removed = state["first_seq"] > confirmed and state["last_seq"] >= confirmed
        is_lost = is_new or (confirmed > self._existing.sequence and not was_removed)
        if is_lost and not self._sink.accept_loss:
            raise SinkError(
                f"{self._where} has lost messages: it had confirmed {self._confirmed.id!r} as "
                f"number {confirmed}, but {self._subject!r} ends at number "
                f"{self._existing.sequence} now. Restore them, or set `accept_loss` to continue "
                "without them."
            )
        if is_lost:
            self._confirmed = _End(self._existing.sequence, self._confirmed.id)
        self._created = info["created"]

    @property
    def _where(self) -> str:
        return f"The stream {self._stream!r} of {self._connection.server}"

    async def _work(self, client: Client) -> None:
        """Send queued messages, as far ahead of the confirmations as the window allows."""
        inbox = client.new_inbox()
        await client.subscribe(f"{inbox}.*", cb=self._on_answer, pending_msgs_limit=0)
        loop = asyncio.get_running_loop()
        while True:
            self._skip_existing()
            await self._send(client, inbox)
            await self._wait(client)
            if self._in_flight and loop.time() - self._received_at > _CONFIRM_SECONDS:
                raise Unavailable(f"no confirmation for {_CONFIRM_SECONDS:g} s")
            if not self._queue and not self._in_flight:
                self._connection.succeeded()  # an idle sink is no outage
            if self._rejection is not None:
                await self._handle_rejection(client, self._rejection)

    def _skip_existing(self) -> None:
        """Drop queued messages that exist; raise if the subject has messages of another writer."""
        if not self._is_skipping or not self._queue:
            return
        existing, match = self._existing, _ID.fullmatch(self._existing.id)
        first = self._queue[0]
        if match is None or match[1] != first.job:
            raise self._foreign(f"the id of message {existing.sequence} is {existing.id!r}")
        if (match[3] is None) != (first.index == _WHOLE):
            raise self._foreign(f"{existing.id!r} was written in another format")
        end = int(match[2]), int(match[3] or _WHOLE)
        with self._changed:
            while self._queue and self._queue[0].key <= end:
                message = self._queue[0]
                if self._contents.get(message.id, message.content) != message.content:
                    raise self._foreign(f"{message.id!r} has another content")
                self._queue.popleft()  # not earlier: `flush` may find the queue empty
                self._n_bytes -= len(message.content)
                is_last = message.id == existing.id
                self._confirmed = (
                    existing if is_last else _End(self._confirmed.sequence, message.id)
                )
            self._changed.notify_all()
        if self._queue:
            self._confirmed, self._is_skipping = existing, False

    def _foreign(self, what: str) -> SinkError:
        return SinkError(
            f"The subject {self._subject!r} of {self._connection.server} has messages that this "
            f"pipeline did not write: {what}. Give every job its own subject, or purge the subject."
        )

    async def _send(self, client: Client, inbox: str) -> None:
        while self._queue and self._has_capacity and self._rejection is None:
            with self._changed:
                message = self._queue.popleft()
                headers = {"Nats-Msg-Id": message.id, "Nats-Expected-Stream": self._stream}
                if self._in_flight:
                    headers["Nats-Expected-Last-Msg-Id"] = self._in_flight[-1][1].id
                else:
                    headers["Nats-Expected-Last-Subject-Sequence"] = str(self._last)
                    self._received_at = asyncio.get_running_loop().time()
                self._n_sent += 1
                self._in_flight.append((self._n_sent, message))
            self._n_in_flight_bytes += len(message.content)
            if len(message.content) + _HEADER_BYTES > client.max_payload:
                raise SinkError(
                    f"The message {message.id!r} has {len(message.content)} bytes, but "
                    f"{self._connection.server} accepts {client.max_payload - _HEADER_BYTES}; make "
                    "batches smaller or increase max_payload of the server."
                )
            reply = f"{inbox}.{self._n_sent}"
            await client.publish(self._subject, message.content, reply=reply, headers=headers)

    @property
    def _has_capacity(self) -> bool:
        has_bytes = self._n_in_flight_bytes < _MAX_IN_FLIGHT_BYTES
        return len(self._in_flight) < self._max_in_flight and has_bytes

    async def _on_answer(self, answer: Msg) -> None:
        """Note a confirmation, which includes all earlier messages, or a rejection."""
        number = int(answer.subject.rpartition(".")[2])
        if not self._in_flight or number < self._in_flight[0][0]:
            return  # the message was queued again
        self._received_at = asyncio.get_running_loop().time()
        try:
            if not answer.data:
                raise Unavailable(f"no stream receives messages of {self._subject!r}")
            self._confirm(number, int(checked(json.loads(answer.data))["seq"]))
        except (Unavailable, JetStreamError) as error:
            self._rejection = error
            self._wakeup.set()

    def _confirm(self, number: int, sequence: int) -> None:
        with self._changed:
            while self._in_flight and self._in_flight[0][0] <= number:
                message = self._in_flight.popleft()[1]
                self._n_bytes -= len(message.content)
                self._n_in_flight_bytes -= len(message.content)
                self._confirmed = _End(sequence, message.id)
            self._last = max(self._last, sequence)
            self._changed.notify_all()
        self._connection.succeeded()
        if not self._in_flight:
            self._max_in_flight = min(_MAX_IN_FLIGHT, 2 * self._max_in_flight)
        if len(self._in_flight) <= self._max_in_flight // 2:
            self._wakeup.set()

    async def _handle_rejection(self, client: Client, error: Exception) -> None:
        """Check the subject again, wait, or stop, depending on the error."""
        if not isinstance(error, JetStreamError):
            raise error
        if error.code in _FULL:
            raise Unavailable(f"{self._where} has no space: {error}")
        if error.code not in _OUT_OF_ORDER:
            raise SinkError(f"{self._where} rejects {self._in_flight[0][1].id!r}: {error}.")
        self._max_in_flight = max(1, self._max_in_flight // 2)
        await self._check(client)


def _end(message: StoredMessage | None) -> _End:
    if message is None:
        return _End()
    headers = base64.b64decode(message.get("hdrs", "")).decode(errors="replace").splitlines()
    ids = [line.partition(":")[2].strip() for line in headers if line.startswith("Nats-Msg-Id:")]
    return _End(message["seq"], ids[0] if ids else "")


def _content(message: StoredMessage) -> bytes:
    return base64.b64decode(message.get("data", ""))
