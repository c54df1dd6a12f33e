"""What a worker does: it keeps its share of a batch, and lets the rows choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from scstream.compute.rows import LocalRows
from scstream.compute.threads import ThreadExecutor, one_blas_thread
from scstream.core.assign import AssignmentParams
from scstream.core.row_ranges import RowRange, add_row_ranges
from scstream.core.state import Batch
from scstream.distributed.engine import ray
from scstream.families.base import Array, Labels, Rows
from scstream.kernels import adopt_kernels
from scstream.machine import usable_cores


@dataclass(frozen=True)
class Part:
    """Some neighbouring rows of a block that is in the object store."""

    block: Any  # reference to rows
    start: int
    stop: int


@dataclass(frozen=True)
class Share:
    """The rows of a stretch of a batch, and where they are: all that a worker needs to know."""

    batch: str
    row_range: RowRange
    parts: tuple[Part, ...]
    weight: Any  # reference, or None
    family: Any  # reference


@dataclass(frozen=True)
class Told:
    """A plan, and which one of the batch it is."""

    number: int
    plan: AssignmentParams


class Worker:
    """One per node, with threads inside.

    Every call says all that is needed to answer it; a worker that was asked about the same share
    before has it at hand. So a call that was lost can be made again, to anybody.
    """

    def __init__(self, n_threads: int | None, kernels: str) -> None:
        adopt_kernels(kernels)
        self._executor = ThreadExecutor(n_threads or usable_cores())
        self._batch = ""
        self._held: dict[int, Held] = {}  # by first slice
        self._family: tuple[Any, Any] = (None, None)  # reference, and what it leads to

    def sums(self, share: Share, told: Told) -> Array:  # (subtrees, ...)
        """Let every row choose; return the packed tallies of the subtrees."""
        return self._hold(share).sums(told)

    def scattered(self, share: Share, told: Told, n_parts: int) -> tuple[Any, ...]:
        """The same in so many parts, and a word that they are there."""
        sums = self._hold(share).sums(told)
        return (*np.array_split(sums, n_parts, axis=1), True)

    def added(self, row_ranges: Sequence[RowRange], *parts: Array) -> Array:
        """Add up one part of the sums of all workers."""
        return add_row_ranges(row_ranges, parts)

    def labels(self, share: Share, told: Told, names: Labels) -> tuple[Labels, int]:
        """Return the ids of the rows, and how many have none."""
        return self._hold(share).after(told).labels(names)

    def novel_places(self, share: Share, told: Told) -> Labels:
        """Return where in the batch the rows are that chose no cluster."""
        return share.row_range.rows.start + self._hold(share).after(told).novel_places()

    def apply(self, block: Rows, function: Callable[[Rows], Any]) -> Any:
        """Return what a function says of the rows of a block."""
        return function(block)

    def pick(self, block: Rows, places: Labels) -> Rows:
        """Return some rows of a block."""
        return block[places]

    def release(self, batch: str) -> None:
        """Put down the rows of a batch: it is learned, or will not be."""
        if batch == self._batch:
            self._batch, self._held, self._family = "", {}, (None, None)

    def answer(self, family: Sequence[Any], name: str, args: Sequence[Any]) -> Any:
        """Answer for some clusters what the kernel of a family answers under this name."""
        if self._family[0] != family[0]:
            self._family = family[0], ray().get(family[0])
        known = self._family[1]
        with one_blas_thread, known.kernels.threads(self._executor.n_threads):
            return getattr(known.compiled, name)(*args)

    def _hold(self, share: Share) -> Held:
        if share.batch != self._batch:
            self._batch, self._held = share.batch, {}
        if share.row_range.first not in self._held:
            self._held[share.row_range.first] = Held(self._executor, share)
        return self._held[share.row_range.first]


class Held:
    """A share whose rows are at hand, with the choices they made last."""

    def __init__(self, executor: ThreadExecutor, share: Share) -> None:
        self._executor = executor
        self._share = share
        self._number: int | None = None  # of the plan that the rows chose by

    @cached_property
    def _rows(self) -> LocalRows:
        share = self._share
        blocks = ray().get([part.block for part in share.parts])
        rows = [
            block[part.start : part.stop] if part.stop - part.start < block.shape[0] else block
            for block, part in zip(blocks, share.parts, strict=True)
        ]
        weight = None if share.weight is None else ray().get(share.weight)
        batch = Batch(stacked(rows), 0.0, weight)
        return self._executor.hold(ray().get(share.family), batch, share.row_range)

    def sums(self, told: Told) -> Array:  # (subtrees, ...)
        """Let every row choose by a plan."""
        self._number = None
        sums = self._rows.sums(told.plan)
        self._number = told.number
        return sums

    def after(self, told: Told) -> LocalRows:
        """Return the rows with the choices of this plan, which may have been lost."""
        if self._number != told.number:
            self.sums(told)
        return self._rows


def stacked(parts: list[Rows]) -> Rows:
    """Put neighbouring rows together; what is one piece already is not copied."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return sparse.vstack(parts, format="csr")
