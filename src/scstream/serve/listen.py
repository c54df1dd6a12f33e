"""Run the service: uvicorn in this thread or in its own, with an orderly end."""

from __future__ import annotations

import gc
import signal
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from scstream.compute.threads import one_blas_thread
from scstream.errors import InputError, missing_extra
from scstream.serve.service import Service
from scstream.stream.http_server import HttpConfig, ServerThread, bind_socket

try:
    import uvicorn
    from fastapi import FastAPI
except ImportError as error:
    raise missing_extra("uvicorn", "serve") from error


def serve(app: FastAPI, listener: socket.socket | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then end in order.

    The signal turns ``/readyz`` to 503 at once. After `Settings.drain` seconds the service accepts
    no more connections, finishes the responses under way and ends streams. A second SIGINT ends it
    without waiting. `listener` is a socket of `bind`; by default one is bound to the address of
    the settings.
    """
    service: Service = app.state.service
    settings = service.settings
    gc.freeze()  # spare the collector the objects that exist now: they stay
    if listener is None:
        listener = bind(settings.host, settings.port)
    try:
        with listener, one_blas_thread:  # once for all requests: switching takes time
            _Server(app).run(sockets=[listener])
    finally:
        service.close()


class ServiceThread(ServerThread):
    """A service that runs in a thread of this process; `stop` ends it in order."""

    def __init__(self, app: FastAPI, listener: socket.socket) -> None:
        self._service: Service = app.state.service
        super().__init__(_Server(app), listener, name="scstream-serve")

    def stop(self) -> None:
        """Finish the responses under way, end streams and close every connection."""
        self._service.draining = True
        self._thread.join()
        self._service.close()


def serve_in_thread(app: FastAPI, host: str, port: int) -> ServiceThread:
    """Serve from a thread of this process, for example next to a pipeline.

    Parameters
    ----------
    app : FastAPI
        The application of `create_app`.
    host, port
        Address to listen on; port 0 for any free one.

    Returns
    -------
    ServiceThread
        The running service; `stop`, or the end of a ``with`` block, ends it.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> from scstream.serve.app import create_app
    >>> from scstream.serve.listen import serve_in_thread
    >>> from scstream.serve.model import LocalModel
    >>> with serve_in_thread(create_app(LocalModel()), "127.0.0.1", 0) as service:
    ...     with urlopen(f"{service.url}/healthz") as response:
    ...         response.status
    200
    """
    service = ServiceThread(app, bind(host, port))
    service.start()
    return service


def bind(host: str, port: int) -> socket.socket:
    """Bind the address of the service, so that an error shows before anything else is done."""
    try:
        return bind_socket(host, port)
    except OSError as error:
        raise InputError(
            f"the service cannot listen on {host}, port {port}: {error.strerror}; choose another "
            "address with --host and --port."
        ) from error


class _Server(uvicorn.Server):
    """A server that drains before it ends, and exits with 0 after a signal."""

    def __init__(self, app: FastAPI) -> None:
        self._service: Service = app.state.service
        self._end: float | None = None
        settings = self._service.settings
        config = HttpConfig(
            app,
            max_connections=settings.connections,
            shutdown_seconds=settings.patience,
            idle_seconds=settings.idle_seconds,
            behind_proxy=settings.proxy,
            max_per_client=None if settings.proxy else max(settings.connections // 2, 1),
        )
        super().__init__(config)

    async def on_tick(self, counter: int) -> bool:
        """Check ten times a second whether it is time to end."""
        if self._service.draining and self._end is None:
            self._service.drain()
            self._end = time.monotonic() + self._service.settings.drain
        if self._end is not None and time.monotonic() >= self._end:
            self.should_exit = True
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Drain on a signal; unlike uvicorn, do not raise the signal again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before: dict[int, Any] = {each: signal.signal(each, self._on_signal) for each in numbers}
        try:
            yield
        finally:
            for number, action in before.items():
                signal.signal(number, action)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Take no lock: a signal interrupts any code."""
        if self._service.draining and number == signal.SIGINT:
            self.should_exit = self.force_exit = True
        self._service.draining = True
