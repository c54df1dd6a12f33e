"""What the Redis source and sink share: a connection, and the state and the ids of a stream.

A Redis *stream* is a list of entries under one key. Every entry has an id of two numbers,
"1700000000000-3": usually the time in milliseconds at which it was added, and a counter. Redis
rejects a new entry whose id is not larger than the last one, so ids always increase.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.retry import Retry

from scstream.errors import InputError, StreamError
from scstream.stream.connectors.outage import Outage
from scstream.stream.secrets import masked

EntryId = tuple[int, int]  # the two numbers of an id
_T = TypeVar("_T")
# Errors of a server that works, but cannot run the command now.
_TEMPORARY = (OutOfMemoryError, ReadOnlyError, ClusterDownError, TryAgainError)
_DISK_ERROR = "MISCONF"  # how such an error begins if the server cannot write to its disk
_TIMEOUT = 2.0  # seconds to wait for a response before the server counts as unavailable
_MAX_MINOR = 2**64 - 1  # largest second number of an id


class Unavailable(Exception):
    """The server cannot be reached, or cannot run a command at the moment."""


class Connection:
    """Sends commands to a Redis server that may be unavailable for a while.

    A command that fails during an outage raises `Unavailable`. The caller then waits with `is_due`
    or `retry`, and sends the command again. The pause between two attempts grows with every
    failure. After `retry_timeout` seconds without success, the failure raises `StreamError`.
    """

    def __init__(self, url: str, *, retry_timeout: float | None = None) -> None:
        self.server = f"Redis at {masked(url)}"
        try:
            self._client: Any = redis.Redis.from_url(
                url,
                protocol=2,  # results are lists, as `parse_state` expects
                retry=Retry(NoBackoff(), 0),  # the callers of this class repeat commands
                socket_timeout=_TIMEOUT,
                socket_connect_timeout=_TIMEOUT,
            )
        except ValueError as error:
            raise InputError(
                f"{masked(url)} is not the address of a Redis server: {error}"
            ) from None
        self._closing = threading.Event()
        self._outage = Outage(self.server, retry_timeout)
        self._next_attempt = 0.0  # time (of `time.monotonic`) before which nothing is sent

    def execute(self, *command: Any) -> Any:
        """Run a command and return its result; raise `Unavailable` if it may succeed later."""
        return self._attempt(lambda: self._client.execute_command(*command))

    def execute_all(
        self, commands: Iterable[tuple[Any, ...]], *, transaction: bool = False
    ) -> list[Any]:
        """Run several commands in one request; return a result, or an error, for each of them.

        With `transaction`, the server has run all of them or none if the connection is lost.
        """

        def act() -> list[Any]:
            with self._client.pipeline(transaction=transaction) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                results: list[Any] = pipeline.execute(raise_on_error=False)
            for result in results:
                if isinstance(result, Exception) and _is_temporary(result):
                    raise result
            return results

        try:
            return self._attempt(act)
        except ResponseError as error:
            raise StreamError(f"{self.server} rejects a command: {error_text(error)}.") from None

    def _attempt(self, act: Callable[[], _T]) -> _T:
        """Call a function once; turn an error that a later attempt may avoid into `Unavailable`."""
        try:
            return act()
        except (AuthenticationError, AuthorizationError) as error:
            raise StreamError(
                f"{self.server} rejects the user or password: {error_text(error)}."
            ) from None
        except (RedisError, OSError) as error:
            if not _is_temporary(error):
                raise
            self._outage.failed(error_text(error))
            self._next_attempt = time.monotonic() + self._outage.pause
            raise Unavailable(error_text(error)) from None

    def succeeded(self) -> None:
        """Reset the pause and the timeout: the server works."""
        self._outage.ended()
        self._next_attempt = 0.0

    @property
    def is_available(self) -> bool:
        """Whether the server worked when it was used last."""
        return not self._outage.is_active

    def is_due(self, timeout: float) -> bool:
        """Wait until the next attempt may be made; False if that takes longer than `timeout`."""
        wait = self._next_attempt - time.monotonic()
        if wait > 0:
            self._closing.wait(min(wait, timeout))
        if self._closing.is_set():
            raise StreamError(f"The connection to {self.server} was closed.")
        return time.monotonic() >= self._next_attempt

    def retry(self, act: Callable[[], _T]) -> _T:
        """Call a function until it does not raise `Unavailable`; return its result."""
        while True:
            try:
                if self.is_due(_TIMEOUT):
                    return act()
            except Unavailable:
                continue

    def close(self) -> None:
        """Disconnect; other threads that wait for the server get a `StreamError`."""
        self._closing.set()
        self._client.close()


class StreamClient:
    """The base class of source and sink: it has a `Connection` between `open` and `close`."""

    def __init__(self, url: str, stream: str, retry_timeout: float | None) -> None:
        self.stream = stream
        self._url = url
        self._retry_timeout = retry_timeout
        self._connection: Connection | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({masked(self._url)!r}, {self.stream!r})"

    def _connect(self) -> Connection:
        self.close()
        self._connection = Connection(self._url, retry_timeout=self._retry_timeout)
        return self._connection

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise StreamError(f"{self!r} is not open; call `open` first.")
        return self._connection

    @property
    def connected(self) -> bool | None:
        """Whether the server worked when it was used last; None if this is not open."""
        connection = self._connection
        return None if connection is None else connection.is_available

    def close(self) -> None:
        """Disconnect; other threads that wait for the server get a `StreamError`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _is_temporary(error: Exception) -> bool:
    """Return True if the same command may succeed later.

    That is so for every failure of the connection, and for some errors of the server.
    """
    if isinstance(error, ResponseError):
        return isinstance(error, _TEMPORARY) or error_text(error).startswith(_DISK_ERROR)
    return True


