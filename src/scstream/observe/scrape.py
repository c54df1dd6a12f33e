"""A small door for Prometheus: `/metrics` and `/healthz`, and nothing else."""

from __future__ import annotations

import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Thread
from typing import Any, Protocol, Self, cast

from scstream.errors import InputError

_MOST_CLIENTS = 16
_PATIENCE = 5.0  # seconds that a client may be silent


class Shown(Protocol):
    """Whatever can be scraped."""

    def exposition(self) -> tuple[bytes, str]:
        """Return a content and its type."""
        ...


class Door:
    """Listens until it is closed; see `serve_metrics`.

    Parameters
    ----------
    metrics : Metrics
        What to show.
    host : str
        Address to listen at.
    port : int
        Port to listen at, 0 for any free one.

    Examples
    --------
    >>> from scstream.observe.scrape import Door
    >>> class Nothing:
    ...     def exposition(self):
    ...         return b"", "text/plain"
    >>> with Door(Nothing(), "127.0.0.1", 0) as door:
    ...     door.url == f"http://127.0.0.1:{door.port}/metrics"
    True
    """

    def __init__(self, metrics: Shown, host: str, port: int) -> None:
        try:
            self._server = _Server(metrics, host, port)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InputError(
                f"metrics cannot be shown at {host}:{port}: {why}; choose another port."
            ) from error
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = Thread(
            target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Where Prometheus looks."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening; may be called again."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(metrics: Shown, host: str = "127.0.0.1", port: int = 9464) -> Door:
    """Show metrics over HTTP, on a thread of their own, until the door is closed.

    There is neither a password nor encryption, and nothing but numbers to see: let it listen on
    the loopback, or where only Prometheus can reach it.

    Parameters
    ----------
    metrics : Metrics
        What to show.
    host : str
        Address to listen at; by default only this machine can ask.
    port : int
        Port to listen at, 0 for any free one.

    Returns
    -------
    Door
        Close it, or use it with ``with``.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> from scstream.observe.prometheus import Metrics, serve_metrics
    >>> with serve_metrics(Metrics(), port=0) as door, urlopen(door.url) as answer:
    ...     b"scstream_info{" in answer.read()
    True
    """
    return Door(metrics, host, port)


class _Server(ThreadingHTTPServer):
    """Answers few clients at a time, and never waits for them when it ends."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = _MOST_CLIENTS

    def __init__(self, metrics: Shown, host: str, port: int) -> None:
        self.metrics = metrics
        self._places = BoundedSemaphore(_MOST_CLIENTS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Answer)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""


class _Answer(BaseHTTPRequestHandler):
    """One question, one answer, and the connection ends."""

    timeout = _PATIENCE
    server_version = "scstream"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            content, kind = cast(_Server, self.server).metrics.exposition()
            self._answer(HTTPStatus.OK, content, kind)
        elif path == "/healthz":
            self._answer(HTTPStatus.OK, b"ok\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"there are /metrics and /healthz\n")

    def _answer(self, status: HTTPStatus, content: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a scrape every few seconds is no news."""
