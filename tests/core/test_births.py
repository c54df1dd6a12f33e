"""Births from rows that no cluster explains, and removal at the end of a batch."""

from __future__ import annotations

import numpy as np
import pytest

from scstream.compute.threads import ThreadExecutor
from scstream.core import default
from scstream.core.births import group_rows, propose_births
from scstream.core.config import Config
from scstream.core.finish import merge_lightest, remove_unsupported
from scstream.core.state import Batch, Transition
from scstream.core.sweep import mean_params
from tests.core.states import FAMILIES, random_halves, with_clusters

FAMILY = FAMILIES["gaussian"]


def after_births(config, sizes, *, n_clusters=1):
    """Births from groups of these sizes, far from each other and from `n_clusters` clusters."""
    rng = np.random.default_rng(0)
    state = with_clusters(FAMILY, random_halves("gaussian", [[20, 20]] * n_clusters, rng))
    places = 300.0 * np.column_stack([np.arange(1, len(sizes) + 1), np.ones(len(sizes))])
    rows = np.repeat(places, sizes, axis=0) + rng.normal(size=(sum(sizes), 2))
    loaded = ThreadExecutor().load(FAMILY, Batch(rows, 0.0))
    loaded.assign(mean_params(FAMILY, config, state, state, births=True))
    transition = propose_births(FAMILY, config, default.RULES.edits, Transition.of(state), loaded)
    return transition, rows


def test_groups_of_the_least_weight_are_born_and_smaller_ones_are_not():
    transition, rows = after_births(Config(min_birth_weight=6.0), [5, 6, 30])
    born = transition.state.cluster_stats[1:]
    assert sorted(born[:, 0].tolist()) == [6.0, 30.0]
    assert [event.kind for event in transition.events] == ["born", "born"]
    group = np.repeat([-1, 0, 1], [5, 6, 30])
    expected = FAMILY.stats(rows, group, 2)
    np.testing.assert_allclose(born[np.argsort(born[:, 0])], expected, rtol=1e-9)


@pytest.mark.parametrize(("room", "expected"), [(0, []), (1, [30.0]), (2, [12.0, 30.0])])
def test_the_heaviest_groups_take_the_room_that_is_left(room, expected):
    transition, _ = after_births(Config(max_clusters=2 + room), [8, 30, 12], n_clusters=2)
    assert sorted(transition.state.weight[2:].tolist()) == expected


def test_rows_without_weight_form_no_group():
    rows = np.array([[0.0, 0.0], [0.1, 0.0], [99.0, 99.0]])
    groups = group_rows(FAMILY, Config(), rows, np.array([1.0, 2.0, 0.0]), key=1)
    assert groups[:, 0].tolist() == [3.0]
    nothing = group_rows(FAMILY, Config(), rows, np.zeros(3), key=1)
    assert nothing.shape == (1, FAMILY.n_stats)
    assert not nothing.any()


def light_state(weights, current, born=-9.0):
    """Clusters of these weights, a share `current` of them from the batch, born earlier."""
    halves = random_halves("gaussian", [[5, 5]] * len(weights), np.random.default_rng(1))
    halves = halves * (np.asarray(weights) / 10.0)[:, None, None]
    share = np.asarray(current)[:, None, None]
    state = with_clusters(FAMILY, halves, time=3.0)
    return state.replace(
        past=(1.0 - share) * halves, current=share * halves, born=np.full(len(weights), born)
    )


def test_light_clusters_without_rows_are_removed():
    state = light_state([0.9, 0.9, 1.0, 30.0], [0.0, 0.5, 0.0, 0.0])
    after = remove_unsupported(Config(), Transition.of(state), newborn=True)
    assert after.state.ids.tolist() == [1, 2, 3]
    assert [(event.kind, event.id) for event in after.events] == [("died", 0)]


def test_light_new_clusters_are_removed_only_if_asked():
    state = light_state([4.9, 5.0, 30.0], [1.0, 1.0, 1.0], born=3.0)
    for newborn, expected in ((True, [1, 2]), (False, [0, 1, 2])):
        after = remove_unsupported(Config(), Transition.of(state), newborn=newborn)
        assert after.state.ids.tolist() == expected
    with_a_past = light_state([4.9, 30.0], [0.9, 1.0], born=3.0)
    after = remove_unsupported(Config(), Transition.of(with_a_past), newborn=True)
    assert after.state.ids.tolist() == [0, 1]


def test_the_heaviest_cluster_stays_if_all_lost_their_support():
    state = light_state([0.2, 0.7, 0.5], [0.0, 0.0, 0.0])
    after = remove_unsupported(Config(), Transition.of(state), newborn=True)
    assert after.state.ids.tolist() == [1]
    assert after.state.total_weight == pytest.approx(1.4)


@pytest.mark.parametrize(("max_clusters", "expected"), [(5, [0, 1, 2, 3]), (4, [0, 1, 3])])
def test_the_lightest_cluster_merges_with_the_nearest_when_the_model_is_full(
    max_clusters, expected
):
    centres = np.array([[0.0, 0.0], [50.0, 0.0], [43.0, 0.0], [0.0, 50.0]])
    rng = np.random.default_rng(2)
    rows = np.repeat(centres, [40, 30, 8, 20], axis=0) + rng.normal(size=(98, 2))
    side = np.arange(98) % 2
    halves = FAMILY.stats(rows, 2 * np.repeat([0, 1, 2, 3], [40, 30, 8, 20]) + side, 8)
    state = with_clusters(FAMILY, halves.reshape(4, 2, -1))
    config = Config(max_clusters=max_clusters)
    after = merge_lightest(FAMILY, config, default.RULES.edits, Transition.of(state))
    assert after.state.ids.tolist() == expected
    if max_clusters == 4:
        assert (after.events[-1].id, after.events[-1].other) == (1, 2)
