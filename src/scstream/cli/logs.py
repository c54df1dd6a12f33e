"""JSON lines on standard error, one for each event."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from scstream.cli.secrets import SecretRedactor
from scstream.observe.events import RunEvent

_LEVELS = {
    "damaged": "error",
    "defect": "error",
    "not_saved": "error",
    "unreachable": "warning",
    "too_new": "warning",
    "gap": "warning",
    "error": "error",
    "warning": "warning",
    "alert": "warning",
}


class JsonLog:
    """Writes redacted JSON lines; `fields` are part of every line."""

    def __init__(self, redactor: SecretRedactor, **fields: Any) -> None:
        self._redactor = redactor
        self._fields = fields
        self._file = sys.stderr

    def write(self, event: str, /, **values: object) -> None:
        """Write one line."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        first = {"timestamp": now, "level": _LEVELS.get(event, "info"), "event": event}
        line = self._redactor.redact_value("", {**first, **self._fields, **values})
        self._file.write(json.dumps(line, default=str) + "\n")  # one call, for lines of threads
        self._file.flush()

    def emit(self, event: RunEvent, /) -> None:
        """Write an event."""
        self.write(event.event, **event.to_dict())


@contextmanager
def library_logs(report: Callable[[str], None]) -> Iterator[None]:
    """Report the warnings and errors that connectors and client libraries log."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            report(record.getMessage())

    handler, root = Handler(logging.WARNING), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
