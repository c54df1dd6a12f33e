"""The actor that stores shards of a batch and assigns their rows."""

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
class BlockSlice:
    """Consecutive rows of a block in the object store."""

    block: Any  # reference to rows
    start: int
    stop: int


@dataclass(frozen=True)
class Shard:
    """A range of the rows of a batch, with references to the data."""

    batch: str
    row_range: RowRange
    slices: tuple[BlockSlice, ...]
    weight: Any  # reference, or None
    family: Any  # reference


@dataclass(frozen=True)
class PlanVersion:
    """Assignment parameters, and their number within the batch."""

    number: int
    params: AssignmentParams


class Worker:
    """One actor per node, with threads.

    Every call carries all that it needs, so that a lost call can be repeated on any worker. A
    worker that has loaded a shard before reuses it.
    """

    def __init__(self, n_jobs: int | None, kernels: str) -> None:
        adopt_kernels(kernels)
        self._executor = ThreadExecutor(n_jobs or usable_cores())
        self._batch = ""
        self._loaded: dict[int, LoadedShard] = {}  # by first slice
        self._family: tuple[Any, Any] = (None, None)  # reference and value

    def sums(self, shard: Shard, plan: PlanVersion) -> Array:  # (subtrees, ...)
        """Assign every row; return the packed statistics of the subtrees."""
        return self._load(shard).sums(plan)

    def split_sums(self, shard: Shard, plan: PlanVersion, n_parts: int) -> tuple[Any, ...]:
        """Return the sums in `n_parts` parts, then True, which the driver waits for."""
        sums = self._load(shard).sums(plan)
        return (*np.array_split(sums, n_parts, axis=1), True)

    def add_sums(self, row_ranges: Sequence[RowRange], *parts: Array) -> Array:
        """Add one part of the sums of all workers."""
        return add_row_ranges(row_ranges, parts)

    def near(self, shard: Shard, params: AssignmentParams, phase: int) -> Array:  # (K + 2,)
        """Return `near_clusters` of the rows of a shard."""
        return self._load(shard).rows.near(params, phase)

    def labels(self, shard: Shard, plan: PlanVersion, label_ids: Labels) -> tuple[Labels, int]:
        """Return the cluster ids of the rows, and the number of rows without a cluster."""
        return self._load(shard).assigned(plan).labels(label_ids)

    def novel_rows(self, shard: Shard, plan: PlanVersion) -> Labels:
        """Return the indices, within the batch, of the rows without a cluster."""
        return shard.row_range.rows.start + self._load(shard).assigned(plan).novel_places()

    def apply(self, block: Rows, function: Callable[[Rows], Any]) -> Any:
        """Return the result of a function of a block."""
        return function(block)

    def take_rows(self, block: Rows, indices: Labels) -> Rows:
        """Return some rows of a block."""
        return block[indices]

    def release(self, batch: str) -> None:
        """Drop the rows of a batch that is finished or abandoned."""
        if batch == self._batch:
            self._batch, self._loaded, self._family = "", {}, (None, None)

    def call_kernel(self, family: Sequence[Any], name: str, args: Sequence[Any]) -> Any:
        """Call a function of the family's kernel for some of the clusters."""
        if self._family[0] != family[0]:
            self._family = family[0], ray().get(family[0])
        known = self._family[1]
        with one_blas_thread, known.kernels.threads(self._executor.n_threads):
            return getattr(known.compiled, name)(*args)

    def _load(self, shard: Shard) -> LoadedShard:
        if shard.batch != self._batch:
            self._batch, self._loaded = shard.batch, {}
        if shard.row_range.first not in self._loaded:
            self._loaded[shard.row_range.first] = LoadedShard(self._executor, shard)
        return self._loaded[shard.row_range.first]


class LoadedShard:
    """A shard in the memory of a worker, with the latest assignments of its rows."""

    def __init__(self, executor: ThreadExecutor, shard: Shard) -> None:
        self._executor = executor
        self._shard = shard
        self._number: int | None = None  # of the plan of the assignments

    @cached_property
    def rows(self) -> LocalRows:
        """The rows of the shard."""
        shard = self._shard
        blocks = ray().get([part.block for part in shard.slices])
        rows = [
            block[part.start : part.stop] if part.stop - part.start < block.shape[0] else block
            for block, part in zip(blocks, shard.slices, strict=True)
        ]
        weight = None if shard.weight is None else ray().get(shard.weight)
        batch = Batch(stacked(rows), 0.0, weight)
        return self._executor.hold(ray().get(shard.family), batch, shard.row_range)

    def sums(self, plan: PlanVersion) -> Array:  # (subtrees, ...)
        """Assign every row; return the packed statistics of the subtrees."""
        self._number = None
        sums = self.rows.sums(plan.params)
        self._number = plan.number
        return sums

    def assigned(self, plan: PlanVersion) -> LocalRows:
        """Return the rows with the assignments of this plan; repeat it if they were lost."""
        if self._number != plan.number:
            self.sums(plan)
        return self.rows


def stacked(parts: list[Rows]) -> Rows:
    """Concatenate rows; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return sparse.vstack(parts, format="csr")
