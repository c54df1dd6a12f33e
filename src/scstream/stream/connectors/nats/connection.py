"""A connection to NATS on the event loop of its own thread, and requests to JetStream.

A lost connection is replaced, not repaired: its user checks the stream again and continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from scstream.errors import InputError, StreamError
from scstream.io.header import Plain
from scstream.stream.connectors.outage import Outage
from scstream.stream.secrets import masked

NO_STREAM = 10059  # error codes of JetStream
_NO_MESSAGE = 10037
POLL_SECONDS = 0.25  # between two checks whether a connection is closed
_REQUEST_SECONDS = 5.0
_NAME = re.compile(r"[^\s.*>/\\]+")
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Unavailable(Exception):
    """The server cannot be reached, or cannot do what was requested at the moment."""


class JetStreamError(Exception):
    """JetStream answered with an error code."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{description} ({code})")
        self.code = code


class StreamConfig(TypedDict):
    """Settings of a stream that scstream reads."""

    name: str
    storage: str
    retention: str
    num_replicas: NotRequired[int]
    max_age: NotRequired[int]
    max_msgs: NotRequired[int]
    max_bytes: NotRequired[int]
    max_msgs_per_subject: NotRequired[int]
    discard: NotRequired[str]


class StreamState(TypedDict):
    """Sequences of the messages of a stream."""

    first_seq: int
    last_seq: int
    last_ts: NotRequired[str]
    num_deleted: NotRequired[int]
    deleted: NotRequired[list[int] | None]


class StreamInfo(TypedDict):
    """What JetStream reports about a stream."""

    config: StreamConfig
    state: StreamState
    created: str


class StoredMessage(TypedDict):
    """A message as JetStream reports it; `data` and `hdrs` are in base64."""

    seq: int
    time: str
    data: NotRequired[str]
    hdrs: NotRequired[str]


@dataclass(frozen=True)
class Server:
    """How to reach a server; `url` may name several, separated by commas."""

    url: str
    credentials: str | None = None
    domain: str | None = None
    monitor: str | None = None
    retry_timeout: float | None = None

    @property
    def address(self) -> str:
        """The address without secrets."""
        return masked(self.url)

    def __str__(self) -> str:
        return f"NATS at {self.address}"


