"""A lease: one instance holds it, and stops before another can take it, by its own clock."""

import json
import threading
import time

import pytest

from scstream.errors import AlreadyRunning, CheckpointCorrupt, Fenced, InputError, LeaseLost
from scstream.observe.events import LeaseAcquired, StandingBy, Started
from scstream.stream.clock import ManualClock, SystemClock
from scstream.stream.config import build
from scstream.stream.lease import LEASE, Lease, LeaseObserver, LeaseRecord
from scstream.stream.store import FolderStore, MemoryStore

SECONDS = 10.0
ROWS = "".join(f'{{"x": {i % 7}, "y": {i % 3}}}\n' for i in range(200))


class StoppingClock(ManualClock):
    """A clock that sets an event once it has slept long enough."""

    def __init__(self, until, stop):
        super().__init__()
        self.until, self.stop = until, stop

    def sleep(self, seconds):
        super().sleep(seconds)
        if self.seconds >= self.until:
            self.stop.set()


def waits(store, until, **options):
    """How long an instance waits for the lease; None if not until then."""
    stop = threading.Event()
    clock = StoppingClock(until, stop)
    return clock.seconds if Lease(store, SECONDS, clock=clock).acquire(stop, **options) else None


def test_the_first_instance_does_not_wait():
    assert waits(MemoryStore(), SECONDS) == 0.0


def test_a_standby_waits_for_the_whole_duration_and_not_much_longer():
    store = MemoryStore()
    assert Lease(store, SECONDS, clock=ManualClock()).acquire(threading.Event())
    assert waits(store, 0.99 * SECONDS) is None
    assert SECONDS <= waits(store, 5 * SECONDS) <= 1.2 * SECONDS


def test_the_duration_is_that_of_the_holder():
    store = MemoryStore()
    assert Lease(store, 3 * SECONDS, clock=ManualClock()).acquire(threading.Event())
    assert waits(store, 9 * SECONDS) >= 3 * SECONDS


def test_a_renewal_starts_the_duration_anew():
    store, clock = MemoryStore(), ManualClock()
    lease = Lease(store, SECONDS, clock=clock)
    assert lease.acquire(threading.Event())
    observer = LeaseObserver(store, clock)
    for _ in range(20):
        observer.look()
        assert not observer.is_free
        clock.sleep(0.4 * SECONDS)
        assert lease._write()
    observer.look()
    assert observer.has_changed
    clock.sleep(SECONDS)
    observer.look()
    assert observer.is_free


def test_a_holder_stops_before_an_observer_regards_its_lease_as_expired():
    """The observer may see a renewal at once, or late; then it waits longer."""
    for delay in (0.0, 0.1, 3.0):
        store, clock = MemoryStore(), ManualClock()
        lease = Lease(store, SECONDS, clock=clock)
        assert lease.acquire(threading.Event())
        observer = LeaseObserver(store, clock)
        clock.sleep(delay)
        observer.look()
        while not observer.is_free:
            clock.sleep(0.1)
            observer.look()
        with pytest.raises(LeaseLost):
            lease.check()


def test_a_lease_that_is_given_back_is_free_at_once():
    store = MemoryStore()
    lease = Lease(store, SECONDS, clock=SystemClock())
    assert lease.acquire(threading.Event())
    with lease:
        assert waits(store, 0.5 * SECONDS) is None
    assert waits(store, SECONDS) == 0.0


def test_the_holder_that_was_replaced_notices_at_its_next_renewal():
    store, clock = MemoryStore(), ManualClock()
    first, second = Lease(store, SECONDS, clock=clock), Lease(store, SECONDS, clock=clock)
    assert first.acquire(threading.Event())
    assert second.acquire(threading.Event(), take_over=True)
    assert not first._write()
    assert second._write()


def test_a_renewal_whose_answer_is_lost_does_not_end_the_lease():
    class Deaf(MemoryStore):
        def replace(self, name, content, *, revision):
            super().replace(name, content, revision=revision)
            raise OSError("no answer")

    store, clock = MemoryStore(), ManualClock()
    lease = Lease(store, SECONDS, clock=clock)
    assert lease.acquire(threading.Event())
    lease._store = deaf = Deaf()
    deaf._contents = store._contents
    with pytest.raises(OSError, match="no answer"):
        lease._write()
    lease._store = store
    assert lease._write()


def test_of_many_standbys_one_takes_over():
    store = MemoryStore()
    taken = [Lease(store, SECONDS, clock=ManualClock()) for _ in range(5)]
    observers = [LeaseObserver(store, ManualClock()) for _ in taken]
    for observer in observers:
        observer.look()
    assert [lease._take(o) for lease, o in zip(taken, observers, strict=True)].count(True) == 1


