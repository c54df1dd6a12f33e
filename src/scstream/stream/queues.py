"""Reading ahead and writing behind: two threads with short queues; the same results without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from queue import Empty, Full, Queue
from threading import Condition, Event, Thread
from typing import Any, Self

from scstream.preprocess.block import Block
from scstream.stream.commit import PendingCommit
from scstream.stream.schema import Reader
from scstream.stream.sink import Delivery, Sink
from scstream.stream.source import Record, Source

Pairs = list[tuple[Record, Block]]
_MAX_MESSAGES = 1000  # read at once
_WAIT = 0.05  # seconds
_DEPTH = 16  # entries of a queue
_MAX_BYTES = 64 << 20  # in a queue
_UNLIMITED = 1 << 62


class SyncReader:
    """Reads messages and their rows, in order, when `read` is called."""

    def __init__(self, source: Source, reader: Reader, stop: Event) -> None:
        self._source = source
        self._reader = reader
        self._stop = stop

    def read(self) -> Pairs:
        """Return the next messages; none after a short while."""
        pairs: Pairs = []
        for record in self._source.read(_MAX_MESSAGES, _WAIT):
            value = record.value
            pairs.append((record, value if isinstance(value, Block) else self._reader.read(value)))
        return pairs

    @property
    def done(self) -> bool:
        """Whether the source has ended and everything was read."""
        return self._source.done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class PrefetchingReader(SyncReader):
    """Reads ahead on a thread of its own."""

    def __init__(self, source: Source, reader: Reader, stop: Event) -> None:
        super().__init__(source, reader, stop)
        self._closed = Event()
        self._budget = _Budget()
        self._queue: Queue[Pairs | BaseException | None] = Queue(_DEPTH)
        self._ended = False
        self._thread = Thread(target=self._run, name="scstream-reader", daemon=True)

    def read(self) -> Pairs:
        """Return everything that was read."""
        if self._ended:
            return []
        pairs: Pairs = []
        entry = self._get(_WAIT)
        while entry is not None:
            pairs += entry
            self._budget.release(_size(entry))
            entry = self._get(0.0)
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
            self._thread.join(_WAIT)

    def _get(self, seconds: float) -> Pairs | None:
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
                pairs = super().read()
                if pairs:
                    self._budget.acquire(_size(pairs))
                    self._put(pairs)
                elif self._source.done:
                    self._put(None)
                    return
        except BaseException as error:
            self._put(error)

    def _put(self, entry: Pairs | BaseException | None) -> None:
        while not self._closed.is_set():
            try:
                return self._queue.put(entry, timeout=_WAIT)
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
        self._budget = _Budget()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="scstream-writer", daemon=True)

    def write(self, name: str, delivery: Delivery) -> None:
        """Queue a delivery."""
        size = sum(int(values.nbytes) for values in delivery.columns.values())
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


class _Budget:
    """Bytes that may wait in a queue; one entry always may, however large."""

    def __init__(self) -> None:
        self._used = 0
        self._changed = Condition()

    def acquire(self, n_bytes: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._used <= 0 or self._used + n_bytes <= _MAX_BYTES)
            self._used += n_bytes

    def release(self, n_bytes: int) -> None:
        with self._changed:
            self._used -= n_bytes
            self._changed.notify_all()


def _size(pairs: Pairs) -> int:
    """Return about how many bytes the rows take."""
    return sum(8 * (block.X.shape[1] + 4 * len(block.extra)) * block.n_rows for _, block in pairs)


def _drain(queue: Queue[Any]) -> None:
    while True:
        try:
            queue.get_nowait()
        except Empty:
            return
