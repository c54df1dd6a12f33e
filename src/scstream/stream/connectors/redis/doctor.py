"""What the settings of a Redis server mean for the entries of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from redis.exceptions import ResponseError

from scstream.errors import StreamError
from scstream.stream.connectors.redis.connection import (
    Connection,
    Unavailable,
    error_text,
    parse_state,
)
from scstream.stream.findings import Finding

_SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "save")


def findings(url: str, stream: str, *, role: Literal["source", "sink"]) -> list[Finding]:
    """Read the settings of the server and explain them."""
    connection = Connection(url, retry_timeout=0.0)
    try:
        return list(_findings(connection, stream, role))
    except (StreamError, Unavailable) as error:
        return [Finding("warn", "server", str(error))]
    finally:
        connection.close()


def _findings(connection: Connection, stream: str, role: str) -> Iterator[Finding]:
    version = server_version(connection)
    name, _, address = connection.server.partition(" ")
    yield Finding("ok", "server", f"{name} {'.'.join(map(str, version))} {address}")
    if version < (7, 0):
        text = (
            "before 7.0 a stream does not count its entries: entries that were trimmed before they "
            "were read go unnoticed; use a newer server."
        )
        yield Finding("warn", "version", text)
    try:
        settings = {name: _setting(connection, name) for name in _SETTINGS}
    except ResponseError as error:
        yield Finding("note", "settings", f"cannot be read ({error_text(error)}); see redis.conf")
    else:
        yield _durability(settings, version)
        yield _eviction(settings)
    answer = connection.execute_all([("XINFO", "STREAM", stream)])[0]
    try:
        state = parse_state(answer)
    except ResponseError as error:
        yield Finding("warn", "stream", f"{stream!r}: {error_text(error)}")
        return
    if role == "source":
        text = (
            f"{stream!r} has {state.length} entries, and {state.n_removed} were removed; if "
            "writers trim entries (MAXLEN, MINID) before they are read, the pipeline stops with "
            "SourceGap"
        )
        yield Finding("ok", "stream", text)


def server_version(connection: Connection) -> tuple[int, ...]:
    """Return the version of the server."""
    answer: Any = connection.execute("INFO", "server")
    if not isinstance(answer, Mapping):
        answer = dict(line.split(":", 1) for line in answer.decode().splitlines() if ":" in line)
    return tuple(int(part) for part in str(answer["redis_version"]).split("."))


def _setting(connection: Connection, name: str) -> str:
    answer = connection.execute("CONFIG", "GET", name)
    values = list(answer.values()) if isinstance(answer, Mapping) else answer[1::2]
    return values[0].decode() if isinstance(values[0], bytes) else str(values[0])


def _durability(settings: Mapping[str, str], version: tuple[int, ...]) -> Finding:
    """Explain what happens to confirmed entries after a crash."""
    if settings["appendonly"] != "yes":
        saves = f"snapshots only (save {settings['save']!r})" if settings["save"] else "nothing"
        text = (
            f"no: the server writes {saves}; after kill -9 all entries since the last snapshot are "
            "lost, also confirmed ones. Set appendonly yes and appendfsync always."
        )
        return Finding("warn", "appendonly", text)
    policy = settings["appendfsync"]
    if policy == "always":
        return Finding("ok", "appendfsync", "always: a confirmed entry is on disk")
    waits = (
        "A sink waits for the disk at every checkpoint (WAITAOF)."
        if version >= (7, 2)
        else "The server is too old for a sink to wait for its disk (WAITAOF, 7.2)."
    )
    text = (
        f"{policy}: a confirmed entry survives kill -9, but entries of the last "
        f"{'second' if policy == 'everysec' else '30 seconds or so'} are lost if the power fails. "
        f"{waits} Set appendfsync always."
    )
    return Finding("warn", "appendfsync", text)


def _eviction(settings: Mapping[str, str]) -> Finding:
    policy, limit = settings["maxmemory-policy"], settings["maxmemory"]
    if policy == "noeviction" or limit == "0":
        full = "a full server rejects new entries" if limit != "0" else "memory has no limit"
        return Finding("ok", "maxmemory-policy", f"{policy}: {full}, and drops none")
    text = f"{policy}: a full server drops whole streams; set maxmemory-policy noeviction."
    return Finding("warn", "maxmemory-policy", text)
