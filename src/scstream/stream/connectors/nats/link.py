"""A connection to NATS that lives on the loop of a thread of its own, and questions to JetStream.

A connection that is lost is not mended but replaced: whoever uses it looks again where it stands,
and goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, TypeVar

from scstream.errors import InputError, StreamError, missing_extra
from scstream.stream.secrets import masked

try:
    from nats.aio.client import Client
    from nats.aio.msg import Msg as Message
    from nats.errors import Error as NatsError
    from nats.errors import NoRespondersError
except ImportError as error:
    raise missing_extra("nats-py", "nats") from error

__all__ = [
    "NO_STREAM",
    "POLL_SECONDS",
    "Away",
    "Client",
    "Link",
    "Message",
    "NatsError",
    "Refused",
    "checked",
    "checked_stream",
    "checked_subject",
    "nanoseconds",
]

NO_STREAM = 10059  # error codes of JetStream
_NO_MESSAGE = 10037
POLL_SECONDS = 0.25  # between two looks whether a connection is closed
_ANSWER_SECONDS = 5.0
_PING_SECONDS = 2
_LONGEST_PAUSE = 2.0
_NAME = re.compile(r"[^\s.*>/\\]+")
_SUBJECT = re.compile(r"[^\s]+")
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Away(Exception):
    """The server, or the way to it, is gone for now."""


class Refused(Exception):
    """JetStream answered with an error, which has a code."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{description} ({code})")
        self.code = code


