"""Evidence for splits and merges: its exact sum over rows, and what it must reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scstream import ScStream
from scstream.compute.threads import ThreadExecutor
from scstream.core.assign import AssignmentStats
from scstream.core.config import Config, check_config
from scstream.core.evidence import accumulate_evidence, least_gain, watch_merge_pairs
from scstream.core.forgetting import forget
from scstream.core.state import Batch
from scstream.core.sweep import mean_params
from scstream.core.window import Exponential
from scstream.errors import InputError
from scstream.kernels import REFERENCE
from tests.core.kernels import both_kernels, kernels_named
from tests.core.states import FAMILIES, random_state, with_clusters

weights = st.floats(0.0, 1e12)


@given(weights, weights, st.floats(0.0, 10.0))
def test_the_required_split_gain_grows_with_weight_up_to_coarseness(a, b, coarseness):
    light, heavy = least_gain(Config(coarseness=coarseness), np.sort([a, b]))
    ulps = 1.0 + 4.0 * np.finfo(float).eps  # a product and a quotient are rounded
    assert 0.0 <= light <= heavy * ulps
    assert heavy <= coarseness * ulps


def test_clusters_of_ordinary_weight_need_almost_no_gain():
    assert least_gain(Config(), np.array([500.0]))[0] * 500.0 < 1.0


def test_the_paper_algorithm_requires_no_gain():
    assert (least_gain(Config.paper(), np.array([1.0, 1e9])) == 0.0).all()


def test_negative_coarseness_raises():
    with pytest.raises(InputError, match="coarseness must not be negative"):
        check_config(Config(coarseness=-1.0))


def clusters_of_a_square(coarseness: float) -> int:
    """How many Gaussians it takes for rows that fill a square evenly, in a few huge batches."""
    rng = np.random.default_rng(0)
    model = ScStream(random_state=0, coarseness=coarseness)
    for _ in range(8):
        model.partial_fit(rng.uniform(size=(40_000, 2)))
    return model.n_clusters_


@pytest.mark.slow
def test_a_cluster_that_misfits_the_family_is_not_split_without_end():
    assert clusters_of_a_square(0.3) < clusters_of_a_square(0.0)


def test_two_heavy_clusters_far_apart_still_split():
    rng = np.random.default_rng(1)
    model = ScStream(random_state=0).partial_fit(rng.normal(0, 1, (30_000, 2)))
    centre = np.array([[0.0, 0.0], [7.0, 0.0]])
    for _ in range(6):
        model.partial_fit(centre[rng.integers(0, 2, 30_000)] + rng.normal(0, 1, (30_000, 2)))
    assert model.n_clusters_ == 2


def rows_and_weights(name, n=300):
    rng = np.random.default_rng(5)
    weight = rng.random(n)
    if name == "multinomial":
        return rng.multinomial(9, rng.dirichlet(np.ones(4), size=n)).astype(float), weight
    return rng.normal(scale=4.0, size=(n, 2)), weight


def densities(name, stats, rows):  # (G, P), (N, D) -> (N, G)
    """Predictive densities of rows, by the reference."""
    family = FAMILIES[name].with_kernels(REFERENCE)
    return np.exp(family.log_predictive(family.predictive_params(stats), rows))


@both_kernels
@pytest.mark.parametrize("name", FAMILIES)
def test_split_evidence_is_the_clipped_gain_of_the_mixture_of_the_subclusters(name, kernels):
    """Summed by weight over the rows of each cluster; one row adds at most one nat either way."""
    family = FAMILIES[name].with_kernels(kernels_named(kernels))
    state, alpha = random_state(name, [[9, 4], [2, 7], [5, 5]]), 0.8
    rows, weight = rows_and_weights(name)
    params = mean_params(
        family, Config(alpha=alpha), state, state, births=False, collect_evidence=True
    )
    loaded = ThreadExecutor().load(family, Batch(rows, 0.0, weight))
    found = loaded.assign(params).split_evidence
    label = loaded.labels(np.arange(3).repeat(2).reshape(3, 2))[0]
    clipped = 0
    for k in range(3):
        mine = rows[label == k]
        counts = state.subclusters[k, :, 0]
        share = (counts + alpha / 2.0) / (counts.sum() + alpha)
        apart = densities(name, state.subclusters[k], mine) @ share
        together = densities(name, state.cluster_stats[k : k + 1], mine)[:, 0]
        gain = np.log(apart / together)
        clipped += (np.abs(gain) > 1.0).sum()
        expected = np.clip(gain, -1.0, 1.0) @ weight[label == k]
        assert found[k] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert clipped
    silent = mean_params(family, Config(alpha=alpha), state, state, births=False)
    assert (
        ThreadExecutor().load(family, Batch(rows, 0.0)).assign(silent).split_evidence == 0
    ).all()


def two_alike_and_one_apart():
    """Clusters 0 and 1 have the same rows but for noise, cluster 2 is far."""
    family = FAMILIES["gaussian"]
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(120, 2)) + np.repeat([[0.0, 0.0], [0.0, 0.5], [60.0, 0.0]], 40, axis=0)
    halves = family.stats(rows, np.arange(120) // 20, 6).reshape(3, 2, -1)
    return with_clusters(family, halves)


@both_kernels
def test_merge_evidence_is_the_clipped_gain_of_the_union(kernels):
    """Over the rows of the pair: the union against the mixture of the two by their weights."""
    family = FAMILIES["gaussian"].with_kernels(kernels_named(kernels))
    state, config = two_alike_and_one_apart(), Config()
    params = mean_params(family, config, state, state, births=False, collect_evidence=True)
    state, params = watch_merge_pairs(family, config, state, params)
    assert state.merge_pairs.tolist() == [[0, 1]]
    rows, weight = rows_and_weights("gaussian")
    loaded = ThreadExecutor().load(family, Batch(rows, 0.0, weight))
    found = loaded.assign(params).merge_evidence
    label = loaded.labels(np.arange(3).repeat(2).reshape(3, 2))[0]
    both = label < 2
    stats = state.cluster_stats
    pair = densities("gaussian", stats[:2], rows[both]) @ (stats[:2, 0] / stats[:2, 0].sum())
    union = densities("gaussian", stats[:2].sum(axis=0, keepdims=True), rows[both])[:, 0]
    gain = np.log(union / pair)
    assert (np.abs(gain) > 1.0).any()
    assert found.tolist() == [pytest.approx(np.clip(gain, -1.0, 1.0) @ weight[both], rel=1e-9)]


def test_watched_pairs_keep_their_evidence_while_both_clusters_are_active():
    family, config = FAMILIES["gaussian"], Config()
    state = two_alike_and_one_apart()
    params = mean_params(family, config, state, state, births=False)
    known = {"merge_pairs": np.array([[0, 1], [1, 2]]), "merge_evidence": np.array([1.25, 0.5])}
    watched, asked = watch_merge_pairs(family, config, state.replace(**known), params)
    assert watched.merge_pairs.tolist() == [[0, 1]]
    assert watched.merge_evidence.tolist() == [1.25]
    assert asked.pairs.tolist() == [[0, 1]]
    for idle, expected in ((1.5, [[0, 1]]), (1.6, [])):
        at = state.replace(**known, time=10.0, batch_interval=1.0)
        at = at.replace(last_seen=np.array([10.0, 10.0 - idle, 10.0]))
        watched, asked = watch_merge_pairs(family, config, at, params)
        assert watched.merge_pairs.tolist() == asked.pairs.tolist() == expected
        assert len(watched.merge_evidence) == len(expected)
    watched, asked = watch_merge_pairs(family, Config(merge_evidence=None), state, params)
    assert len(asked.pairs) == 0


def test_evidence_is_a_cumulative_sum_that_does_not_fall_below_zero():
    """Less the gain that is required of a heavy cluster, for each row of the batch."""
    family = FAMILIES["gaussian"]
    state = two_alike_and_one_apart()
    heavy = np.ones((3, 1, 1)) * 250.0  # clusters of 10,000 rows
    state = state.replace(
        current=heavy * state.current,
        split_evidence=np.array([0.5, 3.0, 0.0]),
        merge_pairs=np.array([[0, 1], [1, 2]]),
        merge_evidence=np.array([0.25, 1.0]),
    )
    stats = np.zeros((3, 2, family.n_stats))
    stats[:, :, 0] = 2.0, 3.0
    found = AssignmentStats(stats, 0.0, 0.0, np.array([-2.0, 1.0, 4.0]), np.array([-0.5, 0.75]))
    after = accumulate_evidence(Config(coarseness=0.0), state, found)
    assert after.split_evidence.tolist() == [0.0, 4.0, 4.0]
    assert after.merge_evidence.tolist() == [0.0, 1.75]
    after = accumulate_evidence(Config(coarseness=0.2), state, found)
    np.testing.assert_allclose(after.split_evidence, [0.0, 3.5, 3.5])  # 5 rows at 0.1


def test_evidence_fades_like_the_statistics():
    state = random_state("gaussian", [[9, 4], [2, 7]]).replace(
        split_evidence=np.array([4.0, 1.0]),
        merge_pairs=np.array([[0, 1]]),
        merge_evidence=np.array([2.0]),
    )
    config = Config(kernel=Exponential(2.0))
    later = forget(FAMILIES["gaussian"], config, state, state.time + 4.0, motion=False)
    assert later.split_evidence.tolist() == [1.0, 0.25]
    assert later.merge_evidence.tolist() == [0.5]
