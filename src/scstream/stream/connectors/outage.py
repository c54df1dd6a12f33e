"""Wait for a server that is unavailable."""

from __future__ import annotations

import logging
import threading
import time

from scstream.errors import StreamError

_FIRST_PAUSE, _LONGEST_PAUSE = 0.04, 2.0  # seconds
_log = logging.getLogger(__name__)


class Outage:
    """Counts failed attempts to use a server; pauses double up to two seconds.

    After `timeout` seconds without success (None: never) a failed attempt raises StreamError.
    """

    def __init__(self, server: str, timeout: float | None) -> None:
        self._server = server
        self._timeout = timeout
        self._n_failures = 0
        self._last_success = time.monotonic()

    @property
    def is_active(self) -> bool:
        """Whether the last attempt failed."""
        return self._n_failures > 0

    @property
    def pause(self) -> float:
        """Seconds to wait before the next attempt."""
        n_doublings = min(self._n_failures, 10) - 1
        return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**n_doublings) if self._n_failures else 0.0

    def failed(self, reason: str) -> None:
        """Count a failed attempt; log the first one, and raise once the timeout is over."""
        self._n_failures += 1
        if self._n_failures == 1:
            _log.warning("waiting for %s: %s", self._server, reason)
        waited = time.monotonic() - self._last_success
        if self._timeout is not None and waited > self._timeout:
            raise StreamError(
                f"{self._server} has been unavailable for {waited:.0f} s: {reason}. Remove the "
                "cause or check the address, and start again."
            )

    def ended(self) -> None:
        """Note that the server works: the next outage counts from now."""
        if self._n_failures:
            _log.info("%s is available again", self._server)
        self._n_failures = 0
        self._last_success = time.monotonic()

    def wait(self, closing: threading.Event) -> None:
        """Pause before the next attempt; raise if the connector is closed meanwhile."""
        if closing.wait(self.pause):
            raise StreamError(f"{self._server}: the connection was closed while waiting.")
