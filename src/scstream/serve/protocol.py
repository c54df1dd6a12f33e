"""Connections with bounds: so many, heads of requests so long, and in time."""

from __future__ import annotations

import asyncio
from typing import Any

from scstream.errors import missing_extra
from scstream.serve.refusals import Refusal
from scstream.serve.settings import ServiceSettings

try:
    import httptools
    import uvicorn
    from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
except ImportError as error:
    raise missing_extra("uvicorn", "serve") from error

_DISCARDED = 2**20  # bytes that are still read of a connection that is refused
_LINGERING = 1.0  # seconds
_CORK_BYTES = 2**16


class BoundedConfig(uvicorn.Config):
    """What uvicorn is told, with the limits of the service.

    Examples
    --------
    >>> from scstream.serve.protocol import BoundedConfig
    >>> from scstream.serve.settings import ServiceSettings
    >>> BoundedConfig(print, ServiceSettings(idle_seconds=5.0)).timeout_keep_alive
    5.0
    """

    def __init__(self, app: Any, settings: ServiceSettings) -> None:
        self.bounds = settings
        super().__init__(
            app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=settings.proxy,
            server_header=False,
            timeout_keep_alive=settings.idle_seconds,  # type: ignore[arg-type]
            timeout_graceful_shutdown=settings.patience,  # type: ignore[arg-type]
        )


class Corked:
    """A transport that writes once for all that was answered in a turn of the event loop.

    A head and its body go out together, and clients that asked at the same time are woken up at
    the same time: to wake somebody up takes longer than to write.
    """

    def __init__(self, below: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._below = below
        self._loop = loop
        self._waiting: list[bytes] = []
        self._n_bytes = 0
        self.is_closing = below.is_closing

    def write(self, content: bytes) -> None:
        """Write at the end of the turn, or now if it is much."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(content)
        self._n_bytes += len(content)
        if self._n_bytes > _CORK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            content = b"".join(self._waiting)
            self._waiting.clear()
            self._n_bytes = 0
            self._below.write(content)

    def close(self) -> None:
        """Write what waits, and close the connection."""
        self.flush()
        self._below.close()

    def write_eof(self) -> None:
        """Write what waits, and nothing more."""
        self.flush()
        self._below.write_eof()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose requests arrive in time and with heads that are not too long.

    The parser below keeps a head in memory until it is whole, however long that takes.
    """

    def __init__(self, config: BoundedConfig, *args: Any, **named: Any) -> None:
        super().__init__(config, *args, **named)
        self._bounds = config.bounds
        self._in_head = False
        self._in_body = False
        self._head_bytes = 0  # of which it is not known how many belong to a body
        self._arrived = 0
        self._due: asyncio.TimerHandle | None = None  # the rest of the head, or of the body
        self._stalled: asyncio.TimerHandle | None = None  # until the client reads on
        self._refused: int | None = None  # bytes that came after the connection was refused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection if there is room for it."""
        super().connection_made(Corked(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > self._bounds.connections:
            self._refuse("Busy", "there are too many connections; come again later.")
        else:
            self._expect_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._expect_nothing()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, as long as the head of the request is not too long."""
        if self._refused is not None:
            self._refused += len(data)
            if self._refused > _DISCARDED:
                self.transport.close()
            return
        self._arrived = len(data)
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._bounds.header_bytes:
                self._refuse_head()
        if self._due is None and (self._in_head or self._in_body):
            self._expect_more()

    def pause_writing(self) -> None:
        """Wait for a client that does not read its answer, but not for ever."""
        super().pause_writing()
        seconds = self._bounds.answer_seconds
        self._stalled = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with the answer."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Begin to answer, or refuse a head that came at once and is too long."""
        self._in_head, self._in_body = False, True
        self._expect_nothing()
        if self._head_bytes + self._arrived > self._bounds.header_bytes < self._head_length():
            self._refuse_head()
            raise httptools.HttpParserError("the head of the request is too long")
        super().on_headers_complete()

    def _head_length(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body; one that comes at once is not copied."""
        if self.cycle.body or self.cycle.response_complete or len(body) > HIGH_WATER_LIMIT:
            super().on_body(body)
            return
        self.cycle.body = body  # type: ignore[assignment]
        self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        """End the body."""
        self._in_body = False
        self._expect_nothing()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Say that this is no request."""
        self._refuse("NotHttp", "this is no request of HTTP/1.1; see GET /docs.")

    def _refuse_head(self) -> None:
        max_n = self._bounds.header_bytes
        detail = f"address and headers have more than {max_n} bytes; send less of them."
        self._refuse("HeadTooLarge", detail)

    def _refuse(self, error: str, detail: str) -> None:
        """Say no on behalf of the application, and read no more requests."""
        if self.transport.is_closing() or self._refused is not None:
            return
        self._refused = 0
        self._in_head = self._in_body = False
        self._expect_nothing()
        refusal = Refusal(error, detail)
        self.transport.write(
            STATUS_LINE[refusal.status]
            + b"content-type: application/json\r\nconnection: close\r\n"
            + b"content-length: %d\r\n\r\n" % len(refusal.content)
            + refusal.content
        )
        # Who still sends would miss the answer if the connection were closed at once.
        self.transport.write_eof()
        self.loop.call_later(_LINGERING, self.transport.close)

    def _expect_more(self) -> None:
        self._due = self.loop.call_later(self._bounds.body_seconds, self._late)

    def _expect_nothing(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _late(self) -> None:
        """Refuse what is not here in time, unless it is being answered all the same."""
        self._due = None
        if self._in_body:
            if self.cycle.response_started:
                return
            self.cycle.disconnected = True  # as if the client had left: the application lets go
            self.cycle.message_event.set()
        seconds = self._bounds.body_seconds
        detail = f"the request did not arrive within {seconds:g} s; send it again."
        self._refuse("TooSlow", detail)
