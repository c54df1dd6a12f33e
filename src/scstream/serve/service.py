"""The state that the routes share: the model, its threads, and the listeners for events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import nan
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from scstream.core.state import NOVEL
from scstream.errors import StreamError
from scstream.families.base import Labels, Rows
from scstream.io.budget import TooLarge
from scstream.io.header import Json
from scstream.observe import events
from scstream.observe.catalogue import OTHER, ROUTES
from scstream.serve.api_errors import ApiError
from scstream.serve.bodies import (
    ARROW,
    RowFormat,
    RowsRequest,
    key_of,
    load_json,
    read_arrow,
    rows_request,
)
from scstream.serve.domain import Range, accepted_ranges
from scstream.serve.limits import RequestContext
from scstream.serve.model import LocalModel, ModelProvider, UpdateResult
from scstream.serve.responses import prediction_body
from scstream.serve.settings import ServiceSettings
from scstream.stream.edit_queue import EditRequest, submit
from scstream.stream.follower import Follower
from scstream.stream.keyed_version import KeyedVersion, Version
from scstream.stream.model_version import ModelVersion
from scstream.stream.store import Store

if TYPE_CHECKING:
    from scstream.observe.prometheus import Metrics
    from scstream.serve.live import Live

T = TypeVar("T")
_SMALL_BODY = 2**16  # bytes up to which a body is decoded on the event loop
_SMALL_TASK = 4_000_000  # bytes of the body times clusters up to which it is predicted there, too
_LOGGED_PATH = 200  # characters


class PredictResult(NamedTuple):
    """The response to a prediction request."""

    content: bytes
    kind: str
    n_rows: int
    n_novel: int  # rows that belong to no cluster
    version: ModelVersion


class Service:
    """A model behind HTTP, with the threads that predict and the one that learns."""

    def __init__(
        self,
        model: ModelProvider,
        settings: ServiceSettings,
        *,
        live: Live | None = None,
        metrics: Metrics | None = None,
        emit: events.EventCallback = events.ignore_event,
        edits: Store | None = None,
    ) -> None:
        self.model = model
        self.edits = model.store if isinstance(model, Follower) else edits
        self.settings = settings
        self.live = live
        self.metrics = metrics
        self.emit = emit
        self.draining = False  # the service is about to end
        self.downloads = asyncio.Semaphore(1)  # model files that are being packed
        self._pool = ThreadPoolExecutor(settings.threads, "scstream-predict")
        self._writer = ThreadPoolExecutor(1, "scstream-learn")
        self._n_waiting = 0  # batches that wait to be learned
        self._format: tuple[Version | None, RowFormat] = (None, RowFormat(()))

    @property
    def is_keyed(self) -> bool:
        """Whether there is a model for every key; False while there is none."""
        with suppress(StreamError):
            return isinstance(self.model.latest(), KeyedVersion)
        return False

    async def version_of(self, key: str | None) -> ModelVersion:
        """Return the current model; that of a key may have to be read."""
        if key is None:
            return self.model.current()
        return await self.run(partial(self.model.current, key))

    def format_of(self, version: Version) -> RowFormat:
        """Return the format of the rows of a version."""
        known, row_format = self._format
        if known is not version:
            row_format = RowFormat.of(version)
            self._format = (version, row_format)
        return row_format

    def current_format(self) -> RowFormat | None:
        """Return the format of the rows of the current model; None while there is no model."""
        with suppress(StreamError):
            return self.format_of(self.model.latest())
        return None

    def current_ranges(self) -> Sequence[Range] | None:
        """Return the range of the entries that the current model accepts, if it is known."""
        with suppress(StreamError):
            version = self.model.latest()
            return accepted_ranges(version) if isinstance(version, ModelVersion) else None
        return None

    async def predict(
        self, body: bytes, kind: bytes, *, arrow: bool, key: str | None = None
    ) -> PredictResult:
        """Predict a small request at once, and a large one, or one of a key, on a thread."""
        if len(body) > _SMALL_BODY or kind == ARROW or self.is_keyed:
            return await self.run(partial(self._decode_and_predict, body, kind, key, arrow=arrow))
        version, request = self._decode(body, kind, key)
        is_large = len(body) * (len(version.model.state.ids) + 1) > _SMALL_TASK
        if is_large or request.time is not None or request.probabilities:
            return await self.run(partial(self._predict, version, request, arrow=arrow))
        return self._predict(version, request, arrow=arrow)

    def _decode_and_predict(
        self, body: bytes, kind: bytes, key: str | None, *, arrow: bool
    ) -> PredictResult:
        version, request = self._decode(body, kind, key)
        return self._predict(version, request, arrow=arrow)

    def _decode(
        self, body: bytes, kind: bytes, key: str | None
    ) -> tuple[ModelVersion, RowsRequest]:
        """Return the model that a request is about, and its rows."""
        max_n, latest = self.settings.rows, self.model.latest()
        try:
            if kind == ARROW:
                version = self.model.current(key)
                return version, read_arrow(body, self.format_of(version), max_n=max_n)
            content = load_json(body, self.format_of(latest), max_n=max_n)
            version = self.model.current(key_of(content, key))
            form = self.format_of(version)
            return version, rows_request(content, body, form, max_n=max_n)
        except TooLarge as error:
            raise ApiError("TooLarge", f"the body {error}") from None

    def _predict(
        self, version: ModelVersion, request: RowsRequest, *, arrow: bool
    ) -> PredictResult:
        if request.probabilities:
            self._check_cells(request.n_rows * (len(version.model.state.ids) + 1))
        X = version.prepared(request.rows)
        prediction = version.predicted("predict", X, time=request.time)
        probabilities = None
        if request.probabilities:
            probabilities = version.predicted("probabilities", X, time=request.time)
        if self.live is not None and not self.live.is_off:
            self.live.add_predicted(X, prediction.label)
        content, kind = prediction_body(version, prediction, probabilities, arrow=arrow)
        n_novel = int(np.count_nonzero(prediction.label == NOVEL))
        return PredictResult(content, kind, request.n_rows, n_novel, version)

    async def learn(self, body: bytes, kind: bytes) -> UpdateResult:
        """Learn a batch on the thread that learns; a few may wait, in order."""
        if not isinstance(self.model, LocalModel):
            detail = "this model learns in a pipeline; send the rows to the source of the pipeline."
            raise ApiError("NotAllowed", detail)
        if self._n_waiting >= self.settings.waiting:
            detail = f"{self._n_waiting} batches wait to be learned; send this one again later."
            raise ApiError("Busy", detail)
        self._n_waiting += 1
        try:
            future = self._writer.submit(self._learn, self.model, body, kind)
            return await self._wait_for(future)
        finally:
            self._n_waiting -= 1

    def _learn(self, model: LocalModel, body: bytes, kind: bytes) -> UpdateResult:
        started = time.perf_counter()
        _, request = self._decode(body, kind, None)
        if request.probabilities or not request.n_rows:
            detail = "a batch to learn needs at least one row, and no 'probabilities'."
            raise ApiError("InputError", detail)
        update = model.learn(request.block, time=request.time)
        self.model_changed(update.version, X=update.X, labels=update.labels)
        learned = events.UpdateLearned(
            batch=update.version.batch,
            version=update.version.version,
            rows=request.n_rows,
            clusters=len(update.version.model.state.ids),
            seconds=time.perf_counter() - started,
        )
        self.emit(learned)
        return update

    async def edit(self, request: EditRequest, *, client: str) -> tuple[int, Json]:
        """Apply an edit here, or send it to the pipeline; return the status and the response."""
        if self.is_keyed:
            detail = "the models of keys are edited with `scstream edit` and --key."
            raise ApiError("NotAllowed", detail)
        if self.edits is not None:
            number = await self.run(partial(submit, self.edits, request))
            self.emit(events.EditSent(number, request.action, request.author, client))
            return 202, {"applied": False, "number": number, "events": []}
        if not isinstance(self.model, LocalModel):
            raise ApiError("NotAllowed", "this model cannot be edited here.")
        future = self._writer.submit(self._edit, self.model, request, client)
        return 200, await self._wait_for(future)

    def _edit(self, model: LocalModel, request: EditRequest, client: str) -> Json:
        version, happened = model.edit(request)
        self.model_changed(version)
        number, action, author = version.version, request.action, request.author
        sent = events.EditSent(number, action, author, client)
        self.emit(sent)
        self.emit(events.EditApplied(number, version.batch, action, author, request.time, happened))
        return {"applied": True, "number": number, "events": happened}

    async def _wait_for(self, future: Future[T]) -> T:
        """Wait for a batch; cancel it if learning has not begun in time."""
        waiting = asyncio.wrap_future(future)
        done, _ = await asyncio.wait({waiting}, timeout=self.settings.answer_seconds)
        if not done and future.cancel():
            raise self._late()
        return await waiting

    async def run(self, task: Callable[[], T]) -> T:
        """Run a large task on a thread; give up waiting after `answer_seconds`."""
        waiting = asyncio.wrap_future(self._pool.submit(task))
        try:
            return await asyncio.wait_for(waiting, self.settings.answer_seconds)
        except TimeoutError:
            raise self._late() from None

    def _late(self) -> ApiError:
        seconds = self.settings.answer_seconds
        detail = f"no response within {seconds:g} s; try again later, or send fewer rows."
        return ApiError("TooLong", detail)

    @property
    def heartbeat_age(self) -> float | None:
        """Seconds since the pipeline was seen to work; None if the model follows none with one."""
        return self.model.heartbeat_age if isinstance(self.model, Follower) else None

    def _key_lookups(self) -> tuple[int, int, int] | None:
        """Return how many models of keys were in memory, how many were not, and bytes in memory."""
        if not self.is_keyed or not isinstance(self.model, Follower):
            return None
        keyed = self.model.keyed
        return keyed.n_hits, keyed.n_misses, keyed.n_bytes

    def begin(self) -> None:
        """Show the first model to the live page and the metrics, if there is one already."""
        if self.metrics is not None:
            self.metrics.heartbeat_age = lambda: self.heartbeat_age
            self.metrics.key_lookups = self._key_lookups
        with suppress(StreamError):
            self.model_changed(self.model.latest())

    def model_changed(
        self, version: Version, *, X: Rows | None = None, labels: Labels | None = None
    ) -> None:
        """Show a new model, and the rows that it learned, to the live page and the metrics."""
        one = version if isinstance(version, ModelVersion) else None
        if self.live is not None:
            self.live.is_off = one is None
            if one is not None:
                self.live.add_version(one, X=X, labels=labels)
        if self.metrics is None:
            return
        self.metrics.model(
            version.version,
            version.batch,
            at=version.at or nan,  # a file has no time
            clusters=version.n_clusters,
            keys=version.n_keys if isinstance(version, KeyedVersion) else None,
        )
        if one is not None:
            self.metrics.shares(one.model.state.share, one.model.named_shares)

    def request_done(self, context: RequestContext) -> None:
        """Count and log a finished request."""
        seconds = time.perf_counter() - context.started
        scope = context.scope
        if self.metrics is not None:
            route = route_of(scope["path"])
            n_rows, n_novel = context.n_rows, context.n_novel
            self.metrics.request(route, context.status, seconds, n_rows, novel=n_novel)
        if self.settings.access_log:
            client = scope.get("client")
            served = events.RequestServed(
                method=scope["method"],
                path=scope["path"][:_LOGGED_PATH],
                status=context.status,
                seconds=round(seconds, 6),
                rows=context.n_rows,
                client=client[0] if client else None,
            )
            self.emit(served)

    def drain(self) -> None:
        """Stop being ready, and end the streams of the live page."""
        self.draining = True
        if self.live is not None:
            self.live.close()

    def close(self) -> None:
        """Finish the batch that is being learned, and start nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._writer.shutdown(wait=True, cancel_futures=True)

    def _check_cells(self, n_cells: int) -> None:
        if n_cells > self.settings.cells:
            raise ApiError(
                "TooManyNumbers",
                f"the response would have {n_cells} probabilities and {self.settings.cells} are "
                "allowed; send fewer rows at a time, or leave 'probabilities' out.",
            )


def route_of(path: str) -> str:
    """Return the route of a path; paths that clients invent must not become labels of metrics."""
    if path in ROUTES:
        return path
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    if first == "clusters" and path.count("/") > 2:
        return "/clusters/{id}/{action}"
    return {"clusters": "/clusters/{id}", "page": "/page/{name}"}.get(first, OTHER)
