"""What somebody should look at: rules that hear of every batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from scstream.errors import InputError
from scstream.observe.drift import Adwin, Detector, PageHinkley
from scstream.observe.rules import BatchSummary, Count, Drop, Rule, Share

DETECTORS = ("page-hinkley", "adwin")
_NOVEL = (
    "{share:.0%} of the last {n} rows, up to batch {batch}, belong to no cluster (limit "
    "{limit:.0%}). Look at the rows with the label -1: outliers, a column that broke, or groups "
    "that are too small for a cluster (the switch birth_floor)."
)
_REJECTED = (
    "{share:.0%} of the last {n} rows, up to batch {batch}, could not be used (limit "
    "{limit:.0%}). Look at the reasons in the dead letters, and at what writes to the source."
)
_BORN = (
    "clusters born in batch {batch}: {n}; there are {clusters} now. Look at the rows that are in "
    "them: a new group, or an old one that has jumped."
)
_DIED = (
    "clusters that died in batch {batch}: {n}; there are {clusters} now. No rows had come to them "
    "for some time: see whether a part of the source has gone silent."
)


@dataclass(frozen=True)
class Alert:
    """One thing that somebody should look at.

    Parameters
    ----------
    kind : str
        Which rule was met: "novelty", "rejected", "log_density", "born" or "died".
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
    detail: str


@dataclass(frozen=True)
class AlarmOptions:
    """What an alarm listens for; `False` switches a rule off, and all are off at first.

    Parameters
    ----------
    novelty : float or False
        Share of rows of no cluster that is an alert. It is told once, until the share has sunk to
        half of it. Rows that found a cluster are no longer novel: see `births`.
    rejected : float or False
        Share of rows that cannot be used that is an alert, told in the same way.
    rows : int
        Fewest rows that a share is taken of; smaller batches are put together.
    log_density : {"page-hinkley", "adwin"} or False
        Tell when the mean log density of batches drops. "page-hinkley" is quick, and one batch that
        is far off is enough; "adwin" takes some batches, and only a drop that stays counts. From
        Python also any object with river's `update` and `drift_detected`, which is not saved.
    memory : int
        Batches that tell what log density is usual. Where it has a period, take a whole one.
    births : int or bool
        Number of clusters born in one batch that is an alert; `true` is 1. The first batch is no
        news.
    deaths : int or bool
        Number of clusters that died, likewise.
    quiet : int
        Batches after an alert for which another of its kind is not told.

    Examples
    --------
    >>> from scstream.observe.alarm import AlarmOptions
    >>> AlarmOptions(novelty=0.2).quiet
    10
    >>> AlarmOptions(novelty=20)
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: alerts.novelty must be a share of rows, more than 0 and at most 1,
    or false, got 20.
    """

    novelty: float = False
    rejected: float = False
    rows: int = 100
    log_density: str | bool | Detector = False
    memory: int = 64
    births: int | bool = False
    deaths: int | bool = False
    quiet: int = 10

    def __post_init__(self) -> None:
        for name in ("novelty", "rejected"):
            value = getattr(self, name)
            is_share = _is_number(value) and 0 < value <= 1
            if value is not False and not is_share:
                _refuse(name, "a share of rows, more than 0 and at most 1, or false", value)
        for name, least in (("rows", 1), ("memory", 8), ("quiet", 0)):
            value = getattr(self, name)
            if not (_is_whole(value) and value >= least):
                _refuse(name, f"a whole number, {least} or more", value)
        for name in ("births", "deaths"):
            value = getattr(self, name)
            if not isinstance(value, bool) and not (_is_whole(value) and value >= 1):
                _refuse(name, "true, false, or a whole number of clusters from 1 on", value)
        chosen = self.log_density
        is_own = hasattr(chosen, "update") and hasattr(chosen, "drift_detected")
        if chosen is not False and chosen not in DETECTORS and not is_own:
            names = ", ".join(f'"{name}"' for name in DETECTORS)
            _refuse("log_density", f"{names} or false", chosen)


