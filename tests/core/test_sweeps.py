"""How many passes a batch makes over its rows, in which order, and what they leave behind."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from scstream.compute.threads import ThreadExecutor
from scstream.core import default, paper
from scstream.core.config import Config
from scstream.core.rng import key_for
from scstream.core.state import NOVEL, Batch, State
from scstream.core.sweep import mean_params, sampled_params, with_statistics
from tests.core.kernels import both_kernels, kernels_named
from tests.core.states import FAMILIES, random_state, step, with_clusters
from tests.statistics.exact import PROBLEMS, chi_square

ALGORITHMS = {"default": Config, "paper": Config.paper}
every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
CENTRES = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0]])


@pytest.fixture(autouse=True)
def short_start(monkeypatch):
    """The paper's first batch has 30 sweeps at most."""
    monkeypatch.setattr(paper, "_START_SWEEPS", 30)


class RecordingExecutor(ThreadExecutor):
    """Keeps the parameters of every pass."""

    def __init__(self):
        super().__init__()
        self.passes = []

    def load(self, family, batch):
        loaded, passes = super().load(family, batch), self.passes
        assign = loaded.assign
        loaded.assign = lambda params: passes.append(params) or assign(params)
        return loaded

    @property
    def kinds(self):
        """One letter for each pass: sampled or predictive parameters."""
        return "".join("p" if params.predictive else "s" for params in self.passes)


def batches(n, *, n_rows=90, centres=CENTRES, seed=0):
    rng = np.random.default_rng(seed)
    for b in range(n):
        rows = centres[rng.integers(len(centres), size=n_rows)]
        yield Batch(rows + rng.normal(size=(n_rows, 2)), float(b))


def passes_by_batch(config, stream, kernels):
    """Kinds of the passes of each batch, the parameters of the passes, and the last state."""
    family = FAMILIES["gaussian"].with_kernels(kernels_named(kernels))
    state, kinds, params = State.empty(family), [], []
    for batch in stream:
        executor = RecordingExecutor()
        state, _, _ = step(family, config, state, batch, executor)
        kinds.append(executor.kinds)
        params.append(executor.passes)
    return kinds, params, state


@both_kernels
@pytest.mark.parametrize("n_sweeps", [0, 1, 2, 3])
@every_algorithm
def test_later_batches_run_as_many_sampling_sweeps_as_the_config_says(algorithm, n_sweeps, kernels):
    """The default compares the rows once before it learns them, the paper does not."""
    config = ALGORITHMS[algorithm](n_sweeps=n_sweeps, seed=2)
    kinds, params, _ = passes_by_batch(config, batches(4), kernels)
    before = "p" if algorithm == "default" else ""
    assert kinds[1:] == [before + n_sweeps * "s" + "p"] * 3
    for batch in (1, 2, 3):
        keys = [each.key for each in params[batch]]
        sweeps = range(algorithm == "paper", n_sweeps + 2)
        assert keys == [key_for(2, batch=batch, sweep=sweep, purpose="labels") for sweep in sweeps]


@pytest.mark.parametrize("algorithm", [default, paper])
def test_splits_and_merges_after_every_sweep_have_their_own_keys(algorithm, monkeypatch):
    sweeps, split_and_merge = [], algorithm.split_and_merge

    def recorded(*args, sweep):
        sweeps.append(sweep)
        return split_and_merge(*args, sweep=sweep)

    monkeypatch.setattr(algorithm, "split_and_merge", recorded)
    config = Config.paper if algorithm is paper else Config
    passes_by_batch(config(n_sweeps=2), batches(2), "numpy")
    assert sweeps[-3:] == [1, 2, 3]
    first = sweeps[:-3]
    assert first == list(range(1, len(first) + 1))


@both_kernels
def test_without_births_and_evidence_rows_are_not_compared_before_they_are_learned(kernels):
    config = Config(n_sweeps=1, births=False, split_evidence=None, merge_evidence=None)
    kinds, _, _ = passes_by_batch(config, batches(3), kernels)
    assert kinds[1:] == ["sp"] * 2


