"""Many small contents in few large ones: a log of segments in a store, each written once.

What is appended waits in memory until its segment is full, or until `SegmentLog.flush`. Two threads
may append and read at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scstream.errors import CheckpointCorrupt, Fenced
from scstream.stream.store import Store

PREFIX = "segment-"
_TRIES = 100  # numbers that others may have taken
_GAP = 1 << 16  # bytes that are rather read over than sought over
_FEW = 8  # small segments that are left alone


class Segment:
    """One content of the store, or one that will be.

    Parameters
    ----------
    number : int or None
        What it is called by; None as long as it is in memory only.
    size : int
        Length in bytes.
    """

    __slots__ = ("content", "number", "size")

    def __init__(self, number: int | None = None, size: int = 0) -> None:
        self.number = number
        self.size = size
        self.content: bytearray | None = bytearray() if number is None else None


class Extent(NamedTuple):
    """Where something is: a segment, and which bytes of it."""

    segment: Segment
    start: int
    length: int


class Placed(Protocol):
    """Something that is in a segment, and may be moved to another."""

    extent: Extent | None


class SegmentLog:
    """Appends contents to segments, and reads them.

    Parameters
    ----------
    store : Store
        Where segments are kept.
    size : int
        Bytes after which a segment is full.

    Examples
    --------
    >>> import tempfile
    >>> from scstream.stream.segments import SegmentLog
    >>> from scstream.stream.store import FolderStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = FolderStore(folder)
    ...     log = SegmentLog(store, size=1000)
    ...     first, second = log.append(b"one"), log.append(b"two")
    ...     log.flush()
    ...     log.read(second), store.names()
    (b'two', ['segment-000000000000000'])
    """

    def __init__(self, store: Store, *, size: int) -> None:
        self.store = store
        self.size = size
        self.n_appended = 0  # bytes, ever
        self._open = Segment()
        self._full: deque[Segment] = deque()
        self._next: int | None = None
        self._changing, self._putting = Lock(), Lock()

    def append(self, content: bytes) -> Extent:
        """Add a content; it is in memory until `put_full` or `flush`."""
        with self._changing:
            segment = self._open
            assert segment.content is not None
            extent = Extent(segment, segment.size, len(content))
            segment.content += content
            segment.size += len(content)
            self.n_appended += len(content)
            if segment.size >= self.size:
                self._close()
        return extent

    def put_full(self) -> None:
        """Write segments that are full; does nothing as long as there are none."""
        if not self._full:
            return
        with self._putting:  # one leaves the list when it is written: who waits here knows it is
            while self._full:
                self._put(self._full[0])
                self._full.popleft()

    def flush(self) -> None:
        """Write everything that was appended before; it would survive a crash now."""
        with self._changing:
            self._close()
        self.put_full()

    def start_at(self, number: int) -> None:
        """Use no number before this one; several logs in one store keep out of each other's way."""
        with self._changing:
            self._next = max(self._next_number(), number)

    def limit(self) -> int:
        """Return the number before which there is nothing but what was appended before now."""
        with self._changing:
            return self._next_number()

    def read(self, extent: Extent) -> bytes:
        """Read a content; raises KeyError if its segment is gone."""
        segment, start, length = extent
        content = segment.content
        if content is not None:
            return bytes(content[start : start + length])
        assert segment.number is not None
        return self.store.get(segment_name(segment.number), start, length)

    def read_many(self, extents: Sequence[Extent]) -> Iterator[tuple[int, bytes]]:
        """Read many contents, neighbours at once; yields which it is, and the content.

        The content is empty where the segment is gone.
        """
        order = sorted(range(len(extents)), key=lambda i: (id(extents[i][0]), extents[i].start))
        for run in _runs([extents[i] for i in order], max_n=self.size):
            first, last = extents[order[run.start]], extents[order[run.stop - 1]]
            length = last.start + last.length - first.start
            try:
                whole = self.read(Extent(first.segment, first.start, length))
            except KeyError:
                whole = b""
            for i in order[run.start : run.stop]:
                start = extents[i].start - first.start
                yield i, whole[start : start + extents[i].length]

    def compact(self, entries: Sequence[Placed], *, below: int, max_n: int) -> int:
        """Copy what is left of sparse segments to the end of the log, about `max_n` bytes of it.

        Parameters
        ----------
        entries : sequence of Placed
            Everything that is in use in segments before `below`; their extents are changed.
        below : int
            What `limit` said when the entries were listed.
        most : int
            Bytes to copy; a segment is copied whole, so that it may be some more.

        Returns
        -------
        int
            Number of bytes copied.
        """
        copied = 0
        for segment, inside in _sparse(entries, below, size=self.size):
            if copied >= max_n:
                break
            whole = self.read(Extent(segment, 0, segment.size))
            for entry in inside:
                _, start, length = extent_of(entry)
                entry.extent = self.append(whole[start : start + length])
                copied += length
            self.put_full()
        return copied

    def _close(self) -> None:
        if self._open.size:
            self._full.append(self._open)
            self._open = Segment()

    def _put(self, segment: Segment) -> None:
        assert segment.content is not None
        content = bytes(segment.content)
        for _ in range(_TRIES):
            with self._changing:
                number = self._next_number()
                self._next = number + 1
            if self.store.put_new(segment_name(number), content):
                segment.number = number
                segment.content = None  # only now: a reader looks at it first
                return
            self.start_at(self._after_all())  # others write too, and may be far ahead
        raise Fenced(
            f"{_TRIES} numbers of segments in a row were taken, up to {number}; another instance "
            "writes to the same checkpoints. Stop it, or give it a folder of its own."
        )

    def _next_number(self) -> int:
        """Number after all that there are; an instance before this one may have left some."""
        if self._next is None:
            self._next = self._after_all()
        return self._next

    def _after_all(self) -> int:
        taken = self.store.names(PREFIX)
        return int(taken[-1].removeprefix(PREFIX)) + 1 if taken else 0


