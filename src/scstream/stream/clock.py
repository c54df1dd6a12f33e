"""Time as an argument: the clock of the machine, or one that a test moves."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """The clock of a pipeline."""

    def now(self) -> float:
        """Seconds since 1970; may jump. For timestamps and processing time."""

    def elapsed(self) -> float:
        """Seconds since an arbitrary time; never decreases. For timers."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since an arbitrary time."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass
class ManualClock:
    """A clock for tests that advances only when `seconds` is set or `sleep` is called."""

    seconds: float = 0.0

    def now(self) -> float:
        """Return `seconds`."""
        return self.seconds

    def elapsed(self) -> float:
        """Return `seconds`."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.seconds += seconds


class Stopwatch:
    """Measures how long each part of something takes."""

    def __init__(self, clock: Clock) -> None:
        self.laps: dict[str, float] = {}
        self._clock = clock
        self._since = clock.elapsed()

    def lap(self, name: str) -> None:
        """End a part; the next one begins."""
        now = self._clock.elapsed()
        self.laps[name] = now - self._since
        self._since = now
