"""Reading ahead and writing behind: two threads with short queues, the same results without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from queue import Empty, Full, Queue
from threading import Condition, Event, Thread
from typing import Any, Protocol, Self

from scstream.preprocess.block import Block
from scstream.stream.commit import PendingCommit
from scstream.stream.schema import Reader
from scstream.stream.sink import Delivery, Sink
from scstream.stream.source import Record, Source

Pairs = list[tuple[Record, Block]]
_MOST = 1000  # messages read at once
_WAIT = 0.05  # seconds
_DEPTH = 16  # entries of a queue
_BYTES = 64 << 20  # most bytes that wait in a queue


class Feed(Protocol):
    """Messages and their rows, in order."""

    def read(self) -> Pairs:
        """Return what is there; nothing after a short while."""
        ...

    @property
    def done(self) -> bool:
        """Whether the source has ended and everything was read."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class Outlet(Protocol):
    """What becomes of deliveries and checkpoints, in order."""

    def write(self, name: str, delivery: Delivery) -> None:
        """Send a delivery to a sink."""
        ...

    def commit(self, work: PendingCommit) -> None:
        """Make everything so far final."""
        ...

    def check(self) -> None:
        """Raise what went wrong behind, if anything did."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class _Budget:
    """Bytes that may wait; one entry always may, however large."""

    def __init__(self, max_n: int = _BYTES) -> None:
        self._most = max_n
        self._used = 0
        self._changed = Condition()

    def take(self, n_bytes: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._used <= 0 or self._used + n_bytes <= self._most)
            self._used += n_bytes

    def give(self, n_bytes: int) -> None:
        with self._changed:
            self._used -= n_bytes
            self._changed.notify_all()


class SyncReader:
    """A feed that reads when it is asked."""

    def __init__(self, source: Source, reader: Reader, stop: Event) -> None:
        self._source = source
        self._reader = reader

    def read(self) -> Pairs:
        """Read now."""
        return _read(self._source, self._reader)

    @property
    def done(self) -> bool:
        """Whether the source has ended."""
        return self._source.done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class PrefetchingReader:
    """A feed that reads ahead on a thread of its own."""

    def __init__(self, source: Source, reader: Reader, stop: Event) -> None:
        self._source = source
        self._reader = reader
        self._stop = stop
        self._left = Event()
        self._budget = _Budget()
        self._queue: Queue[Pairs | BaseException | None] = Queue(_DEPTH)
        self._ended = False
        self._thread = Thread(target=self._run, name="scstream-reader", daemon=True)

    def read(self) -> Pairs:
        """Take what was read, all of it."""
        if self._ended:
            return []
        pairs: Pairs = []
        entry = self._take(_WAIT)
        while entry is not None:
            pairs += entry
            self._budget.give(_size(entry))
            entry = self._take(0.0)
        return pairs

    @property
    def done(self) -> bool:
        """Whether the source has ended and everything was taken."""
        return self._ended

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._left.set()
        self._budget.give(1 << 62)
        while self._thread.is_alive():
            _drain(self._queue)
            self._thread.join(_WAIT)

    def _take(self, seconds: float) -> Pairs | None:
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
            while not self._left.is_set() and not self._stop.is_set():
                pairs = _read(self._source, self._reader)
                if pairs:
                    self._budget.take(_size(pairs))
                    self._put(pairs)
                elif self._source.done:
                    self._put(None)
                    return
        except BaseException as error:
            self._put(error)

    def _put(self, entry: Pairs | BaseException | None) -> None:
        while not self._left.is_set():
            try:
                return self._queue.put(entry, timeout=_WAIT)
            except Full:
                continue


class SyncWriter:
    """An outlet that writes at once."""

    def __init__(self, sinks: Mapping[str, Sink], finish: Callable[[PendingCommit], None]) -> None:
        self._sinks = sinks
        self._finish = finish

    def write(self, name: str, delivery: Delivery) -> None:
        """Write now."""
        self._sinks[name].write(delivery)

    def commit(self, work: PendingCommit) -> None:
        """Commit now."""
        self._finish(work)

    def check(self) -> None:
        """Do nothing: what went wrong was raised at once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class AsyncWriter:
    """An outlet that writes behind on a thread of its own, in the order of the calls.

    An error there is raised here, at the next call, `check`, or the end.
    """

    def __init__(self, sinks: Mapping[str, Sink], finish: Callable[[PendingCommit], None]) -> None:
        self._inline = SyncWriter(sinks, finish)
        self._queue: Queue[Callable[[], None] | None] = Queue(_DEPTH)
        self._budget = _Budget()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="scstream-writer", daemon=True)

    def write(self, name: str, delivery: Delivery) -> None:
        """Queue a delivery."""
        size = sum(int(values.nbytes) for values in delivery.columns.values())
        self._budget.take(size)

        def act() -> None:
            self._inline.write(name, delivery)
            self._budget.give(size)

        self._put(act)

    def commit(self, work: PendingCommit) -> None:
        """Queue a commit."""
        self._put(lambda: self._inline.commit(work))

    def check(self) -> None:
        """Raise what went wrong behind."""
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
                continue  # nothing may be written after something that was not
            try:
                act()
            except BaseException as error:
                self._error = error
                self._budget.give(1 << 62)


def _read(source: Source, reader: Reader) -> Pairs:
    """Messages with their rows; a source that reads rows by itself sends them ready."""
    records = source.read(_MOST, _WAIT)
    return [
        (record, record.value if isinstance(record.value, Block) else reader.read(record.value))
        for record in records
    ]


def _size(pairs: Pairs) -> int:
    """About how many bytes the rows take."""
    return sum(8 * (block.X.shape[1] + 4 * len(block.extra)) * block.n_rows for _, block in pairs)


def _drain(queue: Queue[Any]) -> None:
    while True:
        try:
            queue.get_nowait()
        except Empty:
            return
