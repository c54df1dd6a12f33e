"""The laws that every sink obeys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from scstream.errors import SinkError
from scstream.stream.sink import Delivery, Sink, SinkPosition, plain_rows
from scstream.testing.case import Case, is_plain, through_json

USED = ("refused", "emptied", "kept", "matched")
_JOB = "check"


class SinkCase(Case):
    """A sink that is checked, what was written to it, and positions in between."""

    def __init__(
        self,
        make: Callable[[], Sink],
        read: Callable[[], Sequence[Mapping[str, Any]]],
        used: str,
    ) -> None:
        self._make, self._read = make, read
        self.used = used
        self.deliveries: list[Delivery] = []

    @cached_property
    def points(self) -> list[SinkPosition]:
        """Positions, the first before all deliveries and one after each of them."""
        with self.opened(None) as sink:
            points = [self.flushed(sink)]
            self.check("open without a position")
            for batch in range(4):
                self.deliveries.append(_delivery(batch))
                sink.write(self.deliveries[-1])
                points.append(self.flushed(sink))
                self.check(f"the flush of batch {batch}")
        return points

    def made(self) -> Sink:
        """Build one more sink of the same place."""
        sink = self._make()
        self.name = type(sink).__name__
        return sink

    @contextmanager
    def opened(self, position: SinkPosition | None) -> Iterator[Sink]:
        """Open one at a position from a checkpoint, and close it."""
        sink = self.made()
        try:
            sink.open(through_json(position))
            yield sink
        finally:
            sink.close()

    def flushed(self, sink: Sink) -> SinkPosition:
        """Flush, and return the position if it can go into a checkpoint."""
        position = sink.flush()
        self.ensure(is_plain(position), f"flush returned {position!r}, which is no plain JSON")
        return position

    def add(self, delivery: Delivery) -> None:
        """Write one more delivery behind the others, and go back to before it once."""
        with self.opened(self.points[-1]) as sink:
            self.deliveries.append(delivery)
            sink.write(delivery)
            self.points.append(self.flushed(sink))
        self.check(f"the flush of batch {delivery.batch}")
        self.replay(len(self.deliveries) - 1)

    def replay(self, first: int) -> None:
        """Go back to before a delivery, twice, the first time to be stopped half-way."""
        again = self.deliveries[first:]
        with self.opened(self.points[first]) as sink:
            for delivery in again[: (len(again) + 1) // 2]:
                sink.write(delivery)
        with self.opened(self.points[first]) as sink:
            for number, delivery in enumerate(again, first + 1):
                sink.write(delivery)
                self.points[number] = self.flushed(sink)
        self.check(f"a replay from batch {first} on" if again else "it was opened at its end")

    def check(self, when: str, *, empty: bool = False) -> None:
        """Every row that was written is there once, in its order and with its values."""
        expected = [] if empty else [row for d in self.deliveries for row in plain_rows(d)]
        found = list(self._read())
        keys = [(row["batch"], row["index"]) for row in found]
        due = [(row["batch"], row["index"]) for row in expected]
        for batch, index in dict.fromkeys([*due, *keys]):
            n_times, wanted = keys.count((batch, index)), due.count((batch, index))
            what = f"row {index} of batch {batch} is there {n_times} times after {when}"
            self.ensure(n_times == wanted, what)
        self.ensure(keys == due, f"the order of rows is {keys} after {when}")
        for row, wanted_row in zip(found, expected, strict=True):
            for name, value in wanted_row.items():
                what = f"{name!r} is {row.get(name)!r} instead of {value!r} after {when}"
                self.ensure(name in row and row[name] == value, what)


def _delivery(
    batch: int, n_rows: int = 3, *, columns: Mapping[str, list[Any]] | None = None
) -> Delivery:
    """Rows of a batch with a column of each kind; what is given takes the place of their values."""
    plain = {
        "cluster": [index + batch for index in range(n_rows)],
        "weight": [index + 0.5 for index in range(n_rows)],
        "name": [f"row {batch}/{index}" for index in range(n_rows)],
    }
    kinds = {"cluster": np.int64, "weight": np.float64, "name": object}
    given = {**plain, **(columns or {})}
    values = {name: np.array(given[name], dtype=kinds[name]) for name in plain}
    keys = {"batch": np.full(n_rows, batch), "index": np.arange(n_rows)}
    return Delivery(_JOB, batch, {**keys, **values})


def _law_once(case: SinkCase) -> None:
    """What was flushed is there once and in order, also for others."""
    _ = case.points
    case.check("close")


def _law_replay_of_sink(case: SinkCase) -> None:
    """From every position on, what is written again is there once, and nothing is lost."""
    for first in reversed(range(len(case.points))):
        case.replay(first)


def _law_empty(case: SinkCase) -> None:
    """A delivery without rows leaves nothing, and others follow it; it may also be left out."""
    _ = case.points
    case.add(_delivery(len(case.deliveries), 0))
    case.add(_delivery(len(case.deliveries) + 1))


def _law_values(case: SinkCase) -> None:
    """Whole numbers, floats, text and None come back as they were."""
    _ = case.points
    batch = case.deliveries[-1].batch + 1
    hard: dict[str, list[Any]] = {
        "cluster": [0, -(2**62), 2**62],
        "weight": [0.1, -1e300, 5e-324],
        "name": ['a "quoted", long\nname', None, "\u00e4\U0001f600 '; --\\N"],
    }
    case.add(_delivery(batch, columns=hard))
    case.add(_delivery(batch + 1, columns={"name": [None] * 3}))


def _law_close(case: SinkCase) -> None:
    """A sink may be closed before it is open, twice, and opened again."""
    end = case.points[-1]
    sink = case.made()
    sink.close()
    for _ in range(2):
        sink.open(through_json(end))
        case.flushed(sink)
        sink.close()
        sink.close()
    case.check("it was closed twice and opened again")


def _law_used(case: SinkCase) -> None:
    """Rows of an earlier pipeline are refused, removed or left alone; none of them in part."""
    _ = case.points
    when = "a used place was opened without a position"
    try:
        with case.opened(None) as sink:
            for delivery in case.deliveries if case.used == "matched" else ():
                sink.write(delivery)
            case.flushed(sink)
    except SinkError:
        case.ensure(case.used == "refused", f"SinkError was raised when {when}")
    else:
        case.ensure(case.used != "refused", f"no SinkError was raised when {when}")
    case.check(when, empty=case.used == "emptied")


SINK_LAWS: dict[str, Callable[[SinkCase], None]] = {
    "once": _law_once,
    "replay": _law_replay_of_sink,
    "empty": _law_empty,
    "values": _law_values,
    "close": _law_close,
    "used": _law_used,
}
