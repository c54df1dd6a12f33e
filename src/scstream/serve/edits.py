"""Routes that edit clusters; they need the write token."""

from __future__ import annotations

import json
import time
from typing import Any

from scstream.errors import InputError, missing_extra
from scstream.io.header import Json
from scstream.serve import schemas
from scstream.serve.api_errors import ApiError
from scstream.serve.limits import RequestContext
from scstream.serve.responses import to_json
from scstream.serve.routes import GUARDED, RowsRoute, errors
from scstream.serve.service import Service
from scstream.stream.edit_queue import MAX_BYTES, EditRequest

try:
    from fastapi import APIRouter, Request
    from fastapi.responses import Response
except ImportError as error:
    raise missing_extra("fastapi", "serve") from error

ACTIONS = ("name", "merge", "split", "pin", "unpin", "move", "remove")  # of one cluster
_SUMMARY = {
    "name": 'Give a cluster or group a name: `{"name": "billing"}`; null removes it.',
    "merge": 'Merge another cluster or group into this one: `{"other": 9}`.',
    "split": "Split a cluster into its sub-clusters, or a group into two groups.",
    "pin": "Keep a cluster or the clusters of a group: they are never removed nor merged.",
    "unpin": "Let a cluster end, merge and split again.",
    "move": 'Move rows into a cluster: `{"rows": [[0.1, 0.2]]}`.',
    "remove": "Remove a cluster or the clusters of a group.",
    "seed": 'Add a cluster that is known already: `{"rows": [[0.1, 0.2]], "name": "spare"}`.',
    "undo": "Take back the last edit.",
}
_STATUSES = (*GUARDED, 400, 403, 404, 408, 413, 422)


def edit_router(service: Service) -> APIRouter:
    """Return the routes that edit: those of a cluster, a new cluster, and undo."""
    router = APIRouter(route_class=RowsRoute)

    def add(path: str, action: str) -> None:
        async def endpoint(request: Request) -> Response:
            return await _answer(service, request, action)

        endpoint.__doc__ = _SUMMARY[action]
        router.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            name=action,
            response_model=schemas.EditSummary,
            responses=errors(*_STATUSES) | {202: {"description": "The pipeline will apply it."}},
            include_in_schema=service.settings.write_token is not None,
            openapi_extra=_described(path, action),
        )

    for action in ACTIONS:
        add(f"/clusters/{{id}}/{action}", action)
    add("/clusters", "seed")
    add("/undo", "undo")
    return router


async def _answer(service: Service, request: Request, action: str) -> Response:
    context: RequestContext = request.scope["scstream"]
    values = _values(await context.body())
    values |= {"action": action, "time": time.time()}
    if "id" in request.path_params:
        values["id"] = _id(request.path_params["id"])
    edit = EditRequest.of(values)
    client = request.client.host if request.client else ""
    status, content = await service.edit(edit, client=client)
    return Response(to_json(content), status, media_type="application/json")


def _values(body: bytes) -> Json:
    """Return the fields of the body; raises `ApiError`."""
    if len(body) > MAX_BYTES:
        raise ApiError("TooLarge", f"an edit has at most {MAX_BYTES} bytes.")
    try:
        values: Any = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise ApiError("NotJson", f"the body is not JSON: {error}.") from None
    if type(values) is not dict:
        raise ApiError("InputError", "the body must be a JSON object.")
    for name in ("action", "id", "time"):
        if name in values:
            raise ApiError("InputError", f"the body has the field {name!r}, which the path gives.")
    return values


def _id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InputError(f"the id of a cluster is a whole number, not {text[:40]!r}.")
    return int(text)


def _described(path: str, action: str) -> Json:
    """Return the OpenAPI description of the path parameter and of the body."""
    schema = schemas.EditBody.model_json_schema()
    content = {"application/json": {"schema": schema}}
    needs_body = action in ("name", "merge", "move", "seed")
    found: Json = {"requestBody": {"content": content, "required": needs_body}}
    if "{id}" in path:
        id_schema = {"type": "integer", "minimum": 0, "maximum": 2**62}
        about = {"name": "id", "in": "path", "required": True, "schema": id_schema}
        found["parameters"] = [about | {"description": "Id of a cluster or group."}]
    return found
