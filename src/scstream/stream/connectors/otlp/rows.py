"""Export requests of OTLP to rows: an object for each log record or span, by column name."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scstream.errors import missing_extra
from scstream.io.budget import TooLarge, check_json, check_rows
from scstream.io.header import Json
from scstream.stream.json_messages import to_json

try:
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
except ImportError as error:
    raise missing_extra("opentelemetry-proto", "otlp") from error

PROTOBUF, JSON = b"application/x-protobuf", b"application/json"
SIGNALS = ("logs", "traces")
_NANO = 1e9
Id = Callable[[bytes], str]


class NotOtlp(ValueError):
    """A body is no export request."""


def rows_of(signal: str, media_type: bytes, body: bytes, *, max_bytes: int) -> bytes:
    """Return the rows of an export request as lines of JSON.

    Parameters
    ----------
    signal : {"logs", "traces"}
        What the request exports.
    media_type : bytes
        `PROTOBUF` or `JSON`.
    body : bytes
        The request.
    max_bytes : int
        Most bytes of all rows; attributes of a resource are repeated in each of its rows.

    Returns
    -------
    bytes
        Lines; none for a request without records. Raises `NotOtlp` or `TooLarge`.

    Examples
    --------
    >>> from scstream.stream.connectors.otlp.rows import JSON, rows_of
    >>> record = b'{"timeUnixNano": "1500000000", "body": {"stringValue": "started"}}'
    >>> body = b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [' + record + b"]}]}]}"
    >>> rows_of("logs", JSON, body, max_bytes=1000).decode()[:57]
    '{"signal":"log","time":1.5,"severity":0,"severity_text":"'
    """
    request: Any = ExportLogsServiceRequest() if signal == "logs" else ExportTraceServiceRequest()
    as_hex: Id = bytes.hex
    if media_type == JSON:
        check_json(body)
        _parse_json(body, request)
        as_hex = _hex_of_json
    else:
        try:
            request.ParseFromString(body)
        except DecodeError as error:
            raise NotOtlp(f"it is no protobuf message of {signal}: {error}") from None
    rows = _logs(request, as_hex) if signal == "logs" else _spans(request, as_hex)
    lines = _lines(rows, max_bytes)
    check_json(lines)  # now: rows that were confirmed must not be too large for the reader
    return lines


def _parse_json(body: bytes, request: Any) -> None:
    if body.lstrip()[:1] != b"{":
        raise NotOtlp("it is no JSON object")
    try:
        json_format.Parse(body, request, ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise NotOtlp(f"it is no JSON of an export request: {str(error)[:200]}") from None


def _lines(rows: Iterable[Json], max_bytes: int) -> bytes:
    lines: list[bytes] = []
    n_bytes = 0
    for row in rows:
        lines.append(to_json(row))
        n_bytes += len(lines[-1]) + 1
        check_rows(len(lines))
        if n_bytes > max_bytes:
            raise TooLarge(
                f"has rows of more than {max_bytes:,} bytes together, with the attributes of their "
                "resources; send it in parts."
            )
    return b"\n".join(lines)


def _logs(request: Any, as_hex: Id) -> Iterator[Json]:
    for shared, scope, record in _records(request.resource_logs, "scope_logs", "log_records"):
        row = {
            "signal": "log",
            "time": (record.time_unix_nano or record.observed_time_unix_nano) / _NANO,
            "severity": record.severity_number,
            "severity_text": record.severity_text,
            "body": _text(_value(record.body)),
            "trace_id": as_hex(record.trace_id),
            "span_id": as_hex(record.span_id),
            "scope": scope,
        }
        yield _with_attributes(row, shared, record.attributes)


def _spans(request: Any, as_hex: Id) -> Iterator[Json]:
    for shared, scope, span in _records(request.resource_spans, "scope_spans", "spans"):
        row = {
            "signal": "span",
            "time": span.start_time_unix_nano / _NANO,
            "duration": (span.end_time_unix_nano - span.start_time_unix_nano) / _NANO,
            "name": span.name,
            "kind": span.kind,
            "status": span.status.code,
            "status_message": span.status.message,
            "trace_id": as_hex(span.trace_id),
            "span_id": as_hex(span.span_id),
            "parent_span_id": as_hex(span.parent_span_id),
            "n_events": len(span.events),
            "scope": scope,
        }
        yield _with_attributes(row, shared, span.attributes)


def _records(resources: Any, scopes: str, records: str) -> Iterator[tuple[Json, str, Any]]:
    """Yield each record with the attributes of its resource and the name of its scope."""
    for resource in resources:
        shared = _attributes(resource.resource.attributes, "resource.")
        for scope in getattr(resource, scopes):
            for record in getattr(scope, records):
                yield shared, scope.scope.name, record


def _with_attributes(row: Json, shared: Json, attributes: Any) -> Json:
    """Return a row with its attributes; one with the name of another column gets a longer name."""
    own = _attributes(attributes, "")
    taken = row.keys() | shared.keys()
    renamed = {f"attributes.{name}" if name in taken else name: v for name, v in own.items()}
    return {**row, **shared, **renamed}


def _attributes(attributes: Any, prefix: str) -> Json:
    """Return attributes by name; a map is JSON as text, because columns have plain values."""
    found: Json = {}
    for attribute in attributes:
        value = _value(attribute.value)
        found[f"{prefix}{attribute.key}"] = _text(value) if isinstance(value, dict) else value
    return found


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    content = getattr(value, kind)
    if kind == "array_value":
        return [_value(entry) for entry in content.values]
    if kind == "kvlist_value":
        return {entry.key: _value(entry.value) for entry in content.values}
    return _base64_text(content) if kind == "bytes_value" else content


def _text(content: Any) -> str:
    """Return a value as text; one that is no text as JSON."""
    if isinstance(content, str):
        return content
    return "" if content is None else to_json(content).decode()


def _base64_text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _hex_of_json(content: bytes) -> str:
    """Return an id of a JSON request: it was hexadecimal, and the parser took it for base64."""
    return _base64_text(content).lower()
