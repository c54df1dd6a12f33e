"""Write labels as messages of one partition of a Kafka topic."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from scstream.errors import Fenced, SinkError, StreamError
from scstream.io.header import Json
from scstream.stream.connectors.kafka.connection import (
    REQUEST_SECONDS,
    Connection,
    NoTopic,
    Options,
)
from scstream.stream.connectors.kafka.doctor import findings
from scstream.stream.connectors.message_writer import MessageWriter
from scstream.stream.findings import Finding
from scstream.stream.sink import Delivery, SinkPosition

_FENCED = {
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}
_REFUSED = {  # messages that the brokers would refuse again
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
}
_POLL_SECONDS = 0.5


class KafkaSink:
    """Write to one partition of a Kafka topic; the key of a message is "job/batch/index".

    `flush` waits until all in-sync replicas have everything. `open` reads the keys that were
    written after the position of the checkpoint, and `write` skips those. The brokers drop messages
    that the client sends twice, so every label is written exactly once, also after crashes of the
    pipeline and of brokers.

    By default an instance that was replaced without noticing may write some labels again, with the
    same keys and contents, until its next commit fails. `transactional` prevents that: each flush
    is one transaction, and as soon as a new instance opens the sink, the brokers fence the old one.
    Readers with `isolation.level=read_committed` see every label exactly once. The transaction does
    not include the checkpoint; `open` handles a crash between the two.

    Parameters
    ----------
    servers : str
        "host:9092", or several separated by commas.
    topic : str
        Name of the topic; no other job should write to the same partition.
    format : {"json", "columns", "arrow"}
        "json" writes a message per row, the others one per batch, whose index is 0.
    partition : int
        Partition to write to.
    transactional : bool
        Whether each flush is a transaction.
    writer_id : str, optional
        The `transactional.id`; by default it is made of topic and partition.
    accept_loss : bool
        Whether to continue if the brokers lost labels that they had confirmed.
    buffer_bytes : int
        Maximum size of unconfirmed messages; above it, `write` waits for the brokers.
    retry_timeout : float, optional
        Seconds to wait for unavailable brokers before stopping; by default there is no limit.
    options : mapping, optional
        More settings of librdkafka.

    Examples
    --------
    >>> from scstream.stream.connectors.kafka import KafkaSink
    >>> KafkaSink("broker:9092", "labels", transactional=True)
    KafkaSink('broker:9092', 'labels')
    >>> KafkaSink("broker:9092", "labels", options={"acks": 1})
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: the option 'acks' of Kafka is set by scstream, ...
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        format: str = "json",
        partition: int = 0,
        transactional: bool = False,
        writer_id: str | None = None,
        accept_loss: bool = False,
        buffer_bytes: int = 64 << 20,
        retry_timeout: float | None = None,
        options: Options | None = None,
    ) -> None:
        self.partition = partition
        self.transactional = transactional
        self.accept_loss = accept_loss
        self._writer_id = writer_id or f"scstream/{topic}/{partition}"
        self._buffer_bytes = buffer_bytes
        self._writer = MessageWriter(format)
        self._connection = Connection(servers, topic, retry_timeout=retry_timeout, options=options)
        self._settings()  # rejects options that scstream sets
        self._producer: Producer | None = None
        self._reset()

    def __repr__(self) -> str:
        return f"KafkaSink({self._connection.servers!r}, {self._connection.topic!r})"

    def _reset(self) -> None:
        self._existing: set[bytes] = set()  # keys that an earlier run wrote after its checkpoint
        self._unconfirmed: dict[bytes, bytes] = {}  # may have to be sent again
        self._n_bytes = 0
        self._confirmed_until = 0  # offset before which everything is confirmed
        self._end = 0  # offset after the last confirmed message
        self._in_transaction = False
        self._refused: KafkaError | None = None  # why the brokers refuse a message
        self._last_batch: dict[str, int] = {}  # by job

    def _settings(self) -> Json:
        own: dict[str, str | int] = {"acks": "all", "enable_idempotence": True}
        own["message_timeout_ms"] = 0  # no limit: the sink waits for the brokers
        if not self.transactional:
            return self._connection.settings(**own)
        longest = int(self._connection.options.get("transaction.timeout.ms", 300_000))
        own["transactional_id"] = self._writer_id
        own["message_timeout_ms"] = longest  # librdkafka rejects more than the transaction has
        return {"transaction.timeout.ms": longest, **self._connection.settings(**own)}

    def open(self, position: SinkPosition | None) -> None:
        """Fence other instances if transactional, and find what was written after `position`."""
        self.close()
        self._reset()
        self._connection.reset()
        self._producer = Producer(self._settings())
        try:
            if self.transactional:
                timeout = self._connection.request_seconds
                self._transact("start", lambda producer: producer.init_transactions(timeout))
            self._find_end(position)
        except BaseException:
            self.close()
            raise

    def _find_end(self, position: SinkPosition | None) -> None:
        consumer = self._reader()
        try:
            self._await_partition(consumer, existed=position is not None)
            if position is None:
                _, self._end = self._connection.watermarks(consumer, self.partition)
            else:
                self._end = self._confirmed_end(consumer, int(position[str(self.partition)]))
                self._existing = self._keys_since(consumer, self._end)
        finally:
            consumer.close()
        self._confirmed_until = self._end

    def _await_partition(self, consumer: Consumer, *, existed: bool) -> None:
        try:
            topic = self._connection.wait_for_topic(consumer, existed=existed)
        except NoTopic:
            raise SinkError(
                f"{self._connection} does not exist; create it, or check its name."
            ) from None
        if self.partition not in topic.replicas:
            raise SinkError(f"{self._connection} has no partition {self.partition}.")

    def _confirmed_end(self, consumer: Consumer, offset: int) -> int:
        """Return the offset of the checkpoint, or the nearest one that exists."""
        low, high = self._connection.watermarks_around(consumer, self.partition, offset)
        if offset > high and not self.accept_loss:
            raise SinkError(
                f"{self._connection}, partition {self.partition}, ends at offset {high}, before "
                f"{offset} up to which labels were confirmed: the brokers lost labels. Set "
                "accept_loss to continue without them."
            )
        return min(max(offset, low), high)

    def _reader(self) -> Consumer:
        return self._connection.consumer(
            group_id="scstream", isolation_level="read_committed", enable_partition_eof=True
        )

    def _keys_since(self, consumer: Consumer, offset: int) -> set[bytes]:
        """Return the keys of the messages from an offset to the current end."""
        consumer.assign([TopicPartition(self._connection.topic, self.partition, offset)])
        keys: set[bytes] = set()
        while True:
            message = self._connection.retry("read its end", lambda: _next_message(consumer))
            if message is None:
                consumer.unassign()
                return keys
            self._end = max(self._end, message.offset() + 1)
            keys.add(message.key() or b"")

    def write(self, delivery: Delivery) -> None:
        """Send the messages of a delivery, except for those that exist already."""
        if delivery.batch <= self._last_batch.get(delivery.job, -1):
            return
        self._last_batch[delivery.job] = delivery.batch
        for index, content in self._writer.messages(delivery):
            key = f"{delivery.job}/{delivery.batch}/{index}".encode()
            if key in self._existing:
                self._existing.discard(key)
                continue
            self._unconfirmed[key] = content
            self._n_bytes += len(key) + len(content)
            self._send(key, content)
        if self._n_bytes > self._buffer_bytes:
            self._confirm_all()

    def _send(self, key: bytes, content: bytes) -> None:
        producer = self._open_producer()
        if self.transactional and not self._in_transaction:
            producer.begin_transaction()
            self._in_transaction = True
        while True:
            try:
                producer.produce(
                    self._connection.topic,
                    content,
                    key,
                    partition=self.partition,
                    on_delivery=self._on_delivery,
                )
            except BufferError:  # the queue of the client is full
                self._poll(lambda: producer.poll(_POLL_SECONDS))
                self._check_producer()
            except KafkaException as error:
                self._raise_refused(error.args[0])
                self._poll(lambda: producer.poll(_POLL_SECONDS))
                self._raise_fatal()  # the producer has failed; a callback has the reason
                raise
            else:
                self._poll(lambda: producer.poll(0))
                return

    def _send_unconfirmed(self) -> None:
        for key, content in list(self._unconfirmed.items()):
            self._send(key, content)

    def _on_delivery(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self._end = max(self._end, message.offset() + 1)
            self._connection.is_available = True
            if not self.transactional:
                self._unconfirmed.pop(message.key(), None)
        elif error.code() in _REFUSED:
            self._refused = error

    def flush(self) -> SinkPosition:
        """Wait until the brokers have everything; return the offset after it."""
        self._confirm_all()
        return {str(self.partition): self._end}

    def _confirm_all(self) -> None:
        """Make sure that everything sent so far is in the topic once."""
        while self._unconfirmed:
            self._drain()
            if self.transactional:
                self._commit()
            elif self._unconfirmed:
                self._send_again()
        self._n_bytes = 0
        self._confirmed_until = self._end

    def _drain(self) -> None:
        """Wait until every message was confirmed or has failed."""
        producer, began = self._open_producer(), time.monotonic()
        while self._poll(lambda: producer.flush(_POLL_SECONDS)):
            self._check_producer(began)
        self._check_producer()

    def _poll(self, act: Callable[[], int]) -> int:
        """Let the client work, and raise its fatal errors."""
        try:
            return act()
        except KafkaException as error:
            self._raise_fatal(error.args[0])
            raise
        except SystemError as error:  # some clients raise a fatal error while they call back
            if isinstance(error.__cause__, KafkaException):
                self._raise_fatal(error.__cause__.args[0])
            raise

    def _check_producer(self, began: float | None = None) -> None:
        """Raise if there is no use in waiting longer."""
        self._connection.raise_permanent()
        self._raise_fatal()
        self._raise_refused(self._refused)
        if self._connection.closing.is_set():
            raise StreamError(f"{self._connection} was closed before labels were confirmed.")
        timeout = self._connection.retry_timeout
        if began is not None and timeout is not None and time.monotonic() - began > timeout:
            raise StreamError(
                f"{self._connection} has not confirmed labels for {timeout:g} s; start the "
                "brokers, or check that enough replicas are in sync."
            )

    def _send_again(self) -> None:
        """Send what failed, unless the write succeeded and only its answer was lost."""
        consumer = self._reader()
        try:
            self._await_partition(consumer, existed=True)
            for key in self._keys_since(consumer, self._confirmed_until):
                self._unconfirmed.pop(key, None)
        finally:
            consumer.close()
        self._send_unconfirmed()

    def _commit(self) -> None:
        """Commit the transaction; if that is impossible, abort it and send everything again."""
        try:
            self._transact("commit", lambda p: p.commit_transaction(REQUEST_SECONDS))
        except _MustAbort:
            self._transact("abort", lambda p: p.abort_transaction(REQUEST_SECONDS))
            self._in_transaction = False
            self._send_unconfirmed()
        else:
            self._in_transaction = False
            self._unconfirmed.clear()

    def _transact(self, what: str, act: Callable[[Producer], object]) -> None:
        """Run a step of a transaction; repeat it while the brokers are unavailable."""
        producer = self._open_producer()

        def request() -> None:
            try:
                act(producer)
            except KafkaException as error:
                self._poll(lambda: producer.poll(0))  # runs the callbacks of the client
                self._raise_fatal(error.args[0])
                if error.args[0].txn_requires_abort():
                    raise _MustAbort(error.args[0].str()) from None
                raise

        self._connection.retry(f"{what} a transaction", request)

    def _raise_fatal(self, error: KafkaError | None = None) -> None:
        """Raise the error that ended the producer, if there is one."""
        for found in (error, self._connection.fatal):
            if found is None or not found.fatal():
                continue
            where, text = self._connection, found.str()
            if found.code() in _FENCED:
                raise Fenced(f"{where}: another instance writes there now ({text}).")
            raise SinkError(f"{where}: the producer has failed: {text}; start again.")

    def _raise_refused(self, error: KafkaError | None) -> None:
        """Raise if the brokers refuse a message and would refuse it again."""
        if error is not None and error.code() in _REFUSED:
            raise SinkError(
                f"{self._connection} refuses a message: {error.str()}; raise max.message.bytes of "
                "the topic and the option 'message.max.bytes', or make batches smaller."
            )

    def _open_producer(self) -> Producer:
        if self._producer is None:
            raise StreamError(f"{self!r} is not open; call `open` first.")
        return self._producer

    @property
    def connected(self) -> bool | None:
        """Whether the brokers answered when they were used last; None if this is not open."""
        return None if self._producer is None else self._connection.is_available

    def close(self) -> None:
        """Disconnect; messages that were not flushed may or may not be written."""
        self._connection.close()
        producer, self._producer = self._producer, None
        if producer is None:
            return
        # A producer that was fenced raises its error once more, some clients as SystemError.
        with contextlib.suppress(KafkaException, SystemError):
            producer.purge()
            if self._in_transaction:  # otherwise readers wait until it times out
                producer.abort_transaction(_POLL_SECONDS)
            producer.flush(0)

    def doctor(self) -> list[Finding]:
        """Explain how the brokers store the messages, and what this sink guarantees."""
        found = findings(self._connection, role="sink")
        if self.transactional:
            return [*found, Finding("ok", "delivery", _TRANSACTIONAL)]
        return [*found, Finding("note", "delivery", _IDEMPOTENT)]


class _MustAbort(Exception):
    """The transaction can only be aborted."""


def _next_message(consumer: Consumer) -> Any:
    """Return the next message, None at the end; raises KafkaException if neither is known."""
    message = consumer.poll(REQUEST_SECONDS)
    if message is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    error = message.error()
    if error is None:
        return message
    if error.code() == KafkaError._PARTITION_EOF:
        return None
    raise KafkaException(error)


_TRANSACTIONAL = "transactions: exactly once for readers of committed messages; fenced."
_IDEMPOTENT = (
    "idempotent: each label once while one instance runs; an instance that was replaced may repeat "
    "some with the same keys. Set transactional to prevent that."
)
