"""How the rows of a batch are cut, and in which order what was found in the slices is added.

Both depend on the number of rows alone. Threads and workers share the slices among themselves; who
has which, and who is done first, changes no bit of a sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from scstream.families.base import Array

_LEAST = 4096  # rows of a slice
_MOST = 1024  # slices of a batch, and so the most that can work on one


def slice_length(n_rows: int) -> int:
    """Rows of every slice but the last."""
    return max(1, -(-n_rows // (_LEAST * _MOST))) * _LEAST


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

    def shared(self, n_hands: int) -> list[RowRange]:
        """Share the slices out evenly; nobody gets none, rather there are fewer shares.

        Where slices are many the cuts are at round numbers: a share then has few subtrees, whose
        sums have to travel, and is larger than others by an eighth at most.
        """
        n = self.stop - self.first
        n_hands = min(n_hands, n)
        round_ = 1 << max(n // (8 * n_hands), 1).bit_length() - 1
        cuts = [self.first + n * i // n_hands // round_ * round_ for i in range(n_hands)]
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

    Neighbours are added in pairs, then pairs in pairs, and so on; who has no neighbour waits for
    the next round.
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
    """Add the sums of the subtrees of all stretches of a batch, from left to right."""
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
