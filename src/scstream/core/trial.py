"""How ``family="auto"`` chose the family of a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """Why a model has its family."""

    reason: str  # what the first rows showed
