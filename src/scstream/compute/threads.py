"""Passes over the rows of a batch on the threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from scstream.core.assign import BlockResult, Plan, Tally, assign_block, combine
from scstream.core.state import NOVEL, Batch
from scstream.families.base import Array, Family, Labels, Rows

_BLOCK = 4096  # rows; never a function of the number of threads, so that sums do not depend on it

T = TypeVar("T")


@dataclass
class ThreadExecutor:
    """Blocks of rows on a pool of threads; the reference that other executors must equal.

    Parameters
    ----------
    n_threads : int
        Threads to use; one by default.
    """

    n_threads: int = 1
    _blas: ThreadpoolController = field(default_factory=ThreadpoolController, init=False)

    def load(self, family: Family, batch: Batch) -> ThreadRows:
        """Take the rows of a batch in."""
        starts = range(0, batch.n_rows, _BLOCK)
        blocks = [
            _Block(
                batch.rows[start : start + _BLOCK],
                None if batch.weight is None else batch.weight[start : start + _BLOCK],
                start,
            )
            for start in starts
        ]
        return ThreadRows(self, family, blocks)

    def map(self, function: Callable[[_Block], T], blocks: Sequence[_Block]) -> list[T]:
        """Apply a function to blocks, each on one thread of BLAS, results in block order."""
        with self._blas.limit(limits=1, user_api="blas"):
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

    def __init__(self, executor: ThreadExecutor, family: Family, blocks: list[_Block]) -> None:
        self._executor = executor
        self._family = family
        self._blocks = blocks
        self._choices: list[BlockResult] = []

    def assign(self, plan: Plan) -> Tally:
        """Let every row choose; remember the choices."""

        def run(block: _Block) -> BlockResult:
            return assign_block(self._family, plan, block.rows, block.weight, block.start)

        self._choices = self._executor.map(run, self._blocks)
        return combine([choice.tally for choice in self._choices])

    def novel(self, most: int) -> tuple[Rows, Array | None]:
        """Return the first rows (at most this many) that chose no cluster, with their weights."""
        found = []
        for block, choice in zip(self._blocks, self._choices, strict=True):
            found.append((block, np.flatnonzero(choice.label == NOVEL)[:most]))
            most -= len(found[-1][1])
        rows = _stack([block.rows[index] for block, index in found])
        if self._blocks[0].weight is None:
            return rows, None
        weights = [block.weight[index] for block, index in found if block.weight is not None]
        return rows, np.concatenate(weights)

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
    from scipy import sparse

    return sparse.vstack(parts, format="csr")
