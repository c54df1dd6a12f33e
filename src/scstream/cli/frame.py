"""One frame of `scstream top`: lines of text that fit the screen, whatever its size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from scstream.cli.moments import Heavy, History
from scstream.cli.portrait import told
from scstream.cli.show import duration, size
from scstream.cli.strokes import ALARM, BAR, DOWN, QUIET, UP, printable, strokes, style_of
from scstream.errors import missing_extra

try:
    from rich.text import Text
except ImportError as error:
    raise missing_extra("rich", "cli") from error

_WIDE = 110  # columns from which things stand side by side
_LEAST = 0.0005  # change of a share that counts
_LATE = 5.0  # usual intervals after which a checkpoint is late
_PATIENCE = 30.0  # seconds: nothing is late before
_VALUE = 28  # columns beside a sparkline
_LABEL = 12
_KEYS = "q quit   space hold"


@dataclass(frozen=True)
class View:
    """What is known besides the moments.

    Parameters
    ----------
    name : str
        What is watched.
    now : float
        The time, in seconds since 1970.
    width, height : int
        Size of the screen.
    held : bool
        Whether the picture stands still.
    trouble : str
        Why nothing new can be seen.

    Examples
    --------
    >>> from scstream.cli.frame import View
    >>> View("checkpoints", now=0.0, width=80, height=24).held
    False
    """

    name: str
    now: float
    width: int
    height: int
    held: bool = False
    trouble: str = ""
    keys: bool = True


def frame(history: History, view: View) -> list[Text]:
    """Return the lines of a frame, none of them longer and not more of them than there is room.

    Examples
    --------
    >>> from scstream.cli.frame import View, frame
    >>> from scstream.cli.moments import History, Moment
    >>> history = History()
    >>> history.add(Moment(at=0.0, learned=0.0, version=7, batch=300, n_clusters=2, rows=900))
    >>> lines = frame(history, View("state", now=4.0, width=60, height=10))
    >>> print(lines[1].plain)
    900 rows   batch 300   K 2
    """
    if not history.moments:
        return [_title(None, view), Text(view.trouble or "waiting for the first checkpoint ...")]
    top = [_title(history, view), _counts(history, view), _saved(history, view), Text()]
    trends = _trends(history, view)
    left = view.height - len(top) - len(trends) - 1 - int(view.keys)
    lines = [*top, *trends, Text(), *_body(history, view, max(left, 3))]
    if view.keys:
        room = max(view.height - 1, 0)
        lines = [*lines[:room], *([Text()] * (room - len(lines))), Text(_KEYS, style=QUIET)]
    for line in lines:
        line.truncate(view.width, overflow="ellipsis")
    return lines[: view.height]


def _title(history: History | None, view: View) -> Text:
    job = printable(history.newest.job) if history else ""
    left = Text.assemble(("scstream top", "bold"), (f"  {job}".rstrip(), f"bold {UP}"))
    clock = datetime.fromtimestamp(view.now).strftime("%H:%M:%S")
    state = "held" if view.held else clock
    right = Text.assemble((f"{view.name}  ", QUIET), (state, DOWN if view.held else ""))
    return _apart(left, right, view.width)


def _counts(history: History, view: View) -> Text:
    newest = history.newest
    parts: list[tuple[str, str]] = []
    if newest.rows is not None:
        parts.append((f"{newest.rows:,} rows", "bold"))
    if newest.asked is not None:
        parts.append((f"asked about {newest.asked:,}", "bold"))
    if math.isfinite(history.rate):
        parts.append((f"{history.rate:,.0f}/s", BAR))
    parts += [(f"batch {newest.batch:,}", ""), (f"K {newest.n_clusters:,}", f"bold {UP}")]
    if newest.rejected:
        parts.append((f"rejected {newest.rejected:,}", ALARM))
    return Text("   ").join(Text(words, style=style) for words, style in parts)


def _saved(history: History, view: View) -> Text:
    newest = history.newest
    age, usual = max(view.now - newest.learned, 0.0), history.interval
    late = age > max(_PATIENCE, _LATE * usual) if math.isfinite(usual) else False
    words = f"version {newest.version:,}"
    if newest.learned > 0:  # a model file of the estimator does not say when
        words += f", learned {duration(age)} ago"
    if usual >= 0.1:
        words += f", usually every {duration(usual)}"
    if newest.n_bytes is not None:
        words += f", {size(newest.n_bytes)}"
    if view.trouble:
        return Text(view.trouble, style=ALARM)
    return Text.assemble((words, QUIET), ("   late: is it running?" * late, ALARM))


def _trends(history: History, view: View) -> list[Text]:
    moments = history.moments
    rows: list[tuple[str, Sequence[float], str, Callable[[float], str]]] = [
        ("clusters", [float(m.n_clusters) for m in moments], UP, lambda v: f"{v:,.0f}"),
        ("novelty", [m.novelty for m in moments], DOWN, lambda v: f"{v:.1%}"),
        ("log density", [m.log_density for m in moments], BAR, _short),
        ("rows/s", history.rates, "", _short),
    ]
    if view.height < 16:
        rows = rows[1:3]
    return [_trend(*row, width=view.width) for row in rows]


def _trend(
    label: str, values: Sequence[float], style: str, shown: Callable[[float], str], *, width: int
) -> Text:
    room = max(width - _LABEL - _VALUE, 4)
    known = [value for value in list(values)[-room:] if math.isfinite(value)]
    newest = shown(values[-1]) if values and math.isfinite(values[-1]) else "-"
    extent = f"{shown(min(known))} to {shown(max(known))}" if known else ""
    return Text.assemble(
        (f"{label:<{_LABEL}}", QUIET),
        (strokes().spark(values, room), style),
        f" {newest:>8}",
        (f"  {extent}", QUIET),
    )


def _short(value: float) -> str:
    """A number in few characters."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= unit:
            return f"{value / (1e3 if name == 'k' else unit):.3g}{name}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _body(history: History, view: View, height: int) -> list[Text]:
    if view.width >= _WIDE:
        width = view.width * 3 // 5
        left = _clusters(history, width - 3, height)
        right = _events(history, height)
        right += [Text()] * (len(left) - len(right))
        left += [Text()] * (len(right) - len(left))
        return [_beside(a, b, width) for a, b in zip(left, right, strict=True)]
    n_events = min(len(history.newest.events), max(height // 3, 1)) if height > 5 else 0
    head = n_events + 2 if n_events else 0
    lines = _clusters(history, view.width, height - head)
    return [*lines, Text(), *_events(history, n_events + 1)] if n_events else lines


def _clusters(history: History, width: int, height: int) -> list[Text]:
    listed = history.newest.clusters
    room = max(height - 1, 1)
    more = len(listed) - room
    shown = listed[: room - 1] if more > 0 else listed
    bar = max(width - 44, 6)
    heading = f"{'cluster':>8} {'share':>7}  {'':<{bar}} {'change':>9} {'weight':>8} {'quiet':>6}"
    lines = [Text(heading, style="bold")]
    max_n = max((heavy.share for heavy in listed), default=0.0) or 1.0
    changes = history.changes
    lines += [_cluster(heavy, changes[heavy.id], bar=bar, max_n=max_n) for heavy in shown]
    if more > 0:
        rest = listed[room - 1 :]
        share = sum(heavy.share for heavy in rest)
        lines.append(Text(f"{'others':>8} {share:>7.1%}  {len(rest):,} clusters", style=QUIET))
    return lines


def _cluster(heavy: Heavy, change: float | None, *, bar: int, max_n: float) -> Text:
    style = style_of(change, least=_LEAST)
    arrow = strokes().arrow(change, least=_LEAST)
    words = "new" if change is None else f"{change * 100:+.1f}" if abs(change) >= _LEAST else ""
    return Text.assemble(
        f"{heavy.id:>8} {heavy.share:>7.1%}  ",
        (strokes().bar(heavy.share / max_n, bar), BAR),
        (f" {words:>7} {arrow}", style),
        f" {heavy.weight:>8,.0f}",
        (f" {f'{heavy.quiet:.6g}' if heavy.quiet > 0 else '':>6}", QUIET),
    )


def _events(history: History, height: int) -> list[Text]:
    events = history.newest.events
    shown = list(reversed(events))[: max(height - 1, 0)]
    heading = f"{'time':>9}  {'event':<8}  {'cluster':<12}"
    return [Text(heading, style="bold"), *map(told, shown)]


def _apart(left: Text, right: Text, width: int) -> Text:
    gap = max(width - left.cell_len - right.cell_len, 2)
    return left + Text(" " * gap) + right


def _beside(left: Text, right: Text, width: int) -> Text:
    left = left.copy()
    left.truncate(width, pad=True)
    return left + Text("    ") + right
