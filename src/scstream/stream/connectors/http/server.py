"""The server that takes bodies: so many connections, each with a deadline, and no log."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scstream.stream.connectors.http.door import POLL, Door, Post

_LONGEST_KEY = 200  # characters
_DRAINED = 2**20  # bytes of a refused body that are still read


class Server(ThreadingHTTPServer):
    """A server with so many connections and no more."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], door: Door) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.door = door
        self._room = threading.Semaphore(door.max_connections)
        self._connections: set[Any] = set()
        self._thread = threading.Thread(target=self._serve, name="scstream-http", daemon=True)
        super().__init__(address, _Request)

    def start(self) -> None:
        """Begin to listen, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections, and no more requests over those that there are."""
        self.shutdown()
        self._thread.join()
        self.server_close()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)

    def _serve(self) -> None:
        self.serve_forever(poll_interval=POLL)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection if there is room for it, else say so at once."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with suppress(OSError):
            request.settimeout(0.1)
            request.sendall(
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
                b"Content-Length: 0\r\n\r\n"
            )
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and make room for another."""
        self._connections.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.discard(request)
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients come and go."""


class _Deadline(io.RawIOBase):
    """What a client sends, until a time: one byte now and then does not keep a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.until = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request came too slowly")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Request(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is two short writes, and would wait for a late ack
    server: Server

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._arriving = _Deadline(self.connection)
        self.rfile = io.BufferedReader(self._arriving)

    def version_string(self) -> str:
        return "scstream"

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log of requests: they may hold secrets."""

    def handle_one_request(self) -> None:
        self._arriving.until = time.monotonic() + self.server.door.read_timeout
        super().handle_one_request()

    def do_GET(self) -> None:
        door = self.server.door
        if self.path != "/healthz":
            self._answer(404, error="There is nothing here; POST to /rows.")
        elif door.is_full:
            self._answer(503, error="The journal is full; the pipeline is behind.")
        else:
            self._answer(200, status="ok", position=door.journal.next)

    def do_POST(self) -> None:
        status, reason, length = self._looked_at()
        if status:
            self._refuse(status, reason, length)
            return
        try:
            body = self.rfile.read(length)
        except (TimeoutError, OSError):
            self._refuse(408, "The body came too slowly.", 0)
            return
        if len(body) < length:
            self.close_connection = True
            return
        post = self.server.door.take(Post(self.headers.get("Idempotency-Key", ""), body))
        self._answer(post.status, **post.answer)

    def handle_expect_100(self) -> bool:
        """Ask for the body only if it will be taken."""
        status, reason, _ = self._looked_at()
        if status:
            self._refuse(status, reason, 0)
            return False
        return super().handle_expect_100()

    def _looked_at(self) -> tuple[int, str, int]:
        """Return why the request is refused before its body is read, and how long that is."""
        door, headers = self.server.door, self.headers
        lengths = headers.get_all("Content-Length", [])
        length = int(lengths[0]) if len(lengths) == 1 and _is_count(lengths[0]) else -1
        reasons = (
            (
                not door.admits(headers.get("Authorization", "")),
                401,
                "The token is missing or wrong.",
            ),
            (
                door.token is None and "Origin" in headers,
                403,
                "Pages in a browser may push rows only with a token.",
            ),
            (self.path != "/rows", 404, "There is nothing here; POST to /rows."),
            (
                "Transfer-Encoding" in headers or not lengths,
                411,
                "Send the body with a Content-Length.",
            ),
            (length < 0, 400, "The Content-Length is no number."),
            (length == 0, 400, "The body is empty."),
            (
                length > door.max_body,
                413,
                f"The body is longer than {door.max_body} bytes; send it in parts.",
            ),
            (
                not _is_key(headers.get("Idempotency-Key", "")),
                400,
                f"An Idempotency-Key has up to {_LONGEST_KEY} printable ASCII characters.",
            ),
        )
        return next(((s, why, length) for refused, s, why in reasons if refused), (0, "", length))

    def _refuse(self, status: int, reason: str, length: int) -> None:
        """Answer, then read some of the body: a client that still sends would miss the answer."""
        self.close_connection = True
        self._answer(status, error=reason)
        self._arriving.until = time.monotonic() + 1.0
        left = min(length, _DRAINED) if length >= 0 else _DRAINED
        with suppress(OSError):  # it is gone, or slow
            while left > 0 and (chunk := self._more(left)):
                left -= len(chunk)

    def _more(self, max_n: int) -> bytes:
        return self.rfile.read(min(max_n, 65_536))

    def _answer(self, status: int, /, **answer: Any) -> None:
        content = json.dumps(answer).encode()
        self.connection.settimeout(self.server.door.read_timeout)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status == 503:
            self.send_header("Retry-After", "1")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)


def _is_key(text: str) -> bool:
    return len(text) <= _LONGEST_KEY and text.isascii() and text.isprintable()


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19
