"""Kafka source against a real broker."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer, TopicPartition

from scstream.errors import SourceChanged, SourceGap, SourceRegressed
from scstream.stream.connectors.kafka import source as kafka_source
from scstream.stream.source import Resume
from tests.stream.kafka_tools import gathered, numbered


def test_read_ends_at_its_timeout_and_lag_is_reported(broker, own_name):
    broker.topic(own_name)
    source = broker.source(own_name)
    source.open(None)
    began = time.monotonic()
    assert source.read(10, 0.3) == []
    assert 0.2 < time.monotonic() - began < 5.0
    broker.send(own_name, numbered(100))
    read = gathered(source, 40, max_n=40)
    end = time.monotonic() + 10.0
    while source.lag() != 100 - len(read) and time.monotonic() < end:
        time.sleep(0.05)
    assert source.lag() == 100 - len(read)
    source.close()
    assert source.lag() is None


def test_start_sets_where_a_run_without_checkpoint_begins(broker, own_name):
    broker.topic(own_name)
    broker.send(own_name, numbered(10))
    for start, expected in [("first", numbered(11)), ({"0": 7}, numbered(4, 7))]:
        source = broker.source(own_name, start=start)
        source.open(None)
        if start == "first":
            broker.send(own_name, [b"10"])
        assert [record.value for record in gathered(source, len(expected))] == expected
        source.close()
    source = broker.source(own_name, start="last")
    source.open(None)
    broker.send(own_name, [b"new"])
    assert [record.value for record in gathered(source, 1)] == [b"new"]
    source.close()


def test_an_offset_after_the_end_raises_source_regressed(broker, own_name, hasty):
    broker.topic(own_name)
    broker.send(own_name, numbered(10))
    source = broker.source(own_name)
    resume = Resume({"topic": own_name}, {"0": 15})
    with pytest.raises(SourceRegressed, match=r"ends at offset 10, before 15 .*--accept-gap"):
        source.open(resume)
    source.open(resume, accept_gap=True)
    broker.send(own_name, [b"new"])
    assert [(r.position, r.value) for r in gathered(source, 1)] == [(10, b"new")]
    source.close()


def test_another_topic_raises_source_changed(broker, own_name):
    broker.topic(own_name)
    broker.send(own_name, numbered(10))
    source = broker.source(own_name)
    source.open(None)
    identity = dict(source.identity())
    source.close()
    assert identity["topic"] == own_name
    for name in identity:
        resume = Resume({**identity, name: "another"}, {"0": 5})
        with pytest.raises(SourceChanged, match=rf"its {name} was another and is .*--accept-gap"):
            source.open(resume)
        source.open(resume, accept_gap=True)
        assert [record.value for record in gathered(source, 10)] == numbered(10)
        source.close()
    with pytest.raises(SourceChanged, match="no partition 99 any more"):
        source.open(Resume(identity, {"0": 5, "99": 3}))


def test_the_identity_contains_the_cluster_id(broker, own_name):
    source = broker.source(broker.topic(own_name))
    source.open(None)
    assert source.identity()["cluster"] == broker.producer.list_topics(timeout=5).cluster_id
    source.close()


def test_offsets_are_committed_to_the_group_and_never_read_from_it(broker, own_name):
    broker.topic(own_name)
    broker.send(own_name, numbered(20))
    asking = broker.consumer(group_id=own_name)

    def committed() -> int:
        return asking.committed([TopicPartition(own_name, 0)], timeout=20)[0].offset

    plain = broker.source(own_name)
    plain.open(None)
    gathered(plain, 20)
    plain.acknowledge({"0": 20})
    plain.close()
    source = broker.source(own_name, group=own_name)
    source.open(None)
    assert committed() < 0
    gathered(source, 20)
    with ThreadPoolExecutor(1) as other_thread:
        other_thread.submit(source.acknowledge, {"0": 12}).result()
    end = time.monotonic() + 20.0
    while committed() != 12 and time.monotonic() < end:
        source.read(1, 0.1)
    assert committed() == 12
    source.close()
    source.open(Resume({"topic": own_name}, {"0": 3}))
    assert [record.value for record in gathered(source, 17)] == numbered(17, 3)
    source.close()
    asking.close()


def test_new_partitions_are_read_from_their_beginning(broker, own_name):
    broker.topic(own_name, partitions=1)
    broker.send(own_name, numbered(5))
    source = broker.source(own_name, refresh=0.2)
    source.open(None)
    assert len(gathered(source, 5)) == 5
    identity = dict(source.identity())
    broker.cluster.add_partitions(own_name, partitions=3)
    broker.send(own_name, numbered(5, 50), partition=2)
    found = gathered(source, 5)
    source.close()
    assert [(r.partition, r.position, r.value) for r in found] == [
        ("2", position, value) for position, value in enumerate(numbered(5, 50))
    ]
    source.open(Resume(identity, {"0": 5}))  # a checkpoint from before they were there
    assert [record.partition for record in gathered(source, 5)] == ["2"] * 5
    source.close()


def test_a_deleted_topic_is_detected_while_connected(broker, own_name, monkeypatch):
    monkeypatch.setattr(kafka_source, "GONE_SECONDS", 1.0)
    broker.topic(own_name, partitions=1)
    broker.send(own_name, numbered(10))
    source = broker.source(own_name, refresh=0.2)
    source.open(None)
    assert len(gathered(source, 10)) == 10
    broker.cluster.delete(own_name)
    with pytest.raises(SourceChanged, match="is gone"):
        gathered(source, 1, seconds=30)
    source.close()


def test_a_topic_that_was_created_again_is_recognised_by_its_id(broker, own_name):
    """Although the new topic has messages at the offsets that are next."""
    broker.topic(own_name, partitions=1)
    broker.send(own_name, numbered(10))
    source = broker.source(own_name)
    source.open(None)
    assert len(gathered(source, 10)) == 10
    identity = dict(source.identity())
    broker.cluster.delete(own_name)
    broker.topic(own_name, partitions=1)
    broker.send(own_name, numbered(20, 500))
    with pytest.raises(SourceChanged, match=r"its id was .* --accept-gap"):
        gathered(source, 1)
    source.close()
    with pytest.raises(SourceChanged, match=r"its id was .* --accept-gap"):
        source.open(Resume(identity, {"0": 10}))
    source.open(Resume(identity, {"0": 10}), accept_gap=True)
    assert [record.value for record in gathered(source, 20)] == numbered(20, 500)
    source.close()


def test_deleted_messages_raise_source_gap(broker, own_name):
    """As retention deletes them, which would take minutes."""
    broker.topic(own_name, partitions=1)
    broker.send(own_name, numbered(100))
    admin = broker.cluster.admin
    [done] = admin.delete_records([TopicPartition(own_name, 0, 60)]).values()
    done.result()
    source = broker.source(own_name)
    resume = Resume({"topic": own_name}, {"0": 42})
    with pytest.raises(SourceGap, match=r"begins at offset 60, after 42 .*--accept-gap"):
        source.open(resume)
    source.open(resume, accept_gap=True)
    assert [record.value for record in gathered(source, 40)] == numbered(40, 60)
    source.close()


def test_sources_of_one_group_take_no_partitions_from_each_other(broker, own_name):
    """Offsets are assigned: there are no members of a group, and so no rebalances."""
    broker.topic(own_name)
    for partition in range(4):
        broker.send(own_name, numbered(5, 10 * partition), partition=partition)
    everything = sorted(v for partition in range(4) for v in numbered(5, 10 * partition))
    sources = [broker.source(own_name, group=own_name) for _ in range(2)]
    for source in sources:
        source.open(None)
    member = broker.consumer(group_id=own_name, auto_offset_reset="earliest")
    member.subscribe([own_name])
    try:
        assert member.poll(30.0) is not None  # it has joined, and reads on its own
        broker.send(own_name, [b"later"], partition=3)
        for source in sources:
            assert sorted(r.value for r in gathered(source, 21)) == sorted([*everything, b"later"])
        admin = broker.cluster.admin
        found = admin.describe_consumer_groups([own_name])[own_name].result()
        assert len(found.members) == 1
    finally:
        member.close()
        for source in sources:
            source.close()


def test_messages_of_aborted_transactions_are_skipped(broker, own_name):
    broker.topic(own_name, partitions=1)
    producer = Producer(
        {"bootstrap.servers": broker.servers, "transactional.id": own_name, "log_level": 0}
    )
    producer.init_transactions(30)
    for start, end in [(0, "commit"), (5, "abort"), (10, "commit"), (15, "")]:
        producer.begin_transaction()
        for value in numbered(5, start):
            producer.produce(own_name, value, partition=0)
        producer.flush(30)
        if end:
            getattr(producer, f"{end}_transaction")(30)
    source = broker.source(own_name)
    source.open(None)
    records = gathered(source, 10)
    assert [record.value for record in records] == numbered(5) + numbered(5, 10)
    identity = dict(source.identity())
    producer.commit_transaction(30)
    assert [record.value for record in gathered(source, 5)] == numbered(5, 15)
    source.close()
    source.open(Resume(identity, {"0": records[4].after}))
    assert [record.value for record in gathered(source, 10)] == numbered(10, 10)
    source.close()
