"""Writes docs/reference/http.md from the code: `python docs/make_http.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.serve.api_errors import ERRORS
from scstream.serve.app import create_app
from scstream.serve.docs import body_fields, type_of
from scstream.serve.model import LocalModel
from scstream.serve.settings import ServiceSettings
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.follower import Follower
from scstream.stream.model_version import ModelVersion
from scstream.stream.pool import ModelPool
from scstream.stream.progress import Progress
from scstream.stream.store import MemoryStore

PAGE = Path(__file__).with_name("reference") / "http.md"
HEAD = """\
# Routes of the service

Made by `python docs/make_http.py` from the code; do not edit. [serve.md](../howto/serve.md) says
how to start and protect the service. A running service describes itself, exactly for its model, at
`/openapi.json`, and for people at `/docs`.

Bodies are JSON (`Content-Type: application/json`) or Arrow IPC streams
(`application/vnd.apache.arrow.stream`). Columns have the names that the model was fitted with, or
`x0`, `x1` and so on. Send all columns and no others, in any order, all of the same length. `null`
is a missing entry, for families that handle missing values. Responses are JSON; `/predict` returns
Arrow if the header `Accept` asks for it.

If a token is set, every route but `/`, `/docs`, `/docs.css`, `/page/...`, `/healthz` and `/readyz`
needs the header `Authorization: Bearer TOKEN`."""
KEYS = """\
## With one model per key

A service of a pipeline with one model per key needs to know which model to use. `/clusters`,
`/clusters/{id}`, `/events` and `/model` have the parameter `key`. `/predict` has it too, or the
field `key` of its JSON body, a text or a whole number. A request without a key gets `WrongKey`, and
so does a request with one to a service of one model. There is one more route."""
ERROR_PART = """\
## Errors

A request that fails gets `{"error": NAME, "detail": SENTENCE}`. The name is for programs; the
sentence says what is wrong and what to do. 503 comes with `Retry-After`, 405 with `Allow`, 401 with
`WWW-Authenticate`."""
PAGES = """\
## Pages

| path | content |
|---|---|
| `/` | the [live page](../howto/live-page.md), files below `/page/`; else a redirect to `/docs` |
| `/live` | server-sent events for that page |
| `/docs` | all routes; the page loads nothing from other hosts |
| `/openapi.json` | the same for programs |"""


def page() -> str:
    """Return the page."""
    description = _description()
    parts = [HEAD]
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            parts += _route(method, path, operation, description["components"]["schemas"])
    description = _description(with_keys=True)
    keys = description["paths"]["/keys"]["get"]
    parts += [KEYS, *_route("get", "/keys", keys, description["components"]["schemas"])]
    rows = [(f"`{name}`", str(code), when) for name, (code, when) in ERRORS.items()]
    table = _table(("name", "status", "when"), rows)
    return "\n\n".join([*parts, PAGES, ERROR_PART, table]) + "\n"


def _description(*, with_keys: bool = False) -> dict[str, Any]:
    if with_keys:
        return create_app(_follower()).openapi()
    learner, _, _ = Settings.of({"random_state": 0}, feature_names=("x", "y")).update(
        np.eye(2).repeat(10, axis=0)
    )
    model_version = ModelVersion(0, 1, 0.0, ("x", "y"), learner, Steps())
    return create_app(LocalModel(model_version), ServiceSettings(learn=True)).openapi()


def _follower() -> Follower:
    """Return a follower of a pipeline with one model per key."""
    store = MemoryStore()
    pool = ModelPool.build({"random_state": 0}, Steps(), column="key", store=store)
    CheckpointLog(store).publish(pool.freeze()(Progress(1)), time=0.0, batch=0)
    return Follower(store)


def _route(
    method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> Iterable[str]:
    yield f"## {method.upper()} {path}"
    yield operation["description"] + (" Off unless `--learn` is given." * (path == "/learn"))
    parameters = [
        (f"`{each['name']}`", type_of(each["schema"]), each.get("description", ""))
        for each in operation.get("parameters", ())
    ]
    if parameters:
        yield _table(("parameter", "type", "meaning"), parameters)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        fields = dict(body_fields(body["schema"], schemas))
        rows = [(f"`{n}`", type_of(s), s.get("description", "")) for n, s in fields.items()]
        yield _table(("field of the body", "type", "meaning"), rows)
    given = operation["responses"]["200"]["content"]
    for kind, answer in given.items():
        shape = answer["schema"].get("$ref", "").rpartition("/")[2]
        if shape:
            yield _table(("field of the response", "type", "meaning"), _fields(shape, schemas))
        elif "description" in answer["schema"]:
            yield f"As `{kind}`: {answer['schema']['description']}"
        else:
            yield f"The response has the type `{kind}`."
    codes = [code for code in operation["responses"] if code != "200"]
    yield f"Statuses besides 200: {', '.join(codes)}."


def _fields(shape: str, schemas: Mapping[str, Any], before: str = "") -> list[tuple[str, str, str]]:
    """Return the fields of a response; fields of objects follow their object."""
    rows: list[tuple[str, str, str]] = []
    for name, schema in schemas[shape]["properties"].items():
        inner = schema.get("$ref") or schema.get("items", {}).get("$ref", "")
        detail = schema.get("description", "")
        rows.append((f"`{before}{name}`", "" if "$ref" in schema else type_of(schema), detail))
        if inner:
            rows += _fields(inner.rpartition("/")[2], schemas, f"{before}{name}.")
    return rows


def _table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heading = list(names)
    lines = [heading, *([*row] for row in rows)]
    first, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([first, "|---" * len(heading) + "|", *rest])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
