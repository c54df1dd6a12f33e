"""Kafka source and sink against three kinds of brokers.

- "mock": the cluster inside librdkafka. It knows idempotent producers and the ids of clusters, but
  forgets everything with its client, makes every topic of four partitions and fences nobody.
- "old": Apache Kafka 0.9.0.1, which is real: it can be killed, lose messages and grow partitions.
- "given": whatever the environment variable SCSTREAM_KAFKA names, see deploy/kafka/compose.yaml.
  Transactions that fence are tested there only.
"""

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from scstream.errors import (
    Fenced,
    InputError,
    SinkError,
    SourceChanged,
    SourceGap,
    SourceRegressed,
    StreamError,
)
from scstream.stream.connectors.kafka import KafkaSink, KafkaSource
from scstream.stream.connectors.kafka import connection as kafka_connection
from scstream.stream.connectors.kafka import source as kafka_source
from scstream.stream.connectors.kafka.doctor import check_settings
from scstream.stream.sink import Delivery
from scstream.stream.source import Record, Resume
from tests.kafka_server import OPTIONS, KafkaServer

GIVEN = os.environ.get("SCSTREAM_KAFKA", "")
ALL = ["mock", "old", *(["given"] if GIVEN else [])]
MODERN = ["mock", *(["given"] if GIVEN else [])]


class Broker:
    """Where a test talks to: address, settings of clients, and how topics are made."""

    idempotent = True

    def __init__(self, servers: str, options: dict[str, str]) -> None:
        quick = {"fetch.wait.max.ms": "10"}  # by default half a second at the end of a partition
        self.servers, self.options = servers, {**quick, **options}
        self.producer = Producer({**self.client, "acks": "all"})

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.servers, "log_level": "0", **self.options}

    def source(self, topic: str, **options) -> KafkaSource:
        return KafkaSource(self.servers, topic, options=self.options, **options)

    def sink(self, topic: str, **options) -> KafkaSink:
        mine = {"idempotent": self.idempotent, "options": self.options, **options}
        return KafkaSink(self.servers, topic, **mine)

    def topic(self, name: str, *, partitions: int = 4) -> str:
        made = AdminClient(self.client).create_topics([NewTopic(name, partitions, 1)])
        made[name].result()
        return name

    def send(self, topic: str, values: list[bytes], *, partition: int = 0) -> None:
        refused = []
        for value in values:
            self.producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda error, _: refused.append(error) if error else None,
            )
        assert self.producer.flush(30) == 0
        assert not refused, refused[0]

    def content(self, topic: str, *, partition: int = 0) -> list[tuple[bytes, bytes]]:
        """Keys and values of a partition, of what is committed."""
        how = {"group.id": "t", "enable.partition.eof": True, "isolation.level": "read_committed"}
        reader = Consumer({**self.client, **how})
        reader.assign([TopicPartition(topic, partition, 0)])
        found = []
        try:
            while (message := reader.poll(20.0)) is not None and message.error() is None:
                found.append((message.key(), message.value()))
            assert message is not None, "the broker does not answer"
            assert message.error().name() == "_PARTITION_EOF"
            return found
        finally:
            reader.close()


class MockBroker(Broker):
    def __init__(self) -> None:
        self._cluster = Producer({"test.mock.num.brokers": 1, "log_level": "0"})
        [broker] = self._cluster.list_topics(timeout=10).brokers.values()
        super().__init__(f"{broker.host}:{broker.port}", {})

    def topic(self, name: str, *, partitions: int = 4) -> str:
        assert partitions == 4, "the mock makes four"
        end = time.monotonic() + 10.0
        while len(self.producer.list_topics(name, timeout=5).topics[name].partitions) != 4:
            assert time.monotonic() < end, "the mock made no topic"
        return name


