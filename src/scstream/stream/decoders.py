"""Decode messages in several processes; their rows come back in the order of the messages."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
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
    n_bytes: int = 0  # of the messages, or of their rows if that is more
    blocks: Future[list[Block]] = field(default_factory=Future)
    rest: Group | None = None  # the messages whose rows come later, because all would be too large
    is_next: bool = False  # whether the pipeline waits for these rows

    @property
    def messages(self) -> list[bytes]:
        """The messages that must be decoded."""
        return [r.value for r in self.records if not isinstance(r.value, Block)]

    @property
    def pairs(self) -> Pairs:
        """The messages with their rows; raises what the decoding raised."""
        return list(zip(self.records, self.blocks.result(), strict=True))

    def reserve(self, n_bytes: int, budget: Budget) -> None:
        """Wait until there is memory for the rows; those that come next need not wait."""
        budget.acquire(max(n_bytes - self.n_bytes, 0), is_urgent=lambda: self.is_next)
        self.n_bytes = max(n_bytes, self.n_bytes)

    def finish(self, result: list[Block] | Exception) -> Group | None:
        """Note the rows, or why there are none; return the messages whose rows come later."""
        if isinstance(result, Exception):
            self.blocks.set_exception(result)
            return None
        if len(result) < len(self.records):
            self.rest = Group(self.records[len(result) :])
            self.records = self.records[: len(result)]
        self.blocks.set_result(result)
        return self.rest


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
        if group is None:
            return None
        if not group.is_next:
            group.is_next = True
            self._budget.hurry()
        if not wait([group.blocks], seconds).done:
            return None
        self._head = group.rest
        self._budget.release(group.n_bytes)
        return group.pairs

    def _read_ahead(self) -> bool:
        records = deque(self._source.read(MAX_MESSAGES, WAIT))
        found = bool(records)
        while records:
            if isinstance(records[0].value, Block) or not self._reader.schema.is_complete:
                self._decode_here(records.popleft())
            else:
                group = _next_group(records)
                self._budget.acquire(group.n_bytes)
                self._put(group)
                self._groups.put(group)
        return found

    def _decode_here(self, record: Record) -> None:
        value, group = record.value, Group([record])
        self._put(group)
        block = value if isinstance(value, Block) else self._reader.read(value)
        group.reserve(block.n_bytes, self._budget)
        group.finish([block])


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
                result = self._receive_result()
            except (EOFError, OSError):
                if not self._closed.is_set() and not self._replace_process():
                    return
            else:
                self._n_deaths = 0
                rest = self._open_groups.popleft().finish(result)
                if rest is None:
                    self._n_sent -= 1
                else:
                    self._open_groups.appendleft(rest)

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

    def _receive_result(self) -> list[Block] | Exception:
        """Return the next rows of the first group; leave them in the process while memory lacks."""
        (size,) = receive(self._channel)
        self._open_groups[0].reserve(int.from_bytes(size, "little"), self._budget)
        result: list[Block] | Exception = unpack(receive(self._channel))
        return result

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
        where = f" of partition {first.partition}" if first.partition else ""
        error = StreamError(
            f"{_MAX_DEATHS} decoding processes ended (exit code {code}) with messages from "
            f"{first.position}{where} on; set source.decoders to 0 to see why, give them more "
            "memory, or skip the message with scstream skip."
        )
        for group in self._open_groups:
            group.finish(error)
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


def _next_group(records: deque[Record]) -> Group:
    """Take consecutive messages until they have enough bytes for a process."""
    taken: list[Record] = []
    n_bytes = 0
    while records and n_bytes < _GROUP_BYTES:
        value = records[0].value
        if isinstance(value, Block):
            break
        taken.append(records.popleft())
        n_bytes += len(value)
    return Group(taken, n_bytes)
