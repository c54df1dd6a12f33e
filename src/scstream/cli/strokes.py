"""Numbers as strokes: bars, sparklines and arrows, in text that any terminal has."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

UP, DOWN, QUIET = "#56b4e9", "#e69f00", "dim"  # blue and orange: colour-blind eyes tell them apart
BAR, ALARM = "#009e73", "bold #d55e00"


@dataclass(frozen=True)
class Strokes:
    """Characters to draw with.

    Parameters
    ----------
    parts : str
        Parts of a cell from the left, from nothing to all of it.
    levels : str
        Heights of a cell, from the lowest to all of it.
    up, down, level, new : str
        What has grown, shrunk, stayed or come.

    Examples
    --------
    >>> from scstream.cli.strokes import PLAIN, Strokes
    >>> Strokes().bar(0.5, 5), PLAIN.bar(0.5, 5)
    ('━━╸  ', '##   ')
    >>> Strokes().spark([1.0, 2.0, float("nan"), 4.0], 6)
    '  ▁▃ █'
    """

    parts: str = " ╸━"
    levels: str = "▁▂▃▄▅▆▇█"
    up: str = "▲"
    down: str = "▼"
    level: str = "·"
    new: str = "+"
    into: str = "→"

    def bar(self, part: float, width: int) -> str:
        """Return a bar of this part of the width; what is not nothing is seen."""
        steps = len(self.parts) - 1
        length = round(min(max(part, 0.0), 1.0) * width * steps)
        if part > 0 and steps > 1:
            length = max(length, 1)
        whole, rest = divmod(length, steps)
        drawn = self.parts[-1] * whole + (self.parts[rest] if rest else "")
        return drawn.ljust(width)

    def spark(self, values: Sequence[float], width: int) -> str:
        """Return the last values as heights between the least and the greatest of them."""
        shown = list(values)[-width:] if width > 0 else []
        known = [value for value in shown if math.isfinite(value)]
        low, high = min(known, default=0.0), max(known, default=0.0)
        top = len(self.levels) - 1
        scale = top / (high - low) if high > low else 0.0
        cells = [
            self.levels[round((value - low) * scale)] if math.isfinite(value) else " "
            for value in shown
        ]
        return "".join(cells).rjust(width)

    def arrow(self, change: float | None, *, least: float) -> str:
        """Return whether something grew, shrank, stayed or (None) was not there before."""
        if change is None:
            return self.new
        if abs(change) < least:
            return self.level
        return self.up if change > 0 else self.down


PLAIN = Strokes(" #", ".:-=+*#@", "^", "v", ".", "+", "->")


def strokes() -> Strokes:
    """Return the characters that the standard output can print.

    Examples
    --------
    >>> from scstream.cli.strokes import strokes
    >>> len(strokes().bar(1.0, 10))
    10
    """
    # What stands in for the standard output while a screen is alive has no encoding of its own.
    encoding = getattr(sys.stdout, "encoding", None) or getattr(sys.__stdout__, "encoding", None)
    return Strokes() if (encoding or "ascii").lower().startswith("utf") else PLAIN


def printable(text: str) -> str:
    r"""Return a text without what a terminal would obey: names come from files of others.

    Examples
    --------
    >>> from scstream.cli.strokes import printable
    >>> printable("load\x1b[2J")
    'load?[2J'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def style_of(change: float | None, *, least: float) -> str:
    """Return the colour that goes with an arrow; the arrow says the same without it.

    Examples
    --------
    >>> from scstream.cli.strokes import UP, style_of
    >>> style_of(0.2, least=0.1) == UP
    True
    """
    if change is None:
        return UP
    return QUIET if abs(change) < least else UP if change > 0 else DOWN
