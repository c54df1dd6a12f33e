"""Qdrant as a sink."""

from scstream.errors import missing_extra

try:
    import qdrant_client as _qdrant_client  # noqa: F401
except ImportError as error:
    raise missing_extra("qdrant-client", "qdrant") from error

from scstream.stream.connectors.qdrant.sink import QdrantSink

__all__ = ["QdrantSink"]
