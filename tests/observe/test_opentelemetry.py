"""Spans: read back from the in-memory exporter of the SDK, which scstream itself does not need."""

import asyncio
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from math import nan
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from scstream.observe.events import (
    AlertRaised,
    BatchLearned,
    CheckpointDamaged,
    CheckpointWritten,
    GapAccepted,
    Started,
    Stopped,
    WarningLogged,
)
from scstream.observe.opentelemetry import Spans, traced
from scstream.serve.app import create_app
from scstream.serve.model import LocalModel
from tests.serve.subjects import Client, model_version

BATCH = BatchLearned(
    batch=4,
    rows=100,
    rejected=3,
    clusters=7,
    novel=5,
    log_density=nan,
    events={"born": 2},
    waiting=11,
    seconds={"wait": 0.5, "learn": 0.25, "deliver": 0.125},
    time=1.7e9,
)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def seconds(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None and span.end_time is not None
    return span.start_time / 1e9, span.end_time / 1e9


def test_a_batch_is_a_trace_with_its_parts(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    Spans(provider=provider, job="demo").emit(BATCH)
    spans = by_name(exporter)
    assert list(spans) == ["wait", "learn", "deliver", "batch"]
    whole = spans["batch"]
    assert whole.parent is None
    assert seconds(whole) == pytest.approx((1.7e9 - 0.875, 1.7e9))
    assert seconds(spans["wait"]) == pytest.approx((1.7e9 - 0.875, 1.7e9 - 0.375))
    assert seconds(spans["learn"]) == pytest.approx((1.7e9 - 0.375, 1.7e9 - 0.125))
    assert seconds(spans["deliver"]) == pytest.approx((1.7e9 - 0.125, 1.7e9))
    assert whole.context is not None
    for name in ("wait", "learn", "deliver"):
        parent = spans[name].parent
        assert parent is not None and parent.span_id == whole.context.span_id
    assert whole.attributes == {
        "scstream.job": "demo",
        "scstream.batch": 4,
        "scstream.rows": 100,
        "scstream.rejected": 3,
        "scstream.clusters": 7,
        "scstream.novel": 5,
        "scstream.future": 0,
        "scstream.waiting": 11,
        "scstream.events.born": 2,
    }


def test_a_checkpoint_ends_at_its_event(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    before = time.time()
    took = {"flush": 0.5, "publish": 1.0, "prune": 0.25}
    event = CheckpointWritten(batch=5, version=9, time=1.7e9, bytes=4096, seconds=took)
    Spans(provider=provider).emit(event)
    spans = by_name(exporter)
    begun, ended = seconds(spans["checkpoint"])
    assert before <= ended + 1e-6 and ended <= time.time() + 1e-6
    assert ended - begun == pytest.approx(1.75, abs=1e-6)
    assert set(spans) == {"checkpoint", "flush", "publish", "prune"}


def test_nothing_else_is_recorded(exporter: InMemorySpanExporter, provider: TracerProvider) -> None:
    spans = Spans(provider=provider)
    spans.emit(Started(1, batch=1, job="demo"))
    spans.emit(Stopped(1, drained=False))
    spans.emit(GapAccepted("the source lost 7 messages"))
    spans.emit(WarningLogged("look"))
    spans.emit(CheckpointDamaged("version-3", "checksum"))
    spans.emit(AlertRaised(1, "novelty", 0.5, "look"))
    assert exporter.get_finished_spans() == ()


def application() -> Starlette:
    async def cluster(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.path_params["id"])

    async def broken(request: Request) -> PlainTextResponse:
        raise RuntimeError("a defect")

    async def refused(request: Request) -> PlainTextResponse:
        return PlainTextResponse("no", status_code=503)

    async def health(request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok")

    return Starlette(
        routes=[
            Route("/clusters/{id}", cluster),
            Route("/broken", broken),
            Route("/refused", refused),
            Route("/healthz", health),
        ]
    )


def test_a_request_continues_the_trace_of_its_client(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    client = TestClient(traced(application(), provider=provider))
    answer = client.get("/clusters/7?token=hunter2", headers={"TraceParent": PARENT})
    assert answer.text == "7"
    (span,) = exporter.get_finished_spans()
    assert span.name == "GET /clusters/{id}"
    assert span.kind is SpanKind.SERVER
    assert span.context is not None and span.parent is not None
    assert f"{span.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{span.parent.span_id:016x}" == PARENT.split("-")[2]
    assert span.attributes == {
        "http.request.method": "GET",
        "url.path": "/clusters/7",
        "http.route": "/clusters/{id}",
        "http.response.status_code": 200,
    }
    assert "hunter2" not in span.to_json()


@pytest.mark.parametrize(
    "parent", ["", "00-zz", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 9000]
)
def test_a_bad_parent_begins_a_new_trace(
    exporter: InMemorySpanExporter, provider: TracerProvider, parent: str
) -> None:
    client = TestClient(traced(application(), provider=provider))
    assert client.get("/clusters/7", headers={"traceparent": parent}).status_code == 200
    (span,) = exporter.get_finished_spans()
    assert span.parent is None


def test_errors_of_the_service_are_errors_and_those_of_clients_are_not(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    client = TestClient(traced(application(), provider=provider), raise_server_exceptions=False)
    assert client.get("/refused").status_code == 503
    assert client.get("/nowhere").status_code == 404
    assert client.get("/broken").status_code == 500
    refused, nowhere, broken = exporter.get_finished_spans()
    assert refused.status.status_code is StatusCode.ERROR
    assert nowhere.status.status_code is StatusCode.UNSET
    assert nowhere.name == "GET", "a path that is no route is not a name"
    assert broken.status.status_code is StatusCode.ERROR
    assert [event.name for event in broken.events] == ["exception"]


def test_probes_and_other_protocols_have_no_spans(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    with TestClient(traced(application(), provider=provider)) as client:  # lifespan, too
        assert client.get("/healthz").text == "ok"
        client.request("BREW", "/clusters/7")
    (span,) = exporter.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["http.request.method"] == "_OTHER"


COST = """
import sys, timeit
from scstream.observe.events import BatchLearned
from scstream.observe.opentelemetry import Spans
assert not any(name.startswith("opentelemetry.sdk") for name in sys.modules)
spans = Spans(job="demo")
batch = {batch}
n = 2000
print(min(timeit.repeat(lambda: spans.emit(batch), number=n, repeat=5)) / n)
"""


def test_without_an_sdk_a_batch_costs_almost_nothing() -> None:
    """The bar is 100 microseconds; a batch takes milliseconds, and this machine needs about 5."""
    batch = replace(BATCH, log_density=-2.5, screening_error=0.0)
    done = subprocess.run(
        [sys.executable, "-c", COST.format(batch=batch)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert float(done.stdout) < 1e-4


def test_a_request_that_is_cancelled_ends_its_span(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        scope = {"type": "http", "method": "GET", "path": "/predict", "headers": []}
        asked = asyncio.ensure_future(traced(slow, provider=provider)(scope, None, None))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(main())
    assert len(exporter.get_finished_spans()) == 1


def test_every_request_of_the_service_is_a_span(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    app = create_app(LocalModel(model_version()), around=partial(traced, provider=provider))
    client = Client(app)
    assert client.request("POST", "/predict", json={"rows": [[0.0, 0.0]]}).status_code == 200
    assert client.request("POST", "/predict", content=b"{").status_code == 415
    assert client.request("GET", "/clusters/7").status_code == 404
    assert client.request("GET", "/wp-admin").status_code == 404
    names = [span.name for span in exporter.get_finished_spans()]
    assert names == ["POST /predict", "POST /predict", "GET /clusters/{id}", "GET"]
