"""Posts alerts to an address, from a thread of its own, so that the pipeline never waits for it."""

from __future__ import annotations

import json
import logging
import math
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Condition, Event, Thread
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from scstream.observe.address import check_address, shown_address

EventCallback = Callable[..., None]
TIMEOUT = 10.0  # seconds
MOST_WAITING = 1000  # alerts
_ATTEMPTS = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds between two attempts
_PARTING = 5.0  # seconds for what still waits at the end
_LATER = frozenset({408, 425, 429})  # answers below 500 that ask to try again
_LOG = logging.getLogger(__name__)


class Note(NamedTuple):
    """One alert on its way: the key that it is known by, and its content."""

    key: str
    content: bytes


class Webhook:
    """Posts every alert as JSON; what cannot be delivered is tried again, then given up.

    The body is ``{"job", "batch", "index", "kind", "value", "detail"}``. The header
    `Idempotency-Key` is made of job, batch and index: a batch that is learned again after a crash
    gives the same keys, so that a receiver can tell a repetition. Redirects are not followed,
    certificates are checked, and proxies of the environment are not used. What waits is lost when
    the process is killed; a sink of alerts loses nothing.

    Parameters
    ----------
    url : str
        Where to post, https:// or http://.
    token : str, optional
        Is sent as `Authorization: Bearer ...`; not over plain http to another machine.
    timeout : float
        Seconds to wait for a connection, and for every part of an answer.
    most_waiting : int
        Alerts that may wait; further ones are given up.
    attempts : int
        How often an alert is tried, with longer and longer pauses.
    pause : float
        Seconds of the first pause; each is twice as long as the one before, 30 at most.

    Examples
    --------
    >>> from scstream.observe.webhook import Webhook
    >>> webhook = Webhook("https://hooks.example.org/services/s3cret")
    >>> webhook
    Webhook('https://hooks.example.org/***')
    >>> webhook.emit("batch", batch=0, rows=100)  # not an alert: nothing is posted
    >>> webhook.sent, webhook.given_up
    (0, 0)
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = TIMEOUT,
        most_waiting: int = MOST_WAITING,
        attempts: int = _ATTEMPTS,
        pause: float = _FIRST_PAUSE,
    ) -> None:
        self._address = check_address(url, token=token)
        self._token = token
        self._timeout = timeout
        self._attempts = attempts
        self._pause = pause
        self._most_waiting = most_waiting
        self._waiting: deque[Note] = deque()
        self._changed = Condition()  # guards what waits and whether it is over
        self._over = Event()
        self._thread: Thread | None = None
        self._job = "scstream"
        self._last = (-1, -1)  # batch and index of the last alert
        self._refused = 0  # counted by the thread
        self._left = 0  # counted by those who announce and close
        self.sent = 0

    @property
    def given_up(self) -> int:
        """Number of alerts that were not delivered."""
        return self._refused + self._left

    def emit(self, kind: str, /, **values: Any) -> None:
        """Be told by the pipeline what happens; return at once."""
        if kind == "started":
            self._job = values["job"]
        elif kind == "alert":
            self._queue(self._note(values))

    def close(self, *, within: float = _PARTING) -> None:
        """Try what still waits once more, for a short while; what is left is given up."""
        with self._changed:
            self._over.set()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(within)
            self._left += len(self._waiting) + self._thread.is_alive()
            self._waiting.clear()
        if self.given_up:
            _LOG.warning("%d alerts could not be sent to %s", self.given_up, self._shown)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Webhook({self._shown!r})"

    @property
    def _shown(self) -> str:
        return shown_address(self._address)

    def _note(self, alert: Mapping[str, Any]) -> Note:
        batch, index = alert["batch"], 0
        if batch == self._last[0]:
            index = self._last[1] + 1
        self._last = (batch, index)
        value = alert["value"] if math.isfinite(alert["value"]) else None
        content = {"job": self._job, **alert, "index": index, "value": value}
        # A header is plain ASCII without line breaks, whatever the name of the job is.
        key = f"{quote(self._job, safe='')}/{batch}/{index}"
        return Note(key, json.dumps(content).encode())

    def _queue(self, note: Note) -> None:
        with self._changed:
            if len(self._waiting) >= self._most_waiting:
                self._left += 1
                return
            self._waiting.append(note)
            self._changed.notify()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="scstream-webhook", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (note := self._next()) is not None:
            self._deliver(note)

    def _next(self) -> Note | None:
        """Wait for an alert; None when it is over and nothing waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._over.is_set())
            return self._waiting.popleft() if self._waiting else None

    def _deliver(self, note: Note) -> None:
        """Try until it is accepted, refused for good, or has been tried often enough."""
        why = ""
        for attempt in range(self._attempts):
            if attempt:
                self._over.wait(min(self._pause * 2.0 ** (attempt - 1), _LONGEST_PAUSE))
            last = self._over.is_set()
            why, again = self._post(note)
            if not why:
                self.sent += 1
                return
            if last or not again:
                break
        self._refused += 1
        _LOG.warning("the alert %s was not accepted by %s: %s", note.key, self._shown, why)

    def _post(self, note: Note) -> tuple[str, bool]:
        """Return why an alert was not accepted, empty if it was, and whether to try again."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": note.key}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        target = self._address.path or "/"
        if self._address.query:
            target += f"?{self._address.query}"
        try:
            with closing(self._link()) as link:
                link.request("POST", target, note.content, headers)
                status = link.getresponse().status
        except (OSError, HTTPException) as error:  # what it says may name the address
            return type(error).__name__, True
        except ValueError as error:  # a name that no resolver takes
            return type(error).__name__, False
        accepted = 200 <= status < 300
        return "" if accepted else f"status {status}", status >= 500 or status in _LATER

    def _link(self) -> HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "http":
            return HTTPConnection(host, port, timeout=self._timeout)
        context = ssl.create_default_context()
        return HTTPSConnection(host, port, timeout=self._timeout, context=context)


@contextmanager
def posting(alerts: Mapping[str, Any]) -> Iterator[EventCallback]:
    """Yield what must be told of alerts for them to be posted, as the section `[alerts]` says.

    Examples
    --------
    >>> from scstream.observe.webhook import posting
    >>> with posting({"novelty": 0.2}) as emit:  # no address: nothing is posted
    ...     emit("alert", batch=3, kind="novelty", value=0.4, detail="...")
    """
    if not alerts.get("webhook"):
        yield _silent
        return
    with Webhook(alerts["webhook"], token=alerts.get("token")) as webhook:
        yield webhook.emit


def _silent(kind: str, /, **values: Any) -> None:
    """Post nothing."""
