"""A pipeline gives the same labels however often it is stopped, and whatever happens to it."""

import json
from itertools import pairwise
from random import Random
from threading import Event

import numpy as np
import pytest

from scstream import ScStream
from scstream.errors import (
    AlreadyRunning,
    CheckpointCorrupt,
    Fenced,
    InputError,
    NonDeterministicReplay,
    SinkError,
    SourceChanged,
    SourceGap,
    SourceRegressed,
)
from scstream.model import Settings
from scstream.observe.events import BatchLearned, CheckpointDamaged, CheckpointWritten
from scstream.preprocess import Steps
from scstream.stream.batcher import Batching
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.clock import ManualClock
from scstream.stream.config import build
from scstream.stream.messages import reader
from scstream.stream.processor import OneModel
from scstream.stream.runner import CheckpointPolicy, Pipeline
from scstream.stream.schema import Schema
from scstream.stream.store import FolderStore
from tests.stream.memory import MemorySink, MemorySource

N_ROWS = 1000


def messages(n_rows=N_ROWS, *, seed=0, bad=()):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2)) + 8.0 * rng.integers(0, 3, n_rows)[:, None]
    lines = [json.dumps({"x": x, "y": y, "id": i}) for i, (x, y) in enumerate(X.tolist())]
    for i in bad:
        lines[i] = '{"x": "seven", "y": 1}'
    sizes = np.random.default_rng(seed + 1).integers(1, 40, n_rows)
    cuts = np.cumsum(sizes)
    cuts = [0, *cuts[cuts < n_rows].tolist(), n_rows]
    return ["\n".join(lines[a:b]).encode() for a, b in pairwise(cuts)]


def pipeline(folder, source, sink, **changes):
    parts = {
        "job": "test",
        "source": source,
        "reader": reader("json", Schema(keep=("id",))),
        "processor": OneModel(Settings.of({"random_state": 0, "n_jobs": 1}), Steps()),
        "sink": sink,
        "checkpoint_log": CheckpointLog(FolderStore(folder)),
        "batching": Batching(rows=90),
        "checkpoint_policy": CheckpointPolicy(batches=3, digests=2),
        "clock": ManualClock(),
        "threads": False,
    }
    return Pipeline(**(parts | changes))


@pytest.fixture
def whole(tmp_path):
    """Labels of an uninterrupted run."""
    sink = MemorySink()
    pipeline(tmp_path / "whole", MemorySource({"": messages()}), sink).run()
    return sink.rows


def test_every_row_is_delivered_once_and_in_order(whole):
    assert [row["id"] for row in whole] == list(range(N_ROWS))
    assert len({row["cluster"] for row in whole}) >= 3


def test_labels_equal_those_of_partial_fit(whole):
    rows = [json.loads(line) for text in messages() for line in text.splitlines()]
    X = np.array([[row["x"], row["y"]] for row in rows])
    model, labels = ScStream(random_state=0), []
    for start in range(0, N_ROWS, 90):
        labels += model.partial_fit(X[start : start + 90]).labels_.tolist()
    assert labels == [row["cluster"] for row in whole]


@pytest.mark.parametrize("threads", [False, True])
def test_threads_do_not_change_the_results(tmp_path, whole, threads):
    sink = MemorySink()
    pipeline(tmp_path, MemorySource({"": messages()}), sink, threads=threads).run()
    assert sink.rows == whole


@pytest.mark.parametrize("threads", [False, True])
def test_several_short_runs_equal_one_run(tmp_path, whole, threads):
    source, sink = MemorySource({"": messages()}), MemorySink()
    for until in (0, 1, 4, 5, 9, None):
        pipeline(tmp_path, source, sink, threads=threads).run(until=until)
    assert sink.rows == whole


class Crash(BaseException):
    """Power fails."""


def crashing(pipeline, n_calls, random):
    """Let the pipeline die at a call of a source, sink or store."""
    left = [random.randrange(n_calls)]

    def dying(method, after):
        def call(*arguments, **named):
            left[0] -= 1
            if left[0] < 0 and not after:
                raise Crash
            result = method(*arguments, **named)
            if left[0] < 0:
                raise Crash
            return result

        return call

    ends = {
        pipeline.source: ("open", "read", "acknowledge"),
        pipeline.sink: ("open", "write", "flush"),
        pipeline.checkpoint_log.store: ("put_new", "put", "delete", "get"),
    }
    for end, names in ends.items():
        for name in names:
            method = getattr(type(end), name).__get__(end)
            setattr(end, name, dying(method, random.random() < 0.5))
    return pipeline


def revived(end):
    for name in [name for name in vars(end) if callable(vars(end)[name]) and name != "order"]:
        delattr(end, name)
    return end


