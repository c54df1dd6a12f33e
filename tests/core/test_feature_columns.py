"""Clusters over fewer or more columns: statistics, priors and predictives stay consistent."""

import numpy as np
import pytest

from scstream.core.feature_columns import ADDED, change_columns, convert, marginal
from scstream.core.state import State
from scstream.errors import InputError
from scstream.families import FAMILIES, Diagonal, Family, Poisson, Product
from scstream.families.base import Array

KINDS = ("gaussian", "diagonal", "bernoulli", "poisson", "categorical", "product")
PARTS = [("gaussian", [0, 2]), ("poisson", [1]), ("diagonal", [3])]
RNG = np.random.default_rng(3)
GROUP = np.arange(60) % 3


def rows(kind: str) -> Array:
    X = RNG.normal(size=(60, 4)) * [1.0, 2.0, 0.5, 3.0] + 4.0 * GROUP[:, None] + [0, 9, 0, -5]
    X[:, 1] += X[:, 0]  # a correlation
    if kind == "bernoulli":
        return (X.mean(axis=0) < X).astype(float)
    if kind in ("poisson", "categorical"):
        return np.asarray(np.round(np.abs(X)) % 7)
    if kind == "product":
        X[:, 1] = np.round(np.abs(X[:, 1]))
    return X


def family_of(kind: str, X: Array) -> Family:
    if kind == "product":
        return Product.from_spec(X, PARTS)
    return FAMILIES[kind].weak_prior(X)


@pytest.mark.parametrize("columns", [[0, 2, 3], [3, 1], [2]], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_dropped_columns_leave_the_statistics_of_the_others(kind: str, columns: list[int]) -> None:
    X = rows(kind)
    family = family_of(kind, X)
    stats = family.stats(X, GROUP, 3)
    found = marginal(family, np.array(columns))
    less = stats[:, found.selection]
    np.testing.assert_allclose(less, found.family.stats(X[:, columns], GROUP, 3), atol=1e-9)
    np.testing.assert_allclose(found.family.means(less), family.means(stats)[:, columns])
    np.testing.assert_allclose(found.family.stds(less), family.stds(stats)[:, columns])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_an_added_column_are_as_probable_as_before(kind: str) -> None:
    X = rows(kind)
    family = family_of(kind, X)
    stats = family.stats(X, GROUP, 3)
    columns = np.array([3, ADDED, 0, 1, 2])
    weak = Diagonal.weak_prior(100.0 + 5.0 * RNG.normal(size=(50, 1)))
    found = convert(family, columns, [(weak, (1,))])
    padded = np.column_stack([stats, np.zeros(3)])
    more = padded[:, found.selection]
    assert more.shape == (3, found.family.n_stats)
    wide = np.column_stack([X[:, 3], np.full(60, np.nan), X[:, :3]])
    np.testing.assert_allclose(more, found.family.stats(wide, GROUP, 3), atol=1e-9)
    before = family.log_predictive(family.predictive_params(stats), X)
    after = found.family.log_predictive(found.family.predictive_params(more), wide)
    np.testing.assert_allclose(after, before, rtol=1e-9)
    np.testing.assert_allclose(found.family.means(more)[:, 1], weak.mean[0])


def test_independent_numbers_stay_one_family_that_can_move() -> None:
    X = rows("diagonal")
    added = [(Diagonal.weak_prior(X[:, :1]), (4,))]
    found = convert(Diagonal.weak_prior(X), np.array([0, 1, 2, 3, ADDED]), added)
    assert isinstance(found.family, Diagonal)
    assert found.family.n_features == 5


@pytest.mark.parametrize("kind", ["multinomial", "direction", "subspace"])
def test_a_family_of_whole_rows_is_refused(kind: str) -> None:
    X = np.abs(RNG.normal(size=(60, 4))).round(2 if kind != "multinomial" else 0) + 1
    with pytest.raises(InputError, match=f"the {kind} family describes all columns together"):
        marginal(FAMILIES[kind].weak_prior(X), np.array([0, 1]))


def test_ids_stay_and_velocities_follow_their_columns() -> None:
    X = rows("gaussian")
    family = family_of("gaussian", X)
    current = np.stack([family.stats(X, GROUP, 3)] * 2, axis=1)
    zero = np.zeros(3)
    state = State.empty(family).replace(
        past=np.zeros_like(current), fade=zero + 1, current=current, ids=np.array([2, 5, 9]),
        velocity=RNG.normal(size=(3, 4)), split_evidence=zero + 7, next_id=10,
    )  # fmt: skip
    added = [(Poisson(shape=1.0, rate=1.0), (1,))]
    new, after = change_columns(family, state, np.array([3, ADDED, 0]), added)
    assert after.ids.tolist() == [2, 5, 9]
    np.testing.assert_array_equal(after.velocity[:, [0, 2]], state.velocity[:, [3, 0]])
    np.testing.assert_array_equal(after.velocity[:, 1], zero)
    np.testing.assert_array_equal(after.weight, state.weight)
    assert not after.split_evidence.any()
    assert after.cluster_stats.shape == (3, new.n_stats)
