"""The live page: what it shows of a stream, and the routes that bring it to a browser.

Whoever learns calls `Live.see`, whoever answers calls `Live.asked`; both cost next to nothing. A
picture is drawn only while somebody looks, on a thread of its own, and never for more than a tenth
of the time.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

from scstream.compute.threads import one_blas_thread
from scstream.errors import missing_extra
from scstream.families.base import Labels
from scstream.serve.chronicle import Chronicle, Known
from scstream.serve.memory import Recent, Told, spaced
from scstream.serve.picture import Drawing, draw
from scstream.stream.model_version import ModelVersion

try:
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import BaseRoute, Route
    from starlette.types import Receive, Scope, Send
except ImportError as error:
    raise missing_extra("starlette", "serve") from error

EVERY = 0.2  # seconds between two pictures
IDLE = 5.0  # seconds of silence after which a subscriber is sent a sign of life
PATIENCE = 20.0  # seconds that a subscriber may take to accept what it is sent
_LAZINESS = 10  # a picture that took a second of a core is not drawn again for so many
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Live:
    """What the live page shows of a stream, in bounded memory; any thread may call it.

    Parameters
    ----------
    n_rows : int
        Most recent rows that are drawn.
    n_moments : int
        Most moments of the history; older ones are joined, not dropped.
    n_subscribers : int
        Most browsers that may look at a time.
    clock : callable
        Seconds that have passed.

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
    >>> live.see(ModelVersion(0, 1, 0.0, None, model, Steps()), X=rows, labels=labels)
    >>> live.picture()["clusters"], live.picture()["kind"]
    (1, 'columns')
    """

    def __init__(
        self,
        *,
        n_rows: int = 600,
        n_moments: int = 600,
        n_subscribers: int = 32,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.n_rows = n_rows
        self.n_subscribers = n_subscribers
        self.n_watching = 0
        self._clock = clock
        self._lock = Lock()  # held for as long as it takes to note something down
        self._closed = False
        self._artist: ThreadPoolExecutor | None = None
        self._tick = 0  # grows with everything that a picture may show
        self._chronicle = Chronicle(n_moments)
        self._learned, self._asked = Recent(n_rows), Recent(n_rows)
        self._seen_due = self._asked_due = self._draw_due = -np.inf
        self._drawing, self._encoded, self._drawn = Drawing({}), "{}", 0

    def see(self, reading: ModelVersion, *, X: Any = None, labels: Labels | None = None) -> None:
        """Be told of a new state of the model, and of the rows that it learned last.

        Every call counts, but what costs anything is done five times a second at most.

        Parameters
        ----------
        reading : ModelVersion
            The model.
        X : array or CSR array of shape (N, D), optional
            Rows as the model learned them, after the steps.
        labels : array of shape (N,), optional
            Ids of their clusters.
        """
        with self._lock:
            events = self._chronicle.note(reading, labels)
            for rows in (self._learned, self._asked):
                rows.rename(events)
            now = self._clock()
            if now >= self._seen_due:
                self._seen_due = now + EVERY
                self._chronicle.close_moment()
                _remember(self._learned, X, labels, max_n=self.n_rows // 4, at=now)
            self._tick += 1

    def asked(self, X: Any, labels: Labels) -> None:
        """Be told of rows that the model was asked about, as it sees them; some are remembered."""
        now = self._clock()
        if now < self._asked_due:
            return
        with self._lock:
            self._asked_due = now + EVERY
            _remember(self._asked, X, labels, max_n=max(self.n_rows // 20, 1), at=now)
            self._tick += 1

    def close(self) -> None:
        """End every stream, within a fraction of a second; a service that drains calls this."""
        self._closed = True
        if self._artist is not None:
            self._artist.shutdown(wait=False)

    def picture(self) -> dict[str, Any]:
        """Return the newest picture, drawn now if it is due."""
        if self._drawn != self._tick and self._clock() >= self._draw_due:
            self._draw()
        return self._drawing.values

    def news(self, known: Known) -> dict[str, Any]:
        """Return what happened that is not known yet."""
        with self._lock:
            if self._clock() >= self._seen_due:
                self._chronicle.close_moment()
            reading = self._chronicle.reading
            at = 0.0 if reading is None else reading.at
            age = round(max(time.time() - at, 0.0), 1) if at > 0 else None
            return self._chronicle.news(known) | {"age": age}

    async def frames(self) -> AsyncGenerator[str, None]:
        """Yield what a subscriber is sent: the history first, then whatever is new, as it can take.

        A subscriber that is slow misses pictures, and no more than the newest waits for it.
        """
        if self._artist is None:
            self._artist = ThreadPoolExecutor(1, thread_name_prefix="scstream-live")
        loop, known = asyncio.get_running_loop(), Known()
        has, spoken = -1, self._clock()  # the picture that it has
        while not self._closed:
            if has != self._tick or self._chronicle.pending:
                text, has = await loop.run_in_executor(self._artist, self._message, known, has)
            else:
                text = ""
            if not text and self._clock() - spoken > IDLE:
                text = ": still here\n\n"
            if text:
                spoken = self._clock()
                yield text
            await asyncio.sleep(EVERY)

    def page(self) -> list[tuple[str, str, bytes]]:
        """Name, type and content of every file of the page."""
        return [(name, kind, content) for name, (kind, content) in _files().items()]

    @contextmanager
    def seat(self) -> Iterator[bool]:
        """Count somebody who looks, and tell whether there was room."""
        has_room = self.n_watching < self.n_subscribers
        self.n_watching += has_room
        try:
            yield has_room
        finally:
            self.n_watching -= has_room

    def _draw(self) -> None:
        with self._lock:
            reading, tick = self._chronicle.reading, self._tick
            learned, asked = self._told()
        started = time.thread_time()
        if reading is not None:
            before = self._drawing.projection
            with one_blas_thread:
                self._drawing = draw(reading, learned=learned, asked=asked, before=before)
            self._encoded = _json(self._drawing.values)
        self._drawn = tick
        self._draw_due = self._clock() + _LAZINESS * (time.thread_time() - started)

    def _told(self) -> tuple[Told | None, Told | None]:
        """Rows of both kinds, half of each where there are many of both."""
        half = self.n_rows // 2
        n_asked = min(self._asked.n_rows, max(half, self.n_rows - self._learned.n_rows))
        return self._learned.rows(self.n_rows - n_asked), self._asked.rows(n_asked)

    def _message(self, known: Known, has: int) -> tuple[str, int]:
        """Say what a subscriber does not know yet; on the thread that draws."""
        self.picture()
        news = self.news(known)
        is_new = self._drawn != has
        text = f"event: news\ndata: {_json(news)}\n\n" if is_new or news["moments"] else ""
        if is_new:
            text += f"event: picture\ndata: {self._encoded}\n\n"
        return text, self._drawn


def live_routes(live: Live) -> list[BaseRoute]:
    """Routes of the page, its files and its stream of server-sent events.

    Parameters
    ----------
    live : Live
        What is shown.

    Returns
    -------
    list of routes
        ``GET /``, ``GET /page/{name}`` and ``GET /live``. The first two show nothing of the model
        and need no token.

    Examples
    --------
    >>> from scstream.serve.live import Live, live_routes
    >>> [route.path for route in live_routes(Live())]
    ['/', '/page/{name}', '/live']
    """

    async def page(request: Request) -> Response:
        found = _files().get(request.path_params.get("name", "index.html"))
        if found is None:
            return _refused(404, "NotFound", "the page has no file of that name.")
        return Response(found[1], media_type=found[0], headers={"cache-control": "no-cache"})

    async def stream(request: Request) -> Response:
        return _Stream(live)

    return [
        Route("/", page, include_in_schema=False),
        Route("/page/{name}", page, include_in_schema=False),
        Route("/live", stream, include_in_schema=False),
    ]


class _Stream(Response):
    """Server-sent events until the service ends, the browser leaves, or it does not listen."""

    media_type = "text/event-stream"

    def __init__(self, live: Live) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self.live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.live.seat() as has_room:
            if not has_room:
                detail = f"{self.live.n_subscribers} browsers look at the page; try again later."
                await _refused(503, "TooMany", detail)(scope, receive, send)
                return
            tasks = [asyncio.ensure_future(work) for work in (self._talk(send), _left(receive))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
            for error in ended:
                if isinstance(error, Exception) and not isinstance(error, TimeoutError):
                    raise error

    async def _talk(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async with aclosing(self.live.frames()) as frames:
            async for text in frames:
                async with asyncio.timeout(PATIENCE):
                    await send(_body(text, more=True))
        await send(_body("", more=False))


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _refused(status: int, error: str, detail: str) -> Response:
    headers = {"retry-after": "10"} if status == 503 else None
    return JSONResponse({"error": error, "detail": detail}, status_code=status, headers=headers)


def _body(text: str, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": text.encode(), "more_body": more}


def _json(values: Any) -> str:
    return json.dumps(values, separators=(",", ":"), allow_nan=False)


def _remember(kept: Recent, X: Any, labels: Labels | None, *, max_n: int, at: float) -> None:
    """Keep some rows; rows that are on other machines stay there."""
    if labels is not None and len(labels) and (isinstance(X, np.ndarray) or sparse.issparse(X)):
        kept.add(*spaced(X, labels, max_n), at=at)


@cache
def _files() -> dict[str, tuple[str, bytes]]:
    """Files of the page by name; nothing else can be asked for."""
    found = {}
    for file in sorted(files("scstream.serve").joinpath("page").iterdir(), key=lambda f: f.name):
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            found[file.name] = (kind, file.read_bytes())
    return found
