"""The routes of the service, with the models of their parameters and responses."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from scipy import sparse

from scstream.core.exemplars import Exemplar
from scstream.core.state import Kind as EventKind
from scstream.errors import missing_extra
from scstream.io.clusters import Cluster, ClusterTable
from scstream.io.header import Json
from scstream.serve import schemas
from scstream.serve.api_errors import ApiError
from scstream.serve.bodies import ARROW, JSON
from scstream.serve.limits import RequestContext
from scstream.serve.model import content_of
from scstream.serve.responses import to_json, version_headers
from scstream.serve.service import Service
from scstream.stream.checks import quoted
from scstream.stream.keyed import MAX_KEY_LENGTH
from scstream.stream.keyed_version import KeyedVersion, Version
from scstream.stream.model_version import ModelVersion

try:
    from fastapi import APIRouter, Depends, Path, Query, Request
    from fastapi.responses import Response, StreamingResponse
    from fastapi.routing import APIRoute
except ImportError as error:
    raise missing_extra("fastapi", "serve") from error

MODEL = "application/vnd.scstream.model"
_CHUNK = 2**16  # bytes of the model file that are sent at once
_LARGEST_ID = 2**62
_ARROW_RESPONSE = (
    "If the header Accept asks for it: the columns cluster, probability, novelty and log_density, "
    "and on request probability_7 and so on, and probability_new. The headers scstream-version and "
    "scstream-batch name the version of the model."
)

Limit = Annotated[int, Query(ge=1, le=500, description="Largest number of clusters to return.")]
Offset = Annotated[int, Query(ge=0, le=10**9, description="Number of clusters to skip.")]
Sort = Annotated[
    Literal["weight", "id"], Query(description="Heaviest cluster first, or smallest id first.")
]
Since = Annotated[
    float | None,
    Query(ge=-1e100, le=1e100, allow_inf_nan=False, description="Only events after this time."),
]
Kind = Annotated[
    EventKind | None,
    Query(description="Only events of this kind."),
]
EventLimit = Annotated[int, Query(ge=1, le=1000, description="Largest number of events to return.")]
KeyLimit = Annotated[int, Query(ge=1, le=1000, description="Largest number of keys to return.")]
KeyOffset = Annotated[int, Query(ge=0, le=10**9, description="Number of keys to skip.")]
Key = Annotated[
    str | None,
    Query(max_length=MAX_KEY_LENGTH, description="Which model, of a pipeline with keys."),
]
Id = Annotated[int, Path(ge=0, le=_LARGEST_ID, description="Id of a cluster.")]

GUARDED = (401, 421, 500, 503)  # of all routes but the health checks
TAKES_ROWS = (*GUARDED, 400, 403, 404, 408, 413, 415, 422)
STATUS = {
    400: "The body cannot be read, or there is no key where one is needed.",
    401: "The token is missing or wrong.",
    403: "Not allowed here.",
    404: "Not found.",
    408: "The body did not arrive in time.",
    409: "The batch is older than what the model has learned.",
    413: "The body has too many bytes.",
    415: "The type of the body is not known.",
    421: "The Host header is not a name of the service.",
    422: "The request can be read, but is not valid.",
    500: "A bug of the service.",
    503: "Busy, without a model, stale, or about to end.",
}


class RowsRoute(APIRoute):
    """A route that decodes its body itself, without pydantic; its models are documentation."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Call the endpoint directly."""
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return endpoint


def rows_router(service: Service) -> APIRouter:
    """Return the routes that take rows: /predict and /learn."""
    router = APIRouter(route_class=RowsRoute)

    @router.post(
        "/predict",
        response_model=schemas.Prediction,
        responses=errors(*TAKES_ROWS) | binary(ARROW.decode(), _ARROW_RESPONSE),
    )
    async def predict(request: Request) -> Response:
        """Return the most probable cluster, its probability, novelty and density of every row.

        Nothing is learned.
        """
        context: RequestContext = request.scope["scstream"]
        kind, arrow = body_type(context.headers)
        body = await context.body()
        key = request.query_params.get("key") if request.scope["query_string"] else None
        result = await service.predict(body, kind, arrow=arrow, key=key)
        context.n_rows, context.n_novel = result.n_rows, result.n_novel
        headers = {"content-type": result.kind} | (version_headers(result.version) if arrow else {})
        return Response(result.content, headers=headers)

    @router.post(
        "/learn",
        response_model=schemas.UpdateSummary,
        responses=errors(*TAKES_ROWS, 409),
        include_in_schema=service.settings.learn,
    )
    async def learn(request: Request) -> Response:
        """Learn the rows as one batch, all of them or none, one batch after the other.

        A batch that is sent twice is learned twice.
        """
        context: RequestContext = request.scope["scstream"]
        if not service.settings.learn:
            detail = "this service does not learn; start it with --learn to allow that."
            raise ApiError("NotAllowed", detail)
        kind, _ = body_type(context.headers)
        update = await service.learn(await context.body(), kind)
        context.n_rows = len(update.labels)
        return _json(
            update.version,
            cluster=update.labels,
            clusters=len(update.version.model.state.ids),
            events=update.version.model.info.events,
        )

    return router


