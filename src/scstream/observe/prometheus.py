"""Metrics of pipelines and services for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite, isnan
from threading import Event, Lock, Thread
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from scstream import __version__
from scstream.errors import missing_extra
from scstream.kernels import kernels_in_use
from scstream.observe.catalogue import (
    ALERTS,
    EVENTS,
    LOOKUPS,
    METRICS,
    OTHER,
    PHASES,
    QUOTAS,
    RANKS,
    ROUTES,
    SINKS,
    STATUSES,
    MetricInfo,
)
from scstream.observe.events import (
    AlertRaised,
    BatchLearned,
    CheckpointDamaged,
    CheckpointWritten,
    EditApplied,
    EditRefused,
    GapAccepted,
    LeaseAcquired,
    RunEvent,
    StandingBy,
    Started,
)
from scstream.observe.scrape import MetricsServer, serve_metrics

try:
    from prometheus_client import (
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        Metric,
        ProcessCollector,
        generate_latest,
    )
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
except ImportError as error:
    raise missing_extra("prometheus-client", "metrics") from error

__all__ = ["Metrics", "MetricsServer", "serve_metrics"]

Lag = Callable[[], int | None]
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PIPELINE_EVENTS = (Started, BatchLearned, CheckpointWritten, GapAccepted, AlertRaised)
_N_NAMED = 20  # clusters with names that are exported
_LAG_INTERVAL = 1.0  # seconds between two queries; a query is a round trip to the broker
_LAG_TIMEOUT = 0.2  # seconds that a scrape waits for the result
_LAG_MAX_AGE = 10.0  # seconds for which a result is used if a later query does not finish


class Metrics:
    """Counts the events of a pipeline or a service, and exports them to Prometheus.

    Metrics of a pipeline appear once it has started, those of a service once it has a model or a
    request. An unknown value is absent, never zero. Methods are thread-safe.

    Parameters
    ----------
    lag : callable, optional
        Returns the number of unread messages in the source, None if it is unknown; may be set
        later.
    registry : CollectorRegistry, optional
        Where to register the metrics; by default a new registry that also has the metrics of the
        process.
    max_clusters : int, optional
        Maximum number of clusters.

    Examples
    --------
    >>> from scstream.observe.events import BatchLearned
    >>> from scstream.observe.prometheus import Metrics
    >>> metrics = Metrics(lag=lambda: 7)
    >>> metrics.emit(BatchLearned(0, rows=1000, rejected=2, clusters=5, novel=1))
    >>> content, kind = metrics.exposition()
    >>> kind
    'text/plain; version=0.0.4; charset=utf-8'
    >>> lines = content.decode().splitlines()
    >>> [line for line in lines if line.startswith(("scstream_rows", "scstream_lag"))]
    ['scstream_lag_messages 7.0', 'scstream_rows_total 1000.0']
    """

    def __init__(
        self,
        *,
        lag: Lag | None = None,
        registry: CollectorRegistry | None = None,
        max_clusters: int | None = None,
    ) -> None:
        self.lag = lag
        self.connections: Callable[[], Mapping[str, bool]] | None = None  # see `Pipeline`
        self.heartbeat_age: Callable[[], float | None] | None = None  # of a pipeline elsewhere
        self.key_lookups: Callable[[], tuple[int, int, int] | None] | None = None  # of the service
        self._lock = Lock()
        self._registered: set[str] = set()
        self._n_named = 0  # clusters with names that are exported
        self._routes: dict[str, tuple[dict[str, Counter], Histogram]] = {}
        self._metrics = {metric.name: _create(metric) for metric in METRICS}
        self._registry = CollectorRegistry() if registry is None else registry
        if registry is None:
            ProcessCollector(registry=self._registry)
        self._registry.register(cast(Any, _LagCollector(self)))
        self._registry.register(cast(Any, _HeartbeatCollector(self)))
        self._registry.register(cast(Any, _ConnectionCollector(self)))
        self._registry.register(cast(Any, _KeyCollector(self)))
        self._gauge("scstream_info").labels(version=__version__, kernels=kernels_in_use()).set(1)
        self._register("scstream_info")
        if max_clusters is not None:
            self._set("scstream_max_clusters", max_clusters)

    def emit(self, event: RunEvent, /) -> None:
        """Count an event of a pipeline or a follower; other events are ignored."""
        if isinstance(event, CheckpointDamaged):
            self._count("scstream_damaged_checkpoints_total")
            self._register("scstream_damaged_checkpoints_total")
        if isinstance(event, _PIPELINE_EVENTS):
            self._register(*_FROM_START["pipeline"])
        match event:
            case BatchLearned():
                self._batch(event)
            case CheckpointWritten():
                self._checkpoint(event)
            case StandingBy() | LeaseAcquired():
                self._set("scstream_lease_held", float(isinstance(event, LeaseAcquired)))
            case GapAccepted():
                self._count("scstream_source_gaps_total")
            case EditApplied() | EditRefused():
                result = "applied" if isinstance(event, EditApplied) else "refused"
                self._counter("scstream_edits_total").labels(result=result).inc()
                self._register("scstream_edits_total")
            case AlertRaised(kind=kind):
                self._counter("scstream_alerts_total").labels(kind=_known(kind, ALERTS)).inc()

    def request(
        self, route: str, status: int, seconds: float, rows: int = 0, *, novel: int = 0
    ) -> None:
        """Count a response.

        Parameters
        ----------
        route : str
            The route, such as "/clusters/{id}"; an unknown one counts as "other".
        status : int
            Status code of the response.
        seconds : float
            Duration of the request.
        rows, novel : int
            Number of rows in the request, and how many of them belong to no cluster.
        """
        route = _known(route, ROUTES)
        responses, durations = self._route(route)
        counter = responses.get(f"{status // 100}xx")
        if counter is None:
            counter = self._counter("scstream_requests_total").labels(route, OTHER)
        counter.inc()
        durations.observe(seconds)
        if rows:
            self._count("scstream_predicted_rows_total", rows)
            self._count("scstream_predicted_novel_rows_total", novel)

    def model(
        self, version: int, batch: int, *, at: float, clusters: int, keys: int | None = None
    ) -> None:
        """Set the metrics of the model in use.

        Parameters
        ----------
        version : int
            Version of its checkpoint.
        batch : int
            Number of batches that it has learned.
        at : float
            Time at which it was learned, in seconds since 1970.
        clusters : int
            Number of clusters.
        keys : int, optional
            Number of keys, if every key has a model.
        """
        self._register(*_FROM_START["service"])
        self._set("scstream_model_version", version)
        self._set("scstream_model_batch", batch)
        self._set("scstream_model_timestamp_seconds", at)
        self._set("scstream_model_clusters", clusters)
        self._set("scstream_keys", keys)

    def shares(self, shares: ArrayLike, names: Mapping[str, float] | None = None) -> None:
        """Set the shares of the largest clusters, by rank, and of clusters with names.

        `shares` may be in any order.
        """
        gauge = self._gauge("scstream_cluster_share")
        largest = np.sort(np.asarray(shares, dtype=np.float64))[: -len(RANKS) - 1 : -1]
        for rank, share in zip(RANKS, largest.tolist(), strict=False):
            gauge.labels(rank=rank).set(share)
        for rank in RANKS[len(largest) :]:
            with suppress(KeyError):  # it was not set
                gauge.remove(rank)
        self._register("scstream_cluster_share")
        if names or self._n_named:
            self._named_shares(names or {})

    def _named_shares(self, names: Mapping[str, float]) -> None:
        """Set the shares of the largest clusters with names, and drop those of other names."""
        gauge = self._gauge("scstream_named_cluster_share")
        gauge.clear()
        largest = sorted(names.items(), key=lambda named: (-named[1], named[0]))[:_N_NAMED]
        for name, share in largest:
            gauge.labels(name=name).set(share)
        self._n_named = len(largest)
        self._register("scstream_named_cluster_share")

    @property
    def collector(self) -> Any:
        """The metrics without times of creation, as prometheus_client collects them."""
        return _WithoutCreated(self._registry)

    def exposition(self) -> tuple[bytes, str]:
        """Return all metrics in the text format of Prometheus, and its content type."""
        return generate_latest(self.collector), _CONTENT_TYPE

    def _batch(self, batch: BatchLearned) -> None:
        self._count("scstream_batches_total")
        self._count("scstream_rows_total", batch.rows)
        self._count("scstream_rejected_rows_total", batch.rejected)
        self._count("scstream_future_rows_total", batch.future)
        self._count("scstream_novel_rows_total", batch.novel)
        if batch.keys is not None:
            over = self._counter("scstream_over_quota_rows_total")
            for option in QUOTAS:  # from zero on, so that rate() sees the first row
                over.labels(option=option).inc(batch.over_quota.get(option, 0))
            self._register("scstream_over_quota_rows_total")
        for kind, n in batch.events.items():
            self._counter("scstream_events_total").labels(kind=_known(kind, EVENTS)).inc(n)
        self._observe_phases(batch.seconds)
        self._set("scstream_clusters", batch.clusters)
        self._set("scstream_keys", batch.keys)
        self._set("scstream_buffered_rows", batch.waiting)
        self._set("scstream_mean_log_density", batch.log_density)
        self._set("scstream_screening_error", batch.screening_error)
        self._set("scstream_last_batch_timestamp_seconds", batch.time)

    def _checkpoint(self, checkpoint: CheckpointWritten) -> None:
        self._observe_phases(checkpoint.seconds)
        self._set("scstream_checkpoint_timestamp_seconds", checkpoint.time)
        self._set("scstream_checkpoint_bytes", checkpoint.bytes)
        self._set("scstream_checkpoint_version", checkpoint.version)

    def _observe_phases(self, seconds: Mapping[str, float]) -> None:
        histogram = self._histogram("scstream_phase_seconds")
        for phase, duration in seconds.items():
            histogram.labels(phase=_known(phase, PHASES)).observe(duration)

    def _route(self, route: str) -> tuple[dict[str, Counter], Histogram]:
        """Return the response counters of a route, by status, and its histogram."""
        if route not in self._routes:
            self._register(*_FROM_START["service"])
            responses = self._counter("scstream_requests_total")
            self._routes[route] = (
                # Errors start at zero, so that rate() sees the first one.
                {each: responses.labels(route, each) for each in STATUSES},
                self._histogram("scstream_request_seconds").labels(route),
            )
        return self._routes[route]

    def _count(self, name: str, n: float = 1) -> None:
        self._counter(name).inc(n)

    def _set(self, name: str, value: float | None) -> None:
        """Set a gauge; leave it unchanged, or absent, without a number."""
        if value is None or isnan(value):
            return
        self._gauge(name).set(value)
        self._register(name)

    def _register(self, *metrics: str) -> None:
        if self._registered.issuperset(metrics):
            return
        with self._lock:
            for name in metrics:
                if name not in self._registered:
                    self._registry.register(self._metrics[name])
                    self._registered.add(name)

    def _counter(self, name: str) -> Counter:
        return cast(Counter, self._metrics[name])

    def _gauge(self, name: str) -> Gauge:
        return cast(Gauge, self._metrics[name])

    def _histogram(self, name: str) -> Histogram:
        return cast(Histogram, self._metrics[name])


# Counters and histograms start at zero as soon as the pipeline or the service starts.
_FROM_START = {
    side: [each.name for each in METRICS if each.kind != "gauge" and each.side in (side, "both")]
    for side in ("pipeline", "service")
}
_FROM_START["service"].remove("scstream_key_lookups_total")  # absent with one model
_ALL_LABELS = ("scstream_phase_seconds", "scstream_events_total", "scstream_alerts_total")


class _LagCollector:
    """Queries the lag of the source at a scrape, in a thread, with limited rate and time."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = Lock()
        self._is_idle = Event()
        self._is_idle.set()
        self._query_time = self._result_time = -np.inf
        self._result: int | None = None

    def collect(self) -> Iterator[Metric]:
        lag = self._metrics.lag
        value = None if lag is None else self._latest(lag)
        if value is not None:
            yield _family("scstream_lag_messages", value)

    def _latest(self, lag: Lag) -> int | None:
        with self._lock:
            if self._is_idle.is_set() and time.monotonic() - self._query_time >= _LAG_INTERVAL:
                self._query_time = time.monotonic()
                self._is_idle.clear()
                Thread(target=self._query, args=(lag,), name="lag", daemon=True).start()
        self._is_idle.wait(_LAG_TIMEOUT)
        is_recent = time.monotonic() - self._result_time < _LAG_MAX_AGE
        return self._result if is_recent else None

    def _query(self, lag: Lag) -> None:
        try:
            self._result = lag()
        except Exception:  # the broker is unreachable; the pipeline reports that itself
            self._result = None
        self._result_time = time.monotonic()
        self._is_idle.set()


