"""What comes before every route: who may ask, how much and how often."""

from __future__ import annotations

import asyncio
import hmac
import math
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from scstream.errors import ScStreamError
from scstream.serve.clients import Buckets
from scstream.serve.refusals import Headers, Refusal, refusal_of
from scstream.serve.settings import ServiceSettings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Heard = Callable[["Visit"], None]

OPEN = frozenset({"/", "/docs", "/docs.css", "/healthz", "/readyz"})  # and all below /page/
HEALTH = frozenset({"/healthz", "/readyz"})
STREAMS = frozenset({"/live"})  # those who look at the page are counted there
NO_SNIFFING = (b"x-content-type-options", b"nosniff")
PAGE: Headers = (
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)
LEFT = 499  # noted where a client has left, or was refused by the server, before it was answered
DEFECT = "the service has a defect and could not answer; its log says more."
_CLOSE = (b"connection", b"close")
_DRAINED_BYTES = 2**20  # of a refused body that are still read, so that its sender gets the answer
_DRAINED_SECONDS = 1.0
_PIECE = 2**16  # bytes of an answer that are sent at once


class Gone(Exception):
    """The client has closed the connection before it had sent all of its body."""


class Limits:
    """Middleware for ASGI that admits requests, counts what they send and says no in one way.

    Parameters
    ----------
    app : ASGI application
        What answers requests that are admitted.
    settings : Settings
        The limits.
    direct : mapping of str to ASGI application
        Paths whose POST requests do not go through the application.
    draining : callable
        Tells whether the service is about to end.
    heard : callable
        Is given every `Visit` when it is over.
    failed : callable
        Is given the traceback of a defect.

    Examples
    --------
    >>> import asyncio
    >>> from scstream.serve.limits import Limits
    >>> from scstream.serve.settings import ServiceSettings
    >>> async def app(scope, receive, send):
    ...     raise AssertionError("nobody comes here")
    >>> async def receive():
    ...     return {"type": "http.request"}
    >>> async def send(message):
    ...     print(message.get("status", message.get("body")))
    >>> limits = Limits(app, ServiceSettings(body_bytes=10))
    >>> headers = [(b"host", b"localhost"), (b"content-length", b"11")]
    >>> scope = {"type": "http", "method": "POST", "path": "/predict", "headers": headers}
    >>> asyncio.run(limits(scope, receive, send))
    413
    b'{"error":"TooLarge","detail":"the body has more than 10 bytes; send the rows in parts."}'
    b''
    """

    def __init__(
        self,
        app: App,
        settings: ServiceSettings,
        *,
        direct: Mapping[str, App] | None = None,
        draining: Callable[[], bool] = lambda: False,
        heard: Heard = lambda visit: None,
        failed: Callable[[str], None] = lambda trace: None,
    ) -> None:
        self.app = app
        self.settings = settings
        self.draining = draining
        self._direct = direct or {}
        self._heard = heard
        self._failed = failed
        self._token = None if settings.token is None else settings.token.encode()
        self._hosts = _own_names(settings)
        self._buckets = Buckets(settings.rate, burst=settings.burst, max_n=settings.clients)
        self._busy = 0  # requests that are being answered
        self.held = 0  # bytes of bodies in memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit = Visit(self, scope, receive, send)
        try:
            await self._admitted(visit)(scope, visit.receive, visit.send)
        except Refusal as refusal:
            await visit.refuse(refusal)
        except Gone:
            visit.status = visit.status or LEFT
        except ScStreamError as error:
            await visit.refuse(refusal_of(error))
        except Exception:
            self._failed(traceback.format_exc())
            await visit.refuse(Refusal("Defect", DEFECT))
        finally:
            self.held -= visit.held
            self._busy -= visit.is_counted
            self._heard(visit)

    def _admitted(self, visit: Visit) -> App:
        """Return who answers a request that may come in; raises `Refusal`."""
        scope, headers = visit.scope, visit.headers
        path: str = scope["path"]
        self._check_host(headers.get(b"host"), scope)
        self._check_origin(headers, scope)
        if self.settings.rate and path not in HEALTH:  # who guesses at the token is slowed down too
            self._check_rate(scope)
        if self._token is not None and not (path in OPEN or path.startswith("/page/")):
            self._check_token(headers.get(b"authorization", b""))
        visit.expect_body()
        if path not in HEALTH and path not in STREAMS:
            self._count(visit)
        direct = self._direct.get(path) if scope["method"] == "POST" else None
        return direct or self.app

    def _count(self, visit: Visit) -> None:
        max_n = self.settings.requests
        if self._busy >= max_n:
            raise Refusal("Busy", f"{max_n} requests are being answered already; ask again later.")
        visit.is_counted = True
        self._busy += 1

    def _check_host(self, host: bytes | None, scope: Scope) -> None:
        """Refuse what a page of another site sends under a name that it has pointed to us."""
        if self._hosts is None or (host is None and scope.get("http_version") == "1.0"):
            return
        if _without_port((host or b"").lower()) not in self._hosts:
            raise Refusal(
                "WrongHost",
                "the service is not known under the name in the header Host; ask it by its own "
                "address, or start it with --allow-host and that name.",
            )

    def _check_origin(self, headers: dict[bytes, bytes], scope: Scope) -> None:
        """Refuse what a page of another site sends with our name."""
        origin = headers.get(b"origin")
        if origin is None or scope["method"] in ("GET", "HEAD"):
            return
        if origin.partition(b"://")[2].lower() != headers.get(b"host", b"").lower():
            raise Refusal(
                "WrongOrigin", "pages of other sites may not send requests to the service."
            )

    def _check_token(self, authorization: bytes) -> None:
        scheme, _, given = authorization.partition(b" ")
        assert self._token is not None
        if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token):
            return
        raise Refusal(
            "WrongToken",
            "the token is missing or wrong; send it in the header 'Authorization: Bearer ...'.",
            headers=((b"www-authenticate", b'Bearer realm="scstream"'),),
        )

    def _check_rate(self, scope: Scope) -> None:
        client = scope.get("client")
        wait = self._buckets.wait(client[0] if client else "", now=time.monotonic())
        if wait:
            raise Refusal(
                "TooOften",
                f"{self.settings.rate:g} requests per second are allowed; ask again in "
                f"{wait:.1f} s.",
                headers=((b"retry-after", b"%d" % math.ceil(wait)),),
            )


