"""What may come in over HTTP, and the one thread that writes it to the journal."""

from __future__ import annotations

import hmac
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import Any

from scstream.stream.connectors.http.journal import Journal

POLL = 0.05  # seconds
_GROUP = 256  # bodies that share one sync


@dataclass
class Post:
    """A body that waits for its place in the journal."""

    key: str
    body: bytes
    ready: threading.Event = field(default_factory=threading.Event)
    status: int = 503
    answer: Mapping[str, Any] = field(default_factory=dict)

    def settle(self, status: int, **answer: Any) -> None:
        """Give the answer to whoever waits for it."""
        self.status, self.answer = status, answer
        self.ready.set()


class Door:
    """What may come in, and the one thread that writes it down: those who wait share a sync."""

    def __init__(
        self,
        journal: Journal,
        token: str | None,
        *,
        max_body: int,
        max_connections: int,
        read_timeout: float,
        max_journal: int,
    ) -> None:
        self.journal = journal
        self.token = token
        self.max_body = max_body
        self.max_connections = max_connections
        self.read_timeout = read_timeout
        self.max_journal = max_journal
        self._waiting: Queue[Post] = Queue(4 * _GROUP)
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin to write down what comes."""
        self._closing.clear()
        self._waiting = Queue(4 * _GROUP)  # nothing that was answered with 503 before
        self._thread = threading.Thread(target=self._run, name="scstream-journal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write down what waits and stop."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self.journal.wake()

    @property
    def is_full(self) -> bool:
        """Whether the journal is as long as it may be."""
        return self.journal.n_bytes >= self.max_journal

    def admits(self, authorization: str) -> bool:
        """Whether a client has the token; how long that takes does not tell the token."""
        if self.token is None:
            return True
        wanted = f"Bearer {self.token}".encode()
        return hmac.compare_digest(authorization.encode("latin-1", "replace"), wanted)

    def take(self, post: Post) -> Post:
        """Wait until a body is written down, or cannot be."""
        if self.is_full:
            post.settle(503, error="The journal is full; the pipeline is behind.")
            return post
        try:
            self._waiting.put_nowait(post)
        except Full:
            post.settle(503, error="Too many bodies wait to be written.")
            return post
        while not post.ready.wait(POLL):
            if self._thread is None or not self._thread.is_alive():
                post.settle(503, error="The pipeline is about to stop.")
        return post

    def _run(self) -> None:
        while not (self._closing.is_set() and self._waiting.empty()):
            try:
                group = [self._waiting.get(timeout=POLL)]
            except Empty:
                continue
            while len(group) < _GROUP and not self._waiting.empty():
                group.append(self._waiting.get())
            self._write(group)

    def _write(self, group: list[Post]) -> None:
        """Write bodies whose keys are new; the others get the place of the first time."""
        new: list[Post] = []
        new_keys: set[str] = set()
        again: list[tuple[Post, tuple[int, int] | None]] = []
        for post in group:
            known = self.journal.seen(post.key)
            if known or (post.key and post.key in new_keys):
                again.append((post, known))
            else:
                new.append(post)
                new_keys.add(post.key)
        try:
            bodies = [(post.key, post.body) for post in new]
            numbers = self.journal.append(bodies, now=time.time()) if bodies else []
        except OSError as error:
            for post in group:
                post.settle(503, error=f"The body could not be written: {error.strerror}.")
            return
        placed: dict[str, tuple[int, int]] = {}
        for post, number in zip(new, numbers, strict=True):
            placed[post.key] = (number, zlib.crc32(post.body))
            post.settle(200, position=number, duplicate=False)
        for post, known in again:
            _settle_again(post, *(known or placed[post.key]))


def _settle_again(post: Post, number: int, checksum: int) -> None:
    if checksum == zlib.crc32(post.body):
        post.settle(200, position=number, duplicate=True)
    else:
        post.settle(409, error="The Idempotency-Key belongs to another body.")
