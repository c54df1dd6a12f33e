"""One service from the command line: which model, who is told, and what is kept at the end."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scstream.cli.logs import library_logs
from scstream.cli.places import is_folder, open_store
from scstream.cli.veil import Veil
from scstream.errors import InputError
from scstream.observe.prometheus import Metrics
from scstream.serve.app import create_app
from scstream.serve.listen import bind, serve
from scstream.serve.live import Live
from scstream.serve.model import LocalModel, ModelProvider, Poller
from scstream.serve.settings import EXPOSED, ServiceSettings
from scstream.stream.follower import Follower
from scstream.stream.runner import EventCallback

_SENTENCES = {
    "serving": "answering at {url}; it is described at {url}/docs",
    "following": "took the checkpoint {version}: batch {batch} is next",
    "damaged": "the checkpoint {name} is damaged and was passed over: {reason}",
    "too_new": "the checkpoint {name} was passed over: {reason}",
    "unreachable": "the checkpoints cannot be read, again in {again:.0f} s: {reason}",
    "saved": "the model was saved to {path}, after batch {batch}",
    "not_saved": "the model could not be saved to {path}: {reason}",
    "request": "{status} {method} {path}, {rows} rows, {seconds} s, {client}",
    "defect": "there is a defect:\n{trace}",
    "warning": "{says}",
    "stopped": "ended in order",
}


@dataclass(frozen=True)
class Place:
    """Where the model is, and where it goes.

    Parameters
    ----------
    name : str
        A model file, or a folder or address of checkpoints.
    settings : mapping
        Settings of a pipeline, of which those of the checkpoints count.
    every : float
        Seconds between two looks for a newer checkpoint.
    save : path or None
        Where a model that learns is written.
    save_every : int
        Batches between two times.

    Examples
    --------
    >>> from scstream.cli.serving import Place
    >>> Place("model.scstream", {}).is_followed, Place("s3://bucket/job", {}).is_followed
    (False, True)
    """

    name: str
    settings: Mapping[str, Any]
    every: float = 2.0
    save: Path | None = None
    save_every: int = 100

    @property
    def is_followed(self) -> bool:
        """Whether these are checkpoints of a pipeline, and not a file."""
        return not is_folder(self.name) or Path(self.name).is_dir()

    def open(self, emit: EventCallback) -> ModelProvider:
        """Open the model."""
        if self.is_followed:
            return Follower(open_store(self.settings), emit=emit)
        return LocalModel.open(self.name)


def run(
    place: Place, settings: ServiceSettings, veil: Veil, *, lines: bool, page: bool, spans: bool
) -> None:
    """Serve a model until a signal ends it.

    Parameters
    ----------
    place : Place
        Where the model is.
    settings : Settings
        The limits.
    veil : Veil
        Knows the secrets.
    lines : bool
        Write JSON lines also on a terminal.
    page : bool
        Whether there is a live page.
    spans : bool
        Whether requests become spans of OpenTelemetry.
    """
    check(place, settings)
    metrics, live, log = Metrics(), Live() if page else None, told(veil, lines=lines)

    def tell(kind: str, /, **values: Any) -> None:
        log(kind, **values)
        metrics.emit(kind, **values)

    model = place.open(tell)
    keeper = Keeper(model, place, tell)

    def emit(kind: str, /, **values: Any) -> None:
        tell(kind, **values)
        keeper.hear(kind)

    around: Any = None
    if spans:
        from scstream.observe.opentelemetry import traced

        around = traced
    app = create_app(model, settings, live=live, metrics=metrics, emit=emit, around=around)
    service = app.state.service
    with ExitStack() as stack:
        stack.enter_context(library_logs(lambda detail: tell("warning", detail=detail)))
        listener = stack.enter_context(bind(settings.host, settings.port))
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        tell("serving", url=f"http://{host}:{listener.getsockname()[1]}", model=place.name)
        if settings.is_exposed:
            tell("warning", detail=EXPOSED)
        service.begin()
        if place.is_followed:
            poller = Poller(model, every=place.every, changed=service.model_changed, emit=tell)
            stack.enter_context(poller)
        serve(app, listener)
        keeper.save()
    tell("stopped")


def check(place: Place, settings: ServiceSettings) -> None:
    """Refuse what cannot be meant.

    Examples
    --------
    >>> from scstream.cli.serving import Place, check
    >>> from scstream.serve.settings import EXPOSED, ServiceSettings
    >>> check(Place("s3://bucket/job", {}), ServiceSettings(learn=True))
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: a model that follows the checkpoints of a pipeline learns there; ...
    """
    if settings.learn and place.is_followed:
        raise InputError(
            "a model that follows the checkpoints of a pipeline learns there; leave --learn out, "
            "or name a model file."
        )
    if place.save is not None and not settings.learn:
        raise InputError("--save writes what was learned; give --learn too, or leave it out.")
    if place.save is not None and not place.save.absolute().parent.is_dir():
        raise InputError(f"there is no folder for {place.save}; make it first.")


class Keeper:
    """Writes a model that learns to its file, now and then and at the end.

    Examples
    --------
    >>> from scstream.cli.serving import Keeper, Place
    >>> from scstream.serve.model import LocalModel
    >>> Keeper(LocalModel(), Place("model.scstream", {}), print).save()
    """

    def __init__(self, model: ModelProvider, place: Place, tell: EventCallback) -> None:
        self._model = model
        self._place = place
        self._tell = tell
        self._unsaved = 0

    def hear(self, kind: str) -> None:
        """Count batches that were learned."""
        if kind == "learned":
            self._unsaved += 1
            if self._unsaved >= self._place.save_every:
                self.save()

    def save(self) -> None:
        """Write the file if there is anything new in it."""
        path, model = self._place.save, self._model
        if path is None or not self._unsaved or not isinstance(model, LocalModel):
            return
        try:
            model.save(path)
        except OSError as error:
            self._tell("not_saved", path=str(path), reason=error.strerror or str(error))
            return
        self._unsaved = 0
        self._tell("saved", path=str(path), batch=model.current().batch)


def told(veil: Veil, *, lines: bool) -> EventCallback:
    """Return what tells of a service on the standard error: sentences for people, else JSON lines.

    Examples
    --------
    >>> import contextlib, io, json
    >>> from scstream.cli.serving import told
    >>> from scstream.cli.veil import Veil
    >>> with contextlib.redirect_stderr(io.StringIO()) as shown:
    ...     told(Veil(), lines=True)("saved", path="m.scstream", batch=7)
    >>> json.loads(shown.getvalue())["event"]
    'saved'
    """
    if lines or not sys.stderr.isatty():
        from scstream.cli.logs import Log

        return Log(veil).tell

    def say(kind: str, /, **values: Any) -> None:
        if kind in _SENTENCES:
            sys.stderr.write(f"scstream: {veil.hide(_SENTENCES[kind].format(**values))}\n")

    return say
