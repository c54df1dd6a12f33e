"""Redis Streams as a source and as a sink, with real servers that are killed and lose data."""

import json
import logging
import threading
import time
from functools import partial

import pytest
import redis

from scstream.errors import (
    InputError,
    SinkError,
    SourceChanged,
    SourceGap,
    SourceRegressed,
    StreamError,
)
from scstream.stream.config import build
from scstream.stream.connectors.redis import RedisSink, RedisSource
from scstream.stream.sink import Delivery
from scstream.stream.source import Resume
from tests.faults.chaos import ChaosProxy
from tests.servers import RedisServer
from tests.stream.memory import (
    CLUSTERS,
    clusters_through,
    collect,
    delivery,
    levels,
    numbers_of,
    opened,
    resume_at,
    with_lost_end,
    write_at_once,
    written,
)


def client(server):
    return redis.Redis.from_url(server.url, protocol=2)


def add(server, name, numbers, *, first_id=None):
    with client(server) as db:
        for number in numbers:
            entry = "*" if first_id is None else f"{first_id + number}-0"
            db.xadd(name, {"row": b"%d" % number}, id=entry)


def stored(server, name):
    with client(server) as db:
        return [(entry.decode(), fields) for entry, fields in db.xrange(name)]


def read_until_error(source):
    for _ in range(100):
        source.read(10, 0.1)


@pytest.fixture
def filled(redis_server, own_name):
    """A stream of 20 entries: its server and its key."""
    add(redis_server, own_name, range(20))
    return redis_server, own_name


@pytest.fixture
def own_server(tmp_path):
    """A server for tests that harm it."""
    with RedisServer(tmp_path / "redis", durable=True) as server:
        yield server


def test_start_sets_where_reading_begins(filled):
    server, name = filled
    eighth = stored(server, name)[7][0]
    for start, first in (("first", 0), (eighth, 7)):
        source = opened(RedisSource(server.url, name, start=start))
        assert numbers_of(collect(source, 20 - first)) == list(range(first, 20))
        source.close()
    late = opened(RedisSource(server.url, name, start="last"))
    assert late.read(1, 0.1) == []
    identity = dict(late.identity())
    late.close()
    add(server, name, [20])
    again = opened(RedisSource(server.url, name, start="last"), Resume(identity, {}))
    assert numbers_of(collect(again, 1)) == [20]  # written while no source was open
    again.close()


def test_a_missing_stream_counts_as_empty(redis_server, own_name):
    source = opened(RedisSource(redis_server.url, own_name))
    assert source.read(1, 0.05) == []
    identity = dict(source.identity())
    add(redis_server, own_name, range(3))
    assert numbers_of(collect(source, 3)) == [0, 1, 2]
    again = opened(RedisSource(redis_server.url, own_name), Resume(identity, {}))
    assert numbers_of(collect(again, 3)) == [0, 1, 2]
    for one in (source, again):
        one.close()


def test_the_field_of_the_message_is_an_option_and_may_be_missing(redis_server, own_name):
    with client(redis_server) as db:
        db.xadd(own_name, {"row": b"a", "body": b"b"})
        db.xadd(own_name, {"row": b"a"})
    source = opened(RedisSource(redis_server.url, own_name, field="body"))
    records = collect(source, 2)
    assert [record.value for record in records] == [b"b", b""]
    other = RedisSource(redis_server.url, own_name)
    with pytest.raises(SourceChanged, match=r"'field': 'body'.*now .*'field': 'row'"):
        other.open(resume_at(source, records[0].after))
    other.open(resume_at(source, records[0].after), accept_gap=True)
    assert [record.value for record in collect(other, 2)] == [b"a", b"a"]
    for one in (source, other):
        one.close()


def test_a_read_is_bounded_in_bytes(redis_server, own_name):
    with client(redis_server) as db:
        for _ in range(40):
            db.xadd(own_name, {"row": bytes(1 << 20)})
    source = opened(RedisSource(redis_server.url, own_name))
    sizes = [len(source.read(1000, 1.0)) for _ in range(3)]
    assert max(sizes) <= 16
    assert sum(sizes) == 40
    source.close()


