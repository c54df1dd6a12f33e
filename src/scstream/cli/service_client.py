"""Client of `scstream serve` for `scstream top`."""

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

from scstream.cli.secrets import TOKEN
from scstream.cli.summary import ClusterSummary, Summary
from scstream.core.state import Event
from scstream.errors import InputError, StreamError

_TIMEOUT = 5.0  # seconds for a response
_MAX_BYTES = 16 << 20  # of a response
_CLUSTERS, _EVENTS = 500, 100


class ServiceMonitor:
    """Requests clusters, events and metrics from a service."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        invalid = InputError(f"{url} is not the address of a service; give http://host:port.")
        try:
            parts = urlsplit(url)
            has_port = parts.port != 0  # raises ValueError if it is not a number
        except ValueError as error:
            raise invalid from error
        if not parts.hostname or not has_port or parts.query or parts.fragment:
            raise invalid
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._token = token
        self._before: Mapping[str, float] = {}

    def past(self) -> Iterable[Summary]:
        """Return nothing: a service has no past summaries."""
        return ()

    def poll(self) -> Summary:
        """Return a summary of the service now."""
        found = self._get(f"/clusters?limit={_CLUSTERS}")
        events = self._get(f"/events?limit={_EVENTS}")
        try:
            metrics = parse_metrics(self._get("/metrics").decode(errors="replace"))
        except StreamError:  # the service has no metrics
            metrics = {}
        before, self._before = self._before, metrics
        try:
            return _summarize(
                json.loads(found), json.loads(events), metrics, before=before, now=time.time()
            )
        except (ValueError, LookupError, TypeError) as error:
            raise StreamError(
                f"{self.name} does not answer as scstream serve does; check the address."
            ) from error

    def _get(self, path: str) -> bytes:
        request = Request(self.name + path, headers={"Accept": "*/*"})
        if self._token is not None:  # a redirect to another server must not receive the token
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with urlopen(request, timeout=_TIMEOUT) as response:
                return bytes(response.read(_MAX_BYTES))
        except HTTPError as error:
            raise StreamError(f"{self.name}{path} answers {_error_detail(error)}") from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            detail = getattr(reason, "strerror", None) or str(reason)
            raise StreamError(
                f"{self.name} does not answer: {detail}; check that the service runs and that the "
                "address is right."
            ) from error


def _error_detail(error: HTTPError) -> str:
    """Return the status and the detail of an error response."""
    try:
        detail = json.loads(error.read(_MAX_BYTES))["detail"]
    except (ValueError, LookupError, TypeError, OSError, HTTPException):
        detail = error.reason
    hint = f" Give a token with --token-file or {TOKEN}." if error.code == 401 else ""
    return f"{error.code}: {detail}{hint}"


def _summarize(
    found: Any,
    events: Any,
    metrics: Mapping[str, float],
    *,
    before: Mapping[str, float],
    now: float,
) -> Summary:
    newest = max((each["last_seen"] for each in found["clusters"]), default=0.0)
    learned = metrics.get("scstream_model_timestamp_seconds") or metrics.get(
        "scstream_last_batch_timestamp_seconds"
    )
    return Summary(
        at=now,
        learned=learned or 0.0,
        version=int(found["version"]),
        batch=int(found["batch"]),
        n_clusters=int(found["total"]),
        clusters=tuple(
            ClusterSummary(
                id=int(each["id"]),
                share=float(each["share"]),
                weight=float(each["weight"]),
                quiet=newest - float(each["last_seen"]),
                name=str(each.get("name") or ""),
            )
            for each in found["clusters"]
        ),
        events=tuple(reversed([Event(**each) for each in events["events"]])),
        rows=_count(metrics.get("scstream_rows_total")),
        rejected=_count(metrics.get("scstream_rejected_rows_total")),
        predicted=_count(metrics.get("scstream_predicted_rows_total")),
        novelty=_novelty(metrics, before),
        log_density=metrics.get("scstream_mean_log_density", math.nan),
        n_bytes=_count(metrics.get("scstream_checkpoint_bytes")),
    )


def _novelty(metrics: Mapping[str, float], before: Mapping[str, float]) -> float:
    """Return the share of novel rows since the last poll: learned or else predicted rows."""
    for kind in ("", "predicted_"):
        rows, novel = (
            metrics.get(name, 0.0) - before.get(name, 0.0)
            for name in (f"scstream_{kind}rows_total", f"scstream_{kind}novel_rows_total")
        )
        if rows > 0:
            return novel / rows
    return math.nan


def _count(value: float | None) -> int | None:
    """Return a count; None if it is zero or missing."""
    return int(value) if value else None


def parse_metrics(text: str) -> dict[str, float]:
    """Return the finite values of the metrics without labels."""
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
