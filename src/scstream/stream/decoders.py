"""Decode messages in several processes; their rows come back in the order of the messages."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Self

from scstream.errors import StreamError
from scstream.preprocess.block import Block
from scstream.stream import decoding_process
from scstream.stream.frames import pack, receive, send, unpack
from scstream.stream.queues import (
    MAX_MESSAGES,
    WAIT,
    Budget,
    Pairs,
    PrefetchingReader,
    decoded_size,
)
from scstream.stream.schema import Reader
from scstream.stream.source import Record, Source

_GROUP_BYTES = 1 << 18  # of the messages that are sent to a process at once
_WINDOW = 3  # groups that a process has at a time, so that it never waits for this one
_MAX_DEATHS = 3  # of processes in a row that get the same messages
_END_SECONDS = 5.0  # for a process to end by itself
_log = logging.getLogger(__name__)


@dataclass
class Group:
    """Consecutive messages, and their rows as soon as they are decoded."""

    records: Sequence[Record]
    n_bytes: int  # of the messages, or of their rows if that is more
    blocks: Future[list[Block]] = field(default_factory=Future)

    @property
    def messages(self) -> list[bytes]:
        """The messages that must be decoded."""
        return [r.value for r in self.records if not isinstance(r.value, Block)]

    @property
    def pairs(self) -> Pairs:
        """The messages with their rows; raises what the decoding raised."""
        blocks = iter(self.blocks.result())
        return [(r, r.value if isinstance(r.value, Block) else next(blocks)) for r in self.records]

    def finish(self, result: list[Block] | Exception, budget: Budget) -> None:
        """Note the rows, or why there are none."""
        if isinstance(result, Exception):
            return self.blocks.set_exception(result)
        n_bytes = decoded_size([(self.records[0], block) for block in result])
        budget.add(max(n_bytes - self.n_bytes, 0))
        self.n_bytes = max(n_bytes, self.n_bytes)
        self.blocks.set_result(result)


class DecodingReader(PrefetchingReader):
    """Reads ahead, and decodes in processes of its own.

    The features of a schema follow from the first valid row, so messages up to that one are
    decoded here. Which process decodes a message changes nothing: a reader keeps nothing else.
    """

    def __init__(self, source: Source, reader: Reader, stop: Event, *, n_processes: int) -> None:
        super().__init__(source, reader, stop)
        self._groups: SimpleQueue[Group | None] = SimpleQueue()
        self._head: Group | None = None  # the next group to return
        self._decoders = [
            _Decoder(reader, self._groups, self._budget, self._closed) for _ in range(n_processes)
        ]

    def __enter__(self) -> Self:
        for decoder in self._decoders:
            decoder.start()
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        for _ in self._decoders:
            self._groups.put(None)
        for decoder in self._decoders:
            decoder.end()

    def _get(self, seconds: float) -> Pairs | None:
        group = self._head = self._head or self._take(seconds)
        if group is None or not wait([group.blocks], seconds).done:
            return None
        self._head = None
        self._budget.release(group.n_bytes)
        return group.pairs

    def _read_ahead(self) -> bool:
        records = self._source.read(MAX_MESSAGES, WAIT)
        for group in _groups(records):
            self._budget.acquire(group.n_bytes)
            self._put(group)
            if not self._reader.schema.is_complete:
                group.finish([self._reader.read(value) for value in group.messages], self._budget)
            else:
                self._groups.put(group)
        return bool(records)


class _Decoder(Thread):
    """One process that decodes, and the thread that talks to it; replaces it if it dies."""

    def __init__(
        self, reader: Reader, groups: SimpleQueue[Group | None], budget: Budget, closed: Event
    ) -> None:
        super().__init__(name="scstream-decoder", daemon=True)
        self._reader = reader
        self._groups = groups
        self._budget = budget
        self._closed = closed
        self._open_groups: deque[Group] = deque()  # taken and not decoded yet
        self._n_sent = 0  # of them, to this process
        self._is_new = True  # whether this process has no reader yet
        self._n_deaths = 0
        self._start_process()

    def run(self) -> None:
        """Send groups and receive their rows until the end."""
        while not self._closed.is_set():
            try:
                if not self._take_groups():
                    return
                self._send_groups()
                result = unpack(receive(self._channel))
            except (EOFError, OSError):
                if not self._closed.is_set() and not self._replace_process():
                    return
            else:
                self._n_sent, self._n_deaths = self._n_sent - 1, 0
                self._open_groups.popleft().finish(result, self._budget)

    def end(self) -> None:
        """End the process and the thread; `closed` is set."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        self.join()
        self._end_process()

    def _take_groups(self) -> bool:
        """Take groups up to the window; return False at the end."""
        while len(self._open_groups) < _WINDOW:
            try:
                group = self._groups.get(block=not self._open_groups)
            except Empty:
                break
            if group is None:
                return False
            self._open_groups.append(group)
        return True

    def _send_groups(self) -> None:
        if self._is_new:  # not earlier: the schema must be complete
            send(self._channel, pack(self._reader))
            self._is_new = False
        while self._n_sent < len(self._open_groups):
            send(self._channel, self._open_groups[self._n_sent].messages)
            self._n_sent += 1

    def _replace_process(self) -> bool:
        """Start another process, which gets the same groups; return False if that is useless."""
        self._end_process()
        self._n_deaths += 1
        code = self._process.returncode
        if self._n_deaths < _MAX_DEATHS:
            _log.warning("a decoding process ended (exit code %d); another one starts", code)
            self._start_process()
            return True
        first = self._open_groups[0].records[0]
        error = StreamError(
            f"{_MAX_DEATHS} decoding processes ended (exit code {code}) with messages from "
            f"{first.position} on; set source.decoders to 0 to see why, or give them more memory."
        )
        for group in self._open_groups:
            group.finish(error, self._budget)
        return False

    def _start_process(self) -> None:
        self._channel, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", decoding_process.__name__, str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._is_new, self._n_sent = True, 0

    def _end_process(self) -> None:
        """Let the process end: it does so when its socket is closed."""
        self._channel.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _groups(records: Sequence[Record]) -> Iterator[Group]:
    """Yield consecutive messages together until they have enough bytes for a process."""
    taken: list[Record] = []
    n_bytes = 0
    for record in records:
        taken.append(record)
        n_bytes += 0 if isinstance(record.value, Block) else len(record.value)
        if n_bytes >= _GROUP_BYTES:
            yield Group(taken, n_bytes)
            taken, n_bytes = [], 0
    if taken:
        yield Group(taken, n_bytes)
