"""The HTTP service: one writer, many readers of an immutable model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from scstream import __version__
from scstream.errors import ScStreamError, missing_extra
from scstream.io.header import Json
from scstream.observe.events import Defect, EventCallback, ignore_event
from scstream.serve import schemas
from scstream.serve.api_errors import ApiError, api_error_from
from scstream.serve.docs import STYLE, page
from scstream.serve.edits import edit_router
from scstream.serve.limits import DEFECT, Limits, is_edit
from scstream.serve.model import ModelProvider
from scstream.serve.routes import read_router, request_body, rows_router
from scstream.serve.service import Service
from scstream.serve.settings import ServiceSettings

try:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.openapi.utils import get_openapi
    from fastapi.responses import RedirectResponse, Response
    from fastapi.routing import APIRoute
    from starlette.exceptions import HTTPException
    from starlette.routing import BaseRoute, Route
    from starlette.types import ASGIApp, Receive, Scope, Send
except ImportError as error:
    raise missing_extra("fastapi", "serve") from error

if TYPE_CHECKING:
    from scstream.observe.prometheus import Metrics
    from scstream.serve.live import Live
    from scstream.stream.store import Store


def create_app(
    model: ModelProvider,
    settings: ServiceSettings | None = None,
    *,
    live: Live | None = None,
    metrics: Metrics | None = None,
    emit: EventCallback = ignore_event,
    around: Callable[[ASGIApp], ASGIApp] | None = None,
    edits: Store | None = None,
) -> FastAPI:
    """Build the service for a model.

    Parameters
    ----------
    model : ModelProvider
        A `LocalModel`, or a `Follower` of checkpoints.
    settings : ServiceSettings, optional
        The limits.
    live : Live, optional
        The state of the live page; without it there is no page.
    metrics : Metrics, optional
        Counts requests; without it there is no ``/metrics``.
    emit : callable
        Is called with "learned", "request" and "defect", and with values by name.
    around : callable, optional
        Middleware around every request, such as `scstream.observe.opentelemetry.traced`.
    edits : Store, optional
        Checkpoints of the pipeline that applies edits; by default those that a `Follower` reads.

    Returns
    -------
    FastAPI
        The application; `app.state.service` is the `Service` behind it. Middleware that you add to
        the application does not see ``/predict`` and ``/learn``: pass it as `around`.

    Examples
    --------
    >>> from scstream.serve.app import create_app
    >>> from scstream.serve.model import LocalModel
    >>> app = create_app(LocalModel())
    >>> app.state.service.settings.rows
    100000
    """
    settings = settings or ServiceSettings()
    service = Service(model, settings, live=live, metrics=metrics, emit=emit, edits=edits)
    if live is not None:
        live.editable = settings.write_token is not None
    rows = rows_router(service)
    direct = {route.path: _direct(route) for route in rows.routes if isinstance(route, APIRoute)}
    app = _ServiceApp(service, direct, around)
    app.include_router(rows)
    app.include_router(read_router(service))
    app.include_router(edit_router(service))
    app.router.routes.extend(_pages(app, live))
    for kind in (HTTPException, RequestValidationError, ApiError, ScStreamError, Exception):
        app.add_exception_handler(kind, _error_response)
    return app


class _ServiceApp(FastAPI):
    """A FastAPI application behind `Limits`, described exactly for its current model."""

    def __init__(
        self,
        service: Service,
        direct: Mapping[str, ASGIApp],
        around: Callable[[ASGIApp], ASGIApp] | None,
    ) -> None:
        super().__init__(title="scstream", version=__version__, docs_url=None, redoc_url=None)
        self.state.service = service
        limits = Limits(
            super().__call__,
            service.settings,
            direct=direct,
            draining=lambda: service.draining,
            on_request=service.request_done,
            on_defect=lambda trace: service.emit(Defect(trace)),
        )
        self._outermost: ASGIApp = limits if around is None else around(limits)
        self._described: Any = ...  # what `openapi_schema` depends on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._outermost(scope, receive, send)

    def openapi(self) -> Json:
        """Return the description; it is made again if the model has changed its columns."""
        service: Service = self.state.service
        described = service.current_format(), service.is_keyed
        if self.openapi_schema is None or self._described != described:
            self._described = described
            self.openapi_schema = _describe(self, service)
        return self.openapi_schema


def _direct(route: APIRoute) -> ASGIApp:
    """Return an application that calls an endpoint without the middleware of FastAPI."""
    endpoint: Callable[[Request], Awaitable[Response]] = route.endpoint

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        response = await endpoint(Request(scope))
        await response(scope, receive, send)

    return call


def _describe(app: FastAPI, service: Service) -> Json:
    summary = "Streaming clusters: predict the cluster of rows, and read or update the model."
    found = get_openapi(title=app.title, version=app.version, summary=summary, routes=app.routes)
    paths, components = found["paths"], found["components"]
    for path, base in (("/predict", schemas.PredictRequest), ("/learn", schemas.LearnRequest)):
        if path in paths:
            body = request_body(base, service)
            json_schema = body["content"]["application/json"]["schema"]
            components["schemas"] |= json_schema.pop("$defs", {})
            paths[path]["post"]["requestBody"] = body
    _describe_keys(paths, is_keyed=service.is_keyed)
    _describe_tokens(service.settings, paths, components)
    return found


def _describe_keys(paths: Json, *, is_keyed: bool) -> None:
    """Say which routes need a key; those of one model have none."""
    if not is_keyed:
        del paths["/keys"]
    for operation in (each for operations in paths.values() for each in operations.values()):
        for each in [each for each in operation.get("parameters", ()) if each["name"] == "key"]:
            if not is_keyed:
                operation["parameters"].remove(each)
            else:
                each |= {"required": True, "schema": {"type": "string"}}
    if is_keyed:
        schema = {"type": "string"}
        about = {"name": "key", "in": "query", "schema": schema, "description": "Which model."}
        paths["/predict"]["post"]["parameters"] = [about]


def _describe_tokens(settings: ServiceSettings, paths: Json, components: Json) -> None:
    """Say which token each route needs."""
    kinds = {"token": settings.token, "write_token": settings.write_token}
    known = {name: {"type": "http", "scheme": "bearer"} for name, token in kinds.items() if token}
    if known:
        components["securitySchemes"] = known
    for path, operations in paths.items():
        for method, operation in operations.items():
            if is_edit(method.upper(), path):
                operation["security"] = [{"write_token": []}]
            elif settings.token is not None:
                operation["security"] = [] if path in ("/healthz", "/readyz") else [{"token": []}]


def _pages(app: FastAPI, live: Live | None) -> list[BaseRoute]:
    """Return the routes for browsers."""

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


async def _error_response(request: Request, error: Exception) -> Response:
    """Return the response to an error; Starlette passes a bug on to `Limits`, which reports it."""
    found = _api_error(error)
    headers = {name.decode(): value.decode() for name, value in found.headers}
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
    return Response(
        found.content, status_code=found.status, headers=headers, media_type="application/json"
    )


def _api_error(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ScStreamError):
        return api_error_from(error)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where, name = first["loc"][0], first["loc"][-1]
        return ApiError("InputError", f"the {where} parameter {name!r} is wrong: {first['msg']}.")
    if isinstance(error, HTTPException) and error.status_code == 405:
        return ApiError("WrongMethod", "this route has other methods; the header Allow lists them.")
    if isinstance(error, HTTPException):
        return ApiError("NotFound", "there is no such route; GET /docs lists all routes.")
    return ApiError("Defect", DEFECT)
