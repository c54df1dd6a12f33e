"""One run from the command line: where it may start, how it is shown, how a signal ends it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event
from types import FrameType
from typing import Any, Self

from scstream.cli.checkpoints import has_checkpoint
from scstream.cli.logs import library_logs
from scstream.cli.onlookers import Onlookers, looking_on
from scstream.cli.places import is_folder, open_store
from scstream.cli.progress import Progress
from scstream.cli.show import Face, Lines, Screen, Shown
from scstream.cli.veil import Veil
from scstream.errors import InputError
from scstream.observe.webhook import posting
from scstream.stream.config import FOLDER, build
from scstream.stream.runner import EventCallback

_SHOW_CURSOR = "\x1b[?25h"
_INTERRUPTED = 130  # exit code of a shell after an interrupt


@dataclass(frozen=True)
class Start:
    """Where a run begins and ends, as the flags of `scstream run` say.

    Examples
    --------
    >>> from scstream.cli.running import Start
    >>> Start(resume=True).savepoint is None
    True
    """

    resume: bool = False
    resume_or_start: bool = False
    savepoint: str | None = None
    accept_gap: bool = False
    take_over: bool = False
    until: int | None = None


class Drain:
    """Signals ask for an orderly end: the batch in hand is finished and committed.

    Before the pipeline has started there is no batch in hand, and a signal is an interrupt; a
    second interrupt ends everything at once, as a crash would.

    Examples
    --------
    >>> import signal
    >>> from scstream.cli.running import Drain
    >>> with Drain() as drain:
    ...     drain.started = True
    ...     signal.raise_signal(signal.SIGTERM)
    ...     drain.stop.is_set()
    True
    """

    def __init__(self) -> None:
        self.stop = Event()
        self.started = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        if self.stop.is_set() and number == signal.SIGINT:
            if sys.stderr.isatty():
                os.write(2, _SHOW_CURSOR.encode())
            os._exit(_INTERRUPTED)
        self.stop.set()
        if not self.started:
            raise KeyboardInterrupt


def run(
    settings: Mapping[str, Any],
    start: Start,
    veil: Veil,
    *,
    lines: bool,
    every: float,
    onlookers: Onlookers,
) -> None:
    """Run a pipeline until it ends, is stopped or fails.

    Parameters
    ----------
    settings : mapping
        Settings of the pipeline.
    start : Start
        Where it begins and ends.
    veil : Veil
        Knows the secrets.
    lines : bool
        Show JSON lines and not a line that is alive.
    every : float
        Seconds between two lines of counts.
    onlookers : Onlookers
        What else is shown, and where.
    """
    check_start(settings, start)
    with Drain() as drain:
        progress = Progress(stopping=drain.stop.is_set)
        shown = Shown(progress, face(progress, veil, settings, lines=lines, every=every))

        listeners: list[EventCallback] = [shown.emit]

        def emit(kind: str, /, **values: Any) -> None:
            drain.started = drain.started or kind == "started"
            for listen in listeners:
                listen(kind, **values)

        pipeline = build(settings, emit=emit, store=open_store(settings, must_exist=False))
        progress.lag = pipeline.source.lag
        with (
            shown,
            library_logs(lambda detail: shown.emit("warning", detail=detail)),
            posting(settings.get("alerts", {})) as post,
            looking_on(pipeline, onlookers, veil) as others,
        ):
            listeners += [post, *others]
            try:
                pipeline.run(
                    savepoint=start.savepoint,
                    accept_gap=start.accept_gap,
                    take_over=start.take_over,
                    stop=drain.stop,
                    until=start.until,
                )
            except KeyboardInterrupt:
                shown.emit("stopped", batch=progress.batch, drained=True)


def face(
    progress: Progress, veil: Veil, settings: Mapping[str, Any], *, lines: bool, every: float
) -> Face:
    """Return how a run is shown: to people on a terminal, to machines elsewhere.

    Examples
    --------
    >>> from scstream.cli.progress import Progress
    >>> from scstream.cli.running import face
    >>> from scstream.cli.veil import Veil
    >>> type(face(Progress(), Veil(), {}, lines=True, every=10.0)).__name__
    'Lines'
    """
    if lines or not sys.stderr.isatty():
        return Lines(progress, veil, every=every, job=settings.get("job", "scstream"))
    return Screen(progress, veil)


def check_start(settings: Mapping[str, Any], start: Start) -> None:
    """Refuse to go on by accident, or to begin anew where somebody meant to go on.

    Examples
    --------
    >>> from scstream.cli.running import Start, check_start
    >>> check_start({"checkpoint": {"folder": "no-such-folder"}}, Start(resume=True))
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: there is no checkpoint in no-such-folder to go on from; ...
    """
    place = str(settings.get("checkpoint", {}).get("folder", FOLDER))
    there = not is_folder(place) or os.path.isdir(place)
    begun = there and has_checkpoint(open_store(settings))
    wants = start.resume or start.savepoint is not None
    if start.resume and not begun:
        raise InputError(
            f"there is no checkpoint in {place} to go on from; leave --resume out to begin, or "
            "name the right folder with --checkpoint."
        )
    if begun and not wants and not start.resume_or_start:
        raise InputError(
            f"there are checkpoints in {place} already; go on from them with --resume, or begin "
            "anew with another folder (--checkpoint)."
        )
