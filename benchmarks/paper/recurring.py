"""Recurring drift from labelled rows that have no order of their own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


class Recurrence(NamedTuple):
    """An order of rows, and the classes that may appear in each phase."""

    rows: IntArray  # (n_batches * batch,)
    active: IntArray  # (n_phases, n_active)


def recurring_order(
    y: npt.NDArray[np.integer],
    *,
    seed: int,
    n_active: int = 20,
    swap: int = 10,
    phase: int = 2,
    batch: int = 1000,
) -> Recurrence:
    """Let classes come, rest and return until there are too few rows left.

    - In each phase of `phase` batches `n_active` classes are active, with weights drawn from
      Dirichlet(10, ..., 10). The first ones are drawn uniformly.
    - At a change of phase `swap` of them, drawn uniformly, and those with no rows left make room
      for as many classes that were not active and have rows left, drawn uniformly.
    - Each row of a batch: a class by weight among the active ones with rows left, then one of its
      rows, uniformly; no row comes twice.
    - The stream ends when too few classes are left for a phase, or too few rows for a batch.

    A class of 500 rows comes about three times if a phase has 2 batches; in phases of 5 its rows
    would be used up before it could return.
    """
    rng = np.random.default_rng(seed)
    stock = [rng.permutation(np.flatnonzero(y == c)) for c in range(int(y.max()) + 1)]
    left = np.array([len(rows) for rows in stock])
    active = rng.choice(len(stock), n_active, replace=False)
    rows: list[IntArray] = []
    phases = []
    while True:
        weights = rng.dirichlet(np.full(n_active, 10.0))
        phases.append(active)
        for _ in range(phase):
            if left[active].sum() < batch:
                return Recurrence(np.concatenate(rows), np.array(phases))
            counts = _counts(rng, weights, left[active], batch)
            taken = [stock[c][left[c] - n : left[c]] for c, n in zip(active, counts, strict=True)]
            left[active] -= counts
            rows.append(rng.permutation(np.concatenate(taken)))
        staying = rng.permutation(active)[swap:]
        staying = staying[left[staying] > 0]
        fresh = np.setdiff1d(np.flatnonzero(left), active)
        if len(fresh) < n_active - len(staying):
            return Recurrence(np.concatenate(rows), np.array(phases))
        active = np.append(staying, rng.choice(fresh, n_active - len(staying), replace=False))


def _counts(
    rng: np.random.Generator, weights: npt.NDArray[np.float64], left: IntArray, n_rows: int
) -> IntArray:
    """Rows of each class in a batch: what a class lacks is drawn from the others."""
    counts = np.zeros(len(weights), dtype=np.int64)
    while (lacking := n_rows - counts.sum()) > 0:
        share = weights * (counts < left)
        counts = np.minimum(counts + rng.multinomial(lacking, share / share.sum()), left)
    return counts
