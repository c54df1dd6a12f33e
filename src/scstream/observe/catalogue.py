"""All metrics of scstream, with their meaning. Labels take values of fixed sets only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OTHER = "other"  # label value for all values that are not listed here
PHASES = ("wait", "embed", "learn", "deliver", "flush", "publish", "prune")
EVENTS = ("born", "split", "merged", "died", "returned")
EDITS = ("applied", "refused")
ALERTS = ("novelty", "rejected", "log_density", "born", "died")
QUOTAS = ("max_keys", "max_new_keys", "max_rows", "max_tenant_keys", "max_tenant_rows")
SINKS = ("labels", "dead_letters", "alerts", "events")
LOOKUPS = ("hit", "miss")
STATUSES = ("2xx", "3xx", "4xx", "5xx")
RANKS = tuple(str(rank) for rank in range(1, 11))
ROUTES = (
    "/",
    "/clusters",
    "/clusters/{id}",
    "/clusters/{id}/{action}",
    "/docs",
    "/docs.css",
    "/events",
    "/healthz",
    "/keys",
    "/learn",
    "/live",
    "/metrics",
    "/model",
    "/openapi.json",
    "/page/{name}",
    "/predict",
    "/readyz",
    "/undo",
)
_PHASE_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

Side = Literal["both", "pipeline", "service"]


@dataclass(frozen=True)
class MetricInfo:
    """The description of one metric.

    `side` says which command exports it; `labels` lists the values of each label except "other";
    `buckets` are the upper ends of the buckets of a histogram.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    side: Side = "pipeline"
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()


