"""Rows of a batch in this process, assigned by compiled code or by numpy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.core.assign import (
    AUDITED,
    AssignmentParams,
    AssignmentStats,
    Choices,
    Executor,
    LoadedRows,
    assign_block,
    near_clusters,
)
from scstream.core.rng import sample_rows
from scstream.core.row_ranges import RowRange, add_row_ranges, add_up
from scstream.core.state import NOVEL, Batch
from scstream.families.base import Array, Family, Labels, Rows

S = TypeVar("S")
T = TypeVar("T")


def canonical(X: Rows) -> Rows:
    """Return CSR rows with sorted, distinct columns; the caller's matrix is not touched."""
    rows = sparse.csr_array(X, dtype=np.float64)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


class Threads(Executor, Protocol):
    """An executor with threads in this process."""

    def map(self, function: Callable[[S], T], tasks: Sequence[S]) -> list[T]:
        """Apply a function to tasks, results in their order."""


class LocalRows(ABC):
    """Rows of a range of a batch, with the labels of the last pass."""

    def __init__(
        self, executor: Threads, family: Family, batch: Batch, row_range: RowRange
    ) -> None:
        self._executor = executor
        self._family = family
        self._batch = batch
        self._row_range = row_range
        self._label: Labels = np.zeros(0, dtype=np.int64)
        self._side: NDArray[np.int8] = np.zeros(0, dtype=np.int8)

    @abstractmethod
    def sums(self, params: AssignmentParams) -> Array:  # (subtrees, ...)
        """Assign every row; return the packed `AssignmentStats` of the subtrees of the range."""

    def assign(self, params: AssignmentParams) -> AssignmentStats:
        """Assign every row, and keep the labels."""
        found = self.sums(params)
        sums = found[0] if len(found) == 1 else add_row_ranges([self._row_range], [found])
        return AssignmentStats.unpacked(sums, len(params.clusters), len(params.pairs))

    @abstractmethod
    def near(self, params: AssignmentParams, phase: int) -> Array:  # (K + 2,)
        """Return `near_clusters` of all rows."""

    def sample(self, max_n: int, key: int) -> tuple[LoadedRows, float]:
        """Return at most `max_n` random rows, and the number of rows that each one represents."""
        batch, scale = self._batch.sample(self._family.kernels, max_n, key)
        if batch is self._batch:
            return self, scale
        return self._executor.load(self._family, batch), scale

    def novel(self, max_n: int, key: int) -> tuple[Rows, Array | None]:
        """Return at most `max_n` random rows without a cluster, and their weights."""
        picked = sample_rows(self._family.kernels, key, self.novel_places(), max_n)
        weight = self._batch.weight
        return self._batch.rows[picked], None if weight is None else weight[picked]

    def novel_places(self) -> Labels:
        """Return the positions of the rows without a cluster."""
        return np.flatnonzero(self._label == NOVEL)

    def labels(self, label_ids: Labels) -> tuple[Labels, int]:
        """Return the id of every row, and the number of rows without a cluster."""
        # Rows without a cluster have index -2 or -1: the last two entries.
        ids = np.append(label_ids, [NOVEL, NOVEL])[2 * self._label + self._side]
        return ids, int(np.count_nonzero(ids < 0))


class CompiledRows(LocalRows):
    """Rows that compiled code assigns."""

    @cached_property
    def _subtrees(self) -> Labels:
        """Number of slices of every subtree."""
        sizes = [len(slices) for slices in self._row_range.subtrees()]
        return np.array(sizes, dtype=np.int64)

    def sums(self, params: AssignmentParams) -> Array:  # (subtrees, ...)
        """Assign every row; return the packed `AssignmentStats` of the subtrees of the range."""
        compiled = self._family.compiled
        with self._family.kernels.threads(self._executor.n_threads):
            self._label, self._side, sums = compiled.assign(
                self._batch.rows,
                self._batch.weight,
                params.clusters,
                params.subclusters,
                params.log_weight,
                params.log_subweight,
                params.prior,
                params.pairs,
                params.unions,
                params.log_new,
                params.key,
                params.predictive,
                params.report_map,
                params.collect_evidence,
                params.single,
                self._row_range.rows.start,
                self._row_range.length,
                self._subtrees,
                params.map_labels,
                params.screen,
                params.n_candidates,
                params.typical,
            )
        return np.asarray(sums)

    def near(self, params: AssignmentParams, phase: int) -> Array:  # (K + 2,)
        """Return `near_clusters` of all rows."""
        return np.asarray(
            self._family.compiled.near(
                self._batch.rows,
                params.clusters,
                params.log_weight,
                params.screen,
                params.n_candidates,
                self._row_range.rows.start,
                AUDITED,
                phase,
                params.prior,
                params.log_new,
            )
        )


class NumpyRows(LocalRows):
    """Rows that the reference, `assign_block`, assigns slice by slice."""

    def sums(self, params: AssignmentParams) -> Array:  # (subtrees, ...)
        """Assign every row; return the packed `AssignmentStats` of the subtrees of the range."""
        first = self._row_range.first
        slices = range(first, self._row_range.stop)
        found = self._executor.map(lambda at: self._choices(params, at), slices)
        self._label = np.concatenate([choices.label for choices in found])
        self._side = np.concatenate([choices.side for choices in found])
        return np.stack(
            [
                add_up((range(at, at + 1), found[at - first].stats.packed()) for at in tree)
                for tree in self._row_range.subtrees()
            ]
        )

    def near(self, params: AssignmentParams, phase: int) -> Array:  # (K + 2,)
        """Return `near_clusters` of all rows."""
        start = self._row_range.rows.start
        return near_clusters(self._family, params, self._batch.rows, start, phase)

    def _choices(self, params: AssignmentParams, at: int) -> Choices:
        start, length = self._row_range.rows.start, self._row_range.length
        inside = slice(at * length - start, (at + 1) * length - start)
        weight = None if self._batch.weight is None else self._batch.weight[inside]
        return assign_block(self._family, params, self._batch.rows[inside], weight, at * length)


class RemoteRows:
    """Rows on other machines; like an array they have a shape and can be indexed.

    Not an abstract base class: `isinstance` would be slower, and is asked for every single row.
    """

    shape: tuple[int, int]
    feature_names: tuple[str, ...] | None
    is_sparse: bool

    def __getitem__(self, places: Labels) -> Rows:
        """Return the rows at some positions, in this process."""
        raise NotImplementedError

    def gathered(self) -> Rows:
        """Return all rows, in this process."""
        raise NotImplementedError

    def each(self, function: Callable[[Rows], Any]) -> None:
        """Apply a check that may raise to all rows, on the machines that hold them."""
        raise NotImplementedError


def check_rows(rows: Rows, check: Callable[..., None], **options: Any) -> None:
    """Check rows where they are: in this process, or on the nodes of a cluster."""
    if isinstance(rows, RemoteRows):
        rows.each(partial(check, **options))
    else:
        check(rows, **options)
