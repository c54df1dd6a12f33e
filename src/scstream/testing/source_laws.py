"""The laws that every source obeys."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from scstream.errors import SourceChanged, SourceRegressed
from scstream.preprocess.block import Block
from scstream.stream.source import Position, Record, Resume, Source
from scstream.testing.case import Case, is_plain, named, through_json

_MOMENT = 0.05  # seconds in which a message too many would come
_TIMEOUT = 0.2  # what a read of a silent source is told
_SLACK = 1.0  # seconds that it may take longer, on a machine that has other things to do
_N_CALLS = 20  # from another thread


class SourceCase(Case):
    """A source that is checked, and what is known of its rows so far."""

    ends = False
    beyond: Callable[[Position], Position] | None = None
    other: Callable[[], Source] | None = None

    def __init__(
        self,
        make: Callable[[], Source],
        fill: Callable[[Sequence[int]], None],
        *,
        numbers: Callable[[bytes | Block], list[int]],
        n_rows: int,
        patience: float,
    ) -> None:
        self._make, self._fill, self._numbers = make, fill, numbers
        self._n_rows, self.patience = n_rows, patience
        self._n_filled = 0
        self.identity: Mapping[str, str] = {}  # as a checkpoint at the end of `records` has it

    @cached_property
    def records(self) -> list[Record]:
        """Everything that is there, read once; the first call fills the source."""
        new = self.add()
        with self.opened() as source:
            records = self.rest(source, len(new), max_n=3)
            self.identity = through_json(dict(source.identity()))
        self.check_all(new, records)
        return records

    @property
    def partitions(self) -> dict[str, list[Record]]:
        """The same by partition."""
        return _by_partition(self.records)

    @property
    def end(self) -> Resume:
        """The checkpoint behind everything that was read."""
        return self.at({})

    def at(self, positions: Mapping[str, Position]) -> Resume:
        """The checkpoint with these positions, and the end of all other partitions."""
        ends = {partition: records[-1].after for partition, records in self.partitions.items()}
        return Resume(self.identity, through_json({**ends, **positions}))

    def add(self) -> list[int]:
        """Fill in some more rows."""
        new = list(range(self._n_filled, self._n_filled + self._n_rows))
        self._n_filled = new[-1] + 1
        self._fill(new)
        return new

    def made(self) -> Source:
        """Build one more source of the same place."""
        source = self._make()
        self.name = type(source).__name__
        return source

    @contextmanager
    def opened(self, resume: Resume | None = None, *, accept_gap: bool = False) -> Iterator[Source]:
        """Open one where a checkpoint was, and close it."""
        source = self.made()
        try:
            source.open(resume, accept_gap=accept_gap)
            yield source
        finally:
            source.close()

    def rest(
        self, source: Source, n_rows: int, *, max_n: int = 100, and_more: bool = True
    ) -> list[Record]:
        """Read until so many rows have come, and a moment longer in case there are too many."""
        records: list[Record] = []
        left, until = n_rows, time.monotonic() + self.patience
        while not source.done and left >= 0 and time.monotonic() < until:
            if left == 0 and not and_more:
                break
            found = source.read(max_n, _MOMENT)
            self.ensure(len(found) <= max_n, f"read({max_n}) returned {len(found)} messages")
            if left == 0 and not found:
                break
            records += found
            left -= len(self.numbers(found))
        return records

    def numbers(self, records: Iterable[Record]) -> list[int]:
        """Return the rows of some messages."""
        return [number for record in records for number in self._numbers(record.value)]

    def check_all(self, new: list[int], records: list[Record]) -> None:
        """These numbers came once each, in every partition in their order."""
        found = self.numbers(records)
        self.ensure(sorted(found) == new, f"of the numbers {new[0]} to {new[-1]} it gave {found}")
        for partition, own in _by_partition(records).items():
            came = self.numbers(own)
            self.ensure(
                came == sorted(came), f"partition {partition!r} gave {came}, which is out of order"
            )

    def check_same(self, records: list[Record], expected: list[Record], when: str) -> None:
        """The same rows came again in each partition, in whatever messages."""
        found, wanted = _by_partition(records), _by_partition(expected)
        for partition in sorted({*found, *wanted}):
            came, due = (self.numbers(some.get(partition, [])) for some in (found, wanted))
            self.ensure(came == due, f"partition {partition!r} gave {came} instead of {due} {when}")

    def check_refused(self, source: Source, resume: Resume, kind: type[Exception]) -> None:
        """Such a checkpoint is refused, unless a gap is accepted."""
        where = f"open at the positions {dict(resume.positions)}"
        try:
            source.open(resume)
        except kind:
            pass
        except Exception as error:
            told = f"{where} raised {named(error)} instead of {kind.__name__}"
            raise AssertionError(f"{self.name} breaks the law {self.law!r}: {told}.") from error
        else:
            self.ensure(False, f"{where} raised no {kind.__name__}")
        finally:
            source.close()
        source.open(resume, accept_gap=True)
        source.close()


def _law_order(case: SourceCase) -> None:
    """Every row comes once, and those of a partition in their order."""
    _ = case.records


def _law_plain(case: SourceCase) -> None:
    """Positions and the identity are plain JSON."""
    for record in case.records:
        for name, position in (("position", record.position), ("after", record.after)):
            case.ensure(is_plain(position), f"{name} is {position!r}, which is no plain JSON")
        case.ensure(
            type(record.partition) is str, f"a partition is {record.partition!r}, which is no text"
        )


def _law_identity(case: SourceCase) -> None:
    """The identity names the source, and is the same whenever it is opened."""
    _ = case.records
    seen = []
    for _ in range(2):
        with case.opened() as source:
            seen.append(dict(source.identity()))
    texts = [text for item in seen[0].items() for text in item]
    case.ensure(
        bool(texts) and all(type(text) is str for text in texts),
        f"the identity is {seen[0]}, which is no mapping of text to text",
    )
    case.ensure(seen[0] == seen[1], f"the identity was {seen[0]} and is {seen[1]} when reopened")


def _law_replay(case: SourceCase) -> None:
    """From every position come the rows that came from there, however messages are cut."""
    for partition, records in case.partitions.items():
        places = {json.dumps(record.position): i for i, record in enumerate(records)}
        for i, record in enumerate(records, 1):
            case.ensure(
                places.setdefault(json.dumps(record.after), i) == i,
                f"{record.after!r} is after one message and the position of another",
            )
        for place, first in places.items():
            left = records[first:]
            with case.opened(case.at({partition: json.loads(place)})) as source:
                again = case.rest(source, len(case.numbers(left)), max_n=(1, 2, 100)[first % 3])
            case.check_same(again, left, f"when read from {place}")


def _law_restarts(case: SourceCase) -> None:
    """A reader that is started anew after every message reads every row once."""
    left, walked = len(case.numbers(case.records)), list[Record]()
    resume = Resume(case.identity, {})
    while left > 0:
        with case.opened(resume) as source:
            found = case.rest(source, 1, max_n=1, and_more=False)
            identity = through_json(dict(source.identity()))
        case.ensure(bool(found), f"nothing comes from {dict(resume.positions)} on")
        after = through_json({record.partition: record.after for record in found})
        resume = Resume(identity, {**resume.positions, **after})
        walked += found
        left -= len(case.numbers(found))
    case.check_same(walked, case.records, "when it was started anew after every message")


def _law_silence(case: SourceCase) -> None:
    """A read of nothing returns no later than it is told, and a source that ends says so."""
    with case.opened(case.end) as source:
        for _ in range(2):
            began = time.monotonic()
            found = source.read(10, _TIMEOUT)
            took = time.monotonic() - began
            case.ensure(found == [], f"{len(found)} messages came after the last one")
            case.ensure(
                took < _TIMEOUT + _SLACK,
                f"read took {took:.1f} s with a timeout of {_TIMEOUT} s and nothing to read",
            )
        case.ensure(source.done is case.ends, f"done is {source.done!r} at the end")


def _law_reopen(case: SourceCase) -> None:
    """A source may be closed before it is open, twice, and opened again."""
    n_rows = len(case.numbers(case.records))
    source = case.made()
    source.close()
    for n_read in (1, n_rows):
        source.open(None)
        again = case.rest(source, n_read, max_n=1, and_more=n_read > 1)
        source.close()
        source.close()
    case.check_same(again, case.records, "when it was opened a second time")


def _law_growth(case: SourceCase) -> None:
    """Rows that are added later come after the last one, to who waits and to who comes back."""
    with case.opened(case.end) as source:
        case.rest(source, 0)
        new = case.add()
        came = case.rest(source, len(new))
    with case.opened(case.end) as source:
        later = case.rest(source, len(new))
        case.identity = through_json(dict(source.identity()))
    case.check_all(new, later)
    if not case.ends:
        case.check_same(came, later, "while it waited for more")
    case.records.extend(later)


def _law_threads(case: SourceCase) -> None:
    """Another thread may acknowledge and ask for the lag while this one reads."""
    n_rows = len(case.numbers(case.records))
    told: list[Any] = []
    with case.opened() as source:
        records = case.rest(source, n_rows // 2, max_n=1, and_more=False)
        safe = {record.partition: record.after for record in records}

        def tell() -> None:
            try:
                for _ in range(_N_CALLS):
                    source.acknowledge(safe)
                    told.append(source.lag())
            except Exception as error:
                told.append(error)

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        later = case.rest(source, n_rows - len(case.numbers(records)))
        thread.join(case.patience)
        case.ensure(not thread.is_alive(), "acknowledge or lag does not return in another thread")
        _check_lags(case, source, told)
    case.check_same([*records, *later], case.records, "while another thread acknowledged")
    with case.opened(Resume(case.identity, through_json(safe))) as source:
        again = case.rest(source, len(case.numbers(later)))
    case.check_same(again, later, f"after {safe} was acknowledged")


def _check_lags(case: SourceCase, source: Source, told: list[Any]) -> None:
    for lag in told:
        if isinstance(lag, Exception):
            raise lag
        sound = lag is None or (type(lag) is int and lag >= 0)
        case.ensure(sound, f"the lag is {lag!r}, which is neither None nor a number of messages")
    until = time.monotonic() + case.patience
    while (lag := source.lag()) and time.monotonic() < until:
        source.read(1, _MOMENT)
    case.ensure(not lag, f"the lag is {lag} after everything was read")


def _law_regressed(case: SourceCase) -> None:
    """A position behind the end is an error: what was read there is lost."""
    if case.beyond is not None:
        for partition, position in case.end.positions.items():
            resume = case.at({partition: case.beyond(position)})
            case.check_refused(case.made(), resume, SourceRegressed)


def _law_changed(case: SourceCase) -> None:
    """A checkpoint of another source is an error."""
    resume = case.end
    if case.other is not None:
        case.check_refused(case.other(), resume, SourceChanged)


def one_number(value: bytes | Block) -> list[int]:
    """Read digits, or the first column of a block."""
    if isinstance(value, Block):
        return [int(row[0]) for row in np.asarray(value.X)]
    return [int(value)]


def _by_partition(records: Iterable[Record]) -> dict[str, list[Record]]:
    partitions: dict[str, list[Record]] = {}
    for record in records:
        partitions.setdefault(record.partition, []).append(record)
    return partitions


SOURCE_LAWS: dict[str, Callable[[SourceCase], None]] = {
    "order": _law_order,
    "plain": _law_plain,
    "identity": _law_identity,
    "replay": _law_replay,
    "restarts": _law_restarts,
    "silence": _law_silence,
    "reopen": _law_reopen,
    "growth": _law_growth,
    "regressed": _law_regressed,
    "changed": _law_changed,
    "threads": _law_threads,
}
