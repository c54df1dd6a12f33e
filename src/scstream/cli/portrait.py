"""The picture of a model that `scstream inspect` prints."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from scstream.cli.inspecting import events_of, health, place_of, table_of, unusual
from scstream.cli.opened import Opened
from scstream.cli.show import console, duration, size
from scstream.cli.sketch import facts_of, headed, mark, print_drawing, share_bar
from scstream.cli.strokes import DOWN, QUIET, UP, printable, strokes, style_of
from scstream.core.state import Event
from scstream.core.window import Box, Exponential
from scstream.errors import missing_extra
from scstream.families.base import Array, Labels
from scstream.io.clusters import ClusterTable
from scstream.stream.batcher import Offsets

try:
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise missing_extra("rich", "cli") from error

_FIRST_DATE, _LAST_DATE = 1e8, 1e11  # numbers between them are taken for seconds since 1970
_BAR = 16  # cells
_KINDS = {"born": UP, "returned": UP, "died": DOWN, "split": "", "merged": ""}
_NAMED = 2  # features that tell a cluster from the others, in the table
_TELLING = 0.5  # spreads from the mean of all, below which a feature tells nothing


def show_model(opened: Opened, *, max_n: int) -> None:
    """Print what a model is.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.portrait import show_model
    >>> from scstream.cli.opened import Opened
    >>> from scstream.model import Settings
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> opened = Opened(
    ...     "m", ModelVersion(0, 1, 0.0, None, model, Steps()), 900, "0.1.0", kept=False
    ... )
    >>> show_model(opened, max_n=5)
    model       m, 900 B, by scstream 0.1.0
    family      gaussian, 1 feature
    ...
    """
    table = table_of(opened)
    order = np.argsort(-table.weight, kind="stable")
    out = console()
    facts_of(out, _head(opened))
    headed(out, f"clusters, {_some(min(max_n, len(table)), len(table), 'heaviest')}")
    print_drawing(out, _clusters(table, order[:max_n]))
    events = opened.reading.model.events
    headed(out, f"events, {_some(min(max_n, len(events)), len(events), 'newest')}")
    for event in reversed(events[-max_n:]):
        out.print(told(event), soft_wrap=True)
    headed(out, "health")
    facts_of(out, [(f.about, Text(f.detail, style=mark(f.level))) for f in health(opened)])


def show_cluster(opened: Opened, cluster: int, *, max_n: int) -> None:
    """Print what is unusual about one cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.portrait import show_cluster
    >>> from scstream.cli.opened import Opened
    >>> from scstream.model import Settings
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> opened = Opened(
    ...     "m", ModelVersion(0, 1, 0.0, None, model, Steps()), 900, "0.1.0", kept=False
    ... )
    >>> show_cluster(opened, 0, max_n=5)
    cluster     0 of m
    ...
    """
    table = table_of(opened)
    k = place_of(table, cluster)
    far, centre, _ = unusual(table)
    out = console()
    facts_of(
        out,
        [
            ("cluster", f"{cluster} of {opened.place}"),
            ("share", f"{table.share[k]:.1%}, the weight of {table.weight[k]:,.1f} rows"),
            ("born", f"at time {when(table.born[k])}, last row at {when(table.last_seen[k])}"),
        ],
    )
    order = np.argsort(-np.abs(far[k]), kind="stable")
    headed(out, f"features, {_some(min(max_n, len(order)), len(order), 'most unusual')}")
    print_drawing(out, _features(table, k, order[:max_n], far=far[k], centre=centre))
    events = events_of(opened, cluster)
    if events:
        headed(out, "events")
    for event in reversed(events[-max_n:]):
        out.print(told(event), soft_wrap=True)


def when(time: float) -> str:
    """Return a time of a model: a date if it can be one, else the number that it is.

    Examples
    --------
    >>> from scstream.cli.portrait import when
    >>> when(12.0), when(1_790_000_000.0)
    ('12', '2026-09-21 14:13:20')
    """
    if not _FIRST_DATE <= time < _LAST_DATE:
        return f"{time:g}"
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")


def told(event: Event) -> Text:
    """Return an event as a line.

    Examples
    --------
    >>> from scstream.cli.portrait import told
    >>> from scstream.core.state import Event
    >>> told(Event("born", 12.0, 3, 80.0)).plain
    '       12  born      3            weight 80'
    """
    into = strokes().into
    who = {
        "split": f"{event.id} {into} {event.id}, {event.other}",
        "merged": f"{event.other} {into} {event.id}",
    }.get(event.kind, str(event.id))
    return Text.assemble(
        (f"{when(event.time):>9}  ", QUIET),
        (f"{event.kind:<8}", _KINDS[event.kind]),
        f"  {who:<12}",
        (f" weight {event.weight:,.0f}", QUIET),
    )


def _head(opened: Opened) -> Iterator[tuple[str, str]]:
    snapshot, progress = opened.reading.model, opened.progress
    state, config = snapshot.state, snapshot.config
    names = snapshot.settings.feature_names
    kept = f", version {opened.reading.version}" if opened.kept else ""
    yield "model", f"{opened.place}{kept}, {size(opened.n_bytes)}, by scstream {opened.writer}"
    named = f": {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ""
    n_features = snapshot.family.n_features
    yield "family", f"{snapshot.family.name}, {_counted(n_features, 'feature')}{named}"
    rows = f"{_counted(progress.rows, 'row')} in " if progress and progress.rows else ""
    refused = f", {progress.rejected:,} refused" if progress and progress.rejected else ""
    batches = _counted(state.n_batches, "batch")
    yield "learned", f"{rows}{batches}, up to time {when(state.time)}{refused}"
    density = snapshot.info.mean_log_density
    if math.isfinite(density):
        yield "last batch", f"mean log density {density:.4g}, {snapshot.info.n_novel} novel rows"
    yield "memory", f"{_memory(config.kernel)}, alpha {config.alpha:g}, seed {config.seed}"
    for number, step in enumerate(opened.reading.steps.options(), 1):
        chosen = (f"{name} {value}" for name, value in step.items() if name != "step")
        yield f"step {number}", f"{step['step']}: {', '.join(chosen)}"
    if progress:
        age = duration(max(time.time() - opened.reading.at, 0.0))
        yield (
            "pipeline",
            f"job {progress.job}, {age} ago, before batch {progress.batch:,}",
        )
        yield from (("position", words) for words in _positions(progress.offsets))


def _memory(kernel: Any) -> str:
    if isinstance(kernel, Exponential):
        never = kernel.half_life is None or math.isinf(kernel.half_life)
        return "never forgets" if never else f"half-life {kernel.half_life:g}"
    return f"window of {kernel.length:g}" if isinstance(kernel, Box) else "a kernel of its own"


def _positions(offsets: Offsets) -> Iterator[str]:
    for partition, offset in offsets.items():
        position, row = offset.position, offset.row
        parts = position if isinstance(position, dict) else {"": position}
        words = [f"{name} {value}".lstrip() for name, value in parts.items() if name != "mark"]
        words += [f"row {row}"] * bool(row)
        yield (f"{partition}: " if partition else "") + ", ".join(words)


def _clusters(table: ClusterTable, order: Labels) -> Table:
    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("id", "share", "", "weight", "born", "seen"):
        drawn.add_column(name, justify="left" if not name else "right", no_wrap=True)
    drawn.add_column("unlike the others", overflow="fold")
    far, _, _ = unusual(table)
    max_n = float(table.share.max(initial=0.0))
    for k in order:
        drawn.add_row(
            str(table.id[k]),
            f"{table.share[k]:.1%}",
            share_bar(table.share[k] / max_n if max_n else 0.0, _BAR),
            f"{table.weight[k]:,.0f}",
            when(table.born[k]),
            when(table.last_seen[k]),
            Text(_unlike(table.feature_names, far[k]), style=QUIET),
        )
    return drawn


def _unlike(names: Sequence[str], far: Array) -> str:
    telling = [d for d in np.argsort(-np.abs(far), kind="stable") if abs(far[d]) >= _TELLING]
    return ", ".join(f"{printable(names[d])} {far[d]:+.1f} sd" for d in telling[:_NAMED])


def _features(table: ClusterTable, k: int, order: Labels, *, far: Array, centre: Array) -> Table:
    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("feature", "unusual", "", "mean", "std", "mean of all"):
        drawn.add_column(name, justify="left" if name in ("feature", "") else "right", no_wrap=True)
    max_n = float(np.abs(far).max(initial=0.0)) or 1.0
    for d in order:
        style = style_of(float(far[d]), least=_TELLING)
        drawn.add_row(
            Text(printable(table.feature_names[d])),
            Text(f"{far[d]:+.2f} sd", style=style),
            Text(strokes().bar(abs(far[d]) / max_n, _BAR), style=style),
            f"{table.mean[k, d]:.4g}",
            f"{table.std[k, d]:.4g}",
            f"{centre[d]:.4g}",
        )
    return drawn


def _counted(n: int, what: str) -> str:
    plural = "" if n == 1 else "es" if what.endswith("ch") else "s"
    return f"{n:,} {what}{plural}"


def _some(n: int, of: int, which: str) -> str:
    return f"all {of:,}" if n == of else f"the {n:,} {which} of {of:,}"