@both_kernels
@pytest.mark.parametrize(("n_sweeps", "expected"), [(0, "pssp"), (1, "pssp"), (3, "psssp")])
def test_a_birth_is_followed_by_at_least_two_sampling_sweeps(n_sweeps, expected, kernels):
    stream = [*batches(2), *batches(1, centres=CENTRES + 90.0)]
    stream[2] = replace(stream[2], time=2.0)
    kinds, _, state = passes_by_batch(Config(n_sweeps=n_sweeps), stream, kernels)
    assert kinds[2] == expected
    assert state.n_clusters >= 5


@both_kernels
def test_the_first_batch_of_the_default_ends_after_ten_quiet_sweeps(kernels):
    """One cloud never splits: ten sweeps, whatever `n_sweeps` says."""
    for n_sweeps in (0, 12):
        kinds, _, _ = passes_by_batch(
            Config(n_sweeps=n_sweeps), batches(1, centres=CENTRES[:1]), kernels
        )
        assert kinds == ["p" + 10 * "s" + "p"]


@both_kernels
def test_the_first_batch_of_the_paper_ends_after_patience_or_the_most_sweeps(kernels):
    """Random sub-labels first, then sampling sweeps, then the predictive one."""
    family = FAMILIES["gaussian"].with_kernels(kernels_named(kernels))
    (batch,) = batches(1, centres=CENTRES[:1])
    for patience, n_sweeps in ((4, 4), (99, 30)):
        executor, rules = RecordingExecutor(), replace(paper.PROGRAM, patience=patience)
        paper.step(family, Config.paper(), State.empty(family), batch, executor, rules)
        assert executor.kinds == "p" + n_sweeps * "s" + "p"


@both_kernels
def test_the_first_batch_of_the_default_has_fifteen_sweeps_at_most(kernels, monkeypatch):
    monkeypatch.setattr(default, "_START_PATIENCE", None)
    kinds, _, _ = passes_by_batch(Config(), batches(1), kernels)
    assert kinds == ["p" + 15 * "s" + "p"]


@both_kernels
@every_algorithm
def test_every_sweep_compares_rows_with_what_the_sweep_before_learned(algorithm, kernels):
    """Weights change from pass to pass; in the last pass they are the past and all new rows."""
    config = ALGORITHMS[algorithm](n_sweeps=3, births=False)
    _, params, state = passes_by_batch(config, batches(2), kernels)
    weights = [each.log_weight for each in params[1]]
    for one, two in pairwise(weights):
        assert not np.array_equal(one, two)
    assert np.exp(weights[-1]).sum() == pytest.approx(state.weight.sum(), rel=1e-9)


