"""Messages of a Kafka topic, read by offset."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from scstream.errors import InputError, SourceChanged, SourceGap, SourceRegressed, StreamError
from scstream.stream.connectors.kafka.connection import (
    CONSUMER,
    GONE_SECONDS,
    Connection,
    NoTopic,
    Options,
)
from scstream.stream.connectors.kafka.doctor import findings
from scstream.stream.connectors.start_time import read_start_time
from scstream.stream.findings import Finding
from scstream.stream.source import Positions, Record, Resume

_ACCEPT = "Restore them, or start with --accept-gap to continue without them."
_OUT_OF_RANGE = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError._LOG_TRUNCATION,
    KafkaError.OFFSET_OUT_OF_RANGE,
}
_log = logging.getLogger("scstream.kafka")


class KafkaSource:
    """Read a Kafka topic; a position is the next offset of a partition.

    Partitions are assigned with explicit offsets. Nothing depends on the offsets that the brokers
    store for a consumer group, and a missing offset is an error instead of a jump. Partitions that
    are added later are read from their beginning.

    The source recognises the topic by its id and by the id of the cluster (Kafka 2.8 or later): a
    topic that was deleted and created again is another one. It notices that a partition lost its
    last messages if the partition still ends before the position when it is checked. If new
    messages reached the position before that, the loss may go unnoticed.

    With `--accept-gap` a partition that lost its last messages is read from its new end, so that no
    message counts twice; a topic that was created again is read from its beginning.

    Parameters
    ----------
    servers : str
        "host:9092", or several separated by commas.
    topic : str
        Name of the topic.
    start : "first", "last", str, datetime or mapping
        Where a pipeline without a checkpoint begins: at the first available message, after the
        last one, at a time such as "2026-01-01T00:00Z", or at offsets by partition. A time means,
        in each partition, the first message whose timestamp is not before it.
    group : str, optional
        Consumer group to which the source commits offsets, so that other tools can show its
        progress. The source never reads them.
    refresh : float
        Seconds between two checks for new partitions.
    retry_timeout : float, optional
        Seconds to wait for unavailable brokers before stopping; by default there is no limit.
    options : mapping, optional
        More settings of librdkafka, such as "security.protocol" and "sasl.password".

    Examples
    --------
    >>> from scstream.stream.connectors.kafka import KafkaSource
    >>> KafkaSource("broker:9092", "rows", options={"sasl.password": "hunter2"})
    KafkaSource('broker:9092', 'rows')
    >>> KafkaSource("broker:9092", "rows", options={"enable.auto.commit": True})
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: the option 'enable.auto.commit' of Kafka is set by scstream, ...
    """

    done = False  # a topic has no end

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        start: str | datetime | Mapping[str, int] = "first",
        group: str | None = None,
        refresh: float = 30.0,
        retry_timeout: float | None = None,
        options: Options | None = None,
    ) -> None:
        self._start_time = read_start_time(start)
        is_known = isinstance(start, Mapping) or start in ("first", "last")
        if self._start_time is None and not is_known:
            raise InputError(
                f"start is {start!r}; give 'first', 'last', a time such as '2026-01-01T00:00Z', "
                "or offsets by partition."
            )
        self.group = group
        self.refresh = refresh
        self._start = start
        self._connection = Connection(servers, topic, retry_timeout=retry_timeout, options=options)
        self._connection.settings(**CONSUMER, group_id="")  # rejects options that scstream sets
        self._consumer: Consumer | None = None
        self._reset()

    def __repr__(self) -> str:
        return f"KafkaSource({self._connection.servers!r}, {self._connection.topic!r})"

    def _reset(self) -> None:
        self._identity: dict[str, str] = {}
        self._began: dict[str, int] = {}  # offsets at which a new job began, by partition
        self._next: dict[int, int] = {}  # offsets by partition
        self._unchecked: list[Any] = []  # messages of a new connection, or left over
        self._checked_at = 0.0
        self._is_idle = False  # whether no message came since the last check
        self._missing_since = 0.0  # when the brokers began not to know the topic

    def identity(self) -> Mapping[str, str]:
        """Return name and id of the topic, id of the cluster, and where the job began."""
        if not self._identity:
            raise StreamError(f"{self!r} is not open; call `open` first.")
        began = {"began": json.dumps(self._began)} if self._began else {}
        return {**self._identity, **began}

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Connect, check that the topic is still the one of the checkpoint, and start to read."""
        self.close()
        self._reset()
        self._connection.reset()
        self._consumer = self._connection.consumer(group_id=self.group or "scstream")
        try:
            self._seek(self._consumer, resume, accept_gap)
        except BaseException:
            self.close()
            raise

    def _seek(self, consumer: Consumer, resume: Resume | None, accept_gap: bool) -> None:
        known = dict(resume.identity) if resume else {}
        partitions = self._identify(consumer, known, accept_gap=accept_gap)
        self._began = json.loads(known.get("began", "{}"))
        saved: dict[str, int] = {**self._began, **resume.positions} if resume else {}
        is_new = known and _difference(known, self._identity)
        gone = [partition for partition in saved if int(partition) not in partitions]
        if gone and not accept_gap:
            raise SourceChanged(
                f"{self._connection} has no partition {gone[0]} any more; offset {saved[gone[0]]} "
                f"is next there. The topic was created again. {_ACCEPT}"
            )
        if is_new or gone:
            saved, self._began = {}, {}
        for partition in partitions:
            offset = saved.get(str(partition))
            if offset is None:
                offset = self._first(consumer, partition, is_new_job=resume is None)
            else:
                offset = self._available(consumer, partition, offset, accept_gap=accept_gap)
            self._next[partition] = offset
        if resume is None and self._start != "first":
            # A partition without messages is not in a checkpoint, and must not start elsewhere.
            self._began = {str(partition): offset for partition, offset in self._next.items()}
        self._connection.lost.clear()
        self._checked_at = time.monotonic()
        self._warn_of_shared_group(consumer)
        self._assign(consumer)

    def _identify(
        self, consumer: Consumer, known: Mapping[str, str], *, accept_gap: bool = False
    ) -> list[int]:
        """Return the partitions; raise if the topic is not the one of the checkpoint."""
        try:
            topic = self._connection.wait_for_topic(consumer, existed=bool(known))
        except NoTopic:
            if known and not accept_gap:
                raise SourceChanged(f"{self._connection} is gone. {_ACCEPT}") from None
            raise StreamError(
                f"{self._connection} does not exist; create it, or check its name."
            ) from None
        self._identity = {
            "topic": self._connection.topic,
            "id": self._connection.topic_id(),
            "cluster": topic.cluster,
        }
        if not accept_gap:
            self._check_identity(known, self._identity)
        return sorted(topic.replicas)

    def _check_identity(self, known: Mapping[str, str], found: Mapping[str, str]) -> None:
        if name := _difference(known, found):
            raise SourceChanged(
                f"{self._connection} is not the one of the checkpoint: its {name} was "
                f"{known[name]} and is {found[name]}. Restore the old topic, or read this "
                "one from its beginning with --accept-gap."
            )

    def _first(self, consumer: Consumer, partition: int, *, is_new_job: bool) -> int:
        """Return where to begin in a partition that is not in the checkpoint."""
        low, high = self._connection.watermarks(consumer, partition)
        if not is_new_job or self._start == "first":
            return low
        if self._start == "last":
            return high
        if self._start_time is not None:
            offset = self._connection.offset_at(consumer, partition, self._start_time)
            return high if offset is None else offset
        assert isinstance(self._start, Mapping)
        wanted = self._start.get(str(partition), low)
        return self._available(consumer, partition, wanted, accept_gap=False)

    def _available(
        self, consumer: Consumer, partition: int, offset: int, *, accept_gap: bool
    ) -> int:
        """Return the offset if the partition reaches it; else raise, or go to the nearest one."""
        low, high = self._connection.watermarks_around(consumer, partition, offset)
        if low <= offset <= high:
            return offset
        if accept_gap:
            return low if offset < low else high
        where = f"{self._connection}, partition {partition},"
        if offset > high:
            raise SourceRegressed(
                f"{where} ends at offset {high}, before {offset} which is next: the brokers lost "
                f"messages that they had confirmed. {_ACCEPT}"
            )
        raise SourceGap(
            f"{where} begins at offset {low}, after {offset} which is next: the brokers deleted "
            f"the messages between. {_ACCEPT}"
        )

    def _warn_of_shared_group(self, consumer: Consumer) -> None:
        """Log if the group has committed later offsets: another pipeline may use its name."""
        if not self.group:
            return
        with contextlib.suppress(KafkaException):
            for found in consumer.committed(self._offsets(self._next), timeout=2.0):
                if found.offset > self._next[found.partition]:
                    _log.warning(
                        "%s, partition %d: the group %s has committed offset %d, but this pipeline "
                        "continues at %d; does another pipeline use the same group?",
                        *(self._connection, found.partition, self.group),
                        *(found.offset, self._next[found.partition]),
                    )

    def _offsets(self, offsets: Mapping[Any, int]) -> list[TopicPartition]:
        topic = self._connection.topic
        return [TopicPartition(topic, int(partition), at) for partition, at in offsets.items()]

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return up to `max_n` messages; none while the brokers are unavailable."""
        consumer = self._consumer
        if consumer is None:
            raise StreamError(f"{self!r} is not open; call `open` first.")
        until = time.monotonic() + timeout
        if not self._is_verified(consumer, timeout):
            self._unchecked += consumer.consume(1, 0.0)  # runs the callbacks of the client
            self._connection.closing.wait(min(0.1, max(0.0, until - time.monotonic())))
            return []
        messages = self._unchecked or _consume(consumer, max_n, timeout)
        self._unchecked = []
        # Checked now, not before they came: else a broker that stays away would delay all messages.
        if messages and not (self._is_unchanged(consumer) and self._is_same_topic()):
            self._unchecked = messages
            return []
        self._unchecked = messages[max_n:]
        return self._records(messages[:max_n])

    def _is_verified(self, consumer: Consumer, timeout: float) -> bool:
        """Check the topic at intervals and after a lost connection; False if it is unavailable."""
        was_lost = self._connection.lost.is_set()
        if not was_lost and time.monotonic() < self._checked_at + self.refresh:
            return True
        self._connection.raise_permanent()
        self._connection.lost.clear()
        self._checked_at = time.monotonic()
        try:
            with self._connection.without_retries():
                topic = self._connection.describe(consumer, timeout=max(0.1, min(timeout, 2.0)))
                self._missing_since = 0.0
                if was_lost or self._is_idle:
                    self._check_again(consumer)
                self._is_idle = True
                self._add_partitions(consumer, set(topic.replicas) - set(self._next))
        except NoTopic:
            self._topic_missing()
            self._connection.lost.set()
            return False
        except KafkaException:
            self._connection.is_available = False
            if was_lost:
                self._connection.lost.set()
            return not was_lost
        self._connection.is_available = True
        return True

    def _is_unchanged(self, consumer: Consumer) -> bool:
        """Whether the brokers have what was read, if a connection was lost; False if unknown."""
        if not self._connection.lost.is_set():
            return True
        try:
            with self._connection.without_retries():
                self._check_offsets(consumer)
        except (NoTopic, KafkaException):
            return False
        return True

    def _is_same_topic(self) -> bool:
        """Compare the id of the topic; False if the brokers do not report it now.

        The client reads on in a topic that was created again, as if its offsets were the old ones.
        """
        try:
            with self._connection.without_retries():
                found = self._connection.topic_id()
        except KafkaException:
            self._connection.lost.set()
            return False
        self._check_identity(self._identity, {"id": found})
        return True

    def _check_again(self, consumer: Consumer) -> None:
        """Check what `open` checked, and assign the partitions again.

        The brokers may have restarted without their messages; and the client may have given up a
        partition that they did not know for a moment.
        """
        self._check_offsets(consumer)
        self._unchecked = []
        self._assign(consumer)

    def _check_offsets(self, consumer: Consumer) -> None:
        self._identify(consumer, self._identity)
        for partition, offset in self._next.items():
            self._available(consumer, partition, offset, accept_gap=False)

    def _assign(self, consumer: Consumer) -> None:
        consumer.assign(self._offsets(self._next))

    def _add_partitions(self, consumer: Consumer, partitions: set[int]) -> None:
        for partition in sorted(partitions):
            first = self._first(consumer, partition, is_new_job=False)
            consumer.incremental_assign(self._offsets({partition: first}))
            self._next[partition] = first

    def _topic_missing(self) -> None:
        """Raise if the brokers have not known the topic for a long time."""
        now = time.monotonic()
        self._missing_since = self._missing_since or now
        if now - self._missing_since > GONE_SECONDS:
            raise SourceChanged(f"{self._connection} is gone. {_ACCEPT}")

    def _records(self, messages: list[Any]) -> list[Record]:
        records = []
        for message in messages:
            if (error := message.error()) is not None:
                self._on_message_error(error, message.partition())
                continue
            offset, partition = message.offset(), message.partition()
            kind, milliseconds = message.timestamp()
            records.append(
                Record(
                    position=offset,
                    after=offset + 1,
                    value=message.value() or b"",
                    partition=str(partition),
                    time=milliseconds / 1000.0 if kind else None,
                )
            )
            self._next[partition] = offset + 1
        self._is_idle &= not records
        self._connection.is_available |= bool(records)
        return records

    def _on_message_error(self, error: KafkaError, partition: int) -> None:
        """Raise if an error in place of a message is permanent; else check the topic again."""
        self._connection.raise_permanent(error)
        if error.code() not in _OUT_OF_RANGE:
            self._connection.lost.set()
            return
        assert self._consumer is not None
        offset = self._next[partition]
        self._available(self._consumer, partition, offset, accept_gap=False)
        raise SourceRegressed(
            f"{self._connection}, partition {partition}, was truncated before offset {offset}, "
            "which is next, and then written again: the brokers lost messages that they had "
            f"confirmed. {_ACCEPT}"
        )

    def acknowledge(self, positions: Positions) -> None:
        """Commit offsets to the group, if there is one; a failed commit is not repeated."""
        consumer = self._consumer
        if self.group and consumer is not None and positions:
            with contextlib.suppress(KafkaException, RuntimeError):
                consumer.commit(offsets=self._offsets(positions), asynchronous=True)

    def lag(self) -> int | None:
        """Return the number of unread messages, as of the last answers of the brokers."""
        consumer, n_waiting = self._consumer, 0
        if consumer is None:
            return None
        for partition, offset in list(self._next.items()):
            try:
                where = TopicPartition(self._connection.topic, partition)
                _, high = consumer.get_watermark_offsets(where, cached=True)
            except (KafkaException, RuntimeError, TypeError):
                return None
            if high < 0:
                return None
            n_waiting += max(0, high - offset)
        return n_waiting

    @property
    def connected(self) -> bool | None:
        """Whether the brokers answered when they were used last; None if this is not open."""
        return None if self._consumer is None else self._connection.is_available

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def doctor(self) -> list[Finding]:
        """Explain how the brokers store the messages of the topic."""
        return findings(self._connection, role="source")


def _difference(known: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Return the first name whose value has changed; "" if there is none."""
    return next((name for name in known if found.get(name, known[name]) != known[name]), "")


def _consume(consumer: Consumer, max_n: int, timeout: float) -> list[Any]:
    """Return messages that are available, or wait for one and take those that came with it."""
    messages = consumer.consume(max_n, 0.0)
    if messages:
        return messages
    first = consumer.poll(timeout)
    if first is None:
        return []
    return [first, *(consumer.consume(max_n - 1, 0.0) if max_n > 1 else [])]
