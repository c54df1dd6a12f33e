"""Each kind of drift does what its name says."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from scstream.datasets import (
    Stream,
    abrupt_gaussians,
    births_and_deaths,
    drifting_gaussians,
    drifting_multinomials,
    gradual_gaussians,
    recurring_gaussians,
)
from scstream.datasets.counts import Kind
from scstream.datasets.drift import _reflect
from scstream.datasets.emissions import Gaussians
from scstream.datasets.truth import BatchTruth


def truths(stream: Stream) -> list[BatchTruth]:
    return [batch.truth for batch in stream]


@pytest.mark.parametrize("n_features", [1, 2, 16])
def test_incremental_means_move_at_their_speed_and_turn_slowly(n_features: int) -> None:
    """Away from the walls a heading turns by about .05 radians per orthogonal direction."""
    stream = drifting_gaussians(
        9, n_features, speed=0.2, separation=50, n_batches=200, batch_size=1, random_state=0
    )
    path = truths(stream)
    emission = path[0].emission
    assert isinstance(emission, Gaussians)
    strides = 0.2 * emission.scales(path[0].labels)
    steps = np.array([truth.new - truth.old for truth in path])  # (B,K,D)
    lengths = np.linalg.norm(steps, axis=2)
    free = np.isclose(lengths, strides, rtol=1e-9)
    assert (lengths <= strides + 1e-9).all()
    assert free.mean() > 0.9
    away = free[:-1] & free[1:]
    cosines = ((steps[:-1] * steps[1:]).sum(axis=2) / strides**2)[away]
    turns = np.arccos(np.clip(cosines, -1, 1))
    assert np.median(turns) <= 1.1 * 0.05 * np.sqrt(n_features - 1) + 1e-6


def test_incremental_scenes_join_without_a_jump() -> None:
    path = truths(drifting_gaussians(5, n_batches=30, batch_size=1, random_state=0))
    for now, then in pairwise(path):
        assert np.array_equal(now.new, then.old)


def test_reflection_keeps_means_in_the_box() -> None:
    stream = drifting_gaussians(
        5, speed=3, separation=4, n_batches=200, batch_size=1, random_state=0
    )
    half_width = 2 * np.sqrt(5)
    assert max(np.abs(truth.new).max() for truth in truths(stream)) <= half_width + 1e-9


@pytest.mark.parametrize(
    ("place", "folded", "turned"),
    [(0.5, 0.5, False), (1.25, 0.75, True), (-1.25, -0.75, True), (3.5, -0.5, False)],
)
def test_fold_mirrors_as_often_as_needed(place: float, folded: float, turned: bool) -> None:
    inside, mirrored = _reflect(np.array([[place]]), 1.0)
    assert inside.item() == pytest.approx(folded)
    assert mirrored.item() is turned


@pytest.mark.parametrize("kind", ["gradual", "incremental"])
def test_every_cluster_changes_once_within_the_stream_over_twenty_batches(kind: Kind) -> None:
    path = truths(drifting_multinomials(30, 10, kind=kind, batch_size=1, random_state=0))
    first, last = path[0], path[-1]
    assert len(path) == 50
    assert first.width == 20.0
    assert first.starts.min() >= 2.5
    assert first.starts.max() <= 30.0
    assert np.ptp(first.starts) > 20
    assert np.array_equal(first.new, last.new)
    assert (np.abs(first.old - first.new).max(axis=1) > 0).all()


def test_short_and_infinite_streams_have_transitions_that_fit() -> None:
    assert (
        truths(drifting_multinomials(3, 5, n_batches=10, batch_size=1, random_state=0))[0].width
        == 4.0
    )
    infinite = drifting_multinomials(3, 5, n_batches=None, batch_size=1, random_state=0)
    path = truths(infinite.take(101))
    assert np.array_equal(path[0].new, path[50].old)
    assert not np.array_equal(path[50].new, path[100].new)


@pytest.mark.statistics
def test_gradual_rows_alternate_with_rising_probability() -> None:
    """One cluster whose two places do not overlap: the share of new rows rises as a ramp.

    A batch of 2000 gives a standard error of at most .011; 30 batches at 5 standard errors.
    """
    stream = gradual_gaussians(
        1, separation=1000, n_batches=30, batch_size=2000, transition=10, random_state=0
    )
    for batch in stream:
        old, new = batch.truth.old[0], batch.truth.new[0]
        middle = 0.5 * (old + new)
        is_new = (batch.X - middle) @ (new - old) > 0
        expected = np.clip((batch.row_times - batch.truth.starts[0]) / 10, 0, 1).mean()
        assert is_new.mean() == pytest.approx(expected, abs=5 * 0.0112)
        assert (batch.oracle() == 0).all()


def test_abrupt_means_jump_at_the_given_batches_and_only_there() -> None:
    stream = abrupt_gaussians(4, jumps=(6, 2), n_batches=8, batch_size=50, random_state=0)
    path = truths(stream)
    jumps = [b for b in range(1, 8) if np.abs(path[b].old - path[b - 1].old).max(axis=1).min() > 0]
    assert jumps == [2, 6]
    unchanged = set(range(1, 8)) - {2, 6}
    assert all(np.array_equal(path[b].old, path[b - 1].old) for b in unchanged)


def test_abrupt_counts_all_change_in_the_middle_of_each_period() -> None:
    path = truths(
        drifting_multinomials(
            4, 6, kind="abrupt", period=4, n_batches=12, batch_size=1, random_state=0
        )
    )
    jumps = [b for b in range(1, 12) if not np.array_equal(path[b].old, path[b - 1].old)]
    assert jumps == [2, 6, 10]


@pytest.mark.parametrize(
    "stream",
    [
        recurring_gaussians(12, 4, n_active=4, phase=3, swap=2, n_batches=60, random_state=0),
        drifting_multinomials(12, 6, kind="recurring", phase=3, n_batches=60, random_state=0),
    ],
    ids=["gaussians", "counts"],
)
def test_recurring_clusters_rest_and_return_as_they_were(stream: Stream) -> None:
    places: dict[int, np.ndarray] = {}
    returned = 0
    path = truths(stream)
    for b, truth in enumerate(path):
        active = set(truth.labels.tolist())
        assert len(active) == 4
        if b:
            swapped = len(active - set(path[b - 1].labels.tolist()))
            assert swapped == (2 if b % 3 == 0 else 0)
            returned += sum(label in places and label not in path[b - 1].labels for label in active)
        for label, place in zip(truth.labels.tolist(), truth.old, strict=True):
            assert np.array_equal(places.setdefault(label, place), place)
    assert len(places) == 12
    assert returned > 10


def test_recurring_total_variance_is_one() -> None:
    """Between plus within variance over 400 clusters, by feature; the standard error is .05."""
    stream = recurring_gaussians(400, 20, n_active=400, swap=0, batch_size=1, random_state=0)
    truth = next(iter(stream)).truth
    assert isinstance(truth.emission, Gaussians)
    within = (truth.emission.factors**2).sum(axis=2).mean(axis=0)
    assert truth.old.var(axis=0) + within == pytest.approx(np.ones(20), abs=0.25)


def make_births(family: str, **options: Any) -> Stream:
    if family == "gaussians":
        return births_and_deaths(6, birth_every=4, n_batches=13, **options)
    return drifting_multinomials(
        6,
        40,
        kind="births",
        birth_every=4,
        n_batches=13,
        **options,
    )


@pytest.mark.parametrize("family", ["gaussians", "counts"])
@pytest.mark.parametrize("distance", ["far", "near"])
def test_births_come_on_time_with_their_weight_at_their_distance(
    family: str, distance: str
) -> None:
    stream = make_births(family, distance=distance, weight=0.07, random_state=3)
    assert stream.births == [(4, 6), (8, 7), (12, 8)]
    assert stream.deaths == []
    path = truths(stream)
    for batch, label in stream.births:
        truth = path[batch]
        assert truth.labels[-1] == label
        assert truth.weights[-1] == pytest.approx(0.07)
        assert truth.weights[:-1] == pytest.approx(0.93 * path[batch - 1].weights)
        assert np.array_equal(truth.old[:-1], path[batch - 1].old)
        gaps = truth.emission.distances(truth.old[-1:], label, truth.old[:-1], truth.labels[:-1])
        if distance == "near":
            assert np.isclose(gaps, 4.0, atol=0.01).any()
        else:
            assert gaps.min() > 5.0


@pytest.mark.parametrize("family", ["gaussians", "counts"])
def test_deaths_take_the_oldest(family: str) -> None:
    stream = make_births(family, deaths=True, random_state=0)
    assert stream.births == [(4, 6), (8, 7), (12, 8)]
    assert stream.deaths == [(4, 0), (8, 1), (12, 2)]
    assert [len(truth.labels) for truth in truths(stream)] == [6] * 13


def test_only_births_and_recurrence_have_births() -> None:
    assert drifting_gaussians(3, n_batches=5, random_state=0).births == []
    recurring = recurring_gaussians(6, 3, n_active=3, swap=3, n_batches=6, random_state=0)
    assert len(recurring.births) == 3
