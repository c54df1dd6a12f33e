"""Parameters that tuning may turn, and their ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REAL = frozenset({"real"})
COUNTS = frozenset({"counts"})
BOTH = REAL | COUNTS


class Knob:
    """A parameter that tuning may turn: its name, its default and the kinds of rows it is for."""

    name: str
    default: Any
    kinds: frozenset[str]

    def holds(self, value: Any) -> bool:
        """Whether a value lies in the range."""
        raise NotImplementedError


@dataclass(frozen=True)
class Real(Knob):
    """A number between two bounds."""

    name: str
    default: float
    low: float
    high: float
    log: bool = True
    kinds: frozenset[str] = BOTH

    def holds(self, value: Any) -> bool:
        """Whether a value lies in the range."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Whole(Knob):
    """A whole number between two bounds, both of them possible."""

    name: str
    default: int
    low: int
    high: int
    log: bool = True
    kinds: frozenset[str] = BOTH

    def holds(self, value: Any) -> bool:
        """Whether a value lies in the range."""
        return isinstance(value, int) and self.low <= value <= self.high


@dataclass(frozen=True)
class Choice(Knob):
    """One of a few values."""

    name: str
    default: Any
    values: tuple[Any, ...]
    kinds: frozenset[str] = BOTH

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return value in self.values
