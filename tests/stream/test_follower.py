"""A follower answers as the model of its version would, and never goes back."""

import json
import threading
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scstream import ScStream
from scstream.errors import InputError, StreamError
from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.clock import ManualClock
from scstream.stream.config import build
from scstream.stream.follower import Follower
from scstream.stream.processor import OneModel
from scstream.stream.progress import Progress
from scstream.stream.schema import Schema
from scstream.stream.store import FolderStore, MemoryStore

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
NAMES = ("x", "y")


def rows_of(seed, n_rows=200, n_columns=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_columns)) + 8.0 * rng.integers(0, 3, n_rows)[:, None]


def progress_of(batch):
    return Progress(batch, float(batch), schema=Schema(NAMES))


def contents(n_batches, *, steps=(), seed=0, **params):
    """Checkpoints of one model: before the first batch and after every one."""
    model = OneModel(Settings.of({"random_state": 0, **params}), Steps.build(list(steps)))
    model.set_columns(NAMES)
    yield model.freeze()(progress_of(0))
    for batch in range(n_batches):
        model.learn(SourceBatch(batch, {}, None, Block.of(rows_of(seed + batch)), ()))
        yield model.freeze()(progress_of(batch + 1))


EMPTY, *SOUND = contents(4)
ASKED = rows_of(99)


def restored(content):
    """The model and its steps, by the way that the pipeline restores them."""
    model = OneModel(Settings(), Steps())
    model.restore(content, name="c")
    return model


def name_of(version):
    return f"version-{version:015d}"


def damaged(content):
    return content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]


def store_of(*versions):
    store = MemoryStore()
    for version, content in enumerate(versions):
        store.put(name_of(version), content)
    return store


class Told(list):
    """What was announced."""

    def __call__(self, event):
        self.append(event)

    def of(self, kind):
        return [event.to_dict() for event in self if event.event == kind]


def test_predictions_equal_those_of_the_model_file(tmp_path):
    store = FolderStore(tmp_path)
    for version, content in enumerate(SOUND):
        store.put(name_of(version), content)
        follower = Follower(FolderStore(tmp_path))
        model = ScStream.load(tmp_path / name_of(version))
        many = rows_of(7, n_rows=10_000)
        for time in (None, 50.0):
            for X in (ASKED, many, ASKED[:1], ASKED[:0]):
                told, scored = follower.predict(X, time=time), follower.score(X, time=time)
                assert told.version == scored.version == version
                assert np.array_equal(told.values, model.predict(X, time=time))
                assert np.array_equal(scored.values, model.score_samples(X, time=time))
        assert told.values.dtype == np.int64


def test_new_checkpoints_of_a_pipeline_are_loaded(tmp_path):
    lines = [json.dumps({"x": x, "y": y}) for x, y in rows_of(1, 1000).tolist()]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    state = tmp_path / "state"
    settings = {
        "source": {"kind": "file", "path": str(tmp_path / "rows.jsonl")},
        "checkpoint": {"folder": str(state), "batches": 1},
        "batch": {"rows": 100},
        "steps": [{"step": "standardise"}],
    }
    seen = []
    follower = None
    for until in range(1, 11):
        build(settings).run(until=until)
        follower = follower or Follower.open(str(state))
        assert follower.refresh() == (until > 1)
        seen.append(follower.version)
        assert follower.batch == until
        assert follower.predict(rows_of(1, 5)).values.shape == (5,)
    assert seen == sorted(set(seen))
    assert follower.columns == NAMES


@pytest.mark.parametrize(
    "steps",
    [
        [{"step": "standardise"}, {"step": "pca", "n": 1}],
        [{"step": "select", "columns": ["y"]}, {"step": "standardise", "clip": 3.0}],
        [{"step": "random_projection", "n": 2, "seed": 3}],
        [{"step": "standardise", "mode": "running", "half_life": 2.0}],
    ],
)
def test_rows_are_preprocessed_as_in_the_pipeline(tmp_path, steps):
    *_, content = contents(3, steps=steps)
    follower = Follower(store_of(content))
    known = restored(content).steps
    if steps[0].get("mode") == "running":  # and learning nothing: as if it were frozen now
        saved = {"options": [{"step": "standardise"}], "learned": known.save()["learned"]}
        known = Steps.load(saved)
    (tmp_path / "model").write_bytes(content)
    model, X = ScStream.load(tmp_path / "model"), known.apply(Block.of(ASKED))[1].X
    told = follower.predict(ASKED).values
    assert np.array_equal(told, model.predict(X))
    assert np.array_equal(follower.score(ASKED).values, model.score_samples(X))
    alone = np.concatenate([follower.predict(row[None]).values for row in ASKED])
    assert np.array_equal(told, alone), "a row is answered by itself, whoever its neighbours are"


