"""Progress of long work on the standard error: a bar in a terminal, a line a run elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """What long work tells."""

    def done(self, line: str) -> None:
        """One more run is done."""


class _Lines:
    def __init__(self, total: int) -> None:
        self._total, self._n, self._begin = total, 0, time.monotonic()
        self._lock = threading.Lock()

    def done(self, line: str) -> None:
        with self._lock:
            self._n += 1
            seconds = time.monotonic() - self._begin
            say(f"[{self._n}/{self._total}] {seconds:6.0f} s  {line}")


@contextmanager
def progress(total: int) -> Iterator[Progress]:
    """Show how many of the runs are done."""
    if not sys.stderr.isatty():
        yield _Lines(total)
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    left = (rich.TextColumn("left"), rich.TimeRemainingColumn())
    with rich.Progress(*columns, *left, console=Console(stderr=True)) as bar:
        task = bar.add_task("runs", total=total)

        class _Bar:
            def done(self, line: str) -> None:
                bar.console.print(line, highlight=False, markup=False)
                bar.advance(task)

        yield _Bar()


def say(line: str) -> None:
    """Print a line to the standard error."""
    print(line, file=sys.stderr, flush=True)
