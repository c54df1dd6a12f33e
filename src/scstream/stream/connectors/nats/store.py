"""Checkpoints in a key-value bucket of NATS; the revision of a key is the compare-and-set."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from nats.aio.client import Client

from scstream.errors import CheckpointCorrupt, InputError, StreamError
from scstream.stream.connectors.nats.connection import (
    NO_STREAM,
    Connection,
    JetStreamError,
    Server,
    StoredMessage,
    Unavailable,
    checked_name,
    nanoseconds,
)
from scstream.stream.connectors.nats.doctor import findings
from scstream.stream.findings import Finding
from scstream.stream.secrets import masked
from scstream.stream.store import checked_name as checked_object_name

_T = TypeVar("_T")
_CHUNK = 1 << 19  # bytes of a message; servers accept 1 MiB by default, and answer in base64
_WRONG_SEQUENCE = {10071, 10164}  # error codes: the key has another revision
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_TOKEN, _SIZE = "Scstream-Writer", "Scstream-Size"
_ORPHAN_SECONDS = 3600.0  # age of chunks without an object that `sweep` deletes
_NANO = 10**9


@dataclass(frozen=True)
class _Entry:
    """The newest message of a key; a large object has its content in chunks."""

    revision: int
    token: str
    size: int | None  # of the chunks together
    content: bytes

    @classmethod
    def of(cls, message: StoredMessage) -> _Entry:
        headers = _headers(message)
        size = int(headers[_SIZE]) if _SIZE in headers else None
        content = base64.b64decode(message.get("data") or "")
        return cls(message["seq"], headers.get(_TOKEN, ""), size, content)


class NatsStore:
    """Store objects in a key-value bucket of JetStream.

    An object is one message with the key as its subject; `put_new` and `replace` name the revision
    that the key must have. Objects above 512 KiB are split into chunks, which are written before
    the message that names them. The bucket is created on disk if it does not exist. The server
    decides how durable a message is when a write returns: set `sync_interval: always`, or use
    replicas.

    Parameters
    ----------
    url : str
        "nats://user:password@host:4222/bucket". Every pipeline needs a bucket of its own.
    retry_timeout : float
        Seconds to wait for an unavailable server before an operation fails.
    replicas : int
        Number of servers that keep a new bucket.
    credentials : str, optional
        Path of a credentials file.
    domain : str, optional
        JetStream domain.

    Examples
    --------
    >>> from scstream.stream.connectors.nats import NatsStore
    >>> NatsStore("nats://broker:4222/checkpoints")
    NatsStore('nats://broker:4222/checkpoints')
    >>> NatsStore("nats://broker:4222")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: nats://broker:4222 names no bucket; write nats://host:4222/bucket.
    """

    def __init__(
        self,
        url: str,
        *,
        retry_timeout: float = 300.0,
        replicas: int = 1,
        credentials: str | None = None,
        domain: str | None = None,
    ) -> None:
        self.url = masked(url)
        address, _, bucket = url.rpartition("/")
        if "://" not in address or not bucket:
            raise InputError(f"{self.url} names no bucket; write nats://host:4222/bucket.")
        self._server = Server(address, credentials, domain)
        self._bucket = checked_name(bucket)
        self._stream = f"KV_{bucket}"
        self._replicas = replicas
        self._retry_timeout = retry_timeout
        self._starting = threading.Lock()
        self._connection: Connection | None = None
        self._client: Client | None = None
        self._connecting: asyncio.Lock | None = None

    def __repr__(self) -> str:
        return f"NatsStore({self.url!r})"

    def put(self, name: str, content: bytes) -> None:
        """Write an object; replace an existing one."""
        before = self._entry(name)
        self._write(name, content, {})
        self._delete_chunks(before)

    def put_new(self, name: str, content: bytes) -> bool:
        """Write an object unless the name exists; return whether it was written."""
        if self._entry(name) is not None:
            return False
        return self._write(name, content, {_EXPECTED: "0"}) is not None

    def get(self, name: str, start: int = 0, length: int = -1) -> bytes:
        """Read an object, or a range of its bytes."""
        entry = self._entry(name)
        if entry is None:
            raise KeyError(name)
        if entry.size is None:
            return entry.content[start : None if length < 0 else start + length]
        stop = entry.size if length < 0 else min(start + length, entry.size)
        first, last = start // _CHUNK, -(-stop // _CHUNK)
        parts = [self._chunk(name, entry, number) for number in range(first, last)]
        return b"".join(parts)[start - first * _CHUNK : max(stop - first * _CHUNK, 0)]

    def read(self, name: str) -> tuple[bytes, str]:
        """Return an object and its revision, the sequence of its message."""
        entry = self._entry(name)
        if entry is None:
            raise KeyError(name)
        return entry.content, str(entry.revision)

    def replace(self, name: str, content: bytes, *, revision: str | None) -> str | None:
        """Write a small object if it still has this revision."""
        if len(content) > _CHUNK:
            raise InputError(f"{name} has {len(content)} bytes; at most {_CHUNK} can be replaced.")
        written = self._write(name, content, {_EXPECTED: revision or "0"})
        return None if written is None else str(written)

    def names(self, prefix: str = "") -> list[str]:
        """Return the names that begin with `prefix`."""
        names = [subject.rpartition(".")[2].replace("/", ".") for subject in self._subjects("*")]
        return sorted(name for name in names if name.startswith(prefix))

    def delete(self, name: str) -> None:
        """Delete an object."""
        entry = self._entry(name)
        self._purge(self._subject(name))
        self._delete_chunks(entry)

    def lock(self, *, take_over: bool = False) -> contextlib.AbstractContextManager[None]:
        """Do nothing: versions alone exclude instances on other machines."""
        return contextlib.nullcontext()

    def sweep(self) -> None:
        """Delete chunks that a crash left without an object.

        Another instance may be writing chunks now, so those of the last hour stay. Only times of
        the server are compared.
        """
        firsts = {s.split(".")[-2]: s for s in self._subjects("chunk.*.0")}
        if not firsts:
            return
        entries = [self._entry(name) for name in self.names()]
        used = {entry.token for entry in entries if entry is not None}
        now = self._do(lambda at: at.connection.stream(at.client, self._stream))["state"]
        for token in firsts.keys() - used:
            message = self._message(firsts[token])
            if message is None:
                continue
            age = (nanoseconds(now["last_ts"]) - nanoseconds(message["time"])) / _NANO
            if age > _ORPHAN_SECONDS:
                self._purge(self._key(f"chunk.{token}.>"))

    def doctor(self) -> list[Finding]:
        """Explain what the settings of the server mean for the objects in the bucket."""
        return findings(self._server, self._stream, role="sink")

    def _write(self, name: str, content: bytes, headers: Mapping[str, str]) -> int | None:
        """Write an object; return its revision, None if the key has another one."""
        token, subject = secrets.token_hex(16), self._subject(name)
        headers = {**headers, _TOKEN: token}
        is_large = len(content) > _CHUNK
        if is_large:
            headers[_SIZE] = str(len(content))
            for number, start in enumerate(range(0, len(content), _CHUNK)):
                chunk = self._key(f"chunk.{token}.{number}")
                self._publish(chunk, content[start : start + _CHUNK], {_TOKEN: token})
        revision = self._publish(subject, b"" if is_large else content, headers)
        if revision is None:
            found = self._entry(name)
            if found is not None and found.token == token:  # the answer to our write was lost
                return found.revision
            if is_large:
                self._purge(self._key(f"chunk.{token}.>"))
        return revision

    def _publish(self, subject: str, content: bytes, headers: Mapping[str, str]) -> int | None:
        async def act(at: _Session) -> int | None:
            try:
                answer = await at.connection.call(at.client, subject, content, dict(headers))
            except JetStreamError as error:
                if error.code in _WRONG_SEQUENCE:
                    return None
                raise
            return int(answer["seq"])

        return self._do(act)

    def _entry(self, name: str) -> _Entry | None:
        message = self._message(self._subject(name))
        return None if message is None else _Entry.of(message)

    def _message(self, subject: str) -> StoredMessage | None:
        return self._do(
            lambda at: at.connection.message(at.client, self._stream, last_by_subj=subject)
        )

    def _chunk(self, name: str, entry: _Entry, number: int) -> bytes:
        message = self._message(self._key(f"chunk.{entry.token}.{number}"))
        if message is not None:
            return _Entry.of(message).content
        newer = self._entry(name)
        if newer is None or newer.token != entry.token:
            raise KeyError(name)  # deleted or replaced meanwhile
        raise CheckpointCorrupt(f"a part of {name} is missing in {self.url}.")

    def _delete_chunks(self, entry: _Entry | None) -> None:
        if entry is not None and entry.size is not None:
            self._purge(self._key(f"chunk.{entry.token}.>"))

    def _purge(self, subject: str) -> None:
        self._do(
            lambda at: at.connection.request(
                at.client, f"STREAM.PURGE.{self._stream}", filter=subject
            )
        )

    def _subjects(self, pattern: str) -> list[str]:
        """Return the subjects of the bucket that match a pattern, page by page."""
        found: list[str] = []
        while True:
            which = {"subjects_filter": self._key(pattern), "offset": len(found)}
            info: Any = self._do(
                lambda at, which=which: at.connection.stream(at.client, self._stream, **which)  # type: ignore[misc]
            )
            page = info["state"].get("subjects") or {}
            found += page
            if not page or len(found) >= info.get("total", 0):
                return found

    def _subject(self, name: str) -> str:
        return self._key(checked_object_name(name).replace(".", "/"))  # a dot separates subjects

    def _key(self, key: str) -> str:
        return f"$KV.{self._bucket}.{key}"

    def _do(self, act: Callable[[_Session], Awaitable[_T]]) -> _T:
        """Run an operation; repeat it while the server is unavailable."""
        with self._starting:
            if self._connection is None:
                self._connection = Connection(self._server)
                self._connecting = asyncio.Lock()
        return self._connection.run(self._attempts(self._connection, act))

    async def _attempts(
        self, connection: Connection, act: Callable[[_Session], Awaitable[_T]]
    ) -> _T:
        reason: Exception | None = None
        try:
            async with asyncio.timeout(self._retry_timeout):
                while True:
                    client = await self._connected(connection)
                    try:
                        result = await act(_Session(connection, client))
                        connection.succeeded()
                        return result
                    except Unavailable as error:
                        reason = error
                        connection.failed(error)
                        await connection.disconnect(client)
        except TimeoutError:
            raise StreamError(
                f"{self.url} has been unavailable for {self._retry_timeout:g} s"
                f"{f': {masked(str(reason))}' if reason else ''}. Remove the cause or check the "
                "address, and start again."
            ) from None
        except JetStreamError as error:
            raise StreamError(f"{self.url}: {error}. Check the bucket and the rights.") from None

    async def _connected(self, connection: Connection) -> Client:
        """Return a connection to the server, on which the bucket exists."""
        assert self._connecting is not None
        async with self._connecting:
            if self._client is None or self._client.is_closed:
                client = await connection.connect(lambda: None)
                await self._create(connection, client)
                self._client = client
            return self._client

    async def _create(self, connection: Connection, client: Client) -> None:
        try:
            await connection.stream(client, self._stream)
        except JetStreamError as error:
            if error.code != NO_STREAM:
                raise
            await connection.request(
                client,
                f"STREAM.CREATE.{self._stream}",
                name=self._stream,
                subjects=[self._key(">")],
                max_msgs_per_subject=1,
                num_replicas=self._replicas,
                storage="file",
                retention="limits",
                discard="new",
                allow_rollup_hdrs=True,
                deny_delete=True,
            )


@dataclass(frozen=True)
class _Session:
    """A connection that is open."""

    connection: Connection
    client: Client


def _headers(message: StoredMessage) -> dict[str, str]:
    lines = base64.b64decode(message.get("hdrs") or "").decode().split("\r\n")
    return dict(_pairs(lines))


def _pairs(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()
