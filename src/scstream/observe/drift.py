"""Change detectors with the interface of river, whose state can be saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite, log, sqrt
from typing import Any, Protocol, Self

from scstream.errors import InputError

_MODES = ("up", "down", "both")


class Detector(Protocol):
    """The interface of a change detector."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last number completed a detection."""
        ...

    def update(self, x: float, /) -> Any:
        """Add the next number."""
        ...


class PageHinkley:
    """The Page-Hinkley test: cumulative sums of deviations from the running mean.

    Options, defaults and detections equal those of `river.drift.PageHinkley`. After a detection it
    starts again with the next number. Numbers that are not finite are ignored.

    Parameters
    ----------
    min_instances : int
        Minimum number of values before a detection.
    delta : float
        Tolerated deviation; choose half of the change to detect.
    threshold : float
        Sum of deviations beyond the tolerated ones that counts as a change.
    alpha : float
        Factor by which the sum decays with each number.
    mode : {"up", "down", "both"}
        Direction of the changes to detect.

    References
    ----------
    E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954.

    Examples
    --------
    >>> from scstream.observe.drift import PageHinkley
    >>> detector = PageHinkley(delta=0.5, threshold=8.0, mode="down")
    >>> for x in [0.2, -0.1] * 50 + [-2.9, -3.1] * 3:
    ...     detector.update(x)
    ...     if detector.drift_detected:
    ...         print("the mean has dropped to", x)
    the mean has dropped to -3.1
    """

    kind = "page-hinkley"

    def __init__(
        self,
        min_instances: int = 30,
        delta: float = 0.005,
        threshold: float = 50.0,
        alpha: float = 1 - 0.0001,
        mode: str = "both",
    ) -> None:
        _check("min_instances", min_instances, min_instances >= 1, "at least 1")
        _check("delta", delta, delta >= 0, "0 or more")
        _check("threshold", threshold, threshold > 0, "more than 0")
        _check("alpha", alpha, 0 < alpha <= 1, "more than 0 and at most 1")
        _check("mode", mode, mode in _MODES, "'up', 'down' or 'both'")
        self.options: dict[str, Any] = {
            "min_instances": min_instances,
            "delta": delta,
            "threshold": threshold,
            "alpha": alpha,
            "mode": mode,
        }
        self.drift_detected = False
        self._reset()

    def _reset(self) -> None:
        self._n = 0
        self._mean = 0.0
        self._risen, self._lowest = 0.0, 0.0
        self._fallen, self._highest = 0.0, 0.0

    def update(self, x: float, /) -> None:
        """Add the next number."""
        if self.drift_detected:
            self._reset()
            self.drift_detected = False
        if not isfinite(x):
            return
        delta, alpha = self.options["delta"], self.options["alpha"]
        self._n += 1
        self._mean += (x - self._mean) / self._n
        deviation = x - self._mean
        self._risen = alpha * self._risen + deviation - delta
        self._fallen = alpha * self._fallen + deviation + delta
        first = self._n == 1
        self._lowest = self._risen if first else min(self._lowest, self._risen)
        self._highest = self._fallen if first else max(self._highest, self._fallen)
        if self._n >= self.options["min_instances"]:
            self.drift_detected = self._is_change()

    def _is_change(self) -> bool:
        threshold, mode = self.options["threshold"], self.options["mode"]
        up = self._risen - self._lowest > threshold
        down = self._highest - self._fallen > threshold
        return bool((up and mode != "down") or (down and mode != "up"))

    def save(self) -> dict[str, Any]:
        """Return options and state as plain values."""
        return {
            "options": dict(self.options),
            "drift_detected": self.drift_detected,
            "n": self._n,
            "mean": self._mean,
            "rise": [self._risen, self._lowest],
            "fall": [self._fallen, self._highest],
        }

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self:
        """Return a saved detector."""
        detector = cls(**saved["options"])
        detector.drift_detected = saved["drift_detected"]
        detector._n, detector._mean = saved["n"], saved["mean"]
        detector._risen, detector._lowest = saved["rise"]
        detector._fallen, detector._highest = saved["fall"]
        return detector


