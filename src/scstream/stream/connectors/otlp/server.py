"""The server that takes export requests of OTLP and appends their rows to the journal."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Sequence

from scstream.io.budget import TooLarge
from scstream.stream.connectors.http.journal import Journal
from scstream.stream.connectors.http.server import (
    Answer,
    Headers,
    IngestLimits,
    IngestServer,
    Rejected,
)
from scstream.stream.connectors.otlp.rows import JSON, PROTOBUF, NotOtlp, rows_of

_EMPTY = {PROTOBUF: b"", JSON: b"{}"}  # the response that says that all records were taken
_GROWTH = 8  # bytes of rows per byte of `max_body`
_GZIP = 31  # window of zlib for gzip


class OtlpServer(IngestServer):
    """ASGI application for ``POST /v1/logs``, ``POST /v1/traces`` and ``GET /healthz``."""

    def __init__(self, journal: Journal, limits: IngestLimits, signals: Sequence[str]) -> None:
        paths = [f"/v1/{signal}" for signal in signals]
        super().__init__(journal, limits, paths=paths, encodings=(b"identity", b"gzip"))
        self._turn = asyncio.Semaphore(1)  # one request is decoded at a time, to bound memory

    async def _accept(self, path: str, headers: Headers, body: bytes) -> Answer:
        media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media_type not in _EMPTY:
            detail = "Send application/x-protobuf or application/json."
            raise Rejected(415, "WrongType", detail)
        compressed = headers.get(b"content-encoding") == b"gzip"
        async with self._turn:
            key, rows = await asyncio.to_thread(
                self._read_request, path, media_type, body, compressed=compressed
            )
        if rows:
            key = headers.get(b"idempotency-key", b"").decode() or key
            answer = await self._append(key, rows)
            if answer.status != 200:
                return answer
        return Answer(200, _EMPTY[media_type], media_type)

    def _read_request(
        self, path: str, media_type: bytes, body: bytes, *, compressed: bool
    ) -> tuple[str, bytes]:
        """Return the key of a request and its rows.

        Exporters repeat a request without an idempotency key, so the hash of the request is one.
        """
        max_body = self._limits.max_body
        if compressed:
            body = _decompressed(body, max_body)
        key = hashlib.sha256(path.encode() + b"\n" + media_type + b"\n" + body).hexdigest()
        try:
            signal = path.rpartition("/")[2]
            return key, rows_of(signal, media_type, body, max_bytes=_GROWTH * max_body)
        except NotOtlp as error:
            raise Rejected(400, "NotOtlp", f"The body cannot be read: {error}.") from None
        except TooLarge as error:
            raise Rejected(413, "TooLarge", f"The body {error}") from None


def _decompressed(body: bytes, max_bytes: int) -> bytes:
    decoder = zlib.decompressobj(_GZIP)
    try:
        content = decoder.decompress(body, max_bytes + 1)
    except zlib.error:
        raise Rejected(400, "NotGzip", "The body is not gzip; send it as it is.") from None
    if len(content) > max_bytes:
        detail = f"The body has more than {max_bytes} bytes; send it in parts."
        raise Rejected(413, "TooLarge", detail)
    if not decoder.eof or decoder.unused_data:
        raise Rejected(400, "NotGzip", "The body is not one complete gzip stream; send it again.")
    return content
