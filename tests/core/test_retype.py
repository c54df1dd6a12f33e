"""Statistics of columns that change their type are those of the same rows."""

import numpy as np
import pytest

from scstream.core.adapt import map_stats
from scstream.core.retype import known_entries, retyped
from scstream.core.state import State
from scstream.families import Bernoulli, Diagonal, Gaussian, Product
from scstream.families.base import Family

RNG = np.random.default_rng(0)
ROWS = np.c_[RNG.normal(size=(40, 3)), RNG.integers(2, size=(40, 3))]
GROUP = RNG.integers(4, size=40)


def state_of(family: Family) -> State:
    """A state whose layers are the statistics of the same rows."""
    stats = family.stats(ROWS[:, : family.n_features], GROUP, 4)
    layer = np.stack([stats, 2.0 * stats], axis=1)  # (K, 2, P)
    return map_stats(State.empty(family), lambda _: layer)


MIXED = Product(
    parts=(
        (Bernoulli(a=np.ones(2), b=np.ones(2)), (3, 5)),
        (Gaussian(mean=np.zeros(3), kappa=1.0, nu=5.0, psi=np.eye(3)), (0, 1, 2)),
        (Bernoulli(a=np.ones(1), b=np.ones(1)), (4,)),
    )
)
OTHERS = {
    "third value": (5, 2.5),
    "of its only column": (4, -1.0),
    "missing": (1, np.nan),
}


@pytest.mark.parametrize("case", OTHERS)
def test_statistics_are_those_of_the_same_rows(case: str) -> None:
    column, value = OTHERS[case]
    later = ROWS.copy()
    later[7, column] = value
    family, state = retyped(MIXED, state_of(MIXED), later)
    family.check(later)
    expected = family.stats(ROWS, GROUP, 4)
    assert np.allclose(state.past[:, 0], expected, atol=1e-12)
    assert np.allclose(state.past[:, 1], 2.0 * expected, atol=1e-12)
    assert sorted(c for _, columns in family.parts for c in columns) == list(range(6))  # type: ignore[attr-defined]


def test_a_full_covariance_alone_becomes_a_diagonal_one() -> None:
    full = Gaussian(mean=np.ones(3), kappa=2.0, nu=9.0, psi=np.diag([1.0, 2.0, 3.0]))
    later = ROWS[:, :3].copy()
    later[0, 0] = np.nan
    family, state = retyped(full, state_of(full), later)
    assert isinstance(family, Diagonal)
    assert np.allclose(state.past[:, 0], family.stats(ROWS[:, :3], GROUP, 4), atol=1e-12)
    # The marginal likelihood of one column does not change.
    one = Gaussian(mean=[1.0], kappa=2.0, nu=7.0, psi=[[9.0 * 2.0 / 7.0]])
    column = ROWS[:, 1:2]
    stats = family.stats(np.c_[np.full(40, np.nan), column, np.full(40, np.nan)], GROUP, 4)
    assert np.allclose(family.log_marginal(stats), one.log_marginal(one.stats(column, GROUP, 4)))


def test_rows_that_fit_change_nothing() -> None:
    state = state_of(MIXED)
    family, same = retyped(MIXED, state, ROWS)
    assert family is MIXED
    assert same is state


def test_values_that_a_binary_column_cannot_have_are_missing() -> None:
    later = ROWS.copy()
    later[3, 4] = 9.0
    known = known_entries(MIXED, later)
    assert np.isnan(known[3, 4])
    assert np.isnan(known).sum() == 1
    assert later[3, 4] == 9.0
    assert known_entries(MIXED, ROWS) is ROWS
