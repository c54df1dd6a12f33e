"""The index of a pool: where the model of every key is, shared by threads, and as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scstream.stream.keyed import KeyedModel
from scstream.stream.segments import Extent, Segment, SegmentList, extent_of, segments_of


class KeyedEntry:
    """One state of the model of a key: in memory, in a segment, or both.

    Checkpoints that are not written yet share entries with the pool. The learning thread changes
    the model; the extent is set once, under a lock, and then moved by the writer only.
    """

    __slots__ = ("extent", "model", "n_bytes", "n_clusters", "n_freezes")

    def __init__(self, *, n_clusters: int = 0, n_freezes: int = 0) -> None:
        self.model: KeyedModel | None = None
        self.extent: Extent | None = None
        self.n_bytes = 0
        self.n_clusters = n_clusters
        self.n_freezes = n_freezes  # of the pool when this state was new


@dataclass(frozen=True)
class PoolState:
    """What a checkpoint stores of a pool, as it was after one batch."""

    index: Mapping[str, KeyedEntry]  # the newest state of every key
    failures: Mapping[str, int]  # consecutive failures, of keys that have any
    last_seen: Mapping[str, int]  # batch of the newest rows, if keys expire
    names: Sequence[str] | None  # of the columns
    n_batches: int
    limit: int  # `SegmentLog.limit` at that time

    def to_arrays(self) -> tuple[SegmentList, PoolIndex]:
        """Return which segments are in use, and where every model is, in a few arrays."""
        entries = list(self.index.values())
        segments, which = segments_of(entries)
        extents = [extent_of(entry) for entry in entries]
        texts = [key.encode("utf-8", "surrogatepass") for key in self.index]
        order = {key: i for i, key in enumerate(self.index)} if self.failures else {}
        last_seen = [self.last_seen.get(key, 0) for key in self.index] if self.last_seen else None
        numbers = [-1 if segment.number is None else segment.number for segment in segments]
        in_use = SegmentList(numbers, [segment.size for segment in segments], self.limit)
        return in_use, PoolIndex(
            names=None if self.names is None else list(self.names),
            n_batches=self.n_batches,
            n_keys=len(entries),
            text=_words(b"".join(texts)),
            width=_narrow(len(text) for text in texts),
            segment=_narrow(which),
            start=_narrow(extent.start for extent in extents),
            length=_narrow(extent.length for extent in extents),
            clusters=_narrow(entry.n_clusters for entry in entries),
            failing=np.array([order[key] for key in self.failures], dtype=np.int64),
            failures=np.array(list(self.failures.values()), dtype=np.int64),
            last_seen=None if last_seen is None else np.array(last_seen, dtype=np.int64),
        )


@dataclass(frozen=True)
class PoolIndex:
    """The state of a pool as arrays of a model file, whose words have 8 bytes."""

    names: list[str] | None
    n_batches: int
    n_keys: int
    text: NDArray[np.int64]  # the keys, one after the other
    width: NDArray[np.int64]  # bytes of each key
    segment: NDArray[np.int64]  # index of its segment
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    clusters: NDArray[np.int64]
    failing: NDArray[np.int64]  # indices of keys with failures
    failures: NDArray[np.int64]
    last_seen: NDArray[np.int64] | None

    def to_state(self, segments: Sequence[Segment], *, limit: int = 0) -> PoolState:
        """Undo `PoolState.to_arrays`; the keys of `last_seen` come in order of batches."""
        index, extents = {}, self.extents(segments)
        for (key, extent), n_clusters in zip(extents.items(), self.column("clusters"), strict=True):
            entry = index[key] = KeyedEntry(n_clusters=n_clusters)
            entry.extent = extent
        keys, last_seen = list(index), {}
        failing = (keys[i] for i in self.failing.tolist())
        failures = dict(zip(failing, self.failures.tolist(), strict=True))
        if self.last_seen is not None:
            batches = self.last_seen.tolist()
            last_seen = {keys[i]: batches[i] for i in np.argsort(batches, kind="stable").tolist()}
        return PoolState(index, failures, last_seen, self.names, self.n_batches, limit)

    def extents(self, segments: Sequence[Segment]) -> dict[str, Extent]:
        """Return where the model of every key is; raises ValueError or LookupError."""
        columns = map(self.column, ("width", "segment", "start", "length"))
        text, found, position = self.text.tobytes(), {}, 0
        for width, segment, start, length in zip(*columns, strict=True):
            key = text[position : position + width].decode("utf-8", "surrogatepass")
            position += width
            found[key] = Extent(segments[segment], start, length)
        if len(found) != self.n_keys:
            raise ValueError("the number of keys is wrong")
        return found

    def column(self, name: str) -> list[int]:
        """Return one of the numbers of every key."""
        numbers: list[int] = getattr(self, name).view("<u4")[: self.n_keys].tolist()
        return numbers


def _narrow(values: Iterable[int]) -> NDArray[np.int64]:
    """Return numbers below 2**32, two in each word."""
    return _words(np.fromiter(values, dtype="<u4").tobytes())


def _words(content: bytes) -> NDArray[np.int64]:
    return np.frombuffer(content + bytes(-len(content) % 8), dtype=np.int64)
