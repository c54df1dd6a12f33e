"""A connection to Redis that outlives its server, and the ids of stream entries."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from scstream.errors import InputError, StreamError, missing_extra
from scstream.stream.secrets import masked

try:
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
except ImportError as error:
    raise missing_extra("redis", "redis") from error

__all__ = [
    "Away",
    "EntryId",
    "Link",
    "ResponseError",
    "StreamState",
    "before",
    "parsed_id",
    "said",
    "shown_id",
    "state_of",
]

EntryId = tuple[int, int]
_T = TypeVar("_T")
_PASSING = (OutOfMemoryError, ReadOnlyError, ClusterDownError, TryAgainError)
_DISK_TROUBLE = "MISCONF"
_SECONDS = 2.0  # without an answer, a server is away
_LONGEST_PAUSE = 2.0
_LARGEST = 2**64 - 1
_log = logging.getLogger(__name__)


class Away(Exception):
    """The server, or the way to it, is gone for now, or it cannot do what it is asked."""


class Link:
    """Commands to a Redis server, which may be away at times.

    Parameters
    ----------
    url : str
        Address, "redis://user:password@host:6379/0".
    patience : float or None
        Seconds that a server that is away is waited for; None for ever.
    """

    def __init__(self, url: str, *, patience: float | None = None) -> None:
        self.url = masked(url)
        try:
            self._client: Any = redis.Redis.from_url(
                url,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=_SECONDS,
                socket_connect_timeout=_SECONDS,
            )
        except ValueError as error:
            raise InputError(f"{self.url} is no address of a Redis server: {error}") from None
        self._patience = patience
        self._closing = threading.Event()
        self._n_failures = 0
        self._well_at = time.monotonic()
        self._next_try = 0.0

    def ask(self, *command: Any) -> Any:
        """Send a command; raise `Away` where it is worth another try later."""
        return self._guarded(lambda: self._client.execute_command(*command))

    def ask_in_turn(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send commands in one go; errors are returned."""
        return self._ask_all(commands, transaction=False)

    def ask_together(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send commands that are carried out all or not at all; other errors are returned."""
        return self._ask_all(commands, transaction=True)

    def _ask_all(self, commands: Iterable[tuple[Any, ...]], *, transaction: bool) -> list[Any]:
        def act() -> list[Any]:
            with self._client.pipeline(transaction=transaction) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                answers: list[Any] = pipeline.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, Exception) and _passes(answer):
                    raise answer
            return answers

        try:
            return self._guarded(act)
        except ResponseError as error:
            raise StreamError(f"Redis at {self.url} refuses: {said(error)}.") from None

    def _guarded(self, act: Callable[[], _T]) -> _T:
        try:
            return act()
        except (AuthenticationError, AuthorizationError) as error:
            raise StreamError(
                f"Redis at {self.url} refuses the user or password: {said(error)}."
            ) from None
        except (RedisError, OSError) as error:
            if _passes(error):
                raise self._away(error) from None
            raise

    def is_well(self) -> None:
        """Note that the server does what it is there for: the next outage counts from now."""
        if self._n_failures:
            _log.info("Redis at %s answers again", self.url)
        self._n_failures, self._next_try = 0, 0.0
        self._well_at = time.monotonic()

    def _away(self, error: Exception) -> Away:
        """Note an outage; say so once, and raise if it lasts too long."""
        self._n_failures += 1
        reason = said(error)
        if self._n_failures == 1:
            _log.warning("waiting for Redis at %s: %s", self.url, reason)
        now = time.monotonic()
        if self._patience is not None and now - self._well_at > self._patience:
            raise StreamError(
                f"Redis at {self.url} has not served us for {now - self._well_at:.0f} s: {reason}. "
                "Start it, check the address, or give it what it lacks."
            )
        self._next_try = now + min(_LONGEST_PAUSE, 0.02 * 2 ** min(self._n_failures, 10))
        return Away(reason)

    def is_due(self, timeout: float) -> bool:
        """Wait for the next try after an outage, at most so long; tell whether it is time."""
        wait = self._next_try - time.monotonic()
        if wait > 0:
            self._closing.wait(min(wait, timeout))
        if self._closing.is_set():
            raise StreamError(f"The connection to Redis at {self.url} was closed.")
        return time.monotonic() >= self._next_try

    def insist(self, act: Callable[[], _T]) -> _T:
        """Do something until the server is there for it."""
        while True:
            try:
                if self.is_due(_LONGEST_PAUSE):
                    return act()
            except Away:
                continue

    def close(self) -> None:
        """Disconnect, and end what waits."""
        self._closing.set()
        self._client.close()


def _passes(error: Exception) -> bool:
    """Whether the server may do later what it does not do now."""
    if isinstance(error, ResponseError):
        return isinstance(error, _PASSING) or said(error).startswith(_DISK_TROUBLE)
    return True


def said(error: Exception) -> str:
    """Return what a server said, without the command it was said about, which may hold rows."""
    return masked(str(error).rpartition("caused error: ")[2])


@dataclass(frozen=True)
class StreamState:
    """What a server says about a stream.

    Parameters
    ----------
    last : tuple
        The largest id that an entry ever had.
    first : tuple or None
        Id of the first entry that is there.
    length : int
        Number of entries that are there.
    added : int or None
        Number of entries that ever were; None if the server is too old to know (before 7.0).
    deleted : tuple
        The largest id of an entry that was deleted by its id.
    """

    last: EntryId = (0, 0)
    first: EntryId | None = None
    length: int = 0
    added: int | None = 0
    deleted: EntryId = (0, 0)

    @property
    def n_removed(self) -> int | None:
        """Number of entries that are not there any more."""
        return None if self.added is None else self.added - self.length


def state_of(answer: Any) -> StreamState:
    """Read the answer to XINFO STREAM; no stream counts as an empty one."""
    if isinstance(answer, ResponseError):
        if "no such key" in str(answer):
            return StreamState()
        raise answer
    told = {name.decode(): value for name, value in zip(answer[::2], answer[1::2], strict=True)}
    first = told.get("first-entry")
    return StreamState(
        last=parsed_id(told["last-generated-id"]),
        first=parsed_id(first[0]) if first else None,
        length=int(told["length"]),
        added=told.get("entries-added"),
        deleted=parsed_id(told.get("max-deleted-entry-id", "0-0")),
    )


def parsed_id(text: str | bytes) -> EntryId:
    """Return the two numbers of an entry id.

    Examples
    --------
    >>> parsed_id(b"1700000000000-3")
    (1700000000000, 3)
    """
    whole = text.decode() if isinstance(text, bytes) else str(text)
    major, _, minor = whole.partition("-")
    try:
        return int(major), int(minor or 0)
    except ValueError:
        raise InputError(f"{whole!r} is no id of a Redis stream; it looks like 1700-0.") from None


def shown_id(entry: EntryId) -> str:
    """Return an id as Redis writes it."""
    return f"{entry[0]}-{entry[1]}"


def before(entry: EntryId) -> EntryId:
    """Return the id right before another, as XREAD reads only what comes after one.

    Examples
    --------
    >>> before((5, 0)) == (4, 2**64 - 1)
    True
    """
    major, minor = entry
    if minor:
        return major, minor - 1
    return (major - 1, _LARGEST) if major else (0, 0)
