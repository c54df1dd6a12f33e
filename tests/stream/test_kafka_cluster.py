"""Kafka source and sink while brokers of a cluster of three are killed, stopped and lose data."""

import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from scstream.errors import SourceRegressed, StreamError
from scstream.stream.source import Resume
from tests.stream.kafka_tools import Broker, delivery, gathered, keys, numbered


def test_labels_are_written_once_although_the_leader_is_killed(kafka_cluster, own_name):
    """With two of three replicas it goes on at once; the source reads each label once, too."""
    broker = Broker(kafka_cluster)
    broker.topic(own_name, partitions=1)
    sink, source = broker.sink(own_name, transactional=True), broker.source(own_name)
    sink.open(None)
    source.open(None)
    for batch in range(40):
        sink.write(delivery(batch, 100))
        if batch == 10:
            leader = kafka_cluster.leader(own_name)
            leader.kill()
        if batch % 5 == 0:
            sink.flush()
    sink.flush()
    sink.close()
    records = gathered(source, 4000)
    leader.start()
    source.close()
    assert len(records) == 4000
    assert [key for key, _ in broker.content(own_name)] == keys(range(40), 100)


def test_nothing_is_confirmed_by_one_of_three_replicas(kafka_cluster, own_name):
    broker = Broker(kafka_cluster)
    broker.topic(own_name, partitions=1)
    sink = broker.sink(own_name, retry_timeout=4.0)
    sink.open(None)
    sink.write(delivery(0))
    confirmed = sink.flush()
    others = [node for node in kafka_cluster.nodes if node is not kafka_cluster.leader(own_name)]
    for node in others:
        node.kill()
    sink.write(delivery(1))
    with pytest.raises(StreamError, match=r"has not confirmed labels .*replicas are in sync"):
        sink.flush()
    sink.close()
    kafka_cluster.start()
    sink = broker.sink(own_name)
    sink.open(confirmed)
    for batch in range(1, 3):
        sink.write(delivery(batch))
    sink.flush()
    sink.close()
    assert [key for key, _ in broker.content(own_name)] == keys(range(3))


def test_writes_that_time_out_and_arrive_later_are_stored_once(kafka_cluster, own_name):
    """The brokers stop for a moment: the client gives up and sends again what they then find."""
    broker = Broker(kafka_cluster)
    broker.topic(own_name, partitions=1)
    quick = {"socket.timeout.ms": 1000, "request.timeout.ms": 1000, "retry.backoff.ms": 50}
    sink = broker.sink(own_name, options={**broker.options, **quick})
    sink.open(None)
    with ThreadPoolExecutor(1) as pool:
        for batch in range(4):
            for node in kafka_cluster.nodes:
                node.pause()
            sink.write(delivery(batch, 200))
            done = pool.submit(sink.flush)
            time.sleep(1.7)
            for node in kafka_cluster.nodes:
                node.go_on()
            done.result()
    sink.close()
    assert [key for key, _ in broker.content(own_name)] == keys(range(4), 200)


def test_read_ends_at_its_timeout_while_the_brokers_are_stopped(kafka_cluster, own_name):
    broker = Broker(kafka_cluster)
    broker.topic(own_name, partitions=1)
    source = broker.source(own_name, refresh=0.2)
    source.open(None)
    for node in kafka_cluster.nodes:
        node.pause()
    try:
        for _ in range(5):
            began = time.monotonic()
            assert source.read(10, 0.2) == []
            assert time.monotonic() - began < 5.0
        assert source.connected is False
    finally:
        for node in kafka_cluster.nodes:
            node.go_on()
    broker.send(own_name, numbered(3))
    assert [record.value for record in gathered(source, 3)] == numbered(3)
    assert source.connected is True
    source.close()


def test_messages_that_a_broker_lost_are_missed_while_connected(kafka_cluster, own_name):
    """The only replica comes back without its files."""
    broker = Broker(kafka_cluster)
    kafka_cluster.topic(own_name, copies=1, min_insync_replicas=1)
    broker.send(own_name, numbered(100))
    source = broker.source(own_name)
    source.open(None)
    assert len(gathered(source, 100)) == 100
    leader = kafka_cluster.leader(own_name)
    leader.kill()
    [folder] = leader.storage.glob(f"{own_name}-0")
    shutil.rmtree(folder)
    leader.start()
    kafka_cluster.await_leaders(own_name)
    broker.send(own_name, numbered(10, 500))
    with pytest.raises(SourceRegressed, match=r"ends at offset 10, before 100|was truncated"):
        gathered(source, 1)
    source.close()
    with pytest.raises(SourceRegressed, match="ends at offset 10, before 100"):
        source.open(Resume({"topic": own_name}, {"0": 100}))


def test_reading_goes_on_after_its_leader_was_killed(kafka_cluster, own_name):
    broker = Broker(kafka_cluster)
    broker.topic(own_name, partitions=2)
    source = broker.source(own_name)
    source.open(None)
    broker.send(own_name, numbered(2000))
    values = [record.value for record in gathered(source, 500, max_n=100)]
    leader = kafka_cluster.leader(own_name)
    leader.kill()
    broker.send(own_name, numbered(2000, 2000), partition=1)
    broker.send(own_name, numbered(2000, 4000))
    values += [record.value for record in gathered(source, 6000 - len(values))]
    leader.start()
    assert Counter(values) == Counter(numbered(6000))
    source.close()
