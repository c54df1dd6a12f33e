"""Labels as messages of one partition of a Kafka topic."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from scstream.errors import Fenced, InputError, SinkError, StreamError
from scstream.stream.connectors.kafka.doctor import findings
from scstream.stream.connectors.kafka.link import (
    ANSWER_SECONDS,
    Consumer,
    KafkaError,
    KafkaException,
    Link,
    NoTopic,
    Place,
    Producer,
)
from scstream.stream.findings import Finding
from scstream.stream.messages import writer
from scstream.stream.sink import Delivery, SinkPosition

_FENCED = {
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}
_POLL_SECONDS = 0.5


class KafkaSink:
    """One partition of a Kafka topic; the key of a message is "job/batch/index".

    `flush` waits until all copies that are in sync have everything. `open` reads what was written
    after the position of the checkpoint, and `write` leaves out what it found there. What that adds
    up to depends on the brokers:

    - `transactional` (brokers from 0.11): each flush is one transaction. Readers with
      `isolation.level=read_committed` see every label exactly once, and an instance that was
      replaced is fenced by the brokers: from the moment the new one opens it can write no more.
      The transaction is not one with the checkpoint; a crash between the two is what `open`
      mends.
    - `idempotent` (the default; brokers from 0.11): labels are there exactly once over crashes of
      the pipeline and of brokers, as long as one instance runs. An instance that was replaced
      without knowing may write some labels again, with the same keys and contents, until its next
      commit fails.
    - neither (older brokers): besides, a label may be there twice if the answer to a write is lost
      and the write gets through only after we have looked for it.

    Parameters
    ----------
    servers : str
        "host:9092", or several with commas between.
    topic : str
        Name of the topic; no other job should write to the same partition.
    format : {"json", "columns", "arrow"}
        "json" is a message per row, the others one per batch, whose index is 0.
    partition : int
        Which partition to write to.
    idempotent : bool
        Whether the brokers drop what the client sends again.
    transactional : bool
        Whether each flush is a transaction.
    writer_id : str, optional
        The `transactional.id`; by default made of topic and partition.
    accept_loss : bool
        Whether to go on if the brokers lost labels that they had confirmed.
    hold_bytes : int
        Most bytes that are kept here in case they must be sent again; beyond it, `write` waits for
        the brokers.
    patience : float, optional
        Seconds that brokers that are away are waited for; by default for ever.
    options : mapping, optional
        More settings of librdkafka.

    Examples
    --------
    >>> from scstream.stream.connectors.kafka import KafkaSink
    >>> KafkaSink("broker:9092", "labels", transactional=True)
    KafkaSink('broker:9092', 'labels')
    >>> KafkaSink("broker:9092", "labels", transactional=True, idempotent=False)
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: a transactional Kafka sink is idempotent too; leave out ...
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        format: str = "json",
        partition: int = 0,
        idempotent: bool = True,
        transactional: bool = False,
        writer_id: str | None = None,
        accept_loss: bool = False,
        hold_bytes: int = 64 << 20,
        patience: float | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if transactional and not idempotent:
            raise InputError(
                "a transactional Kafka sink is idempotent too; leave out idempotent=false, or "
                "transactional where the brokers know neither."
            )
        self.partition = partition
        self.idempotent, self.transactional = idempotent, transactional
        self.accept_loss = accept_loss
        self._writer_id = writer_id or f"scstream/{topic}/{partition}"
        self._hold_bytes = hold_bytes
        self._messages = writer(format)
        self._is_per_row = format == "json"
        self._link = Link(servers, topic, patience=patience, options=options)
        self._own_settings()  # refuses options that are not the user's
        self._producer: Producer | None = None
        self._forget()

    def __repr__(self) -> str:
        return f"KafkaSink({self._link.servers!r}, {self._link.topic!r})"

    def _forget(self) -> None:
        """Be as if never opened."""
        self._there: set[bytes] = set()  # keys that an earlier run wrote after its checkpoint
        self._unsure: dict[bytes, bytes] = {}  # sent, and may have to be sent again
        self._n_bytes = 0
        self._sure = 0  # offset before which everything is settled
        self._end = 0  # offset after the last message that was confirmed
        self._in_transaction = False
        self._newest: dict[str, int] = {}  # batch that was written last, by job

    def _own_settings(self) -> dict[str, Any]:
        own: dict[str, Any] = {"acks": "all", "enable_idempotence": self.idempotent}
        own["message_timeout_ms"] = 0  # brokers that are away are waited for
        if not self.idempotent:
            own["retries"] = 0  # a write without an answer is looked for first, see `_settle`
        if not self.transactional:
            return self._link.settings(**own)
        longest = int(self._link.options.get("transaction.timeout.ms", 300_000))
        own["transactional_id"] = self._writer_id
        own["message_timeout_ms"] = longest  # no longer than the transaction, or it is refused
        return {"transaction.timeout.ms": longest, **self._link.settings(**own)}

    def open(self, position: SinkPosition | None) -> None:
        """Fence others if the brokers can, and find what was written after `position`."""
        self.close()
        self._forget()
        self._link.begin()
        self._producer = Producer(self._own_settings())
        try:
            if self.transactional:
                self._ask("take over", lambda p: p.init_transactions(self._link.answer_seconds))
            self._find_end(position)
        except BaseException:
            self.close()
            raise

    def _find_end(self, position: SinkPosition | None) -> None:
        consumer = self._reader()
        try:
            self._await_partition(consumer, was_there=position is not None)
            if position is None:
                _, self._end = self._link.ends(consumer, self.partition)
            else:
                self._end = self._remembered(consumer, int(position[str(self.partition)]))
                self._there = self._keys_since(consumer, self._end)
        finally:
            consumer.close()
        self._sure = self._end

    def _await_partition(self, consumer: Consumer, *, was_there: bool) -> None:
        try:
            topic = self._link.survey(consumer, was_there=was_there)
        except NoTopic:
            raise SinkError(f"{self._link} does not exist; make it, or check its name.") from None
        if self.partition not in topic.copies:
            raise SinkError(f"{self._link} has no partition {self.partition}.")

    def _remembered(self, consumer: Consumer, position: int) -> int:
        """Return where to look for what is there: the position, unless that is gone."""
        low, high = self._link.ends_around(consumer, self.partition, position)
        if position > high and not self.accept_loss:
            raise SinkError(
                f"{self._link}, partition {self.partition}, ends at offset {high}, before "
                f"{position} up to which labels were confirmed: the brokers lost some. Set "
                "accept_loss to go on without them."
            )
        return min(max(position, low), high)

    def _reader(self) -> Consumer:
        return self._link.consumer(
            group_id="scstream", isolation_level="read_committed", enable_partition_eof=True
        )

    def _keys_since(self, consumer: Consumer, offset: int) -> set[bytes]:
        """Keys of the messages from an offset to the end of now."""
        consumer.assign([Place(self._link.topic, self.partition, offset)])
        keys: set[bytes] = set()
        while True:
            message = self._link.patiently("read its end", lambda: _next(consumer))
            if message is None:
                consumer.unassign()
                return keys
            self._end = max(self._end, message.offset() + 1)
            keys.add(message.key() or b"")

    def write(self, delivery: Delivery) -> None:
        """Send the messages of a delivery, but for those that are there."""
        if delivery.batch <= self._newest.get(delivery.job, -1):
            return
        self._newest[delivery.job] = delivery.batch
        values = self._messages(delivery)
        indices = delivery.columns["index"].tolist() if self._is_per_row else range(len(values))
        for index, value in zip(indices, values, strict=True):
            key = f"{delivery.job}/{delivery.batch}/{index}".encode()
            if key in self._there:
                self._there.discard(key)
                continue
            self._unsure[key] = value
            self._n_bytes += len(key) + len(value)
            self._send(key, value)
        if self._n_bytes > self._hold_bytes:
            self._settle()

    def _send(self, key: bytes, value: bytes) -> None:
        producer = self._opened()
        if self.transactional and not self._in_transaction:
            producer.begin_transaction()
            self._in_transaction = True
        while True:
            try:
                producer.produce(
                    self._link.topic,
                    value,
                    key,
                    partition=self.partition,
                    on_delivery=self._on_delivery,
                )
            except BufferError:  # the queue of the client is full
                self._serve(lambda: producer.poll(_POLL_SECONDS))
                self._stay_awake()
            except KafkaException:  # of no use any more; the reason comes by another way
                self._serve(lambda: producer.poll(_POLL_SECONDS))
                self._raise_fatal()
                raise
            else:
                self._serve(lambda: producer.poll(0))
                return

    def _on_delivery(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self._end = max(self._end, message.offset() + 1)
            if not self.transactional:
                self._unsure.pop(message.key(), None)

    def flush(self) -> SinkPosition:
        """Wait until the brokers have everything; return the offset after it."""
        self._settle()
        return {str(self.partition): self._end}

    def _settle(self) -> None:
        """Be sure that everything sent so far is there, once."""
        while self._unsure:
            self._drain()
            if self.transactional:
                self._commit()
            elif self._unsure:
                self._send_again()
        self._n_bytes = 0
        self._sure = self._end

    def _drain(self) -> None:
        """Wait until every message was confirmed or given up."""
        producer, began = self._opened(), time.monotonic()
        while self._serve(lambda: producer.flush(_POLL_SECONDS)):
            self._stay_awake(began)
        self._stay_awake()

    def _serve(self, act: Callable[[], int]) -> int:
        """Let the client work; it may raise that it never will again."""
        try:
            return act()
        except KafkaException as error:
            self._raise_fatal(error.args[0])
            raise

    def _stay_awake(self, began: float | None = None) -> None:
        """Raise if waiting makes no sense any more."""
        self._link.refuse_hopeless()
        self._raise_fatal()
        if self._link.closing.is_set():
            raise StreamError(f"{self._link} was closed while labels were on their way.")
        patience = self._link.patience
        if began is not None and patience is not None and time.monotonic() - began > patience:
            raise StreamError(
                f"{self._link} does not confirm labels for {patience:g} s; start it, or check "
                "that enough copies are in sync."
            )

    def _send_again(self) -> None:
        """Send what failed, unless it got through all the same and only the answer was lost."""
        consumer = self._reader()
        try:
            self._await_partition(consumer, was_there=True)
            for key in self._keys_since(consumer, self._sure):
                self._unsure.pop(key, None)
        finally:
            consumer.close()
        for key, value in list(self._unsure.items()):
            self._send(key, value)

    def _commit(self) -> None:
        """Commit the transaction; if it cannot be, undo it and send all of it again."""
        try:
            self._ask("commit", lambda p: p.commit_transaction(ANSWER_SECONDS))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._ask("abort", lambda p: p.abort_transaction(ANSWER_SECONDS))
            self._in_transaction = False
            for key, value in list(self._unsure.items()):
                self._send(key, value)
        else:
            self._in_transaction = False
            self._unsure.clear()

    def _ask(self, what: str, act: Callable[[Producer], object]) -> None:
        """Do a step of a transaction, again while the brokers are away."""
        producer = self._opened()

        def ask() -> None:
            try:
                act(producer)
            except KafkaException as error:
                self._raise_fatal(error.args[0])
                if error.args[0].txn_requires_abort():
                    raise _MustAbort(error.args[0]) from None
                raise

        try:
            self._link.patiently(f"{what} a transaction", ask)
        except _MustAbort as error:
            raise KafkaException(error.args[0]) from None

    def _raise_fatal(self, error: KafkaError | None = None) -> None:
        """Raise what a producer that is of no use any more has said."""
        for said in (error, self._link.fatal):
            if said is None or not said.fatal():
                continue
            if said.code() in _FENCED:
                raise Fenced(f"{self._link}: another instance writes there now ({said.str()}).")
            if said.code() == KafkaError._UNSUPPORTED_FEATURE:
                raise SinkError(
                    f"{self._link}: {said.str()}. Set idempotent to false for such old brokers."
                )
            raise SinkError(f"{self._link} takes no more labels: {said.str()}; start again.")

    def _opened(self) -> Producer:
        if self._producer is None:
            raise StreamError(f"{self!r} is not open; open it before you write.")
        return self._producer

    def close(self) -> None:
        """Disconnect; what was not flushed may be there or not."""
        self._link.closing.set()
        producer, self._producer = self._producer, None
        if producer is None:
            return
        producer.purge()
        if self._in_transaction:  # readers would wait until it times out
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(_POLL_SECONDS)
        producer.flush(0)

    def doctor(self) -> list[Finding]:
        """Say how the brokers keep the messages of the topic, and what this sink promises."""
        kind = _TRANSACTIONAL if self.transactional else _IDEMPOTENT
        mine = kind if self.idempotent else _PLAIN
        return [*findings(self._link, role="sink"), mine]


class _MustAbort(Exception):
    """The transaction can only be undone."""


def _next(consumer: Consumer) -> Any:
    """Return the next message, None at the end; raises KafkaException until there is either."""
    message = consumer.poll(ANSWER_SECONDS)
    if message is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    error = message.error()
    if error is None:
        return message
    if error.code() == KafkaError._PARTITION_EOF:
        return None
    raise KafkaException(error)


_TRANSACTIONAL = Finding(
    "ok", "delivery", "transactions: exactly once for readers of what is committed; fenced."
)
_IDEMPOTENT = Finding(
    "note",
    "delivery",
    "idempotent: once per label while one instance runs; one that was replaced may repeat some "
    "under the same keys. Set transactional to rule that out.",
)
_PLAIN = Finding(
    "warn",
    "delivery",
    "neither transactional nor idempotent: a label may be there twice, under the same key, when "
    "the answer to a write is lost.",
)
