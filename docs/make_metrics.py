"""Make reference/metrics.md from the catalogue: `python docs/make_metrics.py`."""

from __future__ import annotations

from pathlib import Path

from scstream.observe.catalogue import METRICS, OTHER, Described

PAGE = Path(__file__).with_name("reference") / "metrics.md"
HEAD = f"""# Metrics

Made by `python docs/make_metrics.py` from the code; do not edit.

`scstream run --metrics HOST:PORT` and `scstream serve` show these under `/metrics`, as Prometheus
reads them; `/healthz` says whether the process is there. [How to monitor](../howto/monitor.md) says
what to do with them.

- Metrics of a pipeline appear once it has started, those of a service once it has a model or was
  asked something. A value that is not known is absent, and never a zero.
- A label takes the values listed here, or `{OTHER}` for all others: whatever comes in, the number
  of series is bounded. Clusters appear by rank, never by id.
- Counters begin at zero with the process, also after a restart that goes on from a checkpoint.
- Times are in seconds, times of day in seconds since 1970.
"""
SIDES = {
    "both": (
        "Both",
        "Besides these there are the metrics of the process itself: "
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


def row(metric: Described) -> str:
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
