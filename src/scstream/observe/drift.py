"""Change detectors with the interface of river, whose state can be saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields
from functools import reduce
from math import isfinite, log, sqrt
from typing import Any, ClassVar, Protocol, Self

from scstream.errors import InputError

_MODES = ("up", "down", "both")
_ADWIN_MINIMA = {"clock": 1, "max_buckets": 2, "min_window_length": 1, "grace_period": 1}


class Detector(Protocol):
    """The interface of a change detector."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last number completed a detection."""
        ...

    def update(self, x: float, /) -> Any:
        """Add the next number."""
        ...


@dataclass(eq=False)
class SavedDetector:
    """A detector whose fields are its options, and its state in JSON values."""

    kind: ClassVar[str]

    drift_detected: bool = field(default=False, init=False)

    @property
    def options(self) -> dict[str, float | str]:
        """The options by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.init}

    def save(self) -> dict[str, object]:
        """Return kind, options and state as JSON values."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def load(cls, saved: Mapping[str, object]) -> Self:
        """Return a saved detector."""
        detector = cls()
        for each in fields(cls):
            setattr(detector, each.name, deepcopy(saved[each.name]))
        return detector

    def can_load(self, saved: Mapping[str, object]) -> bool:
        """Return True if a detector of this kind with these options was saved."""
        return {"kind": self.kind, **self.options}.items() <= saved.items()


@dataclass(eq=False)
class PageHinkley(SavedDetector):
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

    min_instances: int = 30
    delta: float = 0.005
    threshold: float = 50.0
    alpha: float = 1 - 0.0001
    mode: str = "both"
    n: int = field(default=0, init=False)
    mean: float = field(default=0.0, init=False)
    rise: list[float] = field(default_factory=lambda: [0.0, 0.0], init=False)  # sum, its minimum
    fall: list[float] = field(default_factory=lambda: [0.0, 0.0], init=False)  # sum, its maximum

    def __post_init__(self) -> None:
        _check("min_instances", self.min_instances, self.min_instances >= 1, "at least 1")
        _check("delta", self.delta, self.delta >= 0, "0 or more")
        _check("threshold", self.threshold, self.threshold > 0, "more than 0")
        _check("alpha", self.alpha, 0 < self.alpha <= 1, "more than 0 and at most 1")
        _check("mode", self.mode, self.mode in _MODES, "'up', 'down' or 'both'")

    def update(self, x: float, /) -> None:
        """Add the next number."""
        if self.drift_detected:
            self.n, self.mean, self.rise, self.fall = 0, 0.0, [0.0, 0.0], [0.0, 0.0]
            self.drift_detected = False
        if not isfinite(x):
            return
        self.n += 1
        self.mean += (x - self.mean) / self.n
        deviation = x - self.mean
        risen = self.alpha * self.rise[0] + deviation - self.delta
        fallen = self.alpha * self.fall[0] + deviation + self.delta
        first = self.n == 1
        self.rise = [risen, risen if first else min(self.rise[1], risen)]
        self.fall = [fallen, fallen if first else max(self.fall[1], fallen)]
        if self.n >= self.min_instances:
            self.drift_detected = self._is_change()

    def _is_change(self) -> bool:
        up = self.rise[0] - self.rise[1] > self.threshold
        down = self.fall[1] - self.fall[0] > self.threshold
        return bool((up and self.mode != "down") or (down and self.mode != "up"))


@dataclass(eq=False)
class Adwin(SavedDetector):
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

    delta: float = 0.002
    clock: int = 32
    max_buckets: int = 5
    min_window_length: int = 5
    grace_period: int = 10
    ticks: int = field(default=0, init=False)
    # Mean and sum of squares of each bucket, oldest first; level i has buckets of 2**i numbers.
    levels: list[list[list[float]]] = field(default_factory=lambda: [[]], init=False)

    def __post_init__(self) -> None:
        _check("delta", self.delta, 0 < self.delta < 1, "more than 0 and less than 1")
        for name, least in _ADWIN_MINIMA.items():
            _check(name, getattr(self, name), getattr(self, name) >= least, f"at least {least}")

    @property
    def width(self) -> int:
        """Number of values in the window."""
        return sum(len(level) << i for i, level in enumerate(self.levels))

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
            self.ticks, self.levels = 0, [[]]
            self.drift_detected = False
        if not isfinite(x):
            return
        self.levels[0].append([float(x), 0.0])
        self._compress()
        self.ticks += 1
        if self.ticks % self.clock == 0:
            while self._has_split():
                self._drop_oldest()
                self.drift_detected = True

    def _compress(self) -> None:
        """Merge the two oldest buckets of every size that has too many."""
        for i, level in enumerate(self.levels):
            if len(level) <= self.max_buckets:
                return
            if i + 1 == len(self.levels):
                self.levels.append([])
            old, new = ((1 << i, mean, squares) for mean, squares in level[:2])
            _, *merged = _joined(old, new)
            self.levels[i + 1].append(merged)
            del level[:2]

    def _buckets(self) -> Iterator[tuple[int, float, float]]:
        """Yield count, mean and sum of squares of every bucket, the oldest first."""
        for i in reversed(range(len(self.levels))):
            for mean, squares in self.levels[i]:
                yield 1 << i, mean, squares

    def _window(self) -> tuple[int, float, float]:
        return reduce(_joined, self._buckets(), (0, 0.0, 0.0))

    def _has_split(self) -> bool:
        """Return True if the means before and after some boundary differ significantly."""
        n, centre, squares = self._window()
        if n <= self.grace_period:
            return False
        min_length = self.min_window_length
        log_term = log(2.0 * log(n) / self.delta)
        n_old, deviation = 0, 0.0
        for count, mean, _ in self._buckets():
            n_old += count
            n_new = n - n_old
            deviation += count * (mean - centre)  # the later buckets sum to minus this
            if n_old < min_length or n_new < min_length:
                continue
            difference = abs(deviation) * (1.0 / n_old + 1.0 / n_new)
            share = 1.0 / (n_old - min_length + 1) + 1.0 / (n_new - min_length + 1)
            chance = sqrt(2.0 * share * squares / n * log_term) + 2.0 / 3.0 * share * log_term
            if difference > chance:
                return True
        return False

    def _drop_oldest(self) -> None:
        while not self.levels[-1]:
            self.levels.pop()
        del self.levels[-1][0]


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
