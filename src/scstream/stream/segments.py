"""A log of segments in a store: many small contents in a few large objects, each written once.

Appended contents wait in memory until their segment is full, or until `SegmentLog.flush`. Two
threads may append and read at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scstream.errors import CheckpointCorrupt, Fenced
from scstream.stream.store import Store, number_of, numbered_name, numbered_names

PREFIX = "segment-"
_TRIES = 100  # numbers that others may take
_GAP = 1 << 16  # bytes between two contents that are still read at once
_FEW = 8  # small segments that are not compacted


class Segment:
    """One object of the store; `number` is None while it is in memory only."""

    __slots__ = ("content", "number", "size")

    def __init__(self, number: int | None = None, size: int = 0) -> None:
        self.number = number
        self.size = size
        self.content: bytearray | None = bytearray() if number is None else None


class Extent(NamedTuple):
    """Where a content is: a segment, and which bytes of it."""

    segment: Segment
    start: int
    length: int


class HasExtent(Protocol):
    """Something that is in a segment, and may be moved to another."""

    extent: Extent | None


@dataclass(frozen=True)
class SegmentList:
    """The segments that a checkpoint refers to; from `limit` on others may be in use too."""

    numbers: Sequence[int] = ()
    sizes: Sequence[int] = ()
    limit: int = 0

    def open(self, store: Store) -> list[Segment]:
        """Return the segments; raises `CheckpointCorrupt` if one is gone."""
        names = set(numbered_names(store, PREFIX))
        for number in self.numbers:
            if segment_name(number) not in names:
                raise CheckpointCorrupt(
                    f"{segment_name(number)} is gone, and models of the checkpoint are in it; "
                    "restore it, or start from an older checkpoint or savepoint."
                )
        return self.segments()

    def segments(self) -> list[Segment]:
        """Return the segments, some of which may be gone."""
        return [
            Segment(number, size) for number, size in zip(self.numbers, self.sizes, strict=True)
        ]


class SegmentLog:
    """Appends contents to segments of about `size` bytes, and reads them."""

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
        """Write the segments that are full."""
        if not self._full:
            return
        with (
            self._putting
        ):  # a segment leaves the list after it is written: a thread that waits knows
            while self._full:
                self._put(self._full[0])
                self._full.popleft()

    def flush(self) -> None:
        """Write everything that was appended before."""
        with self._changing:
            self._close()
        self.put_full()

    def start_at(self, number: int) -> None:
        """Use no number below this one; several logs in one store use separate ranges."""
        with self._changing:
            self._next = max(self._next_number(), number)

    def limit(self) -> int:
        """Return the number below which every segment was appended before now."""
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
        """Read many contents, neighbours at once; yields the index and the content.

        The content is empty if the segment is gone.
        """
        order = sorted(range(len(extents)), key=lambda i: (id(extents[i][0]), extents[i].start))
        for run in _runs([extents[i] for i in order], max_n=self.size):
            first, last = extents[order[run.start]], extents[order[run.stop - 1]]
            length = last.start + last.length - first.start
            try:
                content = self.read(Extent(first.segment, first.start, length))
            except KeyError:
                content = b""
            for i in order[run.start : run.stop]:
                start = extents[i].start - first.start
                yield i, content[start : start + extents[i].length]

    def compact(self, entries: Sequence[HasExtent], *, below: int, max_n: int) -> int:
        """Copy what is left of sparse segments to the end of the log, about `max_n` bytes of it.

        `entries` are all contents in use in segments below `below`, which `limit` returned when
        they were listed; their extents are changed. Returns the number of bytes copied.
        """
        copied = 0
        for segment, inside in _sparse(entries, below, size=self.size):
            if copied >= max_n:
                break
            content = self.read(Extent(segment, 0, segment.size))
            for entry in inside:
                _, start, length = extent_of(entry)
                entry.extent = self.append(content[start : start + length])
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
                segment.content = None  # last: a reader looks at it first
                return
            self.start_at(self._after_all())  # others write too
        raise Fenced(
            f"{_TRIES} numbers of segments in a row were taken, up to {number}; another instance "
            "writes to the same checkpoints. Stop it, or give it a folder of its own."
        )

    def _next_number(self) -> int:
        """Return the number after all in the store; earlier instances may have left some."""
        if self._next is None:
            self._next = self._after_all()
        return self._next

    def _after_all(self) -> int:
        taken = numbered_names(self.store, PREFIX)
        return number_of(PREFIX, taken[-1]) + 1 if taken else 0


def segment_name(number: int) -> str:
    """Return the name of a segment."""
    return numbered_name(PREFIX, number)


def segments_of(entries: Sequence[HasExtent]) -> tuple[list[Segment], NDArray[np.int64]]:
    """Return the segments of entries by number, and the index of the segment of each entry."""
    segments = list({id(s): s for s in (extent_of(e).segment for e in entries)}.values())
    segments.sort(key=lambda s: -1 if s.number is None else s.number)
    index = {id(segment): i for i, segment in enumerate(segments)}
    which = (index[id(extent_of(entry).segment)] for entry in entries)
    return segments, np.fromiter(which, np.int64, count=len(entries))


def extent_of(entry: HasExtent) -> Extent:
    """Return the extent of an entry that was written."""
    assert entry.extent is not None
    return entry.extent


def _sparse(
    entries: Sequence[HasExtent], below: int, *, size: int
) -> Iterator[tuple[Segment, list[HasExtent]]]:
    """Segments less than half in use, and small ones if there are many; the emptiest first."""
    segments, which = segments_of(entries)
    lengths = np.fromiter((extent_of(e).length for e in entries), np.int64, count=len(entries))
    in_use = np.bincount(which, weights=lengths, minlength=len(segments))
    old = [i for i, s in enumerate(segments) if s.number is not None and s.number < below]
    small = [i for i in old if segments[i].size < size / 2]
    chosen = {i for i in old if in_use[i] < segments[i].size / 2}
    chosen |= set(small) if len(small) > _FEW else set()
    for i in sorted(chosen, key=lambda i: in_use[i]):
        yield segments[i], [entries[j] for j in np.flatnonzero(which == i).tolist()]


def _runs(extents: Sequence[Extent], *, max_n: int) -> Iterator[range]:
    """Ranges of extents that lie so close together that one read gets them all."""
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
