"""The alert rules: shares of rows, counts of events, and a drop of the log density."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import isfinite, isnan, nan, sqrt
from statistics import fmean, median
from typing import ClassVar

from scstream.observe.drift import Detector, SavedDetector
from scstream.observe.events import BatchSummary

Found = tuple[float, str]  # the measured value, and a message

_REARM = 0.5  # fraction of the limit below which a share must fall before the next alert
_NORMAL = -1.0  # deviations; a batch above this is normal
_RECENT = 5  # batches that show the direction of a change
_MIN_BATCHES = 20  # batches that are needed to know the usual log density
_CLIP = -20.0, 3.0  # deviations; a rise is clipped more, so that it cannot hide a drop
_MIN_DEVIATION = 0.01  # nats: smaller changes are never reported
_MAD_TO_STD = 1.4826  # standard deviation of a normal variable / its median absolute deviation


class Rule(ABC):
    """One alert rule; `STATE` names the attributes that are saved, with JSON values."""

    kind: str
    STATE: ClassVar[tuple[str, ...]]

    @abstractmethod
    def check(self, summary: BatchSummary, *, quiet: bool) -> Found | None:
        """Update the rule with a batch; return an alert, unless it must be quiet."""

    def save(self) -> dict[str, object]:
        """Return the state."""
        return {name: getattr(self, name) for name in self.STATE}

    def restore(self, saved: Mapping[str, object]) -> None:
        """Continue from a saved state."""
        for name in self.STATE:
            setattr(self, name, saved[name])


class ShareRule(Rule):
    """Alerts if a share of rows is too large, once until it falls below half of the limit.

    `count` returns the number of rows that count and the number of all rows. The share is computed
    over at least `rows` rows. `detail` is a format string of share, n, batch and limit.
    """

    STATE = ("n_hits", "n_rows", "is_active")

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
        self.n_hits, self.n_rows = 0, 0
        self.is_active = False

    def check(self, summary: BatchSummary, *, quiet: bool) -> Found | None:
        """Count the rows of a batch."""
        n_hits, n = self._count(summary)
        self.n_hits += n_hits
        self.n_rows += n
        if self.n_rows < self._rows:
            return None
        n, share = self.n_rows, self.n_hits / self.n_rows
        self.n_hits, self.n_rows = 0, 0
        self.is_active = self.is_active and share >= self._limit * _REARM
        if quiet or self.is_active or share < self._limit:
            return None
        self.is_active = True
        batch, limit = summary.batch, self._limit
        return share, self._detail.format(share=share, n=n, batch=batch, limit=limit)


class CountRule(Rule):
    """Alerts if a batch has at least `min_count` events of a kind; the first clusters are ignored.

    `detail` is a format string of n, batch and clusters.
    """

    STATE = ("has_clusters",)

    def __init__(self, kind: str, min_count: int, *, detail: str) -> None:
        self.kind = kind
        self._min_count = min_count
        self._detail = detail
        self.has_clusters = False

    def check(self, summary: BatchSummary, *, quiet: bool) -> Found | None:
        """Count the events of a batch."""
        had, clusters = self.has_clusters, summary.clusters
        self.has_clusters = had or clusters > 0
        n = summary.events.get(self.kind, 0)
        if quiet or not had or n < self._min_count:
            return None
        return float(n), self._detail.format(n=n, batch=summary.batch, clusters=clusters)


class DropRule(Rule):
    """Alerts if a detector finds a drop of the mean log density, once until it is normal again.

    The detector receives the difference between a batch and the median of the last `memory`
    batches, divided by their deviation (1.48 times the median absolute deviation, so a few unusual
    batches do not matter). A batch with fewer rows than usual counts less, because the mean of few
    rows varies more. Thresholds are therefore in deviations, the same for every stream.

    A detection counts if the last five values are below the mean of the detector (`estimation`, as
    of ADWIN), or below 0 if it has none.
    """

    kind = "log_density"
    STATE = ("usual", "low", "recent")

    def __init__(self, detector: Detector, *, memory: int) -> None:
        self._detector = detector
        self._memory = memory
        self._min_batches = min(_MIN_BATCHES, memory)
        self.usual: list[tuple[float, int]] = []  # log density and rows of batches
        self.recent: list[float] = []  # deviations of the last batches
        self.low: list[tuple[float, int]] = []  # batches since an alert, while they stay low

    def check(self, summary: BatchSummary, *, quiet: bool) -> Found | None:
        """Pass the log density of a batch to the detector."""
        value, rows = summary.log_density, summary.rows - summary.rejected
        if not isfinite(value) or rows <= 0:
            return None
        centre, scale = self._centre_and_scale()
        deviation = self._deviation(value - centre, scale, rows)
        if self._stays_low(deviation, (value, rows)):
            return None
        self.usual = [*self.usual, (value, rows)][-self._memory :]
        if isnan(deviation) or not self._drops(deviation) or quiet:
            return None
        self.low = [(value, rows)]
        return value, (
            f"the mean log density has dropped to {value:.2f} in batch {summary.batch}; usually "
            f"it is {centre:.2f} with a deviation of {scale:.2f}. The model finds these rows "
            "improbable: check whether the source, a unit or a column has changed, and which "
            "clusters were born."
        )

    def _stays_low(self, deviation: float, batch: tuple[float, int]) -> bool:
        """Return True for a batch that is still as low as the one that raised the last alert.

        Such batches do not count as usual while the model adapts; many of them in a row do.
        """
        if not self.low or deviation >= _NORMAL:
            self.low = []
            return False
        self.low = [*self.low, batch]
        if len(self.low) >= self._min_batches:
            self.usual, self.low = self.low, []
        return True

    def _centre_and_scale(self) -> tuple[float, float]:
        if len(self.usual) < self._min_batches:
            return nan, nan
        centre = median(value for value, _ in self.usual)
        deviation = median(abs(value - centre) for value, _ in self.usual)
        return centre, max(_MAD_TO_STD * deviation, _MIN_DEVIATION)

    def _deviation(self, difference: float, scale: float, rows: int) -> float:
        """Return the scaled difference; the error of a mean falls with the root of the rows."""
        if isnan(scale):
            return nan
        usual_rows = median(n for _, n in self.usual)
        deviation = difference / scale * min(1.0, sqrt(rows / usual_rows))
        return min(max(deviation, _CLIP[0]), _CLIP[1])

    def _drops(self, deviation: float) -> bool:
        """Return True if the detector finds a change and the change is a drop."""
        self.recent = [*self.recent, deviation][-_RECENT:]
        before = getattr(self._detector, "estimation", 0.0)
        self._detector.update(deviation)
        return bool(self._detector.drift_detected and fmean(self.recent) < before)

    def save(self) -> dict[str, object]:
        """Return the usual values and, of our own detectors, the state."""
        detector = self._detector.save() if isinstance(self._detector, SavedDetector) else None
        return {**super().save(), "detector": detector}

    def restore(self, saved: Mapping[str, object]) -> None:
        """Continue from a saved state; a detector with another kind or options starts empty."""
        super().restore(saved)
        self.usual = [(value, rows) for value, rows in self.usual][-self._memory :]
        self.low = [(value, rows) for value, rows in self.low]  # JSON has no tuples
        own, known = self._detector, saved["detector"]
        if isinstance(own, SavedDetector) and isinstance(known, dict) and own.can_load(known):
            self._detector = own.load(known)
