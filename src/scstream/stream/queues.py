"""Reading ahead and writing behind: two threads with short queues; the same results without."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from queue import Empty, Full, Queue
from threading import Condition, Event, Thread
from typing import Any, Self

from scstream.io.budget import MAX_READ
from scstream.preprocess.block import Block, bytes_of
from scstream.stream.commit import PendingCommit
from scstream.stream.schema import Reader
from scstream.stream.sink import Delivery, Sink
from scstream.stream.source import Record, Source

Pairs = list[tuple[Record, Block]]
MAX_MESSAGES = 1000  # read at once
WAIT = 0.05  # seconds
_DEPTH = 16  # entries of a queue
_UNLIMITED = 1 << 62


class SyncReader:
    """Reads messages and their rows, in order, when `read` is called."""

    def __init__(self, source: Source, reader: Reader, stop: Event) -> None:
        self._source = source
        self._reader = reader
        self._stop = stop
        self._records: deque[Record] = deque()  # read and not decoded yet

    def read(self) -> Pairs:
        """Return the next messages; none after a short while.

        A small message may hold many rows, so decoding stops after `MAX_READ`; the next call
        continues with the messages that are left.
        """
        pairs: Pairs = []
        n_bytes = 0
        self._records = self._records or deque(self._source.read(MAX_MESSAGES, WAIT))
        while self._records and n_bytes < MAX_READ:
            record = self._records.popleft()
            value = record.value
            block = value if isinstance(value, Block) else self._reader.read(value)
            pairs.append((record, block))
            n_bytes += block.n_bytes
        return pairs

    @property
    def done(self) -> bool:
        """Whether the source has ended and everything was read."""
        return self._source.done and not self._records

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class PrefetchingReader(SyncReader):
    """Reads ahead on a thread of its own."""

    def __init__(self, source: Source, reader: Reader, stop: Event) -> None:
        super().__init__(source, reader, stop)
        self._closed = Event()
        self._budget = Budget()
        self._queue: Queue[Any] = Queue(_DEPTH)
        self._ended = False
        self._thread = Thread(target=self._run, name="scstream-reader", daemon=True)

    def read(self) -> Pairs:
        """Return everything that was read, up to `MAX_READ` and one entry more."""
        if self._ended:
            return []
        pairs: Pairs = []
        n_bytes = 0
        entry = self._get(WAIT)
        while entry is not None:
            pairs += entry
            n_bytes += decoded_size(entry)
            entry = self._get(0.0) if n_bytes < MAX_READ else None
        return pairs

    @property
    def done(self) -> bool:
        """Whether the source has ended and everything was returned."""
        return self._ended

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()
        self._budget.release(_UNLIMITED)
        while self._thread.is_alive():
            _drain(self._queue)
            self._thread.join(WAIT)

    def _get(self, seconds: float) -> Pairs | None:
        """Return the next rows, None if none come in time."""
        pairs: Pairs | None = self._take(seconds)
        if pairs is not None:
            self._budget.release(decoded_size(pairs))
        return pairs

    def _take(self, seconds: float) -> Any:
        """Return the next entry of the queue, None if none comes in time or none will come."""
        try:
            entry = self._queue.get(timeout=seconds) if seconds else self._queue.get_nowait()
        except Empty:
            return None
        if isinstance(entry, BaseException):
            raise entry
        self._ended = entry is None
        return entry

    def _run(self) -> None:
        try:
            while not self._closed.is_set() and not self._stop.is_set():
                if not self._read_ahead() and self._source.done:
                    self._put(None)
                    return
        except BaseException as error:
            self._put(error)

    def _read_ahead(self) -> bool:
        """Read and queue the next messages; return whether there were any."""
        pairs = super().read()
        if pairs:
            self._budget.acquire(decoded_size(pairs))
            self._put(pairs)
        return bool(pairs)

    def _put(self, entry: Any) -> None:
        """Queue an entry: rows, an error, or None for the end."""
        while not self._closed.is_set():
            try:
                return self._queue.put(entry, timeout=WAIT)
            except Full:
                continue


class SyncWriter:
    """Writes deliveries and commits at once, in the order of the calls."""

    def __init__(self, sinks: Mapping[str, Sink], finish: Callable[[PendingCommit], None]) -> None:
        self._sinks = sinks
        self._finish = finish

    def write(self, name: str, delivery: Delivery) -> None:
        """Write a delivery to a sink."""
        self._sinks[name].write(delivery)

    def commit(self, pending: PendingCommit) -> None:
        """Make everything so far final."""
        self._finish(pending)

    def check(self) -> None:
        """Raise the error of an earlier call, if there is one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class AsyncWriter(SyncWriter):
    """Writes behind on a thread of its own.

    An error there is raised at the next call, at `check`, or at the end.
    """

    def __init__(self, sinks: Mapping[str, Sink], finish: Callable[[PendingCommit], None]) -> None:
        super().__init__(sinks, finish)
        self._queue: Queue[Callable[[], None] | None] = Queue(_DEPTH)
        self._budget = Budget()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="scstream-writer", daemon=True)

    def write(self, name: str, delivery: Delivery) -> None:
        """Queue a delivery."""
        size = bytes_of(delivery.columns.values())
        self._budget.acquire(size)

        def act() -> None:
            self._sinks[name].write(delivery)
            self._budget.release(size)

        self._put(act)

    def commit(self, pending: PendingCommit) -> None:
        """Queue a commit."""
        self._put(lambda: self._finish(pending))

    def check(self) -> None:
        """Raise the error of the thread, if there is one."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._queue.put(None)
        self._thread.join()
        if exception[0] is None:
            self.check()

    def _put(self, act: Callable[[], None]) -> None:
        self.check()
        self._queue.put(act)

    def _run(self) -> None:
        for act in iter(self._queue.get, None):
            if self._error is not None:
                continue  # nothing may be written after a write that failed
            try:
                act()
            except BaseException as error:
                self._error = error
                self._budget.release(_UNLIMITED)


class Budget:
    """Bytes that may wait in a queue; one entry always may, however large."""

    def __init__(self) -> None:
        self._used = 0
        self._changed = Condition()

    def acquire(self, n_bytes: int, *, is_urgent: Callable[[], bool] = lambda: False) -> None:
        """Wait until bytes may be used, or `is_urgent`; see `hurry`."""

        def may_be_used() -> bool:
            return self._used <= 0 or self._used + n_bytes <= MAX_READ or is_urgent()

        with self._changed:
            self._changed.wait_for(may_be_used)
            self._used += n_bytes

    def hurry(self) -> None:
        """Let those who wait look again whether they are urgent."""
        with self._changed:
            self._changed.notify_all()

    def release(self, n_bytes: int) -> None:
        """Give bytes back."""
        with self._changed:
            self._used -= n_bytes
            self._changed.notify_all()


def decoded_size(pairs: Pairs) -> int:
    """Return about how many bytes the rows take."""
    return sum(block.n_bytes for _, block in pairs)


def _drain(queue: Queue[Any]) -> None:
    while True:
        try:
            queue.get_nowait()
        except Empty:
            return
