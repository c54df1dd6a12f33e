"""What a caller says about rows: their ids, texts and times, which exemplars of clusters keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.families.base import Array

Marks = NDArray[Any]  # (N,) ids or texts; entries of type object are None where there is none


@dataclass(frozen=True, eq=False)
class Notes:
    """Ids and texts of rows, None if there are none, and times of rows that were held."""

    ids: Marks | None = None  # (N,)
    texts: Marks | None = None  # (N,)
    time: Array | None = None  # (N,)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said about any row."""
        return self.ids is None and self.texts is None

    def take(self, rows: Any) -> Notes:
        """Return the notes about some of the rows."""
        parts = (self.ids, self.texts, self.time)
        return Notes(*(None if each is None else each[rows] for each in parts))


NO_NOTES = Notes()


def join_notes(parts: Iterable[tuple[Notes, int]]) -> Notes:
    """Return the notes about rows of several parts, which are given with their numbers of rows."""
    parts = list(parts)
    if all(notes.is_empty for notes, _ in parts):
        return NO_NOTES
    return Notes(*(_joined([(getattr(n, name), size) for n, size in parts]) for name in _NAMES))


_NAMES = ("ids", "texts")


def _joined(parts: list[tuple[Marks | None, int]]) -> Marks | None:
    if all(marks is None for marks, _ in parts):
        return None
    out = np.full(sum(size for _, size in parts), None, dtype=object)
    start = 0
    for marks, size in parts:
        if marks is not None:
            out[start : start + size] = marks
        start += size
    return out
