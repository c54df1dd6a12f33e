"""How far a run has come, counted from what the pipeline announces."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_WINDOW = 5.0  # seconds over which the rate is taken
_LAG_EVERY = 1.0  # seconds; to ask costs a round trip to the broker


@dataclass
class Progress:
    """Counts of a run.

    Parameters
    ----------
    lag : callable
        Asks the source how many messages wait; None if it cannot tell.
    elapsed : callable
        Seconds since some moment.
    stopping : callable
        Tells whether the run was asked to end.

    Examples
    --------
    >>> from scstream.cli.progress import Progress
    >>> progress = Progress(elapsed=lambda: 0.0)
    >>> progress.take("batch", {"batch": 0, "rows": 1000, "rejected": 2, "clusters": 5})
    >>> progress.rows, progress.clusters, progress.batches
    (1000, 5, 1)
    """

    lag: Callable[[], int | None] = lambda: None
    elapsed: Callable[[], float] = time.monotonic
    stopping: Callable[[], bool] = lambda: False
    rows: int = 0
    rejected: int = 0
    batches: int = 0
    clusters: int | None = None  # not known before the first batch of this run
    batch: int = 0  # the next one
    version: int | None = None
    behind: int | None = None  # messages that wait
    _checkpoint_at: float | None = None
    _asked_at: float | None = None
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.began = self.elapsed()

    def take(self, kind: str, values: dict[str, Any]) -> None:
        """Count what was announced."""
        if kind == "batch":
            self.rows += values["rows"]
            self.rejected += values["rejected"]
            self.clusters = values["clusters"]
            self.batches += 1
            self.batch = values["batch"] + 1
        elif kind == "checkpoint":
            self.version = values["version"]
            self._checkpoint_at = self.elapsed()
        elif kind in ("started", "stopped"):
            self.batch = values["batch"]
            self.behind = None  # what was heard before is not true any more

    def look(self) -> None:
        """Note the time, for the rate, and ask how much waits now and then."""
        now = self.elapsed()
        self._seen.append((now, self.rows))
        while self._seen[-1][0] - self._seen[0][0] > _WINDOW:
            self._seen.popleft()
        if self._asked_at is None or now - self._asked_at >= _LAG_EVERY:
            self._asked_at = now
            try:
                self.behind = self.lag()
            except Exception:  # a broker that is away; the pipeline itself says so
                self.behind = None

    @property
    def rate(self) -> float:
        """Rows per second of late; of the whole run before there were two looks."""
        then, rows = self._seen[0] if len(self._seen) > 1 else (self.began, 0)
        seconds = self.elapsed() - then
        return (self.rows - rows) / seconds if seconds > 0 else 0.0

    @property
    def seconds(self) -> float:
        """How long the run takes so far."""
        return self.elapsed() - self.began

    @property
    def checkpoint_age(self) -> float | None:
        """Seconds since the last checkpoint of this run."""
        return None if self._checkpoint_at is None else self.elapsed() - self._checkpoint_at

    def values(self) -> dict[str, Any]:
        """Return the counts by name, for a log."""
        age = self.checkpoint_age
        return {
            "rows": self.rows,
            "rows_per_second": round(self.rate, 1),
            "batches": self.batches,
            "next_batch": self.batch,
            "clusters": self.clusters,
            "lag": self.behind,
            "rejected": self.rejected,
            "checkpoint_age": None if age is None else round(age, 1),
        }