def survive(folder, source, sink, random, n_crashes=40):
    """Run to the end through crashes."""
    for _ in range(n_crashes):
        try:
            crashing(pipeline(folder, revived(source), revived(sink)), 60, random).run()
            return
        except Crash:
            continue
    pipeline(folder, revived(source), revived(sink)).run()


@pytest.mark.parametrize("seed", range(12))
def test_crashes_anywhere_lose_and_repeat_nothing(tmp_path, whole, seed):
    random = Random(seed)
    source, sink = MemorySource({"": messages()}), MemorySink()
    survive(tmp_path, source, sink, random)
    assert sink.rows == whole


@pytest.mark.parametrize("seed", range(6))
def test_partitions_may_come_in_any_order_after_a_crash(tmp_path, seed):
    random = Random(seed)
    partitions = {
        "a": messages(400, seed=1),
        "b": messages(300, seed=2),
        "c": messages(300, seed=3),
    }
    source = MemorySource(partitions, order=random.choice)
    sink = MemorySink()
    survive(tmp_path, source, sink, random)
    assert sorted(row["id"] for row in sink.rows) == sorted([*range(400), *range(300), *range(300)])


def test_timer_boundaries_are_the_same_after_a_crash(tmp_path):
    clock, source, sink = ManualClock(), MemorySource({"": messages()}), MemorySink()
    read = source.read

    def slow_read(max_n, timeout):
        clock.sleep(random.random())
        return read(max_n, timeout)

    source.read = slow_read
    random = Random(0)
    batching = Batching(rows=90, seconds=0.6, time="processing")
    for stop in (3, 2, None):
        changes = {
            "clock": clock,
            "batching": batching,
            "checkpoint_policy": CheckpointPolicy(batches=2, digests=1),
        }
        first = pipeline(tmp_path, source, sink, **changes)
        if stop:
            first.checkpoint_log.publish = _refuse_after(first.checkpoint_log.publish, stop)
            with pytest.raises(Crash):
                first.run()
        else:
            first.run()
    assert [row["id"] for row in sink.rows] == list(range(N_ROWS))
    sizes = {len(d.columns["index"]) for d in sink.deliveries.values()}
    assert len(sizes) > 2  # the timer did cut


