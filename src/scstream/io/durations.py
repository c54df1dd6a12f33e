"""Durations as users write them: a number, a timedelta, or text such as "1h"."""

from __future__ import annotations

import re
from datetime import timedelta
from numbers import Real
from typing import Any

import numpy as np

from scstream.errors import InputError

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_WORDS = {
    "sec": "s",
    "second": "s",
    "seconds": "s",
    "minute": "min",
    "minutes": "min",
    "hour": "h",
    "hours": "h",
    "day": "d",
    "days": "d",
    "week": "w",
    "weeks": "w",
}
_PART = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*")


def is_duration(value: Any) -> bool:
    """Return True for text or a timedelta, which is measured in seconds."""
    return isinstance(value, str | timedelta | np.timedelta64)


def read_half_life(value: Any) -> float | None:
    """Return a half-life as a number, a duration in seconds; None and infinity never forget.

    It is the one place that knows which forms there are.
    """
    if value is None:
        return None
    number = _seconds(value) if is_duration(value) else value
    if not isinstance(number, Real) or not float(number) > 0:
        raise InputError(
            f"half_life must be a positive number, a timedelta, or text such as '90s', '30min', "
            f"'1h', '7d' or '2w', got {value!r}; pass half_life=None to never forget."
        )
    return None if np.isinf(float(number)) else float(number)


def read_seconds(value: Any, name: str) -> float:
    """Return a setting that is a duration in seconds: a number, or text such as "10s"."""
    number = _seconds(value) if is_duration(value) else value
    if value is True or not isinstance(number, Real) or not 0 < float(number) < np.inf:
        raise InputError(
            f"{name} must be a number of seconds, or text such as '10s' or '2min', got {value!r}."
        )
    return float(number)


def _seconds(duration: Any) -> float | None:
    """Return the seconds of a duration, None for text or units that mean no duration."""
    if isinstance(duration, str):
        return _seconds_of_text(duration.lower())
    if isinstance(duration, np.timedelta64):
        is_generic = np.datetime_data(duration.dtype)[0] == "generic"
        try:
            return None if is_generic else float(duration / np.timedelta64(1, "s"))
        except TypeError:  # months and years have no fixed length
            return None
    return float(duration.total_seconds())


def _seconds_of_text(text: str) -> float | None:
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text):
        return None
    units = [_WORDS.get(unit, unit) for _, unit in parts]
    if any(unit not in _SECONDS for unit in units):
        return None
    return sum(float(size) * _SECONDS[unit] for (size, _), unit in zip(parts, units, strict=True))
