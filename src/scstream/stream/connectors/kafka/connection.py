"""What the Kafka source and sink share: settings, retries, and requests about a topic.

Only the files of this folder import the client library.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from scstream.errors import InputError, StreamError
from scstream.io.header import Json
from scstream.stream.connectors.outage import Outage

Options = Mapping[str, str | int | float]  # settings of librdkafka, by name
CONSUMER: Options = {
    "auto_offset_reset": "error",
    "enable_auto_commit": False,
    "enable_auto_offset_store": False,
    "allow_auto_create_topics": False,
}
REQUEST_SECONDS = 2.0  # timeout of one request; connections last longer
_APPEAR_SECONDS = 5.0  # some brokers may not know a topic yet that was just created
GONE_SECONDS = 30.0  # a broker that has just started may not know an old topic yet
_SHRUNK_SECONDS = 3.0  # a leader that was just elected may not know its end offset yet
_PERMANENT = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
}
_DISCONNECTED = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
_T = TypeVar("_T")
_log = logging.getLogger("scstream.kafka")


class NoTopic(Exception):
    """The brokers answer, and do not know the topic."""


@dataclass(frozen=True)
class Topic:
    """What the brokers report about a topic."""

    replicas: Mapping[int, int]  # number of replicas by partition
    cluster: str  # id of the cluster


class Connection:
    """Clients of one cluster for one topic."""

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        retry_timeout: float | None = None,
        options: Options | None = None,
    ) -> None:
        if not servers or not topic:
            raise InputError("Kafka needs servers, as in 'host:9092', and a topic.")
        self.servers, self.topic = servers, topic
        self.retry_timeout = retry_timeout
        self.options = dict(options or {})
        self.closing = threading.Event()
        self.lost = threading.Event()  # a connection was lost since the last check of the topic
        self.is_available = True  # whether the brokers answered when they were used last
        self.fatal: KafkaError | None = None  # the error that ended a producer
        self._permanent: KafkaError | None = None
        self._admin: AdminClient | None = None
        self._retries = True

    def __str__(self) -> str:
        return f"Kafka topic {self.topic!r} at {self.servers}"

    def settings(self, **own: Any) -> Json:
        """Return settings of a client; users cannot change those that delivery depends on."""
        required = {name.replace("_", "."): value for name, value in own.items()}
        clash = [name for name in required if name in self.options]
        if clash:
            raise InputError(
                f"the option {clash[0]!r} of Kafka is set by scstream, because its delivery "
                "guarantees depend on it; remove the option."
            )
        common = {
            "bootstrap.servers": self.servers,
            "error_cb": self._on_error,
            "logger": _log,
            "log_level": 2,  # `_on_error` logs lost connections, once
            "reconnect.backoff.max.ms": 2000,
        }
        return {**common, **self.options, **required}

    def consumer(self, **own: Any) -> Consumer:
        """Return a consumer that reads by offset and neither commits nor seeks by itself."""
        return Consumer(self.settings(**CONSUMER, **own))

    @property
    def request_seconds(self) -> float:
        """Timeout of one request."""
        return min(REQUEST_SECONDS, self.retry_timeout or REQUEST_SECONDS)

    def reset(self) -> None:
        """Forget the errors of earlier clients."""
        self.closing.clear()
        self.lost.clear()
        self.is_available = True
        self.fatal = self._permanent = None

    def close(self) -> None:
        """End requests that wait."""
        self.closing.set()
        self._admin = None

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error
        if error.code() in _PERMANENT:
            self._permanent = error
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.is_available = False
        if error.code() in _DISCONNECTED and not self.lost.is_set():
            self.lost.set()
            _log.warning("%s: a connection was lost: %s", self, error.str())

    @contextmanager
    def without_retries(self) -> Iterator[None]:
        """Let failed requests raise KafkaException at once."""
        self._retries = False
        try:
            yield
        finally:
            self._retries = True

    def retry(self, what: str, request: Callable[[], _T]) -> _T:
        """Repeat a request until it succeeds, fails permanently, or the timeout is over."""
        outage = Outage(str(self), self.retry_timeout)
        while True:
            try:
                result = request()
                self.is_available = True
                return result
            except KafkaException as error:
                self.is_available = False
                self.raise_permanent(error.args[0])
                if not self._retries:
                    raise
                reason = f"cannot {what} ({error.args[0].str()})"
            outage.failed(reason)
            outage.wait(self.closing)

    def raise_permanent(self, error: KafkaError | None = None) -> None:
        """Raise if the brokers reject the client for a reason that a retry does not change."""
        for found in (error, self._permanent):
            if found is not None and found.code() in _PERMANENT:
                raise StreamError(
                    f"{self} rejects the client: {found.str()}; check the credentials and "
                    "permissions."
                )

    def describe(self, client: Consumer, *, timeout: float | None = None) -> Topic:
        """Request partitions and ids once; raises `NoTopic` or KafkaException."""
        answer = client.list_topics(self.topic, timeout=timeout or self.request_seconds)
        topic = answer.topics[self.topic]
        if topic.error is not None:
            if topic.error.code() in _UNKNOWN:
                raise NoTopic
            raise KafkaException(topic.error)
        if not topic.partitions:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        replicas = {number: len(part.replicas) for number, part in topic.partitions.items()}
        return Topic(replicas, answer.cluster_id)

    def topic_id(self) -> str:
        """Request the id that the topic got when it was created."""
        admin = self._admin = self._admin or AdminClient(self.settings())
        topics = TopicCollection([self.topic])

        def request() -> str:
            results = admin.describe_topics(topics, request_timeout=self.request_seconds)
            return str(results[self.topic].result().topic_id)

        return self.retry("request the id of the topic", request)

    def wait_for_topic(self, client: Consumer, *, existed: bool = False) -> Topic:
        """Wait for the brokers, and a while for the topic; raises `NoTopic`."""
        until = time.monotonic() + (GONE_SECONDS if existed else _APPEAR_SECONDS)

        def request() -> Topic:
            try:
                return self.describe(client)
            except KafkaException:
                client.poll(0)  # runs `_on_error`; callers assign partitions after this
                raise

        while True:
            try:
                return self.retry("find the topic", request)
            except NoTopic:
                if time.monotonic() > until or self.closing.wait(0.2):
                    raise

    def watermarks(self, client: Consumer, partition: int) -> tuple[int, int]:
        """Return the offsets of the first message and after the last one."""
        where = TopicPartition(self.topic, partition)

        def request() -> tuple[int, int]:
            low, high = client.get_watermark_offsets(where, timeout=self.request_seconds)
            return low, high

        return self.retry(f"find the offsets of partition {partition}", request)

    def offset_at(self, client: Consumer, partition: int, seconds: float) -> int | None:
        """Return the offset of the first message that is not older; None if there is none."""
        where = TopicPartition(self.topic, partition, ceil(1000 * seconds))

        def request() -> int | None:
            [found] = client.offsets_for_times([where], timeout=self.request_seconds)
            if found.error is not None:
                raise KafkaException(found.error)
            return found.offset if found.offset >= 0 else None

        return self.retry(f"find the offset of a time in partition {partition}", request)

    def watermarks_around(self, client: Consumer, partition: int, offset: int) -> tuple[int, int]:
        """Return `watermarks`; if the partition ends before `offset`, repeat for a while."""
        until = time.monotonic() + _SHRUNK_SECONDS
        while True:
            low, high = self.watermarks(client, partition)
            if high >= offset or time.monotonic() > until or self.closing.wait(0.2):
                return low, high
