"""The server that takes request bodies and appends them to the journal."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scstream.stream.connectors.http.journal import Journal
from scstream.stream.http_server import discard_body, error_body

_MAX_GROUP = 256  # bodies that share one sync
_MAX_KEY = 200  # characters
_HEADERS = {401: (b"www-authenticate", b"Bearer"), 503: (b"retry-after", b"1")}

Headers = Mapping[bytes, bytes]


class Answer(NamedTuple):
    """The response to a request."""

    status: int
    content: bytes
    media_type: bytes = b"application/json"


class Rejected(Exception):
    """A request that is answered with an error; the rest of its body is not read."""

    def __init__(self, status: int, error: str, detail: str) -> None:
        super().__init__(detail)
        self.answer = Answer(status, error_body(error, detail))


@dataclass(frozen=True)
class IngestLimits:
    """Who may push, and how much."""

    token: str | None = field(repr=False)
    max_body: int
    max_connections: int
    read_timeout: float
    max_journal: int


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A body that waits for its position in the journal."""

    key: str
    body: bytes
    answer: asyncio.Future[Answer]


class IngestServer:
    """ASGI application for ``POST /rows`` and ``GET /healthz``.

    One thread writes to the journal. Bodies that arrive while it writes form the next group and
    share one sync of the disk.
    """

    def __init__(
        self,
        journal: Journal,
        limits: IngestLimits,
        *,
        paths: Sequence[str] = ("/rows",),
        encodings: Sequence[bytes] = (b"identity",),
    ) -> None:
        self._journal = journal
        self._limits = limits
        self._paths = paths
        self._encodings = encodings
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        rejected = False
        try:
            if scope["method"] == "GET" and scope["path"] == "/healthz":
                self._check_space()
                answer = _success(status="ok", position=self._journal.next)
            else:
                self._check_request(scope, headers)
                body = await self._read(receive)
                if body is None:
                    return
                answer = await self._accept(scope["path"], headers, body)
        except Rejected as error:
            answer, rejected = error.answer, True
        await _respond(send, answer, close=rejected)
        if rejected:
            await discard_body(receive)
        await send({"type": "http.response.body", "body": b""})

    def _check_request(self, scope: Any, headers: Headers) -> None:
        """Reject a request before its body is read."""
        token, max_body = self._limits.token, self._limits.max_body
        if token is not None and not hmac.compare_digest(
            headers.get(b"authorization", b""), f"Bearer {token}".encode()
        ):
            raise Rejected(401, "WrongToken", "The token is missing or wrong.")
        if token is None and b"origin" in headers:
            detail = "Web pages may push rows only with a token."
            raise Rejected(403, "WrongOrigin", detail)
        if scope["method"] != "POST" or scope["path"] not in self._paths:
            routes = ", ".join(f"POST {path}" for path in self._paths)
            raise Rejected(404, "NotFound", f"The only routes are {routes} and GET /healthz.")
        if b"transfer-encoding" in headers or b"content-length" not in headers:
            raise Rejected(411, "NoLength", "Send the body with a Content-Length.")
        if headers.get(b"content-encoding", b"identity") not in self._encodings:
            detail = "The body is compressed; send it without Content-Encoding."
            raise Rejected(415, "Compressed", detail)
        length = int(headers[b"content-length"])  # digits only: the parser has checked that
        if length == 0:
            raise Rejected(400, "EmptyBody", "The body is empty; send one message.")
        if length > max_body:
            detail = f"The body has more than {max_body} bytes; send it in parts."
            raise Rejected(413, "TooLarge", detail)
        key = headers.get(b"idempotency-key", b"").decode("latin-1")
        if not (len(key) <= _MAX_KEY and key.isascii() and key.isprintable()):
            detail = f"An Idempotency-Key has at most {_MAX_KEY} printable ASCII characters."
            raise Rejected(400, "WrongKey", detail)
        self._check_space()

    def _check_space(self) -> None:
        if self._journal.n_bytes >= self._limits.max_journal:
            detail = "The journal is full because the pipeline is behind; send the body later."
            raise Rejected(503, "Busy", detail)

    async def _read(self, receive: Any) -> bytes | None:
        """Return the whole body; None if the client has left."""
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self._limits.read_timeout):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    parts.append(message.get("body", b""))
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Rejected(408, "TooSlow", "The body arrived too slowly; send it again.") from None

    async def _accept(self, path: str, headers: Headers, body: bytes) -> Answer:
        """Append a body that was read completely."""
        return await self._append(headers.get(b"idempotency-key", b"").decode(), body)

    async def _append(self, key: str, body: bytes) -> Answer:
        """Wait until a body is safe in the journal, or cannot be written."""
        waiting = _Waiting(key, body, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_waiting())
        return await waiting.answer

    async def _write_waiting(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:_MAX_GROUP], self._waiting[_MAX_GROUP:]
            responses = await asyncio.to_thread(self._write, group)
            for each, answer in zip(group, responses, strict=True):
                if not each.answer.done():
                    each.answer.set_result(answer)
        self._writer = None

    def _write(self, group: list[_Waiting]) -> list[Answer]:
        """Append bodies with new keys; a repeated key gets the position of its first body."""
        known = {
            each.key: found
            for each in group
            if each.key and (found := self._journal.find_key(each.key))
        }
        new: list[_Waiting] = []
        keys = set(known)
        for each in group:
            if each.key not in keys:
                new.append(each)
                keys |= {each.key} - {""}
        try:
            bodies = [(each.key, each.body) for each in new]
            numbers = self._journal.append(bodies, now=time.time()) if bodies else []
        except OSError as error:
            detail = f"The body could not be written: {error.strerror}."
            return [Answer(503, error_body("NotWritten", detail))] * len(group)
        position = dict(zip(new, numbers, strict=True))
        known |= {each.key: (position[each], zlib.crc32(each.body)) for each in new}
        return [
            _success(position=position[each], duplicate=False)
            if each in position
            else _repeated(each, *known[each.key])
            for each in group
        ]


def _repeated(waiting: _Waiting, number: int, checksum: int) -> Answer:
    if checksum == zlib.crc32(waiting.body):
        return _success(position=number, duplicate=True)
    detail = "The Idempotency-Key belongs to another body; use a new key."
    return Answer(409, error_body("KeyReused", detail))


def _success(**values: Any) -> Answer:
    return Answer(200, json.dumps(values).encode())


async def _respond(send: Any, answer: Answer, *, close: bool) -> None:
    status, content, media_type = answer
    headers = [
        (b"content-type", media_type),
        (b"content-length", b"%d" % len(content)),
        *([_HEADERS[status]] if status in _HEADERS else []),
        *([(b"connection", b"close")] if close else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": True})
