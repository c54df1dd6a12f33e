"""The live page: its state, and the routes that bring it to a browser.

`Live.add_version` and `Live.add_predicted` are cheap. A picture is rendered only while a browser
shows the page, on a thread of its own that is busy for at most a tenth of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

from scstream.errors import missing_extra
from scstream.families.base import Labels
from scstream.serve.history import History, HistoryChanges, HistoryCursor
from scstream.serve.memory import LabelledRows, RecentRows, spaced
from scstream.serve.picture import PictureValues
from scstream.serve.views import Scene, Tree, View, Views, to_json
from scstream.stream.model_version import ModelVersion

try:
    from starlette.requests import Request
    from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
    from starlette.routing import BaseRoute, Route
    from starlette.types import Message, Receive, Scope, Send
except ImportError as error:
    raise missing_extra("starlette", "serve") from error

EVERY = 0.2  # seconds between two pictures
IDLE = 5.0  # seconds without a message after which a comment is sent
SEND_SECONDS = 20.0  # after which a browser that does not read is disconnected
_PAUSE = 10  # seconds of pause after a picture that took one second of a core
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Live:
    """The state of the live page, in bounded memory; any thread may call it.

    Parameters
    ----------
    n_rows : int
        Number of recent rows that are drawn.
    n_summaries : int
        Length of the history; older summaries are merged, not dropped.
    n_subscribers : int
        Number of browsers that may show the page at a time.
    clock : callable
        A monotonic clock, in seconds.

    Attributes
    ----------
    editable : bool
        Whether the page offers to name clusters; `create_app` sets it if there is a write token.
    is_off : bool
        Whether there is no model to show, because every key has one; then ``/`` shows ``/docs``.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.live import Live
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> rows = np.random.default_rng(0).normal(size=(50, 2))
    >>> model, labels, _ = Settings(random_state=0).update(rows)
    >>> live = Live()
    >>> live.add_version(ModelVersion(0, 1, 0.0, None, model, Steps()), X=rows, labels=labels)
    >>> live.picture()["clusters"], live.picture()["kind"]
    (1, 'columns')
    """

    def __init__(
        self,
        *,
        n_rows: int = 600,
        n_summaries: int = 600,
        n_subscribers: int = 32,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.n_rows = n_rows
        self.n_subscribers = n_subscribers
        self.n_subscribed = 0
        self.editable = False
        self.is_off = False
        self._clock = clock
        self._lock = Lock()  # held only briefly
        self._closed = False
        self._renderer: ThreadPoolExecutor | None = None
        self._tick = 0  # increases with every change of the picture
        self._history = History(n_summaries)
        self._learned, self._predicted = RecentRows(n_rows), RecentRows(n_rows)
        self._version_due = self._predicted_due = -np.inf
        self._views, self._tree = Views(), Tree()

    def add_version(
        self, version: ModelVersion, *, X: Any = None, labels: Labels | None = None
    ) -> None:
        """Add a new version of the model, and the rows that it learned last.

        Every call is counted; costly work is done at most five times a second.

        Parameters
        ----------
        version : ModelVersion
            The new version.
        X : array or CSR array of shape (N, D), optional
            The learned rows, after preprocessing.
        labels : array of shape (N,), optional
            Ids of their clusters.
        """
        with self._lock:
            events = self._history.add(version, labels)
            for rows in (self._learned, self._predicted):
                rows.rename(events)
            now = self._clock()
            if now >= self._version_due:
                self._version_due = now + EVERY
                self._history.close_summary()
                _keep(self._learned, X, labels, max_n=self.n_rows // 4, at=now)
            self._tick += 1

    def add_predicted(self, X: Any, labels: Labels) -> None:
        """Add preprocessed rows that were predicted; some of them are drawn."""
        now = self._clock()
        if now < self._predicted_due:
            return
        with self._lock:
            self._predicted_due = now + EVERY
            _keep(self._predicted, X, labels, max_n=max(self.n_rows // 20, 1), at=now)
            self._tick += 1

    def close(self) -> None:
        """End every stream within a fraction of a second."""
        self._closed = True
        if self._renderer is not None:
            self._renderer.shutdown(wait=False)

    def picture(self) -> PictureValues:
        """Return the newest picture; render it now if it is due."""
        return self._updated(self._views.newest).picture.values

    def changes(self, cursor: HistoryCursor) -> HistoryChanges:
        """Return the part of the history after a cursor, and move the cursor."""
        with self._lock:
            if self._clock() >= self._version_due:
                self._history.close_summary()
            return self._history.changes(cursor, now=time.time())

    def tree(self) -> str:
        """Return the tree of groups as JSON: ids of clusters, parts and height of each join.

        It is the linkage table of `Model.hierarchy`, or null without clusters or with too many.
        """
        version = self._history.version
        return "null" if version is None else self._tree.encoded(version.model, self._clock())

    async def messages(self, view: str = "") -> AsyncGenerator[str, None]:
        """Yield server-sent events: the history first, then what is new.

        A slow subscriber misses pictures; only the newest one waits for it.

        Parameters
        ----------
        view : str
            Axes of the map: "fit" for new ones that stay, "follow" for ones that turn with the
            clusters, the number of earlier ones, or "" for those that others see.
        """
        if self._renderer is None:
            self._renderer = ThreadPoolExecutor(1, thread_name_prefix="scstream-live")
        loop, sent = asyncio.get_running_loop(), _Sent()
        sent_at = self._clock()
        with self._views.reading(view) as chosen:
            while not self._closed:
                text = ""
                if sent.tick != self._tick or self._history.pending:
                    text = await loop.run_in_executor(self._renderer, self._message, chosen, sent)
                if not text and self._clock() - sent_at > IDLE:
                    text = ": still here\n\n"
                if text:
                    sent_at = self._clock()
                    yield text
                await asyncio.sleep(EVERY)

    def page(self) -> list[tuple[str, str, bytes]]:
        """Return name, type and content of every file of the page."""
        return [(name, kind, content) for name, (kind, content) in _files().items()]

    @contextmanager
    def subscription(self) -> Iterator[bool]:
        """Count a browser; yield whether it may show the page."""
        is_free = self.n_subscribed < self.n_subscribers
        self.n_subscribed += is_free
        try:
            yield is_free
        finally:
            self.n_subscribed -= is_free

    def _updated(self, view: View) -> View:
        """Return a view with the newest picture, if one is due: some are rendered in turn."""
        if view.tick != self._tick and self._clock() >= view.due:
            with self._lock:
                version, tick = self._history.version, self._tick
                learned, predicted = self._shown_rows()
                present, epoch = self._history.present, self._history.epoch
            started = time.thread_time()
            if version is not None:
                view.render(Scene(version, epoch, learned, predicted, present, self.editable))
            view.tick = tick
            pause = _PAUSE * max(self._views.n_read, 1)
            view.due = self._clock() + pause * (time.thread_time() - started)
        return view

    def _shown_rows(self) -> tuple[LabelledRows | None, LabelledRows | None]:
        """Return learned and predicted rows, half of each if there are many of both."""
        half = self.n_rows // 2
        n_predicted = min(self._predicted.n_rows, max(half, self.n_rows - self._learned.n_rows))
        return self._learned.rows(self.n_rows - n_predicted), self._predicted.rows(n_predicted)

    def _message(self, view: View, sent: _Sent) -> str:
        """Return what a subscriber does not have yet."""
        self._updated(view)
        changes = self.changes(sent.cursor)
        is_new = view.tick != sent.tick
        text = _event("history", to_json(changes)) if is_new or changes["summaries"] else ""
        if is_new:
            text += _event("picture", view.encoded)
        sent.tick = view.tick
        return text


@dataclass
class _Sent:
    """What a subscriber has."""

    cursor: HistoryCursor = field(default_factory=HistoryCursor)
    tick: int = -1  # of the picture


def live_routes(live: Live) -> list[BaseRoute]:
    """Return the routes of the page, its files and its stream of server-sent events.

    Parameters
    ----------
    live : Live
        The state of the page.

    Returns
    -------
    list of routes
        ``GET /``, ``GET /page/{name}``, ``GET /live`` and ``GET /live/tree``. The first two
        show nothing of the model and need no token.

    Examples
    --------
    >>> from scstream.serve.live import Live, live_routes
    >>> [route.path for route in live_routes(Live())]
    ['/', '/page/{name}', '/live', '/live/tree']
    """

    async def page(request: Request) -> Response:
        if live.is_off and request.url.path == "/":
            return RedirectResponse("docs")
        found = _files().get(request.path_params.get("name", "index.html"))
        if found is None:
            return _error(404, "NotFound", "the page has no file of that name.")
        return Response(found[1], media_type=found[0], headers={"cache-control": "no-cache"})

    async def stream(request: Request) -> Response:
        return _EventStream(live, request.query_params.get("view", ""))

    def tree(request: Request) -> Response:  # in a thread, because it can take seconds
        headers = {"cache-control": "no-store"}
        return Response(live.tree(), media_type="application/json", headers=headers)

    return [
        Route("/", page, include_in_schema=False),
        Route("/page/{name}", page, include_in_schema=False),
        Route("/live", stream, include_in_schema=False),
        Route("/live/tree", tree, include_in_schema=False),
    ]


class _EventStream(StreamingResponse):
    """Server-sent events until the service ends, or the browser leaves or stops reading."""

    def __init__(self, live: Live, view: str) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(live.messages(view), media_type="text/event-stream", headers=headers)
        self.live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.live.subscription() as is_free:
            if is_free:
                await super().__call__(scope, receive, send)
                return
            detail = f"{self.live.n_subscribers} browsers show the page; try again later."
            await _error(503, "TooMany", detail)(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        with suppress(TimeoutError):
            await super().stream_response(send_in_time)


def _error(status: int, error: str, detail: str) -> Response:
    headers = {"retry-after": "10"} if status == 503 else None
    return JSONResponse({"error": error, "detail": detail}, status_code=status, headers=headers)


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"


def _keep(kept: RecentRows, X: Any, labels: Labels | None, *, max_n: int, at: float) -> None:
    """Keep some rows, unless they are on other machines."""
    if labels is not None and len(labels) and (isinstance(X, np.ndarray) or sparse.issparse(X)):
        kept.add(*spaced(X, labels, max_n), at=at)


@cache
def _files() -> dict[str, tuple[str, bytes]]:
    """Return the files of the page by name."""
    found = {}
    for file in sorted(files("scstream.serve").joinpath("page").iterdir(), key=lambda f: f.name):
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            found[file.name] = (kind, file.read_bytes())
    return found
