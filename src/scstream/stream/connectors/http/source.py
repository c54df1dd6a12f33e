"""The journal as a source, with the server that fills it."""

from __future__ import annotations

import ipaddress
import os
import shutil
from collections.abc import Mapping

from scstream.errors import InputError, SourceChanged, SourceGap, SourceRegressed, StreamError
from scstream.io.disk import Disk
from scstream.stream.connectors.http.door import Door
from scstream.stream.connectors.http.journal import Journal
from scstream.stream.connectors.http.server import Server
from scstream.stream.findings import Finding
from scstream.stream.source import Position, Positions, Record, Resume


class HttpSource:
    """Bodies that are pushed by POST to ``/rows``.

    A body is one message, of the format that the pipeline is set to. It is answered with 200 and
    its position once it is on the disk; from there each row counts exactly once. A client that
    got no answer sends the body again with the same ``Idempotency-Key``, and gets the position of
    the first time. Without such a key a body that is sent twice counts twice.

    503 with ``Retry-After`` says that the pipeline is behind, or that the disk is full; 401 that
    the token is missing or wrong, 413 that the body is too long, 408 that it came too slowly, 409
    that its key belongs to another body. ``GET /healthz`` answers 200 while bodies are accepted.

    Parameters
    ----------
    port : int
        Where to listen; 0 for any free port, see `address`.
    journal : path
        Folder of the journal.
    host : str
        By default this machine only; another needs a token, and a proxy that encrypts.
    token : str, optional
        What clients send as ``Authorization: Bearer ...``.
    start : {"first", "last"} or int
        Where to begin without a checkpoint.
    max_body : int
        Longest body in bytes.
    max_connections : int
        How many clients at a time.
    read_timeout : float
        Seconds in which a request must have come whole.
    max_journal, segment_bytes : int
        Bytes of the journal that may wait for the pipeline, and bytes of one of its files.
    n_keys : int
        How many idempotency keys are remembered.
    disk : Disk, optional
        By default that of the machine.

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
                f"host {host!r} can be reached by others: set a token, or listen on 127.0.0.1."
            )
        if token is not None and (not token or not token.isascii() or not token.isprintable()):
            raise InputError("token must be some printable ASCII characters.")
        if not (start in ("first", "last") or (type(start) is int and start >= 0)):
            raise InputError(f"start must be 'first', 'last' or a position, got {start!r}.")
        if max_journal < 2 * segment_bytes:
            raise InputError(
                f"max_journal ({max_journal}) must be at least twice segment_bytes "
                f"({segment_bytes}): the file that is written to is never removed."
            )
        limits = (max_body, max_connections, read_timeout, segment_bytes)
        if not all(limit > 0 for limit in limits) or n_keys < 0 or not 0 <= port < 65_536:
            raise InputError("limits must be positive, and port a number from 0 to 65535.")
        self._host, self._port = host, port
        self._start = start
        self._journal = Journal(journal, segment_bytes=segment_bytes, n_keys=n_keys, disk=disk)
        self._door = Door(
            self._journal,
            token,
            max_body=max_body,
            max_connections=max_connections,
            read_timeout=read_timeout,
            max_journal=max_journal,
        )
        self._server: Server | None = None
        self._position = 0

    @property
    def address(self) -> str:
        """Where the server listens, once it is open."""
        if self._server is None:
            raise InputError("the source is not open, so it has no address yet; open it first.")
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.server_address[1]}"

    def identity(self) -> Mapping[str, str]:
        """Return the name that the journal got when it was made."""
        return {"journal": self._journal.identity}

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Read the journal, check that the position is in it, and begin to listen."""
        self.close()
        server = self._listen()  # first of all: two programs must not write the same journal
        try:
            self._journal.open()
            self._position = self._begin(resume, accept_gap=accept_gap)
        except BaseException:
            server.server_close()
            self._journal.close()
            raise
        self._server = server
        self._door.open()
        server.start()

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next bodies."""
        if not self._journal.wait(self._position, timeout):
            return []
        entries = self._journal.read(self._position, max_n)
        self._position = entries[-1].number + 1
        return [Record(e.number, e.number + 1, e.body, time=e.time) for e in entries]

    def acknowledge(self, positions: Positions) -> None:
        """Remove files of the journal that are not needed any more."""
        if "" in positions:
            self._journal.forget(int(positions[""]))

    @property
    def done(self) -> bool:
        """Always False: somebody may push more."""
        return False

    def lag(self) -> int | None:
        """How many bodies wait in the journal."""
        return None if self._server is None else max(self._journal.next - self._position, 0)

    def close(self) -> None:
        """Stop listening; bodies that were answered are safe in the journal."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            self._door.close()
        self._journal.close()

    def doctor(self) -> list[Finding]:
        """Say what an answer means, and who can push."""
        found = [
            Finding("ok", "journal", "an answer of 200 means that the rows are synced to the disk.")
        ]
        folder = self._journal.folder.absolute()
        while not folder.exists():
            folder = folder.parent
        if not os.access(folder, os.W_OK):
            found.append(Finding("warn", "rights", f"{folder} cannot be written to; change that."))
        free = shutil.disk_usage(folder).free
        if free < self._door.max_journal:
            detail = f"{free} bytes are free, but the journal may take {self._door.max_journal}."
            found.append(Finding("warn", "room", detail))
        if not self._door.token:
            detail = "there is no token: every program on this machine can push rows."
            found.append(Finding("note", "token", detail))
        if not _is_loopback(self._host):
            detail = "rows and token come unencrypted; put a proxy with TLS in front."
            found.append(Finding("warn", "encryption", detail))
        return found

    def _listen(self) -> Server:
        try:
            return Server((self._host, self._port), self._door)
        except OSError as error:
            raise StreamError(
                f"cannot listen on {self._host} port {self._port} ({error.strerror}); is the "
                "pipeline running already? Choose another port, or stop what listens there."
            ) from error

    def _begin(self, resume: Resume | None, *, accept_gap: bool) -> int:
        """Return the number of the body to read first."""
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
        place = f"the journal {journal.folder} has bodies {journal.first} to {journal.next}"
        advice = f"Start with --accept-gap to go on at body {journal.first}."
        if resume.identity.get("journal") != journal.identity:
            raise SourceChanged(
                f"{place}, but it is not the one that was read to body {position}: it was made "
                f"anew. Bring the old one back. {advice}"
            )
        if position > journal.next:
            raise SourceRegressed(
                f"{place}, but it was read to body {position} already: it lost what it had "
                f"confirmed. Bring its files back. {advice}"
            )
        if position < journal.first:
            raise SourceGap(
                f"{place}, but the checkpoint goes on at body {position}: those between are gone. "
                f"{advice}"
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
