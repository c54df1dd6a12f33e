"""Surgery conserves statistics, layer by layer, and treats ids with respect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scstream.core import default, paper
from scstream.core.cluster_edits import (
    add_clusters,
    merge_clusters,
    remove_clusters,
    split_clusters,
    take,
)
from scstream.core.config import Config
from scstream.core.state import NOVEL, Transition
from tests.core.states import FAMILIES, random_halves, random_state

LAYERS = ("past", "current", "history")
SIZES = [[9, 4], [2, 7], [5, 5], [1, 3]]
EDITS = {"default": default.RULES.edits, "paper": paper.RULES.edits}
every_family = pytest.mark.parametrize("name", FAMILIES)
every_algorithm = pytest.mark.parametrize("algorithm", EDITS)


def totals(state):
    """Sum over clusters and halves of every layer."""
    return {layer: getattr(state, layer).sum(axis=(-3, -2)) for layer in LAYERS}


def assert_same_totals(before, after):
    for layer, total in totals(before).items():
        np.testing.assert_allclose(totals(after)[layer], total, rtol=1e-12, atol=1e-11)


def assert_orderly(state):
    assert (np.diff(state.ids) > 0).all()
    assert state.next_id > state.ids.max(initial=-1)
    n = state.n_clusters
    for name in ("age", "born", "last_seen", "peak", "velocity", "past", "current"):
        assert len(getattr(state, name)) == n, name
    assert state.history.shape[1:] == state.past.shape
    assert (state.subclusters[..., 0] >= 0).all()


@every_family
@every_algorithm
@pytest.mark.parametrize("n_history", [0, 3])
def test_a_split_conserves_statistics(name, algorithm, n_history):
    state = random_state(name, SIZES, n_history=n_history)
    draft = split_clusters(
        FAMILIES[name], EDITS[algorithm], Transition.of(state), np.array([0, 1, 3])
    )
    assert_same_totals(state, draft.state)
    assert_orderly(draft.state)
    assert draft.state.n_clusters == 7
    assert draft.state.total_weight == pytest.approx(state.total_weight)
    assert np.isfinite(FAMILIES[name].log_marginal(draft.state.subclusters)).all()


@every_family
@every_algorithm
def test_the_subclusters_of_a_split_become_clusters(name, algorithm):
    state = random_state(name, SIZES, n_history=2)
    draft = split_clusters(FAMILIES[name], EDITS[algorithm], Transition.of(state), np.array([1]))
    event = draft.events[-1]
    assert event.kind == "split"
    assert event.other == state.next_id
    for layer in LAYERS:
        children = [
            getattr(draft.state, layer)[..., np.searchsorted(draft.state.ids, i), :, :].sum(axis=-2)
            for i in (event.id, event.other)
        ]
        subclusters = getattr(state, layer)[..., 1, :, :]
        leaver = int(np.flatnonzero(draft.label_ids[1] == event.other)[0])
        np.testing.assert_allclose(children[1], subclusters[..., leaver, :], rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(
            children[0], subclusters[..., 1 - leaver, :], rtol=1e-12, atol=1e-11
        )


@pytest.mark.parametrize(("sizes", "leaver"), [([9, 4], 1), ([4, 9], 0)])
def test_the_heavier_subcluster_keeps_the_id(sizes, leaver):
    """Rows of the lighter half are renamed; the paper's rule renames the right one."""
    state = random_state("gaussian", [[5, 5], sizes])
    family = FAMILIES["gaussian"]
    draft = split_clusters(family, EDITS["default"], Transition.of(state), np.array([1]))
    assert draft.label_ids[1, leaver] == state.next_id
    assert draft.label_ids[1, 1 - leaver] == state.ids[1]
    assert draft.label_ids[0].tolist() == [state.ids[0]] * 2
    draft = split_clusters(family, EDITS["paper"], Transition.of(state), np.array([1]))
    assert draft.label_ids[1].tolist() == [state.ids[1], state.next_id]


def test_clusters_from_a_split_have_age_zero():
    state = random_state("gaussian", SIZES)
    aged = np.full(4, 9)
    draft = split_clusters(
        FAMILIES["gaussian"],
        EDITS["default"],
        Transition.of(replace(state, age=aged)),
        np.array([2]),
    )
    assert draft.state.age.tolist() == [9, 9, 0, 9, 0]
    assert draft.state.born[-1] == state.time


