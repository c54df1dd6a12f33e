"""`scstream serve`: serve a model file, or the newest checkpoint of a pipeline, over HTTP."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scstream.cli.logs import JsonLog, library_logs
from scstream.cli.secrets import SecretRedactor
from scstream.cli.settings import Tables
from scstream.cli.store import is_local, open_store
from scstream.errors import InputError
from scstream.observe.events import (
    EventCallback,
    ModelNotSaved,
    ModelSaved,
    RunEvent,
    ServiceStarted,
    ServiceStopped,
    UpdateLearned,
    WarningLogged,
)
from scstream.observe.prometheus import Metrics
from scstream.serve.app import create_app
from scstream.serve.listen import bind, serve
from scstream.serve.live import Live
from scstream.serve.model import LocalModel, ModelProvider, Poller
from scstream.serve.settings import EXPOSED, ServiceSettings
from scstream.stream.follower import Follower

_MESSAGES = {  # of events on a terminal
    "serving": "serving at {url}; see {url}/docs for the routes",
    "following": "loaded checkpoint {version}: batch {batch} is next",
    "damaged": "skipped the damaged checkpoint {name}: {reason}",
    "too_new": "skipped the checkpoint {name}: {reason}",
    "unreachable": "the checkpoints cannot be read, trying again in {again:.0f} s: {reason}",
    "saved": "saved the model to {path}, after batch {batch}",
    "not_saved": "the model could not be saved to {path}: {reason}",
    "request": "{status} {method} {path}, {rows} rows, {seconds} s, {client}",
    "defect": "a request failed with a bug:\n{trace}",
    "warning": "{detail}",
    "stopped": "stopped",
}


@dataclass(frozen=True)
class ModelSource:
    """Where the model is loaded from, and where a model that learns is saved."""

    place: str  # a model file, or a folder or address of checkpoints
    settings: Tables  # of a pipeline; its checkpoint section is used
    every: float = 2.0  # seconds between two checks for a newer checkpoint
    save: Path | None = None
    save_every: int = 100  # batches

    @property
    def is_followed(self) -> bool:
        """Return True for the checkpoints of a pipeline, False for a model file."""
        return not is_local(self.place) or Path(self.place).is_dir()

    def open(self, emit: EventCallback) -> ModelProvider:
        """Load the model."""
        if self.is_followed:
            return Follower(open_store(self.settings), emit=emit)
        return LocalModel.open(self.place)


def serve_model(
    source: ModelSource,
    settings: ServiceSettings,
    redactor: SecretRedactor,
    *,
    as_json: bool,
    page: bool,
    spans: bool,
) -> None:
    """Serve a model until a signal stops the service."""
    check_options(source, settings)
    metrics, live = Metrics(), Live() if page else None
    write = event_writer(redactor, as_json=as_json)

    def report(event: RunEvent) -> None:
        write(event)
        metrics.emit(event)

    model = source.open(report)
    saver = ModelSaver(model, source, report)

    def emit(event: RunEvent) -> None:
        report(event)
        saver.count(event)

    around: Any = None
    if spans:
        from scstream.observe.opentelemetry import traced

        around = traced
    app = create_app(model, settings, live=live, metrics=metrics, emit=emit, around=around)
    service = app.state.service
    with ExitStack() as stack:
        stack.enter_context(library_logs(lambda detail: report(WarningLogged(detail))))
        socket = stack.enter_context(bind(settings.host, settings.port))
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        report(ServiceStarted(f"http://{host}:{socket.getsockname()[1]}", source.place))
        if settings.is_exposed:
            report(WarningLogged(EXPOSED))
        service.begin()
        if source.is_followed:
            poller = Poller(model, every=source.every, changed=service.model_changed, emit=report)
            stack.enter_context(poller)
        serve(app, socket)
        saver.save()
    report(ServiceStopped())


def check_options(source: ModelSource, settings: ServiceSettings) -> None:
    """Raise if options contradict each other."""
    if settings.learn and source.is_followed:
        raise InputError(
            "a model that follows the checkpoints of a pipeline is learned there; remove --learn, "
            "or give a model file."
        )
    if source.save is not None and not settings.learn:
        raise InputError("--save writes a model that learns; add --learn, or remove --save.")
    if source.save is not None and not source.save.absolute().parent.is_dir():
        raise InputError(f"the folder of {source.save} does not exist; create it first.")


class ModelSaver:
    """Saves a model that learns, every few batches and at the end."""

    def __init__(self, model: ModelProvider, source: ModelSource, report: EventCallback) -> None:
        self._model = model
        self._source = source
        self._report = report
        self._unsaved = 0

    def count(self, event: RunEvent) -> None:
        """Count learned batches and save when it is time."""
        if isinstance(event, UpdateLearned):
            self._unsaved += 1
            if self._unsaved >= self._source.save_every:
                self.save()

    def save(self) -> None:
        """Write the file if there are unsaved batches."""
        path, model = self._source.save, self._model
        if path is None or not self._unsaved or not isinstance(model, LocalModel):
            return
        try:
            model.save(path)
        except OSError as error:
            self._report(ModelNotSaved(str(path), error.strerror or str(error)))
            return
        self._unsaved = 0
        self._report(ModelSaved(str(path), model.current().batch))


def event_writer(redactor: SecretRedactor, *, as_json: bool) -> EventCallback:
    """Return a callback that writes events to standard error, as messages or JSON lines."""
    if as_json or not sys.stderr.isatty():
        return JsonLog(redactor).emit

    def emit(event: RunEvent) -> None:
        if event.event in _MESSAGES:
            text = _MESSAGES[event.event].format(**event.to_dict())
            sys.stderr.write(f"scstream: {redactor.redact(text)}\n")

    return emit
