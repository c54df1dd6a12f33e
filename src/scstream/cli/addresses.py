"""Sources and sinks as one argument: `file:rows.csv`, `nats://host:4222/rows`, `stdin`."""

from __future__ import annotations

from collections.abc import Container
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from scstream.cli.defaults import connector_options
from scstream.cli.settings import Layer, Setting
from scstream.errors import InputError
from scstream.stream import connectors

_OPTION_AFTER_COLON = {
    "delta": "path",
    "file": "path",
    "http": "port",
    "otlp": "port",
}  # the option set by `kind:remainder`
_SCHEMES = {"postgresql": "postgres", "rediss": "redis", "tls": "nats"}
_PATH_OPTIONS = {  # options set by the parts of an address's path; "" stays in the address
    "kafka": ("topic",),
    "nats": ("stream", "subject"),
    "postgres": ("",),
    "redis": ("", "stream"),
}


def read_address(section: str, text: str) -> Layer:
    """Return the settings of a source or sink given as a kind, `kind:remainder`, or a URL.

    Options of the connector may follow as `?name=value`.
    """
    flag = f"--{section.replace('_', '-')}"
    kind, colon, remainder = text.partition(":")
    kind = _SCHEMES.get(kind, kind)
    known = connectors.SOURCES if section == "source" else connectors.SINKS
    if kind not in known:
        raise InputError(
            f"{flag} must start with the kind of connector, one of {', '.join(known)}; "
            "for example file:rows.csv or nats://host:4222/stream."
        )
    options = {"kind": Setting(kind, flag)}
    if remainder.startswith("//") and kind in _PATH_OPTIONS:
        options |= _read_url(flag, kind, urlsplit(text), accepted=connector_options(section, kind))
    elif colon:
        options |= _read_rest(flag, kind, remainder)
    return {(section, name): setting for name, setting in options.items()}


def _read_rest(flag: str, kind: str, remainder: str) -> dict[str, Setting]:
    if kind not in _OPTION_AFTER_COLON:
        raise InputError(f"{flag} {kind} takes nothing after a colon; use --set for options.")
    remainder, _, query = remainder.partition("?")
    options = {
        _OPTION_AFTER_COLON[kind]: remainder,
        **dict(parse_qsl(query, keep_blank_values=True)),
    }
    return {name: Setting(value, flag, raw=True) for name, value in options.items()}


def _read_url(
    flag: str, kind: str, url: SplitResult, *, accepted: Container[str]
) -> dict[str, Setting]:
    """Take the options out of a URL; the rest is the address of the server."""
    parts = [unquote(part) for part in url.path.split("/")[1:] if part]
    path_options = _PATH_OPTIONS[kind]
    if len(parts) > len(path_options):
        raise InputError(
            f"{flag} {kind}://... has too many path parts for {kind}: remove {parts[-1]!r}."
        )
    path = "".join(f"/{part}" for part, name in zip(parts, path_options, strict=False) if not name)
    query = parse_qsl(url.query, keep_blank_values=True)
    left = urlencode([(name, value) for name, value in query if name not in accepted])
    options = {name: part for part, name in zip(parts, path_options, strict=False) if name}
    options |= {name: value for name, value in query if name in accepted}
    if kind == "kafka":
        options["servers"] = url.netloc
    else:
        options["url"] = urlunsplit((url.scheme, url.netloc, path, left, ""))
    return {name: Setting(value, flag, raw=True) for name, value in options.items()}
