"""Writes docs/reference/http.md from the code: `python docs/make_http.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.serve.app import create_app
from scstream.serve.model import Owned
from scstream.serve.refusals import REASONS
from scstream.serve.settings import ServiceSettings
from scstream.stream.model_version import ModelVersion

PAGE = Path(__file__).with_name("reference") / "http.md"
HEAD = """\
# Routes of the service

Made by `python docs/make_http.py` from the code; do not edit. How the service is started, followed
and guarded is in [serve.md](../howto/serve.md). A service describes itself, exactly for its model,
at `/openapi.json`, and for people at `/docs`.

Bodies are JSON (`Content-Type: application/json`) or Arrow IPC streams
(`application/vnd.apache.arrow.stream`). Columns go by the names that the model was learned with,
`x0`, `x1` and so on where there were none; all must be there, and no others, in any order and of
one length. `null` is a missing entry, for families that take one. Answers are JSON, those of
`/predict` Arrow where the header `Accept` asks for it.

Where a token is set every route but `/`, `/docs`, `/docs.css`, `/page/...`, `/healthz` and
`/readyz` needs the header `Authorization: Bearer TOKEN`."""
REFUSALS = """\
## Refusals

A request that is not answered gets `{"error": NAME, "detail": SENTENCE}`. The name is for programs,
the sentence tells people what is wrong and what to do. With 503 and 429 comes `Retry-After`, with
405 `Allow`, with 401 `WWW-Authenticate`."""
PAGES = """\
## Pages

| path | what |
|---|---|
| `/` | the [live page](../howto/live-page.md), its files below `/page/`; without it, to `/docs` |
| `/live` | server-sent events for that page |
| `/docs` | this description, which loads nothing from elsewhere |
| `/openapi.json` | the same for programs |"""


def page() -> str:
    """Return the page."""
    description = _description()
    parts = [HEAD]
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            parts += _route(method, path, operation, description["components"]["schemas"])
    rows = [(f"`{name}`", str(code), detail) for name, (code, detail) in REASONS.items()]
    return "\n\n".join([*parts, PAGES, REFUSALS, _table(("name", "status", "when"), rows)]) + "\n"


def _description() -> dict[str, Any]:
    learner, _, _ = Settings.of({"random_state": 0}, feature_names=("x", "y")).update(
        np.eye(2).repeat(10, axis=0)
    )
    reading = ModelVersion(0, 1, 0.0, ("x", "y"), learner, Steps())
    return create_app(Owned(reading), ServiceSettings(learn=True)).openapi()


def _route(
    method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> Iterable[str]:
    yield f"## {method.upper()} {path}"
    yield operation["description"] + (" Off unless `--learn` is given." * (path == "/learn"))
    asked = [
        (f"`{each['name']}`", _kind(each["schema"]), each.get("description", ""))
        for each in operation.get("parameters", ())
    ]
    if asked:
        yield _table(("parameter", "type", "meaning"), asked)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        fields = {
            name: schema for form in body["schema"]["oneOf"] for name, schema in _of(form).items()
        }
        rows = [(f"`{n}`", _kind(s), s.get("description", "")) for n, s in fields.items()]
        yield _table(("field of the body", "type", "meaning"), rows)
    given = operation["responses"]["200"]["content"]
    for kind, answer in given.items():
        shape = answer["schema"].get("$ref", "").rpartition("/")[2]
        if shape:
            yield _table(("field of the answer", "type", "meaning"), _fields(shape, schemas))
        elif "description" in answer["schema"]:
            yield f"As `{kind}`: {answer['schema']['description']}"
        else:
            yield f"The answer is of type `{kind}`."
    codes = [code for code in operation["responses"] if code != "200"]
    yield f"Statuses besides 200: {', '.join(codes)}."


def _of(form: Mapping[str, Any]) -> dict[str, Any]:
    return dict(form["properties"])


def _fields(shape: str, schemas: Mapping[str, Any], before: str = "") -> list[tuple[str, str, str]]:
    """Return the fields of an answer, those of objects in it after their own."""
    rows: list[tuple[str, str, str]] = []
    for name, schema in schemas[shape]["properties"].items():
        inner = schema.get("$ref") or schema.get("items", {}).get("$ref", "")
        detail = schema.get("description", "")
        rows.append((f"`{before}{name}`", "" if "$ref" in schema else _kind(schema), detail))
        if inner:
            rows += _fields(inner.rpartition("/")[2], schemas, f"{before}{name}.")
    return rows


def _kind(schema: Mapping[str, Any]) -> str:
    """Return a type in a few words."""
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "const" in schema:
        return str(schema["const"])
    kind = schema.get("type", "object")
    words = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if "enum" in schema:
        words = ", ".join(map(str, schema["enum"]))
    if words == "array":
        inner = schema.get("items") or schema["prefixItems"][0]  # columns of numbers, all alike
        words = f"array of {_kind(inner)}"
    if "default" in schema and schema["default"] not in ([], None):
        words += f", by default {str(schema['default']).lower()}"
    return words


def _table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heading = list(names)
    lines = [heading, *([*row] for row in rows)]
    first, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([first, "|---" * len(heading) + "|", *rest])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
