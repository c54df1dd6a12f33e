"""Counts and times of a pipeline and of a service, as Prometheus reads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from math import isnan
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
    METRICS,
    OTHER,
    PHASES,
    RANKS,
    ROUTES,
    STATUSES,
    Described,
)
from scstream.observe.scrape import Door, serve_metrics

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
    from prometheus_client.core import GaugeMetricFamily
except ImportError as error:
    raise missing_extra("prometheus-client", "metrics") from error

__all__ = ["Door", "Metrics", "serve_metrics"]

Lag = Callable[[], int | None]
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LAG_EVERY = 1.0  # seconds; to ask costs a round trip to the broker
_LAG_PATIENCE = 0.2  # seconds that a scrape waits for the answer
_LAG_KEPT = 10.0  # seconds that an answer stands in for one that does not come


class Metrics:
    """Counts what is announced, and shows it to Prometheus.

    Metrics of a pipeline appear once it has started, those of a service once it has a model or
    was asked something. A value that is not known is absent, and never a zero. Threads may
    announce and ask at the same time.

    Parameters
    ----------
    lag : callable, optional
        Asks the source how many messages wait, None if it cannot tell; may be set later.
    registry : CollectorRegistry, optional
        Where to show the metrics; by default in a registry of their own, with those of the process.
    max_clusters : int, optional
        Bound on the number of clusters.

    Examples
    --------
    >>> from scstream.observe.prometheus import Metrics
    >>> metrics = Metrics(lag=lambda: 7)
    >>> metrics.emit("batch", batch=0, rows=1000, rejected=2, clusters=5, novel=1)
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
        self._lock = Lock()
        self._shown: set[str] = set()
        self._routes: dict[str, tuple[dict[str, Counter], Histogram]] = {}  # that were asked
        self._metrics = {metric.name: _made(metric) for metric in METRICS}
        self._registry = CollectorRegistry() if registry is None else registry
        if registry is None:
            ProcessCollector(registry=self._registry)
        self._registry.register(cast(Any, _LagOf(self)))
        self._gauge("scstream_info").labels(version=__version__, kernels=kernels_in_use()).set(1)
        self._show("scstream_info")
        if max_clusters is not None:
            self._set("scstream_clusters_limit", max_clusters)

    def emit(self, kind: str, /, **values: Any) -> None:
        """Count what a pipeline or a follower announces; what is not counted is passed over."""
        if kind == "damaged":
            self._count("scstream_damaged_checkpoints_total")
            self._show("scstream_damaged_checkpoints_total")
            return
        tell = {"batch": self._batch, "checkpoint": self._checkpoint}.get(kind)
        if tell is None and kind not in ("started", "gap", "alert"):
            return
        self._show(*_COUNTED["pipeline"])
        if tell is not None:
            tell(values)
        elif kind == "gap":
            self._count("scstream_gaps_total")
        elif kind == "alert":
            alert = _known(values.get("kind"), ALERTS)
            self._counter("scstream_alerts_total").labels(kind=alert).inc()

    def request(
        self, route: str, status: int, seconds: float, rows: int = 0, *, novel: int = 0
    ) -> None:
        """Count an answer.

        Parameters
        ----------
        route : str
            Which of the routes, as in "/clusters/{id}"; any other counts as "other".
        status : int
            Status of the answer.
        seconds : float
            How long it took.
        rows, novel : int
            Rows that were asked about, and how many of them belong to no cluster.

        Examples
        --------
        >>> from scstream.observe.prometheus import Metrics
        >>> metrics = Metrics()
        >>> metrics.request("/predict", 200, seconds=0.004, rows=100, novel=3)
        >>> b'requests_total{route="/predict",status="2xx"} 1.0' in metrics.exposition()[0]
        True
        """
        route = _known(route, ROUTES)
        answers, times = self._route(route)
        counter = answers.get(f"{status // 100}xx")
        if counter is None:
            counter = self._counter("scstream_requests_total").labels(route, OTHER)
        counter.inc()
        times.observe(seconds)
        if rows:
            self._count("scstream_asked_rows_total", rows)
            self._count("scstream_asked_novel_rows_total", novel)

    def model(self, version: int, batch: int, *, at: float, clusters: int) -> None:
        """Show which model answers.

        Parameters
        ----------
        version : int
            Number of its checkpoint.
        batch : int
            The batch that comes after it.
        at : float
            When it was learned, in seconds since 1970.
        clusters : int
            How many clusters it has.

        Examples
        --------
        >>> from scstream.observe.prometheus import Metrics
        >>> metrics = Metrics()
        >>> metrics.model(7, 300, at=1.7e9, clusters=12)
        >>> b"scstream_model_version 7.0" in metrics.exposition()[0]
        True
        """
        self._show(*_COUNTED["service"])
        self._set("scstream_model_version", version)
        self._set("scstream_model_batch", batch)
        self._set("scstream_model_timestamp_seconds", at)
        self._set("scstream_model_clusters", clusters)

    def shares(self, shares: ArrayLike) -> None:
        """Show the shares of the heaviest clusters, by rank.

        Parameters
        ----------
        shares : array of shape (K,)
            Share of every cluster, in any order.

        Examples
        --------
        >>> from scstream.observe.prometheus import Metrics
        >>> metrics = Metrics()
        >>> metrics.shares([0.2, 0.7])
        >>> b'scstream_cluster_share{rank="1"} 0.7' in metrics.exposition()[0]
        True
        """
        gauge = self._gauge("scstream_cluster_share")
        heaviest = np.sort(np.asarray(shares, dtype=np.float64))[: -len(RANKS) - 1 : -1]
        for rank, share in zip(RANKS, heaviest.tolist(), strict=False):
            gauge.labels(rank=rank).set(share)
        for rank in RANKS[len(heaviest) :]:
            with suppress(KeyError):  # it was not there
                gauge.remove(rank)
        self._show("scstream_cluster_share")

    def exposition(self) -> tuple[bytes, str]:
        """Return everything as text for Prometheus, and the type of that content."""
        return generate_latest(cast(Any, _WithoutBirths(self._registry))), _CONTENT_TYPE

    def _batch(self, values: Mapping[str, Any]) -> None:
        self._count("scstream_batches_total")
        self._count("scstream_rows_total", values["rows"])
        self._count("scstream_rejected_rows_total", values["rejected"])
        self._count("scstream_novel_rows_total", values["novel"])
        for kind, n_times in values.get("events", {}).items():
            event = _known(kind, EVENTS)
            self._counter("scstream_events_total").labels(kind=event).inc(n_times)
        self._time(values.get("seconds", {}))
        self._set("scstream_clusters", values["clusters"])
        self._set("scstream_waiting_rows", values.get("waiting"))
        self._set("scstream_mean_log_density", values.get("log_density"))
        self._set("scstream_last_batch_timestamp_seconds", values.get("at"))

    def _checkpoint(self, values: Mapping[str, Any]) -> None:
        self._time(values.get("seconds", {}))
        self._set("scstream_checkpoint_timestamp_seconds", values["at"])
        self._set("scstream_checkpoint_bytes", values["bytes"])
        self._set("scstream_checkpoint_version", values["version"])

    def _time(self, seconds: Mapping[str, float]) -> None:
        for phase, took in seconds.items():
            labelled = self._histogram("scstream_phase_seconds").labels(phase=_known(phase, PHASES))
            labelled.observe(took)

    def _route(self, route: str) -> tuple[dict[str, Counter], Histogram]:
        """Return what counts the answers of a route, by status, and what times them."""
        if route not in self._routes:
            self._show(*_COUNTED["service"])
            answers = self._counter("scstream_requests_total")
            self._routes[route] = (
                # Errors count from zero, so that the first of them is a rise.
                {each: answers.labels(route, each) for each in STATUSES},
                self._histogram("scstream_request_seconds").labels(route),
            )
        return self._routes[route]

    def _count(self, name: str, n_times: float = 1) -> None:
        self._counter(name).inc(n_times)

    def _set(self, name: str, value: float | None) -> None:
        """Set a gauge that is absent before; keep it where there is no number."""
        if value is None or isnan(value):
            return
        self._gauge(name).set(value)
        self._show(name)

    def _show(self, *names: str) -> None:
        if self._shown.issuperset(names):
            return
        with self._lock:
            for name in names:
                if name not in self._shown:
                    self._registry.register(self._metrics[name])
                    self._shown.add(name)

    def _counter(self, name: str) -> Counter:
        return cast(Counter, self._metrics[name])

    def _gauge(self, name: str) -> Gauge:
        return cast(Gauge, self._metrics[name])

    def _histogram(self, name: str) -> Histogram:
        return cast(Histogram, self._metrics[name])


