"""Findings of `scstream doctor` about a system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One finding.

    Parameters
    ----------
    level : {"ok", "note", "warn"}
        "warn" means that a guarantee does not hold with this setting.
    about : str
        The setting or part: "appendfsync", "threads".
    detail : str
        What was found, what it means, and what to do about it.
    """

    level: Literal["ok", "note", "warn"]
    about: str
    detail: str