class Alarm:
    """Rules that hear of every batch.

    Saved and restored at any point it gives the same alerts as one that went on, but for detectors
    of the user's own: these begin anew.

    Parameters
    ----------
    options : AlarmOptions, optional
        What to listen for; by default nothing.

    Examples
    --------
    >>> from scstream.observe.alarm import Alarm, AlarmOptions
    >>> summary = {"batch": 7, "rows": 200, "rejected": 0, "novel": 60}
    >>> [alert] = Alarm(AlarmOptions(novelty=0.2)).hear(summary)
    >>> alert.kind, alert.value
    ('novelty', 0.3)
    >>> Alarm().hear(summary)
    []
    """

    def __init__(self, options: AlarmOptions | None = None) -> None:
        self._rules = list(_rules(options)) if options else []
        self._quiet = options.quiet if options else 0
        self._left: dict[str, int] = {}  # batches to be quiet, by kind

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        """Return the alarm that the section `[alerts]` describes.

        Examples
        --------
        >>> from scstream.observe.alarm import Alarm
        >>> Alarm.build({"novelti": 0.2})
        Traceback (most recent call last):
        ...
        scstream.errors.InputError: there is no option 'novelti' of alerts; there are: novelty, ...
        """
        known = [field.name for field in fields(AlarmOptions)]
        unknown = [name for name in options if name not in known]
        if unknown:
            raise InputError(
                f"there is no option {unknown[0]!r} of alerts; there are: {', '.join(known)}."
            )
        return cls(AlarmOptions(**options))

    def hear(self, summary: BatchSummary) -> Sequence[Alert]:
        """Hear of a batch; return what somebody should look at."""
        alerts = []
        for rule in self._rules:
            left = self._left.pop(rule.kind, 0)
            found = rule.hear(summary, quiet=left > 0)
            if found is not None:
                alerts.append(Alert(rule.kind, *found))
                left = self._quiet + 1
            if left > 1:
                self._left[rule.kind] = left - 1
        return alerts

    def save(self) -> dict[str, Any]:
        """Return what was heard so far, in plain values."""
        if not self._rules:
            return {}
        heard = {rule.kind: rule.save() for rule in self._rules}
        return {"heard": heard, "quiet": dict(self._left)}

    def restore(self, heard: Mapping[str, Any]) -> None:
        """Go on from what was saved; a rule that was not there then begins anew."""
        self._left = dict(heard.get("quiet", {}))
        for rule in self._rules:
            if rule.kind in heard.get("heard", {}):
                rule.restore(heard["heard"][rule.kind])


def _rules(options: AlarmOptions) -> Iterator[Rule]:
    if options.novelty is not False:
        yield Share("novelty", options.novelty, rows=options.rows, count=_novel, detail=_NOVEL)
    if options.rejected is not False:
        yield Share(
            "rejected", options.rejected, rows=options.rows, count=_rejected, detail=_REJECTED
        )
    detector = _detector(options.log_density)
    if detector is not None:
        yield Drop(detector, memory=options.memory)
    if options.births is not False:
        yield Count("born", int(options.births), detail=_BORN)
    if options.deaths is not False:
        yield Count("died", int(options.deaths), detail=_DIED)


def _detector(chosen: str | bool | Detector) -> Detector | None:
    """The thresholds are in spreads; what they give is measured in benchmarks/results/drift.md."""
    if isinstance(chosen, bool):
        return None
    if chosen == "page-hinkley":
        return PageHinkley(min_instances=5, delta=1.0, threshold=10.0, alpha=1.0, mode="down")
    return Adwin(clock=1) if isinstance(chosen, str) else chosen


def _novel(summary: BatchSummary) -> tuple[int, int]:
    return summary["novel"], summary["rows"] - summary["rejected"]


def _rejected(summary: BatchSummary) -> tuple[int, int]:
    return summary["rejected"], summary["rows"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _refuse(name: str, wanted: str, value: Any) -> None:
    raise InputError(f"alerts.{name} must be {wanted}, got {value!r}.")
