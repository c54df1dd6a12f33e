"""The outermost layer of the service: checks each request before a route sees it.

It checks the Host and Origin headers and the token, and bounds the memory that requests can take.
Slow clients and request rates are limited by the proxy in front, see deploy/nginx.
"""

from __future__ import annotations

import asyncio
import hmac
import time
import traceback
from collections.abc import Callable, Mapping, Sequence

from scstream.errors import ScStreamError, missing_extra
from scstream.serve.api_errors import ApiError, Headers, api_error_from
from scstream.serve.settings import ServiceSettings
from scstream.stream.http_server import BODY_COMPLETE, discard_body

try:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise missing_extra("starlette", "serve") from error

OPEN = frozenset({"/", "/docs", "/docs.css", "/healthz", "/readyz"})  # and all below /page/
HEALTH = frozenset({"/healthz", "/readyz"})
STREAMS = frozenset({"/live"})  # `Live` counts its own clients
NO_SNIFFING = (b"x-content-type-options", b"nosniff")
PAGE: Headers = (
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)
CLIENT_LEFT = 499  # logged if a client closed the connection before it was answered
DEFECT = "the service has a defect and could not answer; see its log."
_CLOSE = (b"connection", b"close")
_PIECE = 2**16  # bytes of a response that are sent at once


class ClientLeft(Exception):
    """The client closed the connection before its body was complete."""


