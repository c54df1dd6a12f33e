"""Who looks on while a pipeline runs: Prometheus, traces, and the service with its live page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scstream.cli.token import read_token
from scstream.cli.veil import Veil
from scstream.errors import InputError
from scstream.model import Model
from scstream.stream.batcher import SourceBatch
from scstream.stream.model_version import ModelVersion, frozen
from scstream.stream.processor import Learned, OneModel
from scstream.stream.runner import BatchCallback, EventCallback, Pipeline

if TYPE_CHECKING:
    from scstream.observe.prometheus import Metrics

Address = tuple[str, int]


@dataclass(frozen=True)
class Onlookers:
    """What `scstream run` shows while it runs, as its flags say.

    Parameters
    ----------
    metrics : str or None
        "HOST:PORT" where Prometheus finds the metrics.
    serve : str or None
        "HOST:PORT" of the service and its page.
    spans : bool
        Whether batches and checkpoints become spans of OpenTelemetry.

    Examples
    --------
    >>> from scstream.cli.onlookers import Onlookers
    >>> Onlookers(metrics="127.0.0.1:9464").serve is None
    True
    """

    metrics: str | None = None
    serve: str | None = None
    spans: bool = False


@contextmanager
def looking_on(
    pipeline: Pipeline, onlookers: Onlookers, veil: Veil
) -> Iterator[list[EventCallback]]:
    """Open what the flags ask for, and return who must be told what happens; at the end close it.

    Examples
    --------
    >>> from scstream.cli.onlookers import Onlookers, looking_on
    >>> from scstream.cli.veil import Veil
    >>> from scstream.stream.config import build
    >>> pipeline = build({"source": {"kind": "stdin"}})
    >>> with looking_on(pipeline, Onlookers(), Veil()) as listeners:
    ...     listeners
    []
    """
    listeners: list[EventCallback] = []
    with ExitStack() as open_ends:
        if onlookers.metrics is not None or onlookers.serve is not None:
            from scstream.observe.prometheus import Metrics

            metrics = Metrics(lag=pipeline.source.lag, max_clusters=_limit_of(pipeline))
            listeners.append(metrics.emit)
            pipeline.on_batch = _measured(pipeline, metrics)
            if onlookers.metrics is not None:
                from scstream.observe.scrape import serve_metrics

                host, port = address_of("--metrics", onlookers.metrics)
                open_ends.enter_context(serve_metrics(metrics, host, port))
            if onlookers.serve is not None:
                open_ends.enter_context(_served(pipeline, onlookers.serve, metrics, veil))
        if onlookers.spans:
            from scstream.observe.opentelemetry import Spans

            listeners.append(Spans(job=pipeline.job).emit)
        yield listeners


def address_of(flag: str, text: str) -> Address:
    """Read "HOST:PORT".

    Examples
    --------
    >>> from scstream.cli.onlookers import address_of
    >>> address_of("--metrics", "127.0.0.1:9464"), address_of("--metrics", "[::1]:80")
    (('127.0.0.1', 9464), ('::1', 80))
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InputError(f"{flag} takes HOST:PORT, such as 127.0.0.1:9464, and not {text!r}.")
    return host, int(port)


def _limit_of(pipeline: Pipeline) -> int | None:
    """Bound on the number of clusters; of a model for every key there is none for all."""
    if not isinstance(pipeline.processor, OneModel):
        return None
    return int(pipeline.processor.settings.max_clusters)


def _measured(pipeline: Pipeline, metrics: Metrics) -> BatchCallback:
    """Show the shares of the heaviest clusters, where there is one model."""

    def on_batch(source_batch: SourceBatch, learned: Learned) -> None:
        processor = pipeline.processor
        if isinstance(processor, OneModel) and isinstance(processor.model, Model):
            metrics.shares(processor.model.state.share)

    return on_batch


@contextmanager
def _served(pipeline: Pipeline, address: str, metrics: Metrics, veil: Veil) -> Iterator[None]:
    """Answer questions from what the pipeline has just learned."""
    from scstream.serve.app import create_app
    from scstream.serve.listen import serve_in_thread
    from scstream.serve.live import Live
    from scstream.serve.model import LocalModel
    from scstream.serve.settings import EXPOSED, ServiceSettings

    host, port = address_of("--serve", address)
    processor, measure = pipeline.processor, pipeline.on_batch
    if not isinstance(processor, OneModel):
        raise InputError("--serve answers from one model; leave it out where schema.key is given.")
    model, live = LocalModel(), Live()
    settings = ServiceSettings(host=host, port=port, token=read_token(None, veil))
    if settings.is_exposed:
        pipeline.emit("warning", detail=EXPOSED)

    def emit(kind: str, /, **values: Any) -> None:
        if kind == "defect":
            pipeline.emit("warning", detail=f"a question met a defect:\n{values['trace']}")

    app = create_app(model, settings, live=live, metrics=metrics, emit=emit)

    def on_batch(source_batch: SourceBatch, learned: Learned) -> None:
        measure(source_batch, learned)
        if not isinstance(processor.model, Model):
            return
        reading = ModelVersion(
            version=source_batch.batch,
            batch=source_batch.batch + 1,
            at=pipeline.clock.now(),
            columns=pipeline.reader.schema.features,
            model=processor.model,
            steps=frozen(processor.steps),
        )
        model.publish(reading)
        live.add_version(reading, X=learned.block.X, labels=learned.labels)

    pipeline.on_batch = on_batch
    with serve_in_thread(app, host, port):
        yield
