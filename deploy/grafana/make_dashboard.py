"""Make the dashboard: `python deploy/grafana/make_dashboard.py` writes dashboards/scstream.json.

Panels are built with Grafana's own SDK, whose types are those of its schema; a test compares the
committed file with what is made here, and every name in a query with the metrics of scstream.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from grafana_foundation_sdk.builders import common, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as board
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    DataSourceRef,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    VariableHide,
    VariableModel,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

FILE = Path(__file__).with_name("dashboards") / "scstream.json"
SOURCE = DataSourceRef(type_val="prometheus", uid="$datasource")
# A colour-blind reader tells these apart, and "good" and "bad" are never said by colour alone.
GOOD, CAREFUL, BAD = "#4477aa", "#ddaa33", "#bb5566"

Query = tuple[str, str]  # expression and legend
Steps = tuple[float, float]  # from where a number wants care, and from where it is bad


def main() -> None:
    """Write the file."""
    FILE.write_text(content(), encoding="utf-8")


def content() -> str:
    """Return the dashboard as JSON."""
    return json.dumps(dashboard(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    builder = (
        board.Dashboard("scstream")
        .uid("scstream")
        .description("Pipelines that cluster streams, and the services that answer from them.")
        .tags(["scstream"])
        .time("now-3h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .variables(variables())
    )
    ids = count(1)
    for title, panels in rows():
        builder = builder.with_row(board.Row(title).id(next(ids)))
        for panel in panels:
            builder = builder.with_panel(panel.id(next(ids)))
    return builder.build()


def variables() -> list[Builder[VariableModel]]:
    """Return the choices at the top: where numbers come from, and whose they are."""
    source = board.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    source = source.hide(VariableHide.DONT_HIDE)
    chosen = [
        ("pipeline", "Pipeline", "label_values(scstream_info, pipeline)"),
        ("instance", "Instance", 'label_values(scstream_info{pipeline=~"$pipeline"}, instance)'),
    ]
    choices = [
        board.QueryVariable(name)
        .label(label)
        .query({"query": query, "refId": name})
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        for name, label, query in chosen
    ]
    return [source, *choices]


Panels = list[stat.Panel | timeseries.Panel | table.Panel]


def rows() -> list[tuple[str, Panels]]:
    """Return the panels, in rows with titles."""
    return [
        ("At a glance", glance()),
        ("Pipeline", pipeline()),
        ("Model", model()),
        ("Service", service()),
        ("Process", machine()),
    ]


def glance() -> Panels:
    """Return the numbers to look at first."""
    return [
        number("Pipelines up", 'sum(up{job="scstream-run", OURS})', "short"),
        number("Rows per second", "sum(scstream:rows:rate5m{OURS})", "rowsps"),
        number("Lag", "sum(scstream_lag_messages{OURS})", "short", steps=(1_000, 10_000)),
        number("Clusters", "sum(scstream_clusters{OURS})", "short"),
        number("Not in a checkpoint", "max(scstream:uncommitted:seconds{OURS})", "s", (120, 600)),
        number(
            "Rows refused", "max(scstream:rejected:share10m{OURS})", "percentunit", (0.01, 0.05)
        ),
        number(
            "Rows of no cluster", "max(scstream:novel:share10m{OURS})", "percentunit", (0.1, 0.2)
        ),
        number(
            "Requests that fail",
            "max(scstream:requests_failed:share5m{OURS_PIPELINE})",
            "percentunit",
            (0.001, 0.01),
        ),
        firing(),
    ]


def pipeline() -> Panels:
    """Return how rows flow."""
    return [
        lines(
            "Rows",
            [
                ("scstream:rows:rate5m{OURS}", "{{instance}}"),
                ("rate(scstream_rejected_rows_total{OURS}[5m])", "{{instance}} refused"),
            ],
            "rowsps",
            "Rows that come in batches. Refused ones are among the dead letters.",
        ),
        lines(
            "Lag",
            [
                ("scstream_lag_messages{OURS}", "{{instance}} messages in the source"),
                ("scstream_buffered_rows{OURS}", "{{instance}} rows read"),
            ],
            "short",
            "What waits. A source that cannot tell has no line.",
        ),
        lines(
            "Time by phase",
            [
                (
                    "sum by (phase) (rate(scstream_phase_seconds_sum{OURS}[5m]))",
                    "{{phase}}",
                )
            ],
            "percentunit",
            "Share of the time: 100 % is one thread that does nothing else. A pipeline that keeps "
            "up waits for most of the time; flush, publish and prune are on a thread of their own.",
            stacked=True,
        ),
        lines(
            "Longest phases, p95",
            [
                (
                    "histogram_quantile(0.95, sum by (phase, le) "
                    "(rate(scstream_phase_seconds_bucket{OURS}[5m])))",
                    "{{phase}}",
                )
            ],
            "s",
            "One batch or checkpoint in twenty takes longer than this.",
        ),
        lines(
            "Checkpoints",
            [
                ("scstream:uncommitted:seconds{OURS}", "{{instance}} work that is in none"),
                (
                    "time() - scstream_checkpoint_timestamp_seconds{OURS}",
                    "{{instance}} age of the last",
                ),
            ],
            "s",
            "Age grows where nothing comes, and that is well; work that is in none must not grow.",
        ),
        lines(
            "Size of the last checkpoint",
            [("scstream_checkpoint_bytes{OURS}", "{{instance}}")],
            "bytes",
            "Grows with clusters times the square of the features.",
        ),
    ]


def model() -> Panels:
    """Return what the model finds."""
    return [
        lines(
            "Clusters",
            [
                ("scstream_clusters{OURS}", "{{instance}}"),
                ("scstream_max_clusters{OURS}", "{{instance}} limit"),
            ],
            "short",
            "K after each batch.",
        ),
        lines(
            "Births, splits, merges, deaths, returns",
            [
                (
                    "sum by (kind) (increase(scstream_events_total{OURS}[$__rate_interval]))",
                    "{{kind}}",
                )
            ],
            "short",
            "Changes of the set of clusters in each interval. Many births and many deaths at a "
            "time: the clusters are too short-lived for the stream.",
            stacked=True,
        ),
        lines(
            "Rows of no cluster",
            [("scstream:novel:share10m{OURS}", "{{instance}}")],
            "percentunit",
            "Novelty over ten minutes. A bump that is followed by a birth is the model at work.",
        ),
        lines(
            "Mean log density",
            [
                ("scstream_mean_log_density{OURS}", "{{instance}}"),
                ("scstream:log_density:mean10m{OURS}", "{{instance}} over ten minutes"),
            ],
            "none",
            "How well the rows fit, in nats per row. Its level means nothing by itself, it depends "
            "on units and on the number of columns; a change does.",
        ),
        lines(
            "Heaviest clusters",
            [("scstream_cluster_share{OURS}", "{{instance}} rank {{rank}}")],
            "percentunit",
            "Shares by rank, not by id: rank 1 may be another cluster than an hour ago.",
            stacked=True,
        ),
        lines(
            "Alerts of the pipeline itself",
            [
                (
                    "sum by (kind) (increase(scstream_alerts_total{OURS}[$__rate_interval]))",
                    "{{kind}}",
                )
            ],
            "short",
            "From the rules in [alerts] of the pipeline.",
            stacked=True,
        ),
    ]


def service() -> Panels:
    """Return who asks, and what for."""
    return [
        lines(
            "Requests",
            [("sum by (status) (rate(scstream_requests_total{OURS}[5m]))", "{{status}}")],
            "reqps",
            "By class of the status: 4xx is the client's fault, 5xx is ours.",
            stacked=True,
        ),
        lines(
            "Time of a prediction",
            [
                (
                    f"histogram_quantile({q}, sum by (le) "
                    '(rate(scstream_request_seconds_bucket{route="/predict", OURS}[5m])))',
                    f"p{round(100 * q)}",
                )
                for q in (0.5, 0.95, 0.99)
            ],
            "s",
            "From the request to the end of the answer.",
        ),
        lines(
            "Rows asked about",
            [
                ("sum(rate(scstream_predicted_rows_total{OURS}[5m]))", "rows"),
                ("sum(rate(scstream_predicted_novel_rows_total{OURS}[5m]))", "of no cluster"),
            ],
            "rowsps",
            "Rows in requests; nothing is learned from them.",
        ),
        lines(
            "Model in use",
            [
                (
                    "max by (pipeline) (scstream_checkpoint_timestamp_seconds{OURS_PIPELINE}) "
                    "- on (pipeline) group_right () scstream_model_timestamp_seconds{OURS}",
                    "{{instance}} behind",
                )
            ],
            "s",
            "How much older the model of a replica is than the last checkpoint.",
        ),
    ]


def machine() -> Panels:
    """Return what the processes take."""
    ours = "scstream-run|scstream-serve"
    return [
        lines(
            "Memory",
            [(f'process_resident_memory_bytes{{job=~"{ours}", OURS}}', "{{instance}}")],
            "bytes",
            "Resident. Flat for a given number of clusters, however many rows come.",
        ),
        lines(
            "Processor",
            [(f'rate(process_cpu_seconds_total{{job=~"{ours}", OURS}}[5m])', "{{instance}}")],
            "percentunit",
            "100 % is one core.",
        ),
        lines(
            "Open files",
            [(f'process_open_fds{{job=~"{ours}", OURS}}', "{{instance}}")],
            "short",
            "Files and connections.",
        ),
    ]


def number(title: str, query: str, unit: str, steps: Steps | None = None) -> stat.Panel:
    """Return one number, with colours where there is too much of it."""
    panel = (
        stat.Panel()
        .title(title)
        .datasource(SOURCE)
        .unit(unit)
        .height(4)
        .span(3)
        .graph_mode(BigValueGraphMode.AREA)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .no_value("none")
        .thresholds(levels(steps))
        .with_target(target(query, "", "A"))
    )
    return panel


def levels(steps: Steps | None) -> board.ThresholdsConfig:
    """Return from where on which colour holds."""
    marks = [Threshold(value=None, color=GOOD)]
    if steps is not None:
        marks += [Threshold(value=steps[0], color=CAREFUL), Threshold(value=steps[1], color=BAD)]
    return board.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(marks)


def lines(
    title: str, queries: Sequence[Query], unit: str, detail: str, *, stacked: bool = False
) -> timeseries.Panel:
    """Return numbers over time."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(detail)
        .datasource(SOURCE)
        .unit(unit)
        .height(8)
        .span(8)
        .fill_opacity(30 if stacked else 8)
        .color_scheme(board.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    )
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for letter, (query, legend) in zip("ABCDEFGH", queries, strict=False):
        panel = panel.with_target(target(query, legend, letter))
    return panel


def firing() -> table.Panel:
    """Return the alerts that are firing."""
    query = 'ALERTS{alertname=~"Scstream.*", alertstate="firing"}'
    return (
        table.Panel()
        .title("Firing alerts")
        .datasource(SOURCE)
        .height(5)
        .span(24)
        .no_value("none")
        .with_target(target(query, "", "A").instant().format(PromQueryFormat.TABLE))
    )


def target(query: str, legend: str, letter: str) -> Dataquery:
    """Return a query; OURS stands for what is chosen at the top."""
    here = 'pipeline=~"$pipeline"'
    query = query.replace("OURS_PIPELINE", here).replace("OURS", f'{here}, instance=~"$instance"')
    return Dataquery().expr(query).legend_format(legend).ref_id(letter)


if __name__ == "__main__":
    main()
