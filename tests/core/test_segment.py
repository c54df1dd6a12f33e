"""Groups from nothing: cells cover the rows, and agglomeration only makes unions that pay."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from scstream.core.config import Config
from scstream.core.ratios import nearest_pairs
from scstream.core.segment import agglomerate, seed_cells, segment
from scstream.kernels import REFERENCE
from scstream.metrics import adjusted_rand
from tests.core.states import FAMILIES, rows_for

every_family = pytest.mark.parametrize("name", FAMILIES)


def grouped_rows(name, n_groups=5, n=40, seed=4):
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_groups), n)
    if name == "multinomial":
        shares = 0.94 * np.eye(n_groups)[:, :4] + 0.015
        rows = [rng.multinomial(30, s / s.sum(), size=n) for s in shares]
        return np.concatenate(rows).astype(float), truth
    centres = 20.0 * np.column_stack([np.arange(n_groups), np.arange(n_groups) % 2])
    return centres[truth] + rng.normal(size=(len(truth), 2)), truth


@pytest.mark.parametrize("n_cells", [1, 7, 50, 400])
def test_cells_are_numbered_consecutively_and_not_empty(n_cells):
    points = np.random.default_rng(0).normal(size=(200, 3))
    cell = seed_cells(REFERENCE, points, np.ones(200), n_cells=n_cells, key=5)
    assert cell.shape == (200,)
    assert (np.bincount(cell) > 0).all()
    assert cell.max() < n_cells


def test_points_that_coincide_share_a_cell():
    points = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 7.0]]), 20, axis=0)
    cell = seed_cells(REFERENCE, points, np.ones(60), n_cells=30, key=1)
    assert len(np.unique(cell)) == 3
    assert (cell.reshape(3, 20) == cell.reshape(3, 20)[:, :1]).all()


def test_rows_with_zero_weight_do_not_start_a_cell():
    points = np.array([[0.0], [0.1], [50.0]])
    cell = seed_cells(REFERENCE, points, np.array([1.0, 1.0, 0.0]), n_cells=1, key=2)
    assert cell.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["gaussian", "diagonal", "multinomial"])
def test_separate_groups_are_found(name):
    n_groups = 4 if name == "multinomial" else 5
    rows, truth = grouped_rows(name, n_groups)
    group = segment(FAMILIES[name], Config(), rows, None, n_cells=40, key=3)
    assert adjusted_rand(truth, group) == pytest.approx(1.0)


@every_family
def test_agglomeration_merges_complete_groups_and_raises_the_posterior(name):
    """The result is a coarser partition whose posterior is no lower than that of the start."""
    family, alpha = FAMILIES[name], 1.0
    rng = np.random.default_rng(0)
    stats = np.concatenate(
        [family.stats(rows_for(name, 6, rng), np.zeros(6, dtype=int), 1) for _ in range(12)]
    )

    def log_joint(s):
        return len(s) * np.log(alpha) + (gammaln(s[:, 0]) + family.log_marginal(s)).sum()

    member = agglomerate(family, alpha, stats)
    assert set(member) == set(range(member.max() + 1))
    pooled = np.zeros((member.max() + 1, stats.shape[1]))
    np.add.at(pooled, member, stats)
    assert log_joint(pooled) >= log_joint(stats)


def test_one_group_stays_one_group():
    family = FAMILIES["gaussian"]
    rows = np.random.default_rng(0).normal(size=(30, 2))
    stats = family.stats(rows, np.zeros(30, dtype=int), 1)
    assert agglomerate(family, 1.0, stats).tolist() == [0]


@every_family
@pytest.mark.parametrize("n_neighbours", [1, 3, 99])
def test_nearest_pairs_are_distinct_and_closest(name, n_neighbours):
    family = FAMILIES[name]
    rng = np.random.default_rng(2)
    stats = np.concatenate(
        [family.stats(rows_for(name, 6, rng), np.zeros(6, dtype=int), 1) for _ in range(9)]
    )
    first, second = nearest_pairs(family, stats, n_neighbours)
    assert (first < second).all()
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == len(first)
    points = family.coordinates_of(stats)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    found = set(zip(first.tolist(), second.tolist(), strict=True))
    for i, j in enumerate(distance.argmin(axis=1).tolist()):
        assert (min(i, j), max(i, j)) in found
    if n_neighbours == 99:
        assert len(found) == 9 * 8 // 2
