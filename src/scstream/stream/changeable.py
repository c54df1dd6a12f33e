"""Which settings may change: at any start, with `scstream migrate` only, or never.

This is the only place where settings are sorted. `scstream run` compares the settings that labels
depend on with those in the checkpoint; `scstream migrate` prints what a change does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from scstream.io.header import Json, Plain
from scstream.io.parameters import READ_ONCE

RAY = ("workers", "address", "deadline", "replay")  # options of keys on a Ray cluster
FREE_PARAMETERS = ("n_jobs", "executor", "max_events", "exemplars")  # of the model
_DECISIVE = ("schema", "embed", "steps", "model", "batch", "keys")  # sections that labels depend on


class Rule(NamedTuple):
    """When a setting may change, and what a change does or why it is refused."""

    when: Literal["start", "migrate", "never"]
    effect: str


_NO_LABEL = Rule("start", "no label changes")
_BY_NAME: Mapping[str, Rule] = {
    "job": Rule("migrate", "labels carry the new name; the model keeps its seed"),
    "checkpoint.folder": Rule("start", "the new job keeps its checkpoints here"),
    "schema.features": Rule("migrate", "the model has other columns"),
    "schema.keep": Rule("migrate", "labels carry these columns"),
    "model.half_life": Rule("migrate", "acts from now on; old rows keep the weight they have"),
    **{f"embed.{name}": _NO_LABEL for name in ("token", "timeout", "retry_timeout", "rows")},
    "embed.cache": _NO_LABEL,
    "embed.url": Rule("start", "it must give the same vectors"),
    "embed.function": Rule("start", "it must give the same vectors"),
    "batch.time": Rule("never", "the times of the clusters would mean something else"),
    **{f"model.{name}": _NO_LABEL for name in FREE_PARAMETERS},
    **{f"model.{name}": Rule("never", "the clusters were made with it") for name in READ_ONCE},
    **{f"keys.{name}": _NO_LABEL for name in ("memory", "segment", "retry", *RAY)},
}
_BY_SECTION: Mapping[str, Rule] = {
    "schema": Rule("never", "a row of the model would mean something else"),
    "embed": Rule("never", "the clusters were learned from these vectors"),
    "steps": Rule("never", "the clusters were learned from rows after these steps"),
    "model": Rule("migrate", "acts on batches from now on"),
    "batch": Rule("migrate", "batches end elsewhere; labels may differ from the old job's"),
    "keys": Rule("never", "the models of keys depend on it"),
    "source": Rule("start", "rows come from here"),
    "sink": Rule("start", "labels go here"),
    "dead_letters": Rule("start", "rejected rows go here"),
    "events": Rule("start", "events of clusters go here"),
    "alerts": Rule("start", "alerts start without a past"),
    "labels": Rule("start", "labels carry these columns"),
    "naming": Rule("start", "new clusters are named this way"),
    "checkpoint": _NO_LABEL,
    "threads": _NO_LABEL,
}


def rule_of(setting: str) -> Rule:
    """Return the rule of a setting, such as "model.half_life".

    Examples
    --------
    >>> from scstream.stream.changeable import rule_of
    >>> [rule_of(name).when for name in ("model.n_jobs", "model.half_life", "model.family")]
    ['start', 'migrate', 'never']
    """
    return _BY_NAME.get(setting) or _BY_SECTION[setting.partition(".")[0]]


def decisive(settings: Plain) -> Json:
    """Return the settings that labels depend on, as the user wrote them."""
    found = {name: _decisive(name, settings.get(name)) for name in _DECISIVE}
    return {name: values for name, values in found.items() if values}


def changed_settings(old: Plain, new: Plain) -> list[str]:
    """Return the names of the settings that differ, such as "model.half_life"."""
    found: set[str] = set()
    for section in {*old, *new}:
        before, after = old.get(section), new.get(section)
        if isinstance(before or {}, Mapping) and isinstance(after or {}, Mapping):
            before, after = before or {}, after or {}
            names = {*before, *after}
            found |= {f"{section}.{n}" for n in names if before.get(n) != after.get(n)}
        elif before != after:
            found.add(section)
    return sorted(found)


def _decisive(section: str, values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    return {n: value for n, value in values.items() if rule_of(f"{section}.{n}").when != "start"}
