"""The HTTP source: a server that fills a journal, and a reader of that journal."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
from collections.abc import Mapping

from scstream.errors import (
    InputError,
    SourceChanged,
    SourceGap,
    SourceRegressed,
    StreamError,
    missing_extra,
)
from scstream.io.disk import Disk
from scstream.stream.connectors.http.journal import Journal
from scstream.stream.connectors.http.server import IngestLimits, IngestServer
from scstream.stream.findings import Finding
from scstream.stream.http_server import HttpConfig, ServerThread, bind_socket, url_of
from scstream.stream.source import Position, Positions, Record, Resume

try:
    import uvicorn
except ImportError as error:
    raise missing_extra("uvicorn", "http") from error

_SHUTDOWN_SECONDS = 1.0  # for requests under way when the source is closed


class HttpSource:
    """Messages that clients push with ``POST /rows``; needs the extra ``http``.

    The body of a request is one message, in the format of the pipeline. The response is 200 with
    the position of the message once it is synced to the disk; from then on each row counts exactly
    once. A client that got no response sends the body again with the same ``Idempotency-Key`` and
    gets the first position. Without a key, a body that is sent twice counts twice.

    Errors: 503 with ``Retry-After`` if the pipeline is behind or the disk is full, 401 if the token
    is missing or wrong, 413 if the body is too long, 415 if it is compressed, 408 if it arrives too
    slowly, 409 if its key belongs to another body. ``GET /healthz`` returns 200 while bodies are
    accepted.

    Parameters
    ----------
    port : int
        Port to listen on; 0 for any free one, see `address`.
    journal : path
        Folder of the journal.
    host : str
        Address to listen on. Other hosts than loopback need a token, and a proxy with TLS.
    token : str, optional
        Clients send it as ``Authorization: Bearer ...``.
    start : {"first", "last"} or int
        Where to start without a checkpoint.
    max_body : int
        Largest body, in bytes.
    max_connections : int
        Largest number of connections.
    read_timeout : float
        Seconds for a body to arrive.
    max_journal, segment_bytes : int
        Largest size of the journal and of one of its files, in bytes.
    n_keys : int
        Number of idempotency keys that are kept.
    disk : Disk, optional
        By default the disk of this machine.

    Examples
    --------
    >>> import tempfile
    >>> from urllib.request import Request, urlopen
    >>> from scstream.stream.connectors.http import HttpSource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = HttpSource(port=0, journal=folder)
    ...     source.open(None)
    ...     with urlopen(Request(f"{source.address}/rows", data=b"[1.5]")) as answer:
    ...         print(answer.read().decode())
    ...     (record,) = source.read(10, timeout=5)
    ...     source.close()
    {"position": 0, "duplicate": false}
    >>> record.value, record.after
    (b'[1.5]', 1)
    """

    def __init__(
        self,
        *,
        port: int,
        journal: str | os.PathLike[str],
        host: str = "127.0.0.1",
        token: str | None = None,
        start: Position = "first",
        max_body: int = 2**23,
        max_connections: int = 64,
        read_timeout: float = 30.0,
        max_journal: int = 2**30,
        segment_bytes: int = 2**26,
        n_keys: int = 10_000,
        disk: Disk | None = None,
    ) -> None:
        if not _is_loopback(host) and not token:
            raise InputError(
                f"host {host!r} is reachable from other machines: set a token, or use 127.0.0.1."
            )
        if token is not None and (not token or not token.isascii() or not token.isprintable()):
            raise InputError("token must be printable ASCII characters, and not empty.")
        if not (start in ("first", "last") or (type(start) is int and start >= 0)):
            raise InputError(f"start must be 'first', 'last' or a position, got {start!r}.")
        if max_journal < 2 * segment_bytes:
            raise InputError(
                f"max_journal ({max_journal}) must be at least twice segment_bytes "
                f"({segment_bytes}), because the newest file is never removed."
            )
        limits = (max_body, max_connections, read_timeout, segment_bytes)
        if not all(limit > 0 for limit in limits) or n_keys < 0 or not 0 <= port < 65_536:
            raise InputError("limits must be positive, and port a number from 0 to 65535.")
        self._host, self._port = host, port
        self._start = start
        self._journal = Journal(journal, segment_bytes=segment_bytes, n_keys=n_keys, disk=disk)
        self._limits = IngestLimits(token, max_body, max_connections, read_timeout, max_journal)
        self._server: ServerThread | None = None
        self._position = 0

    @property
    def address(self) -> str:
        """The URL of the server, once the source is open."""
        if self._server is None:
            raise InputError("the source is not open, so it has no address yet; open it first.")
        return url_of(self._host, self._server.port)

    def identity(self) -> Mapping[str, str]:
        """Return the identity that the journal got when it was created."""
        return {"journal": self._journal.identity}

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Read the journal, check that the position is in it, and start the server."""
        self.close()
        listener = self._bind()  # first: two programs must not write the same journal
        try:
            self._journal.open()
            self._position = self._begin(resume, accept_gap=accept_gap)
        except BaseException:
            listener.close()
            self._journal.close()
            raise
        config = HttpConfig(
            self._application(),
            max_connections=self._limits.max_connections,
            shutdown_seconds=_SHUTDOWN_SECONDS,
        )
        self._server = ServerThread(uvicorn.Server(config), listener, name="scstream-http").start()

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next bodies."""
        if not self._journal.wait(self._position, timeout):
            return []
        entries = self._journal.read(self._position, max_n)
        self._position = entries[-1].number + 1
        return [Record(e.number, e.number + 1, e.body, time=e.time) for e in entries]

    def acknowledge(self, positions: Positions) -> None:
        """Remove files of the journal that are no longer needed."""
        if "" in positions:
            self._journal.forget(int(positions[""]))

    @property
    def done(self) -> bool:
        """Always False: clients may push more."""
        return False

    def lag(self) -> int | None:
        """Return the number of messages that wait in the journal."""
        return None if self._server is None else max(self._journal.next - self._position, 0)

    def close(self) -> None:
        """Stop the server; messages that were answered with 200 are safe in the journal."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            self._journal.wake()
        self._journal.close()

    def doctor(self) -> list[Finding]:
        """Check the folder of the journal, and who can push."""
        found = [
            Finding(
                "ok", "journal", "a response of 200 means that the rows are synced to the disk."
            )
        ]
        folder = self._journal.folder.absolute()
        while not folder.exists():
            folder = folder.parent
        if not os.access(folder, os.W_OK):
            found.append(
                Finding("warn", "rights", f"{folder} is not writable; change its permissions.")
            )
        free = shutil.disk_usage(folder).free
        if free < self._limits.max_journal:
            detail = f"{free} bytes are free, but the journal may take {self._limits.max_journal}."
            found.append(Finding("warn", "space", detail))
        if not self._limits.token:
            detail = "there is no token: every program on this machine can push rows."
            found.append(Finding("note", "token", detail))
        if not _is_loopback(self._host):
            detail = "rows and token come unencrypted; put a proxy with TLS in front."
            found.append(Finding("warn", "encryption", detail))
        return found

    def _application(self) -> IngestServer:
        return IngestServer(self._journal, self._limits)

    def _bind(self) -> socket.socket:
        try:
            return bind_socket(self._host, self._port)
        except OSError as error:
            raise StreamError(
                f"cannot listen on {self._host} port {self._port} ({error.strerror}); is the "
                "pipeline running already? Choose another port, or stop what listens there."
            ) from error

    def _begin(self, resume: Resume | None, *, accept_gap: bool) -> int:
        """Return the number of the message to read first."""
        journal = self._journal
        if resume is None:
            start = journal.next if self._start == "last" else self._start
            return journal.first if start == "first" else int(start)
        position = int(resume.positions.get("", journal.first))
        try:
            self._check(resume, position)
        except (SourceChanged, SourceRegressed, SourceGap):
            if not accept_gap:
                raise
            return journal.first
        return position

    def _check(self, resume: Resume, position: int) -> None:
        journal = self._journal
        found = f"the journal {journal.folder} has bodies {journal.first} to {journal.next}"
        advice = f"start with --accept-gap to continue at body {journal.first}."
        if resume.identity.get("journal") != journal.identity:
            raise SourceChanged(
                f"{found}, but it is not the one of the checkpoint, which was read to body "
                f"{position}: it was created again. Restore the old one, or {advice}"
            )
        if position > journal.next:
            raise SourceRegressed(
                f"{found}, but it was read to body {position} already: it lost bodies that were "
                f"confirmed. Restore its files, or {advice}"
            )
        if position < journal.first:
            raise SourceGap(
                f"{found}, but the checkpoint continues at body {position}: those between are "
                f"gone. Restore its files, or {advice}"
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
