"""The ratios are what the posterior of a partition says, for whole and for fractional counts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from scstream.core.moves import log_half_weights, log_merge_ratio, log_split_ratio
from tests.core.states import FAMILIES, random_halves

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
    found = log_split_ratio(family, ALPHA, subclusters[:, 0], subclusters[:, 1])
    whole = subclusters.sum(axis=1)
    for k, ratio in enumerate(found):
        others = np.delete(whole, k, axis=0)
        split = np.concatenate([others, subclusters[k]])
        expected = log_joint(family, split) - log_joint(family, whole)
        assert ratio == pytest.approx(expected, rel=1e-9, abs=1e-9)


@every_family
def test_swapping_subclusters_does_not_change_the_split_ratio(name):
    subclusters = random_halves(name, SIZES, np.random.default_rng(1))
    one = log_split_ratio(FAMILIES[name], ALPHA, subclusters[:, 0], subclusters[:, 1])
    two = log_split_ratio(FAMILIES[name], ALPHA, subclusters[:, 1], subclusters[:, 0])
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


@every_family
def test_the_merge_ratio_is_the_inverse_of_the_split_ratio(name):
    family = FAMILIES[name]
    stats = random_halves(name, SIZES, np.random.default_rng(2)).sum(axis=1)
    first, second = np.triu_indices(len(stats), 1)
    merge = log_merge_ratio(family, ALPHA, stats, (first, second), correction=False)
    split = log_split_ratio(family, ALPHA, stats[first], stats[second])
    np.testing.assert_allclose(merge, -split, rtol=1e-12)
    corrected = log_merge_ratio(family, ALPHA, stats, (first, second), correction=True)
    weights = log_half_weights(ALPHA, stats[first, 0], stats[second, 0])
    np.testing.assert_allclose(corrected - merge, weights, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 8.0])
def test_subcluster_weights_are_a_distribution_over_labellings(alpha):
    """Over all ways to put seven rows into two halves the probabilities sum to one."""
    n_left = np.array([sum(sides) for sides in itertools.product((0, 1), repeat=7)], dtype=float)
    assert logsumexp(log_half_weights(alpha, n_left, 7.0 - n_left)) == pytest.approx(0, abs=1e-12)


def test_the_prior_of_two_rows_is_the_chinese_restaurant_process():
    """Where rows say nothing, two are apart with odds alpha to one."""
    family = FAMILIES["multinomial"]
    nothing = np.zeros((1, family.n_stats))
    nothing[0, 0] = 1.0
    assert log_split_ratio(family, ALPHA, nothing, nothing)[0] == pytest.approx(np.log(ALPHA))
