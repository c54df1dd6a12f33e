"""Kafka source and sink over TLS, with passwords and certificates, and permissions."""

from collections.abc import Callable

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from scstream.errors import StreamError
from tests.kafka_security import USER, Security
from tests.kafka_server import KafkaCluster
from tests.stream.kafka_tools import Broker, delivery, gathered, keys, numbered

LOGINS: dict[str, tuple[str, Callable[[Security], dict[str, str]]]] = {
    "scram": ("SASL_SSL", lambda security: security.by_password("SCRAM-SHA-256")),
    "plain": ("SASL_SSL", lambda security: security.by_password("PLAIN")),
    "certificate": ("SSL", Security.by_certificate),
}


def permit(cluster: KafkaCluster, topic: str) -> None:
    """Let the user of the tests do everything with a topic."""
    allowed = [
        (ResourceType.TOPIC, topic),
        (ResourceType.GROUP, "scstream"),
        (ResourceType.TRANSACTIONAL_ID, f"scstream/{topic}"),
    ]
    rules = [
        AclBinding(
            *(kind, name, ResourcePatternType.PREFIXED, f"User:{USER}", "*"),
            *(AclOperation.ALL, AclPermissionType.ALLOW),
        )
        for kind, name in allowed
    ]
    admin = cluster.admin
    for done in admin.create_acls(rules).values():
        done.result()


@pytest.mark.parametrize("login", LOGINS)
def test_rows_and_labels_go_through_a_secure_connection(kafka_server, own_name, login):
    listener, options = LOGINS[login]
    broker = Broker(kafka_server, listener=listener, options=options(kafka_server.security))
    permit(kafka_server, own_name)
    broker.topic(own_name)
    broker.send(own_name, numbered(10), partition=1)
    source = broker.source(own_name)
    source.open(None)
    assert [record.value for record in gathered(source, 10)] == numbered(10)
    source.close()
    sink = broker.sink(own_name, transactional=True)
    sink.open(None)
    sink.write(delivery(0))
    sink.flush()
    sink.close()
    assert [key for key, _ in broker.content(own_name)] == keys(range(1))
    assert [found.level for found in sink.doctor()][:1] == ["ok"]


def wrong_password(security: Security) -> dict[str, str]:
    return security.by_password("SCRAM-SHA-256", password="CANARY")


def other_authority(security: Security) -> dict[str, str]:
    others = {"ssl.ca.location": str(security.folder / "client.crt")}
    return {**security.by_password("SCRAM-SHA-256"), **others}


def no_permission(security: Security) -> dict[str, str]:
    return security.by_password("PLAIN")


@pytest.mark.parametrize("end", ["source", "sink"])
@pytest.mark.parametrize(
    ("options", "listener"),
    [
        (wrong_password, "SASL_SSL"),
        (other_authority, "SASL_SSL"),
        (no_permission, "SASL_SSL"),
    ],
)
def test_a_client_that_is_rejected_stops_with_a_sentence(
    kafka_server, own_name, options, listener, end
):
    """It does not wait for ever, as for brokers that are down."""
    broker = Broker(kafka_server, listener=listener, options=options(kafka_server.security))
    broker.topic(own_name)
    connector = getattr(broker, end)(own_name, retry_timeout=20.0)
    with pytest.raises(StreamError, match=r"rejects the client: .*check the credentials") as caught:
        connector.open(None)
    assert "CANARY" not in str(caught.value)
