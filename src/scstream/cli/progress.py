"""Progress of a run: its counts, and their display as a live line, a bar or JSON lines."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Self

from rich.live import Live
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from scstream.cli.logs import JsonLog
from scstream.cli.render import BAR, DOWN, console, duration
from scstream.cli.secrets import SecretRedactor
from scstream.observe.events import (
    BatchLearned,
    CheckpointWritten,
    RunEvent,
    Started,
    Stopped,
)

_REFRESH_SECONDS = 0.25
_RATE_SECONDS = 5.0  # window over which the rate is measured
_LAG_SECONDS = 1.0  # between two requests for the lag: each is a round trip to the broker
_MESSAGES = {  # of events on a terminal, with their style
    "started": ("started at batch {batch}, as instance {epoch} of {job}", "dim"),
    "damaged": ("skipped the damaged checkpoint {name}: {reason}", "red"),
    "gap": ("a gap was accepted: {reason}", "yellow"),
    "warning": ("{detail}", "yellow"),
    "alert": ("alert: {detail}", "bold yellow"),
}


@dataclass
class Progress:
    """Counts of a run."""

    lag: Callable[[], int | None] = lambda: None  # messages not read yet, if the source knows
    elapsed: Callable[[], float] = time.monotonic
    stopping: Callable[[], bool] = lambda: False
    rows: int = 0
    rejected: int = 0
    batches: int = 0
    clusters: int | None = None  # unknown before the first batch of this run
    batch: int = 0  # number of the next batch
    last_lag: int | None = None
    _checkpoint_at: float | None = None
    _lag_at: float | None = None
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.began = self.elapsed()

    def count(self, event: RunEvent) -> None:
        """Count an event of the pipeline."""
        if isinstance(event, BatchLearned):
            self.rows += event.rows
            self.rejected += event.rejected
            self.clusters = event.clusters
            self.batches += 1
            self.batch = event.batch + 1
        elif isinstance(event, CheckpointWritten):
            self._checkpoint_at = self.elapsed()
        elif isinstance(event, Started | Stopped):
            self.batch = event.batch
            self.last_lag = None

    def sample(self) -> None:
        """Take a sample for the rate and, about once a second, ask the source for the lag."""
        now = self.elapsed()
        self._samples.append((now, self.rows))
        while self._samples[-1][0] - self._samples[0][0] > _RATE_SECONDS:
            self._samples.popleft()
        if self._lag_at is None or now - self._lag_at >= _LAG_SECONDS:
            self._lag_at = now
            try:
                self.last_lag = self.lag()
            except Exception:  # the broker is unreachable; the pipeline itself reports that
                self.last_lag = None

    @property
    def rate(self) -> float:
        """Recent rows per second; those of the whole run before the second sample."""
        then, rows = self._samples[0] if len(self._samples) > 1 else (self.began, 0)
        seconds = self.elapsed() - then
        return (self.rows - rows) / seconds if seconds > 0 else 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return self.elapsed() - self.began

    @property
    def checkpoint_age(self) -> float | None:
        """Seconds since the last checkpoint of this run."""
        return None if self._checkpoint_at is None else self.elapsed() - self._checkpoint_at

    def to_dict(self) -> dict[str, float | None]:
        """Return the counts for a log."""
        age = self.checkpoint_age
        return {
            "rows": self.rows,
            "rows_per_second": round(self.rate, 1),
            "batches": self.batches,
            "next_batch": self.batch,
            "clusters": self.clusters,
            "lag": self.last_lag,
            "rejected": self.rejected,
            "checkpoint_age": None if age is None else round(age, 1),
        }

    def to_text(self) -> Text:
        """Return the counts as one line for a terminal."""
        age = self.checkpoint_age
        parts: list[tuple[str, str]] = [
            (f"{self.rows:,} rows", "bold"),
            (f"{self.rate:,.0f}/s", "green"),
            (f"{self.batches:,} batches", ""),
            ("K -" if self.clusters is None else f"K {self.clusters:,}", "cyan"),
        ]
        if self.last_lag is not None:
            parts.append((f"lag {self.last_lag:,}", "yellow" if self.last_lag else ""))
        parts.append((f"rejected {self.rejected:,}", "red" if self.rejected else ""))
        saved = "no new checkpoint yet" if age is None else f"checkpoint {duration(age)} ago"
        parts.append((saved, "dim"))
        return Text("  ").join(Text(text, style=style) for text, style in parts)


class JsonDisplay:
    """Shows a run as JSON lines, with the counts every few seconds."""

    def __init__(
        self, progress: Progress, redactor: SecretRedactor, *, every: float, job: str
    ) -> None:
        self._progress = progress
        self._every = every
        self._last = progress.elapsed()
        self._log = JsonLog(redactor, job=job)

    def show_event(self, event: RunEvent) -> None:
        """Write one line; batches are not logged."""
        if not isinstance(event, BatchLearned):
            counts = self._progress.to_dict() if isinstance(event, Stopped) else {}
            self._log.write(event.event, **counts, **event.to_dict())

    def refresh(self) -> None:
        """Write the counts if the interval has passed."""
        now = self._progress.elapsed()
        if now - self._last >= self._every:
            self._last = now
            self._log.write("progress", **self._progress.to_dict())

    def close(self) -> None:
        """Write nothing: the event "stopped" had the final counts."""


class LiveDisplay:
    """Shows a run on a terminal: a live line, and messages above it."""

    def __init__(self, progress: Progress, redactor: SecretRedactor) -> None:
        self._progress = progress
        self._redactor = redactor
        self._started = False
        self._console = console(stderr=True)
        self._live = Live(
            console=self._console, get_renderable=self._line, auto_refresh=False, transient=True
        )
        self._live.start()
        self.refresh = self._live.refresh

    def show_event(self, event: RunEvent) -> None:
        """Print a message above the line."""
        self._started = self._started or isinstance(event, Started)
        if event.event in _MESSAGES:
            message, style = _MESSAGES[event.event]
            text = self._redactor.redact(message.format(**event.to_dict()))
            self._console.print(Text(text, style=style), soft_wrap=True)

    def close(self) -> None:
        """Leave the final counts on the terminal."""
        self._live.stop()
        if self._started:
            text = self._progress.to_text()
            text.append(f"  in {duration(self._progress.seconds)}")
            self._console.print(text)

    def _line(self) -> Text:
        if not self._started:
            return Text("starting ...", style="dim")
        text = self._progress.to_text()
        if self._progress.stopping():
            text.append("  finishing the current batch; Ctrl-C exits at once", style="yellow")
        return text


class DisplayThread:
    """Refreshes a display from a thread, and passes the events of the pipeline to it."""

    def __init__(self, progress: Progress, display: JsonDisplay | LiveDisplay) -> None:
        self._progress = progress
        self._display = display
        self._closed = Event()
        self._thread = Thread(target=self._run, name="scstream-progress", daemon=True)

    def emit(self, event: RunEvent) -> None:
        """Count and show an event."""
        self._progress.count(event)
        self._display.show_event(event)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()
        self._thread.join(timeout=2.0)  # it may be waiting for an unreachable broker
        self._display.close()

    def _run(self) -> None:
        while not self._closed.wait(_REFRESH_SECONDS):
            self._progress.sample()
            self._display.refresh()


class ProgressBar:
    """A bar on standard error, drawn only on a terminal and removed at the end."""

    def __init__(self, total: float | None, *, shown: bool = True) -> None:
        self.is_shown = shown and sys.stderr.isatty()
        self._progress = RichProgress(
            BarColumn(24, complete_style=BAR, finished_style=BAR, pulse_style=BAR),
            TextColumn("{task.percentage:>3.0f} %" if total else ""),
            TextColumn("{task.fields[text]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=console(stderr=True),
            transient=True,
            disable=not self.is_shown,
        )
        self._task = self._progress.add_task("", total=total, text="")

    def update(self, done: float, text: str) -> None:
        """Set how much is done and the text beside the bar."""
        self._progress.update(self._task, completed=done, text=text)

    def print(self, text: str) -> None:
        """Print a message above the bar."""
        self._progress.console.print(text, markup=False, style=DOWN, soft_wrap=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()
