"""Where one batch ends and the next begins: a cut, which must fall in the same place in a replay.

Cuts by count, and by event time, follow from the rows alone. A cut by the wall clock, or one whose
place depends on which of several partitions was faster, does not: `Batching.is_logged` says that the
pipeline must write it down before it acts on it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scstream.errors import InputError, TimeError
from scstream.preprocess.block import Block, Reject, join
from scstream.stream.source import Position, Record

_NEVER = float("-inf")


@dataclass(frozen=True)
class Offset:
    """Where the next row of a partition is: a message, and the row within it."""

    position: Position
    row: int = 0


Offsets = Mapping[str, Offset]  # by partition


@dataclass(frozen=True)
class BatchBoundary:
    """The end of a batch, and the time that the model is told.

    It counts rows, not messages: a source may hand out the same rows in other messages next time.

    Examples
    --------
    >>> from scstream.stream.batcher import BatchBoundary
    >>> cut = BatchBoundary(3, {"": 250}, time=None)
    >>> BatchBoundary(**cut.plain()) == cut
    True
    """

    batch: int
    rows: Mapping[str, int]  # by partition, behind the batch before
    time: float | None

    def plain(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"batch": self.batch, "rows": dict(self.rows), "time": self.time}


@dataclass(frozen=True)
class SourceBatch:
    """The rows of one batch, and where each of them came from."""

    batch: int
    stop: Offsets
    time: float | None
    block: Block
    spans: tuple[tuple[int, str, Offset], ...]  # first row, partition, and place of that row

    def origin(self, row: int) -> tuple[str, Offset]:
        """Partition and place of a row."""
        first, partition, place = max(
            (span for span in self.spans if span[0] <= row), key=lambda span: span[0]
        )
        return partition, replace(place, row=place.row + row - first)


@dataclass(frozen=True)
class Batching:
    """How rows are put into batches.

    Parameters
    ----------
    rows : int
        Most rows in a batch.
    first : int or None
        Rows of the first batch, from which priors and preprocessing are learned; neither a timer
        nor a window makes it shorter. By default the first batch is like the others.
    seconds : float or None
        Cut what is there after so many seconds, even if it is less.
    time : {"batch", "processing", "event"}
        What the model is told as the time of a batch: its number, the clock of the machine when it
        was cut, or the times that the rows carry.
    window : float or None
        With event time: cut whenever it has gone on by so many seconds.
    lateness : float
        With event time: how many seconds a row may come after rows that are newer. The time of a
        batch is the newest time seen less this, and never goes back.
    late : {"add", "drop", "error"}
        What to do with a row that is older than the batch before.

    Examples
    --------
    >>> from scstream.stream.batcher import Batching
    >>> Batching(rows=500).is_logged([""]), Batching(seconds=2.0).is_logged([""])
    (False, True)
    """

    rows: int = 1000
    first: int | None = None
    seconds: float | None = None
    time: Literal["batch", "processing", "event"] = "batch"
    window: float | None = None
    lateness: float = 0.0
    late: Literal["add", "drop", "error"] = "add"

    def __post_init__(self) -> None:
        for name in ("rows", "first"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InputError(f"batch.{name} must be a whole number from 1, got {value!r}.")
        for name in ("seconds", "window"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"batch.{name} must be a positive number, got {value!r}.")
        if not self.lateness >= 0:
            raise InputError(f"batch.lateness must not be negative, got {self.lateness!r}.")
        if self.time not in ("batch", "processing", "event"):
            raise InputError(
                f"batch.time must be 'batch', 'processing' or 'event', got {self.time!r}."
            )
        if self.late not in ("add", "drop", "error"):
            raise InputError(f"batch.late must be 'add', 'drop' or 'error', got {self.late!r}.")
        if self.window is not None and self.time != "event":
            raise InputError("batch.window needs batch.time = 'event' and schema.time, a column.")

    def is_logged(self, partitions: Iterable[str]) -> bool:
        """Whether a cut depends on more than the rows, and must be written down.

        A source with parts names its partitions, and which of them was faster is chance, also while
        only one of them was seen.
        """
        by_clock = self.seconds is not None or self.time == "processing"
        return by_clock or any(partition != "" for partition in partitions)


@dataclass(frozen=True)
class _Piece:
    """Rows of one message that are not in a batch yet."""

    partition: str
    place: Offset
    after: Position
    block: Block
    newest: NDArray[np.float64] | None  # (G,) newest event time up to and with each sound row


@dataclass
class Batcher:
    """Rows that wait, and the next cut through them.

    Parameters
    ----------
    batching : Batching
        Where to cut.
    time_column : str or None
        The column of event times.
    batch : int
        Number of the next batch.
    mark : mapping
        Where the next rows are, by partition.
    watermark : float
        Time of the last batch, where batches have times.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.stream.batcher import Batcher, Batching
    >>> from scstream.preprocess.block import Block
    >>> from scstream.stream.source import Record
    >>> batcher = Batcher(Batching(rows=3))
    >>> batcher.add(Record(0, 1, b""), Block.of(np.ones((5, 1))), elapsed=0.0)
    >>> cut = batcher.propose(elapsed=0.0, now=0.0)
    >>> cut.rows
    {'': 3}
    >>> batcher.take(cut).stop
    {'': Offset(position=0, row=3)}
    """

    batching: Batching
    time_column: str | None = None
    batch: int = 0
    mark: dict[str, Offset] = field(default_factory=dict)
    watermark: float = _NEVER
    is_first: bool = True
    n_waiting: int = 0
    _pieces: deque[_Piece] = field(default_factory=deque)
    _newest: float = _NEVER
    _since: float | None = None  # when the oldest row that waits came

    def __post_init__(self) -> None:
        if self.batching.time == "event" and self.time_column is None:
            raise InputError("batch.time = 'event' needs schema.time, the column of times.")
        self._newest = self.watermark + self.batching.lateness

    def add(self, record: Record, block: Block, *, elapsed: float) -> None:
        """Take in the rows of a message; those before the mark are left out."""
        start = self.mark.setdefault(record.partition, Offset(record.position))
        skipped = start.row if start.position == record.position else 0
        if skipped >= block.n_rows:  # nothing of it is left, also where messages are cut anew
            if skipped:
                self.mark[record.partition] = Offset(record.after, skipped - block.n_rows)
            return
        first = Offset(record.position, skipped)
        block = block.slice(skipped, block.n_rows)
        if not self._pieces:
            self._since = elapsed
        self._pieces.append(
            _Piece(record.partition, first, record.after, block, self._times(block))
        )
        self.n_waiting += block.n_rows

    def propose(self, *, elapsed: float, now: float, final: bool = False) -> BatchBoundary | None:
        """Return the next cut, or None if more rows must come; `final` if no more will."""
        n_rows = self._n_ready()
        if n_rows is None:
            seconds, since = self.batching.seconds, self._since
            due = seconds is not None and since is not None and elapsed - since >= seconds
            if not self.n_waiting or not (final or (due and not self._is_long)):
                return None
            n_rows = self.n_waiting
        return BatchBoundary(self.batch, self._lanes_of(n_rows), self._time_at(n_rows, now))

    def covers(self, cut: BatchBoundary) -> bool:
        """Whether all rows of a planned cut are here."""
        here: Counter[str] = Counter()
        for piece in self._pieces:
            here[piece.partition] += piece.block.n_rows
        return all(here[partition] >= n_rows for partition, n_rows in cut.rows.items())

    def take(self, cut: BatchBoundary) -> SourceBatch:
        """Return the rows of a cut, partition by partition, and go on behind it."""
        inside: list[tuple[_Piece, int]] = []
        rest: deque[_Piece] = deque()
        left = dict(cut.rows)
        for piece in self._pieces:
            n_rows = min(left.get(piece.partition, 0), piece.block.n_rows)
            if n_rows:
                left[piece.partition] -= n_rows
                inside.append((piece, n_rows))
            if n_rows < piece.block.n_rows:
                rest.append(_behind(piece, n_rows))
        inside.sort(key=lambda pair: pair[0].partition)
        return self._handed_over(cut, inside, rest)

    def _handed_over(
        self, cut: BatchBoundary, inside: list[tuple[_Piece, int]], rest: deque[_Piece]
    ) -> SourceBatch:
        starts = np.cumsum([0, *(n for _, n in inside)]).tolist()
        spans = tuple(
            (start, piece.partition, piece.place)
            for start, (piece, _) in zip(starts, inside, strict=False)
        )
        block = join([piece.block.slice(0, n) for piece, n in inside] or [Block.empty()])
        block = self._without_late(block)
        self._pieces, self.n_waiting = rest, self.n_waiting - starts[-1]
        self.mark |= {piece.partition: _place_behind(piece, n) for piece, n in inside}
        self.batch, self.is_first = cut.batch + 1, False
        if cut.time is not None:
            self.watermark = cut.time
        return SourceBatch(cut.batch, dict(self.mark), cut.time, block, spans)

    def restart_timer(self, elapsed: float) -> None:
        """Count the seconds of the next batch from now, if rows of it are here already."""
        self._since = elapsed if self._pieces else None

    def _times(self, block: Block) -> NDArray[np.float64] | None:
        if self.batching.time != "event" or self.time_column is None:
            return None
        if not len(block.row):
            return np.zeros(0)
        times = np.asarray(block.extra[self.time_column], dtype=np.float64)
        newest = np.maximum.accumulate(np.maximum(times, self._newest))
        self._newest = float(newest[-1])
        return newest

    def _n_ready(self) -> int | None:
        """How many rows make a batch by count or by event time; None if it takes more."""
        limit = (self.batching.first if self._is_long else None) or self.batching.rows
        closed = None if self._is_long else self._n_in_window()
        if closed is not None and closed <= limit:
            return closed
        return limit if self.n_waiting >= limit else None

    @property
    def _is_long(self) -> bool:
        """Whether the next batch is a first one with a length of its own."""
        return self.is_first and self.batching.first is not None

    def _n_in_window(self) -> int | None:
        """How many rows come before the one that closes the window; None while it is open."""
        if self.batching.window is None:
            return None
        close, before = None, 0
        for piece in self._pieces:
            if piece.newest is not None and len(piece.newest):
                if close is None:
                    close = self._close_after(float(piece.newest[0]))
                closing = np.flatnonzero(piece.newest >= close)
                if closing.size:
                    return before + int(piece.block.row[closing[0]])
            before += piece.block.n_rows
        return None

    def _close_after(self, newest: float) -> float:
        """Newest time that closes the window of a row."""
        window, lateness = self.batching.window or 1.0, self.batching.lateness
        return float((np.floor((newest - lateness) / window) + 1.0) * window + lateness)

    def _time_at(self, n_rows: int, now: float) -> float | None:
        if self.batching.time == "batch":
            return None
        if self.batching.time == "processing":
            return max(now, self.watermark)
        newest, before = self.watermark + self.batching.lateness, 0
        for piece in self._pieces:
            if before >= n_rows:
                break
            if piece.newest is not None:
                n_sound = int(np.searchsorted(piece.block.row, n_rows - before))
                if n_sound:
                    newest = float(piece.newest[n_sound - 1])
            before += piece.block.n_rows
        time = max(newest - self.batching.lateness, self.watermark)
        return time if time > _NEVER else None

    def _without_late(self, block: Block) -> Block:
        if self.batching.time != "event" or self.batching.late == "add" or not len(block.row):
            return block
        times = np.asarray(block.extra[self.time_column or ""], dtype=np.float64)
        late = np.flatnonzero(times < self.watermark)
        if late.size and self.batching.late == "error":
            raise TimeError(
                f"a row has the time {times[late[0]]:.3f}, but batches up to "
                f"{self.watermark:.3f} are done; set batch.late to 'add' or 'drop', or a longer "
                "batch.lateness."
            )
        return block.reject(
            [
                Reject(
                    int(block.row[i]),
                    f"late: its time is {times[i]:.3f}, and batches up to {self.watermark:.3f} "
                    "are done",
                )
                for i in late
            ]
        )

    def _lanes_of(self, n_rows: int) -> dict[str, int]:
        """How many of the next rows each partition has."""
        partitions: Counter[str] = Counter()
        for piece in self._pieces:
            taken = min(n_rows, piece.block.n_rows)
            if not taken:
                break
            partitions[piece.partition] += taken
            n_rows -= taken
        return dict(partitions)


def offsets_to_dict(mark: Offsets) -> dict[str, Any]:
    """Return a mark as JSON.

    Examples
    --------
    >>> from scstream.stream.batcher import Offset, offsets_from_dict, offsets_to_dict
    >>> offsets_to_dict({"": Offset(4, 2)})
    {'': [4, 2]}
    >>> offsets_from_dict(offsets_to_dict({"": Offset(4, 2)}))
    {'': Offset(position=4, row=2)}
    """
    return {partition: [place.position, place.row] for partition, place in mark.items()}


def offsets_from_dict(values: Mapping[str, Any]) -> dict[str, Offset]:
    """Undo `offsets_to_dict`."""
    return {partition: Offset(position, row) for partition, (position, row) in values.items()}


def _place_behind(piece: _Piece, n_rows: int) -> Offset:
    if n_rows == piece.block.n_rows:
        return Offset(piece.after)
    return replace(piece.place, row=piece.place.row + n_rows)


def _behind(piece: _Piece, n_rows: int) -> _Piece:
    """Rows of a piece after the first `n_rows`."""
    if not n_rows:
        return piece
    block = piece.block.slice(n_rows, piece.block.n_rows)
    place = replace(piece.place, row=piece.place.row + n_rows)
    newest = None if piece.newest is None else piece.newest[len(piece.newest) - len(block.row) :]
    return replace(piece, place=place, block=block, newest=newest)
