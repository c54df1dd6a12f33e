"""Lines of JSON on the standard error, one for each thing that happens; structlog writes them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scstream.cli.veil import Veil
from scstream.errors import missing_extra

try:
    import structlog
except ImportError as error:
    raise missing_extra("structlog", "cli") from error

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


class Log:
    """Writes lines of JSON without secrets.

    Parameters
    ----------
    veil : Veil
        Knows the secrets.
    **always : plain values
        Stand in every line.

    Examples
    --------
    >>> import contextlib, io, json
    >>> from scstream.cli.logs import Log
    >>> from scstream.cli.veil import Veil
    >>> with contextlib.redirect_stderr(io.StringIO()) as shown:
    ...     Log(Veil(), job="demo").tell("checkpoint", batch=7)
    >>> line = json.loads(shown.getvalue())
    >>> line["event"], line["level"], line["job"], line["batch"]
    ('checkpoint', 'info', 'demo', 7)
    """

    def __init__(self, veil: Veil, **always: Any) -> None:
        def hide(_logger: Any, _method: str, values: Any) -> Any:
            first = {name: values.pop(name) for name in ("timestamp", "level", "event")}
            return veil.shown("", {**first, **values})

        self._logger = structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr),
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                hide,
                structlog.processors.JSONRenderer(default=str),
            ],
            wrapper_class=structlog.BoundLogger,
        ).bind(**always)

    def tell(self, event: str, **values: Any) -> None:
        """Write one line."""
        self._logger.msg(event, level=_LEVELS.get(event, "info"), **values)


@contextmanager
def library_logs(tell: Callable[[str], None]) -> Iterator[None]:
    """Pass on what connectors and client libraries log, warnings and worse.

    Examples
    --------
    >>> import logging
    >>> from scstream.cli.logs import library_logs
    >>> with library_logs(print):
    ...     logging.getLogger("nats").warning("waiting for NATS")
    waiting for NATS
    """

    class Passing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tell(record.getMessage())

    passing, root = Passing(logging.WARNING), logging.getLogger()
    root.addHandler(passing)
    try:
        yield
    finally:
        root.removeHandler(passing)
