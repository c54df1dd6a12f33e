"""One model per key: the same as models by themselves, whatever is evicted, written or damaged."""

import json
import random
from contextlib import nullcontext
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from queue import Queue
from threading import Lock, Thread
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scstream.errors import CheckpointCorrupt, InputError, StreamError
from scstream.io.model_file import pack_pipeline
from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.preprocess.block import Block, join
from scstream.stream import pool as pool_module
from scstream.stream.batcher import SourceBatch
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.config import build
from scstream.stream.keyed import KeyedModel, model_file, part, read_size, rows_by_key, seed_of
from scstream.stream.pool import ModelPool
from scstream.stream.processor import learn_block
from scstream.stream.progress import Progress
from scstream.stream.segments import SegmentLog, segment_name, segments_of

PARAMS = {"random_state": 5, "n_jobs": 1}
KEYS = ("a", "b", "c", "ä/1", "\ud800", "7")
NAMES = ("x", "y")
RUNNING = ({"step": "standardise", "mode": "running"},)


class MemoryStore:
    """A store that is gone with the test; `delay` seconds for every write."""

    def __init__(self, delay=0.0):
        self.contents = {}
        self.delay = delay
        self._lock = Lock()

    def put(self, name, content):
        self.contents[name] = content

    def put_new(self, name, content):
        sleep(self.delay)
        with self._lock:
            return self.contents.setdefault(name, content) is content

    def get(self, name, start=0, length=-1):
        content = self.contents[name]
        return content[start:] if length < 0 else content[start : start + length]

    def names(self, prefix=""):
        with self._lock:
            return sorted(name for name in self.contents if name.startswith(prefix))

    def delete(self, name):
        with self._lock:
            self.contents.pop(name, None)

    def sweep(self):
        pass

    def lock(self, *, take_over=False):
        return nullcontext()


def a_pool(store, *, steps=(), params=PARAMS, **options):
    options = {"memory": 1, "segment": 20_000} | options
    pool = ModelPool.build(params, Steps.build(steps), column="who", store=store, **options)
    pool.set_columns(NAMES)
    return pool


