"""The routes that only look: clusters, events, the model file, and how the service is."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np

from scstream.errors import missing_extra
from scstream.io.clusters import Cluster, ClusterTable
from scstream.serve import shapes
from scstream.serve.answers import to_json
from scstream.serve.model import content_of
from scstream.serve.refusals import Refusal
from scstream.serve.service import Service
from scstream.stream.checks import quoted
from scstream.stream.model_version import ModelVersion

try:
    from fastapi import APIRouter, Depends, Path, Query, Request
    from fastapi.responses import Response, StreamingResponse
except ImportError as error:
    raise missing_extra("fastapi", "serve") from error

MODEL = "application/vnd.scstream.model"
_CHUNK = 2**16  # bytes of the model file that are sent at once
_LARGEST = 2**62

Limit = Annotated[int, Query(ge=1, le=500, description="Most clusters in the answer.")]
Offset = Annotated[int, Query(ge=0, le=10**9, description="Clusters to pass over.")]
Sort = Annotated[
    Literal["weight", "id"], Query(description="The heaviest first, or the oldest id first.")
]
Since = Annotated[
    float | None,
    Query(
        ge=-1e100,
        le=1e100,
        allow_inf_nan=False,
        description="Only events after this time, as the model was told it.",
    ),
]
Kind = Annotated[
    Literal["born", "split", "merged", "died", "returned"] | None,
    Query(description="Only events of this kind."),
]
Most = Annotated[int, Query(ge=1, le=1000, description="Most events in the answer.")]
Id = Annotated[int, Path(ge=0, le=_LARGEST, description="Id of a cluster.")]


def look_routes(service: Service) -> APIRouter:
    """Return the routes that only look.

    Examples
    --------
    >>> from scstream.serve.model import Owned
    >>> from scstream.serve.routes import look_routes
    >>> from scstream.serve.service import Service
    >>> from scstream.serve.settings import ServiceSettings
    >>> [route.path for route in look_routes(Service(Owned(), ServiceSettings())).routes]
    ['/clusters', '/clusters/{id}', '/events', '/model', '/healthz', '/readyz', '/metrics']
    """
    looks = Looks(service)
    router = APIRouter(default_response_class=Response, dependencies=[Depends(only_known)])
    add = router.add_api_route
    add("/clusters", looks.clusters, responses=answers(shapes.ClusterPage, *GUARDED, 422))
    add("/clusters/{id}", looks.cluster, responses=answers(shapes.OneCluster, *GUARDED, 404, 422))
    add("/events", looks.events, responses=answers(shapes.EventPage, *GUARDED, 422))
    add("/model", looks.model, responses=answers(MODEL, *GUARDED, 422))
    add("/healthz", looks.healthz, responses=answers(shapes.Alive, 421, 422, 500))
    add("/readyz", looks.readyz, responses=answers(shapes.Ready, 421, 422, 500, 503))
    add("/metrics", looks.metrics, responses=answers("text/plain", *GUARDED, 404, 422))
    return router


class Looks:
    """What the routes do; their docstrings are in the description of the service.

    Examples
    --------
    >>> import asyncio
    >>> from scstream.serve.model import Owned
    >>> from scstream.serve.routes import Looks
    >>> from scstream.serve.service import Service
    >>> from scstream.serve.settings import ServiceSettings
    >>> asyncio.run(Looks(Service(Owned(), ServiceSettings())).healthz()).body
    b'{"status":"ok"}'
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._table: tuple[ModelVersion | None, ClusterTable | None] = (None, None)

    async def clusters(
        self, *, limit: Limit = 50, offset: Offset = 0, sort: Sort = "weight"
    ) -> Response:
        """List the clusters at the time of the last batch, page by page."""
        reading = self._service.model.current()
        return await self._service.run(lambda: self._page(reading, limit, offset, sort))

    async def cluster(self, id: Id) -> Response:
        """Show one cluster, and what happened to it."""
        reading = self._service.model.current()
        return await self._service.run(lambda: self._one(reading, id))

    async def events(
        self, *, since: Since = None, kind: Kind = None, limit: Most = 100
    ) -> Response:
        """List what happened to the clusters as far as it is remembered, the newest first."""
        reading = self._service.model.current()
        found = [
            event
            for event in reversed(reading.model.events)
            if (since is None or event.time > since) and (kind is None or event.kind == kind)
        ]
        shown = [asdict(event) for event in found[:limit]]
        return _json(reading, total=len(found), events=shown)

    async def model(self) -> Response:
        """Download the model file, for `ScStream.load` and `scstream predict`."""
        reading = self._service.model.current()
        async with self._service.downloads:
            content = await self._service.run(lambda: content_of(reading))
        name = f"model-{reading.version}.scstream"
        return StreamingResponse(
            _parts(content),
            media_type=MODEL,
            headers={
                "Content-Disposition": f'attachment; filename="{name}"',
                "Content-Length": str(len(content)),
            },
        )

    async def healthz(self) -> Response:
        """Tell that the service runs."""
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def readyz(self) -> Response:
        """Tell whether the service has a model that is not stale, and is not about to end."""
        service = self._service
        if service.draining:
            raise Refusal("Draining", "the service is about to end.")
        reading = service.model.current()
        age = max(time.time() - reading.at, 0.0) if reading.at else None  # a file has no time
        if age is not None and 0 < service.settings.stale < age:
            raise Refusal(
                "Stale",
                f"the newest state is {age:.0f} s old and {service.settings.stale:g} s are "
                "allowed; see whether the pipeline runs.",
            )
        return _json(reading, status="ready", age=age)

    async def metrics(self) -> Response:
        """Give all counts as Prometheus reads them."""
        metrics = self._service.metrics
        if metrics is None:
            raise Refusal("NotFound", "this service keeps no metrics.")
        content, kind = metrics.exposition()
        return Response(content, headers={"Content-Type": kind})

    def _page(self, reading: ModelVersion, limit: int, offset: int, sort: str) -> Response:
        table = self._table_of(reading)
        order = np.argsort(-table.weight, kind="stable") if sort == "weight" else range(len(table))
        page = [_row(table, int(k)) for k in order[offset : offset + limit]]
        return _json(
            reading,
            total=len(table),
            limit=limit,
            offset=offset,
            columns=table.feature_names,
            clusters=page,
        )

    def _one(self, reading: ModelVersion, id: int) -> Response:
        table = self._table_of(reading)
        found = np.flatnonzero(table.id == id)
        if not len(found):
            raise Refusal(
                "NotFound",
                f"there is no cluster {id} now; /events says whether it died or was merged.",
            )
        events = [asdict(each) for each in reading.model.events if id in (each.id, each.other)]
        return _json(
            reading,
            columns=table.feature_names,
            cluster=_row(table, int(found[0])),
            events=events,
        )

    def _table_of(self, reading: ModelVersion) -> ClusterTable:
        """Return the clusters of a state; those of the last one are kept."""
        known, table = self._table
        if table is None or known is not reading:
            snapshot = reading.model
            table = ClusterTable.of(snapshot.family, snapshot.state, snapshot.feature_names)
            self._table = (reading, table)
        return table


