"""The HTTP server of the service and of the HTTP source: uvicorn with bounded request heads.

Limits on slow clients and on the rate of requests belong into the proxy in front (deploy/nginx).
The limits here protect the memory of the process, and the connections of other clients.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Self

from scstream.errors import StreamError, missing_extra

try:
    import httptools
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
except ImportError as error:
    raise missing_extra("uvicorn", "http") from error

BODY_COMPLETE = "scstream.body_complete"  # key of the scope of a request
MAX_HEAD_BYTES = 2**15  # address and headers of a request
_LINGER_SECONDS = 1.0  # a rejected client that is still sending needs this time to read the answer
_LINGER_BYTES = 2**20
_START_SECONDS = 10.0
_SURPLUS_SECONDS = 2.0  # that a connection beyond the limit of its address stays open
_PER_TURN = 4  # requests that begin in one turn of the event loop
PROBES = frozenset({b"/healthz", b"/readyz"})  # answered when all connections are taken


class HttpConfig(uvicorn.Config):
    """The configuration of uvicorn: no log, no WebSocket, bounded connections and heads."""

    def __init__(
        self,
        app: Any,
        *,
        max_connections: int,
        shutdown_seconds: float,
        idle_seconds: float = 60.0,
        behind_proxy: bool = False,
        max_per_client: int | None = None,
    ) -> None:
        self.max_per_client = max_per_client
        self.n_of_client: Counter[str] = Counter()  # connections by address
        self.n_surplus = 0  # connections beyond the limit of their address
        super().__init__(
            Paced(app),
            loop="asyncio",  # uvloop accepts no connections while hundreds of others are busy
            http=HttpProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=behind_proxy,
            server_header=False,
            limit_concurrency=max_connections + 1,  # uvicorn counts the connection that asks, too
            timeout_keep_alive=idle_seconds,  # type: ignore[arg-type]
            timeout_graceful_shutdown=shutdown_seconds,  # type: ignore[arg-type]
        )


class Paced:
    """An ASGI application of which a few requests begin in each turn of the event loop, in order.

    Between two turns the loop accepts connections and answers probes: without this, a probe waits
    until all requests that have arrived before it are answered. It belongs to one server, because
    what waits here waits in one event loop.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._places = asyncio.Semaphore(_PER_TURN)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["raw_path"] not in PROBES:
            await self._places.acquire()
            asyncio.get_running_loop().call_soon(self._places.release)  # in the next turn
        await self._app(scope, receive, send)


