"""The laws of sources, and `check_source`, which reports the first one that is broken.

It acts like a pipeline that is stopped at any moment and continues from its checkpoint.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from scstream.errors import InputError, SourceChanged, SourceRegressed
from scstream.preprocess.block import Block
from scstream.stream.source import Position, Record, Resume, Source
from scstream.testing.case import Case, check_laws, describe, is_json, through_json

_EXTRA_WAIT = 0.05  # seconds in which an extra message would arrive
_TIMEOUT = 0.2  # of a read without messages
_SLACK = 1.0  # seconds that it may take longer on a busy machine
_N_CALLS = 20  # from another thread


def check_source(
    make: Callable[[], Source],
    fill: Callable[[Sequence[int]], None],
    *,
    numbers: Callable[[bytes | Block], list[int]] | None = None,
    is_finite: bool = False,
    past_end: Callable[[Position], Position] | None = None,
    other: Callable[[], Source] | None = None,
    n_rows: int = 8,
    timeout: float = 20.0,
    laws: Iterable[str] | None = None,
) -> None:
    r"""Check that a source obeys the laws on which a pipeline relies.

    Parameters
    ----------
    make : callable
        Returns a source that is not opened yet; every call one for the same place, which is empty
        at first.
    fill : callable
        Appends a row for each of some numbers to that place, in this order. Several rows may be in
        one message, and rows may go to several partitions. It may be called while a source is open.
    numbers : callable, optional
        Returns the numbers in the value of a record. By default bytes are one number in digits,
        and a block has the numbers in its first column.
    is_finite : bool
        Whether the source is done after the last message, like a file that is not followed.
    past_end : callable, optional
        Turns the last position of a partition into one after its end; without it the law
        "regressed" is not checked.
    other : callable, optional
        Returns another source of the same kind; without it the law "changed" is not checked.
    n_rows : int
        Number of rows to begin with; the check reads again from the position of each of them.
    timeout : float
        Seconds in which an appended row must arrive.
    laws : iterable of str, optional
        Which of `SOURCE_LAWS` to check; all by default.

    Raises
    ------
    AssertionError
        Names the first law that is broken, and what was observed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scstream.stream.connectors.files import FileSource
    >>> from scstream.testing import check_source
    >>> def fill(numbers):
    ...     with path.open("a") as file:
    ...         file.writelines(f"{number}\n" for number in numbers)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.jsonl"
    ...     check_source(
    ...         lambda: FileSource(path=path, follow=True),
    ...         fill,
    ...         numbers=lambda lines: [int(line) for line in lines.split()],
    ...     )
    """
    if n_rows < 4:
        raise InputError(f"check_source needs at least four rows, got {n_rows}.")
    case = SourceCase(make, fill, numbers=numbers or _one_number, n_rows=n_rows, timeout=timeout)
    case.is_finite, case.past_end, case.other = is_finite, past_end, other
    check_laws(case, SOURCE_LAWS, laws)


class SourceCase(Case):
    """A source that is checked, and what is known about its rows."""

    is_finite = False
    past_end: Callable[[Position], Position] | None = None
    other: Callable[[], Source] | None = None

    def __init__(
        self,
        make: Callable[[], Source],
        fill: Callable[[Sequence[int]], None],
        *,
        numbers: Callable[[bytes | Block], list[int]],
        n_rows: int,
        timeout: float,
    ) -> None:
        self._make, self._fill, self._numbers = make, fill, numbers
        self._n_rows, self.timeout = n_rows, timeout
        self._n_filled = 0
        self.identity: Mapping[str, str] = {}  # of a checkpoint at the end of `records`

    @cached_property
    def records(self) -> list[Record]:
        """All messages, read once; the first call fills the source."""
        new = self.add()
        with self.session() as source:
            records = self.read_rows(source, len(new), max_n=3)
            self.identity = through_json(dict(source.identity()))
        self.check_all(new, records)
        return records

    @property
    def partitions(self) -> dict[str, list[Record]]:
        """The messages by partition."""
        return _by_partition(self.records)

    @property
    def end(self) -> Resume:
        """The checkpoint after everything that was read."""
        return self.at({})

    def at(self, positions: Mapping[str, Position]) -> Resume:
        """Return the checkpoint with these positions, and the end of all other partitions."""
        ends = {partition: records[-1].after for partition, records in self.partitions.items()}
        return Resume(self.identity, through_json({**ends, **positions}))

    def add(self) -> list[int]:
        """Append more rows."""
        new = list(range(self._n_filled, self._n_filled + self._n_rows))
        self._n_filled = new[-1] + 1
        self._fill(new)
        return new

    def made(self) -> Source:
        """Build one more source for the same place."""
        source = self._make()
        self.name = type(source).__name__
        return source

    @contextmanager
    def session(
        self, resume: Resume | None = None, *, accept_gap: bool = False
    ) -> Iterator[Source]:
        """Open a source at a checkpoint, and close it."""
        source = self.made()
        try:
            source.open(resume, accept_gap=accept_gap)
            yield source
        finally:
            source.close()

    def read_rows(
        self, source: Source, n_rows: int, *, max_n: int = 100, and_more: bool = True
    ) -> list[Record]:
        """Read until `n_rows` have arrived, and a moment longer in case there are more."""
        records: list[Record] = []
        left, until = n_rows, time.monotonic() + self.timeout
        while not source.done and left >= 0 and time.monotonic() < until:
            if left == 0 and not and_more:
                break
            found = source.read(max_n, _EXTRA_WAIT)
            self.ensure(len(found) <= max_n, f"read({max_n}) returned {len(found)} messages")
            if left == 0 and not found:
                break
            records += found
            left -= len(self.numbers(found))
        return records

    def numbers(self, records: Iterable[Record]) -> list[int]:
        """Return the numbers of some messages."""
        return [number for record in records for number in self._numbers(record.value)]

    def check_all(self, new: list[int], records: list[Record]) -> None:
        """Check that each of these numbers arrived once, and in order within partitions."""
        found = self.numbers(records)
        self.ensure(sorted(found) == new, f"of the numbers {new[0]} to {new[-1]} it gave {found}")
        for partition, own in _by_partition(records).items():
            found = self.numbers(own)
            self.ensure(
                found == sorted(found),
                f"partition {partition!r} gave {found}, which is out of order",
            )

    def check_same(self, records: list[Record], original: list[Record], when: str) -> None:
        """Check that each partition has the same rows, in any division into messages."""
        found, wanted = _by_partition(records), _by_partition(original)
        for partition in sorted({*found, *wanted}):
            rows, right = (self.numbers(some.get(partition, [])) for some in (found, wanted))
            what = f"partition {partition!r} gave {rows} instead of {right} {when}"
            self.ensure(rows == right, what)

    def check_rejected(self, source: Source, resume: Resume, kind: type[Exception]) -> None:
        """Check that the source rejects a checkpoint, unless a gap is accepted."""
        where = f"open at the positions {dict(resume.positions)}"
        try:
            source.open(resume)
        except kind:
            pass
        except Exception as error:
            what = f"{where} raised {describe(error)} instead of {kind.__name__}"
            raise AssertionError(f"{self.name} breaks the law {self.law!r}: {what}.") from error
        else:
            self.ensure(False, f"{where} raised no {kind.__name__}")
        finally:
            source.close()
        source.open(resume, accept_gap=True)
        source.close()


def _law_order(case: SourceCase) -> None:
    """Every row arrives once, and the rows of a partition in their order."""
    _ = case.records


def _law_json_positions(case: SourceCase) -> None:
    """Positions are JSON, and partitions are text."""
    for record in case.records:
        for name, position in (("position", record.position), ("after", record.after)):
            case.ensure(is_json(position), f"{name} is {position!r}, which is not JSON")
        case.ensure(
            type(record.partition) is str, f"a partition is {record.partition!r}, which is not text"
        )


def _law_identity(case: SourceCase) -> None:
    """The identity is a mapping of text, and is the same whenever the source is opened."""
    _ = case.records
    identities = []
    for _ in range(2):
        with case.session() as source:
            identities.append(dict(source.identity()))
    texts = [text for item in identities[0].items() for text in item]
    case.ensure(
        bool(texts) and all(type(text) is str for text in texts),
        f"the identity is {identities[0]}, which is not a mapping of text to text",
    )
    case.ensure(
        identities[0] == identities[1],
        f"the identity was {identities[0]} and is {identities[1]} when reopened",
    )


def _law_replay(case: SourceCase) -> None:
    """Reading from a position always returns the same rows."""
    for partition, records in case.partitions.items():
        first_record = {json.dumps(record.position): i for i, record in enumerate(records)}
        for i, record in enumerate(records, 1):
            case.ensure(
                first_record.setdefault(json.dumps(record.after), i) == i,
                f"{record.after!r} is after one message and the position of another",
            )
        for position, first in first_record.items():
            left = records[first:]
            with case.session(case.at({partition: json.loads(position)})) as source:
                again = case.read_rows(
                    source, len(case.numbers(left)), max_n=(1, 2, 100)[first % 3]
                )
            case.check_same(again, left, f"when read from {position}")


def _law_restarts(case: SourceCase) -> None:
    """A reader that restarts after every message reads every row once."""
    left, read = len(case.numbers(case.records)), list[Record]()
    resume = Resume(case.identity, {})
    while left > 0:
        with case.session(resume) as source:
            found = case.read_rows(source, 1, max_n=1, and_more=False)
            identity = through_json(dict(source.identity()))
        case.ensure(bool(found), f"no message arrives after {dict(resume.positions)}")
        after = through_json({record.partition: record.after for record in found})
        resume = Resume(identity, {**resume.positions, **after})
        read += found
        left -= len(case.numbers(found))
    case.check_same(read, case.records, "when it was restarted after every message")


def _law_read_timeout(case: SourceCase) -> None:
    """A read without messages ends at its timeout, and `done` is right at the end."""
    with case.session(case.end) as source:
        for _ in range(2):
            began = time.monotonic()
            found = source.read(10, _TIMEOUT)
            took = time.monotonic() - began
            case.ensure(found == [], f"{len(found)} messages arrived after the last one")
            case.ensure(
                took < _TIMEOUT + _SLACK,
                f"read took {took:.1f} s with a timeout of {_TIMEOUT} s and nothing to read",
            )
        case.ensure(source.done is case.is_finite, f"done is {source.done!r} at the end")


def _law_reopen(case: SourceCase) -> None:
    """A source may be closed before it was opened, closed twice, and opened again."""
    n_rows = len(case.numbers(case.records))
    source = case.made()
    source.close()
    for n_read in (1, n_rows):
        source.open(None)
        again = case.read_rows(source, n_read, max_n=1, and_more=n_read > 1)
        source.close()
        source.close()
    case.check_same(again, case.records, "when it was opened a second time")


def _law_appended_rows(case: SourceCase) -> None:
    """Appended rows arrive after the last one, in an open source and in a new one."""
    with case.session(case.end) as source:
        case.read_rows(source, 0)
        new = case.add()
        waited = case.read_rows(source, len(new))
    with case.session(case.end) as source:
        later = case.read_rows(source, len(new))
        case.identity = through_json(dict(source.identity()))
    case.check_all(new, later)
    if not case.is_finite:
        case.check_same(waited, later, "while it waited for more")
    case.records.extend(later)


def _law_threads(case: SourceCase) -> None:
    """Another thread may call `acknowledge` and `lag` during a read."""
    n_rows = len(case.numbers(case.records))
    lags: list[Any] = []
    with case.session() as source:
        records = case.read_rows(source, n_rows // 2, max_n=1, and_more=False)
        safe = {record.partition: record.after for record in records}

        def acknowledge() -> None:
            try:
                for _ in range(_N_CALLS):
                    source.acknowledge(safe)
                    lags.append(source.lag())
            except Exception as error:
                lags.append(error)

        thread = threading.Thread(target=acknowledge, daemon=True)
        thread.start()
        later = case.read_rows(source, n_rows - len(case.numbers(records)))
        thread.join(case.timeout)
        case.ensure(not thread.is_alive(), "acknowledge or lag does not return in another thread")
        _check_lags(case, source, lags)
    case.check_same([*records, *later], case.records, "while another thread acknowledged")
    with case.session(Resume(case.identity, through_json(safe))) as source:
        again = case.read_rows(source, len(case.numbers(later)))
    case.check_same(again, later, f"after {safe} was acknowledged")


def _check_lags(case: SourceCase, source: Source, lags: list[Any]) -> None:
    for lag in lags:
        if isinstance(lag, Exception):
            raise lag
        is_valid = lag is None or (type(lag) is int and lag >= 0)
        case.ensure(is_valid, f"the lag is {lag!r}, which is neither None nor a number of messages")
    until = time.monotonic() + case.timeout
    while (lag := source.lag()) and time.monotonic() < until:
        source.read(1, _EXTRA_WAIT)
    case.ensure(not lag, f"the lag is {lag} after everything was read")


def _law_regressed(case: SourceCase) -> None:
    """A position after the end raises SourceRegressed: the source lost messages."""
    if case.past_end is not None:
        for partition, position in case.end.positions.items():
            resume = case.at({partition: case.past_end(position)})
            case.check_rejected(case.made(), resume, SourceRegressed)


def _law_changed(case: SourceCase) -> None:
    """A checkpoint of another source raises SourceChanged."""
    resume = case.end
    if case.other is not None:
        case.check_rejected(case.other(), resume, SourceChanged)


def _one_number(value: bytes | Block) -> list[int]:
    """Return a number in digits, or the first column of a block."""
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
    "json_positions": _law_json_positions,
    "identity": _law_identity,
    "replay": _law_replay,
    "restarts": _law_restarts,
    "read_timeout": _law_read_timeout,
    "reopen": _law_reopen,
    "appended_rows": _law_appended_rows,
    "regressed": _law_regressed,
    "changed": _law_changed,
    "threads": _law_threads,
}