async def only_known(request: Request) -> None:
    """Refuse a parameter that a route does not have: whoever sends it means another one.

    Examples
    --------
    >>> import asyncio
    >>> from fastapi import Request
    >>> from scstream.serve.model import Owned
    >>> from scstream.serve.routes import look_routes, only_known
    >>> from scstream.serve.service import Service
    >>> from scstream.serve.settings import ServiceSettings
    >>> route = look_routes(Service(Owned(), ServiceSettings())).routes[2]
    >>> scope = {"type": "http", "query_string": b"kinds=born", "route": route}
    >>> asyncio.run(only_known(Request(scope)))
    Traceback (most recent call last):
    ...
    scstream.serve.refusals.Refusal: there is no parameter 'kinds' here; there are since, kind, ...
    """
    known = [each.alias for each in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "there are none"
            raise Refusal("InputError", f"there is no parameter {quoted(name)} here; {there}.")


def answers(shape: Any, *codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the answers of a route: what it gives, and how it refuses.

    Examples
    --------
    >>> from scstream.serve.routes import answers
    >>> sorted(answers("text/plain", 404))
    [200, 404]
    """
    given: dict[str, Any] = {"description": "The answer."}
    if isinstance(shape, str):
        given["content"] = {shape: {"schema": {"type": "string"}}}
    else:
        given["model"] = shape
    found: dict[int | str, dict[str, Any]] = {200: given}
    for code in sorted(codes):
        found[code] = {"model": shapes.Refused, "description": STATUS[code]}
    return found


GUARDED = (401, 421, 429, 500, 503)  # of every route but the few that are always open
STATUS = {
    400: "The body cannot be read.",
    401: "The token is missing or wrong.",
    403: "Not allowed here.",
    404: "There is no such thing.",
    405: "The route has other methods.",
    408: "The body did not arrive in time.",
    409: "The batch is older than what the model has seen.",
    413: "The body has too many bytes.",
    415: "The type of the body is not known.",
    421: "The service is not known under this name.",
    422: "The request can be read, but not be answered.",
    429: "Too many requests from this client.",
    500: "A defect of the service.",
    503: "Busy, without a model, stale, or about to end.",
}


def _row(table: ClusterTable, k: int) -> dict[str, Any]:
    plain: dict[str, Any] = {
        name: getattr(table, name)[k].item() for name in Cluster.__match_args__[:-2]
    }
    return plain | {"mean": table.mean[k], "std": table.std[k]}


def _json(reading: ModelVersion, **values: Any) -> Response:
    content = to_json({**values, "version": reading.version, "batch": reading.batch})
    return Response(content, media_type="application/json")


async def _parts(content: bytes) -> AsyncIterator[bytes]:
    view = memoryview(content)
    for start in range(0, len(content), _CHUNK):
        yield bytes(view[start : start + _CHUNK])