class OldBroker(Broker):
    idempotent = False

    def __init__(self, server: KafkaServer) -> None:
        self.server = server
        super().__init__(server.servers, OPTIONS)

    def topic(self, name: str, *, partitions: int = 4, **settings: object) -> str:
        self.server.topic(name, partitions=partitions, **settings)
        self.await_leader(name)
        return name

    def await_leader(self, topic: str, *, partitions: int = 1) -> None:
        """A topic is known before it can be written to."""
        end = time.monotonic() + 20.0
        while time.monotonic() < end:
            found = self.producer.list_topics(topic, timeout=5).topics[topic].partitions
            if len(found) >= partitions and all(p.leader == 0 for p in found.values()):
                return
            time.sleep(0.05)
        raise AssertionError(f"{topic} has no leader")

    def lose(self, topic: str, *, segments: int | None = None) -> None:
        """Kill the broker, take a topic or its first segments from it, and start it again."""
        self.server.kill()
        for folder in self.server.storage.glob(f"{topic}-*"):
            if segments is None:
                shutil.rmtree(folder)
            else:
                for log in sorted(folder.glob("*.log"))[:segments]:
                    log.unlink()
                    log.with_suffix(".index").unlink()
        self.server.start()
        self.await_leader(topic)


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Iterator[OldBroker]:
    settings = {"auto.create.topics.enable": "false"}
    with KafkaServer(tmp_path_factory.mktemp("kafka"), settings=settings) as server:
        yield OldBroker(server)


@pytest.fixture(scope="module")
def mock() -> MockBroker:
    return MockBroker()


@pytest.fixture
def broker(request) -> Broker:
    if request.param == "given":
        return Broker(GIVEN, {})
    return request.getfixturevalue(request.param)


@pytest.fixture
def hasty(monkeypatch) -> None:
    """Brokers have run for a while: what they do not know now they will not know in a moment."""
    monkeypatch.setattr(kafka_connection, "_APPEAR_SECONDS", 0.3)
    monkeypatch.setattr(kafka_connection, "GONE_SECONDS", 0.3)
    monkeypatch.setattr(kafka_connection, "_SHRUNK_SECONDS", 0.3)


on_all = pytest.mark.parametrize("broker", ALL, indirect=True)
on_modern = pytest.mark.parametrize("broker", MODERN, indirect=True)


def gathered(
    source: KafkaSource, n: int, *, max_n: int = 1000, seconds: float = 60
) -> list[Record]:
    """Read until `n` messages have arrived, and a moment longer in case there are more."""
    records: list[Record] = []
    end = time.monotonic() + seconds
    while len(records) < n and time.monotonic() < end:
        found = source.read(max_n, 0.2)
        assert len(found) <= max_n
        records += found
    return records + source.read(max_n, 0.05)


def numbered(n: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + n)]


def delivery(batch: int, n_rows: int = 10, *, job: str = "demo") -> Delivery:
    columns = {
        "batch": np.full(n_rows, batch),
        "index": np.arange(n_rows),
        "cluster": np.arange(n_rows) % 3,
    }
    return Delivery(job, batch, columns)


def keys(batches: range, n_rows: int = 10, *, job: str = "demo") -> list[bytes]:
    return [f"{job}/{batch}/{index}".encode() for batch in batches for index in range(n_rows)]


@on_all
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


@on_all
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


@on_all
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


@on_all
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


@on_modern
def test_the_identity_contains_the_cluster_id(broker, own_name):
    source = broker.source(broker.topic(own_name))
    source.open(None)
    assert source.identity()["cluster"] == broker.producer.list_topics(timeout=5).cluster_id
    source.close()


@on_all
def test_the_error_for_a_missing_topic_names_it(broker, own_name, hasty):
    source, sink = broker.source(own_name), broker.sink(own_name)
    for act, error in [
        (lambda: source.open(None), StreamError),
        (lambda: source.open(Resume({"topic": own_name}, {"0": 1})), SourceChanged),
        (lambda: sink.open(None), SinkError),
    ]:
        with pytest.raises(error, match=own_name):
            act()


@on_all
def test_offsets_are_committed_to_the_group_and_never_read_from_it(broker, own_name):
    broker.topic(own_name)
    broker.send(own_name, numbered(20))
    asking = Consumer({**broker.client, "group.id": own_name})

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


