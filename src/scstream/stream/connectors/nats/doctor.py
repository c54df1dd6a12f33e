"""What the settings of a NATS server and a stream mean for the messages in it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from scstream.errors import StreamError
from scstream.io.header import Plain
from scstream.stream.connectors.nats.connection import (
    NO_STREAM,
    Connection,
    JetStreamError,
    Server,
    StreamConfig,
    StreamInfo,
    Unavailable,
)
from scstream.stream.findings import Finding

_TIMEOUT = 5.0
_NANO = 10**9


def findings(server: Server, stream: str, *, role: Literal["source", "sink"]) -> list[Finding]:
    """Read the settings of a server and a stream and explain them."""
    connection = Connection(replace(server, retry_timeout=_TIMEOUT))
    try:
        version, info = connection.run(_describe(connection, stream))
    except (StreamError, Unavailable) as error:
        return [Finding("warn", "server", str(error))]
    except JetStreamError as error:
        reason = "does not exist; create it" if error.code == NO_STREAM else str(error)
        return [Finding("warn", "stream", f"{stream!r} on {server}: {reason}.")]
    finally:
        connection.close()
    config = info["config"]
    return [
        Finding("ok", "server", f"NATS {version} at {server.address}"),
        _sync(server.monitor, n_replicas=config.get("num_replicas", 1)),
        *_storage(config),
        *(_retention(config) if role == "source" else ()),
    ]


async def _describe(connection: Connection, stream: str) -> tuple[str, StreamInfo]:
    client = await connection.connect(lambda: None)
    try:
        info = await connection.stream(client, stream)
        version = client.connected_server_version
        return f"{version.major}.{version.minor}.{version.patch}", info
    finally:
        await connection.disconnect(client)


def _storage(config: StreamConfig) -> Iterator[Finding]:
    if config["storage"] == "memory":
        text = "memory: every message is lost when the server stops; use file storage."
        yield Finding("warn", "storage", text)
    else:
        yield Finding("ok", "storage", "file: messages survive a restart of the server")
    n_replicas = config.get("num_replicas", 1)
    if n_replicas == 1:
        yield Finding("note", "replicas", "1: a lost disk of the server loses the messages")
    else:
        yield Finding("ok", "replicas", f"{n_replicas} replicas")


def _retention(config: StreamConfig) -> Iterator[Finding]:
    yield Finding(
        "warn" if config["retention"] == "workqueue" else "ok",
        "retention",
        {
            "limits": "limits: messages stay until a limit of the stream removes them",
            "interest": "interest: messages stay until every consumer has acknowledged them",
            "workqueue": "work queue: cannot be read from a position; read a stream with limits "
            "that has this stream as its source",
        }[config["retention"]],
    )
    age, n_messages = config.get("max_age", 0), config.get("max_msgs", -1)
    n_bytes, per_subject = config.get("max_bytes", -1), config.get("max_msgs_per_subject", -1)
    values = (
        (age, f"max_age {age / _NANO:g} s"),
        (n_messages, f"max_msgs {n_messages} messages"),
        (n_bytes, f"max_bytes {n_bytes} bytes"),
        (per_subject, f"max_msgs_per_subject {per_subject} messages"),
    )
    limits = ", ".join(text for value, text in values if value > 0)
    if not limits:
        yield Finding("ok", "limits", "none: no message is removed before it was read")
    elif config.get("discard") == "new":
        yield Finding("ok", "limits", f"{limits}; a full stream rejects new messages")
    else:
        text = (
            f"{limits}: older messages are removed, read or not; a pipeline that is down for "
            "longer stops with SourceGap"
        )
        yield Finding("note", "limits", text)


def _sync(monitor: str | None, *, n_replicas: int) -> Finding:
    """Explain what happens to confirmed messages when the power fails."""
    settings = _settings(monitor) if monitor else None
    if settings is None:
        text = (
            "unknown; set `monitor` to the monitoring address of the server. Unless it is 'always' "
            "(2.10 or newer), a confirmed message survives kill -9, but is lost if the power fails "
            "within the interval, 2 minutes by default."
        )
        return Finding("note", "sync_interval", text)
    if settings.get("sync_always"):
        text = "always: a confirmed message is on the disk of the server"
        return Finding("ok", "sync_interval", text)
    seconds = settings.get("sync_interval", 120 * _NANO) / _NANO
    where = "most replicas" if n_replicas > 1 else "the server"
    text = (
        f"{seconds:g} s: a confirmed message survives kill -9, but messages of the last "
        f"{seconds:g} s are lost if the power fails on {where}. Set 'sync_interval: always' (2.10 "
        "or newer) in the section jetstream."
    )
    return Finding("note" if n_replicas > 1 else "warn", "sync_interval", text)


def _settings(monitor: str) -> Plain | None:
    """Return the settings of JetStream; None if the monitor does not answer."""
    try:
        with urllib.request.urlopen(f"{monitor.rstrip('/')}/jsz?config=true", timeout=2.0) as page:
            settings = json.loads(page.read(1 << 22)).get("config")
    except (OSError, ValueError):
        return None
    return settings if isinstance(settings, dict) else None