@pytest.mark.parametrize("n_new", [3, 30])
def test_a_stream_that_was_created_again_raises_source_changed(filled, n_new):
    server, name = filled
    source = opened(RedisSource(server.url, name))
    resume = resume_at(source, collect(source, 20)[-1].after)
    with client(server) as db:
        db.delete(name)
    with pytest.raises(SourceRegressed, match=r"up to .* were read, but it ends at 0-0"):
        read_until_error(source)
    add(server, name, range(n_new))
    with pytest.raises(
        SourceChanged, match=r"20 entries up to .* but only 0 were ever removed from this one"
    ):
        RedisSource(server.url, name).open(resume)
    again = opened(RedisSource(server.url, name), resume, accept_gap=True)
    assert numbers_of(collect(again, n_new)) == list(range(n_new))
    for one in (source, again):
        one.close()


def test_reused_ids_are_detected(redis_server, own_name):
    add(redis_server, own_name, range(10), first_id=1)
    source = opened(RedisSource(redis_server.url, own_name))
    resume = resume_at(source, collect(source, 5)[-1].after)
    source.close()
    with client(redis_server) as db:
        db.delete(own_name)
        for number in range(12):
            db.xadd(own_name, {"row": b"new %d" % number}, id=f"{number + 1}-0")
    with pytest.raises(SourceRegressed, match="5-0 has another content"):
        RedisSource(redis_server.url, own_name).open(resume)


def test_lost_messages_at_the_end_of_a_stream_are_detected(own_server):
    source = RedisSource(own_server.url, "rows")
    resume = with_lost_end(own_server, source, partial(add, own_server, "rows"))
    with pytest.raises(SourceRegressed, match=r"The server lost entries .*--accept-gap"):
        read_until_error(source)
    with pytest.raises(SourceRegressed, match="lost entries"):
        RedisSource(own_server.url, "rows").open(resume)
    again = opened(RedisSource(own_server.url, "rows"), resume, accept_gap=True)
    add(own_server, "rows", [50])
    assert numbers_of(collect(again, 1)) == [50]
    for one in (source, again):
        one.close()


def test_lost_entries_are_detected_although_new_ones_were_added(own_server):
    source = RedisSource(own_server.url, "rows")
    resume = with_lost_end(own_server, source, partial(add, own_server, "rows"))
    source.close()
    add(own_server, "rows", range(100, 120))
    with pytest.raises(SourceRegressed, match="is missing, although it was not deleted"):
        RedisSource(own_server.url, "rows").open(resume)
    again = opened(RedisSource(own_server.url, "rows"), resume, accept_gap=True)
    assert numbers_of(collect(again, 20)) == list(range(100, 120))
    again.close()


def test_a_restart_without_persistence_is_detected(tmp_path):
    with RedisServer(tmp_path / "forgetful") as server:
        add(server, "rows", range(5))
        source = opened(RedisSource(server.url, "rows"))
        collect(source, 5)
        server.restart()
        with pytest.raises(SourceRegressed, match="it ends at 0-0"):
            read_until_error(source)
        source.close()


def test_a_gap_is_detected_and_can_be_accepted(filled):
    server, name = filled
    source = opened(RedisSource(server.url, name))
    records = collect(source, 6)
    identity = dict(source.identity())
    source.close()
    with client(server) as db:
        db.xtrim(name, maxlen=14, approximate=False)
    exact = opened(RedisSource(server.url, name), Resume(identity, {"": records[5].after}))
    assert exact.lag() == 14
    assert numbers_of(collect(exact, 14)) == list(range(6, 20))  # only what was read is gone
    exact.close()
    again = RedisSource(server.url, name)
    with pytest.raises(SourceGap, match=r"has a gap: 1 entries are gone.*--accept-gap"):
        again.open(Resume(identity, {"": records[4].after}))
    with pytest.raises(SourceGap, match="6 entries are gone"):
        again.open(Resume(identity, {}))
    inside = Resume(identity, {"": records[5].position})
    with pytest.raises(SourceGap):
        again.open(inside)
    again.open(inside, accept_gap=True)
    left = collect(again, 14)
    assert numbers_of(left) == list(range(6, 20))
    assert left[0].position != inside.positions[""]
    again.close()


def test_single_deleted_entries_are_a_gap(filled):
    server, name = filled
    source = opened(RedisSource(server.url, name))
    resume = resume_at(source, collect(source, 6)[-1].after)
    source.close()
    with client(server) as db:
        db.xdel(name, stored(server, name)[8][0])
    again = RedisSource(server.url, name)
    with pytest.raises(SourceGap, match="some entries were deleted"):
        again.open(resume)
    again.open(resume, accept_gap=True)
    assert numbers_of(collect(again, 13)) == [6, 7, *range(9, 20)]
    again.close()


