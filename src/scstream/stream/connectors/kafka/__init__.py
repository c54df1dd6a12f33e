"""Kafka: a source that reads by offset, and a sink that finds out what it has written."""

from scstream.stream.connectors.kafka.sink import KafkaSink
from scstream.stream.connectors.kafka.source import KafkaSource

__all__ = ["KafkaSink", "KafkaSource"]