METRICS = (
    MetricInfo(
        "scstream_info",
        "gauge",
        "Always 1; the labels are the version of scstream and the kernels in use.",
        "both",
        {"version": (), "kernels": ()},
    ),
    MetricInfo("scstream_rows_total", "counter", "Rows in batches, including rejected rows."),
    MetricInfo(
        "scstream_rejected_rows_total",
        "counter",
        "Rows that could not be used; the dead letters contain them with the reasons.",
    ),
    MetricInfo(
        "scstream_future_rows_total",
        "counter",
        "Rejected rows whose event time is further ahead of the clock than batch.max_ahead.",
    ),
    MetricInfo(
        "scstream_over_quota_rows_total",
        "counter",
        "Rejected rows over a limit on keys, by option of the section [keys]; absent with one "
        "model.",
        labels={"option": QUOTAS},
    ),
    MetricInfo(
        "scstream_keys",
        "gauge",
        "Number of keys that have a model after the last batch; absent with one model.",
        "both",
    ),
    MetricInfo(
        "scstream_novel_rows_total",
        "counter",
        "Rows that belong to no cluster when their batch is learned.",
    ),
    MetricInfo("scstream_batches_total", "counter", "Batches learned."),
    MetricInfo(
        "scstream_phase_seconds",
        "histogram",
        "Duration of the phases of a batch (wait for rows, learn, deliver to the sinks) and of a "
        "checkpoint (flush the sinks, publish, acknowledge the source and prune).",
        labels={"phase": PHASES},
        buckets=_PHASE_SECONDS,
    ),
    MetricInfo("scstream_clusters", "gauge", "Number of clusters after the last batch."),
    MetricInfo(
        "scstream_max_clusters",
        "gauge",
        "Maximum number of clusters, model.max_clusters; absent with one model per key.",
    ),
    MetricInfo(
        "scstream_events_total",
        "counter",
        "Events of clusters: births, splits, merges, deaths, returns. Edits are not among them.",
        labels={"kind": EVENTS},
    ),
    MetricInfo(
        "scstream_mean_log_density",
        "gauge",
        "Mean log density of the rows of the last batch before they were learned.",
    ),
    MetricInfo(
        "scstream_screening_error",
        "gauge",
        "Share of the mixture that the candidates of rows missed, measured on some rows of the "
        "last batch that was screened; absent if none was.",
    ),
    MetricInfo(
        "scstream_lag_messages",
        "gauge",
        "Unread messages in the source, queried at most once per second; absent if the source "
        "does not know or does not answer.",
    ),
    MetricInfo(
        "scstream_source_connected",
        "gauge",
        "1 if the server of the source worked when it was used last, 0 during an outage; absent if "
        "the source has no server.",
    ),
    MetricInfo(
        "scstream_sink_connected",
        "gauge",
        "1 if the server of a sink worked when it was used last, 0 during an outage; absent for "
        "sinks without a server.",
        labels={"sink": SINKS},
    ),
    MetricInfo(
        "scstream_buffered_rows", "gauge", "Rows that were read but are not yet in a batch."
    ),
    MetricInfo(
        "scstream_last_batch_timestamp_seconds",
        "gauge",
        "Time at which the last batch ended.",
    ),
    MetricInfo(
        "scstream_checkpoint_timestamp_seconds",
        "gauge",
        "Time of the state in the last checkpoint.",
    ),
    MetricInfo("scstream_checkpoint_bytes", "gauge", "Size of the last checkpoint."),
    MetricInfo("scstream_checkpoint_version", "gauge", "Version of the last checkpoint."),
    MetricInfo(
        "scstream_alerts_total",
        "counter",
        "Alerts of the rules in the section [alerts].",
        labels={"kind": ALERTS},
    ),
    MetricInfo(
        "scstream_source_gaps_total", "counter", "Gaps in the source accepted by --accept-gap."
    ),
    MetricInfo(
        "scstream_cluster_share",
        "gauge",
        "Share of the total weight of the largest cluster, the second largest, and so on. The "
        "label is a rank and not an id, because ids are unbounded.",
        "both",
        {"rank": RANKS},
    ),
    MetricInfo(
        "scstream_named_cluster_share",
        "gauge",
        "Share of the total weight of each cluster that people gave a name. Only the 20 largest of "
        "them are exported.",
        "both",
        {"name": ()},
    ),
    MetricInfo(
        "scstream_edits_total",
        "counter",
        "Edits by people.",
        "both",
        {"result": EDITS},
    ),
    MetricInfo(
        "scstream_damaged_checkpoints_total",
        "counter",
        "Damaged checkpoints that were skipped.",
        "both",
    ),
    MetricInfo(
        "scstream_lease_held",
        "gauge",
        "1 if this instance has the lease of the pipeline, 0 while it waits as a standby; absent "
        "without checkpoint.lease.",
    ),
    MetricInfo(
        "scstream_heartbeat_age_seconds",
        "gauge",
        "Seconds since the service saw the pipeline renew its lease, by the clock of the service; "
        "absent without checkpoint.lease, and until a renewal was seen.",
        "service",
    ),
    MetricInfo(
        "scstream_requests_total",
        "counter",
        "Responses sent.",
        "service",
        {"route": ROUTES, "status": STATUSES},
    ),
    MetricInfo(
        "scstream_request_seconds",
        "histogram",
        "Time from a request to the end of its response.",
        "service",
        {"route": ROUTES},
        _REQUEST_SECONDS,
    ),
    MetricInfo(
        "scstream_predicted_rows_total", "counter", "Rows in prediction requests.", "service"
    ),
    MetricInfo(
        "scstream_predicted_novel_rows_total",
        "counter",
        "Rows in prediction requests that belong to no cluster.",
        "service",
    ),
    MetricInfo("scstream_model_version", "gauge", "Version of the checkpoint in use.", "service"),
    MetricInfo(
        "scstream_model_batch",
        "gauge",
        "Number of batches that the model in use has learned.",
        "service",
    ),
    MetricInfo(
        "scstream_model_timestamp_seconds",
        "gauge",
        "Time at which the model in use was learned, by the clock of the pipeline.",
        "service",
    ),
    MetricInfo(
        "scstream_model_clusters",
        "gauge",
        "Number of clusters of the model in use, or of the models of all keys.",
        "service",
    ),
    MetricInfo(
        "scstream_key_lookups_total",
        "counter",
        "Models of keys that requests needed: found in memory (hit), or read from the store "
        "(miss); absent with one model.",
        "service",
        {"result": LOOKUPS},
    ),
    MetricInfo(
        "scstream_key_memory_bytes",
        "gauge",
        "Bytes of the models of keys in memory; absent with one model.",
        "service",
    ),
)