def test_a_gap_that_appears_while_reading_is_detected(filled):
    server, name = filled
    source = opened(RedisSource(server.url, name))
    assert numbers_of(source.read(2, 1.0)) == [0, 1]
    with client(server) as db:
        db.xtrim(name, maxlen=5, approximate=False)
    with pytest.raises(SourceGap, match="13 entries are gone"):
        source.read(1, 0.1)
    source.close()


def test_trim_removes_acknowledged_entries(filled):
    server, name = filled
    source = opened(RedisSource(server.url, name, trim=True))
    records = collect(source, 10)
    source.acknowledge({"": records[9].after})
    assert len(stored(server, name)) == 11  # the last one stays, to be recognised by
    again = opened(RedisSource(server.url, name), resume_at(source, records[9].after))
    assert numbers_of(collect(again, 10)) == list(range(10, 20))
    keeper = opened(RedisSource(server.url, name), resume_at(source, records[9].after))
    keeper.acknowledge({"": collect(keeper, 10)[-1].after})
    assert len(stored(server, name)) == 11
    for one in (source, again, keeper):
        one.close()


def test_reading_continues_after_the_server_was_killed(own_server):
    add(own_server, "rows", range(300))
    source = opened(RedisSource(own_server.url, "rows"))
    records = source.read(100, 1.0)
    own_server.kill()
    records += collect(source, 100, seconds=0.5)
    assert source.lag() is None
    source.acknowledge({"": records[-1].after})
    own_server.start()
    add(own_server, "rows", range(300, 400))
    records += collect(source, 400 - len(records))
    assert numbers_of(records) == list(range(400))
    source.close()


@pytest.mark.parametrize("how", ["pause", "black hole"])
def test_reading_continues_after_the_connection_was_silent(own_server, how):
    add(own_server, "rows", range(50))
    with ChaosProxy(own_server.port) as proxy:
        source = opened(RedisSource(f"redis://127.0.0.1:{proxy.port}", "rows"))
        records = collect(source, 20)
        if how == "pause":
            own_server.pause()
        else:
            proxy.mode = "black hole"
        began = time.monotonic()
        assert source.read(10, 0.05) == []
        assert time.monotonic() - began < 4.0
        own_server.go_on()
        proxy.mode = "pass"
        records += collect(source, 30)
        assert numbers_of(records) == list(range(50))
        source.close()


def test_reading_through_a_faulty_network_loses_and_repeats_nothing(own_server):
    with ChaosProxy(own_server.port, seed=3) as proxy:
        source = opened(RedisSource(f"redis://127.0.0.1:{proxy.port}", "rows"))
        proxy.storm(calm=0.1, fault=0.05)
        records = []
        for first in range(0, 2000, 50):
            add(own_server, "rows", range(first, first + 50))
            records += collect(source, 40, seconds=60.0)
        records += collect(source, 400, seconds=60.0)
        assert numbers_of(records) == list(range(2000))
        assert proxy.n_resets > 3
        source.close()


def test_an_unreachable_server_raises_after_the_retry_timeout(redis_server, own_name, caplog):
    url = "redis://me:hunter2@127.0.0.1:1/0"
    with pytest.raises(StreamError, match="has been unavailable for") as caught:
        RedisSource(url, "rows", retry_timeout=0.2).open(None)
    assert "hunter2" not in str(caught.value) + caplog.text + repr(RedisSource(url, "rows"))
    with pytest.raises(StreamError, match="call `open` first"):
        RedisSource(redis_server.url, own_name).read(1, 0.0)
    with client(redis_server) as db:
        db.set(own_name, "text")
    with pytest.raises(StreamError, match=r"cannot be read: .*wrong kind of value"):
        RedisSource(redis_server.url, own_name).open(None)
    with pytest.raises(SinkError, match=r"cannot be written: .*wrong kind of value"):
        RedisSink(redis_server.url, own_name).open(None)


def test_closing_ends_a_wait():
    source = RedisSource("redis://127.0.0.1:1/0", "rows")
    threading.Timer(0.3, source.close).start()
    with pytest.raises(StreamError, match="was closed"):
        source.open(None)


def test_wrong_credentials_raise_at_once(own_server):
    with client(own_server) as db:
        db.config_set("requirepass", "s3cret")
    url = f"redis://:wrong@127.0.0.1:{own_server.port}/0"
    with pytest.raises(StreamError, match="rejects the user or password") as caught:
        RedisSource(url, "rows").open(None)
    assert "wrong@" not in str(caught.value)
    assert RedisSource(url, "rows").doctor()[0].level == "warn"


