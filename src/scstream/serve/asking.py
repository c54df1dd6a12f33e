"""The two routes that take rows, as plain ASGI applications: the way of every question is short."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from scstream.serve.answers import origin, to_json
from scstream.serve.bodies import ARROW, JSON
from scstream.serve.limits import Receive, Scope, Send, Visit
from scstream.serve.refusals import Refusal
from scstream.serve.service import Service


class Predict:
    """``POST /predict``: which cluster, how sure, how new, how dense.

    Examples
    --------
    >>> from scstream.serve.asking import Predict
    >>> from scstream.serve.model import Owned
    >>> from scstream.serve.service import Service
    >>> from scstream.serve.settings import ServiceSettings
    >>> Predict(Service(Owned(), ServiceSettings())).service.settings.learn
    False
    """

    def __init__(self, service: Service) -> None:
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        visit: Visit = scope["scstream"]
        kind, arrow = _types(visit.headers)
        body = await visit.body()
        answer = await self.service.ask(body, kind, arrow=arrow)
        visit.rows, visit.novel = answer.rows, answer.novel
        headers = origin(answer.reading) if arrow else ()
        await visit.answer(answer.content, answer.kind, headers=headers)


class Learn:
    """``POST /learn``: learn a batch, and say where its rows went.

    Examples
    --------
    >>> from scstream.serve.asking import Learn
    >>> from scstream.serve.model import Owned
    >>> from scstream.serve.service import Service
    >>> from scstream.serve.settings import ServiceSettings
    >>> Learn(Service(Owned(), ServiceSettings(learn=True))).service.settings.learn
    True
    """

    def __init__(self, service: Service) -> None:
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        visit: Visit = scope["scstream"]
        if not self.service.settings.learn:
            raise Refusal(
                "NotAllowed", "this service does not learn; start it with --learn if it shall."
            )
        kind, _ = _types(visit.headers)
        lesson = await self.service.learn(await visit.body(), kind)
        reading, visit.rows = lesson.reading, len(lesson.labels)
        answer = {
            "cluster": lesson.labels,
            "clusters": len(reading.model.state.ids),
            "events": [asdict(event) for event in reading.model.info.events],
            "version": reading.version,
            "batch": reading.batch,
        }
        await visit.answer(to_json(answer), JSON)


def _types(headers: Mapping[bytes, bytes]) -> tuple[bytes, bool]:
    """Return the type of the body, and whether the answer is to be Arrow; raises `Refusal`."""
    kind = headers.get(b"content-type", b"")
    if kind != JSON:
        kind = kind.partition(b";")[0].strip().lower()
    if kind not in (JSON, ARROW):
        raise Refusal(
            "UnknownType",
            f"the body must be of type {JSON.decode()} or {ARROW.decode()}; say which in the "
            "header Content-Type.",
        )
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refusal("Packed", "the body is compressed; send it without Content-Encoding.")
    return kind, ARROW in headers.get(b"accept", b"")