def test_new_partitions_are_read_from_their_beginning(old, own_name):
    old.topic(own_name, partitions=1)
    old.send(own_name, numbered(5))
    source = old.source(own_name, refresh=0.2)
    source.open(None)
    assert len(gathered(source, 5)) == 5
    identity = dict(source.identity())
    old.server.add_partitions(own_name, partitions=3)
    old.await_leader(own_name, partitions=3)
    old.send(own_name, numbered(5, 50), partition=2)
    found = gathered(source, 5)
    source.close()
    assert [(r.partition, r.position, r.value) for r in found] == [
        ("2", position, value) for position, value in enumerate(numbered(5, 50))
    ]
    source.open(Resume(identity, {"0": 5}))  # a checkpoint from before they were there
    assert [record.partition for record in gathered(source, 5)] == ["2"] * 5
    source.close()


def test_messages_removed_by_retention_raise_source_gap(old, own_name):
    """As retention does it, but at once: the broker looks for old segments every half minute."""
    old.topic(own_name, partitions=1, segment_bytes=2000)
    for start in range(0, 500, 50):
        old.send(own_name, numbered(50, start))
    old.lose(own_name, segments=2)
    source = old.source(own_name)
    resume = Resume({"topic": own_name}, {"0": 42})
    with pytest.raises(SourceGap, match=r"begins at offset \d+, after 42 .*--accept-gap"):
        source.open(resume)
    source.open(resume, accept_gap=True)
    first = source.read(1, 20.0)[0].position
    assert 42 < first < 500
    assert [r.position for r in gathered(source, 499 - first)] == list(range(first + 1, 500))
    source.close()


def test_reading_continues_after_a_broker_was_killed_without_loss_or_repeats(old, own_name):
    old.topic(own_name, partitions=2)
    source = old.source(own_name)
    source.open(None)
    values: list[bytes] = []
    for round_ in range(3):
        fresh = numbered(2000, 2000 * round_)
        old.send(own_name, fresh, partition=round_ % 2)
        values += source_values(source, 1000)
        if round_ < 2:
            old.server.kill()
            values += [record.value for record in source.read(100, 0.2)]
            old.server.start()
            old.await_leader(own_name, partitions=2)
    values += source_values(source, 6000 - len(values))
    assert Counter(values) == Counter(numbered(6000))
    source.close()


def source_values(source: KafkaSource, n: int) -> list[bytes]:
    return [record.value for record in gathered(source, n)]


def test_lost_messages_are_detected_while_connected(old, own_name):
    old.topic(own_name, partitions=1)
    old.send(own_name, numbered(100))
    source = old.source(own_name)
    source.open(None)
    assert len(gathered(source, 100)) == 100
    old.lose(own_name)
    old.send(own_name, numbered(10, 500))
    with pytest.raises(SourceRegressed, match="ends at offset 10, before 100"):
        gathered(source, 1)
    source.close()
    with pytest.raises(SourceRegressed, match="ends at offset 10, before 100"):
        source.open(Resume({"topic": own_name}, {"0": 100}))


def test_a_deleted_topic_is_detected_while_connected(old, own_name, monkeypatch):
    monkeypatch.setattr(kafka_source, "GONE_SECONDS", 1.0)
    old.topic(own_name, partitions=1)
    old.send(own_name, numbered(10))
    source = old.source(own_name, refresh=0.2)
    source.open(None)
    assert len(gathered(source, 10)) == 10
    old.server.delete(own_name)
    with pytest.raises(SourceChanged, match="is gone"):
        gathered(source, 1, seconds=30)
    source.close()


def test_read_ends_at_its_timeout_while_the_broker_is_down(old, own_name):
    old.topic(own_name, partitions=1)
    source = old.source(own_name)
    source.open(None)
    old.server.kill()
    try:
        for _ in range(10):
            began = time.monotonic()
            assert source.read(10, 0.2) == []
            assert time.monotonic() - began < 3.0
    finally:
        old.server.start()
    old.await_leader(own_name)
    old.send(own_name, numbered(3))
    assert [record.value for record in gathered(source, 3)] == numbered(3)
    source.close()


def test_an_unreachable_broker_raises_after_the_retry_timeout(own_name):
    away = "127.0.0.1:1"
    source = KafkaSource(away, own_name, retry_timeout=0.5)
    sink = KafkaSink(away, own_name, retry_timeout=0.5)
    for act in (lambda: source.open(None), lambda: sink.open(None)):
        with pytest.raises(StreamError, match="has been unavailable for"):
            act()


