"""Rows with a time each: learned in the order of time, with the weight that is left of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from scstream import Box, ScStream, Windowed
from scstream.errors import InputError, TimeError
from tests.digests import digest

RNG = np.random.default_rng(0)
ROWS = RNG.choice([-6.0, 6.0], size=(600, 1)) + RNG.normal(size=(600, 2))
TIMES = np.sort(RNG.uniform(0.0, 10.0, size=600))  # five half-lives
MORE = 11.0 + TIMES


def model(**params: Any) -> ScStream:
    return ScStream(**{"half_life": 2.0, "random_state": 0, **params})


def test_equal_times_are_the_time_of_a_batch() -> None:
    one, each = model(), model()
    for rows, time in ((ROWS[:300], 1.0), (ROWS[300:], 3.0)):
        one.partial_fit(rows, time=time)
        each.partial_fit(rows, time=np.full(len(rows), time))
        assert np.array_equal(one.labels_, each.labels_)
    assert digest(one.state_) == digest(each.state_)


def test_the_order_of_rows_does_not_matter() -> None:
    mixed = np.random.default_rng(1).permutation(600)
    one, other = model(), model()
    for times in (TIMES, MORE):
        one.partial_fit(ROWS, time=times)
        other.partial_fit(ROWS[mixed], time=times[mixed])
        assert np.array_equal(one.labels_[mixed], other.labels_)
    assert digest(one.state_) == digest(other.state_)


@pytest.mark.parametrize("sample_weight", [None, RNG.uniform(0.5, 2.0, size=600)])
@pytest.mark.parametrize("params", [{}, {"half_life": None}, {"half_life": 0.3}])
def test_weights_are_those_of_rows_that_come_alone(params: Any, sample_weight: Any) -> None:
    rows = np.random.default_rng(2).normal(size=(600, 2))
    found = model(**params).partial_fit(rows, time=TIMES, sample_weight=sample_weight)
    half_life = found.half_life or np.inf
    left = np.exp2(-(TIMES[-1] - TIMES) / half_life)
    expected = left.sum() if sample_weight is None else left @ sample_weight
    state = found.state_
    held = found.model_.held
    waiting = 0.0 if held is None or held.young else held.as_batch(found.config_, state.time)
    total = state.total_weight + (waiting if isinstance(waiting, float) else waiting.total_weight)
    assert total == pytest.approx(expected, rel=1e-6)
    assert found.model_.time == TIMES[-1]


def cut(times: Any, span: float) -> list[slice]:
    """The greedy pieces in which no row is older than the span."""
    begins = [0]
    for row, time in enumerate(times):
        if time - times[begins[-1]] > span:
            begins.append(row)
    return [slice(*ends) for ends in zip(begins, [*begins[1:], len(times)], strict=True)]


def test_a_long_table_is_learned_in_pieces_of_a_half_life() -> None:
    whole, by_hand = model(), model()
    labels = []
    pieces = cut(TIMES, 2.0)
    assert len(pieces) == 5
    for piece in pieces:
        newest = TIMES[piece][-1]
        left = np.exp2(-(newest - TIMES[piece]) / 2.0)
        labels.append(by_hand.partial_fit(ROWS[piece], time=newest, sample_weight=left).labels_)
    whole.partial_fit(ROWS, time=TIMES)
    assert digest(whole.state_) == digest(by_hand.state_)
    assert np.array_equal(whole.labels_, np.concatenate(labels))


@pytest.mark.parametrize(
    ("params", "n_batches"),
    [
        ({"half_life": None}, 1),
        ({"half_life": 100.0}, 1),
        ({"kernel": Box(2.5)}, 4),
        ({"kernel": Windowed(lambda age: 1.0 / (1.0 + age))}, 10),
    ],
)
def test_other_kernels(params: Any, n_batches: int) -> None:
    found = model(min_batch=1, **params).partial_fit(ROWS, time=TIMES)
    assert abs(found.state_.n_batches - n_batches) <= 1


def test_clusters_that_lived_early_are_found() -> None:
    rows = np.concatenate([ROWS[:300], ROWS[300:] + 100.0])
    found = model(half_life=0.5).partial_fit(rows, time=TIMES)
    assert (found.labels_[:300] >= 0).mean() > 0.9
    assert not {*found.labels_[:300].tolist()} & {*found.labels_[300:].tolist()} - {-1}


def test_late_rows_follow_the_parameter() -> None:
    strict = model().partial_fit(ROWS, time=MORE)
    before = digest(vars(strict))
    mixed = np.array([MORE[-1] + 1.0, 12.0, 11.5])
    with pytest.raises(TimeError, match=r"2 of 3 rows are older .* time 11.5 \(row 2\)"):
        strict.partial_fit(ROWS[:3], time=mixed)
    assert digest(vars(strict)) == before
    tolerant = model(late="add", min_batch=1).partial_fit(ROWS, time=MORE)
    weight, now = tolerant.state_.total_weight, MORE[-1]
    times = np.array([now + 1.0, now - 2.0, now - 4.0])
    tolerant.partial_fit(ROWS[:3], time=times)
    expected = weight * 0.5**0.5 + np.exp2(-(now + 1.0 - times) / 2.0).sum()
    assert tolerant.state_.total_weight == pytest.approx(expected)
    assert tolerant.state_.time == now + 1.0


def test_a_refused_piece_leaves_the_model_unchanged() -> None:
    found = model(family="gaussian").partial_fit(ROWS, time=TIMES)
    before = digest(vars(found))
    wrong = ROWS.copy()
    wrong[-1, 0] = np.nan
    with pytest.raises(InputError):
        found.partial_fit(wrong, time=MORE)
    assert digest(vars(found)) == before


def test_rows_of_no_weight_are_labelled_and_not_learned() -> None:
    found, same = model().partial_fit(ROWS, time=0.0), model().partial_fit(ROWS, time=0.0)
    found.partial_fit(ROWS, time=1.0, sample_weight=np.repeat([1.0, 0.0], 300))
    same.partial_fit(ROWS[:300], time=1.0)
    assert found.state_.total_weight == pytest.approx(same.state_.total_weight)
    assert (found.labels_ >= 0).mean() > 0.95


DATES = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=3 * n) for n in range(600)]
EXPECTED = [date.timestamp() for date in DATES]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("zone", [None, UTC])
def test_a_column_of_a_table(library: str, zone: Any) -> None:
    columns = {"x": ROWS[:, 0], "at": [date.replace(tzinfo=zone) for date in DATES]}
    columns |= {"y": ROWS[:, 1]}
    source = pytest.importorskip(library)
    table = source.table(columns) if library == "pyarrow" else source.DataFrame(columns)
    found = model(half_life="1h").partial_fit(table, time="at")
    plain = model(half_life="1h").partial_fit(ROWS, time=EXPECTED)
    assert found.feature_names_in_.tolist() == ["x", "y"]
    assert digest(found.state_) == digest(plain.state_)
    stream = [table[:300], table[300:]] if library != "pyarrow" else [table]
    assert model(half_life="1h").fit_stream(stream, time="at").model_.time == EXPECTED[-1]


@pytest.mark.parametrize(
    "times",
    [DATES, np.array(DATES), np.array([d.replace(tzinfo=None) for d in DATES], "datetime64[ms]")],
    ids=["list", "objects", "datetime64"],
)
def test_dates_count_in_seconds(times: Any) -> None:
    found = model(half_life=3600).partial_fit(ROWS, time=times)
    assert digest(found.state_) == digest(
        model(half_life=3600.0).partial_fit(ROWS, time=EXPECTED).state_
    )


def test_sparse_rows_and_empty_ones() -> None:
    counts = sparse.csr_array(np.random.default_rng(3).poisson(0.5, size=(200, 8)).astype(float))
    found = model().partial_fit(counts, time=TIMES[:200])
    dense = model(family="multinomial").partial_fit(counts.toarray(), time=TIMES[:200])
    assert found.family_.name == dense.family_.name
    assert np.array_equal(found.labels_, dense.labels_)
    before = found.model_.time
    assert found.partial_fit(counts[:0], time=[]).model_.time == before


@pytest.mark.parametrize(
    ("time", "sentence"),
    [
        ([1.0, 2.0], r"shape \(2,\) but X has 600 rows; give one time"),
        (np.zeros((600, 1)), r"shape \(600, 1\)"),
        (np.where(np.arange(600) == 7, np.nan, 1.0), "time is nan at row 7"),
        (np.array(["2026", "NaT"] * 300, "datetime64[s]"), "time is NaT at row 1"),
        (["noon"] * 600, "'noon'"),
        ([True] * 600, "one finite number"),
        ("at", "names a column, but X is not a table"),
    ],
)
def test_wrong_times_get_a_sentence(time: Any, sentence: str) -> None:
    found = model()
    with pytest.raises(InputError, match=sentence):
        found.partial_fit(ROWS, time=time)
    assert not hasattr(found, "model_")


def test_a_missing_column_is_named() -> None:
    table = pytest.importorskip("pandas").DataFrame(ROWS, columns=["x", "y"])
    with pytest.raises(InputError, match="no column 'at' of times; it has x, y"):
        model().partial_fit(table, time="at")