class Connection:
    """One connection at a time to a NATS server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._outage = Outage(str(server), server.retry_timeout)
        self._work: asyncio.Task[None] | None = None
        self._is_closing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="scstream-nats", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(_log_library_error)
        self._loop.run_forever()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine on the loop; it runs until it ends or the connection is closed."""

        async def create() -> None:
            self._work = self._loop.create_task(work)

        self.run(create())

    def run(self, work: Coroutine[Any, Any, _T], timeout: float | None = None) -> _T:
        """Run a coroutine on the loop and return its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    def call_soon(self, act: Callable[[], object]) -> None:
        """Call a function on the loop; do nothing if the connection is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act)

    def close(self) -> None:
        """End everything that runs on the loop, and the thread."""
        if self._loop.is_closed():
            return
        self._is_closing = True
        with contextlib.suppress(TimeoutError):
            self.run(self._end_all(), _REQUEST_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end_all(self) -> None:
        """End the work first: it closes its connection, which ends tasks of the library."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work], timeout=_REQUEST_SECONDS / 2)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def succeeded(self) -> None:
        """Note that the server works: the next outage counts from now."""
        self._outage.ended()

    @property
    def is_available(self) -> bool:
        """Whether the server worked when it was used last."""
        return not self._outage.is_active

    def failed(self, reason: Exception) -> None:
        """Note that the server is unavailable."""
        self._outage.failed(masked(str(reason)))

    async def connect(self, on_close: Callable[[], object]) -> Client:
        """Return a new connection; repeat until that works or the timeout is over."""
        while True:
            await asyncio.sleep(self._outage.pause)
            if self._is_closing:  # the library may have swallowed the cancellation
                raise asyncio.CancelledError
            client = Client()
            try:
                await self._open(client, on_close)
            except (TimeoutError, NatsError, OSError) as error:
                await self.disconnect(client)
                if "authorization" in str(error).lower():
                    raise StreamError(
                        f"{self.server} rejects the user, password, token or credentials; correct "
                        "them."
                    ) from None
                self.failed(client.last_error or error)
            else:
                return client

    async def _open(self, client: Client, on_close: Callable[[], object]) -> None:
        async def closed() -> None:
            on_close()

        async def ignore(_: Exception) -> None:
            pass  # an error that matters closes the connection

        await client.connect(
            servers=[part.strip() for part in self.server.url.split(",")],
            name="scstream",
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=2,
            ping_interval=2,
            max_outstanding_pings=2,
            user_credentials=self.server.credentials,
            closed_cb=closed,
            error_cb=ignore,
        )

    async def disconnect(self, client: Client) -> None:
        """Close a connection, which may be broken."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(0.5):
                await client.close()

    async def request(self, client: Client, what: str, **details: Any) -> Any:
        """Send a request to JetStream; raise `JetStreamError` if it answers with an error."""
        content = json.dumps(details).encode() if details else b""
        return await self.call(client, self.api(what), content)

    async def call(
        self, client: Client, subject: str, content: bytes, headers: dict[str, str] | None = None
    ) -> Any:
        """Send a message that JetStream answers; raise `JetStreamError` if with an error."""
        request = client.request(subject, content, timeout=_REQUEST_SECONDS, headers=headers)
        answer = self._loop.create_task(request)
        try:
            while not answer.done():  # the library does not end a request when a connection ends
                await asyncio.wait([answer], timeout=POLL_SECONDS)
                if client.is_closed and not answer.done():
                    raise Unavailable("the connection was closed")
            return checked(json.loads(answer.result().data))
        except NoRespondersError:
            raise Unavailable("JetStream does not answer; is it enabled on the server?") from None
        except (TimeoutError, NatsError, OSError) as error:
            raise Unavailable(f"no answer to {subject}: {error!r}") from None
        finally:
            answer.cancel()

    async def stream(self, client: Client, name: str, **details: Any) -> StreamInfo:
        """Return what JetStream reports about a stream."""
        info: StreamInfo = await self.request(client, f"STREAM.INFO.{name}", **details)
        return info

    async def sequence_at(self, client: Client, stream: str, seconds: float) -> int:
        """Return the sequence of the first message that is not older, or after the last one.

        Only a consumer can be asked for that; it ends at once.
        """
        config = {
            "deliver_policy": "by_start_time",
            "opt_start_time": datetime.fromtimestamp(seconds, UTC).isoformat(),
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
        }
        consumer = await self.request(
            client, f"CONSUMER.CREATE.{stream}", stream_name=stream, config=config
        )
        await self.request(client, f"CONSUMER.DELETE.{stream}.{consumer['name']}")
        return int(consumer["delivered"]["stream_seq"]) + 1

    async def message(self, client: Client, name: str, **which: Any) -> StoredMessage | None:
        """Return one message of a stream, None if it does not exist."""
        try:
            found = await self.request(client, f"STREAM.MSG.GET.{name}", **which)
        except JetStreamError as error:
            if error.code == _NO_MESSAGE:
                return None
            raise
        message: StoredMessage = found["message"]
        return message

    async def fetch(self, client: Client, consumer: str, *, max_n: int) -> list[Msg]:
        """Return up to `max_n` messages that a consumer ("stream.name") has ready."""
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        request = json.dumps({"batch": max_n, "no_wait": True}).encode()
        await client.publish(self.api(f"CONSUMER.MSG.NEXT.{consumer}"), request, reply=inbox)
        messages: list[Msg] = []
        try:
            while len(messages) < max_n:
                message = await subscription.next_msg(timeout=_REQUEST_SECONDS)
                if not message.reply:  # a status: there are no more messages
                    break
                messages.append(message)
            await subscription.unsubscribe()
        except (TimeoutError, NatsError, OSError) as error:
            raise Unavailable(f"no messages of {consumer}: {error!r}") from None
        return messages

    def api(self, what: str) -> str:
        """Return the subject of a JetStream request."""
        domain = self.server.domain
        return f"$JS.{domain}.API.{what}" if domain else f"$JS.API.{what}"


def _log_library_error(_: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
    """Log tasks that the library abandons when a connection breaks."""
    _log.debug("in the NATS library: %s", masked(str(context.get("message"))))


def checked(response: Plain) -> Plain:
    """Return a response without an error; a temporary error (503) counts as unavailable."""
    error = response.get("error")
    if error is None:
        return response
    if error.get("code") == 503:
        raise Unavailable(str(error.get("description")))
    raise JetStreamError(int(error.get("err_code", 0)), str(error.get("description")))


def checked_name(name: str) -> str:
    """Return the name of a stream or consumer if it is valid."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a NATS stream or consumer; remove spaces, dots, "
            "slashes, * and >."
        )
    return name


def checked_subject(subject: str) -> str:
    """Return a subject if it is valid."""
    if not subject or any(map(str.isspace, subject)):
        raise InputError(f"{subject!r} cannot be a NATS subject; remove spaces.")
    return subject


def nanoseconds(time: str) -> int:
    """Return a time of JetStream in nanoseconds since 1970; `datetime` keeps microseconds only."""
    seconds_text, _, fraction = time.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{seconds_text}+00:00").timestamp())
    return seconds * 10**9 + int(fraction.ljust(9, "0") or 0)
