"""One bar on the standard error, while somebody waits at a terminal."""

from __future__ import annotations

import sys
from typing import Self

from scstream.cli.show import console
from scstream.cli.strokes import BAR, DOWN
from scstream.errors import missing_extra

try:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
except ImportError as error:
    raise missing_extra("rich", "cli") from error

_WIDTH = 24


class Bar:
    """A bar that grows; it is drawn on a terminal only, and leaves nothing behind.

    Parameters
    ----------
    total : float or None
        How much there is to do; None if nobody knows.
    shown : bool
        Whether to draw it, if the standard error is a terminal.

    Examples
    --------
    >>> from scstream.cli.bar import Bar
    >>> with Bar(100, shown=False) as bar:
    ...     bar.move(50, "half of it")
    """

    def __init__(self, total: float | None, *, shown: bool = True) -> None:
        self.is_shown = shown and sys.stderr.isatty()
        self._progress = Progress(
            BarColumn(_WIDTH, complete_style=BAR, finished_style=BAR, pulse_style=BAR),
            TextColumn("{task.percentage:>3.0f} %" if total else ""),
            TextColumn("{task.fields[words]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=console(stderr=True),
            transient=True,
            disable=not self.is_shown,
        )
        self._task = self._progress.add_task("", total=total, words="")

    def move(self, done: float, words: str) -> None:
        """Tell how much is done, and what else is to be said."""
        self._progress.update(self._task, completed=done, words=words)

    def say(self, words: str) -> None:
        """Print a sentence above the bar."""
        self._progress.console.print(words, markup=False, style=DOWN, soft_wrap=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()
