"""Write labels into the payload of the points of a Qdrant collection."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from qdrant_client.models import SetPayload, SetPayloadOperation

from scstream.errors import InputError, SinkError
from scstream.stream.connectors.outage import Outage
from scstream.stream.findings import Finding
from scstream.stream.secrets import masked
from scstream.stream.sink import Delivery, SinkPosition, plain_rows

_TEMPORARY = frozenset({408, 409, 429})
_NOT_FOUND = 404
_POINTS = 500  # of one request
_LARGEST_ID = 2**64
_T = TypeVar("_T")
_log = logging.getLogger(__name__)

PointId = int | str


class QdrantSink:
    """Write the labels of rows into the payload of points that exist already.

    A row names its point in a kept column. The sink sets one key of the payload of that point to
    an object with `job`, `batch`, `index`, `cluster` and the other kept columns; vectors and the
    rest of the payload stay. Setting it again changes nothing, so a batch that is learned again
    after a crash leaves every point as it was. If several rows name one point, the last one counts.

    Rows without a point are skipped, and a warning says how many: the point was deleted, or its id
    is neither an integer nor a UUID. Write points before you send their rows.

    Parameters
    ----------
    url : str
        Address of the server, such as "http://host:6333".
    collection : str
        Name of the collection.
    id : str
        The kept column that has the id of the point.
    key : str
        Key of the payload that is set.
    api_key : str, optional
        Key of the server.
    buffer_rows : int
        Maximum number of buffered rows; more are written before the next flush.
    retry_timeout : float, optional
        Seconds to wait for an unavailable server before stopping; by default there is no limit.

    Examples
    --------
    >>> from scstream.stream.connectors.qdrant import QdrantSink
    >>> QdrantSink("https://me:hunter2@vectors:6333", "articles", "article")
    QdrantSink('https://***@vectors:6333', 'articles')
    """

    def __init__(
        self,
        url: str,
        collection: str,
        id: str,
        *,
        key: str = "scstream",
        api_key: str | None = None,
        buffer_rows: int = 10_000,
        retry_timeout: float | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError(f"sink.url is {masked(url)!r}; write http://host:6333 or https://...")
        if not key:
            raise InputError("sink.key is empty; give the key of the payload to set.")
        self.address = masked(url)
        self.collection, self.id, self.key = collection, id, key
        self._url, self._api_key = url, api_key
        self._buffer_rows, self._retry_timeout = buffer_rows, retry_timeout
        self._closing = threading.Event()
        self._client: QdrantClient | None = None
        self._buffer: dict[PointId, dict[str, Any]] = {}
        self._last: int | None = None
        self._n_skipped = 0

    def __repr__(self) -> str:
        return f"QdrantSink({self.address!r}, {self.collection!r})"

    def open(self, position: SinkPosition | None) -> None:
        """Connect, and check that the collection exists; nothing needs to be undone."""
        self.close()
        self._buffer, self._last, self._n_skipped = {}, position, 0
        self._closing.clear()
        self._check_collection()

    def write(self, delivery: Delivery) -> None:
        """Buffer a delivery until the next flush."""
        if self.id not in delivery.columns:
            raise SinkError(
                f"{self!r}: rows have no column {self.id!r} with the id of the point; add it to "
                "schema.keep."
            )
        for row in plain_rows(delivery):
            point = to_point_id(row[self.id])
            if point is None:
                self._n_skipped += 1
            else:
                values = {name: _to_json(value) for name, value in row.items() if name != self.id}
                self._buffer.pop(point, None)  # the last row of a point is written last
                self._buffer[point] = {"job": delivery.job, **values}
        self._last = delivery.batch
        if len(self._buffer) >= self._buffer_rows:
            self._write_buffer()

    def flush(self) -> SinkPosition:
        """Write the buffered rows; return the number of the last batch."""
        self._write_buffer()
        if self._n_skipped:
            _log.warning("%r has no points for %d rows; they are skipped", self, self._n_skipped)
            self._n_skipped = 0
        return self._last

    def close(self) -> None:
        """Disconnect; rows that were not flushed are not written."""
        self._closing.set()
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def doctor(self) -> list[Finding]:
        """Check that the collection exists, and say how many points it has."""
        self._closing.clear()
        try:
            self._check_collection()
            n_points = self._retry(lambda client: client.count(self.collection).count)
            return [Finding("ok", "collection", f"{self.collection} has {n_points} points.")]
        finally:
            self.close()

    def _check_collection(self) -> None:
        if not self._retry(lambda client: client.collection_exists(self.collection)):
            raise SinkError(
                f"{self!r}: the collection does not exist. Create it with its vectors first."
            )

    def _write_buffer(self) -> None:
        points = list(self._buffer)
        for first in range(0, len(points), _POINTS):
            chunk = points[first : first + _POINTS]
            self._n_skipped += len(chunk) - self._retry(partial(self._write_points, chunk))
        self._buffer.clear()

    def _write_points(self, points: Sequence[PointId], client: QdrantClient) -> int:
        """Set the payloads of those points that exist; return their number."""
        found = client.retrieve(self.collection, points, with_payload=False)
        existing = {to_point_id(record.id) for record in found}
        operations = [
            SetPayloadOperation(
                set_payload=SetPayload(payload={self.key: self._buffer[point]}, points=[point])
            )
            for point in points
            if point in existing
        ]
        if operations:
            client.batch_update_points(self.collection, operations, wait=True)
        return len(operations)

    def _retry(self, act: Callable[[QdrantClient], _T]) -> _T:
        """Do something with the server; repeat it while the server is unavailable."""
        outage = Outage(self.address, self._retry_timeout)
        while True:
            try:
                return act(self._connect())
            except ResponseHandlingException as error:
                text = str(error)
            except UnexpectedResponse as error:
                status = error.status_code or 500
                text = f"the server answers {status} {error.reason_phrase}"
                # A point that was deleted after it was found is also "not found".
                if status < 500 and status not in _TEMPORARY | {_NOT_FOUND}:
                    raise SinkError(
                        f"{self!r}: {text}. Check the address, the key and the collection."
                    ) from None
                if status == _NOT_FOUND and not self._connect().collection_exists(self.collection):
                    raise SinkError(f"{self!r}: the collection does not exist any more.") from None
            outage.failed(text)
            outage.wait(self._closing)

    def _connect(self) -> QdrantClient:
        if self._client is None:
            self._client = QdrantClient(
                self._url, api_key=self._api_key, timeout=30, check_compatibility=False
            )
        return self._client


def to_point_id(value: object) -> PointId | None:
    """Return the id of a point as Qdrant writes it; None if the value cannot be one.

    Examples
    --------
    >>> to_point_id(7), to_point_id("7"), to_point_id(-1)
    (7, None, None)
    >>> to_point_id("936DA01F9ABD4d9d80C702AF85C822A8")
    '936da01f-9abd-4d9d-80c7-02af85c822a8'
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < _LARGEST_ID else None
    try:
        return str(UUID(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def _to_json(value: Any) -> Any:
    """Return a value that JSON can write: NaN and the infinities become null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
