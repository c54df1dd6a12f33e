"""Make reference/metrics.md from the catalogue: `python docs/make_metrics.py`."""

from __future__ import annotations

from pathlib import Path

from scstream.observe.catalogue import METRICS, OTHER, MetricInfo

PAGE = Path(__file__).with_name("reference") / "metrics.md"
HEAD = f"""# Metrics

Made by `python docs/make_metrics.py` from the code; do not edit.

`scstream run --metrics HOST:PORT` and `scstream serve` export these metrics under `/metrics` in the
text format of Prometheus. [Monitor a pipeline](../howto/monitor.md) shows how to use them.

- Metrics of a pipeline appear once it has started, those of a service once it has a model or a
  request. An unknown value is absent, never zero.
- A label takes the values listed here, or `{OTHER}` for all others, so the number of series is
  bounded. Clusters are labelled by rank, never by id.
- Counters start at zero with the process, also after a restart from a checkpoint.
- Durations are in seconds, timestamps in seconds since 1970.
"""
SIDES = {
    "both": (
        "Both",
        "The metrics of the process are exported too: "
        "`process_resident_memory_bytes`, `process_virtual_memory_bytes`, "
        "`process_cpu_seconds_total`, `process_open_fds`, `process_max_fds` and "
        "`process_start_time_seconds`.",
    ),
    "pipeline": ("Pipelines", "Of `scstream run`."),
    "service": ("Services", "Of `scstream serve`, and of `scstream run --serve`."),
}


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for side, (title, detail) in SIDES.items():
        rows = [row(metric) for metric in METRICS if metric.side == side]
        table = ["| metric | type | labels | meaning |", "|---|---|---|---|", *rows]
        parts.append(f"## {title}\n\n{detail}\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


def row(metric: MetricInfo) -> str:
    """Return one line of a table."""
    labels = "; ".join(label(name, values) for name, values in metric.labels.items())
    meaning = metric.meaning
    if metric.buckets:
        meaning += f" Buckets end at {', '.join(f'{end:g}' for end in metric.buckets)} s."
    return f"| `{metric.name}` | {metric.kind} | {labels} | {meaning} |"


def label(name: str, values: tuple[str, ...]) -> str:
    """Return a label and its values."""
    listed = ", ".join(f"`{value}`" for value in values)
    return f"`{name}`: {listed}" if values else f"`{name}`"


if __name__ == "__main__":
    main()
