"""Kafka: a source that reads by offset, and a sink that finds out what it has written."""

from scstream.errors import missing_extra

try:
    import confluent_kafka as _confluent_kafka  # noqa: F401
except ImportError as error:
    raise missing_extra("confluent-kafka", "kafka") from error

from scstream.stream.connectors.kafka.sink import KafkaSink
from scstream.stream.connectors.kafka.source import KafkaSource

__all__ = ["KafkaSink", "KafkaSource"]
