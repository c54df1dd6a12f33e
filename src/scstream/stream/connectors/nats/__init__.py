"""NATS JetStream: a source that reads by sequence, a sink that writes once, and a store."""

from scstream.errors import missing_extra

try:
    import nats as _nats  # noqa: F401
except ImportError as error:
    raise missing_extra("nats-py", "nats") from error

from scstream.stream.connectors.nats.sink import NatsSink
from scstream.stream.connectors.nats.source import NatsSource
from scstream.stream.connectors.nats.store import NatsStore

__all__ = ["NatsSink", "NatsSource", "NatsStore"]
