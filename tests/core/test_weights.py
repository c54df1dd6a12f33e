"""Weights of clusters and sub-clusters: exact means, and exact distributions where they are drawn.

False alarms: the bar of each Kolmogorov-Smirnov test is p > 1e-3. There are 36 tests, so that a
correct program fails one with probability 4 % at a random seed; the seed is pinned, and was the
first one tried.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from scstream.core import default, paper
from scstream.core.config import Config
from scstream.core.sweep import mean_params, sampled_params
from scstream.core.window import Exponential
from tests.core.kernels import both_kernels, kernels_named
from tests.core.states import FAMILIES, random_halves, random_state, with_clusters

COUNTS = np.array([[6.0, 3.0], [0.25, 1.5], [4.0, 0.0]])  # faded counts; one sub-cluster is empty
N_DRAWS = 1_500
every_alpha = pytest.mark.parametrize("alpha", [0.3, 1.0, 7.0])


def weighted_state(kernels):
    family = FAMILIES["multinomial"].with_kernels(kernels_named(kernels))
    subclusters = np.zeros((3, 2, family.n_stats))
    subclusters[:, :, 0] = COUNTS
    return family, with_clusters(family, subclusters)


@both_kernels
@every_alpha
def test_mean_weights_are_means_of_dirichlet_distributions(alpha, kernels):
    """N_k / (N + alpha) and alpha / (N + alpha); (N_j + alpha/2) / (N_k + alpha) inside cluster k.

    Weights of clusters are not normalised: their sum is N + alpha.
    """
    family, state = weighted_state(kernels)
    params = mean_params(family, Config(alpha=alpha), state, state, births=True)
    mean = stats.dirichlet.mean([9.0, 1.75, 4.0, alpha])
    weights = np.exp(np.append(params.log_weight, params.log_new))
    np.testing.assert_allclose(weights / (14.75 + alpha), mean, rtol=1e-12)
    for k, counts in enumerate(COUNTS):
        mean = stats.dirichlet.mean(counts + alpha / 2.0)
        np.testing.assert_allclose(np.exp(params.log_subweight[k]), mean, rtol=1e-12)
    assert mean_params(family, Config(alpha=alpha), state, state, births=False).log_new is None


@pytest.mark.statistics
@both_kernels
@every_alpha
def test_drawn_weights_are_dirichlet(alpha, kernels):
    """Every weight of Dir(N_1 .. N_K, alpha) and of Dir(N_l + alpha/2, N_r + alpha/2) is a beta."""
    family, state = weighted_state(kernels)
    config = Config(alpha=alpha)
    weights, subweights = [], []
    for key in range(N_DRAWS):
        at = state.replace(n_batches=key // 2)
        params = sampled_params(family, config, at, at, sweep=key % 2, births=True)
        drawn = np.append(params.log_weight, params.log_new)
        weights.append(np.exp(drawn - np.logaddexp.reduce(drawn)))
        subweights.append(np.exp(params.log_subweight))
    weights, subweights = np.array(weights), np.array(subweights)
    np.testing.assert_allclose(subweights.sum(axis=2), 1.0, rtol=1e-12)
    shape = np.append(COUNTS.sum(axis=1), alpha)
    for k in range(4):
        expected = stats.beta(shape[k], shape.sum() - shape[k])
        assert stats.kstest(weights[:, k], expected.cdf).pvalue > 1e-3, k
    for k, (left, right) in enumerate(COUNTS + alpha / 2.0):
        assert stats.kstest(subweights[:, k, 0], stats.beta(left, right).cdf).pvalue > 1e-3, k


@pytest.mark.statistics
@both_kernels
def test_drawn_weights_of_clusters_and_subclusters_are_independent(kernels):
    """Rank correlations of 1,500 draws have a standard error of 0.026; none of ten is beyond 0.1.

    Gamma variates are independent before they are normalised; so are ratios inside clusters.
    """
    family, state = weighted_state(kernels)
    rows = []
    for key in range(N_DRAWS):
        at = state.replace(n_batches=key)
        params = sampled_params(family, Config(), at, at, sweep=1, births=True)
        rows.append([params.log_new, params.log_weight[0], *params.log_subweight[:, 0]])
    correlation = stats.spearmanr(np.array(rows)).statistic
    assert np.abs(correlation - np.eye(5)).max() < 0.1


@both_kernels
def test_weights_come_from_the_state_and_parameters_from_the_shapes(kernels):
    """Inactive clusters keep their shape but lose weight: the two come from different states."""
    family = FAMILIES["gaussian"].with_kernels(kernels_named(kernels))
    state, config = random_state("gaussian", [[9, 4], [2, 7], [5, 5]]), Config()
    heavier = state.replace(past=3.0 * state.past)
    both = mean_params(family, config, state, heavier, births=True)
    of_state = mean_params(family, config, state, state, births=True)
    of_shapes = mean_params(family, config, heavier, heavier, births=True)
    np.testing.assert_array_equal(both.log_weight, of_state.log_weight)
    np.testing.assert_array_equal(both.log_subweight, of_state.log_subweight)
    np.testing.assert_array_equal(both.clusters, of_shapes.clusters)
    np.testing.assert_array_equal(both.subclusters, of_shapes.subclusters)
    drawn = sampled_params(family, config, state, heavier, sweep=1, births=True)
    weights = sampled_params(family, config, state, state, sweep=1, births=True)
    shapes = sampled_params(family, config, heavier, heavier, sweep=1, births=True)
    np.testing.assert_array_equal(drawn.log_weight, weights.log_weight)
    np.testing.assert_array_equal(drawn.log_subweight, weights.log_subweight)
    np.testing.assert_array_equal(drawn.clusters, shapes.clusters)
    np.testing.assert_array_equal(drawn.subclusters, shapes.subclusters)


@both_kernels
@pytest.mark.parametrize("algorithm", [default, paper])
@every_alpha
def test_predicted_probabilities_are_bayes_rule_with_mean_weights(algorithm, alpha, kernels):
    """The weights are those of the next batch: faded once more, half-life one."""
    family = FAMILIES["gaussian"].with_kernels(kernels_named(kernels))
    rng = np.random.default_rng(0)
    subclusters = random_halves("gaussian", [[9, 4], [2, 7], [5, 5]], rng)
    state = with_clusters(family, subclusters, time=3.0)
    rows = rng.normal(scale=5.0, size=(40, 2))
    config = Config(alpha=alpha, kernel=Exponential(1.0), motion=False)
    if algorithm is paper:
        config = replace(config, algorithm="paper")
    faded = 0.5 * subclusters.sum(axis=1)
    density = family.log_predictive(family.predictive_params(faded), rows)
    new = family.log_predictive(family.predictive_params(np.zeros((1, family.n_stats))), rows)
    counts = np.append(faded[:, 0], alpha)
    joint = np.exp(np.concatenate([density, new], axis=1)) * counts / counts.sum()
    predictor = algorithm.predictor(family, config, state, None)
    expected = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(predictor.probabilities(rows), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(predictor.log_density(rows), np.log(joint.sum(axis=1)), rtol=1e-9)
    best = joint.argmax(axis=1) if algorithm is default else joint[:, :3].argmax(axis=1)
    labels = np.where(best == 3, -1, best)
    np.testing.assert_array_equal(predictor.labels(rows), labels)
    prediction = predictor.predict(rows)
    np.testing.assert_array_equal(prediction.label, labels)
    of_label = np.take_along_axis(expected, best[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(prediction.probability, of_label, rtol=1e-9)
    np.testing.assert_allclose(prediction.novelty, expected[:, 3], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(prediction.log_density, np.log(joint.sum(axis=1)), rtol=1e-9)
