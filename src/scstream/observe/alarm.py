"""What somebody should look at: rules that hear of every batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Alert:
    """One thing that somebody should look at.

    Parameters
    ----------
    kind : str
        Which rule was met: "novelty", "log_density", "born" or "died".
    value : float
        What was measured.
    says : str
        What happened, and what to do about it.

    Examples
    --------
    >>> from scstream.observe.alarm import Alert
    >>> Alert("novelty", 0.4, "40 % of the rows of batch 7 belong to no cluster").kind
    'novelty'
    """

    kind: str
    value: float
    says: str


class Alarm:
    """Rules that hear of every batch.

    Examples
    --------
    >>> from scstream.observe.alarm import Alarm
    >>> Alarm().hear({"batch": 0, "rows": 10, "novel": 10})
    []
    """

    def hear(self, news: Mapping[str, Any]) -> Sequence[Alert]:
        """Hear of a batch; return what somebody should look at."""
        return []

    def save(self) -> dict[str, Any]:
        """Return what was heard so far, in plain values."""
        return {}

    def restore(self, heard: Mapping[str, Any]) -> None:
        """Go on from what was saved."""
