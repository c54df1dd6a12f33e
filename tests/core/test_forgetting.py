"""Time: fading composes, equal times accumulate, moving clusters are found where they went."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scstream.compute.threads import ThreadExecutor
from scstream.core.config import Config
from scstream.core.forgetting import due, forget
from scstream.core.state import Batch, State
from scstream.core.window import Box, Exponential, Windowed
from tests.core.states import FAMILIES, random_state, step, with_clusters

SIZES = [[9, 4], [2, 7]]
RING = Windowed(lambda age: 1.0 / (1.0 + age), capacity=10, epsilon=0.0)
KERNELS = [Exponential(2.0), Exponential(None), Box(4.0), RING]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)


def young(name="gaussian"):
    """A state that has seen one batch, at time 3."""
    state = random_state(name, SIZES)
    return replace(state, past=np.zeros_like(state.past), unassigned_weight=0.0)


def test_the_first_batch_sets_the_time():
    family = FAMILIES["gaussian"]
    state = forget(family, Config(), State.empty(family), 1e9, motion=True)
    assert state.time == 1e9
    assert state.n_clusters == 0


@every_kernel
def test_equal_times_forget_nothing(kernel):
    """Equal times accumulate: the newest batch joins the past at full weight."""
    state = young()
    config = Config(kernel=kernel)
    later = forget(FAMILIES["gaussian"], config, state, state.time, motion=True)
    np.testing.assert_allclose(later.past, state.current, rtol=1e-15)
    assert (later.current == 0).all()
    assert later.unassigned_weight == state.unassigned_now
    assert later.unassigned_now == 0.0
    assert later.total_weight == pytest.approx(state.total_weight)
    assert later.batch_interval == state.batch_interval


@every_kernel
@pytest.mark.parametrize("elapsed", [0.5, 1.0, 3.0])
def test_a_batch_is_weighted_by_its_age(kernel, elapsed):
    state = young()
    config = Config(kernel=kernel)
    later = forget(FAMILIES["gaussian"], config, state, state.time + elapsed, motion=False)
    factor = float(kernel.weight(np.asarray(elapsed)))
    np.testing.assert_allclose(later.past, factor * state.current, rtol=1e-12)
    assert later.unassigned_weight == pytest.approx(factor * state.unassigned_now)
    assert later.time == state.time + elapsed
    assert later.batch_interval == elapsed


@every_kernel
def test_two_intervals_equal_one_long_interval(kernel):
    """An empty batch in between changes nothing."""
    family, config, state = FAMILIES["gaussian"], Config(kernel=kernel), young()
    once = forget(family, config, state, state.time + 3.0, motion=False)
    twice = forget(family, config, state, state.time + 1.0, motion=False)
    twice = forget(family, config, twice, state.time + 3.0, motion=False)
    np.testing.assert_allclose(twice.past, once.past, rtol=1e-12)
    assert twice.unassigned_weight == pytest.approx(once.unassigned_weight)


def test_negligible_weights_are_removed():
    """Weights below 1e-12 are dropped, with all their statistics, before they underflow."""
    family, config = FAMILIES["gaussian"], Config(kernel=Exponential(1.0))
    state = young()
    later = forget(family, config, state, state.time + 60.0, motion=False)
    assert (later.past == 0).all()
    assert np.isfinite(family.log_marginal(later.subclusters)).all()


@pytest.mark.parametrize("name", ["gaussian", "diagonal"])
@pytest.mark.parametrize("kernel", [Exponential(2.0), RING], ids=["sum", "ring"])
def test_past_statistics_move_with_the_velocity(name, kernel):
    family, state = FAMILIES[name], random_state(name, SIZES)
    config = Config(kernel=kernel)
    still, moved = (
        forget(family, config, state, state.time + 2.0, motion=motion) for motion in (False, True)
    )
    np.testing.assert_array_equal(moved.past[..., 0], still.past[..., 0])
    shift = 2.0 * state.velocity
    both = still.past.sum(axis=1)
    np.testing.assert_allclose(
        moved.past.sum(axis=1), family.translate(both, shift), rtol=1e-9, atol=1e-9
    )


def test_a_family_without_translation_does_not_move():
    family, state = FAMILIES["multinomial"], random_state("multinomial", SIZES)
    state = replace(state, velocity=np.ones_like(state.velocity))
    still, moved = (
        forget(family, Config(), state, state.time + 2.0, motion=motion) for motion in (False, True)
    )
    np.testing.assert_array_equal(still.past, moved.past)


def test_a_constant_velocity_is_learned():
    """A lone cluster in uniform motion: after thirty batches its place is foretold."""
    family = FAMILIES["gaussian"]
    config, executor = Config(kernel=Exponential(10.0)), ThreadExecutor()
    velocity = np.array([0.3, -0.15])
    rng = np.random.default_rng(0)
    state = State.empty(family)
    for b in range(30):
        rows = velocity * 2.0 * b + rng.normal(size=(400, 2))
        state, _, _ = step(family, config, state, Batch(rows, 2.0 * b), executor)
    assert state.n_clusters == 1
    np.testing.assert_allclose(state.velocity[0], velocity, atol=0.05)
    next_ = due(family, config, state, None, motion=True)
    assert next_.time == 60.0
    np.testing.assert_allclose(family.means(next_.cluster_stats)[0], velocity * 60.0, atol=0.5)


def test_predicting_at_a_later_time_does_not_change_the_state():
    family, state = FAMILIES["gaussian"], with_clusters(FAMILIES["gaussian"], young().current)
    before = state.current.copy()
    later = due(family, Config(), state, state.time + 5.0, motion=True)
    assert later.time == state.time + 5.0
    np.testing.assert_array_equal(state.current, before)
    assert due(family, Config(), State.empty(family), 7.0, motion=True).n_clusters == 0
