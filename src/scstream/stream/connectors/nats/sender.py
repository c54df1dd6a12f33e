"""Publish single messages to a NATS stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import nats
from nats.errors import Error

from scstream.errors import InputError, StreamError
from scstream.stream.connectors.nats.connection import Server

_SECONDS = 30.0


class NatsSender:
    """Publishes with a message id: within its duplicate window the server stores a message once."""

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        subject: str | None = None,
        credentials: str | None = None,
        domain: str | None = None,
        **others: Any,
    ) -> None:
        if subject is None or set("*>") & set(subject):
            raise InputError(
                f"there is no single subject to publish on in the stream {stream!r}; give one, as "
                "in --to nats://host:4222/stream/subject."
            )
        self._server = Server(url, credentials, domain)
        self._stream, self._subject = stream, subject

    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Publish messages, and wait until all are stored."""
        try:
            asyncio.run(asyncio.wait_for(self._publish(messages), _SECONDS))
        except (Error, OSError, TimeoutError) as error:
            raise StreamError(f"{self._server} did not store the messages: {error!r}.") from error

    def close(self) -> None:
        """Do nothing: each call has a connection of its own."""

    async def _publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        client = await nats.connect(
            self._server.url.split(","),
            user_credentials=self._server.credentials,
            allow_reconnect=False,
        )
        try:
            stream = client.jetstream(domain=self._server.domain)
            for id, content in messages:
                headers = {"Nats-Msg-Id": id}
                await stream.publish(self._subject, content, stream=self._stream, headers=headers)
        finally:
            await client.close()
