"""Alert rules, which are checked after every batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from scstream.errors import InputError
from scstream.observe.drift import Adwin, Detector, PageHinkley
from scstream.observe.events import BatchSummary
from scstream.observe.rules import CountRule, DropRule, Rule, ShareRule

DETECTORS = ("page-hinkley", "adwin")
_NOVEL = (
    "{share:.0%} of the last {n} rows, up to batch {batch}, belong to no cluster (limit "
    "{limit:.0%}). Look at the rows with the label -1: outliers, a column that broke, or groups "
    "that are too small for a cluster (min_birth_weight)."
)
_REJECTED = (
    "{share:.0%} of the last {n} rows, up to batch {batch}, could not be used (limit "
    "{limit:.0%}). Look at the reasons in the dead letters, and at what writes to the source."
)
_BORN = (
    "clusters born in batch {batch}: {n}; there are {clusters} now. Look at their rows: a new "
    "group, or an existing group that has moved suddenly."
)
_DIED = (
    "clusters that died in batch {batch}: {n}; there are {clusters} now. They got no rows for some "
    "time: check whether a part of the source has stopped sending."
)


@dataclass(frozen=True)
class Alert:
    """One alert.

    Parameters
    ----------
    kind : str
        The rule that raised it: "novelty", "rejected", "log_density", "born" or "died".
    value : float
        The measured value.
    detail : str
        What happened and what to do.

    Examples
    --------
    >>> from scstream.observe.alerts import Alert
    >>> Alert("novelty", 0.4, "40 % of the rows of batch 7 belong to no cluster").kind
    'novelty'
    """

    kind: str
    value: float
    detail: str


@dataclass(frozen=True)
class AlertOptions:
    """Options of the alert rules. `False` switches a rule off; all rules are off by default.

    Parameters
    ----------
    novelty : float or False
        Alert if at least this share of the rows belongs to no cluster. The next alert comes only
        after the share has fallen below half of the limit. Rows that form a new cluster are not
        novel: see `births`.
    rejected : float or False
        Alert if at least this share of the rows is rejected; repeated as `novelty`.
    rows : int
        Minimum number of rows for which a share is computed; smaller batches are combined.
    log_density : {"page-hinkley", "adwin"} or False
        Alert if the mean log density of batches drops. "page-hinkley" reacts fast, even to a single
        extreme batch; "adwin" needs several batches and reacts only to a lasting drop. In Python
        also any object with river's `update` and `drift_detected`; its state is not saved.
    memory : int
        Number of batches that define the usual log density. If it is periodic, use a whole period.
    births : int or bool
        Alert if at least this many clusters are born in one batch; `true` means 1. The first batch
        never alerts.
    deaths : int or bool
        Alert if at least this many clusters die in one batch.
    quiet : int
        Number of batches after an alert without another alert of the same kind.

    Examples
    --------
    >>> from scstream.observe.alerts import AlertOptions
    >>> AlertOptions(novelty=0.2).quiet
    10
    >>> AlertOptions(novelty=20)
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
                _reject_option(name, "a share of rows, more than 0 and at most 1, or false", value)
        for name, least in (("rows", 1), ("memory", 8), ("quiet", 0)):
            value = getattr(self, name)
            if not (_is_whole(value) and value >= least):
                _reject_option(name, f"a whole number, {least} or more", value)
        for name in ("births", "deaths"):
            value = getattr(self, name)
            if not isinstance(value, bool) and not (_is_whole(value) and value >= 1):
                _reject_option(name, "true, false, or a whole number of clusters from 1 on", value)
        chosen = self.log_density
        is_own = hasattr(chosen, "update") and hasattr(chosen, "drift_detected")
        if chosen is not False and chosen not in DETECTORS and not is_own:
            known = ", ".join(f'"{name}"' for name in DETECTORS)
            _reject_option("log_density", f"{known} or false", chosen)


class AlertRules:
    """The alert rules of a pipeline, checked after every batch.

    After `restore` they raise the same alerts as without interruption. Custom detectors are not
    saved and start again.

    Parameters
    ----------
    options : AlertOptions, optional
        The rules; by default none.

    Examples
    --------
    >>> from scstream.observe.alerts import AlertRules, AlertOptions
    >>> from scstream.observe.events import BatchSummary
    >>> summary = BatchSummary(7, rows=200, novel=60)
    >>> [alert] = AlertRules(AlertOptions(novelty=0.2)).check(summary)
    >>> alert.kind, alert.value
    ('novelty', 0.3)
    >>> AlertRules().check(summary)
    []
    """

    def __init__(self, options: AlertOptions | None = None) -> None:
        self._rules = list(_rules(options)) if options else []
        self._quiet = options.quiet if options else 0
        self._left: dict[str, int] = {}  # batches without alerts, by kind

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        """Return the rules that the section `[alerts]` describes."""
        known = [field.name for field in fields(AlertOptions)]
        unknown = [name for name in options if name not in known]
        if unknown:
            raise InputError(
                f"alerts has no option {unknown[0]!r}; its options are: {', '.join(known)}."
            )
        return cls(AlertOptions(**options))

    def check(self, summary: BatchSummary) -> Sequence[Alert]:
        """Return the alerts of a batch."""
        alerts = []
        for rule in self._rules:
            left = self._left.pop(rule.kind, 0)
            found = rule.check(summary, quiet=left > 0)
            if found is not None:
                alerts.append(Alert(rule.kind, *found))
                left = self._quiet + 1
            if left > 1:
                self._left[rule.kind] = left - 1
        return alerts

    def save(self) -> dict[str, object]:
        """Return the state in plain values."""
        if not self._rules:
            return {}
        rules = {rule.kind: rule.save() for rule in self._rules}
        return {"rules": rules, "quiet": dict(self._left)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from a saved state; a rule that is not in it starts empty."""
        self._left = dict(saved.get("quiet", {}))
        for rule in self._rules:
            if rule.kind in saved.get("rules", {}):
                rule.restore(saved["rules"][rule.kind])


def _rules(options: AlertOptions) -> Iterator[Rule]:
    if options.novelty is not False:
        yield ShareRule("novelty", options.novelty, rows=options.rows, count=_novel, detail=_NOVEL)
    if options.rejected is not False:
        yield ShareRule(
            "rejected", options.rejected, rows=options.rows, count=_rejected, detail=_REJECTED
        )
    detector = _detector(options.log_density)
    if detector is not None:
        yield DropRule(detector, memory=options.memory)
    if options.births is not False:
        yield CountRule("born", int(options.births), detail=_BORN)
    if options.deaths is not False:
        yield CountRule("died", int(options.deaths), detail=_DIED)


def _detector(chosen: str | bool | Detector) -> Detector | None:
    """Return the detector; benchmarks/results/drift.md measures the thresholds (in deviations)."""
    if isinstance(chosen, bool):
        return None
    if chosen == "page-hinkley":
        return PageHinkley(min_instances=5, delta=1.0, threshold=10.0, alpha=1.0, mode="down")
    return Adwin(clock=1) if isinstance(chosen, str) else chosen


def _novel(summary: BatchSummary) -> tuple[int, int]:
    return summary.novel, summary.rows - summary.rejected


def _rejected(summary: BatchSummary) -> tuple[int, int]:
    return summary.rejected, summary.rows


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _reject_option(name: str, wanted: str, value: Any) -> None:
    raise InputError(f"alerts.{name} must be {wanted}, got {value!r}.")