def test_texts_come_in_a_block():
    model = OneModel(
        Settings(family="multinomial", random_state=0),
        Steps.build([{"step": "count_words", "min_count": 1}]),
    )
    texts = ["red red blue", "green leaf leaf", "blue red"] * 20
    model.learn(SourceBatch(0, {}, None, Block.of(np.zeros((60, 0)), text=texts), ()))
    follower = Follower(store_of(model.freeze()(progress_of(1))))
    asked = Block.of(np.zeros((2, 0)), text=["red blue", "leaf"])
    assert follower.predict(asked).values.shape == (2,)
    with pytest.raises(InputError, match=r"1 of 2 rows .* row 1: column .text. has no word"):
        follower.predict(Block.of(np.zeros((2, 0)), text=["red blue", "unheard"]))


class Counting(MemoryStore):
    """A store that counts what is read."""

    n_reads = 0

    def get(self, name, start=0, length=-1):
        self.n_reads += 1
        return super().get(name, start, length)


def test_nothing_is_read_without_a_new_checkpoint():
    store = Counting()
    store.put(name_of(0), SOUND[0])
    store.put(name_of(1), damaged(SOUND[1]))
    told = Told()
    follower = Follower(store, emit=told)
    n_reads = store.n_reads
    assert not any(follower.refresh() for _ in range(5))
    assert store.n_reads == n_reads
    assert [said["name"] for said in told.of("damaged")] == [name_of(1)]


def test_a_checkpoint_without_valid_progress_is_skipped():
    store, told = store_of(SOUND[0]), Told()
    follower = Follower(store, emit=told)
    store.put(name_of(1), restored(SOUND[1]).freeze()(Progress(None)))
    assert not follower.refresh()
    assert (follower.version, len(told.of("damaged"))) == (0, 1)


def test_an_error_of_the_store_leaves_the_checkpoint_in_use():
    store = Counting()
    store.put(name_of(0), SOUND[0])
    follower = Follower(store)
    store.put(name_of(1), SOUND[1])
    for method in ("names", "get"):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(StreamError, match="is away"):
            patch.setattr(store, method, away)
            follower.refresh()
        assert follower.predict(ASKED).version == 0
    assert follower.refresh()
    assert follower.version == 1


def away(*arguments):
    raise StreamError("the server is away")


def test_a_checkpoint_of_a_later_format_is_skipped():
    later = MemoryStore()
    later.put(name_of(0), SOUND[0])
    told = Told()
    follower = Follower(later, emit=told)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scstream.io.model_file.SCHEMA", 2)
        *_, content = contents(1)
    later.put(name_of(1), content)
    assert not follower.refresh()
    assert follower.version == 0
    assert "upgrade" in told.of("too_new")[0]["reason"]


ACTS = st.sampled_from(["sound", "damaged", "torn", "claim", "empty", "prune", "refresh"])


@settings(deadline=None, max_examples=60)
@given(st.lists(ACTS, max_size=25))
def test_the_version_is_the_newest_valid_one_and_never_decreases(acts):
    store, told = MemoryStore(), Told()
    follower = Follower(store, emit=told)
    sound, spoilt, expected = [], set(), -1
    for version, act in enumerate([*acts, "refresh"]):
        if act == "prune":
            for name in store.names("version-")[:-2]:
                store.delete(name)
        elif act == "refresh":
            there = [v for v in sound if name_of(v) in store.names()]
            newest = max([expected, *there])
            assert follower.refresh() == (newest > expected)
            expected = newest
            assert follower.version == expected
        else:
            content = SOUND[version % len(SOUND)]
            what = {"damaged": damaged(content), "torn": content[:100], "empty": EMPTY}
            store.put(
                name_of(version), what.get(act, b'{"claim": 1}' if act == "claim" else content)
            )
            if act == "sound":
                sound.append(version)
            if act in ("damaged", "torn"):
                spoilt.add(name_of(version))
    names = [said["name"] for said in told.of("damaged")]
    assert len(names) == len(set(names))
    assert spoilt.issuperset(names)


