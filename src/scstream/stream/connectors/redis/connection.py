"""A connection to Redis that survives outages of its server, and the ids of stream entries."""

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

EntryId = tuple[int, int]
_T = TypeVar("_T")
_TEMPORARY = (OutOfMemoryError, ReadOnlyError, ClusterDownError, TryAgainError)
_DISK_ERROR = "MISCONF"
_TIMEOUT = 2.0  # seconds without an answer after which a server is unavailable
_MAX_MINOR = 2**64 - 1


class Unavailable(Exception):
    """The server cannot be reached, or cannot run a command at the moment."""


class Connection:
    """Commands to a Redis server, which may be unavailable at times."""

    def __init__(self, url: str, *, retry_timeout: float | None = None) -> None:
        self.server = f"Redis at {masked(url)}"
        try:
            self._client: Any = redis.Redis.from_url(
                url,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=_TIMEOUT,
                socket_connect_timeout=_TIMEOUT,
            )
        except ValueError as error:
            raise InputError(
                f"{masked(url)} is not the address of a Redis server: {error}"
            ) from None
        self._closing = threading.Event()
        self._outage = Outage(self.server, retry_timeout)
        self._next_attempt = 0.0

    def execute(self, *command: Any) -> Any:
        """Run a command; raise `Unavailable` if it may succeed later."""
        return self._attempt(lambda: self._client.execute_command(*command))

    def execute_all(
        self, commands: Iterable[tuple[Any, ...]], *, transaction: bool = False
    ) -> list[Any]:
        """Run commands in one round trip and return their answers, which may be errors."""

        def act() -> list[Any]:
            with self._client.pipeline(transaction=transaction) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                answers: list[Any] = pipeline.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, Exception) and _is_temporary(answer):
                    raise answer
            return answers

        try:
            return self._attempt(act)
        except ResponseError as error:
            raise StreamError(f"{self.server} rejects a command: {error_text(error)}.") from None

    def _attempt(self, act: Callable[[], _T]) -> _T:
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
        """Note that the server works: the next outage counts from now."""
        self._outage.ended()
        self._next_attempt = 0.0

    def is_due(self, timeout: float) -> bool:
        """Wait for the next attempt after an outage; False if that takes longer than `timeout`."""
        wait = self._next_attempt - time.monotonic()
        if wait > 0:
            self._closing.wait(min(wait, timeout))
        if self._closing.is_set():
            raise StreamError(f"The connection to {self.server} was closed.")
        return time.monotonic() >= self._next_attempt

    def retry(self, act: Callable[[], _T]) -> _T:
        """Repeat something until the server is available."""
        while True:
            try:
                if self.is_due(_TIMEOUT):
                    return act()
            except Unavailable:
                continue

    def close(self) -> None:
        """Disconnect, and end what waits."""
        self._closing.set()
        self._client.close()


class StreamClient:
    """What the source and the sink of a stream share: a connection while they are open."""

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

    def close(self) -> None:
        """Disconnect; a call that waits ends with an error."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _is_temporary(error: Exception) -> bool:
    """Return whether the server may run the command later."""
    if isinstance(error, ResponseError):
        return isinstance(error, _TEMPORARY) or error_text(error).startswith(_DISK_ERROR)
    return True


def error_text(error: Exception) -> str:
    """Return the text of an error without the command, which may hold rows."""
    return masked(str(error).rpartition("caused error: ")[2])


@dataclass(frozen=True)
class StreamState:
    """What a server reports about a stream."""

    last: EntryId = (0, 0)  # the largest id that an entry ever had
    first: EntryId | None = None  # id of the first entry in the stream
    length: int = 0
    added: int | None = 0  # number of entries that were ever added; None before Redis 7.0
    deleted: EntryId = (0, 0)  # the largest id of an entry that was deleted by its id

    @property
    def n_removed(self) -> int | None:
        """Number of entries that are not in the stream any more."""
        return None if self.added is None else self.added - self.length


def parse_state(answer: Any) -> StreamState:
    """Parse the answer to XINFO STREAM; a missing stream counts as an empty one."""
    if isinstance(answer, ResponseError):
        if "no such key" in str(answer):
            return StreamState()
        raise answer
    fields = {name.decode(): value for name, value in zip(answer[::2], answer[1::2], strict=True)}
    first = fields.get("first-entry")
    return StreamState(
        last=parse_id(fields["last-generated-id"]),
        first=parse_id(first[0]) if first else None,
        length=int(fields["length"]),
        added=fields.get("entries-added"),
        deleted=parse_id(fields.get("max-deleted-entry-id", "0-0")),
    )


def parse_id(text: str | bytes) -> EntryId:
    """Return the two numbers of an entry id, "1700000000000-3"."""
    text_id = text.decode() if isinstance(text, bytes) else str(text)
    major, _, minor = text_id.partition("-")
    try:
        return int(major), int(minor or 0)
    except ValueError:
        raise InputError(
            f"{text_id!r} is not an id of a Redis stream; an id looks like 1700-0."
        ) from None


def format_id(entry: EntryId) -> str:
    """Return an id as Redis writes it."""
    return f"{entry[0]}-{entry[1]}"


def previous_id(entry: EntryId) -> EntryId:
    """Return the id right before another; XREAD returns only entries after an id."""
    major, minor = entry
    if minor:
        return major, minor - 1
    return (major - 1, _MAX_MINOR) if major else (0, 0)
