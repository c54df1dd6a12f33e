"""A pass over rows does not depend on blocks, on threads, or on who is done first."""

from __future__ import annotations

import time
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scstream.compute import rows as local_rows
from scstream.compute.threads import ThreadExecutor
from scstream.core import default, paper, row_ranges
from scstream.core.assign import AssignmentStats, assign_block
from scstream.core.config import Config
from scstream.core.default import predictive_params
from scstream.core.state import NOVEL, Batch, State
from scstream.core.sweep import sampled_params, with_statistics
from scstream.kernels import choose_kernels
from scstream.kernels.native import load_native
from tests.core.states import FAMILIES, random_state, step

SIZES = [[9, 4], [2, 7], [5, 5]]
every_family = pytest.mark.parametrize("name", FAMILIES)


def scattered(name, n, seed=0):
    rng = np.random.default_rng(seed)
    if name == "multinomial":
        return rng.multinomial(9, rng.dirichlet(np.ones(4), size=n)).astype(float)
    return rng.normal(scale=5.0, size=(n, 2))


def most_probable(name, **choices):
    """Parameters of a pass in which every row takes its most probable label and sub-label."""
    state = random_state(name, SIZES)
    params = predictive_params(FAMILIES[name], Config(**choices), state, sweep=1)
    return replace(params, key=None, report_map=False)


def drawn(name):
    """Parameters of a pass in which labels are drawn."""
    family, state = FAMILIES[name], random_state(name, SIZES)
    return sampled_params(family, Config(), state, state, sweep=1, births=True)


PARAMS = {"most probable": most_probable, "drawn": drawn}


@every_family
@pytest.mark.parametrize("kind", PARAMS)
@pytest.mark.parametrize("weighted", [False, True])
def test_choices_do_not_depend_on_the_block_size(name, kind, weighted, monkeypatch):
    """Every row has its own random numbers, so blocks change nothing but the rounding of sums."""
    params, rows = PARAMS[kind](name), scattered(name, 500)
    weight = np.random.default_rng(1).random(500) if weighted else None
    found = {}
    for size in (500, 64, 7):
        monkeypatch.setattr(row_ranges, "_TYPICAL", size)
        loaded = ThreadExecutor().load(FAMILIES[name], Batch(rows, 0.0, weight))
        sums = loaded.assign(params)
        found[size] = loaded.labels(np.arange(6).reshape(3, 2))[0], sums
    for size in (64, 7):
        np.testing.assert_array_equal(found[size][0], found[500][0])
        for entry in fields(AssignmentStats):
            one, two = (getattr(found[s][1], entry.name) for s in (size, 500))
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("algorithm", [Config, Config.paper])
def test_any_number_of_threads_gives_the_same_bits(algorithm, monkeypatch):
    """Blocks finish in random order on 1, 2 and 4 threads: labels and states are equal."""
    family = FAMILIES["gaussian"]
    sleeper = np.random.default_rng(0)

    def unpunctual(*args):
        time.sleep(sleeper.random() * 2e-4)
        return assign_block(*args)

    monkeypatch.setattr(row_ranges, "_TYPICAL", 50)
    monkeypatch.setattr(local_rows, "assign_block", unpunctual)
    monkeypatch.setattr(default, "_START_SWEEPS", 5)
    monkeypatch.setattr(paper, "_START_SWEEPS", 5)
    ends = [run(family, algorithm(), n_threads) for n_threads in (1, 2, 4)]
    for state, labels in ends[1:]:
        np.testing.assert_array_equal(labels, ends[0][1])
        for entry in fields(State):
            if entry.name != "archive":
                np.testing.assert_array_equal(
                    getattr(state, entry.name), getattr(ends[0][0], entry.name)
                )


def run(family, config, n_threads):
    rng = np.random.default_rng(3)
    centres = rng.normal(scale=8.0, size=(4, 2))
    state, labels = State.empty(family), []
    executor = ThreadExecutor(n_threads)
    for b in range(4):
        rows = centres[rng.choice(4, size=330)] + rng.normal(size=(330, 2))
        state, found, _ = step(family, config, state, Batch(rows, float(b)), executor)
        labels.append(found)
    return state, np.concatenate(labels)


