"""Messages of a Kafka topic, read by offset."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Any

from scstream.errors import InputError, SourceChanged, SourceGap, SourceRegressed, StreamError
from scstream.stream.connectors.kafka.doctor import findings
from scstream.stream.connectors.kafka.link import (
    CONSUMER,
    GONE_SECONDS,
    Consumer,
    KafkaError,
    KafkaException,
    Link,
    NoTopic,
    Place,
)
from scstream.stream.findings import Finding
from scstream.stream.source import Positions, Record, Resume

_ACCEPT = "Bring them back, or go on without them with --accept-gap."
_OUT_OF_RANGE = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError._LOG_TRUNCATION,
    KafkaError.OFFSET_OUT_OF_RANGE,
}
_log = logging.getLogger("scstream.kafka")


class KafkaSource:
    """A Kafka topic; its partitions are those of the source, and a position is the offset that is read next.

    Partitions are assigned with explicit offsets, so that nothing depends on what the brokers
    remember of a consumer group, and an offset that is not there is an error instead of a jump.
    Partitions that are added later are read from their beginning.

    That the topic is still the same is told by its id (brokers from 2.8) and the id of the cluster
    (from 0.10). A partition that lost its end is noticed if it still ends before our position when
    we look; if it was written to again up to there by then, nothing may tell.

    With `--accept-gap` a partition that has lost its end is read from the new end on, so nothing is
    counted twice; a topic that was made anew is read from its beginning.

    Parameters
    ----------
    servers : str
        "host:9092", or several with commas between.
    topic : str
        Name of the topic.
    start : "first", "last" or mapping
        Where a pipeline without a checkpoint begins: at the first message that is there, after the
        last one, or at offsets by partition.
    group : str, optional
        Name of a consumer group that is told which offsets are safe with us, for tools that show
        how far we are. It is never read from.
    refresh : float
        Seconds between two looks for new partitions.
    patience : float, optional
        Seconds that brokers that are away are waited for; by default for ever.
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

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        start: str | Mapping[str, int] = "first",
        group: str | None = None,
        refresh: float = 30.0,
        patience: float | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(start, str) and start not in ("first", "last"):
            raise InputError(f"start is {start!r}; give 'first', 'last' or offsets by partition.")
        self.group = group
        self.refresh = refresh
        self._start = start
        self._link = Link(servers, topic, patience=patience, options=options)
        self._link.settings(**CONSUMER, group_id="")  # refuses options that are not the user's
        self._consumer: Consumer | None = None
        self._forget()

    def __repr__(self) -> str:
        return f"KafkaSource({self._link.servers!r}, {self._link.topic!r})"

    def _forget(self) -> None:
        """Be as if never opened."""
        self._identity: dict[str, str] = {}
        self._next: dict[int, int] = {}  # offsets by partition
        self._held: list[Any] = []  # messages that came with a new connection
        self._looked = 0.0
        self._is_idle = False  # whether nothing came since the last look
        self._missing = 0.0  # since when the brokers do not know the topic

    def identity(self) -> Mapping[str, str]:
        """Name and id of the topic and id of the cluster, as far as the brokers tell them."""
        if not self._identity:
            raise StreamError(f"{self!r} is not open; open it before you ask for its identity.")
        return self._identity

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Connect, check that the topic is still the one of the checkpoint, and begin to read."""
        self.close()
        self._forget()
        self._link.begin()
        self._consumer = self._link.consumer(group_id=self.group or "scstream")
        try:
            self._begin(self._consumer, resume, accept_gap)
        except BaseException:
            self.close()
            raise

    def _begin(self, consumer: Consumer, resume: Resume | None, accept_gap: bool) -> None:
        known = dict(resume.identity) if resume else {}
        partitions = self._survey(consumer, known, accept_gap=accept_gap)
        saved: dict[str, int] = dict(resume.positions) if resume else {}
        is_new = known and _differs(known, self._identity)
        gone = [partition for partition in saved if int(partition) not in partitions]
        if gone and not accept_gap:
            raise SourceChanged(
                f"{self._link} has no partition {gone[0]} any more, of which offset "
                f"{saved[gone[0]]} comes next: it was made anew. {_ACCEPT}"
            )
        if is_new or gone:
            saved = {}
        for partition in partitions:
            position = saved.get(str(partition))
            if position is None:
                self._next[partition] = self._first(consumer, partition, fresh=resume is None)
            else:
                self._next[partition] = self._checked(
                    consumer, partition, position, accept_gap=accept_gap
                )
        self._link.shaken.clear()
        self._looked = time.monotonic()
        self._cross_check(consumer)
        self._assign(consumer)

    def _survey(
        self, consumer: Consumer, known: Mapping[str, str], *, accept_gap: bool = False
    ) -> list[int]:
        """Find partitions and identity; raise if they are not those of the checkpoint."""
        try:
            seen = self._link.survey(consumer, was_there=bool(known))
        except NoTopic:
            if known and not accept_gap:
                raise SourceChanged(f"{self._link} is gone. {_ACCEPT}") from None
            raise StreamError(f"{self._link} does not exist; make it, or check its name.") from None
        # Who once told the id of the topic is waited for to tell it again.
        topic_id = self._link.topic_id() if seen.has_controller or "id" in known else ""
        told = {"topic": self._link.topic, "id": topic_id, "cluster": seen.cluster}
        self._identity = {name: value for name, value in told.items() if value}
        if (what := _differs(known, self._identity)) and not accept_gap:
            raise SourceChanged(
                f"{self._link} is not the one of the checkpoint: its {what} was {known[what]} and "
                f"is {self._identity[what]}. Bring the other one back, or read this one from its "
                "beginning with --accept-gap."
            )
        return sorted(seen.copies)

    def _first(self, consumer: Consumer, partition: int, *, fresh: bool) -> int:
        """Where to begin in a partition that no checkpoint knows."""
        low, high = self._link.ends(consumer, partition)
        if not fresh or self._start == "first":
            return low
        if isinstance(self._start, str):
            return high
        wanted = self._start.get(str(partition), low)
        return self._checked(consumer, partition, wanted, accept_gap=False)

    def _checked(
        self, consumer: Consumer, partition: int, position: int, *, accept_gap: bool
    ) -> int:
        """Return where to go on in a partition, the position itself unless that is not there."""
        low, high = self._link.ends_around(consumer, partition, position)
        if low <= position <= high:
            return position
        if accept_gap:
            return low if position < low else high
        where = f"{self._link}, partition {partition},"
        if position > high:
            raise SourceRegressed(
                f"{where} ends at offset {high}, before {position} which comes next: the brokers "
                f"lost messages that they had confirmed. {_ACCEPT}"
            )
        raise SourceGap(
            f"{where} begins at offset {low}, after {position} which comes next: the brokers did "
            f"not keep the messages between. {_ACCEPT}"
        )

    def _cross_check(self, consumer: Consumer) -> None:
        """Say so if the group is further than we are: somebody else may use its name."""
        if not self.group:
            return
        places = [Place(self._link.topic, partition) for partition in self._next]
        with contextlib.suppress(KafkaException):
            for place in consumer.committed(places, timeout=2.0):
                if place.offset > self._next[place.partition]:
                    _log.warning(
                        "%s, partition %d: the group %s has confirmed offsets up to %d, and we go "
                        "on at %d; does another pipeline use the same group?",
                        *(self._link, place.partition, self.group),
                        *(place.offset, self._next[place.partition]),
                    )

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next messages, at most so many; none while the brokers are away."""
        consumer = self._consumer
        if consumer is None:
            raise StreamError(f"{self!r} is not open; open it before you read.")
        until = time.monotonic() + timeout
        if not self._is_trusted(consumer, timeout):
            self._held += consumer.consume(1, 0.0)  # hears what the connections have to say
            self._link.closing.wait(min(0.1, max(0.0, until - time.monotonic())))
            return []
        messages = self._held or _taken(consumer, max_n, timeout)
        self._held = []
        if self._link.shaken.is_set():
            self._held = messages  # look first whether they come from the topic that we know
            return []
        self._held = messages[max_n:]
        return self._records(messages[:max_n])

    def _is_trusted(self, consumer: Consumer, timeout: float) -> bool:
        """Look at the topic now and then, and after a connection was lost; False if it is away."""
        shaken = self._link.shaken.is_set()
        if not shaken and time.monotonic() < self._looked + self.refresh:
            return True
        self._link.refuse_hopeless()
        self._link.shaken.clear()
        self._looked = time.monotonic()
        try:
            with self._link.in_haste():
                seen = self._link.look(consumer, timeout=max(0.1, min(timeout, 2.0)))
                self._missing = 0.0
                if shaken or self._is_idle:
                    self._check_again(consumer)
                self._is_idle = True
                self._take_up(consumer, set(seen.copies) - set(self._next))
        except NoTopic:
            self._miss()
            self._link.shaken.set()
            return False
        except KafkaException:
            if shaken:
                self._link.shaken.set()
            return not shaken
        return True

    def _check_again(self, consumer: Consumer) -> None:
        """Check what `open` checked, and go on from where we are.

        The brokers may have come back without what they had; and the client may have given up on
        a partition that they did not know for a moment.
        """
        self._survey(consumer, self._identity)
        for partition, position in self._next.items():
            self._checked(consumer, partition, position, accept_gap=False)
        self._held = []
        self._assign(consumer)

    def _assign(self, consumer: Consumer) -> None:
        consumer.assign([Place(self._link.topic, p, offset) for p, offset in self._next.items()])

    def _take_up(self, consumer: Consumer, partitions: set[int]) -> None:
        """Begin to read partitions that were added."""
        for partition in sorted(partitions):
            first = self._first(consumer, partition, fresh=False)
            consumer.incremental_assign([Place(self._link.topic, partition, first)])
            self._next[partition] = first

    def _miss(self) -> None:
        """Raise if brokers do not know the topic for so long that they will not learn of it."""
        now = time.monotonic()
        self._missing = self._missing or now
        if now - self._missing > GONE_SECONDS:
            raise SourceChanged(f"{self._link} is gone. {_ACCEPT}")

    def _records(self, messages: list[Any]) -> list[Record]:
        records = []
        for message in messages:
            if (error := message.error()) is not None:
                self._judge(error, message.partition())
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
        return records

    def _judge(self, error: KafkaError, partition: int) -> None:
        """Raise what an error in the place of a message means; most of them pass."""
        self._link.refuse_hopeless(error)
        if error.code() not in _OUT_OF_RANGE:
            self._link.shaken.set()
            return
        assert self._consumer is not None
        position = self._next[partition]
        self._checked(self._consumer, partition, position, accept_gap=False)
        raise SourceRegressed(
            f"{self._link}, partition {partition}, was cut before offset {position}, which comes "
            f"next, and written to again: the brokers lost messages that they had confirmed. "
            f"{_ACCEPT}"
        )

    def acknowledge(self, positions: Positions) -> None:
        """Tell the group, if there is one; brokers that are away are told next time."""
        consumer = self._consumer
        if not self.group or consumer is None or not positions:
            return
        places = [
            Place(self._link.topic, int(partition), at) for partition, at in positions.items()
        ]
        with contextlib.suppress(KafkaException, RuntimeError):
            consumer.commit(offsets=places, asynchronous=True)

    @property
    def done(self) -> bool:
        """False: there may always be more."""
        return False

    def lag(self) -> int | None:
        """Messages behind the last one read, as of the last answers of the brokers."""
        consumer, waiting = self._consumer, 0
        if consumer is None:
            return None
        for partition, position in list(self._next.items()):
            try:
                place = Place(self._link.topic, partition)
                _, high = consumer.get_watermark_offsets(place, cached=True)
            except (KafkaException, RuntimeError, TypeError):
                return None
            if high < 0:
                return None
            waiting += max(0, high - position)
        return waiting

    def close(self) -> None:
        """Disconnect."""
        self._link.closing.set()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def doctor(self) -> list[Finding]:
        """Say how the brokers keep the messages of the topic."""
        return findings(self._link, role="source")


def _differs(known: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Name what of an identity is another than it was; "" if nothing is."""
    shared = [name for name in known if name in found and known[name] != found[name]]
    return shared[0] if shared else ""


def _taken(consumer: Consumer, max_n: int, timeout: float) -> list[Any]:
    """Take what is here already, else wait for one message and take what came with it."""
    messages = consumer.consume(max_n, 0.0)
    if messages:
        return messages
    first = consumer.poll(timeout)
    if first is None:
        return []
    return [first, *(consumer.consume(max_n - 1, 0.0) if max_n > 1 else [])]
