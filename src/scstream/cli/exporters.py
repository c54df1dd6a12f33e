"""What `scstream run` exports while it runs: metrics, traces, and predictions over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scstream.cli.secrets import WRITE_TOKEN, SecretRedactor, read_token
from scstream.errors import InputError
from scstream.model import Model
from scstream.observe.events import Defect, EditSent, EventCallback, RunEvent, WarningLogged
from scstream.stream.batcher import SourceBatch
from scstream.stream.model_version import ModelVersion, frozen
from scstream.stream.processor import Learned, OneModel
from scstream.stream.runner import BatchCallback, Pipeline

if TYPE_CHECKING:
    from scstream.observe.prometheus import Metrics


@dataclass(frozen=True)
class Exporters:
    """The flags `--metrics HOST:PORT`, `--serve HOST:PORT` and `--spans`."""

    metrics: str | None = None
    serve: str | None = None
    spans: bool = False


@contextmanager
def start_exporters(
    pipeline: Pipeline, exporters: Exporters, redactor: SecretRedactor
) -> Iterator[list[EventCallback]]:
    """Start the exporters, yield their event callbacks, and stop them at the end."""
    listeners: list[EventCallback] = []
    with ExitStack() as stack:
        if exporters.metrics is not None or exporters.serve is not None:
            from scstream.observe.prometheus import Metrics

            metrics = Metrics(lag=pipeline.source.lag, max_clusters=_max_clusters(pipeline))
            metrics.connections = lambda: pipeline.connections
            listeners.append(metrics.emit)
            pipeline.on_batch = _measure_shares(pipeline, metrics)
            if exporters.metrics is not None:
                from scstream.observe.scrape import serve_metrics

                host, port = parse_host_port("--metrics", exporters.metrics)
                stack.enter_context(serve_metrics(metrics, host, port))
            if exporters.serve is not None:
                stack.enter_context(_serve(pipeline, exporters.serve, metrics, redactor))
        if exporters.spans:
            from scstream.observe.opentelemetry import Spans

            listeners.append(Spans(job=pipeline.job).emit)
        yield listeners


def parse_host_port(flag: str, text: str) -> tuple[str, int]:
    """Parse "HOST:PORT" or "[IPV6]:PORT"."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InputError(f"{flag} takes HOST:PORT, such as 127.0.0.1:9464, and not {text!r}.")
    return host, int(port)


def _max_clusters(pipeline: Pipeline) -> int | None:
    """Return the limit on the number of clusters; None for a pipeline with a model per key."""
    if not isinstance(pipeline.processor, OneModel):
        return None
    return int(pipeline.processor.settings.max_clusters)


def _measure_shares(pipeline: Pipeline, metrics: Metrics) -> BatchCallback:
    """Return a callback that exports the shares of the heaviest clusters."""

    def on_batch(source_batch: SourceBatch, learned: Learned) -> None:
        processor = pipeline.processor
        if isinstance(processor, OneModel) and isinstance(processor.model, Model):
            metrics.shares(processor.model.state.share, processor.model.named_shares)

    return on_batch


@contextmanager
def _serve(
    pipeline: Pipeline, address: str, metrics: Metrics, redactor: SecretRedactor
) -> Iterator[None]:
    """Serve predictions of the newest model of the pipeline, and the live page."""
    from scstream.serve.app import create_app
    from scstream.serve.listen import serve_in_thread
    from scstream.serve.live import Live
    from scstream.serve.model import LocalModel
    from scstream.serve.settings import EXPOSED, ServiceSettings

    host, port = parse_host_port("--serve", address)
    processor, measure = pipeline.processor, pipeline.on_batch
    if not isinstance(processor, OneModel):
        raise InputError(
            "--serve needs one model for all rows; remove it, and serve the checkpoints of the "
            "models of keys with `scstream serve`."
        )
    served, live = LocalModel(), Live()
    settings = ServiceSettings(
        host=host,
        port=port,
        token=read_token(None, redactor),
        write_token=read_token(None, redactor, variable=WRITE_TOKEN),
    )
    if settings.is_exposed:
        pipeline.emit(WarningLogged(EXPOSED))

    def emit(event: RunEvent) -> None:
        if isinstance(event, EditSent):
            pipeline.emit(event)
        if isinstance(event, Defect):
            pipeline.emit(WarningLogged(f"a request failed with a bug:\n{event.trace}"))

    store = pipeline.checkpoint_log.store  # the pipeline applies edits, not the service
    app = create_app(served, settings, live=live, metrics=metrics, emit=emit, edits=store)

    def on_batch(source_batch: SourceBatch, learned: Learned) -> None:
        measure(source_batch, learned)
        if not isinstance(processor.model, Model):
            return
        version = ModelVersion(
            version=source_batch.batch,
            batch=source_batch.batch + 1,
            at=pipeline.clock.now(),
            columns=pipeline.reader.schema.features,
            model=processor.model,
            steps=frozen(processor.steps),
        )
        served.publish(version)
        live.add_version(version, X=learned.block.X, labels=learned.labels)

    pipeline.on_batch = on_batch
    with serve_in_thread(app, host, port):
        yield
