"""What a NATS server and a stream are set to, and what that means for the rows in it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from scstream.errors import StreamError
from scstream.stream.connectors.nats.link import NO_STREAM, Away, Link, Refused
from scstream.stream.findings import Finding

_PATIENCE = 5.0
_NANO = 10**9


def findings(
    url: str,
    stream: str,
    *,
    role: Literal["source", "sink"],
    monitor: str | None,
    **access: str | None,
) -> list[Finding]:
    """Look at the server and the stream."""
    link = Link(url, patience=_PATIENCE, **access)
    try:
        version, info = link.run(_look(link, stream))
    except (StreamError, Away) as error:
        return [Finding("warn", "server", str(error))]
    except Refused as refusal:
        missing = "does not exist; create it" if refusal.code == NO_STREAM else str(refusal)
        return [Finding("warn", "stream", f"{stream!r} on NATS at {link.url}: {missing}.")]
    finally:
        link.close()
    return [
        Finding("ok", "server", f"NATS {version} at {link.url}"),
        _sync(version, monitor, info["config"]),
        *_keeping(info["config"]),
        *(_retention(info["config"]) if role == "source" else ()),
    ]


async def _look(link: Link, stream: str) -> tuple[str, dict[str, Any]]:
    client = await link.connect(lambda: None)
    try:
        info = await link.stream(client, stream)
        version = client.connected_server_version
        return f"{version.major}.{version.minor}.{version.patch}", info
    finally:
        await link.leave(client)


def _keeping(config: Mapping[str, Any]) -> Iterator[Finding]:
    if config["storage"] == "memory":
        yield Finding(
            "warn",
            "storage",
            "memory: every message is lost when the server stops; use file storage.",
        )
    else:
        yield Finding("ok", "storage", "file: messages outlive the server")
    replicas = config.get("num_replicas", 1)
    word = "one copy: the disk of one server is all there is" if replicas == 1 else "copies"
    yield Finding("ok" if replicas > 1 else "note", "replicas", f"{replicas}: {word}")


def _retention(config: Mapping[str, Any]) -> Iterator[Finding]:
    yield Finding(
        "warn" if config["retention"] == "workqueue" else "ok",
        "retention",
        {
            "limits": "limits: messages stay until a limit of the stream removes them",
            "interest": "interest: messages stay until every consumer, ours included, has them",
            "workqueue": "work queue: cannot be read from a position; read a stream with limits "
            "that takes its messages as a source",
        }[config["retention"]],
    )
    limits = {
        "max_age": f"{config.get('max_age', 0) / _NANO:g} s",
        "max_msgs": f"{config.get('max_msgs', -1)} messages",
        "max_bytes": f"{config.get('max_bytes', -1)} bytes",
        "max_msgs_per_subject": f"{config.get('max_msgs_per_subject', -1)} messages",
    }
    set_to = [f"{name} {text}" for name, text in limits.items() if config.get(name, 0) > 0]
    if not set_to:
        yield Finding("ok", "limits", "none: nothing is removed before it was read")
    elif config.get("discard") == "new":
        yield Finding("ok", "limits", f"{', '.join(set_to)}; a full stream refuses new messages")
    else:
        yield Finding(
            "note",
            "limits",
            f"{', '.join(set_to)}: older messages are removed, read or not; a pipeline that is "
            "down for longer stops with a gap",
        )


def _sync(version: str, monitor: str | None, config: Mapping[str, Any]) -> Finding:
    """What a confirmation of the server means when power fails."""
    settings = _settings(monitor) if monitor else None
    several = config.get("num_replicas", 1) > 1
    if settings is None:
        return Finding(
            "note",
            "sync_interval",
            "not known; set `monitor` to the address of the monitor of the server. Unless it is "
            "'always' (2.10 or newer), a confirmed message outlives kill -9, but is lost when "
            "power fails within the interval, 2 minutes by default.",
        )
    if settings.get("sync_always"):
        return Finding(
            "ok", "sync_interval", "always: a confirmed message is on the disk of the server"
        )
    seconds = settings.get("sync_interval", 120 * _NANO) / _NANO
    return Finding(
        "note" if several else "warn",
        "sync_interval",
        f"{seconds:g} s: a confirmed message outlives kill -9, but messages of the last "
        f"{seconds:g} s are lost when power fails on {'most copies' if several else 'the server'}. "
        "Set 'sync_interval: always' (2.10 or newer) in the section jetstream.",
    )


def _settings(monitor: str) -> dict[str, Any] | None:
    """Settings of JetStream by the monitor; None if it does not answer."""
    try:
        with urllib.request.urlopen(f"{monitor.rstrip('/')}/jsz?config=true", timeout=2.0) as page:
            answer = json.loads(page.read(1 << 22))
    except (OSError, ValueError):
        return None
    settings = answer.get("config")
    return settings if isinstance(settings, dict) else None
