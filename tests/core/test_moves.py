"""The ratios are what the posterior of a partition says, for whole and for fractional counts."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from scstream.core import default, moves, paper, printed, ratios
from scstream.core.config import Config
from scstream.core.moves import (
    accept_merges,
    accept_splits,
    log_subcluster_weights,
    split_and_merge,
)
from scstream.core.ratios import log_merge_ratio
from scstream.core.state import Moves, Transition
from tests.core.states import FAMILIES, random_halves, with_clusters
from tests.statistics.exact import growth_strings

ALPHA = 1.7
SIZES = [[9, 4], [2, 7], [5, 5], [1, 3]]
every_family = pytest.mark.parametrize("name", FAMILIES)


def log_joint(family, stats):  # (G, P)
    """Log of alpha^K prod Gamma(N_k) f(x_k)."""
    counts = stats[:, 0]
    return len(stats) * np.log(ALPHA) + (gammaln(counts) + family.log_marginal(stats)).sum()


@every_family
@pytest.mark.parametrize("fading", [1.0, 0.37])
def test_a_split_ratio_is_a_ratio_of_posteriors(name, fading):
    family = FAMILIES[name]
    subclusters = fading * random_halves(name, SIZES, np.random.default_rng(0))
    found = family.kernels.log_split_ratio(family, ALPHA, subclusters[:, 0], subclusters[:, 1])
    whole = subclusters.sum(axis=1)
    for k, ratio in enumerate(found):
        others = np.delete(whole, k, axis=0)
        split = np.concatenate([others, subclusters[k]])
        expected = log_joint(family, split) - log_joint(family, whole)
        assert ratio == pytest.approx(expected, rel=1e-9, abs=1e-9)


@every_family
def test_swapping_subclusters_does_not_change_the_split_ratio(name):
    subclusters = random_halves(name, SIZES, np.random.default_rng(1))
    family = FAMILIES[name]
    one = family.kernels.log_split_ratio(family, ALPHA, subclusters[:, 0], subclusters[:, 1])
    two = family.kernels.log_split_ratio(family, ALPHA, subclusters[:, 1], subclusters[:, 0])
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


@every_family
def test_the_merge_ratio_is_the_inverse_of_the_split_ratio(name):
    family = FAMILIES[name]
    stats = random_halves(name, SIZES, np.random.default_rng(2)).sum(axis=1)
    first, second = np.triu_indices(len(stats), 1)
    merge = log_merge_ratio(family, ALPHA, stats, (first, second))
    split = family.kernels.log_split_ratio(family, ALPHA, stats[first], stats[second])
    np.testing.assert_allclose(merge, -split, rtol=1e-12)


@every_family
def test_the_default_also_weighs_a_merge_by_the_labels_of_the_subclusters(name, monkeypatch):
    family = FAMILIES[name]
    subclusters = random_halves(name, SIZES, np.random.default_rng(2))
    state = with_clusters(family, subclusters)
    first, second = np.triu_indices(state.n_clusters, 1)
    # Every pair has shown evidence, so that the ratio decides about their order only.
    proven = np.column_stack([state.ids[first], state.ids[second]])
    state = replace(
        state, n_batches=1, merge_pairs=proven, merge_evidence=np.full(len(proven), 99.0)
    )
    ratios = []
    monkeypatch.setattr(moves, "disjoint", lambda first, second, ratio: ratios.append(ratio) or [])
    for usual in (printed.RULES, paper.RULES, default.RULES):
        rules = replace(usual, n_neighbours=None, merge_inactive=True)
        assert accept_merges(family, Config(alpha=ALPHA), rules, state, sweep=1) == ([], len(first))
    merge = log_merge_ratio(family, ALPHA, state.cluster_stats, (first, second))
    weights = log_subcluster_weights(ALPHA, state.weight[first], state.weight[second])
    np.testing.assert_array_equal(ratios[0], merge)
    for ratio in ratios[1:]:
        np.testing.assert_allclose(ratio - merge, weights, rtol=1e-9, atol=1e-9)


def test_moves_of_a_batch_count_proposals_and_acceptances():
    """Three clusters far apart, of which two old enough to split, and one pair that is one."""
    family, rng = FAMILIES["gaussian"], np.random.default_rng(3)

    def stats_at(*centre):
        rows = np.asarray(centre) + rng.normal(size=(60, 2))
        return family.stats(rows, np.zeros(60, dtype=np.int64), 1)[0]

    subclusters = np.array(
        [
            [stats_at(0.0, 0.0), stats_at(90.0, 0.0)],
            [stats_at(0.0, 90.0), stats_at(0.0, 90.0)],
            [stats_at(90.0, 90.0), stats_at(-90.0, 90.0)],
        ]
    )
    state = replace(with_clusters(family, subclusters), age=np.array([9, 9, 0]))
    split, n_proposed = accept_splits(family, Config(), default.RULES, state, sweep=1)
    assert (split.tolist(), n_proposed) == ([0], 2)
    after = split_and_merge(family, Config(), default.RULES, Transition.of(state), sweep=1)
    assert (after.moves.split_proposals, after.moves.splits) == (2, 1)
    n_pairs = after.moves.merge_proposals
    assert n_pairs == 4 * 3 // 2  # the five nearest of four clusters are all pairs
    assert after.moves.merges == 0
    assert Moves(1, 2, 3, 4) + Moves(10, 20, 30, 40) == Moves(11, 22, 33, 44)
    assert [event.kind for event in after.events] == ["split"]
    whole = np.array([[stats_at(0.0, 0.0), stats_at(0.0, 0.0)] for _ in range(2)])
    alike = with_clusters(family, whole)
    merged = split_and_merge(family, Config(), paper.RULES, Transition.of(alike), sweep=1)
    assert (merged.moves.merge_proposals, merged.moves.merges) == (1, 1)
    assert [event.kind for event in merged.events][-1] == "merged"


@pytest.mark.parametrize("alpha", [0.1, 1.0, 8.0])
def test_subcluster_weights_are_a_distribution_over_labellings(alpha):
    """Over all ways to put seven rows into two halves the probabilities sum to one."""
    n_left = np.array([sum(sides) for sides in itertools.product((0, 1), repeat=7)], dtype=float)
    log_probability = log_subcluster_weights(alpha, n_left, 7.0 - n_left)
    assert logsumexp(log_probability) == pytest.approx(0, abs=1e-12)


def test_the_prior_of_two_rows_is_the_chinese_restaurant_process():
    """Where rows say nothing, two are apart with odds alpha to one."""
    family = FAMILIES["multinomial"]
    nothing = np.zeros((1, family.n_stats))
    nothing[0, 0] = 1.0
    ratio = family.kernels.log_split_ratio(family, ALPHA, nothing, nothing)[0]
    assert ratio == pytest.approx(np.log(ALPHA))


def test_joint_probabilities_of_all_partitions_sum_to_one():
    """Rows that say nothing: the Dirichlet process over the 15 partitions of four rows."""
    family = FAMILIES["multinomial"]
    total = 0.0
    for labels in growth_strings(4):
        stats = family.stats(np.zeros((4, 4)), np.array(labels), max(labels) + 1)
        total += np.exp(ratios.log_joint(family, 0.7, stats))
    assert total == pytest.approx(1.0, rel=1e-12)