def test_a_damaged_lease_is_reported():
    store = MemoryStore()
    store.replace(LEASE, b"{}", revision=None)
    with pytest.raises(CheckpointCorrupt, match="lease in the store is damaged"):
        LeaseObserver(store, ManualClock()).look()


def settings(folder, name, **checkpoint):
    path = folder / f"{name}.jsonl"
    path.write_text(ROWS)
    return {
        "job": "leased",
        "source": {"kind": "file", "path": str(path)},
        "sink": {"kind": "file", "path": str(folder / f"{name}-labels.jsonl")},
        "checkpoint": {"folder": str(folder / f"{name}-state"), **checkpoint},
        "batch": {"rows": 20},
        "model": {"n_jobs": 1},
    }


@pytest.mark.parametrize("lease", ["10 parsecs", -1, 0.1, True])
def test_an_impossible_duration_is_rejected(tmp_path, lease):
    with pytest.raises(InputError, match=r"checkpoint\.lease"):
        build(settings(tmp_path, "a", lease=lease))


def test_of_two_instances_with_a_file_sink_one_works_and_one_waits(tmp_path):
    """The second takes over when the first gives the lease back, and finds everything done."""
    plain = build(settings(tmp_path, "plain"))
    assert plain.run() == 10
    stop, events = threading.Event(), ([], [])
    leased = settings(tmp_path, "leased", lease="10s")
    first, second = (build(leased, emit=heard.append) for heard in events)
    first.on_batch = lambda batch, learned: time.sleep(0.05)
    threads = [threading.Thread(target=first.run)]
    threads[0].start()
    while not any(isinstance(event, Started) for event in events[0]):
        time.sleep(0.005)
    assert second.run(stop=stop) == 0
    threads[0].join()
    assert isinstance(events[1][0], StandingBy)
    assert events[1][0].holder == events[0][0].holder
    assert [type(event) for event in events[1][1:3]] == [LeaseAcquired, Started]
    labels = [tmp_path / f"{name}-labels.jsonl" for name in ("plain", "leased")]
    assert labels[0].read_bytes() == labels[1].read_bytes()


def test_an_instance_that_cannot_renew_stops_with_its_own_exit_code(tmp_path):
    """And not by waiting for the store, which does not answer."""
    pipeline = build(settings(tmp_path, "a", lease=0.5))
    store, is_cut = pipeline.checkpoint_log.store, threading.Event()
    replace, abandoned = store.replace, threading.Event()

    def unreachable(name, content, *, revision):
        if is_cut.is_set():
            raise OSError("no route to host")
        return replace(name, content, revision=revision)

    def on_batch(batch, learned):
        is_cut.set()
        time.sleep(0.1)

    store.replace, pipeline.on_batch = unreachable, on_batch
    pipeline.abandon = abandoned.set
    with pytest.raises(LeaseLost) as caught:
        pipeline.run()
    assert caught.value.exit_code == 18


def test_a_run_that_hangs_is_abandoned_before_its_lease_is_over(tmp_path):
    """A thread waits for a server, and so does the one that renews."""
    pipeline = build(settings(tmp_path, "a", lease=1.0))
    store, end, was_free = pipeline.checkpoint_log.store, threading.Event(), []
    observer = LeaseObserver(store, SystemClock())

    def no_answer(name, content, *, revision):
        end.wait()
        raise OSError("no route to host")

    def hang(batch, learned):
        store.replace = no_answer
        observer.look()
        end.wait()

    def abandon():
        was_free.append(observer.is_free)
        end.set()

    pipeline.on_batch, pipeline.abandon = hang, abandon
    with pytest.raises(LeaseLost):
        pipeline.run()
    assert was_free == [False]


def test_an_instance_that_took_over_holds_the_lock(tmp_path):
    """The process that hangs keeps the lock of the old file."""
    store = FolderStore(tmp_path)
    with store.lock():
        with pytest.raises(AlreadyRunning), store.lock():
            pass
        with store.lock(take_over=True), pytest.raises(AlreadyRunning), store.lock():
            pass


def test_taking_over_ends_the_holder(tmp_path):
    """It was in the middle of a batch, and commits nothing after it."""
    leased = settings(tmp_path, "a", lease="60s")
    first, ended = build(leased), []
    started, is_over = threading.Event(), threading.Event()

    def hold(batch, learned):
        started.set()
        is_over.wait()

    def run():
        with pytest.raises((Fenced, LeaseLost)) as caught:
            first.run()
        ended.append(caught.value)

    first.on_batch = hold
    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    try:
        build(leased).run(take_over=True)
    finally:
        is_over.set()
        thread.join()
    assert ended


def test_the_record_names_the_process(tmp_path):
    build(settings(tmp_path, "a", lease="60s")).run()
    content, _ = FolderStore(tmp_path / "a-state").read(LEASE)
    assert json.loads(content)["holder"] == ""
    assert LeaseRecord.from_json(content).seconds == 60.0
