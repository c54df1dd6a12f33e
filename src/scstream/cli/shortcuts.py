"""Sources and sinks in one word: `file:rows.csv`, `nats://host:4222/rows`, `stdin`."""

from __future__ import annotations

from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from scstream.cli.defaults import connector_options
from scstream.cli.settings import Given, Layer
from scstream.errors import InputError
from scstream.stream import connectors

_AFTER_COLON = {"file": "path", "http": "port"}  # the option that `kind:rest` gives
_SCHEMES = {"postgresql": "postgres", "rediss": "redis", "tls": "nats"}
_PARTS = {  # options that the path of an address gives, in their order; "" stays in the address
    "kafka": ("topic",),
    "nats": ("stream", "subject"),
    "postgres": ("",),
    "redis": ("", "stream"),
}


def read_shortcut(section: str, text: str) -> Layer:
    """Return the settings of a source or sink that a word stands for.

    An option of the connector may also follow as `?name=value`.

    Parameters
    ----------
    section : {"source", "sink", "dead"}
        What it is.
    text : str
        A kind, `kind:rest`, or an address.

    Returns
    -------
    dict
        Settings by section and name.

    Examples
    --------
    >>> from scstream.cli.shortcuts import read_shortcut
    >>> layer = read_shortcut("source", "file:rows.csv")
    >>> [(".".join(key), given.value) for key, given in layer.items()]
    [('source.kind', 'file'), ('source.path', 'rows.csv')]
    """
    kind, colon, rest = text.partition(":")
    kind = _SCHEMES.get(kind, kind)
    known = connectors.SOURCES if section == "source" else connectors.SINKS
    if kind not in known:
        raise InputError(
            f"--{section} begins with the kind of the {section}, one of {', '.join(known)}: "
            "file:rows.csv, nats://host:4222/stream."
        )
    options = {"kind": Given(kind, f"--{section}")}
    if rest.startswith("//") and kind in _PARTS:
        options |= _of_address(section, kind, urlsplit(text))
    elif colon:
        options |= _of_rest(section, kind, rest)
    return {(section, name): given for name, given in options.items()}


def _of_rest(section: str, kind: str, rest: str) -> dict[str, Given]:
    if kind not in _AFTER_COLON:
        raise InputError(f"--{section} {kind} takes nothing after a colon; use --set for options.")
    rest, _, query = rest.partition("?")
    taken = parse_qsl(query, keep_blank_values=True)
    return {
        _AFTER_COLON[kind]: Given(rest, f"--{section}", raw=True),
        **{name: Given(value, f"--{section}", raw=True) for name, value in taken},
    }


def _of_address(section: str, kind: str, address: SplitResult) -> dict[str, Given]:
    """Take options out of an address; what is left is the address of the server."""
    flag, accepted = f"--{section}", connector_options(section, kind)
    parts = [unquote(part) for part in address.path.split("/")[1:] if part]
    names = _PARTS[kind]
    if len(parts) > len(names):
        raise InputError(f"{flag} {kind}://... has more parts than {kind} knows: {parts[-1]!r}.")
    stays = "".join(f"/{part}" for part, name in zip(parts, names, strict=False) if not name)
    query = parse_qsl(address.query, keep_blank_values=True)
    left = urlencode([(name, value) for name, value in query if name not in accepted])
    found = {name: part for part, name in zip(parts, names, strict=False) if name}
    found |= {name: value for name, value in query if name in accepted}
    if kind == "kafka":
        found["servers"] = address.netloc
    else:
        found["url"] = urlunsplit((address.scheme, address.netloc, stays, left, ""))
    return {name: Given(value, flag, raw=True) for name, value in found.items()}
