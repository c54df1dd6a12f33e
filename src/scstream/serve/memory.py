"""The bounded history of the live page: summaries, lineage of clusters and recent rows.

Old summaries are not dropped: neighbours are merged, so that older ones cover more batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import isfinite, isnan
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from scstream.core.state import Event
from scstream.families.base import Array, Labels, Rows
from scstream.io.header import Json

N_SHARES = 400  # clusters whose share is kept in a summary
_RECENT = 0.05  # this share of the summaries, the newest, is not merged
_ENTRIES = 1 << 20  # numbers in all recent rows
_PEAK = 1.05  # a share is a new peak if it is larger than the last one by this factor
_UNIT = 1e-5  # of the shares that are sent


class Shares(NamedTuple):
    """Shares of clusters, by increasing id."""

    id: Labels  # (S,)
    share: Array  # (S,)

    @classmethod
    def of(cls, ids: Labels, share: Array) -> Self:
        """Keep the largest shares of clusters with increasing ids."""
        if len(ids) > N_SHARES:
            kept = np.sort(np.argpartition(-share, N_SHARES - 1)[:N_SHARES])
            ids, share = ids[kept], share[kept]
        return cls(ids, np.asarray(share, dtype=np.float32))

    def at(self, ids: Labels) -> Array:
        """Return the shares of some clusters, 0 for unknown ones."""
        if not len(self.id):
            return np.zeros(len(ids))
        place = np.minimum(np.searchsorted(self.id, ids), len(self.id) - 1)
        return np.where(self.id[place] == ids, self.share[place], 0.0)

    def mixed_with(self, other: Shares, part: float) -> Shares:
        """Return the mean of both, of which `part` is the other's."""
        ids = np.union1d(self.id, other.id)
        return Shares.of(ids, (1.0 - part) * self.at(ids) + part * other.at(ids))

    def to_dict(self) -> Json:
        """Return it for JSON: the first id and differences of ids, and shares in 1e-5."""
        steps = np.diff(self.id, prepend=0)
        return {"ids": steps.tolist(), "shares": np.rint(self.share / _UNIT).astype(int).tolist()}


NO_SHARES = Shares(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))


@dataclass(frozen=True, eq=False)
class Summary:
    """A range of batches in numbers; densities are means, and NaN if there were no rows."""

    batch: int
    time: float
    begin: float = float("nan")
    first: int = 0
    last: int = 0
    batches: int = 1
    rows: float = 0.0
    novel: float = 0.0
    clusters: int = 0
    min_clusters: int = 0
    max_clusters: int = 0
    density: float = float("nan")
    lowest: float = float("nan")
    highest: float = float("nan")
    outside: float = 0.0
    shares: Shares = NO_SHARES

    def merged_with(self, later: Summary) -> Summary:
        """Return the summary of this range and the next."""
        rows, batches = self.rows + later.rows, self.batches + later.batches
        there = later.batches / batches
        return replace(
            later,
            begin=self.time if isnan(self.begin) else self.begin,
            first=self.first,
            batches=batches,
            rows=rows,
            novel=self.novel + later.novel,
            min_clusters=min(self.min_clusters, later.min_clusters),
            max_clusters=max(self.max_clusters, later.max_clusters),
            density=_mean(self.density, self.rows, later.density, later.rows),
            lowest=_either(min, self.lowest, later.lowest),
            highest=_either(max, self.highest, later.highest),
            outside=(1.0 - there) * self.outside + there * later.outside,
            shares=self.shares.mixed_with(later.shares, there),
        )

    def to_dict(self) -> Json:
        """Return it for JSON: None for NaN, six digits, shares as `Shares.to_dict` has them."""
        begin = self.time if isnan(self.begin) else self.begin
        short = {name: rounded(value) for name, value in vars(self).items() if name != "shares"}
        return short | {"time": self.time, "begin": begin} | self.shares.to_dict()


class Summaries:
    """At most `max_n` summaries of the whole stream, the newest in the finest detail.

    Where there are too many, those two neighbours are joined that together are shortest for their
    age. So the length of a summary stays in proportion to how long ago it was.
    """

    def __init__(self, max_n: int) -> None:
        self.max_n = max_n
        self.n_seen = 0
        self._kept: list[Summary] = []

    def add(self, summary: Summary) -> None:
        """Add a summary; merge two if there are too many."""
        self._kept.append(replace(summary, first=self.n_seen, last=self.n_seen))
        self.n_seen += 1
        if len(self._kept) > self.max_n:
            at = self._shortest_pair()
            self._kept[at : at + 2] = [self._kept[at].merged_with(self._kept[at + 1])]

    def since(self, number: int) -> list[Summary] | None:
        """Return the summaries from a number on; None if it was merged with an earlier one."""
        found = [summary for summary in self._kept if summary.last >= number]
        return None if found and found[0].first < number else found

    def __iter__(self) -> Iterator[Summary]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def _shortest_pair(self) -> int:
        """Return the index of the two neighbours that are shortest for their age."""
        last = np.array([-1, *(summary.last for summary in self._kept)])
        length, age = last[2:] - last[:-2], self.n_seen - last[2:]
        return int(np.argmin(length / (age + _RECENT * self.max_n)))


@dataclass(frozen=True)
class ClusterLife:
    """Birth, end and relations of one cluster."""

    id: int
    born: float | None = None  # None: before the history began
    parent: int | None = None  # it split from this cluster
    end: float | None = None
    how: str | None = None  # "died" or "merged"
    into: int | None = None  # it merged into this cluster
    away: tuple[float | None, float] | None = None  # from and to, if it returned
    peak: float = 0.0  # its largest share, to some percent

    def to_dict(self) -> Json:
        """Return it for JSON."""
        return asdict(self) | {"peak": round(self.peak, 4)}


