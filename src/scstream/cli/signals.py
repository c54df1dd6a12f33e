"""SIGINT and SIGTERM: finish the current batch, commit it and stop."""

from __future__ import annotations

import os
import signal
import sys
from threading import Event
from types import FrameType
from typing import Any, Self

from scstream.cli.errors import INTERRUPTED

_SHOW_CURSOR = "\x1b[?25h"


class GracefulStop:
    """Sets `stop` on a signal, so that the pipeline ends after the current batch.

    Before the pipeline has `started`, a signal raises KeyboardInterrupt. A second SIGINT exits at
    once, as a crash would.
    """

    def __init__(self) -> None:
        self.stop = Event()
        self.started = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.stop.is_set() and number == signal.SIGINT:
            if sys.stderr.isatty():
                os.write(2, _SHOW_CURSOR.encode())
            os._exit(INTERRUPTED)
        self.stop.set()
        if not self.started:
            raise KeyboardInterrupt
