"""A law about to be checked, and how it tells what it saw."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from scstream.errors import InputError


class Case:
    """What is checked, and by which law."""

    law = ""
    name = "it"  # until one was made

    def ensure(self, condition: bool, what: str) -> None:
        """Raise what was seen unless the condition holds."""
        if not condition:
            raise AssertionError(f"{self.name} breaks the law {self.law!r}: {what}.")


C = TypeVar("C", bound=Case)


def check_laws(
    case: C, known: Mapping[str, Callable[[C], None]], laws: Iterable[str] | None
) -> None:
    """Check laws in the order in which they are known: the last ones leave traces."""
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
                f"{case.name} breaks the law {case.law!r}: it raised {named(error)}."
            ) from error


def through_json(value: Any) -> Any:
    """As it comes out of a checkpoint; what cannot go in is left as it is, for a law to refuse."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return value


def is_plain(value: Any) -> bool:
    """Whether it is the same after a way through JSON: no tuples, arrays, NaN or odd keys."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False


def named(error: Exception) -> str:
    """What was raised, in words."""
    return f"{type(error).__name__} ({error})"
