"""The description of the service as a page for people, which loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

STYLE = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
section { border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
h2 { font-size: 1.1rem; }
table { border-collapse: collapse; margin: 0 0 1rem; width: 100%; }
caption { text-align: left; font-weight: 600; }
th, td { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; }
th { white-space: nowrap; font-weight: 400; }
"""


def page(description: Mapping[str, Any]) -> str:
    """Return a description as a page that loads nothing but its style.

    Examples
    --------
    >>> from scstream.serve.docs import page
    >>> answers = {"200": {"description": "The answer."}}
    >>> route = {"get": {"summary": "Look", "responses": answers}}
    >>> "GET /clusters" in page({"info": {"title": "scstream"}, "paths": {"/clusters": route}})
    True
    """
    title = escape(description["info"]["title"])
    parts = [
        _section(method, path, operation)
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" '
        f'href="docs.css"></head><body><main><h1>{title}</h1><p>All routes. For programs: '
        f'<a href="openapi.json">openapi.json</a>.</p>{"".join(parts)}</main></body></html>'
    )


def _section(method: str, path: str, operation: Mapping[str, Any]) -> str:
    rows = [
        (code, ", ".join(answer.get("content", {})), answer["description"])
        for code, answer in operation["responses"].items()
    ]
    asked = [
        (each["name"], _said(each["schema"]), each.get("description", ""))
        for each in operation.get("parameters", ())
    ]
    sent = [
        (kind, "", "; ".join(_fields(each["schema"])))
        for kind, each in operation.get("requestBody", {}).get("content", {}).items()
    ]
    words = escape(operation.get("description", operation.get("summary", "")))
    tables = _table("Parameter", asked) + _table("Body", sent) + _table("Status", rows)
    heading = f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    return f"<section>{heading}<p>{words}</p>{tables}</section>"


def _fields(schema: Mapping[str, Any]) -> list[str]:
    """Return what may be in a body, one text for each of its forms."""
    if "oneOf" in schema:
        return [text for each in schema["oneOf"] for text in _fields(each)]
    if "properties" not in schema:
        return [schema.get("description", "")]
    return [", ".join(schema["properties"])]


def _said(schema: Mapping[str, Any]) -> str:
    """Return a schema of a parameter in a few words."""
    kinds = schema.get("anyOf", [schema])
    words = [_one(each) for each in kinds if each.get("type") != "null"]
    default = schema.get("default")
    return " or ".join(words) + ("" if default is None else f", by default {default}")


def _one(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    bounds = [
        f"{word} {schema[name]:g}"
        for name, word in (("minimum", "from"), ("maximum", "to"))
        if name in schema
    ]
    return " ".join([str(schema.get("type", "")), *bounds])


def _table(heading: str, rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    body = "".join(
        f"<tr><th><code>{escape(name)}</code></th><td>{escape(kind)}</td><td>{escape(words)}</td>"
        "</tr>"
        for name, kind, words in rows
    )
    return f"<table><caption>{heading}</caption><tbody>{body}</tbody></table>"
