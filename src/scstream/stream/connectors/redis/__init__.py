"""Redis Streams as a source, read by entry id, and as a sink whose ids are the keys of the rows."""

from scstream.stream.connectors.redis.sink import RedisSink
from scstream.stream.connectors.redis.source import RedisSource

__all__ = ["RedisSink", "RedisSource"]
