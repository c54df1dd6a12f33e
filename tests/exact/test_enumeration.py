"""`algorithm="exact"` against the enumeration of all 203 partitions of six rows.

Invariance: labellings are drawn independently from the enumerated posterior, a move of the
production code is applied once, and a chi-square test asks whether they still follow the posterior.
Nothing has to mix and no two labellings are correlated. Convergence: chains from one cluster and
from single rows must follow the posterior too.

False alarms: there are 17 p-values with the bar at .01; seeds are pinned and are the first ones
tried. Errors that are planted must give p < 1e-6. `pytest -rP` prints the p-values.
"""

from __future__ import annotations

import numpy as np
import pytest

from scstream.core import exact, exact_moves
from tests.exact import planted
from tests.exact.chains import (
    BAR,
    KERNELS,
    TINY,
    compiled_only,
    exact_partitions,
    moved,
    p_value,
    table_of,
)
from tests.statistics.exact import PROBLEMS

pytestmark = pytest.mark.statistics

MOVES = {
    "gibbs": exact.gibbs_sweep,
    "split and merge": exact_moves.split_and_merge,
    "single rows": exact_moves.move_single_rows,
}


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch):
    """Two splits or merges in a sweep are enough for six rows."""
    monkeypatch.setattr(exact_moves, "_N_PAIRS", 2)


def p_after(name, move, *, kernels="compiled", n_worlds=2_500, n_steps=1):
    problem = PROBLEMS[name]()
    family = problem.family.with_kernels(KERNELS[kernels])
    table = table_of(family, problem.alpha, problem.X)
    start = exact_partitions(problem, n_worlds)
    return p_value(problem, moved(move, table, start, n_steps=n_steps))


@compiled_only
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_move_leaves_the_posterior_invariant(name, move):
    assert p_after(name, MOVES[move]) > BAR


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("name", ["line", "counts"])
def test_a_move_with_numpy_kernels_leaves_the_posterior_invariant(name, move):
    assert p_after(name, MOVES[move], kernels="numpy", n_worlds=250) > BAR


@compiled_only
@pytest.mark.parametrize("name", ["line", "counts"])
def test_chains_from_far_away_reach_the_posterior(name):
    problem = PROBLEMS[name]()
    table = table_of(problem.family, problem.alpha, problem.X)
    n_rows = problem.n_rows
    start = np.array([np.zeros(n_rows), np.arange(n_rows)] * 300, dtype=np.int64)
    assert p_value(problem, moved(exact.advance, table, start, n_steps=8)) > BAR
    assert p_value(problem, start) < TINY  # without steps


@compiled_only
@pytest.mark.parametrize("error", planted.ERRORS)
def test_a_planted_error_is_found(error, monkeypatch):
    case = planted.ERRORS[error]
    case.plant(monkeypatch)
    p = p_after(case.problem, case.move, n_worlds=case.n_worlds, n_steps=case.n_steps)
    assert p < TINY, f"{error}: survived with p = {p:.2g}"
