"""What pictures of models are made of: headings, facts, bars; the same text where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from io import StringIO

from scstream.cli.strokes import ALARM, BAR, DOWN, QUIET, printable, strokes
from scstream.errors import missing_extra

try:
    from rich.console import Console, RenderableType
    from rich.text import Text
except ImportError as error:
    raise missing_extra("rich", "cli") from error

_WIDE = 100_000  # columns where there is no screen: nothing is cut
_MARKS = {"warn": ALARM, "note": DOWN}


def mark(level: str) -> str:
    """Return the colour of a finding.

    Examples
    --------
    >>> from scstream.cli.sketch import mark
    >>> mark("ok")
    ''
    """
    return _MARKS.get(level, "")


def share_bar(part: float, width: int) -> Text:
    """Return a bar.

    Examples
    --------
    >>> from scstream.cli.sketch import share_bar
    >>> len(share_bar(0.5, 10).plain)
    10
    """
    return Text(strokes().bar(part, width), style=BAR)


def facts_of(out: Console, lines: Iterable[tuple[str, str | Text]]) -> None:
    """Print names and what stands beside them.

    Examples
    --------
    >>> from scstream.cli.sketch import facts_of
    >>> from scstream.cli.show import console
    >>> facts_of(console(), [("family", "gaussian")])
    family      gaussian
    """
    for name, detail in lines:
        shown = printable(detail) if isinstance(detail, str) else detail
        line = Text.assemble((f"{name:<10}  ", QUIET), shown)
        out.print(line, soft_wrap=not out.is_terminal)


def headed(out: Console, words: str) -> None:
    """Print a heading after an empty line.

    Examples
    --------
    >>> from scstream.cli.sketch import headed
    >>> from scstream.cli.show import console
    >>> headed(console(), "events")
    <BLANKLINE>
    events
    """
    out.print()
    out.print(Text(words, style="bold"), soft_wrap=True)


def print_drawing(out: Console, drawing: RenderableType) -> None:
    """Print a table: within the terminal, or as wide as it needs to be where there is none.

    Examples
    --------
    >>> from scstream.cli.sketch import print_drawing
    >>> from scstream.cli.show import console
    >>> print_drawing(console(), "a table")
    a table
    """
    if out.is_terminal:
        out.print(drawing)
        return
    wide = Console(file=StringIO(), width=_WIDE)
    wide.print(drawing)
    assert isinstance(wide.file, StringIO)
    sys.stdout.writelines(f"{text.rstrip()}\n" for text in wide.file.getvalue().splitlines())
