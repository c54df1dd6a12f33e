"""Time as an argument: the clock of the machine, or one that a test moves by hand."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """What a pipeline asks for the time."""

    def now(self) -> float:
        """Seconds since 1970: may jump; for what people read, and for time by processing."""
        ...

    def elapsed(self) -> float:
        """Seconds since some moment: never goes back; for timers."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clock of the machine.

    Examples
    --------
    >>> from scstream.stream.clock import SystemClock
    >>> clock = SystemClock()
    >>> clock.elapsed() <= clock.elapsed()
    True
    """

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass
class ManualClock:
    """A clock that goes on only when it is told to, or when somebody sleeps.

    Examples
    --------
    >>> from scstream.stream.clock import ManualClock
    >>> clock = ManualClock()
    >>> clock.sleep(2.5)
    >>> clock.elapsed()
    2.5
    """

    seconds: float = 0.0

    def now(self) -> float:
        """Seconds since the clock was made, and what it was set to then."""
        return self.seconds

    def elapsed(self) -> float:
        """Return the same as `now`."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Go on by so many seconds at once."""
        self.seconds += seconds


class Stopwatch:
    """How long each part of something took.

    Examples
    --------
    >>> from scstream.stream.clock import ManualClock, Stopwatch
    >>> clock = ManualClock()
    >>> watch = Stopwatch(clock)
    >>> clock.sleep(2.5)
    >>> watch.lap("learn")
    >>> watch.laps
    {'learn': 2.5}
    """

    def __init__(self, clock: Clock) -> None:
        self.laps: dict[str, float] = {}
        self._clock = clock
        self._since = clock.elapsed()

    def lap(self, name: str) -> None:
        """End a part; the next one begins."""
        now = self._clock.elapsed()
        self.laps[name] = now - self._since
        self._since = now