def ids_of(server, name):
    return [entry for entry, _ in stored(server, name)]


def test_missing_rows_of_a_batch_are_added(redis_server, own_name):
    sink = RedisSink(redis_server.url, own_name, format="json")
    sink.open(None)
    written(sink, [0], n_rows=3)
    sink.close()
    sink.open(None)
    assert written(sink, [0], n_rows=5) == {"id": "1-4", "added": 5}
    sink.close()
    found = stored(redis_server, own_name)
    assert [json.loads(fields[b"row"])["index"] for _, fields in found] == list(range(5))
    assert {fields[b"job"] for _, fields in found} == {b"job"}


def test_written_labels_can_be_read_by_the_source(redis_server, own_name):
    sink = RedisSink(redis_server.url, own_name)
    assert clusters_through(sink, RedisSource(redis_server.url, own_name)) == CLUSTERS


@pytest.mark.parametrize(
    ("batches", "others", "detail"),
    [
        ([0], {"job": "other"}, "entries of the job 'other'"),
        ([0], {"shift": 1}, "the entry 1-0 has another content"),
        ([0, 1], {"job": "other"}, "entries of the job 'other'"),
    ],
)
def test_messages_of_another_writer_are_rejected(redis_server, own_name, batches, others, detail):
    sink = RedisSink(redis_server.url, own_name)
    sink.open(None)
    written(sink, batches, **others)
    sink.close()
    ours = RedisSink(redis_server.url, own_name)
    ours.open(None)
    with pytest.raises(SinkError, match=f"did not write: .*{detail}.*its own stream"):
        written(ours, [0])
    ours.close()


def test_entries_of_other_writers_are_rejected(filled):
    server, name = filled
    sink = RedisSink(server.url, name)
    sink.open(None)
    with pytest.raises(SinkError, match="entries of the job None"):
        written(sink, [0])
    with client(server) as db:
        db.xtrim(name, maxlen=0, approximate=False)
    sink.open(None)
    with pytest.raises(SinkError, match="no entry is left to compare with"):
        written(sink, [0])
    sink.close()


def test_an_entry_of_another_writer_in_between_is_rejected(redis_server, own_name):
    sink = RedisSink(redis_server.url, own_name)
    sink.open(None)
    written(sink, [0])
    with client(redis_server) as db:
        db.xadd(own_name, {"row": "x"}, id="5-0")
    with pytest.raises(SinkError, match="entries of the job None"):
        written(sink, [1])
    sink.close()


def test_lost_confirmed_entries_are_detected(tmp_path):
    with RedisServer(tmp_path / "forgetful") as server:
        sink = RedisSink(server.url, "labels")
        sink.open(None)
        position = written(sink, range(3))
        sink.write(delivery(3))
        server.restart()
        with pytest.raises(SinkError, match=r"confirmed 4 up to 4-0, but has had 1 up to 4-0"):
            sink.flush()
        sink.close()
        with pytest.raises(SinkError, match="has lost entries"):
            RedisSink(server.url, "labels").open(position)
        again = RedisSink(server.url, "labels", accept_loss=True)
        again.open(position)
        assert written(again, [3]) == {"id": "4-0", "added": 1}
        assert ids_of(server, "labels") == ["4-0"]
        again.close()


def test_rows_out_of_order_are_rejected(redis_server, own_name):
    sink = RedisSink(redis_server.url, own_name, format="json")
    sink.open(None)
    backwards = {name: values[::-1] for name, values in delivery(0).columns.items()}
    with pytest.raises(SinkError, match="not in order of `index`"):
        sink.write(Delivery("job", 0, backwards))
    sink.close()


def test_the_sink_waits_for_a_full_server_without_leaving_holes(own_server):
    sink = RedisSink(own_server.url, "labels", format="json", retry_timeout=1.0)
    sink.open(None)
    with client(own_server) as db:
        db.config_set("maxmemory", "1")
        with pytest.raises(
            StreamError, match=r"has been unavailable for .*used memory > 'maxmemory'"
        ):
            written(sink, range(3))
        sink.close()
        sink = RedisSink(own_server.url, "labels", format="json")
        sink.open(None)
        threading.Timer(0.5, lambda: db.config_set("maxmemory", "0")).start()
        written(sink, range(4))
    expected = [f"{batch + 1}-{row}" for batch in range(4) for row in range(4)]
    assert ids_of(own_server, "labels") == expected
    sink.close()


