"""`scstream serve`: serve a model file, or the newest checkpoint of a pipeline, over HTTP."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from scstream.cli.logs import JsonLog, library_logs
from scstream.cli.secrets import SecretRedactor
from scstream.cli.settings import Tables
from scstream.cli.store import is_local, open_store
from scstream.errors import InputError
from scstream.observe.events import (
    EditApplied,
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
from scstream.stream.keyed import KeyOptions

_MESSAGES = {  # of events on a terminal
    "serving": "serving at {url}; see {url}/docs for the routes",
    "following": "loaded checkpoint {version}: batch {batch} is next",
    "damaged": "skipped the damaged checkpoint {name}: {reason}",
    "too_new": "skipped the checkpoint {name}: {reason}",
    "unreachable": "the checkpoints cannot be read, trying again in {again:.0f} s: {reason}",
    "edit_sent": "edit {number}, {action}, was sent by {author} from {client}",
    "edit": "edit {number}, {action}, was applied",
    "saved": "saved the model to {path}, after batch {batch}",
    "not_saved": "the model could not be saved to {path}: {reason}",
    "request": "{status} {method} {path}, {rows} rows, {seconds} s, {client}",
    "defect": "a request failed with a bug:\n{trace}",
    "warning": "{detail}",
    "stopped": "stopped",
}


def serve_model(
    place: str,
    settings: ServiceSettings,
    redactor: SecretRedactor,
    *,
    tables: Tables,
    every: float,
    save: Path | None,
    save_every: int,
    as_json: bool,
    page: bool,
    spans: bool,
) -> None:
    """Serve a model file, or the newest checkpoint at a place, until a signal stops the service.

    `tables` are settings of a pipeline, for its checkpoint section; `every` is in seconds and
    `save_every` in batches.
    """
    is_followed = not is_local(place) or Path(place).is_dir()
    check_options(settings, is_followed=is_followed, save=save)
    metrics, live = Metrics(), Live() if page else None
    write = event_writer(redactor, as_json=as_json)

    def report(event: RunEvent) -> None:
        write(event)
        metrics.emit(event)

    model: ModelProvider
    if is_followed:
        memory = tables.get("keys", {}).get("memory", KeyOptions.memory)
        model, saver = Follower(open_store(tables), emit=report, memory=memory), None
    else:
        model = LocalModel.open(place)
        saver = ModelSaver(model, save, every=save_every, report=report)

    def emit(event: RunEvent) -> None:
        report(event)
        if saver is not None and isinstance(event, UpdateLearned | EditApplied):
            saver.count()

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
        report(ServiceStarted(f"http://{host}:{socket.getsockname()[1]}", place))
        if settings.is_exposed:
            report(WarningLogged(EXPOSED))
        service.begin()
        if is_followed:
            poller = Poller(model, every=every, changed=service.model_changed, emit=report)
            stack.enter_context(poller)
        serve(app, socket)
        if saver is not None:
            saver.save()
    report(ServiceStopped())


def check_options(settings: ServiceSettings, *, is_followed: bool, save: Path | None) -> None:
    """Raise if options contradict each other."""
    if settings.learn and is_followed:
        raise InputError(
            "a model that follows the checkpoints of a pipeline is learned there; remove --learn, "
            "or give a model file."
        )
    if save is not None and not settings.learn and settings.write_token is None:
        raise InputError(
            "--save writes a model that learns or is edited; add --learn or --write-token-file, or "
            "remove --save."
        )
    if save is not None and not save.absolute().parent.is_dir():
        raise InputError(f"the folder of {save} does not exist; create it first.")


class ModelSaver:
    """Saves a model that learns, every few batches and at the end."""

    def __init__(
        self, model: LocalModel, path: Path | None, *, every: int, report: EventCallback
    ) -> None:
        self._model = model
        self._path = path
        self._every = every
        self._report = report
        self._unsaved = 0

    def count(self) -> None:
        """Count a learned batch and save when it is time."""
        self._unsaved += 1
        if self._unsaved >= self._every:
            self.save()

    def save(self) -> None:
        """Write the file if there is one and there are unsaved batches."""
        if self._path is None or not self._unsaved:
            return
        path = str(self._path)
        try:
            self._model.save(path)
        except OSError as error:
            self._report(ModelNotSaved(path, error.strerror or str(error)))
            return
        self._unsaved = 0
        self._report(ModelSaved(path, self._model.current().batch))


def event_writer(redactor: SecretRedactor, *, as_json: bool) -> EventCallback:
    """Return a callback that writes events to standard error, as messages or JSON lines."""
    if as_json or not sys.stderr.isatty():
        return JsonLog(redactor).emit

    def emit(event: RunEvent) -> None:
        if event.event in _MESSAGES:
            text = _MESSAGES[event.event].format(**event.to_dict())
            sys.stderr.write(f"scstream: {redactor.redact(text)}\n")

    return emit
