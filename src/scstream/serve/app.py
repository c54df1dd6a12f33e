"""The HTTP service: one writer, many readers over an immutable state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scstream import __version__
from scstream.errors import ScStreamError, StreamError, missing_extra
from scstream.serve.asking import Learn, Predict
from scstream.serve.docs import STYLE, page
from scstream.serve.limits import DEFECT, App, Limits, Receive, Scope, Send
from scstream.serve.model import ModelProvider
from scstream.serve.openapi import describe
from scstream.serve.refusals import Refusal, refusal_of
from scstream.serve.routes import look_routes
from scstream.serve.service import Service
from scstream.serve.settings import ServiceSettings
from scstream.stream.runner import EventCallback, ignore_event

try:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import RedirectResponse, Response
    from starlette.exceptions import HTTPException
    from starlette.routing import BaseRoute, Route
except ImportError as error:
    raise missing_extra("fastapi", "serve") from error

if TYPE_CHECKING:
    from scstream.observe.prometheus import Metrics
    from scstream.serve.live import Live


def create_app(
    model: ModelProvider,
    settings: ServiceSettings | None = None,
    *,
    live: Live | None = None,
    metrics: Metrics | None = None,
    emit: EventCallback = ignore_event,
    around: Callable[[App], App] | None = None,
) -> FastAPI:
    """Build the service for a model.

    Parameters
    ----------
    model : Model
        What answers: `Owned`, or a `Follower` of checkpoints.
    settings : Settings, optional
        The limits.
    live : Live, optional
        What the live page shows; without it there is no page.
    metrics : Metrics, optional
        What counts requests; without it there is no ``/metrics``.
    emit : callable
        Is told "learned", "request" and "defect", with values by name.
    around : callable, optional
        Middleware that sees every request, such as `scstream.observe.opentelemetry.traced`.

    Returns
    -------
    FastAPI
        The application; `app.state.service` is the `Service` behind it. Middleware that is added
        to it sees neither ``/predict`` nor ``/learn``.

    Examples
    --------
    >>> from scstream.serve.app import create_app
    >>> from scstream.serve.model import Owned
    >>> app = create_app(Owned())
    >>> app.state.service.settings.rows
    100000
    """
    settings = settings or ServiceSettings()
    service = Service(model, settings, live=live, metrics=metrics, emit=emit)
    direct: dict[str, App] = {"/predict": Predict(service), "/learn": Learn(service)}
    app = _Guarded(service, direct, around)
    for path, answer in direct.items():
        app.router.routes.append(Route(path, answer, methods=["POST"]))
    app.include_router(look_routes(service))
    app.router.routes.extend(_pages(app, live))
    described = Described(app, service)
    app.openapi = described  # type: ignore[method-assign]
    for kind in (HTTPException, RequestValidationError, Refusal, ScStreamError, Exception):
        app.add_exception_handler(kind, _refused)
    return app


class _Guarded(FastAPI):
    """An application behind its limits; who asks about rows does not even come to its routes."""

    def __init__(
        self, service: Service, direct: Mapping[str, App], around: Callable[[App], App] | None
    ) -> None:
        super().__init__(title="scstream", version=__version__, docs_url=None, redoc_url=None)
        self.state.service = service
        limits = Limits(
            super().__call__,
            service.settings,
            direct=direct,
            draining=lambda: service.draining,
            heard=service.heard,
            failed=service.failed,
        )
        self._outermost: App = limits if around is None else around(limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, if it may come in."""
        await self._outermost(scope, receive, send)


class Described:
    """The description of a service, made anew for a model of other columns."""

    def __init__(self, app: FastAPI, service: Service) -> None:
        self._app = app
        self._service = service
        self._known: tuple[Any, dict[str, Any]] | None = None

    def __call__(self) -> dict[str, Any]:
        """Return what there is, or a new one."""
        family = None
        with suppress(StreamError):
            family = self._service.model.current().model.family
        if self._known is None or self._known[0] is not family:
            self._known = (family, describe(self._app, self._service))
        return self._known[1]


def _pages(app: FastAPI, live: Live | None) -> list[BaseRoute]:
    """Return the routes that people look at."""

    async def docs(request: Request) -> Response:
        return Response(page(app.openapi()), media_type="text/html")

    async def style(request: Request) -> Response:
        return Response(STYLE, media_type="text/css")

    async def front(request: Request) -> Response:
        return RedirectResponse("docs")

    found: list[BaseRoute] = [Route("/docs", docs), Route("/docs.css", style)]
    if live is None:
        return [*found, Route("/", front)]
    from scstream.serve.live import live_routes

    return [*found, *live_routes(live)]


async def _refused(request: Request, error: Exception) -> Response:
    """Say no in the one way of the service; a defect goes on to `Limits`, which tells of it."""
    refusal = _refusal(error)
    headers = {name.decode(): value.decode() for name, value in refusal.headers}
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
    return Response(
        refusal.content, status_code=refusal.status, headers=headers, media_type="application/json"
    )


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ScStreamError):
        return refusal_of(error)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where, name = first["loc"][0], first["loc"][-1]
        return Refusal("InputError", f"the {where} parameter {name!r} is wrong: {first['msg']}.")
    if isinstance(error, HTTPException) and error.status_code == 405:
        return Refusal("WrongMethod", "this route has other methods; the header Allow lists them.")
    if isinstance(error, HTTPException):
        return Refusal("NotFound", "there is nothing here; GET /docs lists what there is.")
    return Refusal("Defect", DEFECT)
