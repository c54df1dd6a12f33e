"""The actor that stores shards of a batch and assigns their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from scstream.compute.rows import LocalRows
from scstream.compute.threads import ThreadExecutor, one_blas_thread
from scstream.core.assign import AssignmentParams
from scstream.core.row_ranges import RowRange, add_row_ranges
from scstream.core.state import Batch
from scstream.distributed.engine import ray, summary
from scstream.errors import PartsLost
from scstream.families.base import Array, Labels, Rows
from scstream.kernels import adopt_kernels
from scstream.machine import usable_cores

_MAX_BATCHES = 8  # whose rows a worker has at a time


@dataclass(frozen=True)
class BlockSlice:
    """Consecutive rows of a block in the object store."""

    block: Any  # reference to rows
    start: int
    stop: int


class ShardKey(NamedTuple):
    """The name of a shard on a worker that has it."""

    batch: str
    part: int  # of the batch: 0 for all rows, then samples of them
    first: int  # slice


@dataclass(frozen=True)
class Shard:
    """A range of the rows of a batch, with references to the data."""

    batch: str
    part: int
    row_range: RowRange
    slices: tuple[BlockSlice, ...]
    weight: Any  # reference, or None
    family: Any  # reference

    @property
    def key(self) -> ShardKey:
        """Return the name by which later calls refer to the shard."""
        return ShardKey(self.batch, self.part, self.row_range.first)


@dataclass(frozen=True)
class PlanVersion:
    """Assignment parameters, and their number within the batch."""

    number: int
    params: AssignmentParams


class ShardMissing(Exception):
    """A worker does not have the shard that a call names."""


class Worker:
    """One actor per node, with threads.

    A shard is sent once, by `load`; later calls name it. A worker that has lost it, because it was
    restarted, raises `ShardMissing`: the shard is then sent again, to any worker. All other
    arguments are complete in every call.
    """

    def __init__(self, n_jobs: int | None, kernels: str) -> None:
        adopt_kernels(kernels)
        self._executor = ThreadExecutor(n_jobs or usable_cores())
        self._loaded: dict[str, dict[ShardKey, LoadedShard]] = {}  # by batch
        self._family: tuple[Any, Any] = (None, None)  # reference and value

    def load(self, shard: Shard) -> None:
        """Note a shard; its rows are read when they are first needed."""
        batch = self._loaded.setdefault(shard.batch, {})
        batch.setdefault(shard.key, LoadedShard(self._executor, shard))
        while len(self._loaded) > _MAX_BATCHES:  # of drivers that did not release them
            del self._loaded[next(iter(self._loaded))]

    def sums(self, key: ShardKey, plan: PlanVersion) -> Array:  # (subtrees, ...)
        """Assign every row; return the packed statistics of the subtrees."""
        return self._find(key).sums(plan)

    def split_sums(self, key: ShardKey, plan: PlanVersion, n_parts: int) -> tuple[Any, ...]:
        """Return the sums in `n_parts` parts, then True, which the driver waits for."""
        sums = self._find(key).sums(plan)
        return (*np.array_split(sums, n_parts, axis=1), True)

    def add_sums(self, row_ranges: Sequence[RowRange], *parts: Array) -> Array:
        """Add one part of the sums of all workers."""
        return add_row_ranges(row_ranges, parts)

    def near(self, key: ShardKey, params: AssignmentParams, phase: int) -> Array:  # (K + 2,)
        """Return `near_clusters` of the rows of a shard."""
        return self._find(key).held.near(params, phase)

    def labels(self, key: ShardKey, plan: PlanVersion, label_ids: Labels) -> tuple[Labels, int]:
        """Return the cluster ids of the rows, and the number of rows without a cluster."""
        ids, n_novel = self._find(key).assigned(plan).labels(label_ids)
        return ids.astype(np.min_scalar_type(-1 - int(label_ids.max(initial=0)))), n_novel

    def novel_rows(self, key: ShardKey, plan: PlanVersion) -> Labels:
        """Return the indices, within the shard, of the rows without a cluster."""
        return self._find(key).assigned(plan).novel_places()

    def take_rows(self, key: ShardKey, indices: Labels) -> Rows:
        """Return some rows of a shard."""
        return self._find(key).rows[indices]

    def keep_rows(self, key: ShardKey, indices: Labels) -> tuple[Rows, bool]:
        """Return some rows of a shard, which stay in the object store, and True."""
        return self.take_rows(key, indices), True

    def apply(self, block: Rows, function: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a function of a block."""
        return function(block, *args)

    def release(self, batch: str) -> None:
        """Drop the rows of a batch that is finished or abandoned."""
        self._loaded.pop(batch, None)
        if not self._loaded:
            self._family = None, None

    def call_kernel(self, family: Sequence[Any], name: str, args: Sequence[Any]) -> Any:
        """Call a function of the family's kernel for some of the clusters."""
        if self._family[0] != family[0]:
            self._family = family[0], ray().get(family[0])
        known = self._family[1]
        with one_blas_thread, known.kernels.threads(self._executor.n_threads):
            return getattr(known.compiled, name)(*args)

    def _find(self, key: ShardKey) -> LoadedShard:
        shard = self._loaded.get(key.batch, {}).get(key)
        if shard is None:
            raise ShardMissing(f"this worker has no shard {key.first} of the batch.")
        return shard


class LoadedShard:
    """A shard in the memory of a worker, with the latest assignments of its rows."""

    def __init__(self, executor: ThreadExecutor, shard: Shard) -> None:
        self._executor = executor
        self._shard = shard
        self._number: int | None = None  # of the plan of the assignments

    @cached_property
    def rows(self) -> Rows:
        """The rows, in the memory of this process or of the object store of its node."""
        try:
            blocks = ray().get([part.block for part in self._shard.slices])
        except ray().exceptions.RayError as error:
            raise PartsLost(f"rows were lost ({summary(error)}); learn the batch again.") from None
        return stacked(
            [
                block[part.start : part.stop] if part.stop - part.start < block.shape[0] else block
                for block, part in zip(blocks, self._shard.slices, strict=True)
            ]
        )

    @cached_property
    def held(self) -> LocalRows:
        """The rows with the kernels of the family."""
        shard = self._shard
        weight = None if shard.weight is None else ray().get(shard.weight)
        batch = Batch(self.rows, 0.0, weight)
        return self._executor.hold(ray().get(shard.family), batch, shard.row_range)

    def sums(self, plan: PlanVersion) -> Array:  # (subtrees, ...)
        """Assign every row; return the packed statistics of the subtrees."""
        self._number = None
        sums = self.held.sums(plan.params)
        self._number = plan.number
        return sums

    def assigned(self, plan: PlanVersion) -> LocalRows:
        """Return the rows with the assignments of this plan; repeat it if they were lost."""
        if self._number != plan.number:
            self.sums(plan)
        return self.held


def stacked(parts: list[Rows]) -> Rows:
    """Concatenate rows; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return sparse.vstack(parts, format="csr")
