"""A message that stops the process can be skipped; history stays what it is."""

import json
import logging

import pytest
import redis

from scstream.errors import CheckpointCorrupt, Fenced, InputError
from scstream.stream.batcher import Batching, Offset
from scstream.stream.config import build as configured
from scstream.stream.json_messages import JsonLines
from scstream.stream.runner import CheckpointPolicy
from scstream.stream.schema import Schema
from scstream.stream.skips import SKIP, Skip, read_skips, record_skip
from scstream.stream.store import FolderStore, numbered_name
from tests.servers import NatsServer, RedisServer
from tests.stream.memory import MemorySink, MemorySource
from tests.stream.test_nats import do, make
from tests.stream.test_runner import messages, pipeline

POISON = 20  # offset of a message


class Ended(BaseException):
    """Stands for the end of a process, which no code survives."""


class DeadlyReader(JsonLines):
    """Ends at a message."""

    def read(self, value):
        if b"poison" in value:
            raise Ended
        return super().read(value)


@pytest.fixture
def rows():
    found = messages()
    found[POISON] = b"poison " + found[POISON]
    return found


def build(folder, rows, sink, dead, **changes):
    source = changes.pop("source", None) or MemorySource({"": rows})
    reader = DeadlyReader(Schema(keep=("id",)))
    return pipeline(folder, source, sink, reader=reader, dead_letters=dead, **changes)


def stopped(folder, rows, sink, dead, **changes):
    """Run until the poison; return the store."""
    with pytest.raises(Ended):
        build(folder, rows, sink, dead, **changes).run()
    return FolderStore(folder)


@pytest.mark.parametrize("threads", [False, True])
def test_a_skipped_message_is_one_dead_letter_and_all_other_rows_are_labelled(
    tmp_path, rows, threads, caplog
):
    sink, dead = MemorySink(), MemorySink()
    store = stopped(tmp_path, rows, sink, dead, threads=threads)
    n_before = len(sink.rows)
    record_skip(store, Skip(str(POISON), str(POISON)), now=1.0)
    with caplog.at_level(logging.WARNING):
        build(tmp_path, rows, sink, dead, threads=threads).run()
    (letter,) = dead.rows
    assert letter["position"] == str(POISON) and letter["reason"].startswith("skipped")
    assert letter["content"] == rows[POISON].decode() and not letter["complete"]
    lost = [json.loads(line)["id"] for line in rows[POISON][7:].splitlines()]
    assert [r["id"] for r in sink.rows] == [i for i in range(1000) if i not in lost]
    assert threads or 0 < n_before < len(sink.rows)
    assert f"the message at {POISON} is skipped" in caplog.messages


def test_a_skip_is_the_same_on_every_resume(tmp_path, rows):
    """Runs that stop after every batch, and go back to older checkpoints, give equal labels."""
    sink, dead = MemorySink(), MemorySink()
    store = stopped(tmp_path / "one", rows, sink, dead)
    record_skip(store, Skip(str(POISON), str(POISON + 2)), now=1.0)
    build(tmp_path / "one", rows, sink, dead).run(until=8)
    build(tmp_path / "one", rows, sink, dead).checkpoint_log.savepoint("eight")
    build(tmp_path / "one", rows, sink, dead).run()
    assert len(dead.rows) == 3
    # The sink in memory compares what it gets again with what it has.
    build(tmp_path / "one", rows, sink, dead).run(savepoint="eight")
    other, other_dead = MemorySink(), MemorySink()
    store = stopped(tmp_path / "two", rows, other, other_dead)
    record_skip(store, Skip(str(POISON), str(POISON + 2)), now=2.0)
    for until in range(1, 13):
        build(tmp_path / "two", rows, other, other_dead).run(until=until)
    assert (other.rows, other_dead.rows) == (sink.rows, dead.rows)


def test_committed_messages_cannot_be_skipped(tmp_path):
    rows = messages()
    build(tmp_path, rows, MemorySink(), MemorySink()).run(until=3)
    store = FolderStore(tmp_path)
    for first in ("0", "5"):
        with pytest.raises(InputError, match="committed already"):
            record_skip(store, Skip(first, "99"), now=1.0)
    assert not store.names(SKIP)


def test_a_skip_fences_off_an_instance_that_does_not_know_it(tmp_path, monkeypatch):
    """On a store without locks, such as S3, an instance may run; it cannot commit any more."""
    rows, sink = messages(), MemorySink()
    policy = CheckpointPolicy(batches=1)
    running = build(tmp_path, rows, sink, MemorySink(), checkpoint_policy=policy)
    unlocked = FolderStore(tmp_path)
    monkeypatch.setattr(unlocked, "lock", lambda: FolderStore(tmp_path / "other").lock())

    def on_batch(source_batch, learned):
        if source_batch.batch == 4:
            record_skip(unlocked, Skip("40", "40"), now=1.0)

    running.on_batch = on_batch
    with pytest.raises(Fenced):
        running.run()


