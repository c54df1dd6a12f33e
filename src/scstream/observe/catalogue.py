"""Every metric that scstream shows, with what it means; labels take values of fixed sets only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OTHER = "other"  # stands for every value of a label that is not listed here
PHASES = ("wait", "learn", "deliver", "flush", "publish", "prune")
EVENTS = ("born", "split", "merged", "died", "returned")
ALERTS = ("novelty", "rejected", "log_density", "born", "died")
STATUSES = ("2xx", "3xx", "4xx", "5xx")
RANKS = tuple(str(rank) for rank in range(1, 11))
ROUTES = (
    "/",
    "/clusters",
    "/clusters/{id}",
    "/docs",
    "/docs.css",
    "/events",
    "/healthz",
    "/learn",
    "/live",
    "/metrics",
    "/model",
    "/openapi.json",
    "/page/{name}",
    "/predict",
    "/readyz",
)
_PHASE_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

Side = Literal["both", "pipeline", "service"]


@dataclass(frozen=True)
class Described:
    """One metric.

    Parameters
    ----------
    name : str
        As Prometheus knows it.
    kind : {"counter", "gauge", "histogram"}
        What Prometheus may do with it.
    meaning : str
        A sentence for whoever reads it.
    side : {"both", "pipeline", "service"}
        Who shows it: `scstream run`, `scstream serve`, or both.
    labels : mapping of str to tuple of str
        Every value that a label may have, apart from "other".
    buckets : tuple of float
        Upper ends, for a histogram.

    Examples
    --------
    >>> from scstream.observe.catalogue import METRICS
    >>> {metric.name: metric.kind for metric in METRICS}["scstream_rows_total"]
    'counter'
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    side: Side = "pipeline"
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()


METRICS = (
    Described(
        "scstream_info",
        "gauge",
        "Always 1; the labels say which scstream runs, on which kernels.",
        "both",
        {"version": (), "kernels": ()},
    ),
    Described("scstream_rows_total", "counter", "Rows that came in batches, refused ones too."),
    Described(
        "scstream_rejected_rows_total",
        "counter",
        "Rows that could not be used; they are among the dead letters with their reasons.",
    ),
    Described("scstream_novel_rows_total", "counter", "Rows that belong to no cluster yet."),
    Described("scstream_batches_total", "counter", "Batches learned."),
    Described(
        "scstream_phase_seconds",
        "histogram",
        "Time that a batch spent waiting for rows, being learned and being delivered; and that a "
        "checkpoint spent on flushing sinks, on publishing, and on acknowledging and pruning.",
        labels={"phase": PHASES},
        buckets=_PHASE_SECONDS,
    ),
    Described("scstream_clusters", "gauge", "Clusters after the last batch, K."),
    Described(
        "scstream_clusters_limit",
        "gauge",
        "Most clusters that there may be, model.max_clusters; absent for a model per key.",
    ),
    Described(
        "scstream_events_total",
        "counter",
        "Changes of the set of clusters.",
        labels={"kind": EVENTS},
    ),
    Described(
        "scstream_mean_log_density",
        "gauge",
        "Mean log density of the rows of the last batch, after they were learned.",
    ),
    Described(
        "scstream_lag_messages",
        "gauge",
        "Messages that wait in the source, asked at most once per second; absent if it cannot "
        "tell or does not answer.",
    ),
    Described("scstream_waiting_rows", "gauge", "Rows read that are in no batch yet."),
    Described(
        "scstream_last_batch_timestamp_seconds",
        "gauge",
        "When the last batch ended, since 1970.",
    ),
    Described(
        "scstream_checkpoint_timestamp_seconds",
        "gauge",
        "When the state of the last checkpoint was taken, since 1970.",
    ),
    Described("scstream_checkpoint_bytes", "gauge", "Size of the last checkpoint."),
    Described("scstream_checkpoint_version", "gauge", "Number of the last checkpoint."),
    Described(
        "scstream_alerts_total",
        "counter",
        "Alerts of the rules in [alerts].",
        labels={"kind": ALERTS},
    ),
    Described(
        "scstream_gaps_total", "counter", "Losses of the source that --accept-gap went over."
    ),
    Described(
        "scstream_cluster_share",
        "gauge",
        "Share of the faded number of rows of the heaviest cluster, the second, and so on. By "
        "rank: ids never end, and would be a new series each.",
        "both",
        {"rank": RANKS},
    ),
    Described(
        "scstream_damaged_checkpoints_total",
        "counter",
        "Checkpoints that were damaged and passed over.",
        "both",
    ),
    Described(
        "scstream_requests_total",
        "counter",
        "Requests answered.",
        "service",
        {"route": ROUTES, "status": STATUSES},
    ),
    Described(
        "scstream_request_seconds",
        "histogram",
        "Time from a request to the end of its answer.",
        "service",
        {"route": ROUTES},
        _REQUEST_SECONDS,
    ),
    Described("scstream_asked_rows_total", "counter", "Rows that were asked about.", "service"),
    Described(
        "scstream_asked_novel_rows_total",
        "counter",
        "Rows that were asked about and belong to no cluster.",
        "service",
    ),
    Described("scstream_model_version", "gauge", "Number of the checkpoint in use.", "service"),
    Described(
        "scstream_model_batch", "gauge", "The batch that comes after the model in use.", "service"
    ),
    Described(
        "scstream_model_timestamp_seconds",
        "gauge",
        "When the model in use was learned, since 1970, by the clock of who learned it.",
        "service",
    ),
    Described("scstream_model_clusters", "gauge", "Clusters of the model in use.", "service"),
)
