"""The index of a pool: where the model of every key is, shared by threads, and as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.stream.keyed import KeyedModel
from scstream.stream.segments import Extent, Segment, extent_of, used


class KeyedEntry:
    """One state of the model of a key: in memory, in a segment, or both.

    Checkpoints that are not written yet share entries with the pool. The model is changed by the
    thread that learns; the extent is set once, under a lock, and then moved by the writer only.

    Examples
    --------
    >>> from scstream.stream.entries import KeyedEntry
    >>> KeyedEntry(n_clusters=3).extent is None
    True
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
    """Everything that a checkpoint of a pool says, as it was after one batch.

    Parameters
    ----------
    index : mapping of str to Entry
        The newest state of every key.
    failures : mapping of str to int
        Failures in a row, of keys that have any.
    seen : mapping of str to int
        The batch of the newest rows, where that matters.
    names : tuple of str or None
        Names of the columns.
    n_batches : int
        Number of batches so far.
    limit : int
        What `SegmentLog.limit` said then: from there on segments may be in use all the same.
    """

    index: Mapping[str, KeyedEntry]
    failures: Mapping[str, int]
    seen: Mapping[str, int]
    names: tuple[str, ...] | None
    n_batches: int
    limit: int


def packed(frozen: PoolState) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return which segments are held, and where every model is, in few arrays.

    Examples
    --------
    >>> import tempfile
    >>> from scstream.stream.entries import KeyedEntry, PoolState, packed, unpacked
    >>> from scstream.stream.segments import SegmentLog, known_segments
    >>> from scstream.stream.store import FolderStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log, entry = SegmentLog(FolderStore(folder), size=100), KeyedEntry(n_clusters=3)
    ...     entry.extent = log.append(b"model")
    ...     log.flush()
    ...     held, index = packed(PoolState({"a": entry}, {}, {}, None, 7, log.limit()))
    ...     segments = known_segments(held["held"], held["sizes"], FolderStore(folder))
    ...     entries, _, _ = unpacked(segments, index)
    ...     held["held"], log.read(entries["a"].extent), entries["a"].n_clusters
    ([0], b'model', 3)
    """
    entries = list(frozen.index.values())
    segments, which = used(entries)
    extents = [extent_of(entry) for entry in entries]
    texts = [key.encode("utf-8", "surrogatepass") for key in frozen.index]
    order = {key: i for i, key in enumerate(frozen.index)} if frozen.failures else {}
    held = {
        "held": [segment.number for segment in segments],
        "sizes": [segment.size for segment in segments],
        "next": frozen.limit,
    }
    return held, {
        "names": frozen.names,
        "n_batches": frozen.n_batches,
        "n_keys": len(entries),
        "text": _words(b"".join(texts)),
        "width": _narrow(len(text) for text in texts),
        "segment": _narrow(which),
        "start": _narrow(extent.start for extent in extents),
        "length": _narrow(extent.length for extent in extents),
        "clusters": _narrow(entry.n_clusters for entry in entries),
        "failing": np.array([order[key] for key in frozen.failures], dtype=np.int64),
        "failures": np.array(list(frozen.failures.values()), dtype=np.int64),
        "seen": np.array([frozen.seen.get(key, 0) for key in frozen.index], dtype=np.int64)
        if frozen.seen
        else None,
    }


def unpacked(
    segments: Sequence[Segment], index: Mapping[str, Any]
) -> tuple[dict[str, KeyedEntry], dict[str, int], dict[str, int]]:
    """Undo `packed`: entries, failures and newest batches by key, the oldest of these first."""
    n_keys = index["n_keys"]
    columns = [
        index[name].view("<u4")[:n_keys].tolist()
        for name in ("width", "segment", "start", "length", "clusters")
    ]
    text, entries, place = index["text"].tobytes(), {}, 0
    for width, segment, start, length, n_clusters in zip(*columns, strict=True):
        key = text[place : place + width].decode("utf-8", "surrogatepass")
        place += width
        entry = entries[key] = KeyedEntry(n_clusters=n_clusters)
        entry.extent = Extent(segments[segment], start, length)
    if len(entries) != n_keys:
        raise ValueError("its keys are not as many as it says")
    keys = list(entries)
    failing = (keys[i] for i in index["failing"].tolist())
    failures = dict(zip(failing, index["failures"].tolist(), strict=True))
    if index["seen"] is None:
        return entries, failures, {}
    newest = index["seen"].tolist()
    by_age = sorted(range(n_keys), key=newest.__getitem__)
    return entries, failures, {keys[i]: newest[i] for i in by_age}


def _narrow(values: Iterable[int]) -> NDArray[np.int64]:
    """Numbers below 2**32, two in each word; a tensor of a model file has words of 8 bytes."""
    return _words(np.fromiter(values, dtype="<u4").tobytes())


def _words(content: bytes) -> NDArray[np.int64]:
    return np.frombuffer(content + bytes(-len(content) % 8), dtype=np.int64)