def error_text(error: Exception) -> str:
    """Return the message of an error without the command that caused it.

    Messages of the library repeat the command, which contains rows of the user.
    """
    return masked(str(error).rpartition("caused error: ")[2])


@dataclass(frozen=True)
class StreamState:
    """What a Redis server reports about a stream."""

    last: EntryId = (0, 0)  # id of the newest entry, also if that was deleted since
    first: EntryId | None = None  # id of the oldest entry that is still there
    length: int = 0  # number of entries that are still there
    added: int | None = 0  # number of entries that were ever added; None before Redis 7.0
    deleted: EntryId = (0, 0)  # largest id among the entries that were deleted one by one (XDEL)

    @property
    def n_removed(self) -> int | None:
        """Number of entries that were deleted or trimmed; None if it is unknown."""
        return None if self.added is None else self.added - self.length


def parse_state(info: Any) -> StreamState:
    """Return the state that the command XINFO STREAM reports.

    `info` is its result, a list of names and values in turn, or its error. A stream that does not
    exist counts as empty; other errors are raised.
    """
    if isinstance(info, ResponseError):
        if "no such key" in str(info):
            return StreamState()
        raise info
    fields = {name.decode(): value for name, value in zip(info[::2], info[1::2], strict=True)}
    first = fields.get("first-entry")
    return StreamState(
        last=parse_id(fields["last-generated-id"]),
        first=parse_id(first[0]) if first else None,
        length=int(fields["length"]),
        added=fields.get("entries-added"),
        deleted=parse_id(fields.get("max-deleted-entry-id", "0-0")),
    )


def parse_id(text: str | bytes) -> EntryId:
    """Return the two numbers of an id such as "1700000000000-3"; "1700" means "1700-0"."""
    text_id = text.decode() if isinstance(text, bytes) else str(text)
    major, _, minor = text_id.partition("-")
    try:
        return int(major), int(minor or 0)
    except ValueError:
        raise InputError(
            f"{text_id!r} is not an id of a Redis stream; an id looks like 1700-0."
        ) from None


def format_id(entry: EntryId) -> str:
    """Return an id as text, as Redis writes it."""
    return f"{entry[0]}-{entry[1]}"


def previous_id(entry: EntryId) -> EntryId:
    """Return the largest id below an id, or (0, 0).

    Redis reads entries *after* an id: to begin with an entry, read after the id before it.
    """
    major, minor = entry
    if minor:
        return major, minor - 1
    return (major - 1, _MAX_MINOR) if major else (0, 0)