class Lineage:
    """Birth and end of at most `max_n` clusters; the lightest are dropped first."""

    def __init__(self, max_n: int) -> None:
        self.max_n = max_n
        self.n_dropped = 0
        self.changes = 0
        self._kept: dict[int, ClusterLife] = {}

    def add_events(self, events: Iterable[Event]) -> None:
        """Add events."""
        for event in events:
            self.changes += 1
            other = -1 if event.other is None else event.other
            if event.kind == "born":
                self._kept[event.id] = ClusterLife(event.id, born=event.time)
            elif event.kind == "split":
                self._kept[other] = ClusterLife(other, born=event.time, parent=event.id)
            elif event.kind == "merged":
                self._change(other, end=event.time, how="merged", into=event.id)
            elif event.kind == "died":
                self._change(event.id, end=event.time, how="died")
            elif event.kind == "returned":
                away = (self._life(event.id).end, event.time)
                self._change(event.id, end=None, how=None, into=None, away=away)

    def update_shares(self, shares: Mapping[int, float], born: Mapping[int, float]) -> None:
        """Add the shares of the heaviest clusters, and their times of birth."""
        for name, share in shares.items():
            if name not in self._kept:
                self._kept[name] = ClusterLife(name, born=born[name])
                self.changes += 1
            peak = self._kept[name].peak
            if share > _PEAK * peak:
                self._change(name, peak=share)
                self.changes += share > 1.5 * peak  # worth sending
        excess = len(self._kept) - self.max_n
        if excess > 0:
            light = sorted(self._kept.values(), key=lambda record: (record.peak, record.id))[
                :excess
            ]
            for record in light:
                del self._kept[record.id]
            self.n_dropped += excess

    def __iter__(self) -> Iterator[ClusterLife]:
        return iter(sorted(self._kept.values(), key=lambda record: record.id))

    def __len__(self) -> int:
        return len(self._kept)

    def _life(self, name: int) -> ClusterLife:
        return self._kept.get(name) or ClusterLife(name)

    def _change(self, name: int, **changes: Any) -> None:
        self._kept[name] = replace(self._life(name), **changes)


class LabelledRows(NamedTuple):
    """Rows, the ids of their clusters, and when they were added."""

    rows: Rows  # (N, D)
    labels: Labels  # (N,)
    at: Array  # (N,)


class RecentRows:
    """The newest rows with their labels, bounded in number and size."""

    def __init__(self, n_rows: int) -> None:
        self.max_n = n_rows
        self._chunks: deque[tuple[Rows, Labels, float]] = deque()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(len(labels) for _, labels, _ in self._chunks)

    def add(self, X: Rows, labels: Labels, *, at: float) -> None:
        """Add rows; rows of another width replace all others."""
        if self._chunks and self._chunks[-1][0].shape[1] != X.shape[1]:
            self._chunks.clear()
        self._chunks.append((X, np.array(labels, dtype=np.int64), at))
        while len(self._chunks) > 1 and self._size() > _ENTRIES:
            self._chunks.popleft()
        excess = self.n_rows - self.max_n
        while excess > 0:
            rows, labels, at = self._chunks.popleft()
            if len(labels) > excess:
                self._chunks.appendleft((rows[excess:], labels[excess:], at))
            excess -= len(labels)

    def rename(self, events: Iterable[Event]) -> None:
        """Relabel the rows of merged clusters."""
        for event in events:
            if event.kind == "merged":
                for _, labels, _ in self._chunks:
                    labels[labels == event.other] = event.id

    def rows(self, n: int | None = None) -> LabelledRows | None:
        """Return the newest `n` rows, or all, the oldest first; None if there are none."""
        if not self._chunks or n == 0:
            return None
        rows = [X for X, _, _ in self._chunks]
        labels = np.concatenate([labels for _, labels, _ in self._chunks])
        at = np.concatenate([np.full(len(labels), at) for _, labels, at in self._chunks])
        if any(sparse.issparse(X) for X in rows):
            merged_with = sparse.vstack([sparse.csr_array(X) for X in rows], format="csr")
        else:
            merged_with = np.concatenate(rows)
        newest = slice(0 if n is None else max(len(labels) - n, 0), None)
        return LabelledRows(merged_with[newest], labels[newest], at[newest])

    def _size(self) -> int:
        return sum(X.nnz if sparse.issparse(X) else X.size for X, _, _ in self._chunks)


def spaced(X: Rows, labels: Labels, max_n: int) -> tuple[Rows, Labels]:
    """Return copies of at most `max_n` rows, evenly spaced; fewer if rows are long."""
    if not sparse.issparse(X):
        max_n = min(max_n, max(_ENTRIES // (4 * max(X.shape[1], 1)), 1))
    if X.shape[0] <= max_n:
        return X.copy(), labels.copy()
    picked = np.linspace(0, X.shape[0] - 1, max_n).round().astype(np.int64)
    return X[picked], labels[picked]


def _mean(first: float, n_first: float, second: float, n_second: float) -> float:
    """Return the mean of two means; a mean of no rows does not count."""
    if isnan(first) or not n_first:
        return second
    if isnan(second) or not n_second:
        return first
    return (first * n_first + second * n_second) / (n_first + n_second)


def _either(choose: Any, first: float, second: float) -> float:
    if isnan(first) or isnan(second):
        return second if isnan(first) else first
    return float(choose(first, second))


def rounded(value: float) -> float | None:
    """Round to six digits, which is more than a page can show; None if it is not finite."""
    if isinstance(value, int):
        return value
    return float(f"{value:.6g}") if isfinite(value) else None