def test_evidence_of_clusters_that_split_or_merge_starts_again():
    """Evidence of other clusters and pairs is kept."""
    state = random_state("gaussian", SIZES).replace(
        split_evidence=np.array([1.0, 2.0, 3.0, 4.0]),
        merge_pairs=np.array([[0, 1], [1, 2], [0, 3]]),
        merge_evidence=np.array([0.1, 0.2, 0.3]),
    )
    split = split_clusters(
        FAMILIES["gaussian"], EDITS["default"], Transition.of(state), np.array([2])
    ).state
    assert split.split_evidence.tolist() == [1.0, 2.0, 0.0, 4.0, 0.0]
    assert split.merge_pairs.tolist() == [[0, 1], [0, 3]]
    assert split.merge_evidence.tolist() == [0.1, 0.3]
    merged = merge_clusters(EDITS["paper"], Transition.of(state), [(1, 2)]).state
    assert merged.split_evidence.tolist() == [1.0, 0.0, 4.0]
    assert merged.merge_pairs.tolist() == [[0, 3]]
    assert merged.merge_evidence.tolist() == [0.3]


@every_family
@every_algorithm
@pytest.mark.parametrize("n_history", [0, 3])
def test_a_merge_conserves_statistics(name, algorithm, n_history):
    state = random_state(name, SIZES, n_history=n_history)
    draft = merge_clusters(EDITS[algorithm], Transition.of(state), [(0, 3), (1, 2)])
    assert_same_totals(state, draft.state)
    assert_orderly(draft.state)
    assert draft.state.n_clusters == 2
    assert draft.state.total_weight == pytest.approx(state.total_weight)


def test_merged_clusters_become_subclusters_of_their_union():
    state = random_state("gaussian", [[4, 4], [9, 9], [2, 2]])
    draft = merge_clusters(EDITS["default"], Transition.of(state), [(0, 1)])
    union = draft.state.subclusters[np.searchsorted(draft.state.ids, 1)]
    order = np.argsort(union[:, 0])
    np.testing.assert_allclose(union[order], state.cluster_stats[[0, 1]])


@pytest.mark.parametrize("pair", [(0, 1), (1, 2)])
def test_the_heavier_cluster_keeps_the_id(pair):
    """Cluster 1 is the heaviest, on either side of a pair; the paper's rule keeps the older."""
    state = random_state("gaussian", [[4, 4], [9, 9], [2, 2]])
    draft = merge_clusters(EDITS["default"], Transition.of(state), [pair])
    gone = 0 if pair == (0, 1) else 2
    assert gone not in draft.state.ids
    assert draft.label_ids[gone].tolist() == [1, 1]
    assert draft.events[-1].id == 1
    assert draft.events[-1].other == gone
    assert draft.events[-1].weight == pytest.approx(state.weight[list(pair)].sum())
    paper = merge_clusters(EDITS["paper"], Transition.of(state), [pair])
    assert pair[0] in paper.state.ids
    assert pair[1] not in paper.state.ids


def test_a_merged_cluster_takes_the_earlier_birth_and_the_later_last_seen():
    state = random_state("gaussian", [[4, 4], [9, 9]])
    state = replace(state, born=np.array([-3.0, 2.0]), last_seen=np.array([1.0, 3.0]))
    union = merge_clusters(EDITS["default"], Transition.of(state), [(0, 1)]).state
    assert union.born.tolist() == [-3.0]
    assert union.last_seen.tolist() == [3.0]
    share = state.weight / state.weight.sum()
    np.testing.assert_allclose(union.velocity[0], share @ state.velocity)


@every_family
def test_merging_undoes_a_split(name):
    state = random_state(name, SIZES, n_history=2)
    split = split_clusters(FAMILIES[name], EDITS["default"], Transition.of(state), np.array([2]))
    k = int(np.flatnonzero(split.state.ids == state.ids[2])[0])
    again = merge_clusters(EDITS["default"], split, [(k, split.state.n_clusters - 1)])
    np.testing.assert_allclose(
        again.state.cluster_stats, state.cluster_stats, rtol=1e-12, atol=1e-11
    )
    assert again.state.ids.tolist() == state.ids.tolist()
    assert again.label_ids.tolist() == np.repeat(state.ids[:, None], 2, axis=1).tolist()


