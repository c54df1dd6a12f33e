"""One frame of `scstream top`: lines that fit a screen of any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from scstream.cli import render
from scstream.cli.inspect_text import format_event
from scstream.cli.summary import ClusterSummary, History

_WIDE = 110  # columns from which clusters and events are side by side
_MIN_CHANGE = 0.0005  # of a share; smaller changes are not shown
_LATE_INTERVALS, _LATE_SECONDS = 5.0, 30.0  # a checkpoint is late after both
_LABEL_WIDTH, _VALUE_WIDTH = 12, 28  # columns beside a sparkline


@dataclass(frozen=True)
class View:
    """The screen, and what is shown besides the history."""

    name: str  # of the monitor
    now: float  # in seconds since 1970
    width: int
    height: int
    paused: bool = False
    error: str = ""  # why there is nothing new
    shows_keys: bool = True


def frame(history: History, view: View) -> list[Text]:
    """Return the lines of a frame, within the width and height of the view."""
    if not history.summaries:
        return [_title(None, view), Text(view.error or "waiting for the first checkpoint ...")]
    top = [_title(history, view), _counts(history), _version(history, view), Text()]
    trends = _trends(history, view)
    left = view.height - len(top) - len(trends) - 1 - int(view.shows_keys)
    lines = [*top, *trends, Text(), *_body(history, view, max(left, 3))]
    if view.shows_keys:
        n_lines = max(view.height - 1, 0)
        padding = [Text()] * (n_lines - len(lines))
        lines = [*lines[:n_lines], *padding, Text("q quit   space pause", style=render.DIM)]
    for line in lines:
        line.truncate(view.width, overflow="ellipsis")
    return lines[: view.height]


def _title(history: History | None, view: View) -> Text:
    job = render.printable(history.newest.job) if history else ""
    left = Text.assemble(("scstream top", "bold"), (f"  {job}".rstrip(), f"bold {render.UP}"))
    clock = datetime.fromtimestamp(view.now).strftime("%H:%M:%S")
    state = "paused" if view.paused else clock
    right = Text.assemble(
        (f"{view.name}  ", render.DIM), (state, render.DOWN if view.paused else "")
    )
    gap = max(view.width - left.cell_len - right.cell_len, 2)
    return left + Text(" " * gap) + right


def _counts(history: History) -> Text:
    newest = history.newest
    parts: list[tuple[str, str]] = []
    if newest.rows is not None:
        parts.append((f"{newest.rows:,} rows", "bold"))
    if newest.predicted is not None:
        parts.append((f"predicted {newest.predicted:,}", "bold"))
    if math.isfinite(history.rate):
        parts.append((f"{history.rate:,.0f}/s", render.BAR))
    parts += [(f"batch {newest.batch:,}", ""), (f"K {newest.n_clusters:,}", f"bold {render.UP}")]
    if newest.rejected:
        parts.append((f"rejected {newest.rejected:,}", render.ALARM))
    return Text("   ").join(Text(text, style=style) for text, style in parts)


def _version(history: History, view: View) -> Text:
    if view.error:
        return Text(view.error, style=render.ALARM)
    newest = history.newest
    age, interval = max(view.now - newest.learned, 0.0), history.interval
    is_late = math.isfinite(interval) and age > max(_LATE_SECONDS, _LATE_INTERVALS * interval)
    text = f"version {newest.version:,}"
    if newest.learned > 0:  # a model file of the estimator has no time
        text += f", learned {render.duration(age)} ago"
    if interval >= 0.1:
        text += f", usually every {render.duration(interval)}"
    if newest.n_bytes is not None:
        text += f", {render.format_size(newest.n_bytes)}"
    return Text.assemble((text, render.DIM), ("   late: is it running?" * is_late, render.ALARM))


def _trends(history: History, view: View) -> list[Text]:
    summaries = history.summaries
    rows: list[tuple[str, Sequence[float], str, Callable[[float], str]]] = [
        ("clusters", [float(s.n_clusters) for s in summaries], render.UP, lambda v: f"{v:,.0f}"),
        ("novelty", [s.novelty for s in summaries], render.DOWN, lambda v: f"{v:.1%}"),
        ("log density", [s.log_density for s in summaries], render.BAR, _short),
        ("rows/s", history.rates, "", _short),
    ]
    if view.height < 16:
        rows = rows[1:3]
    return [_trend(*row, width=view.width) for row in rows]


def _trend(
    label: str, values: Sequence[float], style: str, show: Callable[[float], str], *, width: int
) -> Text:
    n_lines = max(width - _LABEL_WIDTH - _VALUE_WIDTH, 4)
    finite = [value for value in list(values)[-n_lines:] if math.isfinite(value)]
    newest = show(values[-1]) if values and math.isfinite(values[-1]) else "-"
    extent = f"{show(min(finite))} to {show(max(finite))}" if finite else ""
    return Text.assemble(
        (f"{label:<{_LABEL_WIDTH}}", render.DIM),
        (render.symbols().sparkline(values, n_lines), style),
        f" {newest:>8}",
        (f"  {extent}", render.DIM),
    )


def _short(value: float) -> str:
    """Return a number in few characters."""
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
        return [_side_by_side(a, b, width) for a, b in zip(left, right, strict=True)]
    n_events = min(len(history.newest.events), max(height // 3, 1)) if height > 5 else 0
    head = n_events + 2 if n_events else 0
    lines = _clusters(history, view.width, height - head)
    return [*lines, Text(), *_events(history, n_events + 1)] if n_events else lines


def _clusters(history: History, width: int, height: int) -> list[Text]:
    clusters = history.newest.clusters
    n_lines = max(height - 1, 1)
    n_hidden = len(clusters) - n_lines
    shown = clusters[: n_lines - 1] if n_hidden > 0 else clusters
    bar = max(width - 44, 6)
    heading = f"{'cluster':>8} {'share':>7}  {'':<{bar}} {'change':>9} {'weight':>8} {'quiet':>6}"
    lines = [Text(heading, style="bold")]
    largest = max((cluster.share for cluster in clusters), default=0.0) or 1.0
    changes = history.changes
    lines += [_cluster(each, changes[each.id], bar=bar, largest=largest) for each in shown]
    if n_hidden > 0:
        hidden = clusters[n_lines - 1 :]
        share = sum(cluster.share for cluster in hidden)
        lines.append(
            Text(f"{'others':>8} {share:>7.1%}  {len(hidden):,} clusters", style=render.DIM)
        )
    return lines


def _cluster(cluster: ClusterSummary, change: float | None, *, bar: int, largest: float) -> Text:
    style = render.change_style(change, threshold=_MIN_CHANGE)
    arrow = render.symbols().arrow(change, threshold=_MIN_CHANGE)
    text = "new" if change is None else f"{change * 100:+.1f}" * (abs(change) >= _MIN_CHANGE)
    return Text.assemble(
        f"{cluster.id:>8} {cluster.share:>7.1%}  ",
        (render.symbols().bar(cluster.share / largest, bar), render.BAR),
        (f" {text:>7} {arrow}", style),
        f" {cluster.weight:>8,.0f}",
        (f" {f'{cluster.quiet:.6g}' if cluster.quiet > 0 else '':>6}", render.DIM),
        f"  {render.printable(cluster.name)}" if cluster.name else "",
    )


def _events(history: History, height: int) -> list[Text]:
    shown = list(reversed(history.newest.events))[: max(height - 1, 0)]
    heading = f"{'time':>9}  {'event':<8}  {'cluster':<12}"
    return [Text(heading, style="bold"), *map(format_event, shown)]


def _side_by_side(left: Text, right: Text, width: int) -> Text:
    left = left.copy()
    left.truncate(width, pad=True)
    return left + Text("    ") + right
