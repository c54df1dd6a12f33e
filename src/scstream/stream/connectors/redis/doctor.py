"""What a Redis server is set to, and what that means for the entries of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from scstream.errors import StreamError
from scstream.stream.connectors.redis.link import Away, Link, ResponseError, said, state_of
from scstream.stream.findings import Finding

_SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "save")


def findings(url: str, stream: str, *, role: Literal["source", "sink"]) -> list[Finding]:
    """Look at the server and the stream."""
    link = Link(url, patience=0.0)
    try:
        return list(_look(link, stream, role))
    except (StreamError, Away) as error:
        return [Finding("warn", "server", str(error))]
    finally:
        link.close()


def _look(link: Link, stream: str, role: str) -> Iterator[Finding]:
    version = server_version(link)
    yield Finding("ok", "server", f"Redis {'.'.join(map(str, version))} at {link.url}")
    if version < (7, 0):
        yield Finding(
            "warn",
            "version",
            "before 7.0 a stream does not count its entries: entries that were trimmed before they "
            "were read are not noticed; use a newer server.",
        )
    try:
        settings = {name: _setting(link, name) for name in _SETTINGS}
    except ResponseError as error:
        yield Finding("note", "settings", f"cannot be read ({said(error)}); see redis.conf")
    else:
        yield _durability(settings, version)
        yield _eviction(settings)
    answer = link.ask_in_turn(("XINFO", "STREAM", stream))[0]
    try:
        state = state_of(answer)
    except ResponseError as error:
        yield Finding("warn", "stream", f"{stream!r}: {said(error)}")
        return
    if role == "source":
        yield Finding(
            "ok",
            "stream",
            f"{stream!r} holds {state.length} entries, and {state.n_removed} were removed; what "
            "writers trim (MAXLEN, MINID) before it was read stops the pipeline with a gap",
        )


def server_version(link: Link) -> tuple[int, ...]:
    """Version of the server."""
    answer: Any = link.ask("INFO", "server")
    text = answer["redis_version"] if isinstance(answer, Mapping) else _field(answer)
    return tuple(int(part) for part in str(text).split("."))


def _field(answer: bytes) -> str:
    lines = dict(line.split(":", 1) for line in answer.decode().splitlines() if ":" in line)
    return lines["redis_version"]


def _setting(link: Link, name: str) -> str:
    answer = link.ask("CONFIG", "GET", name)
    values = list(answer.values()) if isinstance(answer, Mapping) else answer[1::2]
    return values[0].decode() if isinstance(values[0], bytes) else str(values[0])


def _durability(settings: Mapping[str, str], version: tuple[int, ...]) -> Finding:
    """What a reply of the server means."""
    if settings["appendonly"] != "yes":
        saves = f"snapshots only (save {settings['save']!r})" if settings["save"] else "nothing"
        return Finding(
            "warn",
            "appendonly",
            f"no: the server writes {saves}; after kill -9 everything since the last snapshot is "
            "lost, also what it had confirmed. Set appendonly yes and appendfsync always.",
        )
    how = settings["appendfsync"]
    if how == "always":
        return Finding("ok", "appendfsync", "always: a confirmed entry is on the disk")
    waits = (
        " A sink waits for the disk at every checkpoint (WAITAOF)."
        if version >= (7, 2)
        else " The server is too old for a sink to wait for its disk (WAITAOF, 7.2)."
    )
    return Finding(
        "warn",
        "appendfsync",
        f"{how}: a confirmed entry outlives kill -9, but entries of the last "
        f"{'second' if how == 'everysec' else 'half minute or so'} are lost when power fails."
        f"{waits} Set appendfsync always.",
    )


def _eviction(settings: Mapping[str, str]) -> Finding:
    policy, limit = settings["maxmemory-policy"], settings["maxmemory"]
    if policy == "noeviction" or limit == "0":
        full = "a full server refuses new entries" if limit != "0" else "memory has no limit"
        return Finding("ok", "maxmemory-policy", f"{policy}: {full}, and none are dropped")
    return Finding(
        "warn",
        "maxmemory-policy",
        f"{policy}: a full server drops whole streams; set maxmemory-policy noeviction.",
    )
