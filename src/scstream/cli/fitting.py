"""`scstream fit`: learn a file once, batch by batch, and leave a model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scstream.cli.bar import Bar
from scstream.cli.logs import library_logs
from scstream.cli.opened import open_model
from scstream.cli.places import Scratch
from scstream.cli.progress import Progress
from scstream.cli.rows import Extent, reading, writing
from scstream.cli.running import Drain
from scstream.cli.show import Lines, console, size
from scstream.cli.strokes import ALARM
from scstream.cli.veil import Veil
from scstream.errors import InputError, missing_extra
from scstream.io.disk import write_atomically
from scstream.model import checkpoint_bytes
from scstream.stream.batcher import SourceBatch
from scstream.stream.checkpoint_log import SAVEPOINT, CheckpointLog
from scstream.stream.config import build
from scstream.stream.processor import Learned
from scstream.stream.progress import Progress as StreamProgress
from scstream.stream.runner import CheckpointPolicy, Pipeline
from scstream.stream.source import Resume, SourceWrapper

try:
    from rich.markup import escape
except ImportError as error:
    raise missing_extra("rich", "cli") from error

_START = "start"  # name of the savepoint in the scratch store
_NEVER = 1 << 62
_TOLD = ("started", "stopped", "warning")  # checkpoints here are nobody's business
_OF_THE_MODEL = ("model", "schema", "steps")  # sections that a model which goes on has already


@dataclass(frozen=True)
class Fitted:
    """What was learned, and where it is.

    Examples
    --------
    >>> from scstream.cli.fitting import Fitted
    >>> fitted = Fitted("m.scstream", 18_000, 2050, 0, 21, 4, seconds=0.5, interrupted=False)
    >>> print(fitted)
    2,050 rows in 21 batches, 4 clusters, 0.5 s: 4,100 rows per second
    """

    model: str
    bytes: int
    rows: int
    rejected: int
    batches: int
    clusters: int
    seconds: float
    interrupted: bool
    why: str = ""  # the first of the rejected rows cannot be used

    def __str__(self) -> str:
        per_second = self.rows / self.seconds if self.seconds else 0.0
        clusters = "1 cluster" if self.clusters == 1 else f"{self.clusters:,} clusters"
        return (
            f"{self.rows:,} rows in {self.batches:,} batches, {clusters}, {self.seconds:.1f} s: "
            f"{per_second:,.0f} rows per second"
        )


def fit(
    settings: Mapping[str, Any],
    model: Path,
    veil: Veil,
    *,
    resume: str | None = None,
    lines: bool = False,
    every: float = 10.0,
) -> Fitted:
    """Learn all rows of a source and write the model file.

    An interrupt ends after the batch in hand, and the model of the rows so far is written.

    Parameters
    ----------
    settings : mapping
        Settings of a pipeline.
    model : path
        The file to write; it appears whole.
    veil : Veil
        Knows the secrets.
    resume : str, optional
        A model to go on from.
    lines : bool
        Tell progress as JSON lines and not as a bar.
    every : float
        Seconds between two lines.

    Returns
    -------
    Fitted
        What was learned.
    """
    store, progress, extent = Scratch(), Progress(), Extent.of(settings)
    told = Lines(progress, veil, every=every, job=settings.get("job", "scstream"))
    with Drain() as drain, Bar(extent.total, shown=not lines) as bar:
        seen = _Seen(progress, extent, bar, told, drain)
        pipeline = _pipeline(settings, store, resume)
        pipeline.emit, pipeline.on_batch = seen.emit, seen.on_batch
        with library_logs(lambda detail: seen.emit("warning", detail=detail)), _disk(settings):
            pipeline.run(savepoint=None if resume is None else _START, stop=drain.stop)
    if drain.stop.is_set() and not progress.rows:
        raise KeyboardInterrupt
    content = _content(store, progress, settings, seen.why)
    with writing(model):
        write_atomically(model, content)
    return Fitted(
        model=str(model),
        bytes=len(content),
        rows=progress.rows,
        rejected=progress.rejected,
        batches=progress.batches,
        clusters=progress.clusters or 0,
        seconds=round(progress.seconds, 3),
        interrupted=drain.stop.is_set(),
        why=seen.why,
    )


@dataclass
class _Seen:
    """What is seen of a run: a bar that moves, or lines."""

    progress: Progress
    extent: Extent
    bar: Bar
    lines: Lines
    drain: Drain
    done: int = 0  # bytes of the files that are learned
    why: str = ""  # the first of the rejected rows cannot be used

    def emit(self, kind: str, /, **values: Any) -> None:
        self.drain.started = self.drain.started or kind == "started"
        self.progress.take(kind, values)
        if self.bar.is_shown:
            self.bar.move(self.done, _words(self.progress))
            if kind == "warning":
                self.bar.say(values["detail"])
        elif kind == "batch":
            self.lines.tick()
        elif kind in _TOLD:
            self.lines.tell(kind, values)

    def on_batch(self, source_batch: SourceBatch, learned: Learned) -> None:
        self.done = self.extent.reached(source_batch.stop)
        self.why = self.why or "".join(reject.reason for reject in learned.block.rejects[:1])


def say(fitted: Fitted) -> None:
    """Tell a person on the standard error what was learned, and where it is.

    Examples
    --------
    >>> import contextlib, io
    >>> from scstream.cli.fitting import Fitted, say
    >>> fitted = Fitted("m.scstream", 18_000, 2050, 0, 21, 4, seconds=0.5, interrupted=False)
    >>> with contextlib.redirect_stderr(io.StringIO()) as shown:
    ...     say(fitted)
    >>> shown.getvalue().splitlines()[-1]
    'm.scstream  18.0 kB'
    """
    out = console(stderr=True)
    out.print(str(fitted), markup=False, soft_wrap=True)
    if fitted.rejected:
        refused = f"{fitted.rejected:,} rows cannot be used; the first because {fitted.why}"
        out.print(refused, style=ALARM, markup=False, soft_wrap=True)
    if fitted.interrupted:
        out.print("interrupted: the model holds the rows so far", style=ALARM)
    out.print(f"[bold]{escape(fitted.model)}[/]  {size(fitted.bytes)}", soft_wrap=True)


def _words(progress: Progress) -> str:
    progress.look()
    clusters = "-" if progress.clusters is None else f"{progress.clusters:,}"
    return f"{progress.rows:,} rows  {progress.rate:,.0f}/s  K {clusters}"


def _disk(settings: Mapping[str, Any]) -> Any:
    labels = settings.get("sink", {}).get("path")
    return reading(str(settings["source"].get("path", "standard input")), labels=labels)


def _content(store: Scratch, progress: Progress, settings: Mapping[str, Any], why: str) -> bytes:
    """The last checkpoint, which is a model file; there is none if nothing was learned."""
    if progress.rows == progress.rejected:
        place = settings["source"].get("path", "the standard input")
        found = f"no row of {place} can be learned: {why}" if why else f"{place} has no rows."
        raise InputError(f"{found} No model was written.")
    return next(content for _, content in CheckpointLog(store).checkpoints())


def _pipeline(settings: Mapping[str, Any], store: Scratch, resume: str | None) -> Pipeline:
    if resume is not None:
        settings = _start_from(resume, settings, store)
    pipeline = build(settings, store=store)
    pipeline.checkpoint_policy = CheckpointPolicy(batches=_NEVER, seconds=float("inf"), digests=0)
    if resume is not None:
        pipeline.source = _Afresh(pipeline.source)
    return pipeline


def _start_from(place: str, given: Mapping[str, Any], store: Scratch) -> dict[str, Any]:
    """Put a model where the pipeline finds it, and return the settings that it goes on with."""
    meant = [section for section in _OF_THE_MODEL if given.get(section)]
    if meant:
        raise InputError(
            f"a model that goes on keeps what it has of {meant[0]}; leave that out, or begin anew "
            "without --resume."
        )
    opened = open_model(place)
    known = opened.progress or StreamProgress(opened.reading.batch, schema=opened.schema)
    settings = {**known.settings, **given}
    settings.pop("keys", None)
    progress = replace(
        known,
        job=settings.get("job", "scstream"),
        settings=build(settings, store=Scratch()).settings,
        identity={},
        offsets={},
        sinks={},
        schema=replace(known.schema, key=None),
        batch=opened.reading.batch,
        epoch=0,
        time=opened.reading.at,
    )
    steps = opened.reading.pipeline.get("steps", {"options": [], "learned": []})
    pipeline = {"progress": progress.to_dict(), "steps": steps}
    content = checkpoint_bytes(opened.reading.model, pipeline)
    store.put(SAVEPOINT + _START, content)
    return settings


class _Afresh(SourceWrapper):
    """A source that is read from its beginning, whatever the checkpoint knew of another one."""

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        self._source.open(None)