class Link:
    """One connection at a time to a NATS server, on a thread of its own.

    Parameters
    ----------
    url : str
        Address of a server, or several with commas between.
    credentials : str or None
        Path of a file of credentials.
    domain : str or None
        JetStream domain.
    patience : float or None
        Seconds that a server that is away is waited for; None for ever.
    """

    def __init__(
        self,
        url: str,
        *,
        credentials: str | None = None,
        domain: str | None = None,
        patience: float | None = None,
    ) -> None:
        self.url = masked(url)
        self._servers = [part.strip() for part in url.split(",")]
        self._credentials = credentials
        self._api = f"$JS.{domain}.API" if domain else "$JS.API"
        self._patience = patience
        self._n_failures = 0
        self._well_at = 0.0
        self._reason: Exception | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_closing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="scstream-nats", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(_note)
        self._well_at = self._loop.time()
        self._loop.run_forever()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Let a coroutine run on the loop until it ends or the link is closed."""

        async def start() -> None:
            self._work = self._loop.create_task(work)

        self.run(start())

    def run(self, work: Coroutine[Any, Any, _T], timeout: float | None = None) -> _T:
        """Run a coroutine on the loop and wait for what it returns."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    def soon(self, act: Callable[[], object]) -> None:
        """Do something on the loop; nothing if the link is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act)

    def close(self) -> None:
        """End everything that runs on the loop, and the thread."""
        if self._loop.is_closed():
            return
        self._is_closing = True
        with contextlib.suppress(TimeoutError):
            self.run(self._end_all(), _ANSWER_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end_all(self) -> None:
        """End the work first: it closes its connection, which ends tasks of the library."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work], timeout=_ANSWER_SECONDS / 2)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def is_well(self) -> None:
        """Note that the server does what it is there for: the next outage counts from now."""
        if self._n_failures > 1:
            _log.info("NATS at %s answers again", self.url)
        self._n_failures = 0
        self._well_at = self._loop.time()

    def went_away(self, reason: Exception) -> None:
        """Note an outage; say so once."""
        self._reason = reason
        if self._n_failures == 1:
            _log.warning("waiting for NATS at %s: %s", self.url, masked(str(reason)))

    async def connect(self, on_close: Callable[[], object]) -> Client:
        """Return a new connection, however long that takes, or raise when patience ends."""
        while True:
            await self._pause()
            if self._is_closing:  # the library may have swallowed the cancellation
                raise asyncio.CancelledError
            client = Client()
            try:
                await self._try(client, on_close)
            except (TimeoutError, NatsError, OSError) as error:
                await self.leave(client)
                reason = client.last_error or error
                if "authorization" in str(error).lower():
                    raise StreamError(
                        f"NATS at {self.url} refuses the user, password, token or credentials "
                        "that it was given; correct them."
                    ) from None
                self.went_away(reason)
            else:
                return client

    async def _try(self, client: Client, on_close: Callable[[], object]) -> None:
        async def closed() -> None:
            on_close()

        async def erred(_: Exception) -> None:
            pass  # what matters ends the connection, and `closed` is told

        await client.connect(
            servers=self._servers,
            name="scstream",
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=2,
            ping_interval=_PING_SECONDS,
            max_outstanding_pings=2,
            user_credentials=self._credentials,
            closed_cb=closed,
            error_cb=erred,
        )

    async def _pause(self) -> None:
        """Wait the longer, the more often it failed since the server was well."""
        self._n_failures += 1
        if self._n_failures == 1:
            return
        waited = self._loop.time() - self._well_at
        if self._patience is not None and waited > self._patience:
            raise StreamError(
                f"NATS at {self.url} has not served us for {waited:.0f} s: "
                f"{masked(str(self._reason))}. Start it, check the address, or give it what it "
                "lacks."
            )
        await asyncio.sleep(min(_LONGEST_PAUSE, 0.02 * 2**self._n_failures))

    async def leave(self, client: Client) -> None:
        """Close a connection, which may be beyond saving."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(0.5):
                await client.close()

    async def ask(self, client: Client, what: str, **details: Any) -> dict[str, Any]:
        """Ask JetStream something; raise `Refused` if it answers with an error."""
        content = json.dumps(details).encode() if details else b""
        request = client.request(f"{self._api}.{what}", content, timeout=_ANSWER_SECONDS)
        answer = self._loop.create_task(request)
        try:
            while not answer.done():  # the library does not end a request when a connection ends
                await asyncio.wait([answer], timeout=POLL_SECONDS)
                if client.is_closed and not answer.done():
                    raise Away("the connection was closed")
            return checked(json.loads(answer.result().data))
        except NoRespondersError:
            raise Away("JetStream does not answer; is it enabled on the server?") from None
        except (TimeoutError, NatsError, OSError) as error:
            raise Away(f"no answer to {what}: {error!r}") from None
        finally:
            answer.cancel()

    async def stream(self, client: Client, name: str, **details: Any) -> dict[str, Any]:
        """What JetStream says about a stream."""
        return await self.ask(client, f"STREAM.INFO.{name}", **details)

    async def message(self, client: Client, name: str, **which: Any) -> dict[str, Any] | None:
        """One message of a stream, None if it is not there."""
        try:
            found = await self.ask(client, f"STREAM.MSG.GET.{name}", **which)
        except Refused as refusal:
            if refusal.code == _NO_MESSAGE:
                return None
            raise
        message: dict[str, Any] = found["message"]
        return message

    async def fetch(self, client: Client, consumer: str, *, max_n: int) -> list[Message]:
        """Messages that a consumer ("stream.name") has ready, at most so many."""
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        request = json.dumps({"batch": max_n, "no_wait": True}).encode()
        await client.publish(self.api(f"CONSUMER.MSG.NEXT.{consumer}"), request, reply=inbox)
        messages: list[Message] = []
        try:
            while len(messages) < max_n:
                message = await subscription.next_msg(timeout=_ANSWER_SECONDS)
                if not message.reply:  # a status: there are no more
                    break
                messages.append(message)
            await subscription.unsubscribe()
        except (TimeoutError, NatsError, OSError) as error:
            raise Away(f"no messages of {consumer}: {error!r}") from None
        return messages

    def api(self, what: str) -> str:
        """Subject of a question."""
        return f"{self._api}.{what}"


def _note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say quietly what the library leaves lying about when a connection breaks."""
    _log.debug("in the NATS library: %s", masked(str(context.get("message"))))


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer that is no error; one that passes (503: no leader, say) counts as away."""
    error = answer.get("error")
    if error is None:
        return answer
    if error.get("code") == 503:
        raise Away(str(error.get("description")))
    raise Refused(int(error.get("err_code", 0)), str(error.get("description")))


def checked_stream(stream: str) -> str:
    """Return the name of a stream if it can be one."""
    if not _NAME.fullmatch(stream):
        raise InputError(
            f"{stream!r} cannot be the name of a NATS stream; leave out spaces, dots, slashes, "
            "* and >."
        )
    return stream


def checked_subject(subject: str) -> str:
    """Return a subject if it can be one."""
    if not _SUBJECT.fullmatch(subject):
        raise InputError(f"{subject!r} cannot be a NATS subject; leave out spaces.")
    return subject


def nanoseconds(time: str) -> int:
    """Return a time as JetStream writes it in nanoseconds since 1970, all of them.

    Examples
    --------
    >>> nanoseconds("1970-01-01T00:00:01.5Z")
    1500000000
    """
    whole, _, fraction = time.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 10**9 + int(fraction.ljust(9, "0") or 0)
