"""Passes over the rows of a batch on the threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from threadpoolctl import ThreadpoolController

from scstream.compute.compiled import CompiledRows
from scstream.core.assign import BlockResult, LoadedRows, Plan, Tally, assign_block, combine
from scstream.core.rng import sample_rows
from scstream.core.state import NOVEL, Batch
from scstream.families.base import Array, Family, Labels, Rows

_BLOCK = 4096  # rows; never a function of the number of threads, so that sums do not depend on it

T = TypeVar("T")


class _OneBlasThread:
    """Limit BLAS to one thread while anybody in this process is inside; then put it back.

    Sums of a matrix product depend in their last bits on how many threads share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: list[int] = []

    @cached_property
    def _libraries(self) -> list[Any]:
        found = ThreadpoolController().lib_controllers
        return [library for library in found if library.user_api == "blas"]

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [library.num_threads for library in self._libraries]
                self._set([1] * len(self._before))
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._set(self._before)

    def _set(self, n_threads: list[int]) -> None:
        for library, n in zip(self._libraries, n_threads, strict=True):
            library.set_num_threads(n)


one_blas_thread = _OneBlasThread()


@dataclass
class ThreadExecutor:
    """Blocks of rows on a pool of threads; the reference that other executors must equal.

    Parameters
    ----------
    n_threads : int
        Threads to use; one by default.
    """

    n_threads: int = 1

    def load(self, family: Family, batch: Batch) -> LoadedRows:
        """Take the rows of a batch in."""
        if family.kernel is not None:
            return CompiledRows(family.kernel, batch, self.n_threads)
        starts = range(0, batch.n_rows, _BLOCK)
        blocks = [
            _Block(
                batch.rows[start : start + _BLOCK],
                None if batch.weight is None else batch.weight[start : start + _BLOCK],
                start,
            )
            for start in starts
        ]
        return ThreadRows(self, family, batch, blocks)

    def map(self, function: Callable[[_Block], T], blocks: Sequence[_Block]) -> list[T]:
        """Apply a function to blocks, each on one thread of BLAS, results in block order."""
        with one_blas_thread:
            if self.n_threads == 1 or len(blocks) == 1:
                return [function(block) for block in blocks]
            with ThreadPoolExecutor(self.n_threads) as pool:
                return list(pool.map(function, blocks))


@dataclass(frozen=True)
class _Block:
    rows: Rows
    weight: Array | None
    start: int


class ThreadRows:
    """The rows of one batch in blocks, with the choices they made last."""

    def __init__(
        self, executor: ThreadExecutor, family: Family, batch: Batch, blocks: list[_Block]
    ) -> None:
        self._executor = executor
        self._family = family
        self._batch = batch
        self._blocks = blocks
        self._choices: list[BlockResult] = []

    def sample(self, most: int, key: int) -> tuple[LoadedRows, float]:
        """Return at most so many of the rows, at random, and how many each of them stands for."""
        batch, share = self._batch.sample(most, key)
        return self._executor.load(self._family, batch), share

    def assign(self, plan: Plan) -> Tally:
        """Let every row choose; remember the choices."""

        def run(block: _Block) -> BlockResult:
            return assign_block(self._family, plan, block.rows, block.weight, block.start)

        self._choices = self._executor.map(run, self._blocks)
        return combine([choice.tally for choice in self._choices])

    def novel(self, most: int, key: int) -> tuple[Rows, Array | None]:
        """Return rows that chose no cluster, a random `most` of them, with their weights."""
        label = np.concatenate([choice.label for choice in self._choices])
        picked = sample_rows(key, np.flatnonzero(label == NOVEL), most)
        parts: list[Rows] = []
        weights: list[Array] = []
        for block in self._blocks:
            inside = picked - block.start
            inside = inside[(inside >= 0) & (inside < block.rows.shape[0])]
            parts.append(block.rows[inside])
            if block.weight is not None:
                weights.append(block.weight[inside])
        return _stack(parts), np.concatenate(weights) if weights else None

    def labels(self, names: Labels) -> Labels:
        """Return the ids of the rows by the names (K, 2) of the halves they chose."""
        named = []
        for choice in self._choices:
            ids = names[choice.label, choice.side]
            named.append(np.where(choice.label == NOVEL, NOVEL, ids))
        return np.concatenate(named)


def _stack(parts: list[Rows]) -> Rows:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return sparse.vstack(parts, format="csr")
