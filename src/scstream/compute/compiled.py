"""Passes over the rows of a batch by the compiled kernels (see `scstream.native`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from scstream.core.assign import Plan, Tally
from scstream.core.rng import sample_rows
from scstream.core.state import NOVEL, Batch
from scstream.families.base import Array, Labels, Rows
from scstream.native import threads


class CompiledRows:
    """The rows of one batch, with the choices they made last.

    The kernels cut the rows into slices and add their tallies in a tree, both fixed by the number
    of rows alone: the threads change nothing.
    """

    def __init__(self, kernel: Any, batch: Batch, n_threads: int) -> None:
        self._kernel = kernel
        self._batch = batch
        self._n_threads = n_threads
        self._label: Labels = np.zeros(0, dtype=np.int64)
        self._side = np.zeros(0, dtype=np.int8)

    def sample(self, most: int, key: int) -> tuple[CompiledRows, float]:
        """Return at most so many of the rows, at random, and how many each of them stands for."""
        batch, share = self._batch.sample(most, key)
        return CompiledRows(self._kernel, batch, self._n_threads), share

    def assign(self, plan: Plan) -> Tally:
        """Let every row choose; remember the choices."""
        with threads(self._n_threads):
            self._label, self._side, sums = self._kernel.assign(
                self._batch.rows,
                self._batch.weight,
                plan.whole,
                plan.halves,
                plan.log_weight,
                plan.log_half,
                plan.prior,
                plan.pairs,
                plan.unions,
                plan.log_new,
                plan.key,
                plan.predictive,
                plan.settle,
                plan.listen,
                plan.single,
                0,
            )
        return _tally(sums, len(plan.whole), len(plan.pairs))

    def novel(self, most: int, key: int) -> tuple[Rows, Array | None]:
        """Return rows that chose no cluster, a random `most` of them, with their weights."""
        picked = sample_rows(key, np.flatnonzero(self._label == NOVEL), most)
        weight = self._batch.weight
        return self._batch.rows[picked], None if weight is None else weight[picked]

    def labels(self, names: Labels) -> Labels:
        """Return the ids of the rows by the names (K, 2) of the halves they chose."""
        # A novel row stands at -2 or -1: behind all names.
        return np.asarray(np.append(names, [NOVEL, NOVEL])[2 * self._label + self._side])


def _tally(sums: Array, n_clusters: int, n_pairs: int) -> Tally:
    """Cut the sums of the kernels: statistics, evidence for splits and for merges, two numbers."""
    merge = len(sums) - 2 - n_pairs
    split = merge - n_clusters
    return Tally(
        stats=sums[:split].reshape(n_clusters, 2, split // max(2 * n_clusters, 1)),
        novel_weight=float(sums[-2]),
        log_density=float(sums[-1]),
        split_evidence=sums[split:merge],
        merge_evidence=sums[merge:-2],
    )
