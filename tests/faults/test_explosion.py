"""Rows made to found clusters without end: their number and the memory stay bounded."""

from __future__ import annotations

import numpy as np
import pytest

from tests.faults.attack import HALF_LIFE, N_CALM, siege

MOST = 60


@pytest.fixture(scope="module")
def bounded():
    return siege(max_clusters=MOST)


def test_the_number_of_clusters_is_bounded(bounded):
    assert bounded.n_clusters.max() <= MOST


def test_the_attack_exceeds_the_bound_if_it_is_removed():
    assert siege(max_clusters=1000, n_attack=40).n_clusters.max() > MOST


def test_memory_is_bounded(bounded):
    assert bounded.memory.max() - bounded.memory[N_CALM] < 32.0


def test_labels_recover_within_two_half_lives(bounded):
    before, after = bounded.agreement[5:N_CALM], bounded.agreement[-HALF_LIFE:]
    assert np.median(after) >= np.median(before) - 0.02


def test_births_of_a_batch_are_bounded(bounded):
    """By births, and again by every sweep that splits, at most max(32, K / 2) clusters come."""
    before = np.concatenate([[0], bounded.n_clusters[:-1]])
    assert (bounded.n_born[1:] <= 2 * np.maximum(32, before[1:] // 2)).all()
