"""What the settings of a Kafka topic mean for the guarantees of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from scstream.stream.connectors.kafka.connection import Connection, NoTopic
from scstream.stream.findings import Finding

_DAY_MS = 86_400_000


def findings(connection: Connection, *, role: str) -> list[Finding]:
    """Read the settings of a topic and explain them."""
    connection.reset()
    consumer = connection.consumer(group_id="scstream")  # other clients may create the topic
    try:
        topic = connection.wait_for_topic(consumer)
    except NoTopic:
        text = f"{connection} does not exist; create it, or check its name."
        return [Finding("warn", "topic", text)]
    finally:
        consumer.close()
    n_replicas = min(topic.replicas.values())
    text = f"{connection}: {len(topic.replicas)} partitions, {n_replicas} replicas, cluster "
    found = [Finding("ok", "topic", f"{text}{topic.cluster}.")]
    settings = _settings(connection)
    if not settings:
        return [*found, Finding("note", "settings", _UNREADABLE)]
    return [*found, *check_settings(settings, n_replicas=n_replicas, role=role)]


def _settings(connection: Connection) -> dict[str, str]:
    """Return the settings of a topic by name; empty if the brokers do not report them."""
    admin = AdminClient(connection.settings())
    resource = ConfigResource("topic", connection.topic)
    results = admin.describe_configs([resource], request_timeout=connection.request_seconds)
    try:
        return {name: str(entry.value) for name, entry in results[resource].result().items()}
    except KafkaException:
        return {}


def check_settings(settings: Mapping[str, str], *, n_replicas: int, role: str) -> list[Finding]:
    """Return what the settings of a topic mean."""
    found = [_replication(int(settings.get("min.insync.replicas", "1")), n_replicas)]
    if settings.get("unclean.leader.election.enable") == "true":
        text = (
            "true: a broker that is behind may become leader and drop confirmed messages. Set it "
            "to false."
        )
        found.append(Finding("warn", "unclean.leader.election.enable", text))
    if "compact" in settings.get("cleanup.policy", ""):
        text = (
            "compact: the brokers drop older messages with the same key, so a replay would not "
            "read the same messages again. Set it to delete."
        )
        found.append(Finding("warn", "cleanup.policy", text))
    if role == "source":
        found.append(_retention(settings))
    if settings.get("flush.messages") == "1":
        text = "a message is on the disk of its broker before it is confirmed."
        return [*found, Finding("ok", "flush.messages", text)]
    text = (
        "a confirmed message is in the memory of all in-sync replicas, which write it to disk "
        "later: it is lost only if the power fails on all of them at once."
    )
    return [*found, Finding("note", "flush.messages", text)]


def _replication(min_insync: int, n_replicas: int) -> Finding:
    if n_replicas == 1:
        return Finding("warn", "replication", "1 replica: a lost disk loses its messages.")
    if min_insync == 1:
        text = (
            f"1 of {n_replicas} replicas: a message may be confirmed when one broker has it, and "
            "be lost with that broker. Set it to 2 or more."
        )
        return Finding("warn", "min.insync.replicas", text)
    text = f"{min_insync} of {n_replicas} replicas have a message before it is confirmed."
    return Finding("ok", "min.insync.replicas", text)


def _retention(settings: Mapping[str, str]) -> Finding:
    age, size = int(settings.get("retention.ms", "-1")), settings.get("retention.bytes", "-1")
    limits = [f"{age / _DAY_MS:g} days"] if age >= 0 else []
    limits += [f"{size} bytes per partition"] if size != "-1" else []
    if not limits:
        return Finding("ok", "retention", "messages are kept forever.")
    text = (
        f"messages are kept for {' or '.join(limits)}; a pipeline that is down for longer stops "
        "with SourceGap."
    )
    return Finding("note", "retention", text)


_UNREADABLE = (
    "the brokers do not report their settings; that needs the permission DescribeConfigs. Check "
    "that min.insync.replicas is 2 or more, that unclean.leader.election.enable is false, and that "
    "cleanup.policy is delete."
)
