"""`scstream fit`: learn the rows of a file once, batch by batch, and write a model file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rich.markup import escape

from scstream.cli.load import load_model
from scstream.cli.logs import library_logs
from scstream.cli.progress import JsonDisplay, Progress, ProgressBar
from scstream.cli.render import ALARM, console, format_size
from scstream.cli.rows import InputSize, explain_os_errors, input_name
from scstream.cli.secrets import SecretRedactor
from scstream.cli.settings import Tables
from scstream.cli.signals import GracefulStop
from scstream.errors import InputError
from scstream.io.disk import write_atomically
from scstream.io.header import SavedSteps
from scstream.model import checkpoint_bytes
from scstream.observe.events import BatchLearned, RunEvent, Started, Stopped, WarningLogged
from scstream.stream.batcher import SourceBatch
from scstream.stream.checkpoint_log import SAVEPOINT, CheckpointLog
from scstream.stream.config import build
from scstream.stream.processor import Learned
from scstream.stream.progress import Progress as PipelineProgress
from scstream.stream.runner import CheckpointPolicy, Pipeline
from scstream.stream.source import Resume, SourceWrapper
from scstream.stream.store import MemoryStore

_START = "start"  # name of the savepoint in memory
NO_CHECKPOINTS = CheckpointPolicy(batches=1 << 62, seconds=float("inf"), digests=0)
_MODEL_SECTIONS = ("model", "schema", "steps")  # fixed once a model exists


@dataclass(frozen=True)
class FitResult:
    """What was learned."""

    model: str
    bytes: int
    rows: int
    rejected: int
    batches: int
    clusters: int
    seconds: float
    interrupted: bool
    why: str = ""  # reason of the first rejected row

    def __str__(self) -> str:
        per_second = self.rows / self.seconds if self.seconds else 0.0
        clusters = "1 cluster" if self.clusters == 1 else f"{self.clusters:,} clusters"
        return (
            f"{self.rows:,} rows in {self.batches:,} batches, {clusters}, {self.seconds:.1f} s: "
            f"{per_second:,.0f} rows per second"
        )


def fit_file(
    settings: Tables,
    model: Path,
    redactor: SecretRedactor,
    *,
    resume: str | None = None,
    as_json: bool = False,
) -> FitResult:
    """Learn all rows of a source and write the model file.

    After a signal the current batch is finished and the model of the rows so far is written.
    """
    store, progress, size = MemoryStore(), Progress(), InputSize.of(settings)
    log = JsonDisplay(progress, redactor, every=10.0, job=settings.get("job", "scstream"))
    labels = settings.get("sink", {}).get("path")
    with GracefulStop() as signals, ProgressBar(size.total, shown=not as_json) as bar:
        display = _FitDisplay(progress, size, bar, log, signals)
        pipeline = _build(settings, store, resume)
        pipeline.emit, pipeline.on_batch = display.emit, display.on_batch
        with (
            library_logs(lambda detail: display.emit(WarningLogged(detail))),
            explain_os_errors(input_name(settings), output=labels),
        ):
            pipeline.run(savepoint=None if resume is None else _START, stop=signals.stop)
    if signals.stop.is_set() and not progress.rows:
        raise KeyboardInterrupt
    content = _model_content(store, progress, settings, display.reason)
    with explain_os_errors(output=str(model)):
        write_atomically(model, content)
    return FitResult(
        model=str(model),
        bytes=len(content),
        rows=progress.rows,
        rejected=progress.rejected,
        batches=progress.batches,
        clusters=progress.clusters or 0,
        seconds=round(progress.seconds, 3),
        interrupted=signals.stop.is_set(),
        why=display.reason,
    )


@dataclass
class _FitDisplay:
    """Shows the progress as a bar or as JSON lines."""

    progress: Progress
    size: InputSize
    bar: ProgressBar
    log: JsonDisplay
    signals: GracefulStop
    done: int = 0  # bytes learned
    reason: str = ""  # of the first rejected row

    def emit(self, event: RunEvent) -> None:
        self.signals.started = self.signals.started or isinstance(event, Started)
        self.progress.count(event)
        if self.bar.is_shown:
            self.bar.update(self.done, _bar_text(self.progress))
            if isinstance(event, WarningLogged):
                self.bar.print(event.detail)
        elif isinstance(event, BatchLearned):
            self.log.refresh()
        elif isinstance(event, Started | Stopped | WarningLogged):
            self.log.show_event(event)

    def on_batch(self, source_batch: SourceBatch, learned: Learned) -> None:
        self.done = self.size.before_offsets(source_batch.stop)
        self.reason = self.reason or "".join(reject.reason for reject in learned.block.rejects[:1])


def print_result(result: FitResult) -> None:
    """Print what was learned on standard error."""
    out = console(stderr=True)
    out.print(str(result), markup=False, soft_wrap=True)
    if result.rejected:
        text = f"{result.rejected:,} rows cannot be used; the first because {result.why}"
        out.print(text, style=ALARM, markup=False, soft_wrap=True)
    if result.interrupted:
        out.print("interrupted: the model holds the rows so far", style=ALARM)
    out.print(f"[bold]{escape(result.model)}[/]  {format_size(result.bytes)}", soft_wrap=True)


def _bar_text(progress: Progress) -> str:
    progress.sample()
    clusters = "-" if progress.clusters is None else f"{progress.clusters:,}"
    return f"{progress.rows:,} rows  {progress.rate:,.0f}/s  K {clusters}"


def _model_content(store: MemoryStore, progress: Progress, settings: Tables, reason: str) -> bytes:
    """Return the final checkpoint, which is a model file."""
    if progress.rows == progress.rejected:
        path = input_name(settings)
        found = f"no row of {path} can be learned: {reason}" if reason else f"{path} has no rows."
        raise InputError(f"{found} No model was written.")
    return next(content for _, content in CheckpointLog(store).checkpoints())


def _build(settings: Tables, store: MemoryStore, resume: str | None) -> Pipeline:
    if resume is not None:
        settings = _start_from(resume, settings, store)
    pipeline = build(settings, store=store)
    pipeline.checkpoint_policy = NO_CHECKPOINTS
    if resume is not None:
        pipeline.source = _RestartedSource(pipeline.source)
    return pipeline


def _start_from(place: str, given: Tables, store: MemoryStore) -> Tables:
    """Store a model as the savepoint to start from, and return the settings to continue with."""
    conflicts = [section for section in _MODEL_SECTIONS if given.get(section)]
    if conflicts:
        raise InputError(
            f"--resume keeps the {conflicts[0]} settings of the model; remove yours, or start anew "
            "without --resume."
        )
    loaded = load_model(place)
    known = loaded.progress or PipelineProgress(loaded.version.batch, schema=loaded.schema)
    settings = {**known.settings, **given}
    settings.pop("keys", None)
    progress = replace(
        known,
        job=settings.get("job", "scstream"),
        settings=build(settings, store=MemoryStore()).settings,
        identity={},
        offsets={},
        sinks={},
        schema=replace(known.schema, key=None),
        batch=loaded.version.batch,
        epoch=0,
        time=loaded.version.at,
    )
    steps = loaded.version.pipeline.get("steps", SavedSteps(options=[], learned=[]))
    content = checkpoint_bytes(loaded.model, {"progress": progress.to_dict(), "steps": steps})
    store.put(SAVEPOINT + _START, content)
    return settings


class _RestartedSource(SourceWrapper):
    """A source that is read from its beginning, whatever the offsets in the checkpoint."""

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        self._source.open(None)
