"""Messages of a JetStream stream, in order of their sequence."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from typing import Any

from scstream.errors import InputError, StreamError
from scstream.stream.connectors.nats.doctor import findings
from scstream.stream.connectors.nats.guard import Guard, parsed
from scstream.stream.connectors.nats.link import (
    NO_STREAM,
    POLL_SECONDS,
    Away,
    Client,
    Link,
    Message,
    NatsError,
    Refused,
    checked_stream,
    checked_subject,
)
from scstream.stream.findings import Finding
from scstream.stream.secrets import masked
from scstream.stream.source import Positions, Record, Resume

_HEARTBEAT = 2.0  # seconds; two and a half of silence mean that the server is away
_EXPIRES = 10.0  # seconds that the server waits for messages before a request is made anew
_READ_BYTES = 16 << 20  # most that one `read` returns, if it is more than one message
_SLACK = 1 << 16  # subject and headers, which the server counts as bytes of a message
_NANO = 10**9


class NatsSource:
    """A JetStream stream, or its messages of some subjects.

    Messages are read by stream sequence with a consumer that the server forgets, so nothing depends
    on what the server remembers of us. The position of a message is "sequence@time", and "+" behind
    it means right after that message; a plain sequence is a position too. The time, in nanoseconds,
    tells a message from another one that was given its sequence after the server lost the first.

    Streams with limits or with interest are supported; a stream with interest needs `durable`, or
    it would drop messages while no pipeline runs. A work queue allows one consumer only and no
    seeking: let another stream take its messages as a source, and read that.

    With a subject, sequences are not contiguous. Then the loss of any message behind the last one
    that was read counts as a gap, since nobody can tell any more of which subject it was.

    Parameters
    ----------
    url : str
        Address of a server, "nats://user:password@host:4222", or several with commas between.
    stream : str
        Name of the stream.
    subject : str, optional
        Only messages of this subject; it may have wildcards.
    start : "first", "last" or int
        Where a pipeline without a checkpoint begins: at the first message that is there, after the
        last one, or at a sequence.
    durable : str, optional
        Name of a durable consumer that is made, and told which messages are safe with us: other
        tools see by it how far we are, and a stream with interest can drop what everybody has.
    prefetch : int
        Most messages that are asked for at once.
    prefetch_bytes : int
        Most bytes that are asked for at once; up to twice as many wait here.
    patience : float, optional
        Seconds that a server that is away is waited for; by default for ever.
    credentials : str, optional
        Path of a file of credentials.
    domain : str, optional
        JetStream domain.
    monitor : str, optional
        Address of the monitor of the server, "http://host:8222", from which `doctor` learns when
        the server syncs to its disk.

    Examples
    --------
    >>> from scstream.stream.connectors.nats import NatsSource
    >>> NatsSource("nats://me:hunter2@broker:4222", "rows")
    NatsSource('nats://***@broker:4222', 'rows')
    >>> NatsSource("nats://broker", "a b")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: 'a b' cannot be the name of a NATS stream; ...
    """

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        subject: str | None = None,
        start: str | int = "first",
        durable: str | None = None,
        prefetch: int = 1000,
        prefetch_bytes: int = 16 << 20,
        patience: float | None = None,
        credentials: str | None = None,
        domain: str | None = None,
        monitor: str | None = None,
    ) -> None:
        if start not in ("first", "last"):
            parsed(start)
        if prefetch < 1 or prefetch_bytes < 1:
            raise InputError("prefetch and prefetch_bytes must be 1 or more.")
        self.stream = checked_stream(stream)
        self.subject = checked_subject(subject) if subject else None
        self.durable = checked_stream(durable) if durable else None
        self._start = start
        self._prefetch = prefetch
        self._prefetch_bytes = prefetch_bytes
        self._url = url
        self._patience = patience
        self._access = {"credentials": credentials, "domain": domain}
        self._monitor = monitor
        self._link: Link | None = None
        self._reading: _Reading | None = None
        self._news = threading.Condition()

    def __repr__(self) -> str:
        return f"NatsSource({masked(self._url)!r}, {self.stream!r})"

    def identity(self) -> Mapping[str, str]:
        """Name and creation time of the stream, the subject, and where reading began."""
        return self._open_reading().guard.identity

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Connect, check that the stream is still the one of the checkpoint, and begin to read."""
        self.close()
        self._link = Link(self._url, patience=self._patience, **self._access)
        guard = Guard(self._link, self.stream, self.subject)
        self._reading = _Reading(
            self._link, guard, self.durable, self._prefetch, self._prefetch_bytes
        )
        ready: Future[None] = Future()
        work = self._reading.pump(ready, resume=resume, start=self._start, accept_gap=accept_gap)
        self._link.begin(work)
        try:
            ready.result()
        except BaseException:
            self.close()
            raise

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next messages, at most so many, and not many more bytes than 16 MB."""
        return self._open_reading().take(max_n, timeout)

    def acknowledge(self, positions: Positions) -> None:
        """Tell the durable consumer, if there is one; a server that is away is told next time."""
        if not self.durable or "" not in positions:
            return
        sequence, _, after = parsed(positions[""])
        reading, link = self._open_reading(), self._link
        if reading.session is None or link is None:
            return
        with contextlib.suppress(Away, Refused, NatsError, OSError, CancelledError):
            link.run(reading.confirm(sequence if after else sequence - 1), 10.0)

    @property
    def done(self) -> bool:
        """False: there may always be more."""
        return False

    def lag(self) -> int | None:
        """Messages that wait on the server and here; None while the server is away."""
        reading, link = self._reading, self._link
        if reading is None or reading.session is None or link is None:
            return None
        try:
            return link.run(reading.n_pending(), 2.0)
        except (Away, Refused, NatsError, OSError, CancelledError):
            return None

    def close(self) -> None:
        """Disconnect; a `read` that waits ends with an error."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def doctor(self) -> list[Finding]:
        """Say how the server keeps messages, and for how long."""
        return findings(
            self._url, self.stream, role="source", monitor=self._monitor, **self._access
        )

    def _open_reading(self) -> _Reading:
        if self._reading is None:
            raise StreamError(f"{self!r} is not open; call `open` first.")
        return self._reading


