"""Times in the future: no row and no clock moves the time of a model far ahead."""

import json

import numpy as np
import pytest

from scstream.errors import InputError
from scstream.observe.events import BatchLearned
from scstream.preprocess.block import Block
from scstream.stream.batcher import Batcher, Batching
from scstream.stream.checkpoint_log import VERSION
from scstream.stream.clock import ManualClock
from scstream.stream.config import build
from scstream.stream.source import Record

NOW = 1.8e9
DAY = 86400.0


def run(folder, times, *, clock=NOW, until=None, **batch):
    """Run a pipeline over rows of these times; return kept rows, reasons and future rows."""
    lines = [json.dumps({"x": i % 5, "id": i, "at": at}) for i, at in enumerate(times)]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    events = []
    pipeline = build(
        {
            "source": {"kind": "file", "path": str(folder / "rows.jsonl")},
            "schema": {"features": ["x"], "time": "at", "keep": ["id"]},
            "batch": {"rows": 20, "time": "event", **batch},
            "model": {"half_life": "10min"},
            "sink": {"kind": "file", "path": str(folder / "labels.jsonl"), "overwrite": True},
            "dead_letters": {
                "kind": "file",
                "path": str(folder / "dead.jsonl"),
                "overwrite": True,
            },
            "checkpoint": {"folder": str(folder / "state"), "batches": 1, "newest": 50},
        },
        emit=events.append,
    )
    pipeline.clock = ManualClock(clock)
    pipeline.run(until=until)
    kept = [json.loads(line)["id"] for line in (folder / "labels.jsonl").open()]
    reasons = [json.loads(line)["reason"] for line in (folder / "dead.jsonl").open()]
    return kept, reasons, [event for event in events if isinstance(event, BatchLearned)]


@pytest.mark.parametrize("batch", [{}, {"window": 30}])
@pytest.mark.parametrize("late", ["drop", "error", "add"])
def test_one_row_of_the_year_9999_does_not_make_later_rows_late(tmp_path, late, batch):
    times = [NOW - 1000 + i for i in range(100)]
    times[30] = 253370764800.0
    kept, reasons, batches = run(tmp_path, times, late=late, **batch)
    assert kept == [i for i in range(100) if i != 30]
    assert len(reasons) == 1
    assert reasons[0].startswith("future: its time is 253370764800.000")
    assert sum(learned.future for learned in batches) == 1


def test_a_replay_with_a_later_clock_rejects_the_same_rows(tmp_path):
    times = [NOW - 1000 + i for i in range(100)]
    times[30] = times[70] = NOW + 2 * DAY
    first = run(tmp_path, times)[:2]
    for path in (tmp_path / "state").glob(f"{VERSION}*"):
        path.unlink()  # as if it had crashed before any checkpoint
    assert run(tmp_path, times, clock=NOW + 3 * DAY)[:2] == first
    assert len(first[1]) == 2


def test_the_bound_can_be_changed_and_removed(tmp_path):
    times = [NOW - 1000 + i for i in range(99)] + [NOW + 3600]
    for name in "abc":
        (tmp_path / name).mkdir()
    assert len(run(tmp_path / "a", times, max_ahead=60)[1]) == 1
    assert not run(tmp_path / "b", times)[1]
    far = [*times[:-1], NOW + 100 * DAY]
    assert not run(tmp_path / "c", far, max_ahead=False)[1]
    with pytest.raises(InputError, match=r"batch.max_ahead must not be negative"):
        Batching(max_ahead=-1)


def test_a_clock_that_jumps_ahead_is_not_followed():
    batcher = Batcher(Batching(rows=1, time="processing"))
    times = []
    for i, now in enumerate([NOW, NOW + 1, NOW + 5000 * DAY, NOW + 3, NOW + 3600]):
        elapsed = float(i) if i < 4 else 3600.0
        batcher.add(Record(i, i + 1, b""), Block.of(np.zeros((1, 1))), elapsed=elapsed)
        boundary = batcher.next_boundary(elapsed=elapsed, now=now)
        times.append(batcher.take(boundary).time - NOW)
    assert times == [0, 1, 2, 3, 3600]


def test_a_silent_partition_does_not_hold_the_time():
    batcher = Batcher(Batching(rows=2, time="event"), "at")
    for i in range(6):
        block = Block.of(np.zeros((1, 1)), at=np.array([NOW + 100.0 * i]))
        partition = "silent" if i == 0 else "busy"
        batcher.add(Record(i, i + 1, b"", partition), block, elapsed=0.0)
    times = []
    while (boundary := batcher.next_boundary(elapsed=0.0, now=NOW)) is not None:
        times.append(batcher.take(boundary).time)
    assert times == [NOW + 100, NOW + 300, NOW + 500]
