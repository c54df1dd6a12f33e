"""Append single messages to a Redis stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scstream.errors import StreamError
from scstream.stream.connectors.redis.connection import Connection, Unavailable


class RedisSender:
    """Sends messages to the stream that a source reads; Redis cannot detect a repeated one."""

    def __init__(self, url: str, stream: str, *, field: str = "row", **others: Any) -> None:
        self._connection = Connection(url)
        self._stream, self._field = stream, field

    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Send messages, all or none."""
        commands = [("XADD", self._stream, "*", self._field, content) for _, content in messages]
        try:
            results = self._connection.execute_all(commands, transaction=True)
        except Unavailable as error:
            raise StreamError(f"{self._connection.server} is unavailable; try again.") from error
        for result in results:
            if isinstance(result, Exception):
                raise StreamError(f"{self._connection.server} rejects a message: {result}.")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
