"""Rows of a batch in this process, and passes over them: compiled, or in numpy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.core.assign import (
    AssignmentParams,
    AssignmentStats,
    Choices,
    Executor,
    LoadedRows,
    assign_block,
)
from scstream.core.rng import sample_rows
from scstream.core.row_ranges import RowRange, add_row_ranges, add_up
from scstream.core.state import NOVEL, Batch
from scstream.families.base import Array, Family, Labels, Rows
from scstream.native import threads

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
    """An executor that lends its threads."""

    def map(self, function: Callable[[S], T], tasks: Sequence[S]) -> list[T]:
        """Apply a function to tasks, results in their order."""


class LocalRows(ABC):
    """Rows of a stretch of a batch, with the choices they made last."""

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
    def sums(self, plan: AssignmentParams) -> Array:  # (subtrees, ...)
        """Let every row choose; return the packed tallies of the subtrees of the stretch."""

    def assign(self, plan: AssignmentParams) -> AssignmentStats:
        """Let every row choose; remember the choices."""
        sums = add_row_ranges([self._row_range], [self.sums(plan)])
        return AssignmentStats.unpacked(sums, len(plan.clusters), len(plan.pairs))

    def sample(self, max_n: int, key: int) -> tuple[LoadedRows, float]:
        """Return at most so many of the rows, at random, and how many each of them stands for."""
        batch, share = self._batch.sample(max_n, key)
        return self._executor.load(self._family, batch), share

    def novel(self, max_n: int, key: int) -> tuple[Rows, Array | None]:
        """Return rows that chose no cluster, a random `max_n` of them, with their weights."""
        picked = sample_rows(key, self.novel_places(), max_n)
        weight = self._batch.weight
        return self._batch.rows[picked], None if weight is None else weight[picked]

    def novel_places(self) -> Labels:
        """Return where the rows are that chose no cluster."""
        return np.flatnonzero(self._label == NOVEL)

    def labels(self, names: Labels) -> tuple[Labels, int]:
        """Return the ids of the rows by the names (K, 2) of the halves they chose."""
        # A novel row stands at -2 or -1: behind all names.
        ids = np.append(names, [NOVEL, NOVEL])[2 * self._label + self._side]
        return ids, int(np.count_nonzero(ids < 0))


class CompiledRows(LocalRows):
    """Rows that the compiled kernels pass over (see `scstream.native`)."""

    def sums(self, plan: AssignmentParams) -> Array:  # (subtrees, ...)
        """Let every row choose; return the packed tallies of the subtrees of the stretch."""
        kernel: Any = self._family.kernel
        with threads(self._executor.n_threads):
            self._label, self._side, sums = kernel.assign(
                self._batch.rows,
                self._batch.weight,
                plan.clusters,
                plan.subclusters,
                plan.log_weight,
                plan.log_subweight,
                plan.prior,
                plan.pairs,
                plan.unions,
                plan.log_new,
                plan.key,
                plan.predictive,
                plan.report_map,
                plan.collect_evidence,
                plan.single,
                self._row_range.rows.start,
                self._row_range.length,
                np.array([len(slices) for slices in self._row_range.subtrees()], dtype=np.int64),
            )
        return np.asarray(sums)


class NumpyRows(LocalRows):
    """Rows that pass slice by slice through the reference, `assign_block`."""

    def sums(self, plan: AssignmentParams) -> Array:  # (subtrees, ...)
        """Let every row choose; return the packed tallies of the subtrees of the stretch."""
        first = self._row_range.first
        slices = range(first, self._row_range.stop)
        found = self._executor.map(lambda at: self._choices(plan, at), slices)
        self._label = np.concatenate([choices.label for choices in found])
        self._side = np.concatenate([choices.side for choices in found])
        return np.stack(
            [
                add_up((range(at, at + 1), found[at - first].stats.packed()) for at in tree)
                for tree in self._row_range.subtrees()
            ]
        )

    def _choices(self, plan: AssignmentParams, at: int) -> Choices:
        start, length = self._row_range.rows.start, self._row_range.length
        inside = slice(at * length - start, (at + 1) * length - start)
        weight = None if self._batch.weight is None else self._batch.weight[inside]
        return assign_block(self._family, plan, self._batch.rows[inside], weight, at * length)


class RemoteRows(ABC):
    """Rows that are somewhere else; of an array they have the shape and the choice of rows."""

    shape: tuple[int, int]
    names: tuple[str, ...] | None  # of the columns, where they have any
    is_sparse: bool

    @abstractmethod
    def __getitem__(self, places: Labels) -> Rows:
        """Return the rows at some places, here."""

    @abstractmethod
    def gathered(self) -> Rows:
        """Return all rows, here."""

    @abstractmethod
    def each(self, function: Callable[[Rows], Any]) -> None:
        """Apply a function that may refuse them to all rows, some at a time, where they are."""