def test_closing_ends_the_wait(own_name):
    source = KafkaSource("127.0.0.1:1", own_name)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(source.open, None)
        time.sleep(0.3)
        assert not opening.done()
        source._connection.closing.set()
        with pytest.raises(StreamError, match="was closed"):
            opening.result(timeout=20)


@on_all
def test_a_batch_that_is_written_twice_is_stored_once(broker, own_name):
    broker.topic(own_name)
    sink = broker.sink(own_name)
    sink.open(None)
    for batch in (0, 0, 1, 0, 1):
        sink.write(delivery(batch))
    sink.write(delivery(0, job="other"))
    assert sink.flush() == {"0": 30}
    sink.write(delivery(1))
    assert sink.flush() == {"0": 30}
    sink.close()


@on_all
def test_a_partly_written_delivery_is_completed(broker, own_name):
    broker.topic(own_name)
    sink = broker.sink(own_name)
    sink.open(None)
    position = sink.flush()
    part = {name: values[:4] for name, values in delivery(0).columns.items()}
    sink.write(Delivery("demo", 0, part))
    sink.write(delivery(0, job="other"))
    sink.flush()
    sink.close()
    sink.open(position)
    sink.write(delivery(0))
    sink.flush()
    sink.close()
    assert Counter(key for key, _ in broker.content(own_name)) == Counter(
        keys(range(1)) + keys(range(1), job="other")
    )


@on_all
def test_a_format_with_one_message_per_batch(broker, own_name):
    broker.topic(own_name)
    sink = broker.sink(own_name, format="columns", partition=3)
    sink.open(None)
    position = sink.flush()
    for _ in range(2):
        sink.write(delivery(0, 2))
        assert sink.flush() == {"3": 1}
        sink.open(position)
    sink.close()
    assert broker.content(own_name, partition=3) == [
        (b"demo/0/0", b'{"batch":[0,0],"index":[0,1],"cluster":[0,1]}')
    ]


@on_all
def test_the_buffer_of_unconfirmed_messages_is_bounded(broker, own_name):
    broker.topic(own_name)
    sink = broker.sink(own_name, buffer_bytes=5000)
    sink.open(None)
    for batch in range(20):
        sink.write(delivery(batch, 100))
        assert sink._n_bytes <= 5000
    sink.flush()
    sink.close()
    assert [key for key, _ in broker.content(own_name)] == keys(range(20), 100)


@on_all
def test_a_topic_that_lost_confirmed_labels_stops_the_sink(broker, own_name, hasty):
    broker.topic(own_name)
    sink = broker.sink(own_name)
    with pytest.raises(SinkError, match=r"ends at offset 0, before 9 .*accept_loss"):
        sink.open({"0": 9})
    sink = broker.sink(own_name, accept_loss=True)
    sink.open({"0": 9})
    sink.write(delivery(0))
    assert sink.flush() == {"0": 10}
    sink.close()


def test_labels_are_written_once_although_the_broker_is_killed(old, own_name):
    """Without idempotence: what failed is looked for before it is sent again."""
    old.topic(own_name, partitions=1)
    sink = old.sink(own_name)
    sink.open(None)
    with ThreadPoolExecutor(1) as pool:
        for batch in range(60):
            sink.write(delivery(batch, 100))
            if batch in (20, 40):
                old.server.kill()
                restart = pool.submit(old.server.start)
                sink.flush()
                restart.result()
    assert sink.flush() == {"0": 6000}
    sink.close()
    assert Counter(key for key, _ in old.content(own_name)) == Counter(keys(range(60), 100))


def test_an_old_broker_needs_idempotent_false(old, own_name):
    old.topic(own_name)
    sink = old.sink(own_name, idempotent=True)
    with pytest.raises(SinkError, match="Set idempotent to false"):
        sink.open(None)
        sink.write(delivery(0))
        sink.flush()
    sink.close()


