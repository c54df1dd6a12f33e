"""The largest and smallest entries that a model accepts, per column, to the last bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from scstream.errors import InputError
from scstream.families.base import Array
from scstream.io.schema import LARGEST
from scstream.stream.model_version import ModelVersion

Range = tuple[float, float]
_MAX_COLUMNS = 32


def accepted_ranges(version: ModelVersion) -> list[Range] | None:
    """Return the range of accepted entries of every column, found by bisection.

    None if the model has many columns or preprocessing steps, or rejects the mean of its heaviest
    cluster.
    """
    state, family = version.model.state, version.model.family
    if version.steps.steps or not state.n_clusters or family.n_features > _MAX_COLUMNS:
        return None
    heaviest = state.cluster_stats[[int(state.weight.argmax())]]
    middle = family.means(heaviest)  # (1, D)
    if not _accepts(version, middle):
        return None
    return [_range(version, middle, j) for j in range(middle.shape[1])]


def _range(version: ModelVersion, middle: Array, j: int) -> Range:
    def accepts(entry: float) -> bool:
        row = middle.copy()
        row[0, j] = entry
        return _accepts(version, row)

    start = float(middle[0, j])
    return _last_accepted(accepts, start, -LARGEST), _last_accepted(accepts, start, LARGEST)


def _accepts(version: ModelVersion, row: Array) -> bool:
    try:
        version.prepared(row)
    except InputError:
        return False
    return True


def _last_accepted(accepts: Callable[[float], bool], good: float, bad: float) -> float:
    """Return the last accepted number on the way from `good` to `bad`."""
    if accepts(bad):
        return bad
    first, last = _rank(good), _rank(bad)
    while abs(last - first) > 1:
        between = (first + last) // 2
        if accepts(_number(between)):
            first = between
        else:
            last = between
    return _number(first)


def _rank(number: float) -> int:
    """Return the position of a float among all floats."""
    rank: int = struct.unpack("<q", struct.pack("<d", abs(number)))[0]
    return rank if math.copysign(1.0, number) > 0 else -rank


def _number(rank: int) -> float:
    number: float = struct.unpack("<d", struct.pack("<q", abs(rank)))[0]
    return number if rank >= 0 else -number
