"""What an alarm listens for: shares of rows, counts of events, and a drop of the log density."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, isnan, nan, sqrt
from statistics import fmean, median
from typing import Any, Protocol

from scstream.observe.drift import Adwin, Detector, PageHinkley

News = Mapping[str, Any]  # what became of a batch; see `scstream.stream.deliveries.batch_summary`
Found = tuple[float, str]  # what was measured, and what it means

OWN = (PageHinkley, Adwin)  # detectors whose state is saved
_REARM = 0.5  # share of its limit below which a share must sink before it is news again
_USUAL = -1.0  # spreads; from there up a batch is as usual
_LATE = 5  # batches that tell where a change led to
_FEWEST = 20  # batches that make a usual log density, with which others can be compared
_FAR = -20.0, 3.0  # spreads; what is further off counts as much, and a rise must hide no drop
_FINEST = 0.01  # nats: batches that are all alike have no spread, and smaller changes are no news
_NORMAL = 1.4826  # a normal spread, as a multiple of the median deviation


class Rule(Protocol):
    """One thing to listen for."""

    kind: str

    def hear(self, news: News, *, quiet: bool) -> Found | None:
        """Hear of a batch; return what is worth an alert, unless it is to be quiet."""
        ...

    def save(self) -> dict[str, Any]:
        """Return what was heard, in plain values."""
        ...

    def restore(self, heard: Mapping[str, Any]) -> None:
        """Go on from what was saved."""
        ...


class Share:
    """A share of rows that is too large, told once until it has sunk to half of the limit.

    Parameters
    ----------
    kind : str
        Name of the rule.
    limit : float
        The share.
    rows : int
        Fewest rows that a share is taken of; smaller batches are put together.
    count : callable
        Takes the news; returns how many rows count, and of how many.
    says : str
        What happened and what to look at, with the places share, n, batch and limit.

    Examples
    --------
    >>> from scstream.observe.rules import Share
    >>> detail = "{share:.0%} of {n} rows (limit {limit:.0%})"
    >>> rule = Share(
    ...     "novelty", 0.2, rows=10, count=lambda news: (news["novel"], news["rows"]), detail=detail
    ... )
    >>> rule.hear({"batch": 7, "novel": 3, "rows": 10}, quiet=False)
    (0.3, '30% of 10 rows (limit 20%)')
    >>> rule.hear({"batch": 8, "novel": 3, "rows": 10}, quiet=False)  # was told
    """

    def __init__(
        self,
        kind: str,
        limit: float,
        *,
        rows: int,
        count: Callable[[News], tuple[int, int]],
        detail: str,
    ) -> None:
        self.kind = kind
        self._limit = limit
        self._rows = rows
        self._count = count
        self._detail = detail
        self._n_hits, self._n = 0, 0
        self._told = False

    def hear(self, news: News, *, quiet: bool) -> Found | None:
        """Count the rows of a batch."""
        n_hits, n = self._count(news)
        self._n_hits += n_hits
        self._n += n
        if self._n < self._rows:
            return None
        n, share = self._n, self._n_hits / self._n
        self._n_hits, self._n = 0, 0
        self._told = self._told and share >= self._limit * _REARM
        if quiet or self._told or share < self._limit:
            return None
        self._told = True
        return share, self._detail.format(share=share, n=n, batch=news["batch"], limit=self._limit)

    def save(self) -> dict[str, Any]:
        """Return the counts, and whether the alert was told."""
        return {"hits": self._n_hits, "rows": self._n, "told": self._told}

    def restore(self, heard: Mapping[str, Any]) -> None:
        """Go on from what was saved."""
        self._n_hits, self._n, self._told = heard["hits"], heard["rows"], heard["told"]


class Count:
    """Events of a kind, so many in one batch; the first batch with clusters is not news.

    Parameters
    ----------
    kind : str
        Kind of the events, and name of the rule.
    least : int
        How many.
    says : str
        What happened and what to look at, with the places n, batch and clusters.

    Examples
    --------
    >>> from scstream.observe.rules import Count
    >>> rule = Count("born", 1, detail="{n} new in batch {batch}")
    >>> news = {"batch": 0, "clusters": 3, "events": {"born": 3}}
    >>> rule.hear(news, quiet=False)
    >>> rule.hear({**news, "batch": 1}, quiet=False)
    (3.0, '3 new in batch 1')
    """

    def __init__(self, kind: str, least: int, *, detail: str) -> None:
        self.kind = kind
        self._least = least
        self._detail = detail
        self._begun = False

    def hear(self, news: News, *, quiet: bool) -> Found | None:
        """Count the events of a batch."""
        begun, self._begun = self._begun, self._begun or news["clusters"] > 0
        n = news["events"].get(self.kind, 0)
        if quiet or not begun or n < self._least:
            return None
        return float(n), self._detail.format(n=n, batch=news["batch"], clusters=news["clusters"])

    def save(self) -> dict[str, Any]:
        """Return whether there were clusters."""
        return {"begun": self._begun}

    def restore(self, heard: Mapping[str, Any]) -> None:
        """Go on from what was saved."""
        self._begun = heard["begun"]


class Drop:
    """A drop of the mean log density that a detector sees, told once until a batch is usual again.

    The detector is told how many spreads a batch lies off the median of those before it. The spread
    is 1.48 times the median deviation, so that a few odd batches change neither; a batch of fewer
    rows than usual is brought nearer, as the mean of few rows varies more. So thresholds have no
    unit: 10 is ten times what batches usually differ by, in every stream.

    Parameters
    ----------
    detector : Detector
        Is told the numbers. A detection counts if the last five of them are below the mean that
        it has seen (`estimation`, as ADWIN has), or below what is usual if it does not tell one.
    memory : int
        Batches that tell what is usual.

    Examples
    --------
    >>> from scstream.observe.drift import PageHinkley
    >>> from scstream.observe.rules import Drop
    >>> rule = Drop(PageHinkley(min_instances=5, delta=1.0, threshold=10.0, mode="down"), memory=64)
    >>> for batch in range(40):
    ...     density = -4.0 + 0.1 * (batch % 3)
    ...     news = {"batch": batch, "rows": 100, "rejected": 0, "log_density": density}
    ...     assert rule.hear(news, quiet=False) is None
    >>> value, detail = rule.hear({**news, "batch": 40, "log_density": -9.0}, quiet=False)
    >>> value, detail[:63]
    (-9.0, 'the mean log density has dropped: -9.00 in batch 40, and usuall')
    """

    kind = "log_density"

    def __init__(self, detector: Detector, *, memory: int) -> None:
        self._detector = detector
        self._memory = memory
        self._fewest = min(_FEWEST, memory)
        self._usual: list[tuple[float, int]] = []  # log density and rows of batches
        self._late: list[float] = []  # how far off the last ones were
        self._since: list[tuple[float, int]] = []  # batches since an alert, while they are as low

    def hear(self, news: News, *, quiet: bool) -> Found | None:
        """Tell the detector how far off the log density of a batch is."""
        value, rows = news["log_density"], news["rows"] - news["rejected"]
        if not isfinite(value) or rows <= 0:
            return None
        middle, spread = self._middle_and_spread()
        off = self._off(value - middle, spread, rows)
        if self._is_told(off, (value, rows)):
            return None
        self._usual = [*self._usual, (value, rows)][-self._memory :]
        if isnan(off) or not self._sinks(off) or quiet:
            return None
        self._since = [(value, rows)]
        return value, (
            f"the mean log density has dropped: {value:.2f} in batch {news['batch']}, and usually "
            f"{middle:.2f} with a spread of {spread:.2f}. The model finds these rows improbable: "
            "see whether the source, a unit or a column has changed, and which clusters were born."
        )

    def _is_told(self, off: float, batch: tuple[float, int]) -> bool:
        """Whether a batch is still as low as the last alert told.

        Such batches say nothing about what is usual while a model finds its way back; only when
        there are many of them in a row they are the new usual.
        """
        if not self._since or off >= _USUAL:
            self._since = []
            return False
        self._since = [*self._since, batch]
        if len(self._since) >= self._fewest:
            self._usual, self._since = self._since, []
        return True

    def _middle_and_spread(self) -> tuple[float, float]:
        if len(self._usual) < self._fewest:
            return nan, nan
        middle = median(value for value, _ in self._usual)
        deviation = median(abs(value - middle) for value, _ in self._usual)
        return middle, max(_NORMAL * deviation, _FINEST)

    def _off(self, difference: float, spread: float, rows: int) -> float:
        """In spreads; the error of a mean over few rows is larger, as the root of their number."""
        if isnan(spread):
            return nan
        usual_rows = median(n for _, n in self._usual)
        off = difference / spread * min(1.0, sqrt(rows / usual_rows))
        return min(max(off, _FAR[0]), _FAR[1])

    def _sinks(self, off: float) -> bool:
        """Whether there is a change, to the worse: detectors may see those to the better, too."""
        self._late = [*self._late, off][-_LATE:]
        before = getattr(self._detector, "estimation", 0.0)
        self._detector.update(off)
        return bool(self._detector.drift_detected and fmean(self._late) < before)

    def save(self) -> dict[str, Any]:
        """Return what is usual and, of a detector of ours, its state."""
        saved: dict[str, Any] = {
            "usual": [list(pair) for pair in self._usual],
            "since": [list(pair) for pair in self._since],
            "late": self._late,
        }
        if isinstance(self._detector, OWN):
            saved |= {"detector": self._detector.kind, "state": self._detector.save()}
        return saved

    def restore(self, heard: Mapping[str, Any]) -> None:
        """Go on from what was saved; a detector of another kind or other options begins anew."""
        self._usual = [(value, rows) for value, rows in heard["usual"]][-self._memory :]
        self._since = [(value, rows) for value, rows in heard["since"]]
        self._late = list(heard["late"])
        own = self._detector
        if (
            isinstance(own, OWN)
            and heard.get("detector") == own.kind
            and heard["state"]["options"] == own.options
        ):
            self._detector = type(own).load(heard["state"])
