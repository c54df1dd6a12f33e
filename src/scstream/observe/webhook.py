"""Posts alerts to a URL, in a separate thread, so that the pipeline never waits."""

from __future__ import annotations

import json
import logging
import math
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from threading import Condition, Event, Thread
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from scstream.observe.address import check_address, post_json, shown_address
from scstream.observe.events import (
    AlertRaised,
    EventCallback,
    RunEvent,
    Started,
    ignore_event,
)

TIMEOUT = 10.0  # seconds
MAX_QUEUED = 1000  # alerts
_ATTEMPTS = 6
_FIRST_PAUSE, _MAX_PAUSE = 0.5, 30.0  # seconds between two attempts
_CLOSE_TIMEOUT = 5.0  # seconds
_RETRY = frozenset({408, 425, 429})  # status codes below 500 that are tried again
_LOG = logging.getLogger(__name__)


class Notification(NamedTuple):
    """One alert to send: its idempotency key and its body."""

    key: str
    content: bytes


class Webhook:
    """Posts every alert as JSON; a failed delivery is tried again, then dropped.

    The body is ``{"job", "batch", "index", "kind", "value", "detail"}``. The header
    `Idempotency-Key` is made of job, batch and index: a batch that is learned again after a crash
    sends the same keys, so the receiver can recognise duplicates. Redirects are not followed,
    certificates are verified, and proxies of the environment are not used. Queued alerts are lost
    if the process is killed; use a sink for alerts if that matters.

    Parameters
    ----------
    url : str
        URL to post to, https:// or http://.
    token : str, optional
        Sent as `Authorization: Bearer ...`; not allowed over plain http to another machine.
    timeout : float
        Timeout of the connection and of every read, in seconds.
    max_queued : int
        Maximum number of queued alerts; further ones are dropped.
    attempts : int
        Maximum number of attempts for an alert.
    pause : float
        Seconds before the second attempt; doubled for each further one, up to 30.

    Examples
    --------
    >>> from scstream.observe.events import BatchLearned
    >>> from scstream.observe.webhook import Webhook
    >>> webhook = Webhook("https://hooks.example.org/services/s3cret")
    >>> webhook
    Webhook('https://hooks.example.org/***')
    >>> webhook.emit(BatchLearned(0, rows=100))  # not an alert: nothing is posted
    >>> webhook.sent, webhook.dropped
    (0, 0)
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = TIMEOUT,
        max_queued: int = MAX_QUEUED,
        attempts: int = _ATTEMPTS,
        pause: float = _FIRST_PAUSE,
    ) -> None:
        self._address = check_address(url, token=token)
        self._token = token
        self._timeout = timeout
        self._attempts = attempts
        self._pause = pause
        self._max_queued = max_queued
        self._queued: deque[Notification] = deque()
        self._changed = Condition()  # guards the queue and `_closing`
        self._closing = Event()
        self._thread: Thread | None = None
        self._job = "scstream"
        self._last = (-1, -1)  # batch and index of the last alert
        self._n_failed = 0  # written by the thread only
        self._n_unsent = 0  # written by the other threads only
        self.sent = 0

    @property
    def dropped(self) -> int:
        """Number of alerts that were not delivered."""
        return self._n_failed + self._n_unsent

    def emit(self, event: RunEvent, /) -> None:
        """Queue an alert of the pipeline; other events are ignored."""
        if isinstance(event, Started):
            self._job = event.job
        elif isinstance(event, AlertRaised):
            self._queue(self._notification(event))

    def close(self, *, timeout: float = _CLOSE_TIMEOUT) -> None:
        """Try each queued alert once more, within the timeout; drop the others."""
        with self._changed:
            self._closing.set()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout)
            self._n_unsent += len(self._queued) + self._thread.is_alive()
            self._queued.clear()
        if self.dropped:
            _LOG.warning("%d alerts could not be sent to %s", self.dropped, self._shown)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Webhook({self._shown!r})"

    @property
    def _shown(self) -> str:
        return shown_address(self._address)

    def _notification(self, alert: AlertRaised) -> Notification:
        batch, index = alert.batch, 0
        if batch == self._last[0]:
            index = self._last[1] + 1
        self._last = (batch, index)
        value = alert.value if math.isfinite(alert.value) else None
        content = {"job": self._job, **alert.to_dict(), "index": index, "value": value}
        # Quoted, because a header must be ASCII without line breaks.
        key = f"{quote(self._job, safe='')}/{batch}/{index}"
        return Notification(key, json.dumps(content).encode())

    def _queue(self, notification: Notification) -> None:
        with self._changed:
            if len(self._queued) >= self._max_queued:
                self._n_unsent += 1
                return
            self._queued.append(notification)
            self._changed.notify()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="scstream-webhook", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (notification := self._next()) is not None:
            self._deliver(notification)

    def _next(self) -> Notification | None:
        """Wait for an alert; None after `close` if the queue is empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._queued or self._closing.is_set())
            return self._queued.popleft() if self._queued else None

    def _deliver(self, notification: Notification) -> None:
        """Post an alert until it is accepted, rejected, or all attempts have failed."""
        error = ""
        for attempt in range(self._attempts):
            if attempt:
                self._closing.wait(min(self._pause * 2.0 ** (attempt - 1), _MAX_PAUSE))
            last = self._closing.is_set()
            error, again = self._post(notification)
            if not error:
                self.sent += 1
                return
            if last or not again:
                break
        self._n_failed += 1
        key = notification.key
        _LOG.warning("the alert %s was not accepted by %s: %s", key, self._shown, error)

    def _post(self, notification: Notification) -> tuple[str, bool]:
        """Return the error, empty if the alert was accepted, and whether to try again."""
        try:
            status, _ = post_json(
                self._address,
                notification.content,
                token=self._token,
                timeout=self._timeout,
                headers={"Idempotency-Key": notification.key},
            )
        except (OSError, HTTPException) as error:  # the message may contain the secret URL
            return type(error).__name__, True
        except ValueError as error:  # an invalid host name
            return type(error).__name__, False
        accepted = 200 <= status < 300
        return "" if accepted else f"status {status}", status >= 500 or status in _RETRY


@contextmanager
def posting(alerts: Mapping[str, Any]) -> Iterator[EventCallback]:
    """Yield a callback that posts alerts to the webhook of the section `[alerts]`, if any."""
    if not alerts.get("webhook"):
        yield ignore_event
        return
    with Webhook(alerts["webhook"], token=alerts.get("token")) as webhook:
        yield webhook.emit
