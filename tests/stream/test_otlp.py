"""OTLP: each log record and span is a row, once, whoever exports it and however often."""

import gzip
import json
import urllib.error
import urllib.request
from importlib import import_module

import pytest
from opentelemetry._logs import SeverityNumber
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from scstream.errors import InputError
from scstream.stream.config import build
from scstream.stream.connectors.otlp import OtlpSource
from scstream.stream.schema import Schema

PROTOBUF, JSON = "application/x-protobuf", "application/json"
RESOURCE = Resource({"service.name": "shop"})


@pytest.fixture
def source(tmp_path):
    source = OtlpSource(port=0, journal=tmp_path / "journal", max_body=100_000)
    source.open(None)
    yield source
    source.close()


def rows_in(source):
    found = []
    while records := source.read(100, 0.0):
        found += [json.loads(line) for record in records for line in record.value.splitlines()]
    return found


def post(source, signal, body, kind=PROTOBUF, **headers):
    request = urllib.request.Request(f"{source.address}/v1/{signal}", data=body)
    request.add_header("Content-Type", kind)
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers["content-type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read()


def logs(n_records=1, text="started", **resource):
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    for name, value in resource.items():
        group.resource.attributes.add(key=name).value.string_value = value
    scope = group.scope_logs.add()
    for i in range(n_records):
        scope.log_records.add(time_unix_nano=10**9 * (i + 1)).body.string_value = text
    return request


def exporter(kind, signal, source):
    """The exporter of OpenTelemetry."""
    module, name = ("trace_exporter", "OTLPSpanExporter")
    if signal == "logs":
        module, name = ("_log_exporter", "OTLPLogExporter")
    found = import_module(f"opentelemetry.exporter.otlp.{kind}.http.{module}")
    return getattr(found, name)(endpoint=f"{source.address}/v1/{signal}")


@pytest.mark.parametrize("kind", ["proto", "json"])
def test_spans_of_the_exporter_are_rows(source, kind):
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(BatchSpanProcessor(exporter(kind, "traces", source)))
    tracer = provider.get_tracer("checkout")
    with tracer.start_as_current_span("pay") as outer:
        outer.set_attributes({"amount": 12.5, "retries": 2, "paid": True, "name": "card"})
        outer.set_attribute("vector", [1.0, 2.5])
        with tracer.start_as_current_span("charge") as inner:
            pass
    assert provider.force_flush()
    provider.shutdown()
    second, first = rows_in(source)
    ids = outer.get_span_context()
    assert first["signal"] == "span" and first["name"] == "pay" and first["scope"] == "checkout"
    assert (first["amount"], first["retries"], first["paid"]) == (12.5, 2, True)
    assert first["attributes.name"] == "card" and first["vector"] == [1.0, 2.5]
    assert first["resource.service.name"] == "shop"
    assert first["trace_id"] == f"{ids.trace_id:032x}" and first["span_id"] == f"{ids.span_id:016x}"
    assert second["name"] == "charge" and second["parent_span_id"] == first["span_id"]
    assert first["time"] == outer.start_time / 1e9
    assert first["duration"] == pytest.approx((outer.end_time - outer.start_time) / 1e9)
    assert second["span_id"] == f"{inner.get_span_context().span_id:016x}"


@pytest.mark.parametrize("kind", ["proto", "json"])
def test_logs_of_the_exporter_are_rows(source, kind):
    provider = LoggerProvider(resource=RESOURCE)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter(kind, "logs", source)))
    provider.get_logger("shop").emit(
        timestamp=1_500_000_000,
        severity_number=SeverityNumber.WARN,
        body="the till is empty",
        attributes={"till": 7},
    )
    provider.shutdown()
    (row,) = rows_in(source)
    assert (row["signal"], row["body"], row["till"]) == ("log", "the till is empty", 7)
    assert row["severity"] == 13 and row["time"] == 1.5 and row["scope"] == "shop"
    assert row["resource.service.name"] == "shop"


def test_a_repeated_request_counts_once_and_gets_the_response_of_its_type(source):
    body = logs(2).SerializeToString()
    text = b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": "%s"}]}]}]}' % (
        b"0A" * 16
    )
    for _ in range(2):
        assert post(source, "logs", body) == (200, PROTOBUF, b"")
        assert post(source, "logs", gzip.compress(body, mtime=0), Content_Encoding="gzip")[0] == 200
        assert post(source, "logs", text, f"{JSON}; charset=utf-8") == (200, JSON, b"{}")
    assert [row["time"] for row in rows_in(source)] == [1.0, 2.0, 0.0]
    source.close()
    source.open(None)  # the keys are in the journal
    assert post(source, "logs", body)[0] == 200
    found = rows_in(source)
    assert len(found) == 3 and found[2]["trace_id"] == "0a" * 16