def test_messages_of_other_partitions_and_sources_are_read(tmp_path):
    rows = messages()
    build(tmp_path, rows, MemorySink(), MemorySink()).run(until=1)
    store = FolderStore(tmp_path)
    record_skip(store, Skip("40", "41"), now=1.0)
    assert len(read_skips(store, {"name": "one", "began": "7"})) == 1
    assert read_skips(store, {"name": "created again"}) == []
    skip = Skip("40", "41", "3")
    assert [skip.contains("3", n) for n in (39, 40, 41, 42)] == [False, True, True, False]
    assert not skip.contains("2", 40)


def test_offsets_of_every_broker_are_ordered():
    redis = Skip("1700-3", "1701-0")
    assert [redis.contains("", f"{i}@9.ab12") for i in ("1700-2", "1700-12", "1701-0")] == [
        False,
        True,
        True,
    ]
    nats = Skip("7", "7")
    assert nats.contains("", "7@1700000000") and not nats.contains("", "70@1700000000")
    assert nats.is_committed(Offset("7@1700000000+"))
    assert nats.is_committed(Offset("7@1700000000", 1))
    assert not nats.is_committed(Offset("7@1700000000"))
    assert not nats.is_committed(Offset("6@1700000000+"))
    with pytest.raises(InputError, match="is no offset"):
        Skip("first", "first")
    with pytest.raises(InputError, match="swap them"):
        Skip("8", "7")


def test_a_damaged_record_is_not_believed(tmp_path):
    build(tmp_path, messages(), MemorySink(), MemorySink()).run(until=1)
    store = FolderStore(tmp_path)
    record_skip(store, Skip("40", "41"), now=1.0)
    name = numbered_name(SKIP, 0)
    store.put(name, store.get(name).replace(b'"41"', b'"49"'))
    with pytest.raises(CheckpointCorrupt, match="is damaged"):
        build(tmp_path, messages(), MemorySink(), MemorySink()).run()


def test_a_message_of_one_of_several_partitions_is_skipped(tmp_path, rows):
    """Batches over several partitions end where they were recorded to end."""
    partitions = {"0": rows, "1": messages(seed=3)}
    sink, dead = MemorySink(), MemorySink()
    batching = Batching(rows=90)
    with pytest.raises(Ended):
        build(tmp_path, rows, sink, dead, source=MemorySource(partitions), batching=batching).run()
    record_skip(FolderStore(tmp_path), Skip(str(POISON), str(POISON), "0"), now=1.0)
    build(tmp_path, rows, sink, dead, source=MemorySource(partitions), batching=batching).run()
    assert [(r["partition"], r["position"]) for r in dead.rows] == [("0", str(POISON))]
    assert len(sink.rows) == 2000 - len(rows[POISON].splitlines())


def redis_stream(folder):
    with RedisServer(folder) as server:
        client = redis.Redis.from_url(server.url)
        ids = [client.xadd("rows", {"row": json.dumps({"x": i})}).decode() for i in range(20)]
        yield {"kind": "redis", "url": server.url, "stream": "rows"}, ids


def nats_stream(folder):
    async def publish(js):
        for i in range(20):
            await js.publish("rows.a", json.dumps({"x": i}).encode())

    with NatsServer(folder) as server:
        make(server.url, "rows")
        do(server.url, publish)
        yield {"kind": "nats", "url": server.url, "stream": "rows"}, [str(i + 1) for i in range(20)]


@pytest.mark.parametrize("server", [redis_stream, nats_stream])
def test_messages_of_real_brokers_are_skipped_by_their_offsets(tmp_path, server):
    for source, offsets in server(tmp_path):
        settings = {
            "source": source,
            "schema": {"features": ["x"], "keep": ["x"]},
            "batch": {"rows": 4},
            "sink": {"kind": "file", "path": str(tmp_path / "labels.jsonl")},
            "dead_letters": {"kind": "file", "path": str(tmp_path / "dead.jsonl")},
            "checkpoint": {"folder": str(tmp_path / "state")},
        }
        configured(settings).run(until=1)
        store = FolderStore(tmp_path / "state")
        with pytest.raises(InputError, match="committed already"):
            record_skip(store, Skip(offsets[3], offsets[9]), now=1.0)
        record_skip(store, Skip(offsets[6], offsets[7]), now=1.0)
        configured(settings).run(until=5)
    labelled, dead = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("labels.jsonl", "dead.jsonl")
    )
    assert [row["x"] for row in labelled] == [i for i in range(20) if i not in (6, 7)]
    assert [json.loads(letter["content"])["x"] for letter in dead] == [6, 7]
