"""NATS JetStream: a source that reads by stream sequence, and a sink that writes rows once."""

from scstream.errors import missing_extra

try:
    import nats as _nats  # noqa: F401
except ImportError as error:
    raise missing_extra("nats-py", "nats") from error

from scstream.stream.connectors.nats.sink import NatsSink
from scstream.stream.connectors.nats.source import NatsSource

__all__ = ["NatsSink", "NatsSource"]
