"""Deliveries as messages on a subject of a JetStream stream, each of them once."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from scstream.errors import InputError, SinkError, StreamError
from scstream.stream.connectors.nats.doctor import findings
from scstream.stream.connectors.nats.link import (
    NO_STREAM,
    POLL_SECONDS,
    Away,
    Client,
    Link,
    Message,
    NatsError,
    Refused,
    checked,
    checked_stream,
    checked_subject,
)
from scstream.stream.findings import Finding
from scstream.stream.messages import writer
from scstream.stream.secrets import masked
from scstream.stream.sink import Delivery, SinkPosition

Format = Literal["arrow", "columns", "json"]

_ID = re.compile(r"([^/]+)/(\d+)(?:/(\d+))?")
_WAITING_BYTES = 64 << 20  # most that waits here before `write` blocks
_FLYING = 512  # most messages that are sent and not confirmed
_FLYING_BYTES = 4 << 20
_ANSWER_SECONDS = 5.0
_OUT_OF_TURN = {10070, 10071, 10158, 10164}  # another message is the last one than we thought
_FULL = {10028, 10047}  # no memory or storage at the moment
_HEADERS = 512  # bytes that our headers take at most
_WHOLE = -1  # index of a message that holds a whole delivery


@dataclass(frozen=True)
class _Post:
    """A message: whose it is, which one, and its content."""

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
    """The last message of the subject that is known to be there."""

    sequence: int = 0
    id: str = ""


class NatsSink:
    """A subject of a JetStream stream that nobody else writes to.

    Every message has the header `Nats-Msg-Id`, "job/batch/index" in the format "json" and
    "job/batch" in the others, and names the message that must be the last one before it. So the
    server refuses what is out of order or there already, for ever and not only within its window
    for duplicates. After an outage or a restart the sink looks at the end of the subject, and goes
    on behind it. Other subjects of the stream may have other writers, but then fewer messages can
    be under way at a time; a stream of its own is faster.

    Parameters
    ----------
    url : str
        Address of a server, "nats://user:password@host:4222", or several with commas between.
    stream : str
        Name of the stream.
    subject : str
        Where to publish; it belongs to the stream.
    format : {"arrow", "columns", "json"}
        A message is a delivery as an Arrow stream or as JSON columns, or a row as a JSON object.
    create : bool
        Make the stream, on disk and without limits, if it does not exist.
    accept_loss : bool
        Go on where the server has lost messages of ours that it had confirmed.
    patience : float, optional
        Seconds that a server that is away is waited for; by default for ever.
    credentials : str, optional
        Path of a file of credentials.
    domain : str, optional
        JetStream domain.
    monitor : str, optional
        Address of the monitor of the server, "http://host:8222", for `doctor`.

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
        format: Format = "arrow",
        create: bool = False,
        accept_loss: bool = False,
        patience: float | None = None,
        credentials: str | None = None,
        domain: str | None = None,
        monitor: str | None = None,
    ) -> None:
        if set("*>") & set(subject):
            raise InputError(f"{subject!r} has wildcards; a sink publishes on one subject.")
        if format not in ("arrow", "columns", "json"):
            raise InputError(f"format is {format!r}; choose 'arrow', 'columns' or 'json'.")
        self.stream = checked_stream(stream)
        self.subject = checked_subject(subject)
        self._write = writer(format)
        self._by_row = format == "json"
        self._create = create
        self._accept_loss = accept_loss
        self._url = url
        self._patience = patience
        self._access = {"credentials": credentials, "domain": domain}
        self._monitor = monitor
        self._link: Link | None = None
        self._outbox: _Outbox | None = None

    def __repr__(self) -> str:
        return f"NatsSink({masked(self._url)!r}, {self.stream!r}, {self.subject!r})"

    def open(self, position: SinkPosition | None) -> None:
        """Connect, and look which messages behind `position` are there."""
        self.close()
        self._link = Link(self._url, patience=self._patience, **self._access)
        outbox = _Outbox(self._link, self.stream, self.subject, position or {})
        outbox.create, outbox.accept_loss = self._create, self._accept_loss
        ready: Future[None] = Future()
        self._link.begin(outbox.pump(ready))
        try:
            ready.result()
        except BaseException:
            self.close()
            raise
        self._outbox = outbox

    def write(self, delivery: Delivery) -> None:
        """Send the messages of a delivery, without waiting for the server to confirm them."""
        self._open_outbox().add(self._posts(delivery))

    def flush(self) -> SinkPosition:
        """Wait until the server has confirmed everything."""
        return self._open_outbox().flush()

    def close(self) -> None:
        """Disconnect; a `write` or `flush` that waits ends with an error."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def doctor(self) -> list[Finding]:
        """Say what a confirmation of the server means."""
        return findings(self._url, self.stream, role="sink", monitor=self._monitor, **self._access)

    def _open_outbox(self) -> _Outbox:
        if self._outbox is None:
            raise StreamError(f"{self!r} is not open; call `open` first.")
        return self._outbox

    def _posts(self, delivery: Delivery) -> list[_Post]:
        job, batch, contents = delivery.job, delivery.batch, self._write(delivery)
        if "/" in job:
            raise SinkError(f"The name of the job {job!r} has a slash; choose one without.")
        if not self._by_row:
            return [_Post(job, batch, _WHOLE, content) for content in contents]
        indices = np.asarray(delivery.columns["index"])
        if np.any(indices[1:] <= indices[:-1]):
            raise SinkError(f"Batch {batch} of {job!r} has rows that are not in order of `index`.")
        return [
            _Post(job, batch, index, content)
            for index, content in zip(indices.tolist(), contents, strict=True)
        ]


class _Outbox:
    """Publishes posts in order on the loop of the link, many at a time."""

    def __init__(self, link: Link, stream: str, subject: str, position: Mapping[str, Any]) -> None:
        self.create = False
        self.accept_loss = False
        self._link = link
        self._stream = stream
        self._subject = subject
        self._created = position.get("created", "")
        self._done = _End(position.get("sequence", 0), position.get("id", ""))  # confirmed
        self._there = _End()  # the last one on the subject when we looked
        self._is_skipping = False  # whether posts may be there already
        self._contents: dict[str, bytes] = {}  # of some of those, by id
        self._last = 0  # sequence of the last message on the subject
        self._waiting: deque[_Post] = deque()
        self._flying: deque[tuple[int, _Post]] = deque()
        self._n_bytes = 0  # of both
        self._n_flying_bytes = 0
        self._n_sent = 0
        self._most_flying = _FLYING
        self._news = threading.Condition()
        self._error: BaseException | None = None
        self._refusal: Exception | None = None
        self._turn = asyncio.Event()
        self._heard_at = 0.0

    def add(self, posts: list[_Post]) -> None:
        """Queue posts; wait while too much is queued."""
        with self._news:
            self._await(lambda: self._n_bytes < _WAITING_BYTES)
            self._waiting.extend(posts)
            self._n_bytes += sum(len(post.content) for post in posts)
        self._link.soon(self._turn.set)

    def flush(self) -> SinkPosition:
        """Wait until nothing is queued."""
        with self._news:
            self._await(lambda: not self._waiting and not self._flying)
            done = self._done
        return {"created": self._created, "sequence": done.sequence, "id": done.id}

    def _await(self, is_so: Any) -> None:
        self._news.wait_for(lambda: self._error or is_so())
        if self._error is not None:
            raise self._error

    async def pump(self, ready: Future[None]) -> None:
        """Connect, look, publish; again after every outage, until something is wrong."""
        try:
            while True:
                client = await self._link.connect(self._turn.set)
                try:
                    await self._look_back(client)
                    if not ready.done():
                        ready.set_result(None)
                    await self._publish(client)
                except (Away, NatsError, OSError) as away:
                    self._link.went_away(away)
                finally:
                    await self._link.leave(client)
        except asyncio.CancelledError:
            self._fail(StreamError("The sink was closed."), ready)
        except BaseException as error:
            self._fail(error, ready)

    def _fail(self, error: BaseException, ready: Future[None]) -> None:
        with self._news:
            self._error = error
            self._news.notify_all()
        if not ready.done():
            ready.set_exception(error)

    async def _look_back(self, client: Client) -> None:
        """See where the subject ends, and take back what was sent and not confirmed."""
        with self._news:
            self._waiting.extendleft(post for _, post in reversed(self._flying))
            self._flying.clear()
        self._n_flying_bytes = 0
        self._refusal = None
        info = await self._survey(client)
        last = await self._link.message(client, self._stream, last_by_subj=self._subject)
        self._there = _end(last)
        self._last = self._there.sequence
        self._check_loss(info)
        self._contents = {}
        self._is_skipping = self._there.sequence > self._done.sequence
        if last is not None and self._is_skipping:
            after = {"seq": self._done.sequence + 1, "next_by_subj": self._subject}
            first = await self._link.message(client, self._stream, **after) or last
            self._contents = {_end(found).id: _content(found) for found in (first, last)}

    async def _survey(self, client: Client) -> dict[str, Any]:
        try:
            return await self._link.stream(client, self._stream)
        except Refused as refusal:
            if refusal.code != NO_STREAM:
                raise SinkError(f"{self._where} cannot be written: {refusal}.") from None
        if not self.create:
            raise SinkError(f"{self._where} does not exist; create it, or set `create`.")
        config = {"name": self._stream, "subjects": [self._subject], "storage": "file"}
        try:
            return await self._link.ask(client, f"STREAM.CREATE.{self._stream}", **config)
        except Refused as refusal:
            raise SinkError(f"{self._where} cannot be created: {refusal}.") from None

    def _check_loss(self, info: Mapping[str, Any]) -> None:
        """Raise if a message that was confirmed is neither there nor removed in an orderly way."""
        state, done = info["state"], self._done.sequence
        is_new = self._created not in ("", info["created"])
        was_removed = state["first_seq"] > done and state["last_seq"] >= done
        is_lost = is_new or (done > self._there.sequence and not was_removed)
        if is_lost and not self.accept_loss:
            raise SinkError(
                f"{self._where} has lost messages: it had confirmed {self._done.id!r} as number "
                f"{done}, and ends on {self._subject!r} at number {self._there.sequence} now. "
                "Bring them back, or set `accept_loss` to go on without them."
            )
        if is_lost:
            self._done = _End(self._there.sequence, self._done.id)
        self._created = info["created"]

    @property
    def _where(self) -> str:
        return f"The stream {self._stream!r} of NATS at {self._link.url}"

    async def _publish(self, client: Client) -> None:
        """Send what waits, as far ahead of the confirmations as the window allows."""
        inbox = client.new_inbox()
        await client.subscribe(f"{inbox}.*", cb=self._hear, pending_msgs_limit=0)
        loop = asyncio.get_running_loop()
        while True:
            self._skip_what_is_there()
            await self._send(client, inbox)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._turn.wait()
            self._turn.clear()
            if client.is_closed:
                raise Away("the connection was closed")
            if self._flying and loop.time() - self._heard_at > _ANSWER_SECONDS:
                raise Away(f"no confirmation for {_ANSWER_SECONDS:g} s")
            if self._refusal is not None:
                await self._heed(client, self._refusal)

    def _skip_what_is_there(self) -> None:
        """Drop posts that the subject holds already; if others are there, it is not our subject."""
        if not self._is_skipping or not self._waiting:
            return
        there, match = self._there, _ID.fullmatch(self._there.id)
        first = self._waiting[0]
        if match is None or match[1] != first.job:
            raise self._foreign(f"the id of message {there.sequence} there is {there.id!r}")
        if (match[3] is None) != (first.index == _WHOLE):
            raise self._foreign(f"{there.id!r} there was written in another format")
        end = int(match[2]), int(match[3] or _WHOLE)
        with self._news:
            while self._waiting and self._waiting[0].key <= end:
                post = self._waiting[0]
                if self._contents.get(post.id, post.content) != post.content:
                    raise self._foreign(f"{post.id!r} there has another content")
                self._waiting.popleft()  # not before: `flush` may look as soon as it can
                self._n_bytes -= len(post.content)
                self._done = there if post.id == there.id else _End(self._done.sequence, post.id)
            self._news.notify_all()
        if self._waiting:
            self._done, self._is_skipping = there, False

    def _foreign(self, what: str) -> SinkError:
        return SinkError(
            f"The subject {self._subject!r} of NATS at {self._link.url} holds what this pipeline "
            f"did not write: {what}. Give every job a subject of its own, or purge the subject."
        )

    async def _send(self, client: Client, inbox: str) -> None:
        while self._waiting and self._has_room and self._refusal is None:
            with self._news:
                post = self._waiting.popleft()
                headers = {"Nats-Msg-Id": post.id, "Nats-Expected-Stream": self._stream}
                if self._flying:
                    headers["Nats-Expected-Last-Msg-Id"] = self._flying[-1][1].id
                else:
                    headers["Nats-Expected-Last-Subject-Sequence"] = str(self._last)
                    self._heard_at = asyncio.get_running_loop().time()
                self._n_sent += 1
                self._flying.append((self._n_sent, post))
            self._n_flying_bytes += len(post.content)
            if len(post.content) + _HEADERS > client.max_payload:
                raise SinkError(
                    f"The message {post.id!r} has {len(post.content)} bytes, and NATS at "
                    f"{self._link.url} takes {client.max_payload - _HEADERS}; make batches smaller "
                    "or max_payload of the server larger."
                )
            reply = f"{inbox}.{self._n_sent}"
            await client.publish(self._subject, post.content, reply=reply, headers=headers)

    @property
    def _has_room(self) -> bool:
        return len(self._flying) < self._most_flying and self._n_flying_bytes < _FLYING_BYTES

    async def _hear(self, message: Message) -> None:
        """Note a confirmation, which also stands for all before it, or a refusal."""
        number = int(message.subject.rpartition(".")[2])
        if not self._flying or number < self._flying[0][0]:
            return  # of posts that were taken back
        self._heard_at = asyncio.get_running_loop().time()
        try:
            if not message.data:
                raise Away(f"nothing listens on {self._subject!r}")
            self._confirm(number, int(checked(json.loads(message.data))["seq"]))
        except (Away, Refused) as refusal:
            self._refusal = refusal
            self._turn.set()

    def _confirm(self, number: int, sequence: int) -> None:
        with self._news:
            while self._flying and self._flying[0][0] <= number:
                post = self._flying.popleft()[1]
                self._n_bytes -= len(post.content)
                self._n_flying_bytes -= len(post.content)
                self._done = _End(sequence, post.id)
            self._last = max(self._last, sequence)
            self._news.notify_all()
        self._link.is_well()
        if not self._flying:
            self._most_flying = min(_FLYING, 2 * self._most_flying)
        if len(self._flying) <= self._most_flying // 2:
            self._turn.set()

    async def _heed(self, client: Client, refusal: Exception) -> None:
        """Look again, wait, or give up, as the server wants it."""
        if isinstance(refusal, Away):
            raise refusal
        code = refusal.code if isinstance(refusal, Refused) else 0
        if code in _FULL:
            raise Away(f"{self._where} has no room: {refusal}")
        if code not in _OUT_OF_TURN:
            raise SinkError(f"{self._where} refuses {self._flying[0][1].id!r}: {refusal}.")
        self._most_flying = max(1, self._most_flying // 2)
        await self._look_back(client)


def _end(message: Mapping[str, Any] | None) -> _End:
    if message is None:
        return _End()
    headers = base64.b64decode(message.get("hdrs", "")).decode(errors="replace").splitlines()
    ids = [line.partition(":")[2].strip() for line in headers if line.startswith("Nats-Msg-Id:")]
    return _End(int(message["seq"]), ids[0] if ids else "")


def _content(message: Mapping[str, Any]) -> bytes:
    return base64.b64decode(message.get("data", ""))
