"""What the Kafka source and sink share: settings, patience, and questions about a topic.

Only this file and its neighbours named after Kafka know the client library.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from scstream.errors import InputError, StreamError, missing_extra

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AdminClient,
        ConfigResource,
    )
except ImportError as error:
    raise missing_extra("confluent-kafka", "kafka") from error

__all__ = [
    "ANSWER_SECONDS",
    "CONSUMER",
    "GONE_SECONDS",
    "AdminClient",
    "ConfigResource",
    "Consumer",
    "KafkaError",
    "KafkaException",
    "Link",
    "NoTopic",
    "Place",
    "Producer",
]

CONSUMER: Mapping[str, Any] = {
    "auto_offset_reset": "error",
    "enable_auto_commit": False,
    "enable_auto_offset_store": False,
    "allow_auto_create_topics": False,
}
ANSWER_SECONDS = 2.0  # of one question; connections outlast it
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_APPEAR_SECONDS = 5.0  # a topic that was just made may be unknown to some brokers
GONE_SECONDS = 30.0  # and one that was there to a broker that has just started
_SHRUNK_SECONDS = 3.0  # a leader that has just been elected may not know its end yet
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # of a topic on brokers before 2.8
_HOPELESS = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
}
_LOST = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
_UNANSWERABLE = {KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION}
_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
_T = TypeVar("_T")
_log = logging.getLogger("scstream.kafka")


class NoTopic(Exception):
    """The brokers answer, and do not know the topic."""


@dataclass(frozen=True)
class Topic:
    """What the brokers say about a topic."""

    copies: Mapping[int, int]  # by partition
    cluster: str  # id of the cluster, "" from brokers before 0.10
    has_controller: bool  # whether there is somebody to ask for more


class Link:
    """Clients of one cluster for one topic.

    Parameters
    ----------
    servers : str
        "host:9092", or several with commas between.
    topic : str
        Name of the topic.
    patience : float or None
        Seconds that brokers that are away are waited for; None for ever.
    options : mapping or None
        More settings of librdkafka.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        patience: float | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not servers or not topic:
            raise InputError("Kafka needs servers, as in 'host:9092', and a topic.")
        self.servers, self.topic = servers, topic
        self.patience = patience
        self.options = dict(options or {})
        self.closing = threading.Event()
        self.shaken = threading.Event()  # a connection was lost since somebody looked
        self.fatal: KafkaError | None = None  # what ended a producer
        self._hopeless: KafkaError | None = None
        self._in_haste = False

    def __str__(self) -> str:
        return f"Kafka topic {self.topic!r} at {self.servers}"

    def settings(self, **own: Any) -> dict[str, Any]:
        """Return settings of a client; those that promises rest on cannot be changed."""
        mine = {name.replace("_", "."): value for name, value in own.items()}
        clash = [name for name in mine if name in self.options]
        if clash:
            raise InputError(
                f"the option {clash[0]!r} of Kafka is set by scstream, since what it promises "
                "rests on it; leave it out."
            )
        common = {
            "bootstrap.servers": self.servers,
            "error_cb": self._on_error,
            "logger": _log,
            "log_level": 2,  # who is away is waited for, and announced once
            "reconnect.backoff.max.ms": 2000,
        }
        return {**common, **self.options, **mine}

    def consumer(self, **own: Any) -> Consumer:
        """Return a consumer that reads by offset and decides nothing by itself."""
        return Consumer(self.settings(**CONSUMER, **own))

    @property
    def answer_seconds(self) -> float:
        """How long to wait for one answer."""
        return ANSWER_SECONDS if self.patience is None else min(ANSWER_SECONDS, self.patience)

    def begin(self) -> None:
        """Forget what earlier clients have met."""
        self.closing.clear()
        self.shaken.clear()
        self.fatal = self._hopeless = None

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error
        if error.code() in _HOPELESS:
            self._hopeless = error
        if error.code() in _LOST and not self.shaken.is_set():
            self.shaken.set()
            _log.warning("%s: a connection was lost: %s", self, error.str())

    @contextmanager
    def in_haste(self) -> Iterator[None]:
        """Let questions raise KafkaException at once instead of asking again."""
        self._in_haste = True
        try:
            yield
        finally:
            self._in_haste = False

    def patiently(self, what: str, ask: Callable[[], _T]) -> _T:
        """Ask until there is an answer, the refusal is for good, or patience is over."""
        began, pause = time.monotonic(), _SHORTEST_PAUSE
        while True:
            try:
                return ask()
            except KafkaException as error:
                refusal = error.args[0]
                self.refuse_hopeless(refusal)
                if self._in_haste:
                    raise
                waited = time.monotonic() - began
                if self.patience is not None and waited > self.patience:
                    raise StreamError(
                        f"{self} has been away for {waited:.0f} s, cannot {what} "
                        f"({refusal.str()}); start it, or check the address."
                    ) from None
            if self.closing.wait(pause):
                raise StreamError(f"{self} was closed while waiting to {what}.")
            pause = min(2 * pause, _LONGEST_PAUSE)

    def refuse_hopeless(self, refusal: KafkaError | None = None) -> None:
        """Raise if the brokers refuse us for a reason that does not pass."""
        for error in (refusal, self._hopeless):
            if error is not None and error.code() in _HOPELESS:
                raise StreamError(
                    f"{self} refuses us: {error.str()}; check the credentials and permissions."
                )

    def look(self, client: Consumer, *, timeout: float | None = None) -> Topic:
        """Ask once for partitions and ids; raises `NoTopic` or KafkaException."""
        seen = client.list_topics(self.topic, timeout=timeout or self.answer_seconds)
        topic = seen.topics[self.topic]
        if topic.error is not None:
            if topic.error.code() in _UNKNOWN:
                raise NoTopic
            raise KafkaException(topic.error)
        if not topic.partitions:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        copies = {number: len(part.replicas) for number, part in topic.partitions.items()}
        return Topic(copies, seen.cluster_id or "", seen.controller_id in seen.brokers)

    def topic_id(self) -> str:
        """Ask for the id that a topic gets when it is made; "" from brokers before 2.8."""
        admin, topics = AdminClient(self.settings()), TopicCollection([self.topic])

        def ask() -> str:
            asked = admin.describe_topics(topics, request_timeout=self.answer_seconds)[self.topic]
            try:
                return str(asked.result().topic_id).replace(_NO_ID, "")
            except KafkaException as error:
                if error.args[0].code() in _UNANSWERABLE:
                    return ""
                raise

        return self.patiently("learn the id of the topic", ask)

    def survey(self, client: Consumer, *, was_there: bool = False) -> Topic:
        """Wait for the brokers, and for a topic that may be about to appear; raises `NoTopic`."""
        until = time.monotonic() + (GONE_SECONDS if was_there else _APPEAR_SECONDS)
        while True:
            try:
                return self.patiently("find the topic", lambda: self.look(client))
            except NoTopic:
                if time.monotonic() > until or self.closing.wait(0.2):
                    raise

    def ends(self, client: Consumer, partition: int) -> tuple[int, int]:
        """Offsets of the first message that is there and after the last one."""
        place = Place(self.topic, partition)

        def ask() -> tuple[int, int]:
            low, high = client.get_watermark_offsets(place, timeout=self.answer_seconds)
            return low, high

        return self.patiently(f"find the ends of partition {partition}", ask)

    def ends_around(self, client: Consumer, partition: int, position: int) -> tuple[int, int]:
        """As `ends`; where that is before a position, ask again for a while."""
        until = time.monotonic() + _SHRUNK_SECONDS
        while True:
            low, high = self.ends(client, partition)
            if high >= position or time.monotonic() > until or self.closing.wait(0.2):
                return low, high