def test_two_instances_write_everything_once(redis_server, own_name):
    sinks = [RedisSink(redis_server.url, own_name, format="json") for _ in range(2)]
    write_at_once(sinks, 60, flush_every=1)
    expected = [f"{batch + 1}-{row}" for batch in range(60) for row in range(4)]
    assert ids_of(redis_server, own_name) == expected


def test_writing_continues_after_the_server_was_killed(own_server):
    sink = RedisSink(own_server.url, "labels", format="json")
    sink.open(None)
    for batch in range(300):
        sink.write(delivery(batch, 20))
        if batch in (120, 240):
            threading.Thread(target=own_server.restart).start()
        if batch % 5 == 4:
            sink.flush()
    sink.flush()
    ids = ids_of(own_server, "labels")
    assert ids == [f"{batch + 1}-{row}" for batch in range(300) for row in range(20)]
    sink.close()


def test_writing_through_a_faulty_network_writes_each_label_once(own_server):
    with ChaosProxy(own_server.port, seed=5) as proxy:
        sink = RedisSink(f"redis://127.0.0.1:{proxy.port}/0", "labels", format="json")
        sink.open(None)
        proxy.storm(calm=0.1, fault=0.05)
        for batch in range(200):
            sink.write(delivery(batch, 20))
            sink.flush()
            time.sleep(0.01)
        assert proxy.n_resets > 3
        sink.close()
    ids = ids_of(own_server, "labels")
    assert ids == [f"{batch + 1}-{row}" for batch in range(200) for row in range(20)]


def test_doctor_explains_what_a_reply_means(own_server):
    add(own_server, "rows", range(3))
    source = RedisSource(own_server.url, "rows")
    good = {"server": "ok", "appendfsync": "ok", "maxmemory-policy": "ok", "stream": "ok"}
    assert levels(source.doctor()) == good
    with client(own_server) as db:
        db.config_set("appendfsync", "everysec")
        db.config_set("maxmemory", "100mb")
        db.config_set("maxmemory-policy", "allkeys-lru")
        found = RedisSink(own_server.url, "labels").doctor()
        assert levels(found) == {"server": "ok", "appendfsync": "warn", "maxmemory-policy": "warn"}
        assert "too old for a sink to wait" in found[1].detail
        db.config_set("appendonly", "no")
        assert levels(source.doctor())["appendonly"] == "warn"
    own_server.kill()
    gone = source.doctor()
    assert levels(gone) == {"server": "warn"}


@pytest.mark.parametrize(
    ("build", "detail"),
    [
        (lambda: RedisSource("redis://x", "a", start="noon"), "'noon' is not a position"),
        (lambda: RedisSink("redis://x", "a", format="xml"), "format is 'xml'"),
        (lambda: RedisSource("http://x", "a").open(None), "http://x is not the address"),
    ],
)
def test_invalid_options_are_rejected(build, detail):
    with pytest.raises(InputError, match=detail):
        build()


def test_an_outage_is_logged_once(own_server, caplog):
    source = opened(RedisSource(own_server.url, "rows"))
    with caplog.at_level(logging.INFO):
        own_server.kill()
        assert collect(source, 1, seconds=1.0) == []
        own_server.start()
        add(own_server, "rows", [1])
        assert numbers_of(collect(source, 1)) == [1]
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(" at ")[0] for text in told] == ["waiting for Redis", "Redis"]
    source.close()


def test_a_damaged_newest_checkpoint_finds_its_messages_after_a_trim(
    redis_server, own_name, tmp_path
):
    with redis.Redis.from_url(redis_server.url) as db:
        for i in range(100):
            db.xadd(own_name, {"row": json.dumps({"x": i % 7, "id": i})})
    made = {
        "source": {
            "kind": "redis",
            "url": redis_server.url,
            "stream": own_name,
            "trim": True,
        },
        "schema": {"features": ["x"], "keep": ["id"]},
        "batch": {"rows": 10},
        "sink": {"kind": "file", "path": str(tmp_path / "labels.jsonl")},
        "checkpoint": {"folder": str(tmp_path / "state"), "batches": 1},
    }
    build(made).run(until=6)
    newest = max((tmp_path / "state").glob("version-*"))
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    build(made).run(until=10)
    kept = [json.loads(line)["id"] for line in (tmp_path / "labels.jsonl").open()]
    assert kept == list(range(100))
    with redis.Redis.from_url(redis_server.url) as db:
        assert db.xlen(own_name) < 50  # what no checkpoint needs is gone
