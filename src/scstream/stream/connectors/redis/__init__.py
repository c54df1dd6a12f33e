"""Redis Streams: a source that reads by entry id, and a sink that derives ids from rows."""

from scstream.errors import missing_extra

try:
    import redis as _redis  # noqa: F401
except ImportError as error:
    raise missing_extra("redis", "redis") from error

from scstream.stream.connectors.redis.sink import RedisSink
from scstream.stream.connectors.redis.source import RedisSource

__all__ = ["RedisSink", "RedisSource"]