@every_family
@pytest.mark.parametrize("kernels", ["native", "numpy"])
@settings(max_examples=30)
@given(n_rows=st.integers(1, 200), n_shards=st.integers(1, 9), length=st.integers(8, 60))
def test_sums_over_row_ranges_equal_the_sums_of_the_batch(name, kernels, n_rows, n_shards, length):
    """Shards of a batch give the same labels and bit for bit the same sums as the batch."""
    if kernels == "native" and load_native() is None:
        pytest.skip("the compiled kernels are not installed")
    params, rows = drawn(name), scattered(name, n_rows)
    family = FAMILIES[name].with_kernels(choose_kernels(kernels))
    whole = row_ranges.RowRange(n_rows, length, 0, -(-n_rows // length))
    ids = np.arange(6).reshape(3, 2)
    one = ThreadExecutor().hold(family, Batch(rows, 0.0), whole)
    sums, parts, labels = one.assign(params), [], []
    for row_range in whole.shards(n_shards):
        own = Batch(rows[row_range.rows.start : row_range.rows.stop], 0.0)
        shard = ThreadExecutor().hold(family, own, row_range)
        parts += zip(row_range.subtrees(), shard.sums(params), strict=True)
        labels.append(shard.labels(ids)[0])
    np.testing.assert_array_equal(row_ranges.add_up(parts), sums.packed())
    np.testing.assert_array_equal(np.concatenate(labels), one.labels(ids)[0])


@every_family
def test_drawn_labels_follow_their_probabilities(name):
    """One row 20,000 times under 20,000 addresses; chi-square at a pinned key, p > 0.001."""
    family = FAMILIES[name]
    params = drawn(name)
    # Weights that make up for the densities, so that no outcome is rare.
    row = scattered(name, 1)
    density = family.log_likelihood(params.clusters, row)[0]
    new = family.log_predictive(params.prior, row)[0, 0]
    log_weight = -density + np.log([0.2, 0.5, 0.1])
    params = replace(params, log_weight=log_weight, log_new=np.log(0.2) - new)
    n = 20_000
    result = assign_block(family, params, np.repeat(row, n, axis=0), None, 0)
    counts = np.bincount(np.where(result.label == NOVEL, 3, result.label), minlength=4)
    assert stats.chisquare(counts, n * np.array([0.2, 0.5, 0.1, 0.2])).pvalue > 1e-3
    subclusters = family.log_likelihood(params.subclusters, row)[0].reshape(3, 2)
    subclusters = subclusters + params.log_subweight
    right = 1.0 / (1.0 + np.exp(subclusters[:, 0] - subclusters[:, 1]))
    for k in range(3):
        sides = result.side[result.label == k]
        assert stats.binomtest(int(sides.sum()), len(sides), right[k]).pvalue > 1e-3


@every_family
@pytest.mark.parametrize("births", [False, True])
def test_the_most_probable_label_is_the_largest_score(name, births):
    family, rows = FAMILIES[name], scattered(name, 200)
    params = most_probable(name, births=births)
    scores = family.log_predictive(params.clusters, rows) + params.log_weight
    if births:
        new = family.log_predictive(params.prior, rows) + params.log_new
        scores = np.concatenate([scores, new], axis=1)
    best = scores.argmax(axis=1)
    result = assign_block(family, params, rows, None, 0)
    np.testing.assert_array_equal(result.label, np.where(best == 3, NOVEL, best))
    assert births or (result.label != NOVEL).all()


@every_family
def test_scoring_all_subclusters_at_once_equals_cluster_by_cluster(name, monkeypatch):
    """Above a size the halves are scored for the rows of their cluster only; the same choices."""
    params, rows = drawn(name), scattered(name, 300)
    one = assign_block(FAMILIES[name], params, rows, None, 0)
    monkeypatch.setattr("scstream.core.assign._ALL_SUBCLUSTERS", 0)
    two = assign_block(FAMILIES[name], params, rows, None, 0)
    np.testing.assert_array_equal(one.label, two.label)
    np.testing.assert_array_equal(one.side, two.side)


@every_family
def test_assignment_replaces_the_statistics_of_the_batch(name):
    """What is learned is what the rows chose, the past untouched, novel rows in the rest."""
    family, state = FAMILIES[name], random_state(name, SIZES)
    rows = scattered(name, 120)
    weight = np.random.default_rng(2).random(120)
    loaded = ThreadExecutor().load(family, Batch(rows, 0.0, weight))
    swept = with_statistics(state, loaded.assign(drawn(name)))
    half = loaded.labels(np.arange(6).reshape(3, 2))[0]
    expected = family.stats(rows, half, 6, weight).reshape(3, 2, -1)
    np.testing.assert_allclose(swept.state.current, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(swept.state.past, state.past)
    assert swept.state.unassigned_now == pytest.approx(weight[half == NOVEL].sum())
