"""PostgreSQL as a sink."""

from scstream.stream.connectors.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]