class HttpProtocol(HttpToolsProtocol):
    """A connection that rejects request heads of more than `MAX_HEAD_BYTES`.

    The parser keeps an unfinished head in memory, however long it becomes.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._in_head = False
        self._head_bytes = 0  # of earlier reads of this head
        self._new_bytes = 0
        self._is_rejected = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Write all responses of one turn of the event loop together."""
        super().connection_made(CorkedTransport(transport, self.loop))  # type: ignore[arg-type]
        counts, limit = self.config.n_of_client, self.config.max_per_client  # type: ignore[attr-defined]
        self._address = self.client[0] if self.client else ""
        counts[self._address] += 1
        self._is_surplus = limit is not None and counts[self._address] > limit
        if self._is_surplus:  # long enough for a probe
            self.config.n_surplus += 1  # type: ignore[attr-defined]
            self.loop.call_later(_SURPLUS_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        counts = self.config.n_of_client  # type: ignore[attr-defined]
        counts[self._address] -= 1
        self.config.n_surplus -= self._is_surplus  # type: ignore[attr-defined]
        if not counts[self._address]:
            del counts[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data; discard it after a rejection."""
        if self._is_rejected:
            return
        self._new_bytes = len(data)
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._reject_head()

    def on_message_begin(self) -> None:
        """Start to count the bytes of a head."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Start the application, unless a head that came in one piece is too long."""
        self._in_head = False
        if self._head_bytes + self._new_bytes > MAX_HEAD_BYTES < self._head_length():
            self._reject_head()
            raise httptools.HttpParserError("the head of the request is too long")
        if self.url.partition(b"?")[0] in PROBES:
            self.limit_concurrency = None  # a full service still says that it is alive
        elif self._is_surplus:
            detail = "this address has too many connections already; close some, or wait."
            self._reject(503, "Busy", detail)
            raise httptools.HttpParserError("too many connections of one address")
        elif self.config.limit_concurrency is not None:
            # Connections that are about to be closed take no place of other addresses.
            n_surplus: int = self.config.n_surplus  # type: ignore[attr-defined]
            self.limit_concurrency = self.config.limit_concurrency + n_surplus
        super().on_headers_complete()
        self.limit_concurrency = self.config.limit_concurrency

    def on_message_complete(self) -> None:
        """Let the application know that the body is here: waiting for it needs no timer."""
        super().on_message_complete()
        self.scope[BODY_COMPLETE] = True  # type: ignore[literal-required]

    def send_400_response(self, msg: str) -> None:
        """Reject what is not HTTP, with the error body of all other rejections."""
        self._reject(400, "NotHttp", "this is not an HTTP/1.1 request.")

    def _head_length(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _reject_head(self) -> None:
        detail = f"address and headers have more than {MAX_HEAD_BYTES} bytes; send less of them."
        self._reject(431, "HeadTooLarge", detail)

    def _reject(self, status: int, error: str, detail: str) -> None:
        """Answer on behalf of the application and close the connection."""
        if self.transport.is_closing() or self._is_rejected:
            return
        self._is_rejected, self._in_head = True, False
        content = error_body(error, detail)
        self.transport.write(
            STATUS_LINE[status]
            + b"content-type: application/json\r\nconnection: close\r\n"
            + b"content-length: %d\r\n\r\n" % len(content)
            + content
        )
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)


class CorkedTransport:
    """A transport that writes once per turn of the event loop.

    Head and body of a response leave in one packet, and so do the responses to several clients:
    waking up a client takes longer than writing to it.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, content: bytes) -> None:
        """Write at the end of this turn; at once if it is long, so that flow control sees it."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(content)
        if len(content) > 2**14:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            content = b"".join(self._waiting)
            self._waiting.clear()
            self._transport.write(content)

    def close(self) -> None:
        """Write what waits, then close the connection."""
        self.flush()
        self._transport.close()

    def write_eof(self) -> None:
        """Write what waits, then close the sending side."""
        self.flush()
        self._transport.write_eof()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class ServerThread:
    """A uvicorn server that runs in a thread until `stop`, or the end of a ``with`` block."""

    def __init__(self, server: uvicorn.Server, listener: socket.socket, *, name: str) -> None:
        self._server = server
        self._listener = listener
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        host, port = listener.getsockname()[:2]
        self.host, self.port = host, int(port)

    @property
    def url(self) -> str:
        """The address of the server."""
        return url_of(self.host, self.port)

    def start(self) -> Self:
        """Start the thread; return when connections are accepted."""
        self._thread.start()
        end = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                raise StreamError(f"the HTTP server at {self.url} did not start.")
            time.sleep(0.005)
        return self

    def stop(self) -> None:
        """Accept no more connections, finish the responses under way and end the thread."""
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _run(self) -> None:
        with self._listener:
            self._server.run(sockets=[self._listener])


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; raises OSError if that is not possible."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)  # until then, another program could bind the same address
    except OverflowError as error:
        listener.close()
        raise OSError(0, str(error)) from error
    except OSError:
        listener.close()
        raise
    return listener


def url_of(host: str, port: int) -> str:
    """Return the URL of an address, with brackets around IPv6."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def error_body(error: str, detail: str) -> bytes:
    """Return the JSON body of every error response."""
    return json.dumps({"error": error, "detail": detail}, separators=(",", ":")).encode()


async def discard_body(receive: Any) -> None:
    """Read a little more of a rejected body: a client that is still sending misses the answer."""
    left = _LINGER_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
                left -= len(message.get("body", b""))