if GIVEN:

    @pytest.mark.parametrize("broker", ["given"], indirect=True)
    def test_a_topic_that_was_created_again_is_recognised_by_its_id(broker, own_name):
        broker.topic(own_name)
        broker.send(own_name, numbered(10))
        source = broker.source(own_name)
        source.open(None)
        identity = dict(source.identity())
        source.close()
        AdminClient(broker.client).delete_topics([own_name])[own_name].result()
        time.sleep(1.0)
        broker.topic(own_name)
        broker.send(own_name, numbered(20))
        with pytest.raises(SourceChanged, match="its id was"):
            source.open(Resume(identity, {"0": 10}))

    @pytest.mark.parametrize("broker", ["given"], indirect=True)
    def test_transactions_fence_an_instance_that_was_replaced(broker, own_name):
        broker.topic(own_name)
        zombie, heir = (broker.sink(own_name, transactional=True) for _ in range(2))
        zombie.open(None)
        position = zombie.flush()
        zombie.write(delivery(0))
        zombie.flush()
        zombie.write(delivery(1))
        heir.open(position)
        with pytest.raises(Fenced, match="another instance"):
            zombie.flush()
        for batch in range(3):
            heir.write(delivery(batch))
        heir.flush()
        zombie.close()
        heir.close()
        assert [key for key, _ in broker.content(own_name)] == keys(range(3))


@on_all
def test_doctor_reports_what_the_broker_reports(broker, own_name, hasty):
    broker.topic(own_name)
    for connector in (broker.source(own_name), broker.sink(own_name)):
        found = connector.doctor()
        assert found[0].about == "topic"
        assert "4 partitions, 1 replicas" in found[0].detail
    assert found[-1].about == "delivery"
    assert found[-1].level == ("note" if broker.idempotent else "warn")
    missing = broker.source(f"{own_name}-2").doctor()
    assert [(f.level, f.about) for f in missing] == [("warn", "topic")]


@pytest.mark.parametrize(
    ("settings", "copies", "warnings"),
    [
        ({"min.insync.replicas": "2", "cleanup.policy": "delete"}, 3, []),
        ({"min.insync.replicas": "1"}, 3, ["min.insync.replicas"]),
        ({"min.insync.replicas": "1"}, 1, ["replication"]),
        (
            {
                "min.insync.replicas": "2",
                "unclean.leader.election.enable": "true",
                "cleanup.policy": "compact,delete",
            },
            3,
            ["unclean.leader.election.enable", "cleanup.policy"],
        ),
    ],
)
def test_settings_that_risk_data_are_reported_as_warnings(settings, copies, warnings):
    found = check_settings(
        {**settings, "retention.ms": "604800000"}, n_replicas=copies, role="source"
    )
    assert [finding.about for finding in found if finding.level == "warn"] == warnings
    [retention] = [finding for finding in found if finding.about == "retention"]
    assert "7 days" in retention.detail


@pytest.mark.parametrize(
    ("build", "detail"),
    [
        (lambda: KafkaSource("", "t"), "needs servers"),
        (lambda: KafkaSource("h", "t", start="middle"), "'middle'"),
        (lambda: KafkaSource("h", "t", options={"auto.offset.reset": "CANARY"}), "auto.offset"),
        (lambda: KafkaSink("h", "t", options={"acks": "CANARY"}), "acks"),
        (lambda: KafkaSink("h", "t", format="csv"), "csv"),
        (lambda: KafkaSink("h", "t", idempotent=False, transactional=True), "idempotent"),
    ],
)
def test_invalid_options_are_rejected(build, detail):
    with pytest.raises(InputError, match=detail) as caught:
        build()
    assert "CANARY" not in str(caught.value)


def test_secrets_are_not_shown():
    options = {"sasl.password": "CANARY", "security.protocol": "SASL_PLAINTEXT"}
    login = {**options, "sasl.username": "CANARY", "sasl.mechanism": "PLAIN"}
    for connector in (
        KafkaSource("127.0.0.1:1", "t", options=login, retry_timeout=0.2),
        KafkaSink("127.0.0.1:1", "t", options=login, retry_timeout=0.2),
    ):
        with pytest.raises(StreamError) as caught:
            connector.open(None)
        assert "CANARY" not in str(caught.value) + repr(connector)
