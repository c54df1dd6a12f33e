"""A pool on workers equals a pool in one process, whoever is lost when; here without Ray."""

import pickle
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from scstream.distributed.keyed_pool import RayKeys, RayPool
from scstream.distributed.keyed_worker import KeyedWorker
from scstream.distributed.keyed_workers import number_of
from scstream.errors import EngineError, InputError
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.config import build
from scstream.stream.pool import ModelPool
from tests.stream.test_pool import (
    KEYS,
    NAMES,
    PARAMS,
    RUNNING,
    MemoryStore,
    behind_torn_rows,
    checkpoint,
    files_of,
    make_batch,
)

FAR = 1000.0  # rows out there make the model of a key fail


class LocalWorkers:
    """Workers in this process instead of `KeyedWorkers`; `fates` says when a call kills one."""

    def __init__(self, make, n_wanted, fates=()):
        self.n_wanted = n_wanted
        self.workers = {}
        self.n_started = self.n_lost = 0
        self._make = make
        self._fates = iter(fates)
        self._late = {}

    @property
    def names(self):
        return tuple(sorted(self.workers, key=number_of))

    def refresh(self):
        self.workers |= self._late
        self._late = {}
        while len(self.workers) + len(self._late) < self.n_wanted:
            names = (f"w{number}" for number in count())
            name = next(n for n in names if n not in self.workers and n not in self._late)
            self.n_started += 1
            is_late = self.workers and self.n_started % 2
            (self._late if is_late else self.workers)[name] = KeyedWorker(*self._make())
        return self.names[: self.n_wanted]

    def call(self, method, tasks):
        results = {}
        for name in [name for name in tasks if name in self.workers]:
            fate = next(self._fates, None)
            if fate != "before":
                sent = pickle.loads(pickle.dumps(tasks[name]))
                result = getattr(self.workers[name], method.__name__)(sent)
                results[name] = pickle.loads(pickle.dumps(result))
            if fate is not None:
                del self.workers[name]
                results.pop(name, None)
                self.n_lost += 1
        return results

    def keep_only(self, names):
        self.workers = {name: self.workers[name] for name in names}

    def close(self):
        self.workers, self._late = {}, {}


def a_pool(store, *, workers=None, fates=(), steps=(), params=PARAMS, **options):
    """A pool on so many workers; without any, a pool in one process."""
    options = {"memory": 60_000, "segment": 20_000} | options
    kind, own = (ModelPool, {}) if workers is None else (RayPool, {"workers": workers})
    pool = kind.build(params, Steps.build(steps), column="who", store=store, **options, **own)
    if workers is not None:
        pool._workers = LocalWorkers(pool._workers._make, workers, fates)
    pool.set_columns(NAMES)
    return pool


def make_odd_batch(number, who, far=(), *, time=None):
    """Rows of keys, those of some keys far away, between messages that cannot be read."""
    source_batch = make_batch(number, who, time=time)
    if len(who):
        source_batch.block.X[np.isin(source_batch.block.extra["who"], list(far))] += FAR
    return behind_torn_rows(source_batch) if number % 3 == 1 and len(who) else source_batch


@pytest.fixture(autouse=True)
def fragile(monkeypatch):
    """Learning that fails for rows that are far away, with an error that nobody foresaw."""
    from scstream.stream import pool as pool_module

    learn_block = pool_module.learn_block

    def learn(learner, steps, block, *, time):
        if (block.X > FAR / 2).any():
            raise RuntimeError("it broke")
        return learn_block(learner, steps, block, time=time)

    monkeypatch.setattr(pool_module, "learn_block", learn)


def same(learned, expected):
    assert learned.block.rejects == expected.block.rejects
    np.testing.assert_array_equal(learned.block.row, expected.block.row)
    np.testing.assert_array_equal(learned.labels, expected.labels)
    assert learned.n_clusters == expected.n_clusters
    assert learned.n_keys == expected.n_keys
    assert learned.over_quota == expected.over_quota
    assert repr(learned.info) == repr(expected.info)  # NaN is not equal to itself


