"""The description of the service in OpenAPI, exact for the model that answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scstream.errors import StreamError, missing_extra
from scstream.io.schema import LARGEST
from scstream.serve import shapes
from scstream.serve.bodies import ARROW, JSON, Form
from scstream.serve.domain import Range, domain
from scstream.serve.routes import GUARDED, STATUS
from scstream.serve.service import Service

try:
    from fastapi import FastAPI
    from fastapi.openapi.utils import get_openapi
    from pydantic.json_schema import models_json_schema
except ImportError as error:
    raise missing_extra("fastapi", "serve") from error

Schema = dict[str, Any]
_TAKES_ROWS = (*GUARDED, 400, 403, 408, 413, 415, 422)
_SUMMARY = "Streaming clusters: which cluster, how sure, how new."


_COLUMNS = "Arrays of the same length, one for each column, by name."
_ROWS = "Arrays of entries, in the order of the columns."
_ARROW_ANSWER = (
    "Where the header Accept asks for it: the columns cluster, probability, novelty and "
    "log_density, and where they were asked for probability_7 and so on, and probability_new. The "
    "headers scstream-version and scstream-batch tell which state answered."
)


def describe(app: FastAPI, service: Service) -> Schema:
    """Return the description of a service for the model that answers now.

    Examples
    --------
    >>> from scstream.serve.app import create_app
    >>> from scstream.serve.model import Owned
    >>> app = create_app(Owned())
    >>> sorted(app.openapi()["paths"])[:4]
    ['/clusters', '/clusters/{id}', '/events', '/healthz']
    """
    found = get_openapi(
        title=app.title, version=app.version, summary=_SUMMARY, routes=app.routes, tags=[]
    )
    rows = _rows(service)
    takes_rows = {"/predict": {"post": _predict(rows)}}
    if service.settings.learn:
        takes_rows["/learn"] = {"post": _learn(rows)}
    found["paths"] = takes_rows | found["paths"]
    found["components"]["schemas"] |= _answers()
    if service.settings.token is not None:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in found["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if path in ("/healthz", "/readyz") else [{"token": []}]
    return found


def _rows(service: Service) -> Schema:
    """Return the fields of a body that hold its rows, either of which it must have."""
    max_n = service.settings.rows
    try:
        reading = service.model.current()
    except StreamError:
        return {
            "columns": {"type": "object", "description": _COLUMNS},
            "rows": {"type": "array", "maxItems": max_n, "description": _ROWS},
        }
    form = service.form(reading)
    if form.text is not None:
        texts = {"type": "array", "items": {"type": "string"}, "maxItems": max_n}
        return {"columns": _columns({form.text: texts})}
    ranges = domain(reading) or [(-LARGEST, LARGEST)] * form.width
    entries = [_entry(form, limits) for limits in ranges]
    arrays = [{"type": "array", "items": entry, "maxItems": max_n} for entry in entries]
    row = {
        "type": "array",
        "prefixItems": entries,
        "items": False,
        "minItems": form.width,
        "maxItems": form.width,
    }
    return {
        "columns": _columns(dict(zip(form.names, arrays, strict=True))),
        "rows": {"type": "array", "items": row, "maxItems": max_n, "description": _ROWS},
    }


def _columns(columns: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": dict(columns),
        "required": list(columns),
        "additionalProperties": False,
        "description": _COLUMNS,
    }


def _entry(form: Form, limits: Range) -> Schema:
    low, high = limits
    kind = ["number", "null"] if form.missing else "number"
    return {"type": kind, "minimum": low, "maximum": high}


def _predict(rows: Schema) -> Schema:
    more = {
        "probabilities": {
            "type": "boolean",
            "default": False,
            "description": "Whether to answer with the probability of every cluster.",
        }
    }
    return {
        "summary": "Ask about rows",
        "description": "Which cluster every row belongs to, how sure that is, how probable it is "
        "that it belongs to a cluster not seen yet, and how dense the mixture is there. Nothing "
        "is learned.",
        "operationId": "predict",
        "requestBody": _body(rows, more),
        "responses": _responses("Answered", _TAKES_ROWS, arrow=True),
    }


def _learn(rows: Schema) -> Schema:
    return {
        "summary": "Learn a batch",
        "description": "Learn the rows as one batch, all of them or none; one batch after the "
        "other. A batch that is sent twice is learned twice.",
        "operationId": "learn",
        "requestBody": _body(_filled(rows), {}),
        "responses": _responses("Learned", (*_TAKES_ROWS, 409)),
    }


def _filled(rows: Schema) -> Schema:
    """Return the same with one row at least."""
    filled = {name: dict(schema) for name, schema in rows.items()}
    if "rows" in filled:
        filled["rows"]["minItems"] = 1
    columns = filled["columns"].get("properties")
    if columns:
        filled["columns"]["properties"] = {
            name: {**schema, "minItems": 1} for name, schema in columns.items()
        }
    return filled


def _body(rows: Schema, more: Schema) -> Schema:
    time = {
        "type": ["number", "null"],
        "minimum": -LARGEST,
        "maximum": LARGEST,
        "description": "When the rows came, on the clock of the batches; by default one interval "
        "after the last batch.",
    }
    either = [
        {
            "type": "object",
            "properties": {name: schema, "time": time, **more},
            "required": [name],
            "additionalProperties": False,
        }
        for name, schema in rows.items()
    ]
    content = {
        JSON.decode(): {"schema": either[0] if len(either) == 1 else {"oneOf": either}},
        ARROW.decode(): {
            "schema": {
                "type": "string",
                "format": "binary",
                "description": "An Arrow IPC stream with the columns, in any order.",
            }
        },
    }
    return {"required": True, "content": content}


def _responses(shape: str, codes: Iterable[int], *, arrow: bool = False) -> Schema:
    given: Schema = {JSON.decode(): {"schema": {"$ref": f"#/components/schemas/{shape}"}}}
    if arrow:
        stream = {"type": "string", "format": "binary", "description": _ARROW_ANSWER}
        given[ARROW.decode()] = {"schema": stream}
    refused = {"schema": {"$ref": "#/components/schemas/Refused"}}
    return {"200": {"description": "The answer.", "content": given}} | {
        str(code): {"description": STATUS[code], "content": {JSON.decode(): refused}}
        for code in sorted(codes)
    }


def _answers() -> Schema:
    wanted = (shapes.Answered, shapes.Learned, shapes.Refused)
    _, found = models_json_schema(
        [(shape, "serialization") for shape in wanted], ref_template="#/components/schemas/{model}"
    )
    schemas: Schema = found["$defs"]
    return schemas
