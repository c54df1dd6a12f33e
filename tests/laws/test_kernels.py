"""Kernels: the ring of single batches and the O(1) exponential are one; windows forget.

What holds: with halved pasts (``bisect_past=False``) everything the algorithm does to statistics is
linear, so the ring and the running sum agree to round-off, in ``algorithm="printed"`` and, motion
included, in the default. A cut along a principal axis is not linear: the cuts of single batches do
not add up to the cut of their sum. Then the halves of the two differ, and in time their splits.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from scstream.compute.threads import ThreadExecutor
from scstream.core import default, paper
from scstream.core.config import Config
from scstream.core.forgetting import forget
from scstream.core.state import Batch, State
from scstream.core.window import Box, Exponential, Windowed
from scstream.families import Gaussian, Multinomial
from scstream.kernels import choose_kernels
from tests.core.states import step

EXECUTOR = ThreadExecutor()
HALF_LIFE = 3.0
N_BATCHES = 60


def gaussian_batches(seed=0, n_batches=N_BATCHES):
    """Four clusters that drift; one comes late and one leaves."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
    velocity = rng.normal(scale=0.08, size=centres.shape)
    time = 0.0
    for b in range(n_batches):
        active = [0, 1, 2] if b < 20 else [0, 1, 2, 3] if b < 40 else [1, 2, 3]
        cluster = rng.choice(active, size=60)
        yield Batch(centres[cluster] + b * velocity[cluster] + rng.normal(size=(60, 2)), time)
        time += float(rng.choice([0.0, 0.5, 1.0, 1.0, 2.5]))


def count_batches(seed=0):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(12, 0.3), size=4)
    for b in range(N_BATCHES):
        cluster = rng.choice([0, 1, 2] if b < 30 else [1, 2, 3], size=60)
        yield Batch(rng.multinomial(30, shares[cluster]).astype(float), float(b))


STREAMS = {
    "gaussian": (
        Gaussian(mean=np.full(2, 4.0), kappa=0.05, nu=5.0, psi=np.eye(2)).with_kernels(
            choose_kernels()
        ),
        gaussian_batches,
    ),
    "multinomial": (
        Multinomial(concentration=np.full(12, 0.3)).with_kernels(choose_kernels()),
        count_batches,
    ),
}
LINEAR = {
    "printed": lambda kernel: Config.paper(algorithm="printed", kernel=kernel),
    "default, still": lambda kernel: Config(kernel=kernel, motion=False),
    "default, moving": lambda kernel: Config(kernel=kernel),
}


@pytest.fixture
def halved_pasts(monkeypatch):
    """Both algorithms cut a past into equal halves; the paper's start is short."""
    edits = replace(default.RULES.edits, bisect_past=False)
    monkeypatch.setattr(default, "RULES", replace(default.RULES, edits=edits))
    monkeypatch.setattr(paper, "_START_SWEEPS", 30)


def ring_of_the_same():
    return Windowed(lambda age: 2.0 ** (-age / HALF_LIFE), capacity=1000, epsilon=0.0)


@pytest.mark.parametrize("algorithm", LINEAR)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.usefixtures("halved_pasts")
def test_stored_batches_and_running_sum_give_the_same_statistics(stream, algorithm):
    """Sixty batches: the same labels, events and ids, statistics within 1e-8."""
    family, batches = STREAMS[stream]
    one, two = (LINEAR[algorithm](kernel=k) for k in (Exponential(HALF_LIFE), ring_of_the_same()))
    sums, ring = State.empty(family), State.empty(family)
    n_clusters = []
    for batch in batches():
        sums, labels, info = step(family, one, sums, batch, EXECUTOR)
        ring, labels_too, info_too = step(family, two, ring, batch, EXECUTOR)
        np.testing.assert_array_equal(labels, labels_too)
        np.testing.assert_array_equal(sums.ids, ring.ids)
        assert [(e.kind, e.id) for e in info.events] == [(e.kind, e.id) for e in info_too.events]
        scale = np.abs(sums.subclusters).max()
        np.testing.assert_allclose(ring.subclusters, sums.subclusters, rtol=1e-8, atol=1e-8 * scale)
        n_clusters.append(sums.n_clusters)
    assert max(n_clusters) >= 3, "a stream on which nothing happens shows nothing"
    assert len(sums.history) == 0
    assert len(ring.history) == N_BATCHES - 1


