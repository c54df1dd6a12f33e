"""Kafka sink against a real broker, and what source and sink have in common."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from scstream.errors import Fenced, InputError, SinkError, SourceChanged, StreamError
from scstream.stream.connectors.kafka import KafkaSink, KafkaSource
from scstream.stream.connectors.kafka.doctor import check_settings
from scstream.stream.sink import Delivery
from scstream.stream.source import Resume
from tests.stream.kafka_tools import delivery, keys


def test_the_error_for_a_missing_topic_names_it(broker, own_name, hasty):
    source, sink = broker.source(own_name), broker.sink(own_name)
    for act, error in [
        (lambda: source.open(None), StreamError),
        (lambda: source.open(Resume({"topic": own_name}, {"0": 1})), SourceChanged),
        (lambda: sink.open(None), SinkError),
    ]:
        with pytest.raises(error, match=own_name):
            act()


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


def test_an_instance_that_was_replaced_is_fenced(broker, own_name):
    """The brokers raise the epoch of the transactional id; what the old one wrote is aborted."""
    broker.topic(own_name)
    zombie, heir = (broker.sink(own_name, transactional=True) for _ in range(2))
    zombie.open(None)
    position = zombie.flush()
    zombie.write(delivery(0))
    zombie.flush()
    zombie.write(delivery(1))
    zombie._producer.flush(30)  # the brokers have the messages, not the commit
    heir.open(position)
    with pytest.raises(Fenced, match="another instance"):
        zombie.flush()
    for batch in range(3):
        heir.write(delivery(batch))
    heir.flush()
    zombie.close()
    heir.close()
    assert [key for key, _ in broker.content(own_name)] == keys(range(3))
    everything = broker.content(own_name, isolation="read_uncommitted")
    assert len(everything) == 40  # with the aborted ones of the zombie


def test_an_aborted_transaction_of_a_killed_instance_is_written_again(broker, own_name):
    broker.topic(own_name)
    first, second = (broker.sink(own_name, transactional=True) for _ in range(2))
    first.open(None)
    position = first.flush()
    first.write(delivery(0))
    first._producer.flush(30)
    second.open(position)  # the first never ends its transaction
    for batch in range(2):
        second.write(delivery(batch))
    assert second.flush()["0"] > 30  # with the aborted messages and the marks of transactions
    second.close()
    assert [key for key, _ in broker.content(own_name)] == keys(range(2))


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("limit", ["topic", "client"])
def test_a_message_that_is_too_large_stops_the_sink(broker, own_name, transactional, limit):
    broker.topic(own_name, **({"max_message_bytes": 2000} if limit == "topic" else {}))
    options = {"options": {"message.max.bytes": 2000}} if limit == "client" else {}
    sink = broker.sink(own_name, format="columns", transactional=transactional, **options)
    sink.open(None)
    with pytest.raises(SinkError, match=r"refuses a message.*make batches smaller"):
        sink.write(delivery(0, 2000))
        sink.flush()
    sink.close()
    assert broker.content(own_name) == []


def test_doctor_reports_what_the_broker_reports(broker, own_name, hasty):
    broker.topic(own_name)
    for connector in (broker.source(own_name), broker.sink(own_name)):
        found = connector.doctor()
        assert found[0].about == "topic"
        assert "4 partitions, 1 replicas" in found[0].detail
    assert found[-1].about == "delivery"
    assert found[-1].level == "note"
    assert {"replication", "retention"} <= {f.about for f in broker.source(own_name).doctor()}
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
        (lambda: KafkaSink("h", "t", options={"enable.idempotence": False}), "idempotence"),
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
