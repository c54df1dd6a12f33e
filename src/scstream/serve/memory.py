"""What the page remembers of a stream, in bounded memory however long it runs.

Older moments are not dropped: neighbours are joined, the more of them the older they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from scstream.core.state import Event
from scstream.families.base import Array, Labels, Rows

N_SHARES = 24  # clusters whose share is remembered for a moment
_YOUTH = 0.05  # moments up to this share of all that may be kept are young: they are not joined
_ENTRIES = 1 << 20  # numbers that recent rows may hold


@dataclass(frozen=True)
class Moment:
    """The stream from one batch to another, summed up.

    Parameters
    ----------
    batch, time : number
        The last batch in it, and when that was by the clock of the model.
    begin : float
        When its first batch was; the same time by default.
    first, last : int
        Numbers of the first and the last of the moments that were joined to this one.
    batches : int
        How many batches it sums up.
    rows, novel : float
        Rows, and how many of them belong to no cluster.
    clusters, fewest, most : int
        Number of clusters at its end, and the least and the largest in it.
    density, lowest, highest : float
        Mean log density of the rows, and the least and the largest of a batch; NaN for no rows.
    outside : float
        Share of the faded weight that belongs to no cluster.
    shares : mapping of int to float
        Shares of the heaviest clusters by their ids.

    Examples
    --------
    >>> from scstream.serve.memory import Moment
    >>> first = Moment(batch=4, time=4.0, rows=100, novel=8, density=-2.0, shares={0: 1.0})
    >>> both = first.joined(Moment(batch=5, time=5.0, rows=300, density=-1.0, shares={1: 1.0}))
    >>> both.batches, both.novel / both.rows, both.density, both.shares
    (2, 0.02, -1.25, {0: 0.5, 1: 0.5})
    """

    batch: int
    time: float
    begin: float = float("nan")
    first: int = 0
    last: int = 0
    batches: int = 1
    rows: float = 0.0
    novel: float = 0.0
    clusters: int = 0
    fewest: int = 0
    max_n: int = 0
    density: float = float("nan")
    lowest: float = float("nan")
    highest: float = float("nan")
    outside: float = 0.0
    shares: Mapping[int, float] = field(default_factory=dict)

    def joined(self, later: Moment) -> Moment:
        """Sum up this moment and the next."""
        rows, batches = self.rows + later.rows, self.batches + later.batches
        here, there = self.batches / batches, later.batches / batches
        return replace(
            later,
            begin=self.time if isnan(self.begin) else self.begin,
            first=self.first,
            batches=batches,
            rows=rows,
            novel=self.novel + later.novel,
            fewest=min(self.fewest, later.fewest),
            max_n=max(self.max_n, later.max_n),
            density=_mean(self.density, self.rows, later.density, later.rows),
            lowest=_either(min, self.lowest, later.lowest),
            highest=_either(max, self.highest, later.highest),
            outside=here * self.outside + there * later.outside,
            shares=_heaviest(
                {
                    name: here * self.shares.get(name, 0.0) + there * later.shares.get(name, 0.0)
                    for name in dict.fromkeys((*self.shares, *later.shares))
                }
            ),
        )

    def plain(self) -> dict[str, Any]:
        """Return it as JSON: ids and shares as two lists, None for NaN, few digits."""
        values = asdict(self)
        shares = values.pop("shares")
        begin = self.time if isnan(self.begin) else self.begin
        short = {name: in_short(value) for name, value in values.items()}
        short |= {"time": self.time, "begin": begin}
        return short | {"ids": list(shares), "shares": [round(v, 4) for v in shares.values()]}


class Moments:
    """At most so many moments that cover the whole stream, the newest in the finest detail.

    Where there are too many, those two neighbours are joined that together are shortest for their
    age. So the length of a moment stays in proportion to how long ago it was.

    Parameters
    ----------
    most : int
        How many there may be.

    Examples
    --------
    >>> from scstream.serve.memory import Moment, Moments
    >>> moments = Moments(8)
    >>> for batch in range(100):
    ...     moments.add(Moment(batch, float(batch)))
    >>> [moment.batches for moment in moments]
    [40, 20, 20, 10, 5, 2, 2, 1]
    """

    def __init__(self, max_n: int) -> None:
        self.max_n = max_n
        self.n_seen = 0
        self._kept: list[Moment] = []

    def add(self, moment: Moment) -> None:
        """Remember a moment."""
        self._kept.append(replace(moment, first=self.n_seen, last=self.n_seen))
        self.n_seen += 1
        if len(self._kept) > self.max_n:
            at = self._hastiest()
            self._kept[at : at + 2] = [self._kept[at].joined(self._kept[at + 1])]

    def since(self, number: int) -> list[Moment] | None:
        """Return the moments from this number on; None where it is joined to an earlier one."""
        found = [moment for moment in self._kept if moment.last >= number]
        return None if found and found[0].first < number else found

    def __iter__(self) -> Iterator[Moment]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def _hastiest(self) -> int:
        """Where the two neighbours are that are together shortest for their age."""
        last = np.array([-1, *(moment.last for moment in self._kept)])
        length, age = last[2:] - last[:-2], self.n_seen - last[2:]
        return int(np.argmin(length / (age + _YOUTH * self.max_n)))


@dataclass(frozen=True)
class Life:
    """What became of a cluster: where it came from and where it went.

    Examples
    --------
    >>> from scstream.serve.memory import Life
    >>> Life(7, born=3.0, parent=2).end is None
    True
    """

    id: int
    born: float | None = None  # None: before anybody looked
    parent: int | None = None  # it was split from
    end: float | None = None
    how: str | None = None  # "died" or "merged"
    into: int | None = None  # it was merged into
    away: tuple[float | None, float] | None = None  # from and to, where it came back
    peak: float = 0.0  # its largest share


class Lives:
    """The lives of at most so many clusters; the lightest are forgotten first.

    Parameters
    ----------
    most : int
        How many there may be.

    Examples
    --------
    >>> from scstream.core.state import Event
    >>> from scstream.serve.memory import Lives
    >>> lives = Lives(10)
    >>> lives.hear([Event("born", 0.0, 1, 9.0), Event("split", 4.0, 1, 9.0, other=2)])
    >>> lives.hear([Event("merged", 6.0, 2, 9.0, other=1)])
    >>> [(life.id, life.parent, life.end, life.into) for life in lives]
    [(1, None, 6.0, 2), (2, 1, None, None)]
    """

    def __init__(self, max_n: int) -> None:
        self.max_n = max_n
        self.n_forgotten = 0
        self.changes = 0
        self._kept: dict[int, Life] = {}

    def hear(self, events: Iterable[Event]) -> None:
        """Follow what happened."""
        for event in events:
            self.changes += 1
            other = -1 if event.other is None else event.other
            if event.kind == "born":
                self._kept[event.id] = Life(event.id, born=event.time)
            elif event.kind == "split":
                self._kept[other] = Life(other, born=event.time, parent=event.id)
            elif event.kind == "merged":
                self._change(other, end=event.time, how="merged", into=event.id)
            elif event.kind == "died":
                self._change(event.id, end=event.time, how="died")
            else:
                away = (self._life(event.id).end, event.time)
                self._change(event.id, end=None, how=None, into=None, away=away)

    def weigh(self, shares: Mapping[int, float], born: Mapping[int, float]) -> None:
        """Be told the shares of the heaviest clusters, and when they were born."""
        for name, share in shares.items():
            if name not in self._kept:
                self._kept[name] = Life(name, born=born[name])
                self.changes += 1
            peak = self._kept[name].peak
            if share > peak:
                self._change(name, peak=share)
                self.changes += share > 1.2 * peak  # worth telling
        excess = len(self._kept) - self.max_n
        if excess > 0:
            light = sorted(self._kept.values(), key=lambda life: (life.peak, life.id))[:excess]
            for life in light:
                del self._kept[life.id]
            self.n_forgotten += excess

    def __iter__(self) -> Iterator[Life]:
        return iter(sorted(self._kept.values(), key=lambda life: life.id))

    def __len__(self) -> int:
        return len(self._kept)

    def _life(self, name: int) -> Life:
        return self._kept.get(name) or Life(name)

    def _change(self, name: int, **changes: Any) -> None:
        self._kept[name] = replace(self._life(name), **changes)


class Told(NamedTuple):
    """Rows, the ids of their clusters, and when they came."""

    rows: Rows  # (N, D)
    labels: Labels  # (N,)
    at: Array  # (N,)


class Recent:
    """The newest rows with their labels, at most so many and of bounded size.

    Parameters
    ----------
    n_rows : int
        How many there may be; fewer where rows are long.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.serve.memory import Recent
    >>> recent = Recent(3)
    >>> recent.add(np.arange(4.0)[:, None], np.array([0, 0, 1, 1]), at=2.0)
    >>> recent.rows().labels, recent.n_rows
    (array([0, 1, 1]), 3)
    """

    def __init__(self, n_rows: int) -> None:
        self.max_n = n_rows
        self._chunks: deque[tuple[Rows, Labels, float]] = deque()

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return sum(len(labels) for _, labels, _ in self._chunks)

    def add(self, X: Rows, labels: Labels, *, at: float) -> None:
        """Remember rows that came now; those of another width than the last are forgotten."""
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
        """Give the rows of a cluster that was merged to the one that goes on."""
        for event in events:
            if event.kind == "merged":
                for _, labels, _ in self._chunks:
                    labels[labels == event.other] = event.id

    def rows(self, n: int | None = None) -> Told | None:
        """Return the newest `n` rows, or all, the oldest first; None if there are none."""
        if not self._chunks or n == 0:
            return None
        rows = [X for X, _, _ in self._chunks]
        labels = np.concatenate([labels for _, labels, _ in self._chunks])
        at = np.concatenate([np.full(len(labels), at) for _, labels, at in self._chunks])
        if any(sparse.issparse(X) for X in rows):
            joined = sparse.vstack([sparse.csr_array(X) for X in rows], format="csr")
        else:
            joined = np.concatenate(rows)
        newest = slice(0 if n is None else max(len(labels) - n, 0), None)
        return Told(joined[newest], labels[newest], at[newest])

    def _size(self) -> int:
        return sum(X.nnz if sparse.issparse(X) else X.size for X, _, _ in self._chunks)


def spaced(X: Rows, labels: Labels, max_n: int) -> tuple[Rows, Labels]:
    """Return copies of at most so many rows, evenly spaced, fewer where they are long.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.serve.memory import spaced
    >>> spaced(np.arange(9.0)[:, None], np.arange(9), 3)[1]
    array([0, 4, 8])
    """
    if not sparse.issparse(X):
        max_n = min(max_n, max(_ENTRIES // (4 * max(X.shape[1], 1)), 1))
    if X.shape[0] <= max_n:
        return X.copy(), labels.copy()
    picked = np.linspace(0, X.shape[0] - 1, max_n).round().astype(np.int64)
    return X[picked], labels[picked]


def _heaviest(shares: Mapping[int, float]) -> dict[int, float]:
    """Keep the largest, in the order of ids."""
    if len(shares) > N_SHARES:
        largest = sorted(shares, key=lambda name: (-shares[name], name))[:N_SHARES]
        shares = {name: shares[name] for name in largest}
    return dict(sorted(shares.items()))


def _mean(first: float, n_first: float, second: float, n_second: float) -> float:
    """Mean of two means; one of no rows says nothing."""
    if isnan(first) or not n_first:
        return second
    if isnan(second) or not n_second:
        return first
    return (first * n_first + second * n_second) / (n_first + n_second)


def _either(choose: Any, first: float, second: float) -> float:
    if isnan(first) or isnan(second):
        return second if isnan(first) else first
    return float(choose(first, second))


def in_short(value: float) -> float | None:
    """Six digits are more than a page can show; what is no number is nothing.

    Examples
    --------
    >>> from scstream.serve.memory import in_short
    >>> in_short(1 / 3), in_short(float("inf")), in_short(7)
    (0.333333, None, 7)
    """
    if isinstance(value, int):
        return value
    return float(f"{value:.6g}") if isfinite(value) else None