def request_body(base: type[schemas.LearnRequest], service: Service) -> Json:
    """Return the OpenAPI request body of a route that takes rows, for the current model."""
    form, ranges = service.current_format(), service.current_ranges()
    if service.is_keyed:  # the family may differ from key to key
        base, form = schemas.KeyedPredictRequest, None
    schema = schemas.request_schema(base, form, ranges, max_rows=service.settings.rows)
    stream = {
        "type": "string",
        "format": "binary",
        "description": "An Arrow IPC stream with the columns, in any order.",
    }
    content = {JSON.decode(): {"schema": schema}, ARROW.decode(): {"schema": stream}}
    return {"required": True, "content": content}


def body_type(headers: Mapping[bytes, bytes]) -> tuple[bytes, bool]:
    """Return the type of the body, and whether the response is to be Arrow; raises `ApiError`."""
    kind = headers.get(b"content-type", b"")
    if kind != JSON:
        kind = kind.partition(b";")[0].strip().lower()
    if kind not in (JSON, ARROW):
        raise ApiError(
            "UnknownType",
            f"the body must have the type {JSON.decode()} or {ARROW.decode()}; name it in the "
            "header Content-Type.",
        )
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise ApiError("Packed", "the body is compressed; send it without Content-Encoding.")
    return kind, ARROW in headers.get(b"accept", b"")


def read_router(service: Service) -> APIRouter:
    """Return the routes that read: clusters, events, the model file, health and metrics."""
    reads = ReadRoutes(service)
    router = APIRouter(dependencies=[Depends(only_known)])

    def add(path: str, endpoint: Any, response: Any, *statuses: int) -> None:
        responses = errors(*statuses, 422)
        if isinstance(response, str):
            responses[200] = {"content": {response: {"schema": {"type": "string"}}}}
            router.add_api_route(path, endpoint, responses=responses, response_class=Response)
        else:
            router.add_api_route(path, endpoint, responses=responses, response_model=response)

    add("/clusters", reads.clusters, schemas.ClusterPage, *GUARDED, 400, 404)
    add("/clusters/{id}", reads.cluster, schemas.OneCluster, *GUARDED, 400, 404)
    add("/events", reads.events, schemas.EventPage, *GUARDED, 400, 404)
    add("/model", reads.model, MODEL, *GUARDED, 400, 404)
    add("/keys", reads.keys, schemas.KeyPage, *GUARDED, 400)
    add("/healthz", reads.healthz, schemas.Alive, 500)
    add("/readyz", reads.readyz, schemas.Ready, 500, 503)
    add("/metrics", reads.metrics, "text/plain", *GUARDED, 404)
    return router