def test_every_kind_of_value_is_a_plain_column(source):
    request = logs()
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    record.body.kvlist_value.values.add(key="a").value.int_value = 1
    for name, field, value in [
        ("bytes", "bytes_value", b"\x00\xff"),
        ("nan", "double_value", float("nan")),
        ("long", "int_value", 2**63 - 1),
        ("body", "string_value", "other"),
    ]:
        setattr(record.attributes.add(key=name).value, field, value)
    record.attributes.add(key="none")
    record.attributes.add(key="map").value.kvlist_value.values.add(key="b").value.bool_value = True
    assert post(source, "logs", request.SerializeToString())[0] == 200
    (row,) = rows_in(source)
    assert row["body"] == '{"a":1}' and row["attributes.body"] == "other"
    assert (row["bytes"], row["nan"], row["long"]) == ("AP8=", None, 2**63 - 1)
    assert (row["none"], row["map"]) == (None, '{"b":true}')


@pytest.mark.parametrize(
    ("signal", "body", "kind", "encoding", "status"),
    [
        ("logs", b"\xff\xff", PROTOBUF, None, 400),
        ("logs", b"[]", JSON, None, 400),
        ("logs", b"\xff", JSON, None, 400),
        ("logs", b'{"resourceLogs": [7]}', JSON, None, 400),
        ("logs", b'{"resourceLogs": ' * 5000, JSON, None, 400),
        ("traces", b"{}", "text/plain", None, 415),
        ("metrics", b"{}", JSON, None, 404),
        ("logs", b"not gzip", PROTOBUF, "gzip", 400),
        ("logs", gzip.compress(b"", mtime=0)[:-1], PROTOBUF, "gzip", 400),
        ("logs", gzip.compress(bytes(10**7), mtime=0), PROTOBUF, "gzip", 413),
        ("logs", b"{}", JSON, "br", 415),
        ("logs", logs(3000, "", name="x" * 50_000).SerializeToString(), PROTOBUF, None, 413),
    ],
)
def test_what_cannot_be_read_is_refused_and_leaves_no_row(
    source, signal, body, kind, encoding, status
):
    headers = {"Content_Encoding": encoding} if encoding else {}
    found, _, answer = post(source, signal, body, kind, **headers)
    assert found == status, answer
    assert json.loads(answer)["detail"]
    assert rows_in(source) == []
    assert post(source, "traces", b"\x0a\x00") == (200, PROTOBUF, b"")  # it still answers


def test_only_the_named_signals_are_taken(tmp_path):
    source = OtlpSource(port=0, journal=tmp_path, signals=["traces"])
    source.open(None)
    assert post(source, "logs", logs().SerializeToString())[0] == 404
    source.close()
    for wrong in ("traces", [], ["metrics"]):
        with pytest.raises(InputError, match="signals must be a list"):
            OtlpSource(port=0, journal=tmp_path, signals=wrong)


def test_a_pipeline_labels_what_was_confirmed_once_although_it_stops(tmp_path):
    """Every request is sent twice, as by an exporter that got no response."""
    settings = {
        "source": {"kind": "otlp", "port": 0, "journal": str(tmp_path / "journal")},
        "schema": {"features": ["time"], "keep": ["time", "body"]},
        "batch": {"rows": 10},
        "checkpoint": {"folder": str(tmp_path / "state")},
        "sink": {"kind": "file", "path": str(tmp_path / "labels.jsonl")},
    }
    source = OtlpSource(port=0, journal=tmp_path / "journal")
    source.open(None)
    for n in (5, 12, 23):
        for _ in range(2):
            assert post(source, "logs", logs(n, f"part {n}").SerializeToString())[0] == 200
    source.close()
    assert build(settings).run(until=2) == 2
    assert build(settings).run(until=4) == 2
    lines = (tmp_path / "labels.jsonl").read_text().splitlines()
    found = [(row["body"], row["time"]) for row in map(json.loads, lines)]
    assert found == [(f"part {n}", float(i + 1)) for n in (5, 12, 23) for i in range(n)]


def test_rows_are_json_whatever_the_settings_say(tmp_path):
    source = OtlpSource(port=0, journal=tmp_path)
    block = source.reader(Schema(features=("time",))).read(b'{"time": 1.5}')
    assert block.X.tolist() == [[1.5]]
