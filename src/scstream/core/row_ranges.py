"""How the rows of a batch are cut into slices, and in which order the sums of slices are added.

Both depend on the number of rows alone. It makes no difference to any bit of a sum which thread or
worker computes which slice, or in which order they finish.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from scstream.families.base import Array

_TYPICAL = 4096  # rows of a slice: from three quarters of this to one and a half times as many
_MOST = 1024  # slices of a batch, and so the largest number of threads that can share it


def slice_length(n_rows: int) -> int:
    """Rows of every slice but the last.

    The number of slices is a power of two: 2, 4, 8, ... workers then have one subtree each, and
    send one sum.
    """
    n_slices = 1
    while n_slices < _MOST and 2 * n_rows > 3 * _TYPICAL * n_slices:
        n_slices *= 2
    return max(1, -(-n_rows // n_slices))


@dataclass(frozen=True)
class RowRange:
    """Some neighbouring slices of a batch."""

    n_rows: int  # of the whole batch
    length: int  # rows of a slice
    first: int
    stop: int

    @classmethod
    def full(cls, n_rows: int) -> Self:
        """All slices of a batch; an empty batch has one too."""
        length = slice_length(n_rows)
        return cls(n_rows, length, 0, max(1, -(-n_rows // length)))

    @property
    def rows(self) -> range:
        """Places of the rows in the batch."""
        return range(self.first * self.length, min(self.stop * self.length, self.n_rows))

    def shards(self, n_shards: int) -> list[RowRange]:
        """Cut into shards of similar size. If there are fewer slices than shards, use fewer shards.

        If there are many slices, the cuts are at round numbers: a shard then has few subtrees, so
        that few sums are sent, and is larger than others by an eighth at most.
        """
        n = self.stop - self.first
        n_shards = min(n_shards, n)
        round_ = 1 << max(n // (8 * n_shards), 1).bit_length() - 1
        cuts = [self.first + n * i // n_shards // round_ * round_ for i in range(n_shards)]
        bounds = [*cuts, self.stop]
        return [RowRange(self.n_rows, self.length, first, stop) for first, stop in pairwise(bounds)]

    def subtrees(self) -> list[range]:
        """Cut into the largest subtrees of the tree in which `add_up` adds."""
        n_slices = max(1, -(-self.n_rows // self.length))
        out, first = [], self.first
        while first < self.stop:
            size = first & -first or 1 << n_slices.bit_length()
            while first + size > self.stop and self.stop < n_slices:
                size //= 2
            out.append(range(first, min(first + size, self.stop)))
            first += size
        return out


def add_up(parts: Iterable[tuple[range, Array]]) -> Array:
    """Add the sums of subtrees, from left to right, in a fixed tree over the slices.

    Neighbours are added in pairs, then pairs in pairs, and so on. A subtree without a neighbour
    is added in the next round.
    """
    trees: list[_Tree] = []
    for slices, sums in parts:
        trees.append(_Tree(slices, sums, fresh=False))
        while len(trees) > 1 and _are_siblings(trees[-2].slices, trees[-1].slices):
            _unite_last(trees)
    while len(trees) > 1:
        _unite_last(trees)
    return trees[0].sums


def add_row_ranges(row_ranges: Iterable[RowRange], sums: Iterable[Array]) -> Array:
    """Add the sums of the subtrees of all ranges of a batch, from left to right."""
    return add_up(
        tree
        for row_range, rows in zip(row_ranges, sums, strict=True)
        for tree in zip(row_range.subtrees(), rows, strict=True)
    )


class _Tree(NamedTuple):
    slices: range
    sums: Array
    fresh: bool  # made here, and so free to be added to


def _are_siblings(left: range, right: range) -> bool:
    return len(left) == len(right) and left.start % (2 * len(left)) == 0


def _unite_last(trees: list[_Tree]) -> None:
    right = trees.pop()
    left = trees.pop()
    sums = np.add(left.sums, right.sums, out=left.sums if left.fresh else None)
    trees.append(_Tree(range(left.slices.start, right.slices.stop), sums, fresh=True))
