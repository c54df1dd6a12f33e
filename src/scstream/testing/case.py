"""Checks the laws of a conformance kit, and reports the first one that is broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from scstream.errors import InputError


class Case:
    """What is checked, and by which law."""

    law = ""
    name = "it"  # until an instance was built

    def ensure(self, condition: bool, what: str) -> None:
        """Raise an error with what was observed unless the condition holds."""
        if not condition:
            raise AssertionError(f"{self.name} breaks the law {self.law!r}: {what}.")


C = TypeVar("C", bound=Case)


def check_laws(
    case: C, known: Mapping[str, Callable[[C], None]], laws: Iterable[str] | None
) -> None:
    """Check laws in their fixed order: the last ones change the data."""
    wanted = set(known if laws is None else laws)
    if unknown := wanted - set(known):
        raise InputError(f"there is no law {min(unknown)!r}; there are: {', '.join(known)}.")
    for case.law, law in known.items():
        if case.law not in wanted:
            continue
        try:
            law(case)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(
                f"{case.name} breaks the law {case.law!r}: it raised {describe(error)}."
            ) from error


def through_json(value: Any) -> Any:
    """Return a value as read from a checkpoint; unchanged if JSON cannot represent it."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return value


def is_json(value: Any) -> bool:
    """Return whether JSON preserves the value: no tuples, arrays, NaN or keys that are not text."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False


def describe(error: Exception) -> str:
    """Return type and message of an error."""
    return f"{type(error).__name__} ({error})"
