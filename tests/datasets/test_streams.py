"""What every stream promises: the same batches at every reading, drawn lazily, without growing."""

import pickle
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest

from scstream.datasets import (
    LabelledBatch,
    Stream,
    abrupt_gaussians,
    births_and_deaths,
    drifting_gaussians,
    drifting_multinomials,
    gradual_gaussians,
    recurring_gaussians,
    stationary_gaussians,
)
from scstream.datasets.counts import Kind
from scstream.errors import InputError

Make = Callable[..., Stream]


def counts(kind: Kind, **options: Any) -> Make:
    def make(**sizes: Any) -> Stream:
        return drifting_multinomials(6, 12, kind=kind, **options, **sizes)

    return make


def gaussians(generator: Make, *sizes: int, **options: Any) -> Make:
    def make(**more: Any) -> Stream:
        return generator(*sizes, **options, **more)

    return make


STREAMS = {
    "stationary": gaussians(stationary_gaussians, 4),
    "null": gaussians(stationary_gaussians, 1, 3),
    "incremental": gaussians(drifting_gaussians, 4, 3),
    "gradual": gaussians(gradual_gaussians, 4, period=8),
    "abrupt": gaussians(abrupt_gaussians, 4, jumps=(3, 5)),
    "recurring": gaussians(recurring_gaussians, 6, 5, n_active=3, swap=2, phase=2),
    "far births": gaussians(births_and_deaths, 4, birth_every=2, deaths=True),
    "near births": gaussians(births_and_deaths, 4, birth_every=2, deaths=True, distance="near"),
    "counts stationary": counts("stationary"),
    "counts incremental": counts("incremental", period=8),
    "counts gradual": counts("gradual", period=8),
    "counts abrupt": counts("abrupt", period=4),
    "counts recurring": counts("recurring", phase=2),
    "counts births": counts("births", birth_every=2, deaths=True),
    "counts near births": counts("births", birth_every=2, deaths=True, distance="near"),
}
every_stream = pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS.keys())


def same(a: LabelledBatch, b: LabelledBatch) -> bool:
    return a.time == b.time and np.array_equal(a.X, b.X) and np.array_equal(a.y, b.y)


@every_stream
@pytest.mark.parametrize("random_state", [7, None])
def test_two_readings_are_equal(make: Make, random_state: int | None) -> None:
    stream = make(n_batches=6, batch_size=40, random_state=random_state)
    first, second = list(stream), list(stream)
    assert len(first) == len(stream) == 6
    assert all(map(same, first, second))
    assert all(np.array_equal(a.oracle(), b.oracle()) for a, b in zip(first, second, strict=True))


@every_stream
def test_readings_side_by_side_do_not_disturb_each_other(make: Make) -> None:
    stream = make(n_batches=6, batch_size=40, random_state=1)
    assert all(same(a, b) for a, b in zip(stream, stream, strict=True))


@every_stream
def test_a_seed_is_a_stream_and_another_seed_another(make: Make) -> None:
    sizes = {"n_batches": 2, "batch_size": 40}
    one, again, other = (list(make(**sizes, random_state=seed)) for seed in (1, np.int64(1), 2))
    assert all(map(same, one, again))
    assert not same(one[0], other[0])


@every_stream
def test_a_pickled_stream_is_the_same_stream(make: Make) -> None:
    stream = make(n_batches=3, batch_size=20, random_state=1)
    assert all(map(same, stream, pickle.loads(pickle.dumps(stream))))


@every_stream
def test_batches_are_well_formed(make: Make) -> None:
    for number, batch in enumerate(make(n_batches=6, batch_size=30, random_state=3)):
        oracle = batch.oracle()
        assert batch.X.shape[0] == 30
        assert batch.y.shape == oracle.shape == (30,)
        assert batch.y.dtype == oracle.dtype == np.int64
        assert batch.time == float(number)
        assert np.isfinite(batch.X).all()
        assert set(batch.y.tolist()) | set(oracle.tolist()) <= set(batch.truth.labels.tolist())
        assert batch.truth.weights.sum() == pytest.approx(1.0)