@both_kernels
@pytest.mark.parametrize("kind", ["sampled", "predictive"])
@pytest.mark.parametrize("name", FAMILIES)
def test_statistics_of_a_sweep_are_those_of_its_labels(name, kind, kernels):
    """Labels and sub-labels give the new `current`, and `age`, `last_seen` and `peak` follow."""
    family = FAMILIES[name].with_kernels(kernels_named(kernels))
    state = random_state(name, [[9, 4], [2, 7], [5, 5]])
    state = state.replace(time=7.0, age=np.array([3, 0, 8]))
    rng = np.random.default_rng(1)
    rows = rng.normal(scale=3.0, size=(150, 2))
    if name == "multinomial":
        rows = rng.multinomial(9, rng.dirichlet(np.ones(4), size=150)).astype(float)
    if kind == "sampled":
        params = sampled_params(family, Config(), state, state, sweep=1, births=False)
    else:
        params = mean_params(family, Config(), state, state, births=False)
    loaded = ThreadExecutor().load(family, Batch(rows, 7.0))
    after = with_statistics(state, loaded.assign(params)).state
    sub = loaded.labels(np.arange(6).reshape(3, 2))[0]
    expected = np.zeros((6, family.n_stats))
    for j in range(6):
        expected[j] = family.stats(rows[sub == j], np.zeros((sub == j).sum(), np.int64), 1)[0]
    np.testing.assert_allclose(after.current.reshape(6, -1), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(after.past, state.past)
    assert after.age.tolist() == [4, 1, 9]
    touched = np.bincount(sub // 2, minlength=3) > 0
    np.testing.assert_array_equal(after.last_seen, np.where(touched, 7.0, state.last_seen))
    np.testing.assert_allclose(after.peak, np.maximum(state.peak, after.weight))


@both_kernels
def test_reported_labels_are_the_most_probable_and_statistics_those_of_drawn_labels(kernels):
    """The predictive sweep of the default: two passes in one."""
    family = FAMILIES["gaussian"].with_kernels(kernels_named(kernels))
    state = random_state("gaussian", [[9, 4], [2, 7], [5, 5]])
    rows = np.random.default_rng(1).normal(scale=3.0, size=(400, 2))
    ids = np.arange(6).reshape(3, 2)
    found = {}
    both = mean_params(family, Config(), state, state, births=False, key=77)
    for name, params in {
        "both": both,
        "drawn": replace(both, report_map=False),
        "best": replace(both, report_map=False, key=None),
    }.items():
        loaded = ThreadExecutor().load(family, Batch(rows, 0.0))
        found[name] = loaded.assign(params), loaded.labels(ids)[0]
    np.testing.assert_array_equal(found["both"][1], found["best"][1])
    np.testing.assert_array_equal(found["both"][0].stats, found["drawn"][0].stats)
    assert (found["drawn"][1] != found["best"][1]).any()
    assert not np.allclose(found["drawn"][0].stats, found["best"][0].stats)


@both_kernels
def test_learned_statistics_of_the_paper_are_those_of_the_returned_labels(kernels):
    """Also where clusters split, merge and die after the last pass."""
    family = FAMILIES["gaussian"].with_kernels(kernels_named(kernels))
    config, state = Config.paper(seed=1), State.empty(family)
    n_events = 0
    near, far = (batches(4, centres=CENTRES * scale, n_rows=200) for scale in (0.125, 1.0))
    for time, arrived in enumerate([*near, *far]):
        batch = replace(arrived, time=float(time))
        state, labels, info = step(family, config, state, batch, ThreadExecutor())
        n_events += len(info.events) if batch.time else 0
        index = np.searchsorted(state.ids, labels)
        np.testing.assert_array_equal(state.ids[index], labels)
        expected = family.stats(batch.rows, index, state.n_clusters)
        np.testing.assert_allclose(state.current.sum(axis=1), expected, rtol=1e-9, atol=1e-7)
    assert n_events


@both_kernels
@pytest.mark.parametrize("births", [False, True])
def test_log_density_of_a_pass_is_that_of_the_mixture(births, kernels):
    """Sum over rows, by their weights, of the log of the mixture; weights are not normalised."""
    family = FAMILIES["gaussian"].with_kernels(kernels_named(kernels))
    state = random_state("gaussian", [[9, 4], [2, 7], [5, 5]])
    rng = np.random.default_rng(2)
    rows, weight = rng.normal(scale=5.0, size=(60, 2)), rng.random(60)
    params = mean_params(family, Config(alpha=2.0), state, state, births=births)
    found = ThreadExecutor().load(family, Batch(rows, 0.0, weight)).assign(params)
    table = family.predictive_params(state.cluster_stats)
    mixture = np.exp(family.log_predictive(table, rows)) @ state.weight
    if births:
        nothing = family.predictive_params(np.zeros((1, family.n_stats)))
        mixture += 2.0 * np.exp(family.log_predictive(nothing, rows))[:, 0]
    assert found.log_density == pytest.approx(weight @ np.log(mixture), rel=1e-9)


@both_kernels
@every_algorithm
def test_info_has_the_mean_log_density_of_the_last_pass(algorithm, kernels):
    """Three clouds far apart: no split, merge or removal follows the last pass."""
    config = ALGORITHMS[algorithm](births=False, motion=False)
    family = FAMILIES["gaussian"].with_kernels(kernels_named(kernels))
    state = State.empty(family)
    for batch in batches(3):
        executor = RecordingExecutor()
        state, _, info = step(family, config, state, batch, executor)
    last = executor.passes[-1]
    density = family.log_predictive(last.clusters, batch.rows) + last.log_weight
    mixture = np.logaddexp.reduce(density, axis=1) - np.log(state.weight.sum() + config.alpha)
    assert info.events == ()
    assert info.mean_log_density == pytest.approx(mixture.mean(), rel=1e-9)


@pytest.mark.statistics
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_compiled_sampling_sweep_leaves_the_posterior_of_labellings_as_it_is(name):
    """From the state to the labels; tests/statistics/test_enumeration.py does it with numpy.

    Six rows in two clusters, 6,000 starts from the exact posterior of their labellings, one sweep
    each; sweeps that empty a cluster are rejected. Chi-square over all labellings, p > 0.001 at a
    pinned seed, the first one tried: three tests fail by chance with probability 0.3 %.
    """
    problem = PROBLEMS[name]()
    family = problem.family.with_kernels(kernels_named("native"))
    config = Config(alpha=problem.alpha)
    cells, probability = problem.labellings(2)
    rng = np.random.default_rng(0)
    start = cells[rng.choice(len(cells), 6_000, p=probability)]
    end = start.copy()
    rows = ThreadExecutor().load(family, Batch(problem.X, 0.0))
    ids = np.arange(2).repeat(2).reshape(2, 2)
    for key, labels in enumerate(start):
        clusters = family.stats(problem.X, labels, 2)
        state = with_clusters(family, np.stack([clusters / 2.0, clusters / 2.0], axis=1))
        state = state.replace(n_batches=key)
        rows.assign(sampled_params(family, config, state, state, sweep=1, births=False))
        drawn = rows.labels(ids)[0]
        if len(set(drawn.tolist())) == 2:
            end[key] = drawn
    assert chi_square(end, cells, probability) > 1e-3


@pytest.mark.statistics
@both_kernels
@pytest.mark.parametrize("name", FAMILIES)
def test_labels_of_a_pass_follow_their_probabilities(name, kernels):
    """One row 20,000 times under 20,000 addresses, clusters and sub-clusters; p > 0.001."""
    family = FAMILIES[name].with_kernels(kernels_named(kernels))
    state = random_state(name, [[9, 4], [2, 7], [5, 5]])
    row = np.array([[2.0, 4.0, 3.0, 0.0]]) if name == "multinomial" else np.array([[1.0, -2.0]])
    params = sampled_params(family, Config(), state, state, sweep=1, births=True)
    # Weights that make up for the densities, so that no outcome is rare.
    log_weight = np.log([0.2, 0.5, 0.1]) - family.log_likelihood(params.clusters, row)[0]
    log_new = np.log(0.2) - family.log_predictive(params.prior, row)[0, 0]
    sub = np.log([[0.3, 0.7], [0.8, 0.2], [0.5, 0.5]])
    sub = sub - family.log_likelihood(params.subclusters, row)[0].reshape(3, 2)
    params = replace(params, log_weight=log_weight, log_new=log_new, log_subweight=sub)
    loaded = ThreadExecutor().load(family, Batch(np.repeat(row, 20_000, axis=0), 0.0))
    loaded.assign(params)
    found = loaded.labels(np.arange(6).reshape(3, 2))[0]
    counts = np.bincount(np.where(found == NOVEL, 6, found), minlength=7)
    expected = np.array([0.06, 0.14, 0.4, 0.1, 0.05, 0.05, 0.2])
    assert stats.chisquare(counts, 20_000 * expected).pvalue > 1e-3