# What counts from zero, and so is shown as soon as there is somebody to count for.
_COUNTED = {
    side: [each.name for each in METRICS if each.kind != "gauge" and each.side in (side, "both")]
    for side in ("pipeline", "service")
}
_FROM_ZERO = ("scstream_phase_seconds", "scstream_events_total", "scstream_alerts_total")


class _LagOf:
    """Asks how many messages wait when somebody looks, now and then, and never for long."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = Lock()
        self._answered = Event()
        self._answered.set()
        self._asked_at = self._answer_at = -np.inf
        self._answer: int | None = None

    def collect(self) -> Iterator[Metric]:
        ask = self._metrics.lag
        found = None if ask is None else self._latest(ask)
        if found is not None:
            about = next(each for each in METRICS if each.name == "scstream_lag_messages")
            yield GaugeMetricFamily(about.name, about.meaning, value=found)

    def _latest(self, ask: Lag) -> int | None:
        with self._lock:
            if self._answered.is_set() and time.monotonic() - self._asked_at >= _LAG_EVERY:
                self._asked_at = time.monotonic()
                self._answered.clear()
                Thread(target=self._ask, args=(ask,), name="lag", daemon=True).start()
        self._answered.wait(_LAG_PATIENCE)
        is_recent = time.monotonic() - self._answer_at < _LAG_KEPT
        return self._answer if is_recent else None

    def _ask(self, ask: Lag) -> None:
        try:
            self._answer = ask()
        except Exception:  # a broker that is away; the pipeline itself says so
            self._answer = None
        self._answer_at = time.monotonic()
        self._answered.set()


class _WithoutBirths:
    """A registry without the times at which series began, which would double their number."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            shown = Metric(metric.name, metric.documentation, metric.type, metric.unit)
            shown.samples = [each for each in metric.samples if not each.name.endswith("_created")]
            yield shown


def _made(about: Described) -> Counter | Gauge | Histogram:
    labels = tuple(about.labels)
    if about.kind == "histogram":
        made: Counter | Gauge | Histogram = Histogram(
            about.name, about.meaning, labels, registry=None, buckets=about.buckets
        )
    else:
        kind = Counter if about.kind == "counter" else Gauge
        made = kind(about.name, about.meaning, labels, registry=None)
    if about.name in _FROM_ZERO:
        for value in about.labels[labels[0]]:
            made.labels(value)
    return made


def _known(value: object, known: tuple[str, ...]) -> str:
    """A value of a fixed set: whatever else comes is counted under one name."""
    return value if isinstance(value, str) and value in known else OTHER
