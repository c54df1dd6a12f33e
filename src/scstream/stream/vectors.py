"""Columns of vectors: an array in every row, which becomes a feature for each of its entries.

`features = ["embedding[]"]` names such a column. The first valid row fixes the number D of entries,
and the features are then "embedding[0]" to "embedding[D-1]".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

MARK = "[]"
MAX_WIDTH = 1 << 16  # entries of a vector
_ENTRY = re.compile(r"(.+)\[(0|[1-9]\d*)\]", re.DOTALL)


def open_vectors(features: Sequence[str] | None) -> list[str]:
    """Return the columns of vectors whose number of entries is not known yet."""
    return [n.removesuffix(MARK) for n in features or () if n.endswith(MARK) and n != MARK]


def entry_names(column: str, width: int) -> list[str]:
    """Return the names of the features of a column of vectors."""
    return [f"{column}[{i}]" for i in range(width)]


@lru_cache(maxsize=16)
def vector_widths(features: tuple[str, ...] | None) -> Mapping[str, int]:
    """Return the number of entries of each column of vectors among the features."""
    widths: dict[str, int] = {}
    for name in features or ():
        match = _ENTRY.fullmatch(name)
        if match and int(match[2]) == widths.get(match[1], 0):
            widths[match[1]] = int(match[2]) + 1
    return widths


def spread(row: Mapping[str, Any], widths: Mapping[str, int]) -> dict[str, Any] | str:
    """Return a row with an entry for each entry of its vectors, or why it cannot be read.

    A column that the row does not have is left out: the row may have its entries by name.
    """
    entries = dict(row)
    for column, width in widths.items():
        vector = row.get(column)
        if vector is None:
            continue
        if not isinstance(vector, list):
            return f"column {column!r} holds no array, where {width} numbers are expected."
        if len(vector) != width:
            return wrong_length(column, len(vector), width)
        entries.update(zip(entry_names(column, width), vector, strict=True))
    return entries


def wrong_length(column: str, length: int, width: int) -> str:
    """Return the reason to reject a row."""
    return f"column {column!r} has {length} entries where {width} are expected."