@every_family
@pytest.mark.parametrize("archive", [False, True])
def test_removing_a_cluster_adds_its_weight_to_the_unassigned_weight(name, archive):
    state = random_state(name, SIZES, n_history=2)
    dead = np.array([False, True, False, True])
    draft = remove_clusters(Config(archive=archive), Transition.of(state), dead)
    buried = take(state, np.flatnonzero(dead))
    assert draft.state.ids.tolist() == [0, 2]
    assert draft.state.total_weight == pytest.approx(state.total_weight)
    assert draft.state.unassigned_weight == pytest.approx(
        state.unassigned_weight + buried.past[..., 0].sum()
    )
    assert draft.state.unassigned_now == pytest.approx(
        state.unassigned_now + buried.current[..., 0].sum()
    )
    np.testing.assert_allclose(
        draft.state.history_unassigned,
        state.history_unassigned + buried.history[..., 0].sum(axis=(1, 2)),
    )
    assert (draft.label_ids[dead] == NOVEL).all()
    assert [e.kind for e in draft.events] == ["died", "died"]
    assert len(draft.state.archive.ids) == (2 if archive else 0)
    assert_orderly(draft.state)


def test_ids_of_removed_clusters_are_not_reused():
    state = random_state("gaussian", SIZES)
    draft = remove_clusters(Config(), Transition.of(state), np.array([False, False, False, True]))
    rng = np.random.default_rng(1)
    draft = add_clusters(draft, random_halves("gaussian", [[3, 3]], rng), np.array([NOVEL]))
    assert draft.state.ids.tolist() == [0, 1, 2, 4]
    assert draft.state.next_id == 5


def test_a_retired_cluster_returns_under_its_id():
    state = random_state("gaussian", SIZES)
    config = Config(archive=True)
    draft = remove_clusters(config, Transition.of(state), np.array([False, True, True, False]))
    assert draft.state.archive.ids.tolist() == [1, 2]
    subclusters = random_halves("gaussian", [[3, 3], [4, 2]], np.random.default_rng(1))
    again = add_clusters(draft, subclusters, np.array([NOVEL, 2]))
    assert again.state.ids.tolist() == [0, 2, 3, 4]
    assert again.state.next_id == 5
    assert again.state.archive.ids.tolist() == [1]
    assert [(e.kind, e.id) for e in again.events[-2:]] == [("born", 4), ("returned", 2)]
    np.testing.assert_array_equal(again.state.current[[3, 1]], subclusters)
    assert_orderly(again.state)


def test_new_clusters_have_no_past_statistics():
    state = random_state("gaussian", SIZES, n_history=2)
    subclusters = random_halves("gaussian", [[3, 2], [8, 8]], np.random.default_rng(1))
    draft = add_clusters(Transition.of(state), subclusters, np.full(2, NOVEL))
    grown = draft.state
    assert grown.ids.tolist() == [0, 1, 2, 3, 4, 5]
    assert (grown.past[4:] == 0).all()
    assert (grown.history[:, 4:] == 0).all()
    assert (grown.velocity[4:] == 0).all()
    assert (grown.born[4:] == state.time).all()
    np.testing.assert_array_equal(grown.current[4:], subclusters)
    assert [(e.kind, e.id) for e in draft.events] == [("born", 4), ("born", 5)]
    assert_orderly(grown)


def test_cluster_edits_do_not_modify_their_input():
    state = random_state("gaussian", SIZES, n_history=2)
    before = {layer: getattr(state, layer).copy() for layer in (*LAYERS, "ids", "age", "velocity")}
    split_clusters(FAMILIES["gaussian"], EDITS["default"], Transition.of(state), np.array([0, 2]))
    merge_clusters(EDITS["default"], Transition.of(state), [(0, 1)])
    remove_clusters(Config(), Transition.of(state), np.array([True, False, False, False]))
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(state, name), values)
