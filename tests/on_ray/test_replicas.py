"""Replicas answer as the model of their version would, while it changes and while they die."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import ray

from scstream.distributed.replicas import Replicas
from scstream.errors import EngineError, InputError
from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.follower import Follower
from scstream.stream.processor import OneModel
from scstream.stream.progress import Progress
from scstream.stream.store import FolderStore
from tests.on_ray.cluster import Cluster, alive

Make = Callable[..., Replicas]


def rows_of(seed: int, n_rows: int = 200) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, 2)) + 8.0 * rng.integers(0, 3, n_rows)[:, None]


class Writer:
    """A pipeline reduced to its model and its ledger; keeps every version, for comparison."""

    def __init__(self, folder: Path) -> None:
        self.store = FolderStore(folder)
        self.checkpoint_log = CheckpointLog(self.store, newest=10_000, hourly=0)
        self.checkpoint_log.claim(time=0.0)
        self.model = OneModel(Settings(random_state=0), Steps())
        self.batch = 0

    def learn(self) -> int:
        """Learn a batch, write a checkpoint; return its version."""
        self.model.learn(SourceBatch(self.batch, {}, None, Block.of(rows_of(self.batch)), ()))
        self.batch += 1
        progress = Progress(self.batch, time.time())
        return self.checkpoint_log.publish(
            self.model.freeze()(progress), time=0.0, batch=self.batch
        )

    def answer(self, version: int, X: np.ndarray) -> np.ndarray:
        follower = Follower(self.store)
        follower.hold(version)
        return follower.score(X).values


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


@pytest.fixture
def make(cluster: Cluster, writer: Writer) -> Iterator[Make]:
    """Make replicas that are gone when the test ends."""
    made: list[Replicas] = []

    def make(**how: object) -> Replicas:
        options = {"n": 2, "interval": 0.1, "address": cluster.address, "n_jobs": 1, **how}
        made.append(Replicas(str(writer.store.folder), **options))
        return made[-1]

    yield make
    for replicas in made:
        replicas.close()


def until(reached: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.02)


def process_of(replicas: Replicas, number: int) -> int:
    slot = replicas._slots.slots[number]
    return int(ray.get(slot.actor.__ray_call__.remote(lambda replica: os.getpid()), timeout=300))


def test_answers_while_a_pipeline_writes(make: Make, writer: Writer) -> None:
    writer.learn()
    replicas = make()
    X = rows_of(99)
    answers = [replicas.score(X)]
    n_learned = 8

    def learn() -> None:
        for _ in range(n_learned):
            time.sleep(0.2)
            writer.learn()

    thread = threading.Thread(target=learn)
    thread.start()
    while thread.is_alive() or answers[-1].version < writer.checkpoint_log.version:
        answers.append(replicas.score(X))
        pending = [replicas.submit(X, method="score") for _ in range(6)]
        answers += [each.result() for each in reversed(pending)]
    thread.join()
    versions = [answer.version for answer in answers]
    assert versions == sorted(versions), "a caller has seen versions go back"
    assert len(set(versions)) > n_learned // 2
    right = {version: writer.answer(version, X) for version in set(versions)}
    for answer in answers:
        assert np.array_equal(answer.values, right[answer.version])
    until(lambda: replicas.versions() == [writer.checkpoint_log.version] * 2)


def test_at_least_waits_for_a_written_version(make: Make, writer: Writer) -> None:
    writer.learn()
    replicas = make(interval=3600.0)  # they refresh because a request asks for a newer version
    X = rows_of(99, 20)
    assert replicas.predict(X).version == writer.checkpoint_log.version
    for _ in range(5):
        version = writer.learn()
        assert replicas.score(X, at_least=version).version == version
    with pytest.raises(
        EngineError, match="no replica has version 99 in time; the last one has version 6"
    ):
        replicas.predict(X, at_least=99, deadline=0.3)
    assert replicas.predict(X).version == version


def test_killing_a_replica_fails_no_request(make: Make, writer: Writer) -> None:
    version = writer.learn()
    replicas = make()
    X = rows_of(99, 500)
    right = writer.answer(version, X)
    replicas.score(X)
    until(lambda: replicas.versions() == [version] * 2)
    processes, stop = [process_of(replicas, 0)], threading.Event()
    answers: list[np.ndarray] = []
    failed: list[Exception] = []

    def load() -> None:
        while not stop.is_set():
            try:
                pending = [replicas.submit(X, method="score") for _ in range(4)]
                answers.extend(each.result().values for each in pending)
            except Exception as error:
                failed.append(error)

    callers = [threading.Thread(target=load) for _ in range(2)]
    for caller in callers:
        caller.start()
    for kill in range(2):
        time.sleep(1.2)
        os.kill(process_of(replicas, kill % 2), signal.SIGKILL)
        until(lambda: replicas.versions() == [version] * 2)
        processes.append(process_of(replicas, kill % 2))
    stop.set()
    for caller in callers:
        caller.join()
    assert not failed
    assert len(set(processes)) == 3, "nobody was replaced"
    assert len(answers) > 100
    assert all(np.array_equal(values, right) for values in answers)


class Poison:
    """Rows that no process survives."""

    def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
        return os._exit, (1,)


def test_a_request_that_kills_replicas_raises_and_the_replicas_come_back(
    make: Make, writer: Writer
) -> None:
    version = writer.learn()
    replicas = make()
    replicas.predict(rows_of(99))
    with pytest.raises(EngineError, match="3 replicas in a row died during this request"):
        replicas.predict(Poison())
    assert replicas.predict(rows_of(99)).version == version
    until(lambda: replicas.versions() == [version] * 2)
    processes = [process_of(replicas, number) for number in range(2)]
    replicas.close()
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))


def test_replicas_follow_nodes_that_join_and_leave(
    cluster: Cluster, make: Make, writer: Writer
) -> None:
    version = writer.learn()
    replicas = make(n=None)
    X = rows_of(99)
    replicas.predict(X)
    n_nodes = len(alive())
    until(lambda: replicas.versions() == [version] * n_nodes)
    node = cluster.add_node()
    until(lambda: replicas.versions() == [version] * (n_nodes + 1))
    assert len({slot.node for slot in replicas._slots.slots}) == n_nodes + 1
    node.kill()
    answers = []

    def is_forgotten() -> bool:
        answers.append(replicas.predict(X).version)
        return replicas.versions(deadline=0.2) == [version] * n_nodes

    until(is_forgotten)
    assert set(answers) == {version}


def test_full_replicas_raise_or_wait(make: Make, writer: Writer, tmp_path: Path) -> None:
    writer.learn()
    replicas = make(n=1, max_calls=2)
    replicas.predict(rows_of(99))
    go = tmp_path / "go"

    def wait(replica: object) -> None:
        while not go.exists():
            time.sleep(0.01)

    busy = replicas._slots.slots[0].actor.__ray_call__.remote(wait)  # other calls wait behind it
    pending = [replicas.submit(rows_of(99)) for _ in range(2)]
    with pytest.raises(EngineError, match=r"all 1 replicas have 2 requests in progress"):
        replicas.submit(rows_of(99), deadline=0.0)
    with pytest.raises(EngineError, match="a replica has not answered in time"):
        pending[1].result(deadline=0.0)
    threading.Timer(0.5, go.touch).start()
    last = replicas.submit(rows_of(99))  # waits for room
    assert len(last.result().values) == 200
    assert all(len(each.result().values) == 200 for each in pending)
    ray.get(busy)
    assert not replicas._slots.slots[0].calls


def test_before_the_first_checkpoint_a_request_waits(make: Make, writer: Writer) -> None:
    replicas = make(n=1)
    X = rows_of(99, 5)
    with pytest.raises(EngineError, match=r"none of 1 replicas can answer yet: .*\."):
        replicas.predict(X, deadline=0.0)
    timer = threading.Timer(0.5, writer.learn)
    timer.start()
    assert replicas.predict(X).version == 1
    timer.join()


def test_errors_are_those_of_a_follower(make: Make, writer: Writer, tmp_path: Path) -> None:
    writer.learn()
    replicas = make(n=1)
    with pytest.raises(InputError, match=r"^X has 3 columns but"):
        replicas.predict(np.ones((2, 3)))
    assert not replicas._slots.slots[0].calls
    with pytest.raises(InputError, match="no method 'guess'"):
        replicas.submit(rows_of(1), method="guess")
    with Replicas(str(tmp_path / "away"), n=1) as away:
        until(lambda: "there is no folder" in away.statuses()[0].error)
        with pytest.raises(EngineError, match=r"none of 1 replicas .*there is no folder"):
            away.predict(rows_of(1), deadline=0.1)
