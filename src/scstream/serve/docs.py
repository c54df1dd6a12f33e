"""The OpenAPI description as a page; it loads nothing from other hosts and needs no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from scstream.io.header import Plain

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


def page(description: Plain) -> str:
    """Return an OpenAPI description as HTML."""
    title = escape(description["info"]["title"])
    sections = [
        _section(method, path, operation, description["components"]["schemas"])
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" '
        f'href="docs.css"></head><body><main><h1>{title}</h1><p>All routes. For programs: '
        f'<a href="openapi.json">openapi.json</a>.</p>{"".join(sections)}</main></body></html>'
    )


def body_fields(schema: Plain, schemas: Mapping[str, Plain]) -> Iterator[tuple[str, Plain]]:
    """Yield the fields of a JSON body, of all its alternatives."""
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    yield from schema.get("properties", {}).items()
    for each in schema.get("oneOf", ()):
        yield from body_fields(each, schemas)


def type_of(schema: Plain) -> str:
    """Return the type of a parameter or field in a few words."""
    if "anyOf" in schema:
        words = " or ".join(type_of(each) for each in schema["anyOf"])
    elif "enum" in schema:
        words = ", ".join(map(str, schema["enum"]))
    elif "const" in schema:
        words = str(schema["const"])
    else:
        words = str(schema.get("type", "object"))
        inner = schema.get("items") or schema.get("prefixItems", [{}])[0]
        if words == "array" and inner:
            words = f"array of {type_of(inner)}"
    default = schema.get("default")
    return words if default in (None, []) else f"{words}, by default {str(default).lower()}"


def _section(method: str, path: str, operation: Plain, schemas: Mapping[str, Plain]) -> str:
    parameters = [(each["name"], each["schema"]) for each in operation.get("parameters", ())]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    fields = dict(body_fields(content.get("schema", {}), schemas))
    statuses = [
        (code, ", ".join(response.get("content", {})), response["description"])
        for code, response in operation["responses"].items()
    ]
    tables = (
        _table("Parameter", [(n, type_of(s), s.get("description", "")) for n, s in parameters])
        + _table(
            "Field of the body", [(n, type_of(s), s["description"]) for n, s in fields.items()]
        )
        + _table("Status", statuses)
    )
    heading = f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    return f"<section>{heading}<p>{escape(operation['description'])}</p>{tables}</section>"


def _table(heading: str, rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    body = "".join(
        f"<tr><th><code>{escape(name)}</code></th><td>{escape(kind)}</td><td>{escape(words)}</td>"
        "</tr>"
        for name, kind, words in rows
    )
    return f"<table><caption>{heading}</caption><tbody>{body}</tbody></table>"