class _Reading:
    """Fetches messages on the loop of the link, and hands them to the thread that reads."""

    def __init__(
        self, link: Link, guard: Guard, durable: str | None, prefetch: int, prefetch_bytes: int
    ) -> None:
        self.guard = guard
        self.session: tuple[Client, str] | None = None  # a connection, the name of its consumer
        self._link = link
        self._durable = durable
        self._prefetch = prefetch
        self._prefetch_bytes = prefetch_bytes
        self._buffer: deque[Record] = deque()
        self._n_bytes = 0
        self._news = threading.Condition()
        self._error: BaseException | None = None
        self._turn = asyncio.Event()  # something happened that the loop waits for
        self._n_wanted = 0  # messages that a request still owes us
        self._n_delivered = 0  # messages of this consumer
        self._broken = ""  # why this connection is of no use any more
        self._expired = False
        self._heard_at = 0.0
        self._held: list[tuple[int, str]] = []  # messages of the durable consumer: how to confirm

    def take(self, max_n: int, timeout: float) -> list[Record]:
        """Take messages out of the buffer."""
        records: list[Record] = []
        n_bytes = 0
        with self._news:
            self._news.wait_for(lambda: self._buffer or self._error, timeout)
            while self._buffer and len(records) < max_n and n_bytes < _READ_BYTES:
                records.append(self._buffer.popleft())
                n_bytes += len(records[-1].value)  # type: ignore[arg-type]
            self._n_bytes -= n_bytes
            if self._error is not None and not records:
                raise self._error
        if records:
            self._link.soon(self._turn.set)
        return records

    async def pump(self, ready: Future[None], **how: Any) -> None:
        """Connect, check, read; again after every outage, until a check fails."""
        try:
            while True:
                client = await self._link.connect(self._turn.set)
                try:
                    if ready.done():
                        await self.guard.check(client, thorough=True)
                    else:
                        await self._begin(client, **how)
                        ready.set_result(None)
                    await self._consume(client)
                except (Away, NatsError, OSError) as away:
                    self._link.went_away(away)
                finally:
                    self.session = None
                    await self._link.leave(client)
        except asyncio.CancelledError:
            self._fail(StreamError("The source was closed."), ready)
        except BaseException as error:
            self._fail(error, ready)

    async def confirm(self, sequence: int) -> None:
        """Let the durable consumer know that messages up to this one are safe."""
        assert self.session is not None
        client = self.session[0]
        while not any(held >= sequence for held, _ in self._held):
            consumer = f"{self.guard.stream}.{self._durable}"
            fetched = await self._link.fetch(client, consumer, max_n=500)
            self._held += [(_numbers(message.reply)[0], message.reply) for message in fetched]
            if not fetched:
                break
        safe = [held for held in self._held if held[0] <= sequence]
        if safe:
            await client.publish(max(safe)[1], b"+ACK")
            self._held = [held for held in self._held if held[0] > sequence]

    async def n_pending(self) -> int:
        """Messages that are not read yet."""
        assert self.session is not None
        client, consumer = self.session
        answer = await self._link.ask(client, f"CONSUMER.INFO.{self.guard.stream}.{consumer}")
        return int(answer["num_pending"]) + len(self._buffer)

    def _fail(self, error: BaseException, ready: Future[None]) -> None:
        with self._news:
            self._error = error
            self._news.notify_all()
        if not ready.done():
            ready.set_exception(error)

    async def _begin(self, client: Client, **how: Any) -> None:
        info = await self.guard.begin(client, **how)
        _check_retention(info["config"], self._durable)
        if self._durable:
            await self._keep_durable(client, self._durable)

    async def _keep_durable(self, client: Client, name: str) -> None:
        """Make the durable consumer, unless it is there; it sends no contents."""
        try:
            await self._link.ask(client, f"CONSUMER.INFO.{self.guard.stream}.{name}")
        except Refused:
            config = {
                "durable_name": name,
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": max(1, self.guard.next),
                "ack_policy": "all",
                "max_ack_pending": -1,
                "headers_only": True,
            }
            await self._make_consumer(client, f"DURABLE.CREATE.{{stream}}.{name}", config)

    async def _consume(self, client: Client) -> None:
        """Ask for messages, request after request, as there is room for them."""
        inbox = client.new_inbox()
        await client.subscribe(inbox, cb=self._hear, pending_msgs_limit=0, pending_bytes_limit=0)
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(1, self.guard.next),
            "ack_policy": "none",
            "inactive_threshold": 60 * _NANO,
            "mem_storage": True,
            "num_replicas": 1,
        }
        consumer = await self._make_consumer(client, "CREATE.{stream}", config)
        self.session = client, consumer
        self._n_delivered, self._broken = 0, ""
        question = self._link.api(f"CONSUMER.MSG.NEXT.{self.guard.stream}.{consumer}")
        request = {
            "batch": self._prefetch,
            "max_bytes": self._prefetch_bytes + client.max_payload + _SLACK,
            "expires": int(_EXPIRES * _NANO),
            "idle_heartbeat": int(_HEARTBEAT * _NANO),
        }
        while True:
            last = await self.guard.check(client)
            self._n_wanted, self._expired = self._prefetch, False
            await client.publish(question, json.dumps(request).encode(), reply=inbox)
            await self._await_messages(client)
            if self._expired:  # so whatever is not here by now is of another subject
                self.guard.scanned = last
            self._link.is_well()
            await self._await_room(client)

    async def _make_consumer(self, client: Client, how: str, config: dict[str, Any]) -> str:
        stream, subject = self.guard.stream, self.guard.subject
        if subject:
            config = {**config, "filter_subject": subject}
        what = f"CONSUMER.{how.format(stream=stream)}"
        try:
            made = await self._link.ask(client, what, stream_name=stream, config=config)
        except Refused as refusal:
            if refusal.code == NO_STREAM:
                raise Away("the stream has just been deleted") from None
            raise StreamError(
                f"NATS at {self._link.url} makes no consumer for the stream {stream!r}: {refusal}."
            ) from None
        return str(made["name"])

    async def _await_messages(self, client: Client) -> None:
        """Wait until a request is served or has expired."""
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        while self._n_wanted > 0:
            await self._await_turn(client)
            if loop.time() - self._heard_at > 2.5 * _HEARTBEAT:
                raise Away(f"the server was silent for {2.5 * _HEARTBEAT:g} s")

    async def _await_room(self, client: Client) -> None:
        while len(self._buffer) > self._prefetch // 2 or self._n_bytes > self._prefetch_bytes:
            await self._await_turn(client)

    async def _await_turn(self, client: Client) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._turn.wait()
        self._turn.clear()
        if self._error is not None:
            raise self._error
        if self._broken or client.is_closed:
            raise Away(self._broken or "the connection was closed")

    async def _hear(self, message: Message) -> None:
        """Take a message, or a word of the server about the request."""
        self._heard_at = asyncio.get_running_loop().time()
        if not message.reply.startswith("$JS.ACK."):
            self._hear_status(message.headers or {})
        elif not self._broken and self._error is None:
            sequence, delivered, time = _numbers(message.reply)
            self._n_delivered += 1
            self._n_wanted -= 1
            if self._n_delivered == 1:
                self._link.is_well()
            if delivered != self._n_delivered:
                self._broken = "messages got lost on their way"
            else:
                self._keep(message.data, sequence, time)
        if self._n_wanted <= 0 or self._broken or self._error is not None:
            self._turn.set()

    def _hear_status(self, headers: Mapping[str, str]) -> None:
        status, detail = headers.get("Status"), headers.get("Description", "")
        if status in ("404", "408"):
            self._n_wanted, self._expired = 0, True
        elif status == "409" and "MaxBytes" in detail:
            self._n_wanted = 0
        elif status != "100" and detail != "Batch Completed":
            self._broken = f"the server ended a request: {status} {detail}"

    def _keep(self, content: bytes, sequence: int, time: int) -> None:
        try:
            self.guard.arrived(sequence, time)
        except StreamError as error:
            self._error = error
            return
        name = f"{sequence}@{time}"
        record = Record(name, f"{name}+", content, time=time / _NANO)
        with self._news:
            self._buffer.append(record)
            self._n_bytes += len(content)
            self._news.notify()


def _check_retention(config: Mapping[str, Any], durable: str | None) -> None:
    if config["retention"] == "workqueue":
        raise InputError(
            f"The stream {config['name']!r} is a work queue, which cannot be read from a position; "
            "let a stream with limits take its messages as a source, and read that one."
        )
    if config["retention"] == "interest" and not durable:
        raise InputError(
            f"The stream {config['name']!r} keeps messages only while a consumer wants them; set "
            "`durable` to a name, so that it keeps them while the pipeline is down."
        )


def _numbers(reply: str) -> tuple[int, int, int]:
    """Sequence in the stream, sequence in the consumer, and time, from the subject of an ack."""
    tokens = reply.split(".")
    first = 5 if len(tokens) == 9 else 7  # a server may put domain and account in front
    return int(tokens[first]), int(tokens[first + 1]), int(tokens[first + 2])