a_batch = st.tuples(
    st.lists(st.sampled_from(KEYS), max_size=12), st.sets(st.sampled_from(KEYS), max_size=2)
)
programs = st.lists(
    a_batch | st.sampled_from(["checkpoint", "restart", "alone", 1, 2, 3, 5]), max_size=12
)
fates = st.lists(st.sampled_from([None, None, None, "before", "after"]), max_size=40)
limits = st.fixed_dictionaries(
    {
        "memory": st.sampled_from([1, 60_000, "1GB"]),
        "max_keys": st.sampled_from([3, 1000]),
        "max_rows": st.sampled_from([None, 2]),
        "max_new_keys": st.sampled_from([None, 1]),
        "tenant": st.sampled_from([None, "/"]),
        "max_tenant_keys": st.sampled_from([None, 2]),
        "max_tenant_rows": st.sampled_from([None, 3]),
        "patience": st.integers(1, 2),
        "forget_after": st.sampled_from([0, 1, 2]),
    }
)


@settings(max_examples=40, deadline=None)
@given(
    program=programs,
    fates=fates,
    options=limits,
    replay=st.sampled_from([1, "1MB"]),
    timed=st.booleans(),
    steps=st.sampled_from([(), RUNNING]),
)
def test_results_equal_one_process_for_any_workers_and_losses(
    program, fates, options, replay, timed, steps
):
    options = {**options, "steps": steps}
    batches = [entry for entry in program if isinstance(entry, tuple)]
    source_batches = [
        make_odd_batch(i, who, far, time=1.5 * i if timed else None)
        for i, (who, far) in enumerate(batches)
    ]
    alone = a_pool(MemoryStore(), **options)
    expected = [alone.learn(source_batch) for source_batch in source_batches]
    store = MemoryStore()
    checkpoint_log = CheckpointLog(store, newest=1, hourly=0)
    checkpoint_log.claim(time=0.0)
    fates = iter(fates)
    pool, done = a_pool(store, workers=2, fates=fates, replay=replay, **options), 0
    reached = 0

    def learn_on():
        nonlocal done
        while done < reached:
            same(pool.learn(source_batches[done]), expected[done])
            done += 1

    for entry in [*program, "checkpoint", "alone"]:
        if isinstance(entry, tuple):
            reached += 1
        elif isinstance(entry, int) and isinstance(pool, RayPool):
            pool.rescale(entry)
            pool._workers.n_wanted = entry
        elif entry == "checkpoint":
            checkpoint(pool, checkpoint_log, done)
        elif entry in ("restart", "alone"):
            on_workers = {"workers": 3, "fates": fates, "replay": replay}
            pool = a_pool(store, **options, **(on_workers if entry == "restart" else {}))
            done = 0
            for name, content in checkpoint_log.checkpoints():
                done = pool.restore(content, name=name).batch
                break
        learn_on()
    assert sorted(pool.keys) == sorted(alone.keys)
    assert files_of(pool) == files_of(alone)
    assert sorted(pool.set_aside) == sorted(alone.set_aside)


@pytest.mark.parametrize("layout", [np.asfortranarray, sparse.csr_array])
def test_rows_in_any_layout(layout):
    params = {**PARAMS, "family": "multinomial"} if layout is sparse.csr_array else PARAMS
    pool = a_pool(MemoryStore(), workers=2, params=params)
    alone = a_pool(MemoryStore(), params=params)
    rng = np.random.default_rng(1)
    for i in range(4):
        who = rng.choice(KEYS, size=60).astype(object)
        X = layout(rng.poisson(2.0, size=(60, 2)) + 0.25 * (params is PARAMS))
        source_batch = SourceBatch(i, {}, None, Block.of(X.astype(np.float64), who=who), ())
        same(pool.learn(source_batch), alone.learn(source_batch))
    assert files_of(pool) == files_of(alone)


