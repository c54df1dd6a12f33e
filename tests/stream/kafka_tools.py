"""Topics of a real Kafka, and what the tests of its source and sink do with them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from confluent_kafka import Consumer, Producer

from scstream.stream.connectors.kafka import KafkaSink, KafkaSource
from scstream.stream.sink import Delivery
from scstream.stream.source import Record
from tests.kafka_server import KafkaCluster

_QUICK = {"fetch.wait.max.ms": "10"}  # by default half a second at the end of a partition


class Broker:
    """Clients of a cluster: what tests send, what they read, and sources and sinks."""

    def __init__(
        self,
        cluster: KafkaCluster,
        *,
        listener: str = "PLAINTEXT",
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.servers, self.options = cluster.servers_of(listener), {**_QUICK, **(options or {})}
        self.producer = Producer({**self._plain, "acks": "all"})

    @property
    def _plain(self) -> dict[str, str | int]:
        return {"bootstrap.servers": self.cluster.servers, "log_level": 0, **_QUICK}

    def source(self, topic: str, **options) -> KafkaSource:
        return KafkaSource(self.servers, topic, options=self.options, **options)

    def sink(self, topic: str, **options) -> KafkaSink:
        return KafkaSink(self.servers, topic, **{"options": self.options, **options})

    def topic(self, name: str, *, partitions: int = 4, **settings: object) -> str:
        return self.cluster.topic(name, partitions=partitions, **settings)

    def consumer(self, **options: object) -> Consumer:
        return Consumer({**self._plain, **{k.replace("_", "."): v for k, v in options.items()}})

    def send(self, topic: str, values: list[bytes], *, partition: int = 0) -> None:
        refused = []
        self.producer.list_topics(topic, timeout=30)  # the topic may have changed
        for value in values:
            self.producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda error, _: refused.append(error) if error else None,
            )
        assert self.producer.flush(240) == 0
        assert not refused, refused[0]

    def content(
        self, topic: str, *, partition: int = 0, isolation: str = "read_committed"
    ) -> list[tuple[bytes, bytes]]:
        """Keys and values of a partition, of what is committed."""
        return self.cluster.content(topic, partition=partition, isolation=isolation)


def gathered(
    source: KafkaSource, n: int, *, max_n: int = 1000, seconds: float = 240
) -> list[Record]:
    """Read until `n` messages have arrived, and a moment longer in case there are more."""
    records: list[Record] = []
    end = time.monotonic() + seconds
    while len(records) < n and time.monotonic() < end:
        found = source.read(max_n, 0.2)
        assert len(found) <= max_n
        records += found
    return records + source.read(max_n, 0.05)


def numbered(n: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + n)]


def delivery(batch: int, n_rows: int = 10, *, job: str = "demo") -> Delivery:
    columns = {
        "batch": np.full(n_rows, batch),
        "index": np.arange(n_rows),
        "cluster": np.arange(n_rows) % 3,
    }
    return Delivery(job, batch, columns)


def keys(batches: range, n_rows: int = 10, *, job: str = "demo") -> list[bytes]:
    return [f"{job}/{batch}/{index}".encode() for batch in batches for index in range(n_rows)]