class _HeartbeatCollector:
    """Reads the age of the heartbeat at a scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        age = self._metrics.heartbeat_age
        value = None if age is None else age()
        if value is not None and isfinite(value):
            yield _family("scstream_heartbeat_age_seconds", value)


class _KeyCollector:
    """Reads at a scrape how many models of keys were found in memory."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        lookups = self._metrics.key_lookups
        found = None if lookups is None else lookups()
        if found is None:
            return
        *counts, n_bytes = found
        info = next(each for each in METRICS if each.name == "scstream_key_lookups_total")
        family = CounterMetricFamily(info.name, info.meaning, labels=["result"])
        for result, n in zip(LOOKUPS, counts, strict=True):
            family.add_metric([result], n)
        yield family
        yield _family("scstream_key_memory_bytes", n_bytes)


class _ConnectionCollector:
    """Reads at a scrape which servers of the source and of the sinks are available."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        connections = self._metrics.connections
        found = {} if connections is None else dict(connections())
        source = found.pop("source", None)
        if source is not None:
            yield _family("scstream_source_connected", float(source))
        if found:
            family = _family("scstream_sink_connected", labels=["sink"])
            for name, connected in found.items():
                family.add_metric([_known(name, SINKS)], float(connected))
            yield family


def _family(
    name: str, value: float | None = None, labels: Sequence[str] | None = None
) -> GaugeMetricFamily:
    info = next(each for each in METRICS if each.name == name)
    return GaugeMetricFamily(name, info.meaning, value=value, labels=labels)


class _WithoutCreated:
    """A registry without the `_created` series, which would double the number of series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            copy = Metric(metric.name, metric.documentation, metric.type, metric.unit)
            copy.samples = [each for each in metric.samples if not each.name.endswith("_created")]
            yield copy


def _create(info: MetricInfo) -> Counter | Gauge | Histogram:
    labels = tuple(info.labels)
    if info.kind == "histogram":
        metric: Counter | Gauge | Histogram = Histogram(
            info.name, info.meaning, labels, registry=None, buckets=info.buckets
        )
    else:
        kind = Counter if info.kind == "counter" else Gauge
        metric = kind(info.name, info.meaning, labels, registry=None)
    if info.name in _ALL_LABELS:
        for value in info.labels[labels[0]]:
            metric.labels(value)
    return metric


def _known(value: object, known: tuple[str, ...]) -> str:
    """Return the value if it is in the set, otherwise "other"."""
    return value if isinstance(value, str) and value in known else OTHER
