"""Where one batch ends and the next begins: a boundary, which must be the same in a replay.

Boundaries by count and by event time follow from the rows alone. A boundary by the wall clock, or
one that depends on which of several partitions was faster, does not: the pipeline records it before
it learns the batch (`Batching.records_boundaries`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scstream.errors import InputError, TimeError
from scstream.preprocess.block import Block, Reject, join
from scstream.stream.source import Position, Record

NEVER = float("-inf")
_CLOCK_IS_SET = 1e8  # seconds since 1970; a machine that starts without a clock shows less


@dataclass(frozen=True)
class Offset:
    """Where the next row of a partition is: the position of a message, and the row within it."""

    position: Position
    row: int = 0


Offsets = Mapping[str, Offset]  # by partition


@dataclass(frozen=True)
class BatchBoundary:
    """The end of a batch, and the time of the batch that the model is given.

    It counts rows, not messages: a source may group the same rows into other messages next time.
    """

    batch: int
    rows: Mapping[str, int]  # by partition, since the batch before
    time: float | None
    clock: float | None = None  # when it was found, if rows of the batch are from the future


@dataclass(frozen=True)
class SourceBatch:
    """The rows of one batch, and where each of them came from."""

    batch: int
    stop: Offsets
    time: float | None
    block: Block
    spans: tuple[tuple[int, str, Offset], ...]  # first row, partition, and offset of that row
    whole: Block = field(default_factory=Block.empty)  # with the rows that the batcher rejects
    n_future: int = 0  # rows among them that are from the future

    def origin(self, row: int) -> tuple[str, Offset]:
        """Return partition and offset of a row."""
        first, partition, offset = max(
            (span for span in self.spans if span[0] <= row), key=lambda span: span[0]
        )
        return partition, replace(offset, row=offset.row + row - first)


@dataclass(frozen=True)
class Batching:
    """How rows are grouped into batches.

    Parameters
    ----------
    rows : int
        Maximum number of rows in a batch.
    first : int or None
        Rows of the first batch, from which priors and preprocessing are learned; neither a timer
        nor a window makes it shorter. By default the first batch is like the others.
    seconds : float or None
        End a batch after this many seconds, even if it has fewer rows.
    time : {"batch", "processing", "event"}
        Time of a batch that the model is given: its number, the clock of the machine when the batch
        ended, or the times in the rows.
    window : float or None
        With event time: end a batch whenever event time has advanced by this many seconds.
    lateness : float
        With event time: how many seconds a row may come after newer rows. The time of a batch is
        the newest time seen minus this value, and never goes back.
    late : {"add", "drop", "error"}
        What to do with a row that is older than the previous batch.
    max_ahead : float or False
        With event time: how many seconds a row may be ahead of the clock of the machine; a row
        further ahead is rejected, and does not move the time of the batch. With processing time:
        a clock that jumps ahead by more is not followed until the next start. False: no limit.

    Examples
    --------
    >>> from scstream.stream.batcher import Batching
    >>> Batching(rows=500).records_boundaries([""]), Batching(seconds=2).records_boundaries([""])
    (False, True)
    """

    rows: int = 1000
    first: int | None = None
    seconds: float | None = None
    time: Literal["batch", "processing", "event"] = "batch"
    window: float | None = None
    lateness: float = 0.0
    late: Literal["add", "drop", "error"] = "add"
    max_ahead: float | Literal[False] = 86400.0

    def __post_init__(self) -> None:
        for name in ("rows", "first"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InputError(f"batch.{name} must be a whole number from 1, got {value!r}.")
        for name in ("seconds", "window"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"batch.{name} must be a positive number, got {value!r}.")
        if self.max_ahead is not False and not self.max_ahead >= 0:
            raise InputError(f"batch.max_ahead must not be negative, got {self.max_ahead!r}.")
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

    def records_boundaries(self, partitions: Iterable[str]) -> bool:
        """Whether boundaries depend on more than the rows, so that they must be recorded.

        Partitions have names if the source may have several. Which of them is faster is chance,
        even while only one of them was seen.
        """
        by_clock = self.seconds is not None or self.time == "processing"
        return by_clock or any(partition != "" for partition in partitions)


@dataclass(frozen=True)
class _Piece:
    """Rows of one message that are not in a batch yet."""

    partition: str
    offset: Offset
    after: Position
    block: Block
    times: NDArray[np.float64] | None  # (G,) event time of each valid row


@dataclass
class Batcher:
    """Holds the rows that are not in a batch yet, and finds the next boundary.

    `offsets` are where the next rows are, by partition; `watermark` is the time of the last batch,
    if batches have times.
    """

    batching: Batching
    time_column: str | None = None
    batch: int = 0
    offsets: dict[str, Offset] = field(default_factory=dict)
    watermark: float = NEVER
    is_first: bool = True
    n_waiting: int = 0
    _pieces: deque[_Piece] = field(default_factory=deque)
    _since: float | None = None  # arrival of the oldest row
    _clock: tuple[float, float] | None = None  # now and elapsed when they were last read

    def __post_init__(self) -> None:
        if self.batching.time == "event" and self.time_column is None:
            raise InputError("batch.time = 'event' needs schema.time, the column of times.")

    def add(self, record: Record, block: Block, *, elapsed: float) -> None:
        """Add the rows of a message; skip those before the offset of its partition."""
        start = self.offsets.setdefault(record.partition, Offset(record.position))
        skipped = start.row if start.position == record.position else 0
        if skipped >= block.n_rows:  # all rows are known, also if rows come in other messages
            if skipped:
                self.offsets[record.partition] = Offset(record.after, skipped - block.n_rows)
            return
        first = Offset(record.position, skipped)
        block = block.slice(skipped, block.n_rows)
        if not self._pieces:
            self._since = elapsed
        self._pieces.append(
            _Piece(record.partition, first, record.after, block, self._times(block))
        )
        self.n_waiting += block.n_rows

    def next_boundary(
        self, *, elapsed: float, now: float, final: bool = False
    ) -> BatchBoundary | None:
        """Return the next boundary, or None if more rows must come; `final` if none will come."""
        now = self._steady(now, elapsed)
        n_rows = self._n_ready(now)
        if n_rows is None:
            seconds, since = self.batching.seconds, self._since
            due = seconds is not None and since is not None and elapsed - since >= seconds
            if not self.n_waiting or not (final or (due and not self._is_first_of_own_size)):
                return None
            n_rows = self.n_waiting
        rows, time = self._rows_by_partition(n_rows), self._time_at(n_rows, now)
        return BatchBoundary(self.batch, rows, time, now if self._has_future(n_rows, now) else None)

    def has_rows_of(self, boundary: BatchBoundary) -> bool:
        """Whether all rows before a boundary have come."""
        here: Counter[str] = Counter()
        for piece in self._pieces:
            here[piece.partition] += piece.block.n_rows
        return all(here[partition] >= n_rows for partition, n_rows in boundary.rows.items())

    def take(self, boundary: BatchBoundary) -> SourceBatch:
        """Return the rows before a boundary, partition by partition, and continue after it."""
        inside: list[tuple[_Piece, int]] = []
        remaining: deque[_Piece] = deque()
        left = dict(boundary.rows)
        for piece in self._pieces:
            n_rows = min(left.get(piece.partition, 0), piece.block.n_rows)
            if n_rows:
                left[piece.partition] -= n_rows
                inside.append((piece, n_rows))
            if n_rows < piece.block.n_rows:
                remaining.append(_rest_of(piece, n_rows))
        inside.sort(key=lambda pair: pair[0].partition)
        return self._advance(boundary, inside, remaining)

    def _advance(
        self, boundary: BatchBoundary, inside: list[tuple[_Piece, int]], remaining: deque[_Piece]
    ) -> SourceBatch:
        starts = np.cumsum([0, *(n for _, n in inside)]).tolist()
        spans = tuple(
            (start, piece.partition, piece.offset)
            for start, (piece, _) in zip(starts, inside, strict=False)
        )
        whole = join([piece.block.slice(0, n) for piece, n in inside] or [Block.empty()])
        sound = self._without_future(whole, boundary.clock)
        block = self._without_late(sound)
        self._pieces, self.n_waiting = remaining, self.n_waiting - starts[-1]
        self.offsets |= {piece.partition: _offset_after(piece, n) for piece, n in inside}
        self.batch, self.is_first = boundary.batch + 1, False
        if boundary.time is not None:
            self.watermark = boundary.time
        n_future = len(whole.row) - len(sound.row)
        return SourceBatch(
            boundary.batch, dict(self.offsets), boundary.time, block, spans, whole, n_future
        )

    def restart_timer(self, elapsed: float) -> None:
        """Count the seconds of the next batch from now, if rows of it have come already."""
        self._since = elapsed if self._pieces else None

    def _times(self, block: Block) -> NDArray[np.float64] | None:
        if self.batching.time != "event" or self.time_column is None:
            return None
        if not len(block.row):
            return np.zeros(0)
        return np.asarray(block.extra[self.time_column], dtype=np.float64)

    def _newest(self, now: float) -> Iterator[tuple[_Piece, NDArray[np.float64] | None]]:
        """Newest event time up to each valid row of the waiting rows, without future times."""
        newest, limit = self.watermark + self.batching.lateness, self._limit(now)
        for piece in self._pieces:
            if piece.times is None or not len(piece.times):
                yield piece, piece.times
                continue
            times = np.where(piece.times > limit, NEVER, piece.times)
            up_to = np.maximum.accumulate(np.maximum(times, newest))
            newest = float(up_to[-1])
            yield piece, up_to

    def _steady(self, now: float, elapsed: float) -> float:
        """Return the clock; if it has jumped far ahead, the clock before plus the time since."""
        if self.batching.time == "processing" and self.batching.max_ahead is not False:
            before, since = self._clock or (now, elapsed)
            expected = before + elapsed - since
            now = expected if now > expected + self.batching.max_ahead else now
            self._clock = (now, elapsed)
        return now

    def _limit(self, clock: float | None) -> float:
        """Return the event time that no row may exceed, by a clock."""
        ahead = self.batching.max_ahead
        if ahead is False or clock is None or clock < _CLOCK_IS_SET:
            return float("inf")
        return max(clock, self.watermark) + ahead

    def _has_future(self, n_rows: int, now: float) -> bool:
        """Whether a row among the next rows is from the future."""
        limit = self._limit(now)
        for piece in self._pieces:
            if n_rows <= 0:
                return False
            if piece.times is not None:
                inside = piece.times[: np.searchsorted(piece.block.row, n_rows)]
                if len(inside) and inside.max() > limit:
                    return True
            n_rows -= piece.block.n_rows
        return False

    def _without_future(self, block: Block, clock: float | None) -> Block:
        """Reject rows from the future; a replay uses the recorded clock."""
        times = self._times(block)
        if clock is None or times is None:
            return block
        limit = self._limit(clock)
        why = f"at most {self.batching.max_ahead:g} s ahead of the clock; see batch.max_ahead"
        return block.reject(
            [
                Reject(int(block.row[i]), f"future: its time is {times[i]:.3f}, not {why}.")
                for i in np.flatnonzero(times > limit)
            ]
        )

    def _n_ready(self, now: float) -> int | None:
        """Number of rows of a batch by count or event time; None if more rows are needed."""
        limit = (self.batching.first if self._is_first_of_own_size else None) or self.batching.rows
        closed = None if self._is_first_of_own_size else self._n_in_window(now)
        if closed is not None and closed <= limit:
            return closed
        return limit if self.n_waiting >= limit else None

    @property
    def _is_first_of_own_size(self) -> bool:
        """Whether the next batch is the first and `batching.first` sets its size."""
        return self.is_first and self.batching.first is not None

    def _n_in_window(self, now: float) -> int | None:
        """Number of rows before the one that closes the window; None while it is open."""
        if self.batching.window is None:
            return None
        close, before = None, 0
        for piece, newest in self._newest(now):
            if newest is not None and len(newest):
                if close is None:
                    if newest[0] == NEVER:  # only rows from the future so far
                        before += piece.block.n_rows
                        continue
                    close = self._close_after(float(newest[0]))
                closing = np.flatnonzero(newest >= close)
                if closing.size:
                    return before + int(piece.block.row[closing[0]])
            before += piece.block.n_rows
        return None

    def _close_after(self, newest: float) -> float:
        """Event time that closes the window of a row."""
        window, lateness = self.batching.window or 1.0, self.batching.lateness
        return float((np.floor((newest - lateness) / window) + 1.0) * window + lateness)

    def _time_at(self, n_rows: int, now: float) -> float | None:
        if self.batching.time == "batch":
            return None
        if self.batching.time == "processing":
            return max(now, self.watermark)
        newest, before = self.watermark + self.batching.lateness, 0
        for piece, up_to in self._newest(now):
            if before >= n_rows:
                break
            if up_to is not None:
                n_sound = int(np.searchsorted(piece.block.row, n_rows - before))
                if n_sound:
                    newest = float(up_to[n_sound - 1])
            before += piece.block.n_rows
        time = max(newest - self.batching.lateness, self.watermark)
        return time if time > NEVER else None

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

    def _rows_by_partition(self, n_rows: int) -> dict[str, int]:
        """Number of rows of each partition among the next rows."""
        partitions: Counter[str] = Counter()
        for piece in self._pieces:
            taken = min(n_rows, piece.block.n_rows)
            if not taken:
                break
            partitions[piece.partition] += taken
            n_rows -= taken
        return dict(partitions)


def _offset_after(piece: _Piece, n_rows: int) -> Offset:
    if n_rows == piece.block.n_rows:
        return Offset(piece.after)
    return replace(piece.offset, row=piece.offset.row + n_rows)


def _rest_of(piece: _Piece, n_rows: int) -> _Piece:
    """Return the rows of a piece after the first `n_rows`."""
    if not n_rows:
        return piece
    block = piece.block.slice(n_rows, piece.block.n_rows)
    offset = replace(piece.offset, row=piece.offset.row + n_rows)
    times = None if piece.times is None else piece.times[len(piece.times) - len(block.row) :]
    return replace(piece, offset=offset, block=block, times=times)