def test_a_lost_worker_costs_only_its_own_rows():
    store = MemoryStore()
    pool, alone = a_pool(store, workers=2), a_pool(MemoryStore())
    for i in range(3):
        source_batch = make_odd_batch(i, KEYS * 3)
        same(pool.learn(source_batch), alone.learn(source_batch))
    survivor = pool._workers.workers["w0"]
    staying, learned, learn_part = set(survivor.keys), [], survivor.learn_part

    def watched(task):
        learned.append(set(task.block.extra["who"]))
        return learn_part(task)

    survivor.learn_part = watched
    pool._workers._fates = iter([None, "before"])
    source_batch = make_odd_batch(3, KEYS * 3)
    same(pool.learn(source_batch), alone.learn(source_batch))
    assert [keys == staying for keys in learned].count(True) == 1
    assert all(not keys & staying for keys in learned if keys != staying)
    assert len(learned) == 5  # its own rows, three batches again, and the rows of this one


def test_models_that_stay_are_not_moved():
    pool = a_pool(MemoryStore(), workers=2, memory="1GB")
    pool.learn(make_batch(0, list("abcdefghijklmnop")))
    before = {name: worker.keys for name, worker in pool._workers.workers.items()}
    pool.rescale(3)
    for i in range(1, 4):
        pool.learn(make_batch(i, list("abcdefghijklmnop")))
    after = {name: set(worker.keys) for name, worker in pool._workers.workers.items()}
    assert pool.workers == ("w0", "w1", "w2")
    assert after["w2"]
    for name, keys in before.items():
        assert set(keys) - after["w2"] == after[name]
        assert pool._workers.workers[name].n_loaded == 0
    assert pool._workers.workers["w2"].n_loaded == len(after["w2"])


def test_batches_kept_for_replay_are_bounded():
    pool = a_pool(MemoryStore(), workers=2, replay=2000)
    for i in range(6):
        pool.learn(make_batch(i, KEYS * 3))
        assert pool._n_bytes <= 2000
    assert pool._workers.workers["w0"]._log.n_appended > 0


def test_unused_segments_are_deleted():
    store = MemoryStore()
    checkpoint_log = CheckpointLog(store, newest=1, hourly=0)
    checkpoint_log.claim(time=0.0)
    pool = a_pool(store, workers=3, memory=1, segment=5000)
    sizes = []
    for i in range(30):
        pool.learn(make_batch(i, KEYS * 2))
        checkpoint(pool, checkpoint_log, i + 1)
        sizes.append(len(store.names("segment-")))
    assert max(sizes[15:]) <= 1.5 * max(sizes[5:15])
    assert files_of(pool).keys() == set(KEYS)


def test_columns_that_no_model_reads_are_not_sent():
    pool = a_pool(MemoryStore(), workers=1)
    pool.learn(make_batch(0, ["a"]))
    source_batch = make_batch(1, ["a", "b"])
    block = Block.of(source_batch.block.X, who=["a", "b"], note=["one", "two"])
    assert set(pool._narrowed(block).extra) == {"who"}


def test_repeated_losses_of_workers_raise():
    pool = a_pool(MemoryStore(), workers=1, fates=["before"] * 1000)
    with pytest.raises(EngineError, match="lost 20 times in a row"):
        pool.learn(make_batch(0, ["a"]))


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({"workers": 0}, "keys.workers must be a whole number from 1, got 0"),
        ({"workers": True}, "got True"),
        ({"deadline": -1}, "keys.deadline must be a number of seconds"),
        ({"replay": "much"}, "keys.replay must be a number of bytes"),
        ({"memory": 0}, "keys.memory"),
    ],
)
def test_invalid_options_raise(options, detail):
    with pytest.raises(InputError, match=detail):
        RayKeys(**options)


def test_settings_choose_the_pool(tmp_path):
    (tmp_path / "rows.jsonl").write_text("")
    settings = {
        "source": {"kind": "file", "path": str(tmp_path / "rows.jsonl")},
        "schema": {"features": ["x"], "key": "who"},
        "checkpoint": {"folder": str(tmp_path / "state")},
    }
    plain = build(settings)
    asked = build({**settings, "keys": {"workers": 2, "memory": "1GB"}})
    assert type(plain.processor) is ModelPool
    assert type(asked.processor) is RayPool
    assert plain.settings == asked.settings  # one may go on from checkpoints of the other
    with pytest.raises(InputError, match=r"there is no keys 'worker'; there are: .*replay"):
        build({**settings, "keys": {"workers": 2, "worker": 2}})
