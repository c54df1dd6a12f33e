"""Kafka: a source that reads by offset, and a sink that finds out what it has written."""

from scstream.stream.connectors._kafka_sink import KafkaSink
from scstream.stream.connectors._kafka_source import KafkaSource

__all__ = ["KafkaSink", "KafkaSource"]