def _refuse_after(publish, n):
    left = [n]

    def call(*arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            raise Crash
        return publish(*arguments, **named)

    return call


def test_only_messages_in_all_kept_checkpoints_are_acknowledged(tmp_path):
    source, sink = MemorySource({"": messages()}), MemorySink()
    told = []
    pipeline(
        tmp_path,
        source,
        sink,
        emit=told.append,
    ).run(until=7)
    assert [e.batch for e in told if isinstance(e, CheckpointWritten)] == [0, 3, 6, 7]
    before = source.acknowledged[""]
    assert 0 < before < len(source.partitions[""])
    n_done = sum(len(text.splitlines()) for text in source.partitions[""][:before])
    assert n_done <= 3 * 90  # the oldest of the three newest


def test_bad_rows_go_to_the_dead_letters(tmp_path):
    sink, dead_letters = MemorySink(), MemorySink()
    source = MemorySource({"": messages(bad=(5, 500))})
    pipeline(tmp_path, source, sink, dead_letters=dead_letters).run()
    assert len(sink.rows) == N_ROWS - 2
    assert [row["batch"] * 90 + row["index"] for row in dead_letters.rows] == [5, 500]
    assert "seven" in dead_letters.rows[0]["reason"]
    place = dead_letters.rows[1]
    line = source.partitions[""][int(place["position"])].splitlines()[place["row"]]
    assert line == b'{"x": "seven", "y": 1}'


def test_rows_outside_the_family_are_rejected_one_by_one(tmp_path):
    lines = [f'{{"x": {i % 5}, "y": {i % 3}}}' for i in range(60)]
    lines[7] = lines[40] = '{"x": -1, "y": 2}'
    sink, dead_letters = MemorySink(), MemorySink()
    processor = OneModel(Settings(family="poisson", random_state=0), Steps())
    source = MemorySource({"": [line.encode() for line in lines]})
    pipeline(
        tmp_path,
        source,
        sink,
        dead_letters=dead_letters,
        processor=processor,
        batching=Batching(rows=30),
    ).run()
    assert [row["batch"] * 30 + row["index"] for row in dead_letters.rows] == [7, 40]
    assert len(sink.rows) == 58


def test_a_second_instance_is_rejected(tmp_path):
    source = MemorySource({"": messages()})
    first = pipeline(tmp_path, source, MemorySink())
    with (
        first.checkpoint_log.store.lock(),
        pytest.raises(AlreadyRunning, match="take-over"),
    ):
        pipeline(tmp_path, source, MemorySink()).run()


def test_an_instance_that_was_replaced_commits_nothing(tmp_path, whole):
    source, sink, zombie_sink = MemorySource({"": messages()}), MemorySink(), MemorySink()
    zombie = pipeline(tmp_path, MemorySource({"": messages()}), zombie_sink)
    learn = zombie.processor.learn

    def interrupted(source_batch):
        if source_batch.batch == 5:
            pipeline(tmp_path, source, sink).run(take_over=True, until=8)
        return learn(source_batch)

    zombie.processor.learn = interrupted
    sink.deliveries = zombie_sink.deliveries  # both write to the same place
    with pytest.raises(Fenced):
        zombie.run()
    pipeline(tmp_path, source, sink).run()
    assert sink.rows == whole


def test_other_labels_in_a_replay_are_detected(tmp_path):
    source = MemorySource({"": messages()})
    run = pipeline(
        tmp_path, source, MemorySink(), checkpoint_policy=CheckpointPolicy(batches=4, digests=1)
    )
    run.checkpoint_log.publish = _refuse_after(run.checkpoint_log.publish, 2)
    with pytest.raises(Crash):
        run.run()
    source.partitions[""] = messages(seed=7)
    with pytest.raises(NonDeterministicReplay, match="batch 4"):
        pipeline(
            tmp_path, source, MemorySink(), checkpoint_policy=CheckpointPolicy(batches=4, digests=1)
        ).run()


def test_a_source_that_lost_rows_stops_the_pipeline(tmp_path):
    source, sink = MemorySource({"": messages()}), MemorySink()
    pipeline(tmp_path, source, sink).run(until=5)
    source.name = "two"
    with pytest.raises(SourceChanged):
        pipeline(tmp_path, source, sink).run()
    source.name = "one"
    whole, source.partitions[""] = source.partitions[""], source.partitions[""][:3]
    with pytest.raises(SourceRegressed):
        pipeline(tmp_path, source, sink).run()
    source.partitions[""], source.first[""] = whole, len(whole) - 5
    with pytest.raises(SourceGap):
        pipeline(tmp_path, source, sink).run()
    pipeline(tmp_path, source, sink).run(accept_gap=True)
    ids = [row["id"] for row in sink.rows]
    assert ids[:450] == list(range(450))
    assert ids[450:] == list(range(N_ROWS - len(ids[450:]), N_ROWS))


def test_a_damaged_checkpoint_is_skipped(tmp_path, whole):
    source, sink = MemorySource({"": messages()}), MemorySink()
    pipeline(tmp_path, source, sink).run(until=7)
    newest = sorted(tmp_path.glob("version-*"))[-1]
    content = bytearray(newest.read_bytes())
    content[-3] ^= 1
    newest.write_bytes(content)
    heard = []
    last = pipeline(tmp_path, source, sink, emit=heard.append)
    last.run()
    assert any(isinstance(event, CheckpointDamaged) for event in heard)
    assert sink.rows == whole


def test_the_pipeline_stops_if_every_checkpoint_is_damaged(tmp_path):
    source, sink = MemorySource({"": messages()}), MemorySink()
    pipeline(tmp_path, source, sink).run(until=7)
    for version in tmp_path.glob("version-*"):
        if version.read_bytes()[:1] != b"{":
            version.write_bytes(version.read_bytes()[:-9])
    with pytest.raises(CheckpointCorrupt):
        pipeline(tmp_path, source, sink).run()


def test_settings_of_a_checkpoint_must_not_change(tmp_path):
    source = MemorySource({"": messages()})
    sink = MemorySink()
    pipeline(tmp_path, source, sink, settings={"model": {"half_life": 5}}).run(until=2)
    with pytest.raises(InputError, match="other settings of model"):
        pipeline(tmp_path, source, sink, settings={"model": {"half_life": 6}}).run()


def test_checkpoints_of_another_job_are_rejected(tmp_path):
    source, sink = MemorySource({"": messages()}), MemorySink()
    pipeline(tmp_path, source, sink).run(until=2)
    with pytest.raises(InputError, match="to the job 'test'"):
        pipeline(tmp_path, source, sink, job="other").run()


def test_stop_ends_after_the_current_batch(tmp_path, whole):
    source, sink, stop = MemorySource({"": messages()}), MemorySink(), Event()

    def emit(event):
        if isinstance(event, BatchLearned) and event.batch == 3:
            stop.set()

    assert pipeline(tmp_path, source, sink, emit=emit).run(stop=stop) == 4
    assert max(sink.deliveries) == 3
    pipeline(tmp_path, source, sink).run()
    assert sink.rows == whole


class Waiting(MemorySource):
    """A source that never ends."""

    @property
    def done(self):
        return False


class Refusing(MemorySink):
    """A sink that takes nothing."""

    def write(self, delivery):
        raise SinkError("the table is gone")


@pytest.mark.timeout(20)
def test_an_error_of_the_writer_is_raised_while_no_rows_come(tmp_path):
    source = Waiting({"": messages()[:10]})
    with pytest.raises(SinkError, match="gone"):
        pipeline(tmp_path, source, Refusing(), threads=True).run()


@pytest.mark.timeout(20)
def test_learned_batches_are_committed_while_no_rows_come(tmp_path):
    clock, stop, seen = ManualClock(), Event(), []

    class Silent(Waiting):
        def read(self, max_n, timeout):
            records = super().read(max_n, timeout)
            clock.sleep(0.0 if records else 4.0)
            return records

    def emit(event):
        if isinstance(event, CheckpointWritten):
            seen.append(event.batch)
            if event.batch == 2:
                stop.set()

    source = Silent({"": messages(180)})  # two batches and no more
    changes = {"emit": emit, "clock": clock, "checkpoint_policy": CheckpointPolicy(batches=100)}
    pipeline(tmp_path, source, MemorySink(), **changes).run(stop=stop)
    assert seen == [0, 2]
    assert 10.0 <= clock.elapsed() < 20.0


def test_the_event_of_a_batch_has_its_results(tmp_path):
    told, shown = [], []

    def on_batch(source_batch, learned):
        shown.append((source_batch.batch, len(learned.labels)))

    source = MemorySource({"": messages()})
    pipeline(tmp_path, source, MemorySink(), emit=told.append, on_batch=on_batch).run(until=3)
    batches = [event for event in told if isinstance(event, BatchLearned)]
    assert shown == [(0, 90), (1, 90), (2, 90)] == [(b.batch, b.rows) for b in batches]
    assert all(b.seconds.keys() == {"wait", "learn", "deliver"} for b in batches)
    assert batches[0].events["born"] == batches[0].clusters
    assert [bool(np.isfinite(b.log_density)) for b in batches] == [False, True, True]
    assert all(b.novel >= 0 for b in batches)
    *_, last = (event for event in told if isinstance(event, CheckpointWritten))
    newest = max((tmp_path).glob("version-*"))
    assert (last.batch, last.bytes) == (3, newest.stat().st_size)


def test_a_savepoint_before_the_recorded_boundaries_starts_new_batch_numbers(tmp_path):
    source, sink = MemorySource({"a": messages(), "b": messages()}), MemorySink()
    pipeline(tmp_path, source, sink).run(until=3)
    CheckpointLog(FolderStore(tmp_path)).savepoint("early")
    pipeline(tmp_path, source, sink).run()
    for name in tmp_path.glob("boundary-*"):
        name.unlink()
    pipeline(tmp_path, source, sink).run(savepoint="early")
    anew = [batch for batch in sink.deliveries if batch >= 10**9]
    assert sum(sink.deliveries[batch].n_rows for batch in anew) == 2 * N_ROWS - 3 * 90


def test_savepoints_are_kept_and_can_be_restored(tmp_path, whole):
    source, sink = MemorySource({"": messages()}), MemorySink()
    pipeline(tmp_path, source, sink).run(until=3)
    CheckpointLog(FolderStore(tmp_path)).savepoint("early")
    pipeline(tmp_path, source, sink).run()
    again = MemorySink()
    again.deliveries = {b: d for b, d in sink.deliveries.items() if b < 3}
    pipeline(tmp_path, source, again).run(savepoint="early")
    assert again.rows == whole


def test_checkpoints_are_kept_by_age(tmp_path):
    clock = ManualClock()
    checkpoint_log = CheckpointLog(FolderStore(tmp_path), newest=2, hourly=3)
    run = pipeline(
        tmp_path,
        MemorySource({"": messages()}),
        MemorySink(),
        checkpoint_log=checkpoint_log,
        clock=clock,
        checkpoint_policy=CheckpointPolicy(batches=1),
        emit=lambda event: clock.sleep(1200.0 if isinstance(event, BatchLearned) else 0.0),
    )
    run.run()
    ages = [clock.now() - kept.time for kept in checkpoint_log._kept]
    assert len(ages) == 4  # the last of each hour, of which the newest has one
    assert sum(age < 3 * 3600 for age in ages) == len(ages)


def test_a_checkpoint_is_a_model_file(tmp_path, whole):
    pipeline(tmp_path, MemorySource({"": messages()}), MemorySink()).run()
    newest = sorted(tmp_path.glob("version-*"))[-1]
    model = ScStream.load(newest)
    assert model.n_clusters_ >= 3
    assert model.feature_names_in_.tolist() == ["x", "y"]


def test_labels_and_dead_letters_need_separate_sinks(tmp_path):
    place = {"kind": "file", "path": str(tmp_path / "labels.csv")}
    with pytest.raises(InputError, match="the same place"):
        build(
            {"source": {"kind": "stdin"}, "sink": place, "dead_letters": {**place, "format": "csv"}}
        )
