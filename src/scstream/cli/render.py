"""Terminal output: tables, bars, sparklines and colours; plain text if there is no terminal."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, Literal

from rich import filesize
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

UP, DOWN, DIM = "#56b4e9", "#e69f00", "dim"  # blue and orange are safe for colour-blind readers
BAR, ALARM = "#009e73", "bold #d55e00"
LEVELS = {"warn": ALARM, "note": DOWN}  # colours of findings
format_size = filesize.decimal  # 18000 -> "18.0 kB"
_NO_LIMIT = 100_000  # columns of output that is not a terminal


@dataclass(frozen=True)
class Symbols:
    """Characters to draw with; `ASCII` is for terminals without Unicode."""

    cells: str = " ╸━"  # a cell of a bar, from empty to full
    heights: str = "▁▂▃▄▅▆▇█"  # a cell of a sparkline
    up: str = "▲"
    down: str = "▼"
    same: str = "·"
    new: str = "+"
    into: str = "→"

    def bar(self, share: float, width: int) -> str:
        """Return a bar over this share of the width; a positive share is always visible."""
        steps = len(self.cells) - 1
        length = round(min(max(share, 0.0), 1.0) * width * steps)
        if share > 0 and steps > 1:
            length = max(length, 1)
        full, remainder = divmod(length, steps)
        drawn = self.cells[-1] * full + (self.cells[remainder] if remainder else "")
        return drawn.ljust(width)

    def sparkline(self, values: Sequence[float], width: int) -> str:
        """Return the last values as heights between their minimum and maximum."""
        shown = list(values)[-width:] if width > 0 else []
        finite = [value for value in shown if math.isfinite(value)]
        low, high = min(finite, default=0.0), max(finite, default=0.0)
        scale = (len(self.heights) - 1) / (high - low) if high > low else 0.0
        cells = [
            self.heights[round((value - low) * scale)] if math.isfinite(value) else " "
            for value in shown
        ]
        return "".join(cells).rjust(width)

    def arrow(self, change: float | None, *, threshold: float) -> str:
        """Return the symbol of a change; None means new."""
        if change is None:
            return self.new
        if abs(change) < threshold:
            return self.same
        return self.up if change > 0 else self.down


ASCII = Symbols(" #", ".:-=+*#@", "^", "v", ".", "+", "->")


def symbols() -> Symbols:
    """Return the symbols that standard output can encode."""
    # While rich's Live is active, its replacement of sys.stdout has no encoding.
    encoding = getattr(sys.stdout, "encoding", None) or getattr(sys.__stdout__, "encoding", None)
    return Symbols() if (encoding or "ascii").lower().startswith("utf") else ASCII


def change_style(change: float | None, *, threshold: float) -> str:
    """Return the colour of a change; the arrow shows the same without colour."""
    if change is None:
        return UP
    return DIM if abs(change) < threshold else UP if change > 0 else DOWN


def printable(text: str) -> str:
    """Replace control characters, which could command the terminal, by question marks."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def console(*, stderr: bool = False) -> Console:
    """Return a console on the current standard output or error; it respects NO_COLOR."""
    return Console(file=sys.stderr if stderr else sys.stdout, highlight=False)


def print_facts(out: Console, facts: Iterable[tuple[str, str | Text]]) -> None:
    """Print names and values in two columns."""
    for name, value in facts:
        shown = printable(value) if isinstance(value, str) else value
        line = Text.assemble((f"{name:<10}  ", DIM), shown)
        out.print(line, soft_wrap=not out.is_terminal)


def print_heading(out: Console, text: str) -> None:
    """Print a heading after an empty line."""
    out.print()
    out.print(Text(text, style="bold"), soft_wrap=True)


def plain_table(columns: Sequence[str], *, right: Container[str] = ()) -> Table:
    """Return an empty table without lines; only the last column is wrapped."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=name != columns[-1], overflow="fold")
    return table


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Container[str] = ()
) -> None:
    """Print a table on standard output; cells "warn" and "note" are coloured."""
    table = plain_table(columns, right=right)
    for row in rows:
        table.add_row(*(Text(cell, style=LEVELS.get(cell, "")) for cell in row))
    print_wide(console(), table)


def print_wide(out: Console, content: RenderableType) -> None:
    """Print within the width of the terminal, or without a limit if there is none."""
    if out.is_terminal:
        out.print(content)
        return
    wide = Console(file=StringIO(), width=_NO_LIMIT)
    wide.print(content)
    assert isinstance(wide.file, StringIO)
    sys.stdout.writelines(f"{text.rstrip()}\n" for text in wide.file.getvalue().splitlines())


def print_json(value: Any) -> None:
    """Print a value as one line of JSON on standard output; arrays become lists."""
    text = json.dumps(value, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v))
    sys.stdout.write(f"{text}\n")


def duration(seconds: float) -> str:
    """Return a duration such as "42 s" or "1 h 1 min"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if minutes < 60:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{days} d {hours % 24} h"