def make_batch(number, who, *, time=None):
    """Rows of two clouds, a function of the number of the batch."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(len(who), 2)) + 8.0 * rng.integers(0, 2, size=(len(who), 1))
    block = Block.of(X, who=np.array(who, dtype=object))
    return SourceBatch(number, {}, time, block, ())


def behind_torn_rows(source_batch):
    """The same rows, every other one of them after a message that cannot be read."""
    rows = [source_batch.block.slice(i, i + 1) for i in range(source_batch.block.n_rows)]
    torn = [Block.rejected("torn") for _ in rows[::2]]
    block = join([each for pair in zip_longest(torn, rows) for each in pair if each is not None])
    return replace(source_batch, block=block)


class Alone:
    """Models by themselves: what a pool must equal."""

    def __init__(self, steps=()):
        self.steps = Steps.build(steps).with_columns(NAMES)
        self.models = {}

    def learn(self, source_batch):
        labels = np.zeros(source_batch.block.n_rows, dtype=np.int64)
        for key, places in rows_by_key(source_batch.block, "who")[0].items():
            params = {**PARAMS, "random_state": seed_of(PARAMS["random_state"], key)}
            blank = KeyedModel(Settings.of(params, NAMES), self.steps)
            model = self.models.get(key, blank)
            learner, steps, after, own = learn_block(
                model.model, model.steps, part(source_batch.block, places), time=source_batch.time
            )
            self.models[key] = KeyedModel(learner, steps)
            labels[after.row] = own
        return labels

    def files(self):
        return {key: model_file(model, key) for key, model in self.models.items()}


def files_of(pool):
    return {key: model_file(pool.model(key), key) for key in pool.keys}


def checkpoint(pool, checkpoint_log, batch, write=None):
    content = (write or pool.freeze())(Progress(batch, float(batch)))
    checkpoint_log.publish(content, time=float(batch), batch=batch)
    checkpoint_log.prune(time=float(batch))


def restarted(store, checkpoint_log, **options):
    """What another life makes of the store: its pool, its ledger, and the batch to go on with."""
    checkpoint_log = CheckpointLog(store, newest=checkpoint_log.newest, hourly=0)
    checkpoint_log.claim(time=0.0)
    pool = a_pool(store, **options)
    for name, content in checkpoint_log.checkpoints():
        return pool, checkpoint_log, pool.restore(content, name=name).batch
    return pool, checkpoint_log, 0


a_batch = st.lists(st.sampled_from(KEYS), max_size=12)
programs = st.lists(
    a_batch | st.sampled_from(["checkpoint", "restart", "freeze", "write"]), max_size=12
)


@settings(max_examples=25, deadline=None)
@given(
    program=programs,
    memory=st.sampled_from([1, 25_000, 60_000, "1GB"]),
    segment=st.sampled_from([1, 20_000, "4MB"]),
    newest=st.integers(1, 3),
    timed=st.booleans(),
    steps=st.sampled_from([(), RUNNING]),
)
def test_a_pool_equals_separate_models_for_any_limit_and_restart(
    program, memory, segment, newest, timed, steps
):
    options = {"memory": memory, "segment": segment, "steps": steps}
    batches = [entry for entry in program if isinstance(entry, list)]
    source_batches = [
        make_batch(i, who, time=1.5 * i if timed else None) for i, who in enumerate(batches)
    ]
    alone = Alone(steps)
    labels = [alone.learn(source_batch) for source_batch in source_batches]
    store = MemoryStore()
    checkpoint_log = CheckpointLog(store, newest=newest, hourly=0)
    checkpoint_log.claim(time=0.0)
    pool, done, frozen = a_pool(store, **options), 0, []

    def learn_on(stop):
        nonlocal done
        while done < stop:
            learned = pool.learn(source_batches[done])
            assert not learned.block.rejects
            np.testing.assert_array_equal(learned.labels, labels[done])
            done += 1

    reached = 0
    for entry in [*program, "checkpoint", "restart"]:
        if isinstance(entry, list):
            reached += 1
            learn_on(reached)
        elif entry == "freeze":
            frozen.append((done, pool.freeze()))
        elif entry == "restart":
            pool, checkpoint_log, done = restarted(store, checkpoint_log, **options)
            frozen = []
            learn_on(reached)  # batches since the checkpoint come again
        else:
            for batch, write in frozen:
                checkpoint(pool, checkpoint_log, batch, write)
            frozen = []
            if entry == "checkpoint":
                checkpoint(pool, checkpoint_log, done)
    assert files_of(pool) == alone.files()


def test_a_checkpoint_has_the_state_at_its_freeze():
    store, alone = MemoryStore(), Alone()
    pool = a_pool(store, memory=45_000)
    for i in range(3):
        pool.learn(make_batch(i, KEYS * 2))
        alone.learn(make_batch(i, KEYS * 2))
    then, write = alone.files(), pool.freeze()
    for i in range(3, 6):
        pool.learn(make_batch(i, KEYS * 2))
        alone.learn(make_batch(i, KEYS * 2))
    later = a_pool(store)
    later.restore(write(Progress(3)), name="c")
    assert files_of(later) == then
    assert files_of(pool) == alone.files()


def test_learning_and_writing_at_the_same_time():
    store, alone = MemoryStore(delay=0.002), Alone()
    checkpoint_log = CheckpointLog(store, newest=1, hourly=0)
    checkpoint_log.claim(time=0.0)
    pool = a_pool(store, memory=70_000, segment=20_000)
    rng, queue, wrong = random.Random(1), Queue(), []

    def write_behind():
        for batch, write, files in iter(queue.get, None):
            try:
                checkpoint(pool, checkpoint_log, batch, write)
                _, content = next(checkpoint_log.checkpoints())
                then = a_pool(store)
                then.restore(content, name="c")
                assert files_of(then) == files
            except BaseException as error:
                wrong.append(error)

    writer = Thread(target=write_behind, daemon=True)
    writer.start()
    for i in range(120):
        source_batch = make_batch(i, rng.choices(KEYS, k=rng.randrange(1, 12)))
        np.testing.assert_array_equal(pool.learn(source_batch).labels, alone.learn(source_batch))
        assert pool.n_bytes <= 70_000
        if rng.random() < 0.4:
            queue.put((i + 1, pool.freeze(), alone.files()))
    queue.put(None)
    writer.join()
    assert not wrong
    assert files_of(pool) == alone.files()
    assert pool.n_evicted > 100
    assert pool.n_loaded > 100


def test_a_model_does_not_depend_on_other_keys():
    store = MemoryStore()
    crowded, lonely = a_pool(store), a_pool(MemoryStore(), memory="1GB")
    for i in range(4):
        source_batch = make_batch(i, ["a", "b", "a", "c"] * 4)
        own = part(source_batch.block, np.flatnonzero(source_batch.block.extra["who"] == "a"))
        crowded.learn(source_batch)
        lonely.learn(SourceBatch(i, {}, None, own, ()))
    assert files_of(crowded)["a"] == files_of(lonely)["a"]
    assert crowded.n_evicted > 5
    assert lonely.n_evicted == 0


def test_labels_come_back_in_the_order_of_the_rows():
    pool, alone = a_pool(MemoryStore()), Alone()
    for i in range(3):
        source_batch = behind_torn_rows(make_batch(i, ["a", "b", "c", "b", "a", "a"] * 3))
        learned, expected = pool.learn(source_batch), alone.learn(source_batch)
        np.testing.assert_array_equal(learned.labels, expected[source_batch.block.row])
        np.testing.assert_array_equal(learned.block.row, source_batch.block.row)
        assert len(learned.block.rejects) == len(source_batch.block.rejects)


@pytest.fixture
def fragile(monkeypatch):
    """Learning that fails for rows beyond 500, with an error that nobody foresaw."""

    def learn(learner, steps, block, *, time):
        if (block.X > 500).any():
            raise RuntimeError("it broke")
        return learn_block(learner, steps, block, time=time)

    monkeypatch.setattr(pool_module, "learn_block", learn)


def odd_batch(number, bad):
    """Eight rows of each of three keys, those of the bad one far away."""
    source_batch = make_batch(number, ["a", "b", "c"] * 8)
    source_batch.block.X[source_batch.block.extra["who"] == bad] += 1000.0
    return source_batch


def test_a_failing_key_keeps_its_model_and_others_continue(fragile):
    pool, alone = a_pool(MemoryStore()), Alone()
    for i in range(2):
        pool.learn(make_batch(i, ["a", "b", "c"] * 8))
        alone.learn(make_batch(i, ["a", "b", "c"] * 8))
    before = files_of(pool)["b"]
    source_batch = odd_batch(2, "b")
    learned, expected = pool.learn(source_batch), alone.learn(source_batch)
    bad = source_batch.block.extra["who"] == "b"
    assert [r.row for r in learned.block.rejects] == np.flatnonzero(bad).tolist()
    assert {r.reason for r in learned.block.rejects} == {"key 'b' has failed: it broke."}
    np.testing.assert_array_equal(learned.labels, expected[~bad])
    assert files_of(pool)["b"] == before
    assert files_of(pool)["a"] == alone.files()["a"]


def test_a_key_that_fails_repeatedly_is_set_aside_until_it_is_retried(fragile):
    store = MemoryStore()
    pool = a_pool(store, patience=2)
    sound = make_batch(0, ["a", "b", "c"] * 8)
    for source_batch in (odd_batch(0, "b"), sound, odd_batch(1, "b"), odd_batch(2, "b")):
        assert not pool.set_aside  # a success in between begins the count anew
        pool.learn(source_batch)
    assert pool.set_aside == ["b"]
    refused = pool.learn(sound).block.rejects
    assert len({r.reason for r in refused}) == 1
    assert refused[0].reason.startswith("key 'b' is set aside: it failed 2 times in a row;")
    content = pool.freeze()(Progress(4))
    again = a_pool(store, patience=2)
    again.restore(content, name="c")
    assert len(again.learn(sound).block.rejects) == 8
    retried = a_pool(store, patience=2, retry=True)
    retried.restore(content, name="c")
    assert not retried.learn(sound).block.rejects


def test_a_key_that_never_learned_anything_survives_a_restart(fragile):
    store = MemoryStore()
    pool = a_pool(store)
    pool.learn(odd_batch(0, "b"))
    again = a_pool(store)
    again.restore(pool.freeze()(Progress(1)), name="c")
    assert files_of(again) == files_of(pool)
    assert isinstance(again.model("b").model, Settings)
    assert not again.learn(make_batch(1, ["b"] * 8)).block.rejects


def test_keys_and_rows_beyond_the_limits_are_rejected():
    pool = a_pool(MemoryStore(), max_keys=2, max_rows=3)
    learned = pool.learn(make_batch(0, ["b", "a", "c", "b", "b", "b", "c"]))
    assert [r.row for r in learned.block.rejects] == [2, 5, 6]
    assert "max_keys" in learned.block.rejects[0].reason
    assert "max_rows" in learned.block.rejects[1].reason
    assert learned.block.row.tolist() == [0, 1, 3, 4]
    assert len(learned.labels) == 4


def test_rows_without_a_valid_key_are_rejected():
    who = ["a", None, 7, "7", 1.5, True, "", "k" * 1000, np.nan]
    learned = a_pool(MemoryStore()).learn(make_batch(0, who))
    assert [r.row for r in learned.block.rejects] == [1, 4, 5, 6, 7, 8]
    assert all("a key is" in r.reason for r in learned.block.rejects)


def test_whole_numbers_are_keys():
    rows = Block.of(np.zeros((4, 2)), who=np.array([3, 1, 3, 2]))
    pool = a_pool(MemoryStore())
    pool.learn(SourceBatch(0, {}, None, rows, ()))
    assert pool.keys == ["3", "1", "2"]
    with pytest.raises(InputError, match="no column 'who'"):
        pool.learn(SourceBatch(0, {}, None, Block.of(np.zeros((4, 2))), ()))


def test_a_batch_without_valid_rows_is_learned():
    learned = a_pool(MemoryStore()).learn(SourceBatch(0, {}, None, Block.rejected("torn"), ()))
    assert (learned.block.n_rows, len(learned.labels), learned.n_clusters) == (1, 0, 0)


def test_rows_outside_the_domain_are_rejected_one_by_one():
    params = {**PARAMS, "family": "multinomial"}
    X = np.array([[1.0, 2.0], [1.0, -1.0], [2.0, 2.0], [3.0, 1.0]])
    block = Block.of(X, who=["a", "a", "b", "a"])
    learned = a_pool(MemoryStore(), params=params).learn(SourceBatch(0, {}, None, block, ()))
    assert [r.row for r in learned.block.rejects] == [1]
    assert learned.block.row.tolist() == [0, 2, 3]


@pytest.mark.parametrize("restart", [False, True])
def test_keys_without_rows_are_forgotten(restart):
    store = MemoryStore()
    pool = a_pool(store, forget_after=2)
    for i, who in enumerate((["a", "b"], ["b", "c"], ["b"])):
        pool.learn(make_batch(i, who * 6))
        if restart:
            content = pool.freeze()(Progress(i))
            pool = a_pool(store, forget_after=2)
            pool.restore(content, name="c")
    assert sorted(pool.keys) == ["b", "c"]
    n_clusters = pool.learn(make_batch(3, ["a"] * 6)).n_clusters
    assert sorted(pool.keys) == ["a", "b"]
    assert n_clusters == sum(pool.model(key).n_clusters for key in pool.keys)
    fresh = a_pool(MemoryStore())
    fresh.learn(make_batch(3, ["a"] * 6))
    assert files_of(pool)["a"] == files_of(fresh)["a"]


def test_memory_stays_within_its_limit():
    keys = [f"k{i}" for i in range(12)]
    pool = a_pool(MemoryStore(), memory=100_000)
    for i in range(6):
        pool.learn(make_batch(i, keys * 6))
        waiting = pool.freeze()  # never written: the pool has to write what it waits for
        assert pool.n_bytes <= 100_000
    assert len(waiting(Progress(6))) > 0


def test_the_store_does_not_grow_with_the_stream():
    store, totals = MemoryStore(), []
    checkpoint_log = CheckpointLog(store, newest=2, hourly=0)
    checkpoint_log.claim(time=0.0)
    pool = a_pool(store, memory=100_000, segment=40_000)
    for i in range(40):
        once = [f"once{i}"] if i < 20 else []  # a quarter of its segment, and never written again
        pool.learn(make_batch(i, ["a", "b", "c", *once] * 5))
        checkpoint(pool, checkpoint_log, i + 1)
        totals.append(sum(len(store.contents[name]) for name in store.names("segment-")))
    assert max(totals[20:]) < 2.5 * sum(map(len, files_of(pool).values()))
    assert len(store.names("version-")) <= 4


@settings(max_examples=20, deadline=None)
@given(
    n_keys=st.integers(1, 200),
    n_hot=st.integers(0, 8),
    length=st.integers(1, 600),
    seed=st.integers(0, 1000),
)
def test_segments_stay_few_and_full(n_keys, n_hot, length, seed):
    store, rng, size = MemoryStore(), random.Random(seed), 1000
    log, entries, contents = SegmentLog(store, size=size), {}, {}
    for i in range(400):
        written = [f"hot{j}" for j in range(n_hot)] + [f"cold{rng.randrange(n_keys)}"]
        before = log.n_appended
        for key in written:
            contents[key] = f"{key}-{i}-".encode() * (length // 10 + 1)
            entries[key] = SimpleNamespace(extent=log.append(contents[key]))
        log.put_full()
        limit, new = log.limit(), log.n_appended - before
        max_n = max(new, size)
        copied = log.compact(list(entries.values()), below=limit, max_n=max_n)
        assert copied <= max_n + size  # the work of a checkpoint has a bound
        log.flush()
        there = {segment.number for segment in segments_of(list(entries.values()))[0]}
        for name in store.names("segment-"):
            if int(name.removeprefix("segment-")) not in there:
                store.delete(name)
        live, longest = sum(map(len, contents.values())), max(map(len, contents.values()))
        assert sum(map(len, store.contents.values())) <= 2 * live + 12 * (size + longest)
        assert len(store.contents) <= 4 * live / size + 14
    assert {key: log.read(entry.extent) for key, entry in entries.items()} == contents


def test_a_savepoint_keeps_its_segments():
    store = MemoryStore()
    checkpoint_log = CheckpointLog(store, newest=1, hourly=0)
    checkpoint_log.claim(time=0.0)
    pool = a_pool(store)
    pool.learn(make_batch(0, KEYS * 5))
    then = files_of(pool)
    checkpoint(pool, checkpoint_log, 1)
    checkpoint_log.savepoint("before")
    for i in range(1, 10):
        pool.learn(make_batch(i, KEYS * 5))
        checkpoint(pool, checkpoint_log, i + 1)
    back = a_pool(store)
    assert back.restore(checkpoint_log.read_savepoint("before"), name="before").batch == 1
    assert files_of(back) == then


def test_a_savepoint_of_a_checkpoint_that_is_being_pruned_is_of_the_next_one():
    store = MemoryStore()
    checkpoint_log = CheckpointLog(store, newest=1, hourly=0)
    checkpoint_log.claim(time=0.0)
    checkpoint_log.publish(pack_pipeline({"progress": Progress(1).to_dict()}), time=0.0, batch=1)
    put_new = store.put_new

    def meanwhile(name, content):
        store.put_new = put_new
        checkpoint_log.publish(
            pack_pipeline({"progress": Progress(2).to_dict()}), time=0.0, batch=2
        )
        checkpoint_log.prune(time=0.0)
        return put_new(name, content)

    store.put_new = meanwhile
    checkpoint_log.savepoint("late")
    pool = a_pool(store)
    with pytest.raises(InputError, match="holds one model"):
        pool.restore(checkpoint_log.read_savepoint("late"), name="late")
    assert Progress.from_header(checkpoint_log._header("savepoint-late")).batch == 2


def test_segments_of_a_crash_are_deleted():
    store = MemoryStore()
    checkpoint_log = CheckpointLog(store, newest=1, hourly=0)
    checkpoint_log.claim(time=0.0)
    pool = a_pool(store)
    checkpoint(pool, checkpoint_log, 0)
    for i in range(4):
        pool.learn(make_batch(i, KEYS * 5))
    orphans = store.names("segment-")
    assert len(orphans) > 3
    pool, checkpoint_log, _ = restarted(store, checkpoint_log)
    pool.learn(make_batch(0, ["a"] * 5))
    checkpoint(pool, checkpoint_log, 1)
    assert len(store.names("segment-")) == 1
    assert store.names("segment-")[0] > orphans[-1]


def test_older_checkpoints_that_are_kept_can_be_restored():
    store, alone, files = MemoryStore(), Alone(), {}
    checkpoint_log = CheckpointLog(store, newest=3, hourly=0)
    checkpoint_log.claim(time=0.0)
    pool = a_pool(store)
    for i in range(12):
        source_batch = make_batch(i, random.Random(i).choices(KEYS, k=8))
        pool.learn(source_batch)
        alone.learn(source_batch)
        files[i + 1] = alone.files()
        checkpoint(pool, checkpoint_log, i + 1)
    reached = []
    for name, content in checkpoint_log.checkpoints():
        back = a_pool(store)
        reached.append(back.restore(content, name=name).batch)
        assert files_of(back) == files[reached[-1]]
    assert reached == [12, 11, 10]


def test_a_model_that_is_moved_while_it_is_read_is_found():
    store, pool, name, file = damaged_pool()
    get, entry = store.get, pool._index["b"]

    def moved_meanwhile(*place):
        store.get = get
        entry.extent = pool._log.append(get(name, entry.extent.start, entry.extent.length))
        store.delete(name)
        raise KeyError(name)

    store.get = moved_meanwhile
    assert model_file(pool.model("b"), "b") == file


def test_two_threads_write_a_model_once(monkeypatch):
    pool, written = a_pool(MemoryStore(), memory="1GB"), []

    def slowly(model, key):
        written.append(key)
        sleep(0.02)
        return model_file(model, key)

    monkeypatch.setattr(pool_module, "model_file", slowly)
    pool.learn(make_batch(0, ["a", "b", "c"] * 5))
    threads = [Thread(target=pool.freeze(), args=(Progress(1),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(written) == ["a", "b", "c"]


def test_a_segment_number_of_another_instance_is_skipped():
    store = MemoryStore()
    log = SegmentLog(store, size=10)
    assert log.limit() == 0
    store.put(segment_name(0), b"theirs")
    extent = log.append(b"ours")
    log.flush()
    assert log.read(extent) == b"ours"
    assert store.get(segment_name(0)) == b"theirs"
    log.store.put_new = lambda name, content: False
    log.append(b"more")
    with pytest.raises(StreamError, match="another instance"):
        log.flush()


def test_a_failed_write_is_repeated():
    store = MemoryStore()
    pool, put_new = a_pool(store), store.put_new

    def full(name, content):
        raise OSError("the disk is full")

    pool.learn(make_batch(0, ["a"] * 5))
    store.put_new = full
    write = pool.freeze()
    with pytest.raises(OSError, match="full"):
        write(Progress(1))
    store.put_new = put_new
    again = a_pool(store)
    again.restore(write(Progress(1)), name="c")
    assert files_of(again) == files_of(pool)


def damaged_pool():
    """A pool whose models are all in the store, and the segment and content of key b."""
    store = MemoryStore()
    pool = a_pool(store, segment="4MB")
    pool.learn(make_batch(0, ["a", "b", "c"] * 6))
    file = files_of(pool)["b"]
    content = pool.freeze()(Progress(1))
    pool = a_pool(store)
    pool.restore(content, name="c")
    return store, pool, segment_name(0), file


@pytest.mark.parametrize("how", ["flip", "cut", "mix up"])
def test_damage_sets_one_key_aside(how):
    store, pool, name, file = damaged_pool()
    whole = store.contents[name]
    middle = whole.index(file) + len(file) // 2
    if how == "flip":
        store.contents[name] = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    elif how == "cut":
        store.contents[name] = whole[:middle]
    else:
        pool._index["b"].extent = pool._index["a"].extent
    with pytest.raises(CheckpointCorrupt, match="key 'b'"):
        pool.model("b")
    learned = pool.learn(make_batch(1, ["a", "b", "a", "b"] * 3))
    assert {r.reason.partition(":")[0] for r in learned.block.rejects} == {"key 'b' is set aside"}
    assert len(learned.labels) == 6
    assert pool.set_aside == ["b"]
    content = pool.freeze()(Progress(2))
    retried = a_pool(store, retry=True)
    retried.restore(content, name="c")
    assert not retried.learn(make_batch(2, ["b"] * 6)).block.rejects


def test_a_checkpoint_whose_segment_is_gone_is_damaged():
    store, pool, name, _ = damaged_pool()
    content = pool.freeze()(Progress(1))
    for each in store.names("segment-"):
        store.delete(each)
    with pytest.raises(CheckpointCorrupt, match=f"{name} is gone"):
        a_pool(store).restore(content, name="c")
    with pytest.raises(StreamError, match="key 'a'"):
        pool.learn(make_batch(1, ["a"] * 6))


def test_invalid_checkpoints_are_rejected():
    pool = a_pool(MemoryStore())
    with pytest.raises(CheckpointCorrupt):
        pool.restore(b"rubbish", name="c")
    with pytest.raises(CheckpointCorrupt, match="no valid checkpoint"):
        pool.restore(pack_pipeline({"progress": {}, "pool": {}, "segments": {}}), name="c")


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({"memory": "much"}, "number of bytes"),
        ({"memory": 0}, "number of bytes"),
        ({"segment": "2GB"}, "at most"),
        ({"max_keys": 0}, "whole number"),
        ({"patience": None}, "whole number"),
        ({"forget_after": 1.5}, "whole number"),
        ({"retry": 1}, "true or false"),
        ({"tenants": 3}, "max_keys"),
    ],
)
def test_invalid_options_raise(options, detail):
    with pytest.raises(InputError, match=detail):
        a_pool(MemoryStore(), **options)


def test_settings_that_cannot_be_reproduced_are_rejected():
    with pytest.raises(InputError, match="random_state"):
        a_pool(MemoryStore(), params={})
    with pytest.raises(InputError, match="kernel"):
        a_pool(MemoryStore(), params={**PARAMS, "kernel": lambda age: 1.0})


def test_sizes_have_units():
    assert read_size("memory", "0.5kB") == 500
    assert read_size("memory", "3") == 3


def test_a_pipeline_with_keys_continues_where_it_stopped(tmp_path):
    rng = np.random.default_rng(3)
    lines = [
        json.dumps({"who": KEYS[i % 3], "x": float(x), "y": float(i % 2)}) + "\n"
        for i, x in enumerate(rng.normal(size=300))
    ]
    lines[7] = '{"x": 1.0, "y": 2.0}\n'
    (tmp_path / "rows.jsonl").write_text("".join(lines))

    def run(folder: Path, *stops):
        for until in stops:
            settings = {
                "source": {"kind": "file", "path": str(tmp_path / "rows.jsonl")},
                "schema": {"key": "who"},
                "sink": {"kind": "file", "path": str(folder / "labels.csv")},
                "dead_letters": {"kind": "file", "path": str(folder / "dead.csv")},
                "checkpoint": {"folder": str(folder / "state"), "batches": 2},
                "batch": {"rows": 40},
                "keys": {"memory": 1, "segment": "20kB"},
            }
            build(settings).run(until=until)
        return (folder / "labels.csv").read_text(), (folder / "dead.csv").read_text()

    for name in ("once", "often"):
        (tmp_path / name).mkdir()
    labels, dead_letters = run(tmp_path / "once", None)
    assert len(labels.splitlines()) == 300
    assert "who" in dead_letters
    assert run(tmp_path / "often", 1, 2, 5, None) == (labels, dead_letters)