class Racing(MemoryStore):
    """A store whose writer publishes and prunes between the list and the reading."""

    def __init__(self, times):
        super().__init__()
        self.left, self.version = times, 0

    def names(self, prefix=""):
        names = super().names(prefix)
        if self.left and prefix == "version-":
            self.left -= 1
            for name in names:
                self.delete(name)
            self.version += 1
            self.put(name_of(self.version), SOUND[self.version % len(SOUND)])
        return names


@pytest.mark.parametrize("times", [1, 2, 5, 9])
def test_a_version_pruned_between_listing_and_reading_is_replaced_by_a_newer_one(times):
    store = Racing(times)
    store.put(name_of(0), SOUND[0])
    follower = Follower(store)
    assert follower.version == times


def test_refresh_gives_up_if_every_version_is_pruned_before_it_is_read():
    store = Racing(1000)
    store.put(name_of(0), SOUND[0])
    follower = Follower(store)
    assert follower.version == -1
    store.left = 0
    assert follower.refresh()
    assert follower.version == store.version


def test_readers_get_valid_versions_while_a_writer_prunes(tmp_path):
    checkpoint_log = CheckpointLog(FolderStore(tmp_path), newest=1, hourly=0)
    checkpoint_log.claim(time=0.0)
    done, wrong = threading.Event(), []

    def read():
        follower, last = Follower(FolderStore(tmp_path)), -1
        while not done.is_set():
            follower.refresh()
            with suppress(StreamError):  # before the first checkpoint
                answer = follower.predict(ASKED)
                expected = Follower(store_of(SOUND[answer.batch % len(SOUND)])).predict(ASKED)
                if answer.version < last or not np.array_equal(answer.values, expected.values):
                    wrong.append(answer)
                last = answer.version
        follower.refresh()
        if follower.version != checkpoint_log.version:
            wrong.append(follower.version)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(60):
        model = restored(SOUND[number % len(SOUND)])
        checkpoint_log.publish(
            model.freeze()(progress_of(number)), time=float(number), batch=number
        )
        checkpoint_log.prune(time=float(number))
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong


def test_each_prediction_of_many_threads_uses_one_version():
    store = store_of(*SOUND[:1])
    follower = Follower(store)
    right = {v: Follower(store_of(content)).score(ASKED).values for v, content in enumerate(SOUND)}
    done, wrong = threading.Event(), []

    def ask():
        while not done.is_set():
            answer = follower.score(ASKED)
            if not np.array_equal(answer.values, right[answer.version % len(SOUND)]):
                wrong.append(answer.version)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for version in range(1, 40):
        store.put(name_of(version), SOUND[version % len(SOUND)])
        assert follower.refresh()
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_older_version_is_used_only_after_hold():
    store = store_of(*SOUND[:3])
    follower = Follower(store)
    follower.hold(0)
    store.put(name_of(3), SOUND[3])
    assert not follower.refresh()
    assert follower.version == follower.predict(ASKED).version == 0
    follower.hold(None)
    assert follower.refresh()
    assert follower.version == 3
    with pytest.raises(InputError, match="no version 9 any more, or not yet; there are: 0, 1"):
        follower.hold(9)
    store.put(name_of(4), EMPTY)
    with pytest.raises(InputError, match="version 4 holds no model yet"):
        follower.hold(4)
    assert follower.version == 3


def test_age_is_the_time_since_the_checkpoint_was_written():
    clock = ManualClock(10.0)
    follower = Follower(store_of(SOUND[2]), clock=clock)
    assert follower.age == 7.0
    clock.sleep(5)
    assert follower.age == 12.0


def test_before_the_first_model_an_error_explains_what_to_do():
    store = store_of(EMPTY)
    follower = Follower(store)
    assert follower.version == -1
    for question in (follower.predict, follower.score):
        with pytest.raises(StreamError, match="no valid checkpoint with a model yet"):
            question(ASKED)
    store.put(name_of(1), SOUND[0])
    assert follower.refresh()
    assert follower.predict(ASKED).version == 1


@pytest.mark.parametrize(
    ("rows", "detail"),
    [
        (np.ones(2), "must be a table"),
        (np.ones((2, 3)), "X has 3 columns but this model was started with 2"),
        ([["a", "b"]], "must hold numbers"),
        ([[1.0, np.nan]], "contains NaN at row 0"),
        ([[1.0, 1e200]], "too large"),
    ],
)
def test_invalid_rows_are_rejected(rows, detail):
    with pytest.raises(InputError, match=detail):
        Follower(store_of(SOUND[0])).predict(rows)


def test_a_missing_folder_is_not_created(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        Follower.open(str(tmp_path / "away"))
    assert not (tmp_path / "away").exists()
