"""The text that `scstream inspect` prints."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scstream.cli import render
from scstream.cli.inspect import (
    check_health,
    cluster_events,
    cluster_table,
    deviations,
    find_cluster,
)
from scstream.cli.load import LoadedModel
from scstream.core.state import Event
from scstream.core.window import Box, Exponential
from scstream.families.base import Array, Labels
from scstream.io.clusters import ClusterTable
from scstream.io.tables import counted
from scstream.stream.batcher import Offsets

_MIN_DATE, _MAX_DATE = 1e8, 1e11  # numbers between them are taken for seconds since 1970
_BAR_WIDTH = 16
_EVENT_STYLES = {
    "born": render.UP,
    "returned": render.UP,
    "died": render.DOWN,
    "split": "",
    "merged": "",
}
_N_NAMED = 2  # features named per cluster in the table
_UNUSUAL = 0.5  # stds from the overall mean; smaller deviations are not reported


def print_model(loaded: LoadedModel, *, max_n: int) -> None:
    """Print a model: its settings, heaviest clusters, newest events and health."""
    table = cluster_table(loaded)
    order = np.argsort(-table.weight, kind="stable")
    out = render.console()
    render.print_facts(out, _model_facts(loaded))
    render.print_heading(out, f"clusters, {_some(max_n, len(table), 'heaviest')}")
    render.print_wide(out, _cluster_rows(table, order[:max_n]))
    _print_events(out, loaded.model.events, max_n)
    render.print_heading(out, "health")
    findings = check_health(loaded)
    render.print_facts(
        out, [(f.about, Text(f.detail, style=render.LEVELS.get(f.level, ""))) for f in findings]
    )


def print_cluster(loaded: LoadedModel, cluster: int, *, max_n: int) -> None:
    """Print one cluster: its most unusual features and its events."""
    table = cluster_table(loaded)
    k = find_cluster(table, cluster)
    distance, mean, _ = deviations(table)
    out = render.console()
    born, last = format_time(table.born[k]), format_time(table.last_seen[k])
    name = loaded.model.names.get(cluster)
    facts = [
        ("cluster", f"{cluster} of {loaded.place}"),
        *([] if name is None else [("name", render.printable(name))]),
        ("share", f"{table.share[k]:.1%}, the weight of {table.weight[k]:,.1f} rows"),
        ("born", f"at time {born}, last row at {last}"),
    ]
    render.print_facts(out, facts)
    order = np.argsort(-np.abs(distance[k]), kind="stable")
    render.print_heading(out, f"features, {_some(max_n, len(order), 'most unusual')}")
    render.print_wide(out, _feature_rows(table, k, order[:max_n], distance=distance[k], mean=mean))
    events = cluster_events(loaded, cluster)
    if events:
        _print_events(out, events, max_n)


def _print_events(out: Console, events: Sequence[Event], max_n: int) -> None:
    render.print_heading(out, f"events, {_some(max_n, len(events), 'newest')}")
    for event in reversed(events[-max_n:]):
        out.print(format_event(event), soft_wrap=True)


def format_time(time: float) -> str:
    """Return a time of a model as a date if it is plausible as one, else as a number."""
    if not _MIN_DATE <= time < _MAX_DATE:
        return f"{time:g}"
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")


def format_event(event: Event) -> Text:
    """Return an event as one line."""
    into = render.symbols().into
    ids = {
        "split": f"{event.id} {into} {event.id}, {event.other}",
        "merged": f"{event.other} {into} {event.id}",
    }.get(event.kind, str(event.id))
    return Text.assemble(
        (f"{format_time(event.time):>9}  ", render.DIM),
        (f"{event.kind:<8}", _EVENT_STYLES.get(event.kind, "")),
        f"  {ids:<12}",
        (f" weight {event.weight:,.0f}", render.DIM),
        "" if event.name is None else f"  {render.printable(event.name)}",
        ("" if event.author is None else f"  by {render.printable(event.author)}", render.DIM),
    )


def _model_facts(loaded: LoadedModel) -> Iterator[tuple[str, str]]:
    model, progress = loaded.model, loaded.progress
    state, config = model.state, model.config
    features = model.settings.feature_names
    version = f", version {loaded.version.version}" if loaded.is_checkpoint else ""
    size = render.format_size(loaded.n_bytes)
    yield "model", f"{loaded.place}{version}, {size}, by scstream {loaded.writer}"
    named = f": {', '.join(features[:8])}{', ...' if len(features) > 8 else ''}" if features else ""
    n_features = model.family.n_features
    yield "family", f"{model.family.name}, {counted(n_features, 'feature')}{named}"
    if model.choice is not None:
        yield "choice", model.why
    rows = f"{counted(progress.rows, 'row')} in " if progress and progress.rows else ""
    refused = f", {progress.rejected:,} refused" if progress and progress.rejected else ""
    batches = counted(state.n_batches, "batch")
    yield "learned", f"{rows}{batches}, up to time {format_time(state.time)}{refused}"
    groups = counted(len(model.groups()), "group")
    yield "levels", f"{groups} of {counted(state.n_clusters, 'cluster')}"
    density = model.info.mean_log_density
    if math.isfinite(density):
        yield "last batch", f"mean log density {density:.4g}, {model.info.n_novel} novel rows"
    yield "memory", f"{_format_window(config.kernel)}, alpha {config.alpha:g}, seed {config.seed}"
    for number, step in enumerate(loaded.version.steps.options(), 1):
        options = (f"{name} {value}" for name, value in step.items() if name != "step")
        yield f"step {number}", f"{step['step']}: {', '.join(options)}"
    if progress:
        age = render.duration(max(time.time() - loaded.version.at, 0.0))
        yield "pipeline", f"job {progress.job}, {age} ago, before batch {progress.batch:,}"
        yield from (("position", text) for text in _format_offsets(progress.offsets))


def _format_window(kernel: Any) -> str:
    if isinstance(kernel, Exponential):
        never = kernel.half_life is None or math.isinf(kernel.half_life)
        return "never forgets" if never else f"half-life {kernel.half_life:g}"
    return f"window of {kernel.length:g}" if isinstance(kernel, Box) else "a kernel of its own"


def _format_offsets(offsets: Offsets) -> Iterator[str]:
    for partition, offset in offsets.items():
        position, row = offset.position, offset.row
        parts = position if isinstance(position, dict) else {"": position}
        texts = [
            f"{name} {value}".lstrip() for name, value in parts.items() if name != "fingerprint"
        ]
        texts += [f"row {row}"] * bool(row)
        yield (f"{partition}: " if partition else "") + ", ".join(texts)


def _cluster_rows(table: ClusterTable, order: Labels) -> Table:
    name = ["name"] * bool(table.names)
    columns = ("id", *name, "share", "", "weight", "born", "seen", "unlike the others")
    drawn = render.plain_table(columns, right=("id", "share", "weight", "born", "seen"))
    distance, _, _ = deviations(table)
    largest = float(table.share.max(initial=0.0)) or 1.0
    for k in order:
        drawn.add_row(
            str(table.id[k]),
            *(render.printable(table.names.get(int(table.id[k]), "")) for _ in name),
            f"{table.share[k]:.1%}",
            Text(render.symbols().bar(table.share[k] / largest, _BAR_WIDTH), style=render.BAR),
            f"{table.weight[k]:,.0f}",
            format_time(table.born[k]),
            format_time(table.last_seen[k]),
            Text(_unusual_features(table.feature_names, distance[k]), style=render.DIM),
        )
    return drawn


def _unusual_features(feature_names: Sequence[str], distance: Array) -> str:
    order = np.argsort(-np.abs(distance), kind="stable")
    unusual = [d for d in order if abs(distance[d]) >= _UNUSUAL]
    return ", ".join(
        f"{render.printable(feature_names[d])} {distance[d]:+.1f} sd" for d in unusual[:_N_NAMED]
    )


def _feature_rows(
    table: ClusterTable, k: int, order: Labels, *, distance: Array, mean: Array
) -> Table:
    numbers = ("mean", "std", "mean of all")
    drawn = render.plain_table(("feature", "unusual", "", *numbers), right=("unusual", *numbers))
    largest = float(np.abs(distance).max(initial=0.0)) or 1.0
    for d in order:
        style = render.change_style(float(distance[d]), threshold=_UNUSUAL)
        drawn.add_row(
            Text(render.printable(table.feature_names[d])),
            Text(f"{distance[d]:+.2f} sd", style=style),
            Text(render.symbols().bar(abs(distance[d]) / largest, _BAR_WIDTH), style=style),
            f"{table.mean[k, d]:.4g}",
            f"{table.std[k, d]:.4g}",
            f"{mean[d]:.4g}",
        )
    return drawn


def _some(n: int, of: int, which: str) -> str:
    return f"all {of:,}" if n >= of else f"the {n:,} {which} of {of:,}"
