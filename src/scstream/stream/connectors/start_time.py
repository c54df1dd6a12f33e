"""The time at which a source begins, as users write it."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any

from scstream.errors import InputError

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read_start_time(start: Any) -> float | None:
    """Return the seconds since 1970 of a time such as "2026-01-01T00:00Z"; None if it is none.

    A TOML file may have the time without quotes. A time without a zone raises `InputError`.
    """
    if isinstance(start, str) and _DATE.match(start):
        try:
            start = datetime.fromisoformat(start)
        except ValueError:
            raise _invalid(start) from None
    if isinstance(start, datetime) and start.tzinfo is not None:
        return start.timestamp()
    if isinstance(start, date):
        raise _invalid(start.isoformat())
    return None


def _invalid(start: str) -> InputError:
    return InputError(
        f"start is {start!r}, which is no time with a zone; write '2026-01-01T00:00Z', where Z is "
        "UTC, or '2026-01-01T00:00+02:00'."
    )
