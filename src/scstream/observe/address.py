"""An address to post to: checked, and shown without its secrets."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from scstream.errors import InputError

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def check_address(
    url: str, *, token: str | None = None, section: str = "alerts", option: str = "webhook"
) -> SplitResult:
    """Return the parts of an address to post to; its secrets are never shown.

    `section` and `option` are the names of the setting in errors.
    """
    name = f"{section}.{option}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{name} is no address; give https://host/path.") from None
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise InputError(
            f"{name} must begin with https:// or http://, got "
            f"{shown_address(parts)}; give https://host/path."
        )
    if parts.username is not None or parts.password is not None:
        raise InputError(
            f"{name} at {shown_address(parts)} holds a user or a password; leave them out of the "
            f"address and give {section}.token."
        )
    if token is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise InputError(
            f"{section}.token would go to {shown_address(parts)} in the clear; use https://, or "
            "leave the token out."
        )
    if not all("!" <= sign <= "~" for sign in url + (token or "")):
        raise InputError(
            f"{name} and {section}.token must be plain ASCII without spaces; write other signs of "
            "the address as %XX."
        )
    return parts


def shown_address(parts: SplitResult) -> str:
    """Return an address without what may be secret in it: user, password, path and query."""
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}/***"


def post_json(
    parts: SplitResult,
    content: bytes,
    *,
    token: str | None,
    timeout: float,
    headers: Mapping[str, str] | None = None,
    max_bytes: int = 0,
) -> tuple[int, bytes]:
    """Post JSON to a checked address; return the status and at most `max_bytes` of the response.

    Certificates are verified, proxies and redirects are not used. Raises `OSError` or
    `HTTPException`, whose message may contain what is secret in the address.
    """
    sent = {"Content-Type": "application/json", **(headers or {})}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    with closing(_connect(parts, timeout)) as connection:
        connection.request("POST", target, content, sent)
        response = connection.getresponse()
        return response.status, response.read(max_bytes)


def _connect(parts: SplitResult, timeout: float) -> HTTPConnection:
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "http":
        return HTTPConnection(host, port, timeout=timeout)
    return HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