class Limits:
    """ASGI middleware that checks requests and turns every error into one kind of response.

    `direct` maps paths to applications for POST requests that need no routing. `on_request` gets
    the `RequestContext` of every finished request, `on_defect` the traceback of a bug.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServiceSettings,
        *,
        direct: Mapping[str, ASGIApp] | None = None,
        draining: Callable[[], bool] = lambda: False,
        on_request: Callable[[RequestContext], None] = lambda context: None,
        on_defect: Callable[[str], None] = lambda trace: None,
    ) -> None:
        self.app = app
        self.settings = settings
        self.draining = draining
        self.body_bytes = 0  # of all bodies in memory
        self._direct = direct or {}
        self._on_request = on_request
        self._on_defect = on_defect
        self._readers = _encoded(settings.token, settings.write_token) if settings.token else None
        self._writers = _encoded(settings.write_token)
        self._hosts = _allowed_hosts(settings)
        self._n_requests = 0  # under way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        context = RequestContext(self, scope, receive, send)
        try:
            await self._admit(context)(scope, context.receive, context.send)
        except ApiError as error:
            await context.reject(error)
        except ClientLeft:
            context.status = context.status or CLIENT_LEFT
        except ScStreamError as error:
            await context.reject(api_error_from(error))
        except MemoryError:
            await context.reject(ApiError("Busy", "memory is short; send fewer rows, or later."))
        except Exception:
            self._on_defect(traceback.format_exc())
            await context.reject(ApiError("Defect", DEFECT))
        finally:
            self.body_bytes -= context.body_bytes
            self._n_requests -= context.is_counted
            self._on_request(context)

    def _admit(self, context: RequestContext) -> ASGIApp:
        """Return the application that answers an allowed request; raises `ApiError`."""
        scope, headers = context.scope, context.headers
        path: str = scope["path"]
        if path not in HEALTH:  # probes come by the address of a pod, and learn nothing
            self._check_host(headers.get(b"host"), scope)
        self._check_origin(headers, scope)
        authorization = headers.get(b"authorization", b"")
        if is_edit(scope["method"], path):
            if not self._writers:
                detail = "this service takes no edits; start it with --write-token-file."
                raise ApiError("NotAllowed", detail)
            _check_token(authorization, self._writers, "write token")
        elif self._readers and not (path in OPEN or path.startswith("/page/")):
            _check_token(authorization, self._readers, "token")
        context.check_length()
        if path not in HEALTH and path not in STREAMS:
            self._count(context)
        direct = self._direct.get(path) if scope["method"] == "POST" else None
        return direct or self.app

    def _count(self, context: RequestContext) -> None:
        max_n = self.settings.requests
        if self._n_requests >= max_n:
            raise ApiError("Busy", f"{max_n} requests are under way already; try again later.")
        context.is_counted = True
        self._n_requests += 1

    def _check_host(self, host: bytes | None, scope: Scope) -> None:
        """Reject a Host header that is not allowed (protects against DNS rebinding)."""
        if self._hosts is None or (host is None and scope.get("http_version") == "1.0"):
            return
        if _without_port((host or b"").lower()) not in self._hosts:
            raise ApiError(
                "WrongHost",
                "the Host header is not a name of this service; use its own address, or start it "
                "with --allow-host and that name.",
            )

    def _check_origin(self, headers: Mapping[bytes, bytes], scope: Scope) -> None:
        """Reject requests that pages of other sites send (protects against cross-site requests)."""
        origin = headers.get(b"origin")
        if origin is None or scope["method"] in ("GET", "HEAD"):
            return
        if origin.partition(b"://")[2].lower() != headers.get(b"host", b"").lower():
            raise ApiError("WrongOrigin", "pages of other sites may not send requests here.")


def is_edit(method: str, path: str) -> bool:
    """Return True for a request that edits clusters."""
    return method == "POST" and (path in ("/clusters", "/undo") or path.startswith("/clusters/"))


def _encoded(*tokens: str | None) -> list[bytes]:
    return [token.encode() for token in tokens if token is not None]


def _check_token(authorization: bytes, tokens: Sequence[bytes], what: str) -> None:
    scheme, _, given = authorization.partition(b" ")
    matches = [hmac.compare_digest(given.strip(), token) for token in tokens]
    if scheme.lower() == b"bearer" and any(matches):
        return
    raise ApiError(
        "WrongToken",
        f"the {what} is missing or wrong; send it in the header 'Authorization: Bearer ...'.",
        headers=((b"www-authenticate", b'Bearer realm="scstream"'),),
    )


class RequestContext:
    """One request: its headers, the size of its body, and what the log says about it."""

    __slots__ = (
        "_has_more_body",
        "_limits",
        "_receive",
        "_send",
        "body_bytes",
        "headers",
        "is_counted",
        "n_novel",
        "n_rows",
        "scope",
        "started",
        "status",
    )

    def __init__(self, limits: Limits, scope: Scope, receive: Receive, send: Send) -> None:
        self._limits = limits
        self._receive = receive
        self._send = send
        self._has_more_body = False
        self.started = time.perf_counter()
        self.scope = scope
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.body_bytes = 0  # received so far
        self.is_counted = False  # among the requests under way
        self.n_rows = 0
        self.n_novel = 0
        self.status = 0
        scope["scstream"] = self

    def check_length(self) -> None:
        """Reject a body whose Content-Length is too large, before it is read."""
        length = self.headers.get(b"content-length")
        if length is None:
            self._has_more_body = b"transfer-encoding" in self.headers
        elif length != b"0":
            self._has_more_body = True
            if not length.isdigit():
                raise ApiError("NoLength", "the Content-Length is not a number of bytes.")
            self._check_size(int(length))

    def _check_size(self, n_bytes: int) -> None:
        """Reject a body if `n_bytes` more of it are too many."""
        limits, max_n = self._limits, self._limits.settings.body_bytes
        if self.body_bytes + n_bytes > max_n:
            detail = f"the body has more than {max_n} bytes; send the rows in parts."
            raise ApiError("TooLarge", detail)
        if limits.body_bytes + n_bytes > limits.settings.bodies_bytes:
            raise ApiError("Busy", "other request bodies fill the memory; send this one again.")

    async def receive(self) -> Message:
        """Receive a part of the body, or wait until the client leaves."""
        if not self._has_more_body:
            return await self._receive()
        message = await self._receive()
        if message["type"] != "http.request":
            raise ClientLeft
        self._has_more_body = message.get("more_body", False)
        n_bytes = len(message.get("body", b""))
        self._check_size(n_bytes)
        self.body_bytes += n_bytes
        self._limits.body_bytes += n_bytes
        return message

    async def body(self) -> bytes:
        """Receive the whole body."""
        if BODY_COMPLETE in self.scope:
            return await self._read_body()
        seconds = self._limits.settings.body_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._read_body()
        except TimeoutError:
            detail = f"the body did not arrive within {seconds:g} s; send it again."
            raise ApiError("TooSlow", detail) from None

    async def _read_body(self) -> bytes:
        parts: list[bytes] = []
        while not parts or self._has_more_body:
            parts.append((await self.receive()).get("body", b""))
        return b"".join(parts)

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), NO_SNIFFING]
            if self.scope["method"] != "POST":
                headers += PAGE
            if self._has_more_body or self._limits.draining():
                headers.append(_CLOSE)
            message = {**message, "headers": headers}
        elif len(body := message.get("body", b"")) > _PIECE:
            # uvicorn waits between pieces until the client has read: its buffer stays short.
            for start in range(0, len(body), _PIECE):
                piece = body[start : start + _PIECE]
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            message = {**message, "body": b""}
        await self._send(message)

    async def reject(self, error: ApiError) -> None:
        """Send an error, then read a little of the body so that the client sees the error."""
        if self.status:  # a response has begun; cutting it off is all that can be done
            return
        has_more_body, content = self._has_more_body, error.content
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            *error.headers,
        ]
        await self.send({"type": "http.response.start", "status": error.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": content, "more_body": True})
        if has_more_body:
            await discard_body(self._receive)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _allowed_hosts(settings: ServiceSettings) -> frozenset[bytes] | None:
    """Return the allowed values of the Host header; None for any."""
    if not settings.is_local and not settings.hosts:
        return None
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    own = {"localhost", "127.0.0.1", "[::1]", host, *settings.hosts}
    return frozenset(name.lower().encode() for name in own)


def _without_port(host: bytes) -> bytes:
    name, colon, port = host.rpartition(b":")
    return name if colon and port.isdigit() else host
