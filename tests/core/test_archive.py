"""The archive: what is kept of a removed cluster, and which new group takes its id."""

from __future__ import annotations

import numpy as np

from scstream.core.archive import born_before, recognise, retire, without
from scstream.core.config import Config
from scstream.core.state import NOVEL, Archive
from tests.core.states import FAMILIES, random_state

FAMILY = FAMILIES["gaussian"]


def stats_at(*centres, n=30, seed=0):  # (G, P)
    rng = np.random.default_rng(seed)
    centres = np.asarray(centres, dtype=float)
    rows = np.repeat(centres, n, axis=0) + rng.normal(size=(n * len(centres), 2))
    return FAMILY.stats(rows, np.repeat(np.arange(len(centres)), n), len(centres))


def archive_at(ids, *centres):
    return Archive(np.array(ids), stats_at(*centres), -np.arange(1.0, len(ids) + 1.0))


def test_removed_clusters_are_kept_with_the_statistics_of_their_largest_weight():
    state = random_state("gaussian", [[9, 4], [2, 7], [5, 5]])
    state = state.replace(peak=np.array([50.0, 60.0, 70.0]))
    removed = np.array([True, False, True])
    kept = retire(Config(archive=True), state, removed)
    assert kept.ids.tolist() == [0, 2]
    np.testing.assert_allclose(kept.stats[:, 0], [50.0, 70.0])
    share = kept.stats / kept.stats[:, :1]
    of_state = state.cluster_stats[removed] / state.weight[removed, None]
    np.testing.assert_allclose(share, of_state)
    np.testing.assert_array_equal(kept.born, state.born[removed])
    assert len(retire(Config(), state, removed).ids) == 0


def test_clusters_without_weight_are_not_kept_and_the_oldest_are_dropped():
    state = random_state("gaussian", [[9, 4], [2, 7], [5, 5]])
    empty = state.replace(
        past=state.past * np.array([0.0, 1.0, 1.0])[:, None, None],
        current=state.current * np.array([0.0, 1.0, 1.0])[:, None, None],
        archive=archive_at([7], [0.0, 0.0]),
    )
    everything = np.ones(3, dtype=bool)
    assert retire(Config(archive=True), empty, everything).ids.tolist() == [7, 1, 2]
    assert retire(Config(archive=True, max_clusters=2), empty, everything).ids.tolist() == [1, 2]


def test_a_group_takes_the_id_of_the_archived_cluster_that_explains_it():
    archive = archive_at([4, 9], [0.0, 0.0], [60.0, 0.0])
    groups = stats_at([60.0, 0.3], [0.0, 60.0], [0.2, 0.0], seed=1)
    assert recognise(FAMILY, archive, groups).tolist() == [9, NOVEL, 4]


def test_an_archived_cluster_returns_once_to_the_group_it_explains_best():
    archive = archive_at([4], [0.0, 0.0])
    groups = stats_at([0.3, 0.0], [0.0, 0.0], [-0.3, 0.0], seed=1)
    together = [FAMILY.log_marginal(archive.stats + group)[0] for group in groups]
    gain = together - FAMILY.log_marginal(groups) - FAMILY.log_marginal(archive.stats)[0]
    assert (gain > 0).all()
    expected = np.where(np.arange(3) == gain.argmax(), 4, NOVEL)
    assert recognise(FAMILY, archive, groups).tolist() == expected.tolist()


def test_a_group_takes_one_id_where_two_archived_clusters_explain_it():
    archive = archive_at([4, 9], [1.0, 0.0], [0.1, 0.0])
    assert recognise(FAMILY, archive, stats_at([0.0, 0.0], seed=1)).tolist() == [9]


def test_nothing_is_recognised_without_an_archive_or_groups():
    nothing = Archive.empty(FAMILY.n_stats)
    assert recognise(FAMILY, nothing, stats_at([0.0, 0.0])).tolist() == [NOVEL]
    assert recognise(FAMILY, archive_at([4], [0.0, 0.0]), np.zeros((0, FAMILY.n_stats))).size == 0


def test_a_returning_cluster_keeps_its_birth_and_leaves_the_archive():
    archive = archive_at([4, 9], [0.0, 0.0], [60.0, 0.0])
    known = np.array([NOVEL, 9])
    assert born_before(archive, known, 5.0).tolist() == [5.0, -2.0]
    left = without(archive, known[1:])
    assert left.ids.tolist() == [4]
    assert left.born.tolist() == [-1.0]
    np.testing.assert_array_equal(left.stats, archive.stats[:1])
