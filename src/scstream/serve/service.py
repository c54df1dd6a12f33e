"""What the routes share: the model, the threads that work for it, and who is told what happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import nan
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from scstream.core.state import NOVEL
from scstream.errors import StreamError
from scstream.families.base import Labels, Rows
from scstream.observe.catalogue import OTHER, ROUTES
from scstream.serve.answers import verdict_answer
from scstream.serve.bodies import ARROW, Form, Question, read_arrow, read_json
from scstream.serve.limits import Visit
from scstream.serve.model import Lesson, ModelProvider, Owned
from scstream.serve.refusals import Refusal
from scstream.serve.settings import ServiceSettings
from scstream.stream.model_version import ModelVersion
from scstream.stream.runner import EventCallback, ignore_event

if TYPE_CHECKING:
    from scstream.observe.prometheus import Metrics
    from scstream.serve.live import Live

T = TypeVar("T")
_SMALL_BODY = 2**16  # bytes up to which a body is read on the event loop
_SMALL_TASK = 4_000_000  # bytes of the body times clusters up to which it is answered there too


class Answer(NamedTuple):
    """The answer to a question about rows."""

    content: bytes
    kind: bytes
    rows: int
    novel: int  # rows that belong to no cluster
    reading: ModelVersion  # who answered


class Service:
    """A model that is asked over HTTP, and the threads that work for it.

    Parameters
    ----------
    model : Model
        What answers.
    settings : Settings
        The limits.
    live, metrics : optional
        Are told of states, rows and requests.
    emit : callable
        Is told "learned", "request" and "defect".

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.model import Owned
    >>> from scstream.serve.service import Service
    >>> from scstream.serve.settings import ServiceSettings
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> service = Service(Owned(ModelVersion(0, 1, 0.0, None, model, Steps())), ServiceSettings())
    >>> answer = service.predict(b'{"rows": [[900.0]]}', b"application/json")
    >>> answer.content[:15], answer.rows, answer.novel
    (b'{"cluster":[-1]', 1, 1)
    """

    def __init__(
        self,
        model: ModelProvider,
        settings: ServiceSettings,
        *,
        live: Live | None = None,
        metrics: Metrics | None = None,
        emit: EventCallback = ignore_event,
    ) -> None:
        self.model = model
        self.settings = settings
        self.live = live
        self.metrics = metrics
        self.emit = emit
        self.draining = False  # whether the end is near
        self._pool = ThreadPoolExecutor(settings.threads, "scstream-asking")
        self._writer = ThreadPoolExecutor(1, "scstream-learning")
        self.downloads = asyncio.Semaphore(1)  # model files in the making
        self._waiting = 0  # batches that wait to be learned
        self._form: tuple[ModelVersion | None, Form] = (None, Form(()))

    def form(self, reading: ModelVersion) -> Form:
        """Return what rows for a state must look like."""
        known, form = self._form
        if known is not reading:
            form = Form.of(reading)
            self._form = (reading, form)
        return form

    def question(self, reading: ModelVersion, body: bytes, kind: bytes) -> Question:
        """Read a body of one of the types that are known."""
        read = read_arrow if kind == ARROW else read_json
        return read(body, self.form(reading), max_n=self.settings.rows)

    def predict(self, body: bytes, kind: bytes, *, arrow: bool = False) -> Answer:
        """Read a body and answer it, on the thread of the caller."""
        reading = self.model.current()
        return self.verdict(reading, self.question(reading, body, kind), arrow=arrow)

    def verdict(self, reading: ModelVersion, question: Question, *, arrow: bool = False) -> Answer:
        """Answer a question, on the thread of the caller."""
        if question.probabilities:
            self._check_cells(question.n_rows * (len(reading.model.state.ids) + 1))
        X = reading.prepared(question.rows)
        verdict = reading.predicted("predict", X, time=question.time)
        each = None
        if question.probabilities:
            each = reading.predicted("probabilities", X, time=question.time)
        if self.live is not None:
            self.live.asked(X, verdict.label)
        content, kind = verdict_answer(reading, verdict, each, arrow=arrow)
        novel = int(np.count_nonzero(verdict.label == NOVEL))
        return Answer(content, kind, question.n_rows, novel, reading)

    async def ask(self, body: bytes, kind: bytes, *, arrow: bool) -> Answer:
        """Answer a small question at once, a large one on a thread: others are asked meanwhile."""
        if len(body) > _SMALL_BODY or kind == ARROW:
            return await self.run(partial(self.predict, body, kind, arrow=arrow))
        reading = self.model.current()
        question = self.question(reading, body, kind)
        is_long = len(body) * (len(reading.model.state.ids) + 1) > _SMALL_TASK
        if is_long or question.time is not None or question.probabilities:
            return await self.run(partial(self.verdict, reading, question, arrow=arrow))
        return self.verdict(reading, question, arrow=arrow)

    async def learn(self, body: bytes, kind: bytes) -> Lesson:
        """Learn a batch on the one thread that learns; those that wait are in order, and few."""
        if not isinstance(self.model, Owned):
            raise Refusal("NotAllowed", "this model learns elsewhere; send rows to that.")
        if self._waiting >= self.settings.waiting:
            detail = f"{self._waiting} batches wait to be learned; send this one again later."
            raise Refusal("Busy", detail)
        self._waiting += 1
        try:
            future = self._writer.submit(self._learned, self.model, body, kind)
            return await self._learned_in_time(future)
        finally:
            self._waiting -= 1

    def _learned(self, model: Owned, body: bytes, kind: bytes) -> Lesson:
        began = time.perf_counter()
        question = self.question(model.current(), body, kind)
        if question.probabilities or not question.n_rows:
            detail = "a batch to learn has one row or more, and no 'probabilities'."
            raise Refusal("InputError", detail)
        lesson = model.learn(question.block, time=question.time)
        self.changed(lesson.reading, X=lesson.X, labels=lesson.labels)
        self.emit(
            "learned",
            batch=lesson.reading.batch,
            version=lesson.reading.version,
            rows=question.n_rows,
            clusters=len(lesson.reading.model.state.ids),
            seconds=time.perf_counter() - began,
        )
        return lesson

    def begin(self) -> None:
        """Tell those who look on which state answers, if there is one already."""
        with suppress(StreamError):
            self.changed(self.model.current())

    def changed(
        self, reading: ModelVersion, *, X: Rows | None = None, labels: Labels | None = None
    ) -> None:
        """Tell those who look on that another state answers, and of rows that were learned."""
        if self.live is not None:
            self.live.see(reading, X=X, labels=labels)
        if self.metrics is not None:
            n_clusters = len(reading.model.state.ids)
            at = reading.at or nan  # a file does not tell
            self.metrics.model(reading.version, reading.batch, at=at, clusters=n_clusters)
            self.metrics.shares(reading.model.state.share)

    async def run(self, task: Callable[[], T]) -> T:
        """Do something on a thread for large questions; what takes too long is not waited for."""
        waiting = asyncio.wrap_future(self._pool.submit(task))
        try:
            return await asyncio.wait_for(waiting, self.settings.answer_seconds)
        except TimeoutError:
            raise self._late() from None

    async def _learned_in_time(self, future: Future[T]) -> T:
        """Wait for a batch: one that is not begun in time never is, one that is has its answer."""
        waiting = asyncio.wrap_future(future)
        done, _ = await asyncio.wait({waiting}, timeout=self.settings.answer_seconds)
        if not done and future.cancel():
            raise self._late()
        return await waiting

    def _late(self) -> Refusal:
        seconds = self.settings.answer_seconds
        detail = f"there was no answer within {seconds:g} s; ask again later, or about fewer rows."
        return Refusal("TooLong", detail)

    def heard(self, visit: Visit) -> None:
        """Count a request that is over, on the event loop."""
        seconds = time.perf_counter() - visit.began
        scope = visit.scope
        if self.metrics is not None:
            route = route_of(scope["path"])
            self.metrics.request(route, visit.status, seconds, visit.rows, novel=visit.novel)
        if self.settings.access_log:
            client = scope.get("client")
            self.emit(
                "request",
                method=scope["method"],
                path=scope["path"][:_SHOWN],
                status=visit.status,
                seconds=round(seconds, 6),
                rows=visit.rows,
                client=client[0] if client else None,
            )

    def failed(self, trace: str) -> None:
        """Tell of a defect."""
        self.emit("defect", trace=trace)

    def drain(self) -> None:
        """Be not ready any more, and let those who look at the live page go."""
        self.draining = True
        if self.live is not None:
            self.live.close()

    def close(self) -> None:
        """Let what is being learned end, and begin nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._writer.shutdown(wait=True, cancel_futures=True)

    def _check_cells(self, n_cells: int) -> None:
        if n_cells > self.settings.cells:
            raise Refusal(
                "TooManyNumbers",
                f"the answer would have {n_cells} probabilities and {self.settings.cells} are "
                "allowed; ask about fewer rows at a time, or without 'probabilities'.",
            )


def route_of(path: str) -> str:
    """Return the route of a path, one of a few: what clients write must not become a metric.

    Examples
    --------
    >>> from scstream.serve.service import route_of
    >>> route_of("/predict"), route_of("/clusters/7"), route_of("/wp-admin")
    ('/predict', '/clusters/{id}', 'other')
    """
    if path in ROUTES:
        return path
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    return {"clusters": "/clusters/{id}", "page": "/page/{name}"}.get(first, OTHER)


_SHOWN = 200  # characters of a path in a log