@every_stream
def test_an_infinite_stream_is_lazy_and_does_not_grow(make: Make) -> None:
    stream = make(n_batches=None, batch_size=5, random_state=3)
    with pytest.raises(TypeError, match="infinite"):
        len(stream)
    with pytest.raises(TypeError, match="infinite"):
        _ = stream.births
    batches = islice(stream, 300)
    sizes = [len(pickle.dumps(batch)) for batch in batches]
    assert max(sizes[200:]) <= max(sizes[:50]) + 100
    assert len(stream.take(4)) == 4


@every_stream
def test_take_gives_the_first_batches(make: Make) -> None:
    stream = make(n_batches=6, batch_size=20, random_state=3)
    assert all(map(same, stream.take(3), stream))
    assert len(list(stream.take(3))) == 3
    assert len(stream.take(99)) == 6


@every_stream
def test_batch_size_does_not_change_the_drift(make: Make) -> None:
    small, large = (make(n_batches=6, batch_size=n, random_state=5) for n in (10, 300))
    for a, b in zip(small, large, strict=True):
        assert np.array_equal(a.truth.labels, b.truth.labels)
        assert np.array_equal(a.truth.weights, b.truth.weights)
        assert np.array_equal(a.truth.old, b.truth.old)
        assert np.array_equal(a.truth.new, b.truth.new)


def test_a_generator_gives_the_seed_once() -> None:
    rng = np.random.default_rng(0)
    a, b = (drifting_gaussians(3, n_batches=2, random_state=rng) for _ in range(2))
    assert a.seed != b.seed
    assert all(map(same, a, a))


def test_rows_are_in_order_of_time() -> None:
    batch = list(drifting_gaussians(3, n_batches=3, batch_size=4, random_state=0))[2]
    assert batch.row_times.tolist() == [2.0, 2.25, 2.5, 2.75]


def test_a_batch_is_frozen() -> None:
    batch = next(iter(stationary_gaussians(2, batch_size=4, random_state=0)))
    with pytest.raises(AttributeError):
        batch.time = 3.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("generator", "options", "sentence"),
    [
        (stationary_gaussians, {"n_clusters": 0}, "n_clusters must be at least 1, not 0"),
        (stationary_gaussians, {"n_features": 0}, "n_features must be at least 1"),
        (stationary_gaussians, {"batch_size": 0}, "batch_size must be at least 1"),
        (stationary_gaussians, {"n_batches": -1}, "n_batches must be at least 0"),
        (stationary_gaussians, {"separation": 0.0}, "separation must be positive"),
        (drifting_gaussians, {"speed": float("nan")}, "speed must be at least 0"),
        (gradual_gaussians, {"period": 10, "transition": 10}, "does not fit into 10"),
        (gradual_gaussians, {"transition": -1}, "transition must be at least 0"),
        (gradual_gaussians, {"period": 0}, "period must be at least 1"),
        (recurring_gaussians, {"n_active": 49}, "cannot be active among 48"),
        (recurring_gaussians, {"n_active": 45}, "between 45 active and 3 inactive"),
        (recurring_gaussians, {"swap": 17}, "swap=17"),
        (recurring_gaussians, {"phase": 0}, "phase must be at least 1"),
        (recurring_gaussians, {"between": (0.5, 0.5, 1.0)}, "leave variance within"),
        (births_and_deaths, {"distance": "close"}, "one of far, near, not 'close'"),
        (births_and_deaths, {"weight": 1.0}, "weight must lie between 0 and 1"),
        (births_and_deaths, {"birth_every": 0}, "birth_every must be at least 1"),
        (births_and_deaths, {"n_batches": None}, "needs deaths=True"),
        (births_and_deaths, {"n_clusters": 1, "deaths": True}, "at least 2 clusters"),
        (drifting_multinomials, {"kind": "sudden"}, "kind must be one of gradual"),
        (drifting_multinomials, {"n_trials": 0}, "n_trials must be at least 1"),
        (drifting_multinomials, {"n_features": 1}, "n_features must be at least 2"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    generator: Make, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        generator(**options)


def test_no_room_for_a_near_birth_is_said() -> None:
    crowded = births_and_deaths(
        3, distance="near", birth_every=1, separation=0.1, n_batches=3, random_state=0
    )
    with pytest.raises(InputError, match="too crowded"):
        list(crowded)
