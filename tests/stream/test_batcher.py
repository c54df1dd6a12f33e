"""Cuts fall in the same places however messages arrive, and wherever a run is taken up again."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scstream.errors import InputError, TimeError
from scstream.preprocess.block import Block
from scstream.stream.batcher import Batcher, Batching, Offset, SourceBatch
from scstream.stream.source import Record

SIZES = st.lists(st.integers(0, 7), min_size=1, max_size=12)


def messages(sizes, *, partition="", start=0):
    """Messages of so many rows; the first column numbers the rows, the second is their time."""
    records, first = [], start
    for i, size in enumerate(sizes):
        numbers = np.arange(first, first + size, dtype=float)
        X = np.column_stack([numbers, numbers])
        records.append((Record(i, i + 1, b"", partition), Block.of(X, at=numbers)))
        first += size
    return records


def drained(batcher: Batcher, records, *, final=True) -> list[SourceBatch]:
    batches = []
    for record, block in records:
        batcher.add(record, block, elapsed=0.0)
        while (boundary := batcher.next_boundary(elapsed=0.0, now=0.0)) is not None:
            assert batcher.has_rows_of(boundary)
            batches.append(batcher.take(boundary))
    if final and (boundary := batcher.next_boundary(elapsed=0.0, now=0.0, final=True)) is not None:
        batches.append(batcher.take(boundary))
    return batches


def numbers_in(batches):
    return [source_batch.block.X[:, 0].tolist() for source_batch in batches]


@given(SIZES, st.integers(1, 9), st.none() | st.integers(1, 9))
def test_batches_by_count_do_not_depend_on_messages(sizes, rows, first):
    batches = drained(Batcher(Batching(rows=rows, first=first)), messages(sizes))
    expected = list(range(sum(sizes)))
    got = [n for source_batch in numbers_in(batches) for n in source_batch]
    assert got == expected
    assert [len(p) for p in numbers_in(batches)[1:-1]] == [rows] * max(len(batches) - 2, 0)
    if len(batches) > 1:
        assert len(numbers_in(batches)[0]) == (first or rows)


@given(SIZES, st.integers(1, 9), st.data())
def test_a_run_continues_from_any_offset(sizes, rows, data):
    records = messages(sizes)
    whole = drained(Batcher(Batching(rows=rows)), records)
    if not whole:
        return
    at = data.draw(st.integers(0, len(whole) - 1))
    stop = whole[at].stop
    again = Batcher(Batching(rows=rows), batch=at + 1, offsets=dict(stop), is_first=False)
    rest = [pair for pair in records if pair[0].position >= stop[""].position]
    assert numbers_in(drained(again, rest)) == numbers_in(whole[at + 1 :])


@given(SIZES, SIZES, st.integers(1, 9), st.randoms(), st.randoms())
def test_recorded_boundaries_hold_for_any_order_of_partitions(left, right, rows, one, other):
    partitions = [messages(left, partition="a"), messages(right, partition="b", start=1000)]

    def shuffled(random):
        queues, order = [list(partition) for partition in partitions], []
        while any(queues):
            order.append(random.choice([q for q in queues if q]).pop(0))
        return order

    first = Batcher(Batching(rows=rows))
    boundaries, batches = [], []
    for record, block in shuffled(one):
        first.add(record, block, elapsed=0.0)
        while (boundary := first.next_boundary(elapsed=0.0, now=0.0)) is not None:
            boundaries.append(boundary)
            batches.append(first.take(boundary))
    second, again = Batcher(Batching(rows=rows)), []
    for record, block in shuffled(other):
        second.add(record, block, elapsed=0.0)
        while len(again) < len(boundaries) and second.has_rows_of(boundaries[len(again)]):
            again.append(second.take(boundaries[len(again)]))
    assert numbers_in(again) == numbers_in(batches)
    assert [p.spans for p in again] == [p.spans for p in batches]


@given(SIZES, st.integers(1, 5), st.data())
def test_event_time_boundaries_depend_on_the_rows_only(sizes, window, data):
    batching = Batching(rows=10**6, time="event", window=float(window), lateness=1.0)
    records = messages(sizes)
    batches = drained(Batcher(batching, "at"), records)
    got = [n for source_batch in numbers_in(batches) for n in source_batch]
    assert got == list(range(sum(sizes)))
    times = [source_batch.time for source_batch in batches]
    assert times == sorted(times)
    for before, after in pairwise(batches):
        assert np.floor(before.time / window) < np.floor((after.block.X[0, 0] - 1.0) / window)
    if batches:
        at = data.draw(st.integers(0, len(batches) - 1))
        last = batches[at]
        again = Batcher(
            batching,
            "at",
            batch=at + 1,
            offsets=dict(last.stop),
            watermark=last.time,
            is_first=False,
        )
        rest = [pair for pair in records if pair[0].position >= last.stop[""].position]
        resumed = drained(again, rest)
        assert numbers_in(resumed) == numbers_in(batches[at + 1 :])
        assert [p.time for p in resumed] == times[at + 1 :]


def test_offsets_stay_valid_if_rows_come_in_other_messages():
    batcher = Batcher(Batching(rows=4), batch=1, offsets={"": Offset(0, 5)}, is_first=False)
    small = [(Record(i, i + 1, b""), Block.of(np.full((2, 1), i))) for i in range(5)]
    assert numbers_in(drained(batcher, small)) == [[2.0, 3.0, 3.0, 4.0], [4.0]]


def late_stream(policy):
    batching = Batching(rows=3, time="event", late=policy)
    times = np.array([10.0, 11.0, 12.0, 3.0, 13.0, 14.0])
    batcher = Batcher(batching, "at")
    return drained(batcher, [(Record(0, 1, b""), Block.of(times[:, None], at=times))])


def test_late_rows_are_added_dropped_or_raise():
    assert late_stream("add")[1].block.X[:, 0].tolist() == [3.0, 13.0, 14.0]
    dropped = late_stream("drop")[1].block
    assert dropped.X[:, 0].tolist() == [13.0, 14.0]
    assert "late: its time is 3" in dropped.rejects[0].reason
    with pytest.raises(TimeError, match=r"batches up to 12\.000 are done"):
        late_stream("error")


def test_a_timer_ends_a_batch_with_the_rows_so_far():
    batcher = Batcher(Batching(rows=100, seconds=2.0, time="processing"))
    batcher.add(*messages([3])[0], elapsed=10.0)
    assert batcher.next_boundary(elapsed=11.9, now=500.0) is None
    boundary = batcher.next_boundary(elapsed=12.0, now=500.0)
    assert batcher.take(boundary).block.n_rows == 3
    batcher.add(Record(1, 2, b""), Block.of(np.ones((1, 2))), elapsed=20.0)
    assert batcher.next_boundary(elapsed=30.0, now=100.0).time == 500.0  # a clock that was set back


@pytest.mark.parametrize("window", [None, 2.0])
def test_nothing_shortens_the_first_batch(window):
    batching = Batching(rows=2, first=8, seconds=1.0, time="event", window=window)
    batcher = Batcher(batching, "at")
    for record, block in messages([3, 3]):
        batcher.add(record, block, elapsed=0.0)
    assert batcher.next_boundary(elapsed=100.0, now=0.0) is None
    assert batcher.next_boundary(elapsed=100.0, now=0.0, final=True).rows == {"": 6}


def test_the_origin_of_every_row_is_known():
    batcher = Batcher(Batching(rows=4))
    source_batch, second = drained(batcher, messages([3, 3]))
    assert source_batch.origin(0)[1].position == 0
    assert (source_batch.origin(3)[1].position, source_batch.origin(3)[1].row) == (1, 0)
    assert (second.origin(1)[1].position, second.origin(1)[1].row) == (1, 2)


@pytest.mark.parametrize(
    "wrong",
    [{"rows": 0}, {"seconds": -1.0}, {"time": "noon"}, {"late": "maybe"}, {"window": 3.0}],
)
def test_invalid_settings_are_rejected(wrong):
    with pytest.raises(InputError, match=r"batch\."):
        Batching(**wrong)