class ReadRoutes:
    """The endpoints that read; their docstrings are in the OpenAPI description."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._table: tuple[ModelVersion | None, ClusterTable | None] = (None, None)

    async def clusters(
        self, *, limit: Limit = 50, offset: Offset = 0, sort: Sort = "weight", key: Key = None
    ) -> Response:
        """List the clusters at the time of the last batch, page by page."""
        version = await self._service.version_of(key)
        return await self._service.run(lambda: self._page(version, limit, offset, sort))

    async def cluster(self, id: Id, *, key: Key = None) -> Response:
        """Return one cluster and its events."""
        version = await self._service.version_of(key)
        return await self._service.run(lambda: self._one(version, id))

    async def events(
        self,
        *,
        since: Since = None,
        kind: Kind = None,
        limit: EventLimit = 100,
        key: Key = None,
    ) -> Response:
        """List the recent events of the clusters, the newest first."""
        version = await self._service.version_of(key)
        found = [
            event
            for event in reversed(version.model.events)
            if (since is None or event.time > since) and (kind is None or event.kind == kind)
        ]
        return _json(version, total=len(found), events=found[:limit])

    async def keys(self, *, limit: KeyLimit = 100, offset: KeyOffset = 0) -> Response:
        """List the keys with their numbers of clusters, in order of their first rows."""
        version = self._service.model.latest()
        if not isinstance(version, KeyedVersion):
            raise ApiError("WrongKey", "there is one model for all rows here; it has no keys.")
        found = await self._service.run(lambda: version.keys(offset, limit))
        rows = [{"key": key, "clusters": n_clusters} for key, n_clusters in found.items()]
        return _json(version, total=version.n_keys, limit=limit, offset=offset, keys=rows)

    async def model(self, *, key: Key = None) -> Response:
        """Download the model file, for `ScStream.load` and `scstream predict`."""
        version = await self._service.version_of(key)
        async with self._service.downloads:
            content = await self._service.run(lambda: content_of(version))
        name = f"model-{version.version}.scstream"
        return StreamingResponse(
            _parts(content),
            media_type=MODEL,
            headers={
                "Content-Disposition": f'attachment; filename="{name}"',
                "Content-Length": str(len(content)),
            },
        )

    async def healthz(self) -> Response:
        """Return 200 while the process runs."""
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def readyz(self) -> Response:
        """Return 200 if the service has a model that is not stale, and is not about to end."""
        service = self._service
        if service.draining:
            raise ApiError("Draining", "the service is about to end.")
        version = service.model.latest()
        age = max(time.time() - version.at, 0.0) if version.at else None  # a file has no time
        stale, heartbeat = service.settings.stale, service.heartbeat_age
        if heartbeat is not None and 0 < stale < heartbeat:
            raise ApiError(
                "Stale",
                f"the pipeline has shown no sign of life for {min(heartbeat, stale):.0f} s, or "
                "none was seen yet; check whether it runs.",
            )
        if heartbeat is None and age is not None and 0 < stale < age:
            raise ApiError(
                "Stale",
                f"the newest model is {age:.0f} s old and {service.settings.stale:g} s are "
                "allowed; check whether the pipeline runs.",
            )
        return _json(version, status="ready", age=age)

    async def metrics(self) -> Response:
        """Return all metrics in the text format of Prometheus."""
        metrics = self._service.metrics
        if metrics is None:
            raise ApiError("NotFound", "this service keeps no metrics.")
        content, kind = metrics.exposition()
        return Response(content, headers={"Content-Type": kind})

    def _page(self, version: ModelVersion, limit: int, offset: int, sort: str) -> Response:
        table = self._table_of(version)
        order = np.argsort(-table.weight, kind="stable") if sort == "weight" else range(len(table))
        page = [_cluster(table.row(int(k))) for k in order[offset : offset + limit]]
        return _json(
            version,
            total=len(table),
            limit=limit,
            offset=offset,
            columns=table.feature_names,
            clusters=page,
        )

    def _one(self, version: ModelVersion, id: int) -> Response:
        table = self._table_of(version)
        found = np.flatnonzero(table.id == id)
        if not len(found):
            detail = f"there is no cluster {id} now; /events lists clusters that died or merged."
            raise ApiError("NotFound", detail)
        events = [each for each in version.model.events if id in (each.id, each.other)]
        row = _cluster(table.row(int(found[0])))
        row["exemplars"] = [_exemplar(each) for each in version.model.exemplars_at().get(id, ())]
        return _json(version, columns=table.feature_names, cluster=row, events=events)

    def _table_of(self, version: ModelVersion) -> ClusterTable:
        """Return the clusters of a model version; the table of the last one is cached."""
        known, table = self._table
        if table is None or known is not version:
            model = version.model
            state = model.state
            table = ClusterTable.of(model.family, state, model.feature_names, names=model.names)
            self._table = (version, table)
        return table


def _cluster(row: Cluster) -> Json:
    """Return a cluster as the responses show it."""
    return {name: getattr(row, name) for name in schemas.ClusterRow.model_fields}


def _exemplar(exemplar: Exemplar) -> Json:
    """Return a typical row as the responses show it."""
    row = exemplar.row
    if row is not None:
        row = np.ravel(row.toarray() if sparse.issparse(row) else row)
    return {**vars(exemplar), "row": row}


async def only_known(request: Request) -> None:
    """Reject query parameters that a route does not have: they are probably misspelt."""
    known = [each.alias for each in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            listed = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ApiError("InputError", f"this route has no parameter {quoted(name)}; {listed}.")


def errors(*statuses: int) -> dict[int | str, Json]:
    """Return the declared error responses of a route."""
    return {
        status: {"model": schemas.ErrorBody, "description": STATUS[status]}
        for status in sorted(statuses)
    }


def binary(kind: str, description: str) -> dict[int | str, Json]:
    """Return a second type of a successful response."""
    schema = {"type": "string", "format": "binary", "description": description}
    return {200: {"content": {kind: {"schema": schema}}}}


def _json(version: Version, **values: Any) -> Response:
    content = to_json({**values, "version": version.version, "batch": version.batch})
    return Response(content, media_type="application/json")


async def _parts(content: bytes) -> AsyncIterator[bytes]:
    view = memoryview(content)
    for start in range(0, len(content), _CHUNK):
        yield bytes(view[start : start + _CHUNK])
