"""What a person sees: one line that is alive while a pipeline runs, and tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from threading import Event, Thread
from typing import Any, Literal, Protocol, Self

from scstream.cli.logs import Log
from scstream.cli.progress import Progress
from scstream.cli.sketch import print_drawing
from scstream.cli.veil import Veil
from scstream.errors import missing_extra

try:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise missing_extra("rich", "cli") from error

_LOGGED = ("started", "checkpoint", "damaged", "gap", "stopped", "warning", "alert")
_SENTENCES = {
    "started": "started at batch {batch}, as instance {epoch} of {job}",
    "damaged": "the checkpoint {name} is damaged and was passed over: {reason}",
    "gap": "a gap was accepted: {reason}",
    "warning": "{says}",
    "alert": "alert: {says}",
}
_LEVELS = {"warn": "red", "note": "yellow"}  # words of a table that are coloured
_STYLES = {
    "started": "dim",
    "damaged": "red",
    "gap": "yellow",
    "warning": "yellow",
    "alert": "bold yellow",
}


class Face(Protocol):
    """How a run is shown."""

    def tell(self, kind: str, values: dict[str, Any]) -> None:
        """Show what happened."""
        ...

    def tick(self) -> None:
        """Show how far it is."""
        ...

    def close(self) -> None:
        """Show how it ended, and nothing more."""
        ...


class Lines:
    """For machines: JSON lines, with the counts every few seconds.

    Examples
    --------
    >>> from scstream.cli.progress import Progress
    >>> from scstream.cli.show import Lines
    >>> from scstream.cli.veil import Veil
    >>> Lines(Progress(), Veil(), every=10.0).tick()
    """

    def __init__(self, progress: Progress, veil: Veil, *, every: float, **always: Any) -> None:
        self._progress = progress
        self._every = every
        self._last = progress.elapsed()
        self._log = Log(veil, **always)

    def tell(self, kind: str, values: dict[str, Any]) -> None:
        """Write one line, of batches none."""
        if kind in _LOGGED:
            self._log.tell(kind, **(self._progress.values() if kind == "stopped" else {}), **values)

    def tick(self) -> None:
        """Write the counts if it is time."""
        now = self._progress.elapsed()
        if now - self._last >= self._every:
            self._last = now
            self._log.tell("progress", **self._progress.values())

    def close(self) -> None:
        """Write nothing more; "stopped" was told."""


class Screen:
    """For people: one line that is redrawn, and sentences above it.

    Examples
    --------
    >>> from scstream.cli.progress import Progress
    >>> from scstream.cli.show import line
    >>> print(line(Progress(elapsed=lambda: 0.0, rows=12000, clusters=7, batches=12)))
    12,000 rows  0/s  12 batches  K 7  rejected 0  no new checkpoint yet
    """

    def __init__(self, progress: Progress, veil: Veil) -> None:
        self._progress = progress
        self._veil = veil
        self._started = False
        self._console = console(stderr=True)
        self._live = Live(
            console=self._console, get_renderable=self._line, auto_refresh=False, transient=True
        )
        self._live.start()

    def tell(self, kind: str, values: dict[str, Any]) -> None:
        """Print a sentence above the line."""
        self._started = self._started or kind == "started"
        if kind in _SENTENCES:
            text = self._veil.hide(_SENTENCES[kind].format(**values))
            self._console.print(Text(text, style=_STYLES[kind]), soft_wrap=True)

    def tick(self) -> None:
        """Draw the line anew."""
        self._live.refresh()

    def close(self) -> None:
        """Leave the last counts on the screen."""
        self._live.stop()
        if not self._started:
            return
        text = line(self._progress)
        text.append(f"  in {duration(self._progress.seconds)}")
        self._console.print(text)

    def _line(self) -> Text:
        if not self._started:
            return Text("starting ...", style="dim")
        text = line(self._progress)
        if self._progress.stopping():
            text.append("  finishing the batch in hand; Ctrl-C ends at once", style="yellow")
        return text


class Shown:
    """A face that is kept up to date from a thread of its own.

    Examples
    --------
    >>> from scstream.cli.progress import Progress
    >>> from scstream.cli.show import Lines, Shown
    >>> from scstream.cli.veil import Veil
    >>> progress = Progress()
    >>> with Shown(progress, Lines(progress, Veil(), every=10.0)) as shown:
    ...     shown.emit("batch", batch=0, rows=10, rejected=0, clusters=1)
    >>> progress.rows
    10
    """

    def __init__(self, progress: Progress, face: Face, *, seconds: float = 0.25) -> None:
        self._progress = progress
        self._face = face
        self._seconds = seconds
        self._over = Event()
        self._thread = Thread(target=self._run, name="scstream-progress", daemon=True)

    def emit(self, kind: str, /, **values: Any) -> None:
        """Be told by the pipeline what happens."""
        self._progress.take(kind, values)
        self._face.tell(kind, values)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join(timeout=2.0)  # it may wait for a broker that is away
        self._face.close()

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            self._progress.look()
            self._face.tick()


def console(*, stderr: bool = False) -> Console:
    """Return a console on the stream as it is now; NO_COLOR is respected.

    Examples
    --------
    >>> from scstream.cli.show import console
    >>> console().print("plain")
    plain
    """
    return Console(file=sys.stderr if stderr else sys.stdout, highlight=False)


def line(progress: Progress) -> Text:
    """Return the counts as one line.

    Examples
    --------
    >>> from scstream.cli.progress import Progress
    >>> from scstream.cli.show import line
    >>> "K 3" in line(Progress(clusters=3)).plain
    True
    """
    age = progress.checkpoint_age
    parts: list[tuple[str, str]] = [
        (f"{progress.rows:,} rows", "bold"),
        (f"{progress.rate:,.0f}/s", "green"),
        (f"{progress.batches:,} batches", ""),
        ("K -" if progress.clusters is None else f"K {progress.clusters:,}", "cyan"),
    ]
    if progress.behind is not None:
        parts.append((f"lag {progress.behind:,}", "yellow" if progress.behind else ""))
    parts.append((f"rejected {progress.rejected:,}", "red" if progress.rejected else ""))
    saved = "no new checkpoint yet" if age is None else f"checkpoint {duration(age)} ago"
    parts.append((saved, "dim"))
    return Text("  ").join(Text(text, style=style) for text, style in parts)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """Print a table on the standard output, as wide as it needs to be.

    Examples
    --------
    >>> from scstream.cli.show import table
    >>> table(["version", "batch"], [["3", "200"]], right=["batch"])
    version  batch
    3          200
    """
    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        side: Literal["left", "right"] = "right" if name in right else "left"
        drawn.add_column(name, justify=side, no_wrap=name != columns[-1], overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell, style=_LEVELS.get(cell, "")) for cell in row))
    print_drawing(console(), drawn)


def print_json(value: Any) -> None:
    """Print a value as JSON on the standard output.

    Examples
    --------
    >>> from scstream.cli.show import print_json
    >>> print_json({"batch": 3})
    {"batch": 3}
    """
    sys.stdout.write(json.dumps(value, default=str) + "\n")


def duration(seconds: float) -> str:
    """Return a duration as people say it.

    Examples
    --------
    >>> from scstream.cli.show import duration
    >>> duration(0.25), duration(42.0), duration(3700.0), duration(200000.0)
    ('0.2 s', '42 s', '1 h 1 min', '2 d 7 h')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if minutes < 60:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{days} d {hours % 24} h"


def size(n_bytes: float) -> str:
    """Return a number of bytes as people say it.

    Examples
    --------
    >>> from scstream.cli.show import size
    >>> size(900), size(51_000_000)
    ('900 B', '51.0 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"
