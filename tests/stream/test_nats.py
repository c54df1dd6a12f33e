"""NATS JetStream as a source and as a sink, with real servers that are killed and lose data."""

import asyncio
import json
import logging
import threading
import time
from functools import partial

import nats
import pytest

from scstream.errors import (
    InputError,
    SinkError,
    SourceChanged,
    SourceGap,
    SourceRegressed,
    StreamError,
)
from scstream.stream.connectors.nats import NatsSink, NatsSource
from scstream.stream.connectors.nats import source as nats_source
from scstream.stream.sink import Delivery
from scstream.stream.source import Resume
from tests.faults.chaos import ChaosProxy
from tests.servers import NatsServer, ServerFailed, program
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


def do(url, act):
    """Run something with a client of its own."""

    async def run():
        client = await nats.connect(url)
        try:
            return await act(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


def make(url, name, **config):
    do(url, lambda js: js.add_stream(name=name, subjects=[f"{name}.>"], **config))


def publish(url, subject, numbers):
    async def act(js):
        for number in numbers:
            await js.publish(subject, b"%d" % number)

    do(url, act)


def stored(url, name, subject=None):
    """Ids and contents of a stream, by its sequences."""

    async def act(js):
        info = await js.stream_info(name)
        found = []
        for sequence in range(max(info.state.first_seq, 1), info.state.last_seq + 1):
            message = await js.get_msg(name, sequence)
            if subject in (None, message.subject):
                found.append(((message.headers or {}).get("Nats-Msg-Id"), message.data))
        return found

    return do(url, act)


@pytest.fixture
def filled(nats_server, own_name):
    """A stream of 20 messages: its server and its name."""
    make(nats_server.url, own_name)
    publish(nats_server.url, f"{own_name}.a", range(20))
    return nats_server, own_name


@pytest.fixture
def old_server(tmp_path):
    """A server of its own, of the version of Debian, for tests that harm it."""
    with NatsServer(tmp_path / "old") as server:
        yield server


@pytest.fixture
def quick(monkeypatch):
    """Notice a silent server sooner."""
    monkeypatch.setattr(nats_source, "_HEARTBEAT", 0.2)
    monkeypatch.setattr(nats_source, "_EXPIRES", 1.0)


def test_empty_messages_and_messages_with_headers_are_read(nats_server, own_name):
    make(nats_server.url, own_name)

    async def act(js):
        await js.publish(f"{own_name}.a", b"")
        await js.publish(f"{own_name}.a", b"x", headers={"Status": "408"})

    do(nats_server.url, act)
    source = opened(NatsSource(nats_server.url, own_name))
    assert [record.value for record in collect(source, 2)] == [b"", b"x"]
    source.close()


def test_start_sets_where_reading_begins(filled):
    server, name = filled
    for start, first in (("first", 0), (8, 7), ("20", 19)):
        source = opened(NatsSource(server.url, name, start=start))
        assert numbers_of(collect(source, 20 - first)) == list(range(first, 20))
        source.close()
    late = opened(NatsSource(server.url, name, start="last"))
    assert late.read(1, 0.2) == []
    identity = dict(late.identity())
    late.close()
    publish(server.url, f"{name}.a", [20])
    again = opened(NatsSource(server.url, name, start="last"), Resume(identity, {}))
    assert numbers_of(collect(again, 1)) == [20]  # written while no source was open
    again.close()
    with pytest.raises(InputError, match=r"start is 23, but the stream .* ends at 21"):
        NatsSource(server.url, name, start=23).open(None)


def test_only_messages_of_the_subject_are_read(nats_server, own_name):
    make(nats_server.url, own_name)
    for number in range(12):
        publish(nats_server.url, f"{own_name}.{'ab'[number % 3 == 0]}", [number])
    source = opened(NatsSource(nats_server.url, own_name, subject=f"{own_name}.b"))
    records = collect(source, 4)
    assert numbers_of(records) == [0, 3, 6, 9]
    again = NatsSource(nats_server.url, own_name, subject=f"{own_name}.b")
    again.open(resume_at(source, records[1].after))
    assert collect(again, 2) == records[2:]
    other = NatsSource(nats_server.url, own_name, subject=f"{own_name}.a")
    with pytest.raises(SourceChanged, match=r"then subject '.*\.b', now '.*\.a'"):
        other.open(resume_at(source, records[1].after))
    for one in (source, again, other):
        one.close()


def test_expired_messages_of_other_subjects_are_no_gap_while_reading(nats_server, own_name, quick):
    make(nats_server.url, own_name)
    publish(nats_server.url, f"{own_name}.b", [0])
    source = opened(NatsSource(nats_server.url, own_name, subject=f"{own_name}.b"))
    assert numbers_of(collect(source, 1)) == [0]
    publish(nats_server.url, f"{own_name}.a", range(5))
    time.sleep(2.5)  # more than one request, so that the server has looked at all of them
    do(nats_server.url, lambda js: js.purge_stream(own_name))
    publish(nats_server.url, f"{own_name}.b", [1])
    assert numbers_of(collect(source, 1)) == [1]
    source.close()


def test_a_stream_that_was_created_again_raises_source_changed(filled):
    server, name = filled
    source = opened(NatsSource(server.url, name))
    resume = resume_at(source, collect(source, 20)[-1].after)
    do(server.url, lambda js: js.delete_stream(name))
    with pytest.raises(SourceChanged, match=f"{name}.* is gone: .*--accept-gap"):
        while True:
            source.read(1, 0.1)
    with pytest.raises(SourceChanged, match="is gone"):
        NatsSource(server.url, name).open(resume)
    make(server.url, name)
    publish(server.url, f"{name}.a", range(100, 130))
    again = NatsSource(server.url, name)
    with pytest.raises(SourceChanged, match=r"not the one of the checkpoint .then created"):
        again.open(resume)
    again.open(resume, accept_gap=True)
    assert numbers_of(collect(again, 30)) == list(range(100, 130))
    for one in (source, again):
        one.close()


def test_a_server_that_lost_its_storage_is_detected(old_server):
    make(old_server.url, "rows")
    publish(old_server.url, "rows.a", range(5))
    source = opened(NatsSource(old_server.url, "rows"))
    resume = resume_at(source, collect(source, 5)[-1].after)
    old_server.kill()
    old_server.wipe()
    old_server.start()
    with pytest.raises(SourceChanged, match="the server lost its storage"):
        while True:
            source.read(1, 0.1)
    source.close()
    again = NatsSource(old_server.url, "rows")
    threading.Timer(0.5, lambda: make(old_server.url, "rows")).start()
    again.open(resume, accept_gap=True)  # waits until the stream is created
    publish(old_server.url, "rows.a", [7])
    assert numbers_of(collect(again, 1)) == [7]
    again.close()


def test_lost_messages_at_the_end_of_a_stream_are_detected(old_server):
    make(old_server.url, "rows")
    source = NatsSource(old_server.url, "rows")
    resume = with_lost_end(old_server, source, partial(publish, old_server.url, "rows.a"))
    with pytest.raises(SourceRegressed, match="up to 10 were read, but it ends at message 5"):
        while True:
            source.read(1, 0.1)
    with pytest.raises(SourceRegressed, match="--accept-gap"):
        NatsSource(old_server.url, "rows").open(resume)
    again = opened(NatsSource(old_server.url, "rows"), resume, accept_gap=True)
    publish(old_server.url, "rows.a", [50])
    assert numbers_of(collect(again, 1)) == [50]
    for one in (source, again):
        one.close()


def test_reused_sequences_are_detected(old_server):
    make(old_server.url, "rows")
    source = NatsSource(old_server.url, "rows")
    resume = with_lost_end(old_server, source, partial(publish, old_server.url, "rows.a"))
    source.close()
    publish(old_server.url, "rows.a", range(100, 120))  # sequences 6 to 25: also those read before
    with pytest.raises(SourceRegressed, match="message 10 is not the one that was read"):
        NatsSource(old_server.url, "rows").open(resume)


def test_a_gap_is_detected_and_can_be_accepted(filled):
    server, name = filled
    source = opened(NatsSource(server.url, name))
    records = collect(source, 6)
    identity = dict(source.identity())
    source.close()
    do(server.url, lambda js: js.purge_stream(name, seq=7))
    exact = opened(NatsSource(server.url, name), Resume(identity, {"": records[5].after}))
    assert numbers_of(collect(exact, 14)) == list(range(6, 20))  # only what was read is gone
    exact.close()
    again = NatsSource(server.url, name)
    with pytest.raises(SourceGap, match=r"message 6 is gone, but everything from 6 on .*--accept"):
        again.open(Resume(identity, {"": records[4].after}))
    with pytest.raises(SourceGap, match="messages 1 to 6 are gone"):
        again.open(Resume(identity, {}))
    do(server.url, lambda js: js.purge_stream(name, seq=11))
    inside = Resume(identity, {"": records[5].after.removesuffix("+")})
    with pytest.raises(SourceGap):
        again.open(inside)
    again.open(inside, accept_gap=True)
    left = collect(again, 10)
    assert numbers_of(left) == list(range(10, 20))
    assert left[0].position != inside.positions[""]  # so that no row of it is taken for read
    again.close()


def test_single_deleted_messages_are_a_gap(filled):
    server, name = filled
    source = opened(NatsSource(server.url, name))
    resume = resume_at(source, collect(source, 6)[-1].after)
    source.close()
    do(server.url, lambda js: js.delete_msg(name, 9))
    again = NatsSource(server.url, name)
    with pytest.raises(SourceGap, match="message 9 is gone"):
        again.open(resume)
    again.open(resume, accept_gap=True)
    assert numbers_of(collect(again, 13)) == [6, 7, *range(9, 20)]
    again.close()


def test_a_gap_that_appears_while_reading_is_detected(filled):
    server, name = filled
    source = opened(NatsSource(server.url, name, prefetch=4))
    assert numbers_of(source.read(1, 5.0)) == [0]
    do(server.url, lambda js: js.purge_stream(name, seq=15))
    with pytest.raises(SourceGap):
        for _ in range(30):
            source.read(1, 0.1)
    source.close()


def test_a_message_that_is_deleted_while_reading_is_a_gap(filled):
    server, name = filled
    source = opened(NatsSource(server.url, name, prefetch=4))
    assert numbers_of(source.read(1, 5.0)) == [0]
    do(server.url, lambda js: js.delete_msg(name, 16))
    records = []
    with pytest.raises(SourceGap, match="message 16 is gone"):
        for _ in range(40):
            records += source.read(1, 0.1)
    assert numbers_of(records) == list(range(1, 15))  # everything before it still came
    source.close()


def test_reading_continues_after_the_server_was_killed(old_server):
    make(old_server.url, "rows")
    publish(old_server.url, "rows.a", range(500))
    source = opened(NatsSource(old_server.url, "rows", prefetch=50))
    records = collect(source, 120)
    old_server.kill()
    records += collect(source, 100, seconds=0.5)
    old_server.start()
    publish(old_server.url, "rows.a", range(500, 600))
    records += collect(source, 600 - len(records))
    assert numbers_of(records) == list(range(600))
    source.close()


@pytest.mark.parametrize("how", ["pause", "black hole"])
def test_reading_continues_after_the_connection_was_silent(old_server, quick, how):
    make(old_server.url, "rows")
    publish(old_server.url, "rows.a", range(50))
    with ChaosProxy(old_server.port) as proxy:
        source = opened(NatsSource(f"nats://127.0.0.1:{proxy.port}", "rows", prefetch=10))
        records = collect(source, 20)
        if how == "pause":
            old_server.pause()
        else:
            proxy.mode = "black hole"
        began = time.monotonic()
        records += collect(source, 50, seconds=1.5)
        assert source.read(1, 0.05) == []
        assert time.monotonic() - began < 3.0
        old_server.go_on()
        proxy.mode = "pass"
        records += collect(source, 50 - len(records))
        assert numbers_of(records) == list(range(50))
        source.close()


def test_reading_through_a_faulty_network_loses_and_repeats_nothing(old_server):
    make(old_server.url, "rows")
    with ChaosProxy(old_server.port, seed=3) as proxy:
        source = opened(NatsSource(f"nats://127.0.0.1:{proxy.port}", "rows", prefetch=30))
        proxy.storm(calm=0.1, fault=0.05)
        records = []
        for first in range(0, 1000, 50):
            publish(old_server.url, "rows.a", range(first, first + 50))
            records += collect(source, 40, seconds=60.0)
        records += collect(source, 200, seconds=60.0)
        assert numbers_of(records) == list(range(1000))
        assert proxy.n_resets > 3
        source.close()


def test_a_stream_with_interest_keeps_messages_until_they_are_acknowledged(nats_server, own_name):
    make(nats_server.url, own_name, retention="interest")
    with pytest.raises(InputError, match="set `durable` to a name"):
        NatsSource(nats_server.url, own_name).open(None)
    source = opened(NatsSource(nats_server.url, own_name, durable="pipeline"))
    publish(nats_server.url, f"{own_name}.a", range(10))
    records = collect(source, 10)

    def left():
        return do(nats_server.url, lambda js: js.stream_info(own_name)).state.messages

    assert left() == 10
    for last, rest in ((3, 6), (6, 3), (9, 0)):
        source.acknowledge({"": records[last].after})
        wait_for(lambda rest=rest: left() == rest)
    resume = resume_at(source, records[-1].after)
    source.close()
    publish(nats_server.url, f"{own_name}.a", [10])  # while no source is open
    again = opened(NatsSource(nats_server.url, own_name, durable="pipeline"), resume)
    assert numbers_of(collect(again, 1)) == [10]
    again.close()


def wait_for(is_so, seconds=10.0):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def test_a_work_queue_is_rejected(nats_server, own_name):
    make(nats_server.url, own_name, retention="workqueue")
    with pytest.raises(InputError, match="is a work queue"):
        NatsSource(nats_server.url, own_name).open(None)


def test_an_unreachable_server_raises_after_the_retry_timeout(nats_server, own_name, caplog):
    with pytest.raises(StreamError, match=f"{own_name}.* does not exist; create it"):
        NatsSource(nats_server.url, own_name).open(None)
    with pytest.raises(StreamError) as caught:
        url = "nats://me:hunter2@127.0.0.1:1"
        NatsSource(url, "rows", retry_timeout=0.2).open(None)
    assert "has been unavailable for" in str(caught.value)
    assert "hunter2" not in str(caught.value) + caplog.text + repr(NatsSource(url, "rows"))
    with pytest.raises(StreamError, match="call `open` first"):
        NatsSource(nats_server.url, own_name).read(1, 0.0)


def test_closing_ends_a_read(filled):
    server, name = filled
    source = opened(NatsSource(server.url, name, start="last"))
    threading.Timer(0.3, source.close).start()
    with pytest.raises(StreamError, match="closed"):
        source.read(1, 10.0)


def sink_for(server, name, **options):
    options = {"format": "columns", "create": True, **options}
    url = options.pop("url", server.url)
    return NatsSink(url, name, f"{name}.out", **options)


def test_missing_rows_of_a_batch_are_added(nats_server, own_name):
    sink = sink_for(nats_server, own_name, format="json")
    sink.open(None)
    written(sink, [0], n_rows=3)
    sink.close()
    sink.open(None)
    position = written(sink, [0], n_rows=5)
    sink.close()
    assert position["id"] == "job/0/4"
    found = stored(nats_server.url, own_name)
    assert [json.loads(content)["index"] for _, content in found] == list(range(5))


def test_written_labels_can_be_read_by_the_source(nats_server, own_name):
    sink = sink_for(nats_server, own_name, format="arrow")
    assert clusters_through(sink, NatsSource(nats_server.url, own_name)) == CLUSTERS


@pytest.mark.parametrize(
    ("others", "detail"),
    [
        ({"job": "other"}, "message 1 is 'other/0'"),
        ({"shift": 1}, "'job/0' has another content"),
        ({"format": "json"}, "written in another format"),
    ],
)
def test_messages_of_another_writer_are_rejected(nats_server, own_name, others, detail):
    how = {name: others[name] for name in ("job", "shift") if name in others}
    sink = sink_for(nats_server, own_name, format=others.get("format", "columns"))
    sink.open(None)
    written(sink, [0], **how)
    sink.close()
    ours = sink_for(nats_server, own_name)
    ours.open(None)
    with pytest.raises(SinkError, match=f"did not write: .*{detail}.*its own subject"):
        written(ours, [0])
    ours.close()


def test_a_message_of_another_writer_in_between_is_rejected(nats_server, own_name):
    sink = sink_for(nats_server, own_name)
    sink.open(None)
    written(sink, [0])
    publish(nats_server.url, f"{own_name}.out", [5])
    with pytest.raises(SinkError, match="id of message 2 is ''"):
        written(sink, [1])
    sink.close()


def test_lost_confirmed_messages_are_detected(old_server):
    sink = sink_for(old_server, "labels")
    sink.open(None)
    position = written(sink, range(3))
    old_server.kill()
    old_server.wipe()
    old_server.start()
    with pytest.raises(
        SinkError, match=r"has lost messages: .*'job/2' as number 3, .* at number 0"
    ):
        written(sink, [3])
    sink.close()
    again = sink_for(old_server, "labels")
    with pytest.raises(SinkError, match="accept_loss"):
        again.open(position)
    again = sink_for(old_server, "labels", accept_loss=True)
    again.open(position)
    written(again, [3])
    assert [name for name, _ in stored(old_server.url, "labels")] == ["job/3"]
    again.close()


def test_messages_that_were_purged_are_not_lost(nats_server, own_name):
    sink = sink_for(nats_server, own_name)
    sink.open(None)
    position = written(sink, range(3))
    sink.close()
    do(nats_server.url, lambda js: js.purge_stream(own_name))
    sink.open(position)
    written(sink, [3])
    assert [name for name, _ in stored(nats_server.url, own_name)] == ["job/3"]
    sink.close()


def test_the_error_explains_what_cannot_be_written(nats_server, own_name):
    with pytest.raises(SinkError, match="does not exist; create it, or set `create`"):
        sink_for(nats_server, own_name, create=False).open(None)
    sink = sink_for(nats_server, own_name)
    sink.open(None)
    with pytest.raises(SinkError, match="'a/b' has a slash"):
        sink.write(delivery(0, job="a/b"))
    with pytest.raises(SinkError, match=r"'job/0' has \d+ bytes, but NATS .* accepts 1048064"):
        written(sink, [0], n_rows=200_000)
    sink.close()
    rows = sink_for(nats_server, own_name, format="json")
    rows.open(None)
    backwards = {name: values[::-1] for name, values in delivery(0).columns.items()}
    with pytest.raises(SinkError, match="not in order of `index`"):
        rows.write(Delivery("job", 0, backwards))
    rows.close()


def test_the_sink_waits_for_a_full_stream(nats_server, own_name):
    make(nats_server.url, own_name, max_msgs=2, discard="new")
    sink = sink_for(nats_server, own_name, retry_timeout=1.0)
    sink.open(None)
    with pytest.raises(StreamError, match=r"has been unavailable for 1 s: .*maximum messages"):
        written(sink, range(3))
    sink.close()
    sink = sink_for(nats_server, own_name)
    sink.open(None)
    threading.Timer(0.5, lambda: do(nats_server.url, lambda js: js.purge_stream(own_name))).start()
    written(sink, range(4))
    assert [name for name, _ in stored(nats_server.url, own_name)] == ["job/2", "job/3"]
    sink.close()


def test_two_instances_write_everything_once(nats_server, own_name):
    make(nats_server.url, own_name, duplicate_window=0.1)
    sinks = [sink_for(nats_server, own_name, format="json") for _ in range(2)]
    write_at_once(sinks, 40, flush_every=40)
    ids = [name for name, _ in stored(nats_server.url, own_name)]
    assert ids == [f"job/{batch}/{index}" for batch in range(40) for index in range(4)]


def test_other_writers_may_use_other_subjects_of_the_stream(nats_server, own_name):
    make(nats_server.url, own_name)
    stop = threading.Event()

    def disturb():
        async def act(js):
            while not stop.is_set():
                await js.publish(f"{own_name}.noise", b"")

        do(nats_server.url, act)

    thread = threading.Thread(target=disturb)
    thread.start()
    sink = sink_for(nats_server, own_name, format="json")
    sink.open(None)
    written(sink, range(50))
    stop.set()
    thread.join()
    ids = [name for name, _ in stored(nats_server.url, own_name, f"{own_name}.out")]
    assert ids == [f"job/{batch}/{index}" for batch in range(50) for index in range(4)]
    sink.close()


def test_writing_continues_after_the_server_was_killed(old_server):
    make(old_server.url, "labels", duplicate_window=0.1)
    sink = sink_for(old_server, "labels", format="json")
    sink.open(None)
    for batch in range(100):
        sink.write(delivery(batch, 20))
        if batch in (30, 60):
            old_server.restart()
    sink.flush()
    ids = [name for name, _ in stored(old_server.url, "labels")]
    assert ids == [f"job/{batch}/{index}" for batch in range(100) for index in range(20)]
    sink.close()


def test_writing_through_a_faulty_network_writes_each_label_once(old_server):
    make(old_server.url, "labels", duplicate_window=0.1)
    with ChaosProxy(old_server.port, seed=5) as proxy:
        sink = sink_for(old_server, "labels", format="json", url=f"nats://127.0.0.1:{proxy.port}")
        sink.open(None)
        proxy.storm(calm=0.1, fault=0.05)
        for batch in range(60):
            sink.write(delivery(batch, 20))
            time.sleep(0.03)
        sink.flush()
        assert proxy.n_resets > 3
        sink.close()
    ids = [name for name, _ in stored(old_server.url, "labels")]
    assert ids == [f"job/{batch}/{index}" for batch in range(60) for index in range(20)]


def test_doctor_explains_what_a_confirmation_means(nats_server, old_server, own_name):
    make(nats_server.url, own_name, max_age=60, storage="memory")
    found = NatsSource(nats_server.url, own_name, monitor=nats_server.monitor).doctor()
    about = levels(found)
    assert about == {
        "server": "ok",
        "sync_interval": "ok",
        "storage": "warn",
        "replicas": "note",
        "retention": "ok",
        "limits": "note",
    }
    assert "NATS 2.15" in found[0].detail
    make(old_server.url, "labels", max_msgs=5, discard="new")
    sink = NatsSink(old_server.url, "labels", "labels.x", monitor=old_server.monitor)
    assert levels(sink.doctor()) == {
        "server": "ok",
        "sync_interval": "warn",
        "storage": "ok",
        "replicas": "note",
    }
    assert levels(NatsSource(old_server.url, "labels").doctor())["sync_interval"] == "note"
    assert levels(NatsSource(old_server.url, "nothing").doctor()) == {"stream": "warn"}


def test_wrong_credentials_raise_at_once(tmp_path):
    server = NatsServer(tmp_path / "closed")
    server.folder.mkdir()
    with server:
        server.kill()
        config = server.folder / "nats.conf"
        guarded = config.read_text() + 'authorization { user: me, password: "s3cret" }\n'
        server._prepare = lambda: config.write_text(guarded)
        server.start()
        url = f"nats://me:wrong@127.0.0.1:{server.port}"
        with pytest.raises(StreamError, match="rejects the user, password"):
            NatsSource(url, "rows").open(None)
        found = NatsSource(url, "rows").doctor()
        assert found[0].level == "warn"
        assert "wrong" not in found[0].detail


@pytest.mark.parametrize(
    ("build", "detail"),
    [
        (lambda: NatsSource("nats://x", "a.b"), "'a.b' cannot be the name"),
        (lambda: NatsSource("nats://x", "a", subject="a b"), "'a b' cannot be a NATS subject"),
        (lambda: NatsSource("nats://x", "a", start="noon"), "'noon' is not a position"),
        (lambda: NatsSource("nats://x", "a", prefetch=0), "must be 1 or more"),
        (lambda: NatsSink("nats://x", "a", "a.*"), "has wildcards"),
        (lambda: NatsSink("nats://x", "a", "a", format="xml"), "format is 'xml'"),
    ],
)
def test_invalid_options_are_rejected(build, detail):
    with pytest.raises(InputError, match=detail):
        build()


def test_the_error_names_a_server_that_is_not_installed():
    with pytest.raises(ServerFailed, match="install it: apt install no-such-server"):
        program("no-such-server", "apt install no-such-server")


def test_an_outage_is_logged_once(old_server, caplog):
    make(old_server.url, "rows")
    source = opened(NatsSource(old_server.url, "rows"))
    with caplog.at_level(logging.INFO):
        old_server.kill()
        time.sleep(1.0)
        old_server.start()
        publish(old_server.url, "rows.a", [1])
        assert numbers_of(collect(source, 1)) == [1]
    waits = [record for record in caplog.records if "waiting for NATS" in record.getMessage()]
    assert len(waits) == 1
    source.close()
