"""NATS JetStream as a source, read by stream sequence, and as a sink that keeps a batch once."""

from scstream.stream.connectors.nats.sink import NatsSink
from scstream.stream.connectors.nats.source import NatsSource

__all__ = ["NatsSink", "NatsSource"]
