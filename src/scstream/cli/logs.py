"""JSON lines on standard error, one for each event."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

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
        def redact(_logger: Any, _method: str, values: Any) -> Any:
            first = {name: values.pop(name) for name in ("timestamp", "level", "event")}
            return redactor.redact_value("", {**first, **values})

        self._logger = structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr),
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                redact,
                structlog.processors.JSONRenderer(default=str),
            ],
            wrapper_class=structlog.BoundLogger,
        ).bind(**fields)

    def write(self, event: str, /, **values: object) -> None:
        """Write one line."""
        self._logger.msg(event, level=_LEVELS.get(event, "info"), **values)

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
