"""`scstream run`: run a pipeline until it ends, is stopped or fails."""

from __future__ import annotations

import os
import sys
from typing import Any

from scstream.cli.checkpoints import has_checkpoint
from scstream.cli.exporters import Exporters, start_exporters
from scstream.cli.logs import library_logs
from scstream.cli.progress import DisplayThread, JsonDisplay, LiveDisplay, Progress
from scstream.cli.secrets import SecretRedactor
from scstream.cli.settings import Tables
from scstream.cli.signals import GracefulStop
from scstream.cli.store import is_local, open_store
from scstream.errors import InputError, LeaseLost
from scstream.observe.events import EventCallback, RunEvent, Started, Stopped, WarningLogged
from scstream.observe.webhook import posting
from scstream.stream.config import FOLDER, build
from scstream.stream.naming import naming


def run_pipeline(
    settings: Tables,
    exporters: Exporters,
    redactor: SecretRedactor,
    *,
    as_json: bool,
    every: float,
    **start: Any,
) -> None:
    """Run a pipeline and show its progress.

    `every` is the seconds between two log lines; `start` are arguments of `Pipeline.run`.
    """
    with GracefulStop() as signals:
        progress = Progress(stopping=signals.stop.is_set)
        job = settings.get("job", "scstream")
        is_live = sys.stderr.isatty() and not as_json
        thread = DisplayThread(
            progress,
            LiveDisplay(progress, redactor)
            if is_live
            else JsonDisplay(progress, redactor, every=every, job=job),
        )
        listeners: list[EventCallback] = [thread.emit]

        def emit(event: RunEvent) -> None:
            signals.started = signals.started or isinstance(event, Started)
            for listener in listeners:
                listener(event)

        pipeline = build(settings, emit=emit, store=open_store(settings, must_exist=False))
        progress.lag = pipeline.source.lag
        pipeline.abandon = _abandon
        with (
            thread,
            library_logs(lambda detail: thread.emit(WarningLogged(detail))),
            posting(settings.get("alerts", {})) as post,
            start_exporters(pipeline, exporters, redactor) as others,
            naming(pipeline, settings.get("naming", {})),
        ):
            listeners += [post, *others]
            try:
                pipeline.run(stop=signals.stop, **start)
            except KeyboardInterrupt:
                thread.emit(Stopped(progress.batch, drained=True))


def _abandon() -> None:
    """End at once, as a crash would: the lease is nearly over and a thread may wait for a server.

    `os._exit` runs nothing that could wait, too; what is not committed is done again.
    """
    os.write(2, b"scstream: the lease could not be renewed; the process ends.\n")
    os._exit(LeaseLost.exit_code)


def check_start(settings: Tables, *, must_resume: bool, may_resume: bool) -> None:
    """Raise if the run would continue, or start anew, by accident."""
    place = str(settings.get("checkpoint", {}).get("folder", FOLDER))
    exists = not is_local(place) or os.path.isdir(place)
    has_progress = exists and has_checkpoint(open_store(settings))
    if must_resume and not has_progress:
        raise InputError(
            f"there is no checkpoint in {place} to continue from; start without --resume, or give "
            "the right folder with --checkpoint."
        )
    if has_progress and not may_resume:
        raise InputError(
            f"there are checkpoints in {place} already; continue from them with --resume, or start "
            "anew with another folder (--checkpoint)."
        )
