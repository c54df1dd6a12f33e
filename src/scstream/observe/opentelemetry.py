"""OpenTelemetry spans of batches, checkpoints and requests.

Only the API is used: without an SDK in the process nothing is recorded, at almost no cost.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, MutableMapping
from math import isnan
from typing import Any

from scstream import __version__
from scstream.errors import missing_extra
from scstream.observe.catalogue import ROUTES
from scstream.observe.events import BatchLearned, CheckpointWritten, RunEvent

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import Getter
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
except ImportError as error:
    raise missing_extra("opentelemetry-api", "otel") from error

__all__ = ["Spans", "traced"]

Message = MutableMapping[str, Any]  # of ASGI
Scope = Message
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

QUIET = frozenset({"/healthz", "/live", "/metrics", "/readyz"})  # frequent or long requests
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class Spans:
    """Records the batches and checkpoints of a pipeline as spans, after they have ended.

    Every batch is a trace: a span "batch" with the child spans "wait", "learn" and "deliver". So is
    every checkpoint, with "flush", "publish" and "prune".

    Parameters
    ----------
    provider : TracerProvider, optional
        Records the spans; by default the provider of the process.
    **attributes
        Attributes of every span of a batch or checkpoint, such as ``job="demo"``.

    Examples
    --------
    >>> from scstream.observe.events import BatchLearned
    >>> from scstream.observe.opentelemetry import Spans
    >>> spans = Spans(job="demo")
    >>> spans.emit(BatchLearned(3, rows=1000, seconds={"learn": 0.02}, time=1.7e9))
    """

    def __init__(self, *, provider: TracerProvider | None = None, **attributes: Any) -> None:
        self._tracer = _tracer(provider)
        self._attributes = {f"scstream.{name}": value for name, value in attributes.items()}

    def emit(self, event: RunEvent, /) -> None:
        """Record a batch or a checkpoint that has just ended."""
        if isinstance(event, BatchLearned):
            self._record(event, end=event.time)
        elif isinstance(event, CheckpointWritten):
            # `time` is the time of the state, which may have been written later.
            self._record(event, end=time.time())

    def _record(self, event: BatchLearned | CheckpointWritten, *, end: float) -> None:
        start = end - sum(event.seconds.values())
        start_time = _nanoseconds(start)
        span = self._tracer.start_span(event.event, context=Context(), start_time=start_time)
        if span.is_recording():
            span.set_attributes(self._attributes)
            span.set_attributes({f"scstream.{name}": n for name, n in _attributes_of(event)})
            self._children(span, event.seconds, start)
        span.end(_nanoseconds(end))

    def _children(self, span: Span, seconds: Mapping[str, float], start: float) -> None:
        context = trace.set_span_in_context(span, Context())
        for name, duration in seconds.items():
            child = self._tracer.start_span(name, context=context, start_time=_nanoseconds(start))
            start += duration
            child.end(_nanoseconds(start))


def traced(
    app: App, *, provider: TracerProvider | None = None, quiet: Collection[str] = QUIET
) -> App:
    """Return the app with a span around every request.

    If the client sends `traceparent`, the span is part of the client's trace. Query strings,
    headers and bodies are not recorded.

    Parameters
    ----------
    app : ASGI application
        The application.
    provider : TracerProvider, optional
        Records the spans; by default the provider of the process.
    quiet : collection of str
        Paths without spans.

    Returns
    -------
    ASGI application
        The application with tracing.

    Examples
    --------
    >>> import asyncio
    >>> from scstream.observe.opentelemetry import traced
    >>> async def app(scope, receive, send):
    ...     await send({"type": "http.response.start", "status": 204, "headers": []})
    >>> async def show(message):
    ...     print(message["status"])
    >>> scope = {"type": "http", "method": "GET", "path": "/clusters", "headers": []}
    >>> asyncio.run(traced(app)(scope, None, show))
    204
    """
    tracer = _tracer(provider)

    async def with_span(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in quiet:
            await app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        span = tracer.start_span(
            method,
            context=propagate.extract(scope["headers"], getter=_HEADERS),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "url.path": scope["path"]},
        )

        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start":
                _set_status(span, message["status"])
            await send(message)

        with trace.use_span(span, end_on_exit=True):
            try:
                await app(scope, receive, send_and_record)
            finally:
                _set_route(span, method, scope)

    return with_span


class _Headers(Getter[list[tuple[bytes, bytes]]]):
    """Reads ASGI headers: pairs of bytes, names in lower case."""

    def get(self, carrier: list[tuple[bytes, bytes]], key: str) -> list[str] | None:
        wanted = key.lower().encode("latin-1")
        found = [value.decode("latin-1") for name, value in carrier if name == wanted]
        return found or None

    def keys(self, carrier: list[tuple[bytes, bytes]]) -> list[str]:
        return [name.decode("latin-1") for name, _ in carrier]


_HEADERS = _Headers()


def _tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("scstream", __version__, tracer_provider=provider)


def _set_status(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))


def _set_route(span: Span, method: str, scope: Scope) -> None:
    """Name the span after the route, which is known after the app has handled the request."""
    path = getattr(scope.get("route"), "path", None) or scope["path"]
    if "route" in scope or path in ROUTES:  # an unknown path must not become a span name
        span.update_name(f"{method} {path}")
        span.set_attribute("http.route", path)


def _attributes_of(event: BatchLearned | CheckpointWritten) -> Iterator[tuple[str, float]]:
    """Yield the known numbers of an event except its times, then its counts of cluster events."""
    for name, value in vars(event).items():
        if name != "time" and isinstance(value, int | float) and not isnan(value):
            yield name, value
    if isinstance(event, BatchLearned):
        yield from ((f"events.{kind}", n) for kind, n in event.events.items())


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