def segment_name(number: int) -> str:
    """Return the name of a segment.

    Examples
    --------
    >>> from scstream.stream.segments import segment_name
    >>> segment_name(7)
    'segment-000000000000007'
    """
    return f"{PREFIX}{number:015d}"


def known_segments(numbers: Sequence[int], sizes: Sequence[int], store: Store) -> list[Segment]:
    """Return segments that a checkpoint refers to; raises `CheckpointCorrupt` if one is gone.

    Examples
    --------
    >>> import tempfile
    >>> from scstream.stream.segments import known_segments
    >>> from scstream.stream.store import FolderStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = FolderStore(folder)
    ...     store.put("segment-000000000000003", b"two models")
    ...     known_segments([3], [10], store)[0].number
    3
    """
    there = set(store.names(PREFIX))
    for number in numbers:
        if segment_name(number) not in there:
            raise CheckpointCorrupt(
                f"{segment_name(number)} is gone, and models of the checkpoint are in it; bring it "
                "back, or start from an older checkpoint or savepoint."
            )
    return [Segment(number, size) for number, size in zip(numbers, sizes, strict=True)]


def used(entries: Sequence[Placed]) -> tuple[list[Segment], NDArray[np.int64]]:
    """Return the segments of entries in order of their numbers, and which one each is in.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from scstream.stream.segments import Extent, Segment, used
    >>> five, two = Segment(5, 100), Segment(2, 100)
    >>> entries = [SimpleNamespace(extent=Extent(s, 0, 10)) for s in (five, two, five)]
    >>> segments, which = used(entries)
    >>> [s.number for s in segments], which
    ([2, 5], array([1, 0, 1]))
    """
    segments = list({id(s): s for s in (extent_of(e).segment for e in entries)}.values())
    segments.sort(key=lambda s: -1 if s.number is None else s.number)
    index = {id(segment): i for i, segment in enumerate(segments)}
    which = (index[id(extent_of(entry).segment)] for entry in entries)
    return segments, np.fromiter(which, np.int64, count=len(entries))


def extent_of(entry: Placed) -> Extent:
    """Return where an entry is that was written.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from scstream.stream.segments import Extent, Segment, extent_of
    >>> extent_of(SimpleNamespace(extent=Extent(Segment(5, 100), 10, 20))).start
    10
    """
    assert entry.extent is not None
    return entry.extent


def _sparse(
    entries: Sequence[Placed], below: int, *, size: int
) -> Iterator[tuple[Segment, list[Placed]]]:
    """Segments of which less than half is in use, and small ones if there are many; least first."""
    segments, which = used(entries)
    lengths = np.fromiter((extent_of(e).length for e in entries), np.int64, count=len(entries))
    in_use = np.bincount(which, weights=lengths, minlength=len(segments))
    old = [i for i, s in enumerate(segments) if s.number is not None and s.number < below]
    small = [i for i in old if segments[i].size < size / 2]
    chosen = {i for i in old if in_use[i] < segments[i].size / 2}
    chosen |= set(small) if len(small) > _FEW else set()
    for i in sorted(chosen, key=lambda i: in_use[i]):
        yield segments[i], [entries[j] for j in np.flatnonzero(which == i).tolist()]


def _runs(extents: Sequence[Extent], *, max_n: int) -> Iterator[range]:
    """Ranges of extents that lie so close together that one read takes them all."""
    start = 0
    for i in range(1, len(extents) + 1):
        if i < len(extents):
            first, before, here = extents[start], extents[i - 1], extents[i]
            near = here.start - before.start - before.length <= _GAP
            fits = here.start + here.length - first.start <= max_n
            if here.segment is first.segment and near and fits:
                continue
        yield range(start, i)
        start = i
