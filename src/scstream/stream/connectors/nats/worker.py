"""What the NATS source and sink do on the event loop: connect, work, and again after an outage."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from typing import Generic, TypeVar

from nats.aio.client import Client
from nats.errors import Error as NatsError

from scstream.errors import StreamError
from scstream.stream.connectors.nats.connection import (
    POLL_SECONDS,
    Connection,
    Server,
    Unavailable,
)


class Worker:
    """Work on a connection that is made again after every outage, until an error ends it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changed = threading.Condition()  # protects what the loop shares with other threads
        self._wakeup = asyncio.Event()  # something happened that the loop waits for
        self._error: BaseException | None = None
        self._received_at = 0.0  # when the server sent something last

    def start(self) -> None:
        """Start on the loop, and wait until the first connection works."""
        ready: Future[None] = Future()
        self._connection.start(self._run(ready))
        ready.result()

    async def _check(self, client: Client, *, is_first: bool) -> None:
        """Check the stream on a new connection."""
        raise NotImplementedError

    async def _work(self, client: Client) -> None:
        """Work until the connection is lost."""
        raise NotImplementedError

    async def _run(self, ready: Future[None]) -> None:
        try:
            while True:
                client = await self._connection.connect(self._wakeup.set)
                try:
                    await self._check(client, is_first=not ready.done())
                    if not ready.done():
                        ready.set_result(None)
                    await self._work(client)
                except (Unavailable, NatsError, OSError) as reason:
                    self._connection.failed(reason)
                finally:
                    await self._connection.disconnect(client)
        except asyncio.CancelledError:
            self._fail(StreamError("The connection to NATS was closed."), ready)
        except BaseException as error:
            self._fail(error, ready)

    def _fail(self, error: BaseException, ready: Future[None]) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()
        if not ready.done():
            ready.set_exception(error)

    async def _wait(self, client: Client) -> None:
        """Wait until something happens; raise if the connection is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._wakeup.wait()
        self._wakeup.clear()
        if self._error is not None:
            raise self._error
        if client.is_closed:
            raise Unavailable("the connection was closed")


W = TypeVar("W", bound=Worker)


class StreamClient(Generic[W]):
    """What the source and the sink of a stream share: a connection and its worker while open."""

    def __init__(self, server: Server, stream: str) -> None:
        self.stream = stream
        self._server = server
        self._connection: Connection | None = None
        self._worker: W | None = None

    def _start(self, worker: W) -> None:
        self._worker = worker
        try:
            worker.start()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Connection:
        self.close()
        self._connection = Connection(self._server)
        return self._connection

    def _open_worker(self) -> W:
        if self._worker is None:
            raise StreamError(f"{self!r} is not open; call `open` first.")
        return self._worker

    @property
    def connected(self) -> bool | None:
        """Whether the server worked when it was used last; None if this is not open."""
        connection = self._connection
        return None if connection is None else connection.is_available

    def close(self) -> None:
        """Disconnect; a call that waits ends with an error."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