class Visit:
    """One request: what has come in, what went out."""

    __slots__ = (
        "_body_left",
        "_limits",
        "_receive",
        "_send",
        "began",
        "headers",
        "held",
        "is_counted",
        "novel",
        "rows",
        "scope",
        "status",
    )

    def __init__(self, limits: Limits, scope: Scope, receive: Receive, send: Send) -> None:
        self._limits = limits
        self._receive = receive
        self._send = send
        self._body_left = False  # whether there is more of the body to come
        self.began = time.perf_counter()
        self.scope = scope
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.held = 0
        self.is_counted = False  # among those that are being answered
        self.rows = 0
        self.novel = 0
        self.status = 0
        scope["scstream"] = self

    def expect_body(self) -> None:
        """Refuse a body that says that it is too long, before any of it is read."""
        headers = self.headers
        length = headers.get(b"content-length")
        if length is None:
            self._body_left = b"transfer-encoding" in headers
        elif length != b"0":
            self._body_left = True
            if not length.isdigit():
                raise Refusal("NoLength", "the Content-Length is no number of bytes.")
            self._take(int(length), ahead=True)

    def _take(self, n_bytes: int, *, ahead: bool = False) -> None:
        """Count bytes of the body."""
        limits, max_n = self._limits, self._limits.settings.body_bytes
        if self.held + n_bytes > max_n:
            raise Refusal(
                "TooLarge", f"the body has more than {max_n} bytes; send the rows in parts."
            )
        if limits.held + n_bytes > limits.settings.bodies_bytes:
            raise Refusal("Busy", "other bodies fill the memory; send this one again.")
        if not ahead:
            self.held += n_bytes
            limits.held += n_bytes

    async def receive(self) -> Message:
        """Receive a part of the body, or wait until the client leaves."""
        if not self._body_left:
            return await self._receive()
        message = await self._receive()
        if message["type"] != "http.request":
            raise Gone
        self._body_left = message.get("more_body", False)
        self._take(len(message.get("body", b"")))
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            more = () if self.scope["method"] == "POST" else PAGE
            headers = self._headed([*message.get("headers", ()), *more])
            message = {**message, "headers": headers}
        elif len(message.get("body", b"")) > _PIECE:
            await self._send_in_pieces(message["body"])
            message = {**message, "body": b""}
        await self._send(message)

    async def _send_in_pieces(self, body: bytes) -> None:
        """Send a long body as fast as it is read: nobody else holds what a slow client lets lie."""
        for start in range(0, len(body), _PIECE):
            piece = body[start : start + _PIECE]
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    def _headed(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Add the headers that every answer has."""
        headers.append(NO_SNIFFING)
        if self._body_left or self._limits.draining():
            headers.append(_CLOSE)
        return headers

    async def body(self) -> bytes:
        """Receive all of the body."""
        parts: list[bytes] = []
        while not parts or self._body_left:
            parts.append((await self.receive()).get("body", b""))
        return b"".join(parts)

    async def answer(self, content: bytes, kind: bytes, *, headers: Headers = ()) -> None:
        """Send a whole answer."""
        self.status = 200
        length = (b"content-length", b"%d" % len(content))
        head = self._headed([(b"content-type", kind), length, *headers])
        await self._send({"type": "http.response.start", "status": 200, "headers": head})
        if len(content) > _PIECE:
            await self._send_in_pieces(content)
            content = b""
        await self._send({"type": "http.response.body", "body": content})

    async def refuse(self, refusal: Refusal) -> None:
        """Say no, then read a little of the body: who still sends would miss the answer."""
        if self.status:  # the answer has begun; that it ends too early says enough
            return
        left = self._body_left
        content = refusal.content
        head = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            *refusal.headers,
        ]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": head})
        await self._send({"type": "http.response.body", "body": content, "more_body": True})
        if left:
            with suppress(TimeoutError):
                await self._read_on()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _read_on(self) -> None:
        left = _DRAINED_BYTES
        async with asyncio.timeout(_DRAINED_SECONDS):
            while left > 0:
                message = await self._receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
                left -= len(message.get("body", b""))


def _own_names(settings: ServiceSettings) -> frozenset[bytes] | None:
    """Return the names by which the service may be asked; None for any."""
    if not settings.is_local and not settings.hosts:
        return None
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    own = {"localhost", "127.0.0.1", "[::1]", host, *settings.hosts}
    return frozenset(name.lower().encode() for name in own)


def _without_port(host: bytes) -> bytes:
    """Return the name in a header Host.

    Examples
    --------
    >>> from scstream.serve.limits import _without_port
    >>> _without_port(b"localhost:8765"), _without_port(b"[::1]:80"), _without_port(b"[::1]")
    (b'localhost', b'[::1]', b'[::1]')
    """
    name, colon, port = host.rpartition(b":")
    return name if colon and port.isdigit() else host
