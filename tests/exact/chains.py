"""Partitions of a few rows moved by the production code, each in a chain of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from scstream.compute.threads import ThreadExecutor
from scstream.core.config import Config
from scstream.core.partition import Partition, Table
from scstream.core.state import Batch
from scstream.families.base import Family
from scstream.kernels import REFERENCE, choose_kernels, kernels_in_use
from tests.statistics.exact import Problem, canonical, chi_square

KERNELS = {"compiled": choose_kernels(), "numpy": REFERENCE}
BAR = 0.01  # least p-value of a right sampler, at pinned seeds
TINY = 1e-6  # largest p-value of a wrong one

compiled_only = pytest.mark.skipif(
    kernels_in_use() == "numpy",
    reason="takes ten times as long on numpy kernels, on which the moves have tests of their own",
)
Move = Callable[[Table, Partition, int], Partition]


def table_of(family: Family, alpha: float, X: np.ndarray, *, seed: int = 0) -> Table:
    config = Config(algorithm="exact", alpha=alpha, seed=seed)
    return Table.of(family, config, Batch(X, 0.0), ThreadExecutor())


def moved(move: Move, table: Table, start: np.ndarray, *, n_steps: int = 1) -> np.ndarray:
    """Labels (W, n) after some steps from `start`; every step has random numbers of its own."""
    out = np.empty_like(start)
    for w, labels in enumerate(start):
        partition = Partition.of(table, labels)
        for step in range(n_steps):
            partition = move(table, partition, w * n_steps + step)
        out[w] = partition.labels
    return out


def exact_partitions(problem: Problem, n: int) -> np.ndarray:  # (W, n)
    """Independent draws from the enumerated posterior."""
    probability = np.exp(problem.log_probability)
    rng = np.random.default_rng(0)
    return problem.partitions[rng.choice(len(probability), n, p=probability)]


def p_value(problem: Problem, labels: np.ndarray) -> float:
    """P-value of labellings that should follow the posterior."""
    p = chi_square(canonical(labels), problem.partitions, np.exp(problem.log_probability))
    print(f"p = {p:.3g}")
    return p
