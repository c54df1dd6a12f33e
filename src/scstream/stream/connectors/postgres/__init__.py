"""PostgreSQL as a sink."""

from scstream.errors import missing_extra

try:
    import psycopg as _psycopg  # noqa: F401
except ImportError as error:
    raise missing_extra("psycopg", "postgres") from error

from scstream.stream.connectors.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]
