"""A running service as `scstream top` looks at it: over HTTP, with nothing but Python itself."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from scstream.cli.moments import Heavy, Moment
from scstream.cli.token import TOKEN
from scstream.core.state import Event
from scstream.errors import InputError, StreamError

_PATIENCE = 5.0  # seconds for an answer
_MOST = 16 << 20  # bytes of an answer
_CLUSTERS, _EVENTS = 500, 100


class Service:
    """A service, asked for its clusters, events and counts.

    Parameters
    ----------
    url : str
        Where it is.
    token : str or None
        What it wants to see.

    Examples
    --------
    >>> from scstream.cli.service import Service
    >>> Service("http://127.0.0.1:9").look()
    Traceback (most recent call last):
    ...
    scstream.errors.StreamError: http://127.0.0.1:9 does not answer: Connection refused; ...
    """

    def __init__(self, url: str, *, token: str | None = None) -> None:
        wrong = InputError(f"{url} is no address of a service; give http://host:port.")
        try:
            parts = urlsplit(url)
            has_port = parts.port != 0  # raises where it is no number
        except ValueError as error:
            raise wrong from error
        if not parts.hostname or not has_port or parts.query or parts.fragment:
            raise wrong
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._token = token
        self._before: Mapping[str, float] = {}

    def past(self) -> Iterable[Moment]:
        """Return nothing: a service tells of now."""
        return ()

    def look(self) -> Moment:
        """Return what it says now."""
        found = self._get(f"/clusters?limit={_CLUSTERS}")
        events = self._get(f"/events?limit={_EVENTS}")
        try:
            counts = read_metrics(self._get("/metrics").decode(errors="replace"))
        except StreamError:  # it keeps none
            counts = {}
        before, self._before = self._before, counts
        try:
            return _moment(
                json.loads(found), json.loads(events), counts, before=before, now=time.time()
            )
        except (ValueError, LookupError, TypeError) as error:
            raise StreamError(
                f"{self.name} answers, but not as scstream serve does; check the address."
            ) from error

    def _get(self, path: str) -> bytes:
        request = Request(self.name + path, headers={"Accept": "*/*"})
        if self._token is not None:  # who is redirected elsewhere does not take the token along
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with urlopen(request, timeout=_PATIENCE) as answer:
                return bytes(answer.read(_MOST))
        except HTTPError as error:
            raise StreamError(f"{self.name}{path} says {_detail(error)}") from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            why = getattr(reason, "strerror", None) or str(reason)
            raise StreamError(
                f"{self.name} does not answer: {why}; is the service there, and this its address?"
            ) from error


def _detail(error: HTTPError) -> str:
    """The sentence of a service that refuses."""
    try:
        detail = json.loads(error.read(_MOST))["detail"]
    except (ValueError, LookupError, TypeError, OSError, HTTPException):
        detail = error.reason
    hint = f" Give a token with --token-file or {TOKEN}." if error.code == 401 else ""
    return f"{error.code}: {detail}{hint}"


def _moment(
    found: Mapping[str, Any],
    events: Mapping[str, Any],
    counts: Mapping[str, float],
    *,
    before: Mapping[str, float],
    now: float,
) -> Moment:
    newest = max((each["last_seen"] for each in found["clusters"]), default=0.0)
    learned = counts.get("scstream_model_timestamp_seconds") or counts.get(
        "scstream_last_batch_timestamp_seconds"
    )
    return Moment(
        at=now,
        learned=learned or 0.0,
        version=int(found["version"]),
        batch=int(found["batch"]),
        n_clusters=int(found["total"]),
        clusters=tuple(
            Heavy(
                id=int(each["id"]),
                share=float(each["share"]),
                weight=float(each["weight"]),
                quiet=newest - float(each["last_seen"]),
            )
            for each in found["clusters"]
        ),
        events=tuple(reversed([Event(**each) for each in events["events"]])),
        rows=_count(counts.get("scstream_rows_total")),
        rejected=_count(counts.get("scstream_rejected_rows_total")),
        asked=_count(counts.get("scstream_predicted_rows_total")),
        novelty=_novelty(counts, before),
        log_density=counts.get("scstream_mean_log_density", math.nan),
        n_bytes=_count(counts.get("scstream_checkpoint_bytes")),
    )


def _novelty(counts: Mapping[str, float], before: Mapping[str, float]) -> float:
    """Share of novel rows among those since the last look: learned, or else asked about."""
    for kind in ("", "predicted_"):
        rows, novel = (
            counts.get(name, 0.0) - before.get(name, 0.0)
            for name in (f"scstream_{kind}rows_total", f"scstream_{kind}novel_rows_total")
        )
        if rows > 0:
            return novel / rows
    return math.nan


def _count(value: float | None) -> int | None:
    """A count, None if nothing was counted at all."""
    return int(value) if value else None


def read_metrics(text: str) -> dict[str, float]:
    r"""Return the values of metrics without labels, by name.

    Examples
    --------
    >>> from scstream.cli.service import read_metrics
    >>> read_metrics('# HELP a rows\na 3.0\nb{kind="x"} 7\nc NaN\n')
    {'a': 3.0}
    """
    values: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name.isidentifier():
            try:
                number = float(value.split()[0])
            except (ValueError, IndexError):
                continue
            if math.isfinite(number):
                values[name] = number
    return values
