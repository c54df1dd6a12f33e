"""What the settings of a Kafka topic mean for what scstream promises."""

from __future__ import annotations

from collections.abc import Mapping

from scstream.stream.connectors.kafka.link import (
    AdminClient,
    ConfigResource,
    KafkaException,
    Link,
    NoTopic,
)
from scstream.stream.findings import Finding

_DAY_MS = 86_400_000


def findings(link: Link, *, role: str) -> list[Finding]:
    """Ask the brokers about a topic and say what the answers mean."""
    link.begin()
    consumer = link.consumer(group_id="scstream")  # others would make the topic by asking for it
    try:
        topic = link.survey(consumer)
    except NoTopic:
        return [Finding("warn", "topic", f"{link} does not exist; make it, or check its name.")]
    finally:
        consumer.close()
    copies = min(topic.copies.values())
    cluster = topic.cluster or "without an id"
    detail = f"{link}: {len(topic.copies)} partitions, {copies} copies, cluster {cluster}."
    found = [Finding("ok", "topic", detail)]
    settings = _settings(link) if topic.has_controller else {}
    if not settings:
        return [*found, Finding("note", "settings", _SILENT)]
    return [*found, *check_settings(settings, copies=copies, role=role)]


def _settings(link: Link) -> dict[str, str]:
    """Settings of a topic by name; empty from brokers that do not tell them."""
    admin, resource = AdminClient(link.settings()), ConfigResource("topic", link.topic)
    asked = admin.describe_configs([resource], request_timeout=link.answer_seconds)
    try:
        return {name: str(entry.value) for name, entry in asked[resource].result().items()}
    except KafkaException:
        return {}


def check_settings(settings: Mapping[str, str], *, copies: int, role: str) -> list[Finding]:
    """Return what settings of a topic mean.

    Examples
    --------
    >>> from scstream.stream.connectors.kafka.doctor import check_settings
    >>> compacted = check_settings({"cleanup.policy": "compact"}, copies=3, role="source")
    >>> [finding.about for finding in compacted if finding.level == "warn"]
    ['min.insync.replicas', 'cleanup.policy']
    """
    found = [_of_copies(int(settings.get("min.insync.replicas", "1")), copies)]
    if settings.get("unclean.leader.election.enable") == "true":
        detail = (
            "true: a broker that lags behind may take over and drop what was confirmed. Set it to "
            "false."
        )
        found.append(Finding("warn", "unclean.leader.election.enable", detail))
    if "compact" in settings.get("cleanup.policy", ""):
        detail = (
            "compact: the brokers drop messages whose key comes again, so a replay would not see "
            "what the first run saw. Set it to delete."
        )
        found.append(Finding("warn", "cleanup.policy", detail))
    if role == "source":
        found.append(_of_retention(settings))
    is_synced = settings.get("flush.messages") == "1"
    detail = (
        "every message is on the disk of its broker before it is confirmed."
        if is_synced
        else "a confirmed message is in the memory of the brokers that are in sync, which write it "
        "to their disks later: it outlasts all but a power failure of all of them at once."
    )
    return [*found, Finding("ok" if is_synced else "note", "flush.messages", detail)]


def _of_copies(needed: int, copies: int) -> Finding:
    if copies == 1:
        detail = "there is one copy of each message: its broker's disk is all there is."
        return Finding("warn", "replication", detail)
    if needed == 1:
        detail = (
            f"1 of {copies} copies: a message may be confirmed when one broker has it, and be lost "
            "with that broker. Set it to 2 or more."
        )
        return Finding("warn", "min.insync.replicas", detail)
    detail = f"{needed} of {copies} copies exist before a message is confirmed."
    return Finding("ok", "min.insync.replicas", detail)


def _of_retention(settings: Mapping[str, str]) -> Finding:
    age, size = int(settings.get("retention.ms", "-1")), settings.get("retention.bytes", "-1")
    limits = [f"{age / _DAY_MS:g} days"] if age >= 0 else []
    limits += [f"{size} bytes per partition"] if size != "-1" else []
    if not limits:
        return Finding("ok", "retention", "messages are kept for ever.")
    detail = (
        f"messages are kept for {' or '.join(limits)}; a pipeline that stands still for longer "
        "stops with a gap."
    )
    return Finding("note", "retention", detail)


_SILENT = (
    "the brokers do not tell their settings (before 0.11 they cannot, later it takes the "
    "permission DescribeConfigs): look yourself that there are 2 or more copies in sync, that "
    "unclean.leader.election.enable is false, and that cleanup.policy is delete."
)
