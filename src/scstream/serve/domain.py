"""How large an entry may be so that a model can take it, column by column, to the last bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from scstream.errors import InputError
from scstream.families.base import Array
from scstream.io.schema import LARGEST
from scstream.stream.model_version import ModelVersion

Range = tuple[float, float]
_MOST = 32  # columns that are looked into


def domain(reading: ModelVersion) -> list[Range] | None:
    """Return the least and the largest entry of every column that the model takes.

    Found by asking; None where that would take long, or where the steps or the family do not take
    the middle of the heaviest cluster for a row.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.domain import domain
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> [(low, high)] = domain(ModelVersion(0, 1, 0.0, None, model, Steps()))
    >>> -1e8 < low < high < 1e8
    True
    """
    state, family = reading.model.state, reading.model.family
    if reading.steps.steps or not state.n_clusters or family.n_features > _MOST:
        return None
    heaviest = state.cluster_stats[[int(state.weight.argmax())]]
    middle = family.means(heaviest)  # (1, D)
    if not _is_taken(reading, middle):
        return None
    return [_range(reading, middle, j) for j in range(middle.shape[1])]


def _range(reading: ModelVersion, middle: Array, j: int) -> Range:
    def takes(entry: float) -> bool:
        row = middle.copy()
        row[0, j] = entry
        return _is_taken(reading, row)

    at = float(middle[0, j])
    return _last(takes, at, -LARGEST), _last(takes, at, LARGEST)


def _is_taken(reading: ModelVersion, row: Array) -> bool:
    try:
        reading.prepared(row)
    except InputError:
        return False
    return True


def _last(takes: Callable[[float], bool], good: float, bad: float) -> float:
    """Return the last number on the way from a good one to a bad one that is good."""
    if takes(bad):
        return bad
    first, last = _rank(good), _rank(bad)
    while abs(last - first) > 1:
        between = (first + last) // 2
        if takes(_number(between)):
            first = between
        else:
            last = between
    return _number(first)


def _rank(number: float) -> int:
    """Return the place of a number among all numbers."""
    place: int = struct.unpack("<q", struct.pack("<d", abs(number)))[0]
    return place if math.copysign(1.0, number) > 0 else -place


def _number(rank: int) -> float:
    number: float = struct.unpack("<d", struct.pack("<q", abs(rank)))[0]
    return number if rank >= 0 else -number
