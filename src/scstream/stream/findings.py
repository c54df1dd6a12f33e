"""What `scstream doctor` finds out about a system, in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Parameters
    ----------
    level : {"ok", "note", "warn"}
        "warn" means that a promise does not hold with this setting.
    about : str
        What was looked at: "appendfsync", "threads".
    says : str
        What is so, what it means, and what to do about it.

    Examples
    --------
    >>> from scstream.stream.findings import Finding
    >>> Finding("warn", "appendfsync", "no: an acknowledged row is lost when power fails").level
    'warn'
    """

    level: Literal["ok", "note", "warn"]
    about: str
    detail: str