class Adwin:
    """Adaptive windowing: keeps the longest window of recent numbers with a constant mean.

    If the window can be split into two parts whose means differ significantly, its oldest numbers
    are dropped. Numbers are summarised in buckets of 1, 2, 4, ... numbers, so a window of n numbers
    takes O(log n) memory. Options, defaults and detections equal those of `river.drift.ADWIN`:
    after a detection it starts again with the next number, so one change is reported once (the
    paper continues with the rest of the window). Numbers that are not finite are ignored.

    Parameters
    ----------
    delta : float
        Upper bound on the probability of a false detection; the true one is lower.
    clock : int
        Check the window after every `clock` numbers.
    max_buckets : int
        Maximum number of buckets of each size.
    min_window_length : int
        Minimum number of values in each part of a split.
    grace_period : int
        Minimum number of values in the window before it is checked.

    References
    ----------
    A. Bifet and R. Gavaldà, "Learning from time-changing data with adaptive windowing", SDM 2007.

    Examples
    --------
    >>> from scstream.observe.drift import Adwin
    >>> detector = Adwin(clock=1)
    >>> for i, x in enumerate([0.2, 0.4] * 100 + [0.7, 0.9] * 20):
    ...     detector.update(x)
    ...     if detector.drift_detected:
    ...         print(f"changed at {i}, {detector.width} numbers are left")
    changed at 223, 192 numbers are left
    """

    kind = "adwin"

    def __init__(
        self,
        delta: float = 0.002,
        clock: int = 32,
        max_buckets: int = 5,
        min_window_length: int = 5,
        grace_period: int = 10,
    ) -> None:
        _check("delta", delta, 0 < delta < 1, "more than 0 and less than 1")
        _check("clock", clock, clock >= 1, "at least 1")
        _check("max_buckets", max_buckets, max_buckets >= 2, "at least 2")
        _check("min_window_length", min_window_length, min_window_length >= 1, "at least 1")
        _check("grace_period", grace_period, grace_period >= 1, "at least 1")
        self.options: dict[str, Any] = {
            "delta": delta,
            "clock": clock,
            "max_buckets": max_buckets,
            "min_window_length": min_window_length,
            "grace_period": grace_period,
        }
        self.drift_detected = False
        self._reset()

    def _reset(self) -> None:
        self._ticks = 0
        # Mean and sum of squares of each bucket, oldest first; level i has buckets of 2**i numbers.
        self._levels: list[list[tuple[float, float]]] = [[]]

    @property
    def width(self) -> int:
        """Number of values in the window."""
        return sum(len(level) << i for i, level in enumerate(self._levels))

    @property
    def estimation(self) -> float:
        """Mean of the window; 0 if it is empty."""
        return self._window()[1]

    @property
    def variance(self) -> float:
        """Variance of the window; 0 if it is empty."""
        n, _, squares = self._window()
        return squares / n if n else 0.0

    def update(self, x: float, /) -> None:
        """Add the next number."""
        if self.drift_detected:
            self._reset()
            self.drift_detected = False
        if not isfinite(x):
            return
        self._levels[0].append((float(x), 0.0))
        self._compress()
        self._ticks += 1
        if self._ticks % self.options["clock"] == 0:
            while self._has_split():
                self._drop_oldest()
                self.drift_detected = True

    def _compress(self) -> None:
        """Merge the two oldest buckets of every size that has too many."""
        for i, level in enumerate(self._levels):
            if len(level) <= self.options["max_buckets"]:
                return
            if i + 1 == len(self._levels):
                self._levels.append([])
            _, *merged = _joined((1 << i, *level[0]), (1 << i, *level[1]))
            self._levels[i + 1].append((merged[0], merged[1]))
            del level[:2]

    def _buckets(self) -> Iterator[tuple[int, float, float]]:
        """Yield count, mean and sum of squares of every bucket, the oldest first."""
        for i in reversed(range(len(self._levels))):
            for mean, squares in self._levels[i]:
                yield 1 << i, mean, squares

    def _window(self) -> tuple[int, float, float]:
        whole = (0, 0.0, 0.0)
        for bucket in self._buckets():
            whole = _joined(whole, bucket)
        return whole

    def _has_split(self) -> bool:
        """Return True if the means before and after some boundary differ significantly."""
        n, centre, squares = self._window()
        if n <= self.options["grace_period"]:
            return False
        min_length = self.options["min_window_length"]
        log_term = log(2.0 * log(n) / self.options["delta"])
        n_old, moment = 0, 0.0
        for count, mean, _ in self._buckets():
            n_old += count
            n_new = n - n_old
            moment += count * (mean - centre)  # the moment of the rest is minus this
            if n_old < min_length or n_new < min_length:
                continue
            difference = abs(moment) * (1.0 / n_old + 1.0 / n_new)
            share = 1.0 / (n_old - min_length + 1) + 1.0 / (n_new - min_length + 1)
            chance = sqrt(2.0 * share * squares / n * log_term) + 2.0 / 3.0 * share * log_term
            if difference > chance:
                return True
        return False

    def _drop_oldest(self) -> None:
        while not self._levels[-1]:
            self._levels.pop()
        del self._levels[-1][0]

    def save(self) -> dict[str, Any]:
        """Return options and state as plain values."""
        return {
            "options": dict(self.options),
            "drift_detected": self.drift_detected,
            "ticks": self._ticks,
            "levels": [[list(bucket) for bucket in level] for level in self._levels],
        }

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self:
        """Return a saved detector."""
        detector = cls(**saved["options"])
        detector.drift_detected = saved["drift_detected"]
        detector._ticks = saved["ticks"]
        detector._levels = [[(m, s) for m, s in level] for level in saved["levels"]]
        return detector


def _joined(
    one: tuple[int, float, float], other: tuple[int, float, float]
) -> tuple[int, float, float]:
    """Return count, mean and sum of squares of the union of two sets of numbers."""
    n = one[0] + other[0]
    difference = other[1] - one[1]
    mean = one[1] + difference * (other[0] / n)
    squares = one[2] + other[2] + difference * difference * (one[0] * (other[0] / n))
    return n, mean, squares


def _check(name: str, value: Any, is_valid: bool, wanted: str) -> None:
    if not is_valid:
        raise InputError(f"{name} of a detector must be {wanted}, got {value!r}.")
