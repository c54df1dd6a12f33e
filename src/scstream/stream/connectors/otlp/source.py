"""The OTLP source: the HTTP source with the routes and messages of OpenTelemetry."""

from __future__ import annotations

import os
from collections.abc import Sequence

from scstream.errors import InputError
from scstream.io.disk import Disk
from scstream.stream.connectors.http.server import IngestServer
from scstream.stream.connectors.http.source import HttpSource
from scstream.stream.connectors.otlp.rows import SIGNALS
from scstream.stream.connectors.otlp.server import OtlpServer
from scstream.stream.json_messages import JsonLines
from scstream.stream.schema import Reader, Schema
from scstream.stream.source import Position


class OtlpSource(HttpSource):
    """Logs and traces that OpenTelemetry pushes over HTTP; needs the extra ``otlp``.

    Exporters and collectors send protobuf or JSON to ``/v1/logs`` and ``/v1/traces``, also with
    gzip. Each log record or span is a row. The response is 200 once all rows of a request are
    synced to the disk, in the journal of the HTTP source; from then on each row counts exactly
    once. A request that is repeated byte for byte, as exporters do if they get no response, counts
    once while its key is among the last `n_keys`.

    Columns of a log record: ``signal`` ("log"), ``time`` (seconds since 1970), ``severity``,
    ``severity_text``, ``body``, ``trace_id``, ``span_id`` and ``scope``. Columns of a span:
    ``signal`` ("span"), ``time``, ``duration`` (seconds), ``name``, ``kind``, ``status``,
    ``status_message``, ``trace_id``, ``span_id``, ``parent_span_id``, ``n_events`` and ``scope``.
    Every attribute is a column of its name, or ``attributes.name`` if that is taken; every
    attribute of the resource is a column ``resource.name``. Maps, and bodies that are no text, are
    JSON as text; arrays of numbers can be features, as vectors.

    Errors: 400 if the body is no export request, 413 if it is too long, 415 if its type is another
    one, and those of `HttpSource`.

    Parameters
    ----------
    journal : path
        Folder of the journal.
    port : int
        Port to listen on; 0 for any free one, see `address`.
    signals : sequence of {"logs", "traces"}
        What is taken; other requests are answered with 404.
    host, token, start, max_connections, read_timeout, max_journal, segment_bytes, n_keys, disk
        As in `HttpSource`.
    max_body : int
        Largest body, in bytes, also when it is decompressed. Its rows may have 8 times as many.

    Examples
    --------
    >>> import tempfile
    >>> from urllib.request import Request, urlopen
    >>> from scstream.stream.connectors.otlp import OtlpSource
    >>> span = b'{"name": "GET /", "startTimeUnixNano": "1000", "endTimeUnixNano": "3000"}'
    >>> body = b'{"resourceSpans": [{"scopeSpans": [{"spans": [' + span + b"]}]}]}"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = OtlpSource(port=0, journal=folder)
    ...     source.open(None)
    ...     headers = {"Content-Type": "application/json"}
    ...     with urlopen(
    ...         Request(f"{source.address}/v1/traces", data=body, headers=headers)
    ...     ) as answer:
    ...         print(answer.read().decode())
    ...     (record,) = source.read(10, timeout=5)
    ...     source.close()
    {}
    >>> record.value.decode()[:53]
    '{"signal":"span","time":1e-06,"duration":2e-06,"name"'
    """

    def __init__(
        self,
        *,
        journal: str | os.PathLike[str],
        port: int = 4318,
        signals: Sequence[str] = SIGNALS,
        host: str = "127.0.0.1",
        token: str | None = None,
        start: Position = "first",
        max_body: int = 2**22,
        max_connections: int = 64,
        read_timeout: float = 30.0,
        max_journal: int = 2**30,
        segment_bytes: int = 2**26,
        n_keys: int = 10_000,
        disk: Disk | None = None,
    ) -> None:
        super().__init__(
            port=port,
            journal=journal,
            host=host,
            token=token,
            start=start,
            max_body=max_body,
            max_connections=max_connections,
            read_timeout=read_timeout,
            max_journal=max_journal,
            segment_bytes=segment_bytes,
            n_keys=n_keys,
            disk=disk,
        )
        if isinstance(signals, str) or not signals or not set(signals) <= set(SIGNALS):
            raise InputError(f"signals must be a list of {' and '.join(SIGNALS)}, got {signals!r}.")
        self._signals = tuple(signals)

    def reader(self, schema: Schema) -> Reader:
        """Return the reader of rows; they are in the journal as lines of JSON."""
        return JsonLines(schema)

    def _application(self) -> IngestServer:
        return OtlpServer(self._journal, self._limits, self._signals)
