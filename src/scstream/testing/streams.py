"""`check_source` and `check_sink` tell which law of streams a connector breaks.

They act as a pipeline does that is stopped at any moment and goes on from its checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from scstream.errors import InputError
from scstream.preprocess.block import Block
from scstream.stream.sink import Sink
from scstream.stream.source import Position, Source
from scstream.testing.case import check_laws
from scstream.testing.sink_laws import SINK_LAWS, USED, SinkCase
from scstream.testing.source_laws import SOURCE_LAWS, SourceCase, one_number

__all__ = ["SINK_LAWS", "SOURCE_LAWS", "check_sink", "check_source"]


def check_source(
    make: Callable[[], Source],
    fill: Callable[[Sequence[int]], None],
    *,
    numbers: Callable[[bytes | Block], list[int]] | None = None,
    ends: bool = False,
    beyond: Callable[[Position], Position] | None = None,
    other: Callable[[], Source] | None = None,
    n_rows: int = 8,
    patience: float = 20.0,
    laws: Iterable[str] | None = None,
) -> None:
    """Check that a source obeys the laws on which a pipeline relies.

    Parameters
    ----------
    make : callable
        Builds a source, not opened yet; every call one of the same place, which is empty at first.
    fill : callable
        Adds a row for each of some numbers to that place, in this order. Rows may share a message,
        and partitions may share the rows. It may be called while a source is open.
    numbers : callable, optional
        Which numbers the value of a record holds. By default a value of bytes is one number in
        digits, and a block has the numbers in its first column.
    ends : bool
        Whether it is done after the last message that is there, as a file that is not followed.
    beyond : callable, optional
        Turns the last position of a partition into one behind its end; without it the law "regressed"
        is not checked.
    other : callable, optional
        Builds a source of the same kind that is another one; without it the law "changed" is not
        checked.
    n_rows : int
        How many rows to begin with; every one of them is read again from its position.
    patience : float
        Seconds in which a row that was added must come.
    laws : iterable of str, optional
        Which of `SOURCE_LAWS` to check; all by default.

    Raises
    ------
    AssertionError
        Names the first law that is broken, and what was seen.

    Examples
    --------
    >>> from scstream.stream.source import Record
    >>> from scstream.testing import check_source
    >>> class ListSource:
    ...     done = False
    ...
    ...     def __init__(self, messages):
    ...         self.messages, self.at = messages, 0
    ...
    ...     def identity(self):
    ...         return {"list": "demo"}
    ...
    ...     def open(self, resume, *, accept_gap=False):
    ...         self.at = resume.positions.get("", 0) if resume else 0
    ...
    ...     def read(self, max_n, timeout):
    ...         start, self.at = self.at, min(self.at + max_n, len(self.messages))
    ...         return [Record(i, i + 1, self.messages[i]) for i in range(start, self.at)]
    ...
    ...     def acknowledge(self, positions):
    ...         pass
    ...
    ...     def lag(self):
    ...         return len(self.messages) - self.at
    ...
    ...     def close(self):
    ...         pass
    >>> messages = []
    >>> def fill(numbers):
    ...     messages.extend(b"%d" % number for number in numbers)
    >>> check_source(lambda: ListSource(messages), fill)
    >>> check_source(lambda: ListSource(messages[:3] + messages[4:]), fill, laws=["order"])
    Traceback (most recent call last):
    ...
    AssertionError: ListSource breaks the law 'order': of the numbers 0 to 7 it gave [0, 1, 2, ...
    """
    if n_rows < 4:
        raise InputError(f"check_source needs at least four rows, got {n_rows}.")
    case = SourceCase(make, fill, numbers=numbers or one_number, n_rows=n_rows, patience=patience)
    case.ends, case.beyond, case.other = ends, beyond, other
    check_laws(case, SOURCE_LAWS, laws)


def check_sink(
    make: Callable[[], Sink],
    read: Callable[[], Sequence[Mapping[str, Any]]],
    *,
    used: Literal["refused", "emptied", "kept", "matched"] = "refused",
    laws: Iterable[str] | None = None,
) -> None:
    """Check that a sink keeps every delivery once and in order, from wherever it is replayed.

    Parameters
    ----------
    make : callable
        Builds a sink, not opened yet; every call one of the same place, which is empty at first.
    read : callable
        Returns the rows of that place in their order, with the names of columns and the values
        that were written; it may add columns of its own. A place without an order of its own is
        read in that of "batch" and "index".
    used : {"refused", "emptied", "kept", "matched"}
        What becomes of a place with rows that is opened without a position: `SinkError`, or it is
        empty then, or the rows stay; "matched" if those that are written again are known too.
    laws : iterable of str, optional
        Which of `SINK_LAWS` to check; all by default.

    Raises
    ------
    AssertionError
        Names the first law that is broken, and what was seen.

    Examples
    --------
    >>> from scstream.stream.sink import plain_rows
    >>> from scstream.testing import check_sink
    >>> class ListSink:
    ...     def __init__(self, rows):
    ...         self.rows = rows
    ...
    ...     def open(self, position):
    ...         del self.rows[position or 0 :]
    ...
    ...     def write(self, delivery):
    ...         self.rows.extend(plain_rows(delivery))
    ...
    ...     def flush(self):
    ...         return len(self.rows)
    ...
    ...     def close(self):
    ...         pass
    >>> rows = []
    >>> check_sink(lambda: ListSink(rows), lambda: rows, used="emptied")
    >>> class Forgetful(ListSink):
    ...     def open(self, position):
    ...         pass
    >>> rows.clear()
    >>> check_sink(lambda: Forgetful(rows), lambda: rows)
    Traceback (most recent call last):
    ...
    AssertionError: Forgetful breaks the law 'replay': row 0 of batch 3 is there 3 times after ...
    """
    if used not in USED:
        raise InputError(f"used is {used!r}; choose one of {', '.join(USED)}.")
    check_laws(SinkCase(make, read, used), SINK_LAWS, laws)