def test_stored_batches_conserve_statistics_after_past_batches_are_split():
    """Not linear, so halves differ; weights of clusters and of the whole stay those of the sums."""
    family, batches = STREAMS["gaussian"]
    config = Config(kernel=ring_of_the_same())
    state, sizes, times = State.empty(family), [], []
    for batch in batches():
        state, _, _ = step(family, config, state, batch, EXECUTOR)
        sizes.append(batch.n_rows)
        times.append(batch.time)
        weight = 2.0 ** (-(times[-1] - np.array(times)) / HALF_LIFE)
        assert state.total_weight == pytest.approx(weight @ sizes, rel=1e-9)


@pytest.mark.parametrize("motion", [False, True])
def test_past_equals_the_weighted_sum_of_stored_batches(motion):
    family, batches = STREAMS["gaussian"]
    kernel = Windowed(lambda age: 1.0 / (1.0 + age), capacity=12, epsilon=0.05)
    config = Config(kernel=kernel, motion=motion)
    state = State.empty(family)
    for batch in itertools.islice(batches(), 20):
        state, _, _ = step(family, config, state, batch, EXECUTOR)
        weight = kernel.weight(state.time - state.history_times)
        past = np.einsum("h,hkjp->kjp", weight, state.history)
        np.testing.assert_allclose(
            state.past, past, rtol=1e-9, atol=1e-9 * np.abs(past).max(initial=1)
        )


@pytest.mark.parametrize("capacity", [1, 5, 100])
def test_capacity_bounds_the_number_of_stored_batches(capacity):
    family, batches = STREAMS["gaussian"]
    config = Config(kernel=Windowed(lambda age: 0.99**age, capacity=capacity, epsilon=0.0))
    state = State.empty(family)
    for n_before, batch in enumerate(itertools.islice(batches(), 15)):
        state, _, _ = step(family, config, state, batch, EXECUTOR)
        assert len(state.history) == min(n_before, capacity)
        assert state.history.shape[1:] == state.past.shape
        assert len(state.history_times) == len(state.history_unassigned) == len(state.history)


def test_batches_with_weight_below_epsilon_are_dropped():
    family, batches = STREAMS["gaussian"]
    kernel = Windowed(lambda age: 0.5**age, capacity=1000, epsilon=0.1)
    state = State.empty(family)
    for batch in itertools.islice(batches(), 20):
        state, _, _ = step(family, Config(kernel=kernel), state, batch, EXECUTOR)
        assert (state.time - state.history_times < np.log2(10.0)).all()


def test_a_box_forgets_a_batch_exactly():
    """After `length` nothing is left of a batch, to the last bit: not even round-off."""
    family, batches = STREAMS["multinomial"]  # counts: sums of integers are exact
    config = Config.paper(kernel=Box(length=4.0))
    state, last_seen = State.empty(family), []
    for batch in itertools.islice(batches(), 15):
        state, _, _ = step(family, config, state, batch, EXECUTOR)
        last_seen.append(batch.rows)
        inside = np.concatenate(last_seen[-4:])
        total = state.cluster_stats.sum(axis=0)
        assert total[0] == len(inside)
        np.testing.assert_array_equal(total[1:], inside.sum(axis=0))


def test_a_box_is_empty_after_a_long_time_without_data():
    family, batches = STREAMS["gaussian"]
    config = Config(kernel=Box(length=2.0))
    state = State.empty(family)
    for batch in itertools.islice(batches(), 5):
        state, _, _ = step(family, config, state, batch, EXECUTOR)
    late = Batch(np.full((0, 2), 0.0), state.time + 50.0)
    state, _, _ = step(family, config, state, late, EXECUTOR)
    assert state.total_weight == 0.0
    again = Batch(next(iter(batches())).rows, state.time + 1.0)
    state, labels, _ = step(family, config, state, again, EXECUTOR)
    assert state.total_weight == again.n_rows
    assert len(labels) == again.n_rows


@pytest.mark.parametrize("kernel", [Exponential(2.0), Box(5.0), ring_of_the_same()])
def test_equal_times_do_not_change_weights(kernel):
    """Two batches at one time weigh as much as both together."""
    family, batches = STREAMS["gaussian"]
    first, second = itertools.islice(batches(), 2)
    config = Config(kernel=kernel)
    state, _, _ = step(family, config, State.empty(family), first, EXECUTOR)
    before = state.cluster_stats.sum(axis=0)
    state = forget(family, config, state, state.time, motion=True)
    np.testing.assert_allclose(state.cluster_stats.sum(axis=0), before, rtol=1e-12)
    state, _, _ = step(family, config, state, Batch(second.rows, state.time), EXECUTOR)
    assert state.total_weight == pytest.approx(first.n_rows + second.n_rows)
