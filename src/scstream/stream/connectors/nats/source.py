"""Read the messages of a JetStream stream in order of their sequence."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Mapping
from concurrent.futures import CancelledError
from datetime import datetime

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from scstream.errors import InputError, StreamError
from scstream.stream.connectors.nats.connection import (
    NO_STREAM,
    Connection,
    JetStreamError,
    Server,
    StreamConfig,
    Unavailable,
    checked_name,
    checked_subject,
)
from scstream.stream.connectors.nats.doctor import findings
from scstream.stream.connectors.nats.stream_position import StreamPosition, parse_position
from scstream.stream.connectors.nats.worker import StreamClient, Worker
from scstream.stream.connectors.start_time import read_start_time
from scstream.stream.findings import Finding
from scstream.stream.source import Positions, Record, Resume

_HEARTBEAT = 2.0  # seconds; after two and a half without one the server is unavailable
_EXPIRES = 10.0  # seconds that the server waits for messages before a request ends
_READ_BYTES = 16 << 20  # maximum size of the result of `read`, if it has several messages
_HEADER_BYTES = 1 << 16  # subject and headers, which the server counts as part of a message
_NANO = 10**9
_FAILURES = (Unavailable, JetStreamError, NatsError, OSError, CancelledError)


class NatsSource(StreamClient["_Fetcher"]):
    """Read a JetStream stream, or its messages with some subjects.

    Messages are read by stream sequence with a temporary consumer, so nothing depends on state that
    the server keeps about the reader. The position of a message is "sequence@time", followed by
    "+" for the position right after the message; a bare sequence is a position too. The time, in
    nanoseconds, distinguishes a message from another one that got its sequence after the server
    lost the first one.

    Streams with the retention "limits" or "interest" are supported; "interest" needs `durable`,
    because otherwise the stream drops messages while no pipeline runs. A work queue allows one
    consumer and no seeking: create a stream that has it as its source, and read that one.

    With a subject, sequences are not contiguous. Then the loss of any message after the last one
    that was read counts as a gap, because the subject of a lost message is unknown.

    Parameters
    ----------
    url : str
        Address of a server, "nats://user:password@host:4222", or several separated by commas.
    stream : str
        Name of the stream.
    subject : str, optional
        Read only messages with this subject; it may have wildcards.
    start : "first", "last", int, str or datetime
        Where a pipeline without a checkpoint begins: at the first available message, after the
        last one, at a sequence, or at a time such as "2026-01-01T00:00Z".
    durable : str, optional
        Name of a durable consumer that the source creates and that acknowledges messages once a
        checkpoint covers them. Other tools can show the progress, and a stream with the retention
        "interest" can drop what every consumer has.
    prefetch : int
        Maximum number of messages per request.
    prefetch_bytes : int
        Maximum size of the messages per request; up to twice as much is buffered.
    retry_timeout : float, optional
        Seconds to wait for an unavailable server before stopping; by default there is no limit.
    credentials : str, optional
        Path of a credentials file.
    domain : str, optional
        JetStream domain.
    monitor : str, optional
        Monitoring address of the server, "http://host:8222", from which `doctor` reads when the
        server syncs to its disk.

    Examples
    --------
    >>> from scstream.stream.connectors.nats import NatsSource
    >>> NatsSource("nats://me:hunter2@broker:4222", "rows")
    NatsSource('nats://***@broker:4222', 'rows')
    >>> NatsSource("nats://broker", "a b")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: 'a b' cannot be the name of a NATS stream or consumer; ...
    """

    done = False  # a stream has no end

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        subject: str | None = None,
        start: str | int | datetime = "first",
        durable: str | None = None,
        prefetch: int = 1000,
        prefetch_bytes: int = 16 << 20,
        retry_timeout: float | None = None,
        credentials: str | None = None,
        domain: str | None = None,
        monitor: str | None = None,
    ) -> None:
        if start not in ("first", "last") and read_start_time(start) is None:
            parse_position(start)
        if prefetch < 1 or prefetch_bytes < 1:
            raise InputError("prefetch and prefetch_bytes must be 1 or more.")
        server = Server(url, credentials, domain, monitor, retry_timeout)
        super().__init__(server, checked_name(stream))
        self.subject = checked_subject(subject) if subject else None
        self.durable = checked_name(durable) if durable else None
        self.start = start
        self.prefetch = prefetch
        self.prefetch_bytes = prefetch_bytes

    def __repr__(self) -> str:
        return f"NatsSource({self._server.address!r}, {self.stream!r})"

    def identity(self) -> Mapping[str, str]:
        """Return name and creation time of the stream, the subject, and the first position."""
        return self._open_worker().position.identity

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Connect, check that the stream is still the one of the checkpoint, and start to read."""
        self._start(_Fetcher(self._connect(), self, resume=resume, accept_gap=accept_gap))

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return up to `max_n` messages, about 16 MB at most."""
        return self._open_worker().take(max_n, timeout)

    def acknowledge(self, positions: Positions) -> None:
        """Acknowledge messages to the durable consumer, if there is one; a failure is ignored."""
        if not self.durable or "" not in positions:
            return
        sequence, _, was_read = parse_position(positions[""])
        fetcher, connection = self._open_worker(), self._connection
        if fetcher.session is None or connection is None:
            return
        with contextlib.suppress(*_FAILURES):
            connection.run(fetcher.confirm(sequence if was_read else sequence - 1), 10.0)

    def lag(self) -> int | None:
        """Return the number of unread messages; None while the server is unavailable."""
        fetcher, connection = self._worker, self._connection
        if fetcher is None or fetcher.session is None or connection is None:
            return None
        try:
            return connection.run(fetcher.n_pending(), 2.0)
        except _FAILURES:
            return None

    def doctor(self) -> list[Finding]:
        """Explain how and for how long the server stores messages."""
        return findings(self._server, self.stream, role="source")


class _Fetcher(Worker):
    """Fetches messages on the loop of the connection for the thread that reads them."""

    def __init__(
        self, connection: Connection, source: NatsSource, *, resume: Resume | None, accept_gap: bool
    ) -> None:
        super().__init__(connection)
        self.position = StreamPosition(connection, source.stream, source.subject)
        self.session: tuple[Client, str] | None = None  # a connection, the name of its consumer
        self._source = source
        self._resume = resume
        self._accept_gap = accept_gap
        self._buffer: deque[Record] = deque()
        self._n_bytes = 0
        self._n_wanted = 0  # messages that the current request can still return
        self._n_delivered = 0  # messages of this consumer
        self._broken = ""  # why this connection cannot be used any more
        self._expired = False
        self._unconfirmed: list[tuple[int, str]] = []  # sequence and reply of the durable consumer

    def take(self, max_n: int, timeout: float) -> list[Record]:
        """Take messages out of the buffer."""
        records: list[Record] = []
        n_bytes = 0
        with self._changed:
            self._changed.wait_for(lambda: self._buffer or self._error, timeout)
            while self._buffer and len(records) < max_n and n_bytes < _READ_BYTES:
                records.append(self._buffer.popleft())
                n_bytes += len(records[-1].value)  # type: ignore[arg-type]
            self._n_bytes -= n_bytes
            if self._error is not None and not records:
                raise self._error
        if records:
            self._connection.call_soon(self._wakeup.set)
        return records

    async def confirm(self, sequence: int) -> None:
        """Acknowledge messages up to a sequence to the durable consumer."""
        assert self.session is not None
        client = self.session[0]
        while not any(number >= sequence for number, _ in self._unconfirmed):
            consumer = f"{self.position.stream}.{self._source.durable}"
            fetched = await self._connection.fetch(client, consumer, max_n=500)
            self._unconfirmed += [
                (_numbers(message.reply)[0], message.reply) for message in fetched
            ]
            if not fetched:
                break
        safe = [entry for entry in self._unconfirmed if entry[0] <= sequence]
        if safe:
            await client.publish(max(safe)[1], b"+ACK")
            self._unconfirmed = [entry for entry in self._unconfirmed if entry[0] > sequence]

    async def n_pending(self) -> int:
        """Return the number of messages that were not read yet."""
        assert self.session is not None
        client, consumer = self.session
        what = f"CONSUMER.INFO.{self.position.stream}.{consumer}"
        answer = await self._connection.request(client, what)
        return int(answer["num_pending"]) + len(self._buffer)

    async def _check(self, client: Client, *, is_first: bool) -> None:
        self.session = None
        if not is_first:
            await self.position.check(client, thorough=True)
            return
        info = await self.position.open(
            client, resume=self._resume, start=self._source.start, accept_gap=self._accept_gap
        )
        durable = self._source.durable
        _check_retention(info["config"], durable)
        if durable:
            await self._ensure_durable(client, durable)

    async def _ensure_durable(self, client: Client, name: str) -> None:
        """Create the durable consumer unless it exists; it sends headers only."""
        try:
            await self._connection.request(client, f"CONSUMER.INFO.{self.position.stream}.{name}")
        except JetStreamError:
            await self._create_consumer(
                client,
                f"DURABLE.CREATE.{self.position.stream}.{name}",
                durable_name=name,
                ack_policy="all",
                max_ack_pending=-1,
                headers_only=True,
            )

    async def _work(self, client: Client) -> None:
        """Request messages as long as the buffer is not full."""
        inbox = client.new_inbox()
        await client.subscribe(
            inbox, cb=self._on_message, pending_msgs_limit=0, pending_bytes_limit=0
        )
        consumer = await self._create_consumer(
            client,
            f"CREATE.{self.position.stream}",
            ack_policy="none",
            inactive_threshold=60 * _NANO,
            mem_storage=True,
            num_replicas=1,
        )
        self.session = client, consumer
        self._n_delivered, self._broken = 0, ""
        api = self._connection.api(f"CONSUMER.MSG.NEXT.{self.position.stream}.{consumer}")
        request = {
            "batch": self._source.prefetch,
            "max_bytes": self._source.prefetch_bytes + client.max_payload + _HEADER_BYTES,
            "expires": int(_EXPIRES * _NANO),
            "idle_heartbeat": int(_HEARTBEAT * _NANO),
        }
        while True:
            last = await self.position.check(client)
            self._n_wanted, self._expired = self._source.prefetch, False
            await client.publish(api, json.dumps(request).encode(), reply=inbox)
            await self._await_messages(client)
            if self._expired:  # all messages of the subject up to `last` have arrived
                self.position.scanned = last
            self._connection.succeeded()
            while self._is_full():
                await self._wait(client)

    def _is_full(self) -> bool:
        source = self._source
        return len(self._buffer) > source.prefetch // 2 or self._n_bytes > source.prefetch_bytes

    async def _create_consumer(self, client: Client, path: str, **settings: str | int) -> str:
        stream, subject = self.position.stream, self.position.subject
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(1, self.position.next),
            **settings,
            **({"filter_subject": subject} if subject else {}),
        }
        try:
            created = await self._connection.request(
                client, f"CONSUMER.{path}", stream_name=stream, config=config
            )
        except JetStreamError as error:
            if error.code == NO_STREAM:
                raise Unavailable("the stream has just been deleted") from None
            raise StreamError(
                f"{self._connection.server} cannot create a consumer for the stream {stream!r}: "
                f"{error}."
            ) from None
        return str(created["name"])

    async def _await_messages(self, client: Client) -> None:
        """Wait until a request is complete or has expired."""
        loop = asyncio.get_running_loop()
        self._received_at = loop.time()
        while self._n_wanted > 0:
            await self._wait(client)
            if loop.time() - self._received_at > 2.5 * _HEARTBEAT:
                raise Unavailable(f"the server sent nothing for {2.5 * _HEARTBEAT:g} s")

    async def _wait(self, client: Client) -> None:
        await super()._wait(client)
        if self._broken:
            raise Unavailable(self._broken)

    async def _on_message(self, message: Msg) -> None:
        """Buffer a message, or note the status of the request."""
        self._received_at = asyncio.get_running_loop().time()
        if not message.reply.startswith("$JS.ACK."):
            self._on_status(message.headers or {})
        elif not self._broken and self._error is None:
            sequence, delivered, time = _numbers(message.reply)
            self._n_delivered += 1
            self._n_wanted -= 1
            if self._n_delivered == 1:
                self._connection.succeeded()
            if delivered != self._n_delivered:
                self._broken = "messages were lost between server and client"
            else:
                self._append(message.data, sequence, time)
        if self._n_wanted <= 0 or self._broken or self._error is not None:
            self._wakeup.set()

    def _on_status(self, headers: Mapping[str, str]) -> None:
        status, description = headers.get("Status"), headers.get("Description", "")
        if status in ("404", "408"):
            self._n_wanted, self._expired = 0, True
        elif status == "409" and "MaxBytes" in description:
            self._n_wanted = 0
        elif status == "100":  # a heartbeat: the server works, and has no messages
            self._connection.succeeded()
        elif description != "Batch Completed":
            self._broken = f"the server ended a request: {status} {description}"

    def _append(self, content: bytes, sequence: int, time: int) -> None:
        try:
            self.position.advance(sequence, time)
        except StreamError as error:
            self._error = error
            return
        name = f"{sequence}@{time}"
        record = Record(name, f"{name}+", content, time=time / _NANO)
        with self._changed:
            self._buffer.append(record)
            self._n_bytes += len(content)
            self._changed.notify()


def _check_retention(config: StreamConfig, durable: str | None) -> None:
    if config["retention"] == "workqueue":
        raise InputError(
            f"The stream {config['name']!r} is a work queue, which cannot be read from a position; "
            "create a stream with limits that has it as its source, and read that one."
        )
    if config["retention"] == "interest" and not durable:
        raise InputError(
            f"The stream {config['name']!r} keeps messages only while a consumer wants them; set "
            "`durable` to a name, so that it keeps them while the pipeline is down."
        )


def _numbers(reply: str) -> tuple[int, int, int]:
    """Return sequence in the stream, sequence in the consumer, and time from a reply subject."""
    tokens = reply.split(".")
    first = 5 if len(tokens) == 9 else 7  # newer servers insert domain and account
    return int(tokens[first]), int(tokens[first + 1]), int(tokens[first + 2])
