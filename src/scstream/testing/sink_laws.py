"""The laws of sinks, and `check_sink`, which reports the first one that is broken.

It acts like a pipeline that is stopped at any moment and continues from its checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal

import numpy as np

from scstream.errors import InputError, SinkError
from scstream.stream.sink import Delivery, Sink, SinkPosition, plain_rows
from scstream.testing.case import Case, check_laws, is_json, through_json

_EXISTING = ("rejected", "deleted", "kept", "matched")
_JOB = "check"


def check_sink(
    make: Callable[[], Sink],
    read: Callable[[], Sequence[Mapping[str, object]]],
    *,
    existing: Literal["rejected", "deleted", "kept", "matched"] = "rejected",
    laws: Iterable[str] | None = None,
) -> None:
    """Check that a sink keeps every delivery once and in order, after any replay.

    Parameters
    ----------
    make : callable
        Returns a sink that is not opened yet; every call one for the same place, which is empty at
        first.
    read : callable
        Returns the rows of that place in their order, with the names of the columns and the values
        that were written; it may add columns. If the place has no order, sort by "batch" and
        "index".
    existing : {"rejected", "deleted", "kept", "matched"}
        What happens to existing rows when the sink is opened without a position: `SinkError` is
        raised, they are deleted, or they are kept; "matched" if they are kept and not written
        again.
    laws : iterable of str, optional
        Which of `SINK_LAWS` to check; all by default.

    Raises
    ------
    AssertionError
        Names the first law that is broken, and what was observed.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from scstream.stream.connectors.files import FileSink
    >>> from scstream.testing import check_sink
    >>> def read():
    ...     return [json.loads(line) for line in path.read_text().splitlines()]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels.jsonl"
    ...     check_sink(lambda: FileSink(path=path), read)
    """
    if existing not in _EXISTING:
        raise InputError(f"existing is {existing!r}; choose one of {', '.join(_EXISTING)}.")
    check_laws(SinkCase(make, read, existing), SINK_LAWS, laws)


class SinkCase(Case):
    """A sink that is checked, what was written to it, and the positions after each batch."""

    def __init__(
        self,
        make: Callable[[], Sink],
        read: Callable[[], Sequence[Mapping[str, object]]],
        existing: str,
    ) -> None:
        self._make, self._read = make, read
        self.existing = existing
        self.deliveries: list[Delivery] = []

    @cached_property
    def points(self) -> list[SinkPosition]:
        """Positions: the first before all deliveries, and one after each of them."""
        with self.session(None) as sink:
            points = [self.flushed(sink)]
            self.check("open without a position")
            for batch in range(4):
                self.deliveries.append(_delivery(batch))
                sink.write(self.deliveries[-1])
                points.append(self.flushed(sink))
                self.check(f"the flush of batch {batch}")
        return points

    def made(self) -> Sink:
        """Build one more sink for the same place."""
        sink = self._make()
        self.name = type(sink).__name__
        return sink

    @contextmanager
    def session(self, position: SinkPosition | None) -> Iterator[Sink]:
        """Open a sink at a position from a checkpoint, and close it."""
        sink = self.made()
        try:
            sink.open(through_json(position))
            yield sink
        finally:
            sink.close()

    def flushed(self, sink: Sink) -> SinkPosition:
        """Flush, and return the position if a checkpoint can contain it."""
        position = sink.flush()
        self.ensure(is_json(position), f"flush returned {position!r}, which is not JSON")
        return position

    def add(self, delivery: Delivery) -> None:
        """Write one more delivery, and then replay it."""
        with self.session(self.points[-1]) as sink:
            self.deliveries.append(delivery)
            sink.write(delivery)
            self.points.append(self.flushed(sink))
        self.check(f"the flush of batch {delivery.batch}")
        self.replay(len(self.deliveries) - 1)

    def replay(self, first: int) -> None:
        """Go back to before a delivery, twice; the first replay is stopped half-way."""
        again = self.deliveries[first:]
        with self.session(self.points[first]) as sink:
            for delivery in again[: (len(again) + 1) // 2]:
                sink.write(delivery)
        with self.session(self.points[first]) as sink:
            for number, delivery in enumerate(again, first + 1):
                sink.write(delivery)
                self.points[number] = self.flushed(sink)
        self.check(f"a replay from batch {first} on" if again else "it was opened at its end")

    def check(self, when: str, *, empty: bool = False) -> None:
        """Check that every written row exists once, in its order and with its values."""
        wanted_rows: list[Mapping[str, object]]
        wanted_rows = [] if empty else [row for d in self.deliveries for row in plain_rows(d)]
        found = list(self._read())
        keys = [(row["batch"], row["index"]) for row in found]
        wanted_keys = [(row["batch"], row["index"]) for row in wanted_rows]
        for batch, index in dict.fromkeys([*wanted_keys, *keys]):
            n_times, wanted = keys.count((batch, index)), wanted_keys.count((batch, index))
            what = f"row {index} of batch {batch} exists {n_times} times after {when}"
            self.ensure(n_times == wanted, what)
        self.ensure(keys == wanted_keys, f"the order of rows is {keys} after {when}")
        for row, wanted_row in zip(found, wanted_rows, strict=True):
            for name, value in wanted_row.items():
                what = f"{name!r} is {row.get(name)!r} instead of {value!r} after {when}"
                self.ensure(name in row and row[name] == value, what)


def _delivery(
    batch: int, n_rows: int = 3, *, columns: Mapping[str, list[Any]] | None = None
) -> Delivery:
    """Return a batch with a column of each type; `columns` replaces their values."""
    defaults = {
        "cluster": [index + batch for index in range(n_rows)],
        "weight": [index + 0.5 for index in range(n_rows)],
        "name": [f"row {batch}/{index}" for index in range(n_rows)],
    }
    kinds = {"cluster": np.int64, "weight": np.float64, "name": object}
    given = {**defaults, **(columns or {})}
    values = {name: np.array(given[name], dtype=kinds[name]) for name in defaults}
    keys = {"batch": np.full(n_rows, batch), "index": np.arange(n_rows)}
    return Delivery(_JOB, batch, {**keys, **values})


def _law_exactly_once(case: SinkCase) -> None:
    """Flushed rows exist once and in order, also for other readers."""
    _ = case.points
    case.check("close")


def _law_replay(case: SinkCase) -> None:
    """After a replay from any position, every row exists once, and nothing is lost."""
    for first in reversed(range(len(case.points))):
        case.replay(first)


def _law_empty_batch(case: SinkCase) -> None:
    """A delivery without rows writes nothing, and may also be left out."""
    _ = case.points
    case.add(_delivery(len(case.deliveries), 0))
    case.add(_delivery(len(case.deliveries) + 1))


def _law_values(case: SinkCase) -> None:
    """Integers, floats, text and None are written unchanged."""
    _ = case.points
    batch = case.deliveries[-1].batch + 1
    hard: dict[str, list[Any]] = {
        "cluster": [0, -(2**62), 2**62],
        "weight": [0.1, -1e300, 5e-324],
        "name": ['a "quoted", long\nname', None, "\u00e4\U0001f600 '; --\\N"],
    }
    case.add(_delivery(batch, columns=hard))
    case.add(_delivery(batch + 1, columns={"name": [None] * 3}))


def _law_reopen(case: SinkCase) -> None:
    """A sink may be closed before it was opened, closed twice, and opened again."""
    end = case.points[-1]
    sink = case.made()
    sink.close()
    for _ in range(2):
        sink.open(through_json(end))
        case.flushed(sink)
        sink.close()
        sink.close()
    case.check("it was closed twice and opened again")


def _law_existing_rows(case: SinkCase) -> None:
    """Rows of an earlier pipeline are rejected, deleted or kept, but never in part."""
    _ = case.points
    when = "a place with rows was opened without a position"
    try:
        with case.session(None) as sink:
            for delivery in case.deliveries if case.existing == "matched" else ():
                sink.write(delivery)
            case.flushed(sink)
    except SinkError:
        case.ensure(case.existing == "rejected", f"SinkError was raised when {when}")
    else:
        case.ensure(case.existing != "rejected", f"no SinkError was raised when {when}")
    case.check(when, empty=case.existing == "deleted")


SINK_LAWS: dict[str, Callable[[SinkCase], None]] = {
    "exactly_once": _law_exactly_once,
    "replay": _law_replay,
    "empty_batch": _law_empty_batch,
    "values": _law_values,
    "reopen": _law_reopen,
    "existing_rows": _law_existing_rows,
}
