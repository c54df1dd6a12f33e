"""Produce single messages to a Kafka topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer

from scstream.errors import StreamError
from scstream.stream.connectors.kafka.connection import Connection, Options

_SECONDS = 30.0


class KafkaSender:
    """Produces messages with their id as key; Kafka cannot detect one that is repeated later."""

    def __init__(
        self, servers: str, topic: str, *, options: Options | None = None, **others: Any
    ) -> None:
        connection = Connection(servers, topic, options=options)
        self._topic, self._servers = topic, servers
        self._producer = Producer(connection.settings(enable_idempotence=True, acks="all"))

    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Produce messages, and wait until the brokers have confirmed all."""
        failed: list[Any] = []

        def confirm(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)

        try:
            for id, content in messages:
                self._producer.produce(self._topic, content, key=id, on_delivery=confirm)
            n_left = self._producer.flush(_SECONDS)
        except KafkaException as error:
            failed, n_left = [error], 0
        if failed or n_left:
            why = failed[0] if failed else f"no answer in {_SECONDS:g} s"
            raise StreamError(f"Kafka at {self._servers} did not store the messages: {why}.")

    def close(self) -> None:
        """Do nothing: everything was confirmed."""
