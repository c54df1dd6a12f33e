"""The alert rules: shares of rows, counts of events, and a drop of the log density."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, isnan, nan, sqrt
from statistics import fmean, median
from typing import Any, Protocol, TypedDict

from scstream.observe.drift import Adwin, Detector, PageHinkley


class BatchSummary(TypedDict, total=False):
    """The result of a batch in plain numbers."""

    batch: int
    rows: int
    rejected: int
    clusters: int
    novel: int
    log_density: float
    events: dict[str, int]  # number of events by kind


Found = tuple[float, str]  # the measured value, and a message

SAVED = (PageHinkley, Adwin)  # detectors whose state is saved
_REARM = 0.5  # fraction of the limit below which a share must fall before the next alert
_NORMAL = -1.0  # deviations; a batch above this is normal
_RECENT = 5  # batches that show the direction of a change
_MIN_BATCHES = 20  # batches that are needed to know the usual log density
_CLIP = -20.0, 3.0  # deviations; a rise is clipped more, so that it cannot hide a drop
_MIN_DEVIATION = 0.01  # nats: smaller changes are never reported
_MAD_TO_STD = 1.4826  # standard deviation of a normal variable / its median absolute deviation


class Rule(Protocol):
    """One alert rule."""

    kind: str

    def check(self, summary: BatchSummary, *, quiet: bool) -> Found | None:
        """Update the rule with a batch; return an alert, unless it must be quiet."""
        ...

    def save(self) -> dict[str, Any]:
        """Return the state in plain values."""
        ...

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        ...


class ShareRule:
    """Alerts if a share of rows is too large, once until it falls below half of the limit.

    `count` returns the number of rows that count and the number of all rows. The share is computed
    over at least `rows` rows. `detail` is a format string of share, n, batch and limit.
    """

    def __init__(
        self,
        kind: str,
        limit: float,
        *,
        rows: int,
        count: Callable[[BatchSummary], tuple[int, int]],
        detail: str,
    ) -> None:
        self.kind = kind
        self._limit = limit
        self._rows = rows
        self._count = count
        self._detail = detail
        self._n_hits, self._n = 0, 0
        self._is_active = False

    def check(self, summary: BatchSummary, *, quiet: bool) -> Found | None:
        """Count the rows of a batch."""
        n_hits, n = self._count(summary)
        self._n_hits += n_hits
        self._n += n
        if self._n < self._rows:
            return None
        n, share = self._n, self._n_hits / self._n
        self._n_hits, self._n = 0, 0
        self._is_active = self._is_active and share >= self._limit * _REARM
        if quiet or self._is_active or share < self._limit:
            return None
        self._is_active = True
        batch = summary["batch"]
        return share, self._detail.format(share=share, n=n, batch=batch, limit=self._limit)

    def save(self) -> dict[str, Any]:
        """Return the counts, and whether the alert is active."""
        return {"hits": self._n_hits, "rows": self._n, "active": self._is_active}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._n_hits, self._n, self._is_active = saved["hits"], saved["rows"], saved["active"]


class CountRule:
    """Alerts if a batch has at least `min_count` events of a kind; the first clusters are ignored.

    `detail` is a format string of n, batch and clusters.
    """

    def __init__(self, kind: str, min_count: int, *, detail: str) -> None:
        self.kind = kind
        self._min_count = min_count
        self._detail = detail
        self._has_clusters = False

    def check(self, summary: BatchSummary, *, quiet: bool) -> Found | None:
        """Count the events of a batch."""
        had, clusters = self._has_clusters, summary["clusters"]
        self._has_clusters = had or clusters > 0
        n = summary["events"].get(self.kind, 0)
        if quiet or not had or n < self._min_count:
            return None
        return float(n), self._detail.format(n=n, batch=summary["batch"], clusters=clusters)

    def save(self) -> dict[str, Any]:
        """Return whether there were clusters."""
        return {"has_clusters": self._has_clusters}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._has_clusters = saved["has_clusters"]


class DropRule:
    """Alerts if a detector finds a drop of the mean log density, once until it is normal again.

    The detector receives the difference between a batch and the median of the last `memory`
    batches, divided by their deviation (1.48 times the median absolute deviation, so a few unusual
    batches do not matter). A batch with fewer rows than usual counts less, because the mean of few
    rows varies more. Thresholds are therefore in deviations, the same for every stream.

    A detection counts if the last five values are below the mean of the detector (`estimation`, as
    of ADWIN), or below 0 if it has none.
    """

    kind = "log_density"

    def __init__(self, detector: Detector, *, memory: int) -> None:
        self._detector = detector
        self._memory = memory
        self._min_batches = min(_MIN_BATCHES, memory)
        self._usual: list[tuple[float, int]] = []  # log density and rows of batches
        self._recent: list[float] = []  # deviations of the last batches
        self._low: list[tuple[float, int]] = []  # batches since an alert, while they stay low

    def check(self, summary: BatchSummary, *, quiet: bool) -> Found | None:
        """Pass the log density of a batch to the detector."""
        value, rows = summary["log_density"], summary["rows"] - summary["rejected"]
        if not isfinite(value) or rows <= 0:
            return None
        centre, scale = self._centre_and_scale()
        deviation = self._deviation(value - centre, scale, rows)
        if self._stays_low(deviation, (value, rows)):
            return None
        self._usual = [*self._usual, (value, rows)][-self._memory :]
        if isnan(deviation) or not self._drops(deviation) or quiet:
            return None
        self._low = [(value, rows)]
        return value, (
            f"the mean log density has dropped to {value:.2f} in batch {summary['batch']}; usually "
            f"it is {centre:.2f} with a deviation of {scale:.2f}. The model finds these rows "
            "improbable: check whether the source, a unit or a column has changed, and which "
            "clusters were born."
        )

    def _stays_low(self, deviation: float, batch: tuple[float, int]) -> bool:
        """Return True for a batch that is still as low as the one that raised the last alert.

        Such batches do not count as usual while the model adapts; many of them in a row do.
        """
        if not self._low or deviation >= _NORMAL:
            self._low = []
            return False
        self._low = [*self._low, batch]
        if len(self._low) >= self._min_batches:
            self._usual, self._low = self._low, []
        return True

    def _centre_and_scale(self) -> tuple[float, float]:
        if len(self._usual) < self._min_batches:
            return nan, nan
        centre = median(value for value, _ in self._usual)
        deviation = median(abs(value - centre) for value, _ in self._usual)
        return centre, max(_MAD_TO_STD * deviation, _MIN_DEVIATION)

    def _deviation(self, difference: float, scale: float, rows: int) -> float:
        """Return the scaled difference; the error of a mean falls with the root of the rows."""
        if isnan(scale):
            return nan
        usual_rows = median(n for _, n in self._usual)
        deviation = difference / scale * min(1.0, sqrt(rows / usual_rows))
        return min(max(deviation, _CLIP[0]), _CLIP[1])

    def _drops(self, deviation: float) -> bool:
        """Return True if the detector finds a change and the change is a drop."""
        self._recent = [*self._recent, deviation][-_RECENT:]
        before = getattr(self._detector, "estimation", 0.0)
        self._detector.update(deviation)
        return bool(self._detector.drift_detected and fmean(self._recent) < before)

    def save(self) -> dict[str, Any]:
        """Return the usual values and, of our own detectors, the state."""
        saved: dict[str, Any] = {
            "usual": [list(pair) for pair in self._usual],
            "low": [list(pair) for pair in self._low],
            "recent": self._recent,
        }
        if isinstance(self._detector, SAVED):
            saved |= {"detector": self._detector.kind, "state": self._detector.save()}
        return saved

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from a saved state; a detector with another kind or options starts empty."""
        self._usual = [(value, rows) for value, rows in saved["usual"]][-self._memory :]
        self._low = [(value, rows) for value, rows in saved["low"]]
        self._recent = list(saved["recent"])
        own = self._detector
        if (
            isinstance(own, SAVED)
            and saved.get("detector") == own.kind
            and saved["state"]["options"] == own.options
        ):
            self._detector = type(own).load(saved["state"])
