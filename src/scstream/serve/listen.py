"""The server below the service: uvicorn with an orderly end, in this thread or in its own."""

from __future__ import annotations

import gc
import signal
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

from scstream.compute.threads import one_blas_thread
from scstream.errors import InputError, StreamError, missing_extra
from scstream.serve.protocol import BoundedConfig
from scstream.serve.service import Service

try:
    import uvicorn
    from fastapi import FastAPI
except ImportError as error:
    raise missing_extra("uvicorn", "serve") from error

_STARTING = 10.0  # seconds that a server has to start


def serve(app: FastAPI, door: socket.socket | None = None) -> None:
    """Serve until a signal asks for the end, which is orderly.

    A first SIGTERM or SIGINT turns ``/readyz`` to 503 at once. After `Settings.drain` seconds no
    connection is taken any more; answers in the making are finished and streams end. A second
    SIGINT does not wait for them.

    Parameters
    ----------
    app : FastAPI
        What `create_app` returned.
    door : socket, optional
        Where to listen, of `bound`; by default at host and port of the settings.
    """
    service: Service = app.state.service
    settings = service.settings
    door = door or bound(settings.host, settings.port)
    gc.freeze()  # what is there now stays: to look through it again and again would take time
    try:
        with one_blas_thread:  # for all questions at once: to change it takes time
            _Server(app).run(sockets=[door])
    finally:
        door.close()
        service.close()


class Serving:
    """A service that runs in a thread of this process; leave the ``with`` block to stop it.

    Examples
    --------
    >>> from scstream.serve.app import create_app
    >>> from scstream.serve.listen import serve_in_thread
    >>> from scstream.serve.model import Owned
    >>> with serve_in_thread(create_app(Owned()), "127.0.0.1", 0) as serving:
    ...     serving.url.rpartition(":")[0]
    'http://127.0.0.1'
    """

    def __init__(self, app: FastAPI, door: socket.socket) -> None:
        self._service: Service = app.state.service
        self._door = door
        self._server = _Server(app)
        self._thread = threading.Thread(target=self._run, name="scstream-serve", daemon=True)
        host, port = door.getsockname()[:2]
        self.host, self.port = host, int(port)

    @property
    def url(self) -> str:
        """Where the service is."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def start(self) -> Self:
        """Begin, and return when connections are taken."""
        self._thread.start()
        end = time.monotonic() + _STARTING
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                raise StreamError(f"the service at {self.url} did not start.")
            time.sleep(0.005)
        return self

    def stop(self) -> None:
        """Finish answers in the making, end streams and close every connection."""
        self._server.ask_to_end()
        self._thread.join()
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._door])
        finally:
            self._door.close()


def serve_in_thread(app: FastAPI, host: str, port: int) -> Serving:
    """Serve from a thread of this process, beside a pipeline for example.

    Parameters
    ----------
    app : FastAPI
        What `create_app` returned.
    host, port
        Where to listen; port 0 for any free one.

    Returns
    -------
    Serving
        The service, which runs; `stop` ends it.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> from scstream.serve.app import create_app
    >>> from scstream.serve.listen import serve_in_thread
    >>> from scstream.serve.model import Owned
    >>> with serve_in_thread(create_app(Owned()), "127.0.0.1", 0) as serving:
    ...     with urlopen(f"{serving.url}/healthz") as answer:
    ...         answer.status
    200
    """
    return Serving(app, bound(host, port)).start()


def bound(host: str, port: int) -> socket.socket:
    """Take an address, so that an error shows before anything else is done.

    Examples
    --------
    >>> from scstream.serve.listen import bound
    >>> with bound("127.0.0.1", 0) as door:
    ...     door.getsockname()[0]
    '127.0.0.1'
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind((host, port))
        return door
    except (OSError, OverflowError) as error:
        door.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"the service cannot listen at {host}, port {port}: {reason}; choose another "
            "address with --host and --port."
        ) from error


class _Server(uvicorn.Server):
    """A server that leaves with 0 after a signal, and says beforehand that it will."""

    def __init__(self, app: FastAPI) -> None:
        self._service: Service = app.state.service
        self._ends_at: float | None = None
        super().__init__(BoundedConfig(app, self._service.settings))

    def ask_to_end(self) -> None:
        """Be not ready from now on, and end a little later.

        This is called in the middle of anything, so it takes no lock and calls nobody.
        """
        self._service.draining = True

    async def on_tick(self, counter: int) -> bool:
        """Look ten times a second whether it is time to end."""
        if self._service.draining and self._ends_at is None:
            self._service.drain()
            self._ends_at = time.monotonic() + self._service.settings.drain
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            self.should_exit = True
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take signals for a wish to end, and do not pass them on."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        asked = (signal.SIGINT, signal.SIGTERM)
        before: dict[int, Any] = {each: signal.signal(each, self._signal) for each in asked}
        try:
            yield
        finally:
            for number, action in before.items():
                signal.signal(number, action)

    def _signal(self, number: int, _frame: FrameType | None) -> None:
        if self._service.draining and number == signal.SIGINT:
            self.should_exit = self.force_exit = True
        self.ask_to_end()
