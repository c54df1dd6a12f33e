"""What every setting is when nobody gives it, asked of the code that uses it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from scstream.cli.settings import ENDS, Given, Key, Layer, nested, typed
from scstream.cli.veil import is_secret
from scstream.io.parameters import seed_for
from scstream.model import PARAMETERS
from scstream.observe.alerts import AlertOptions
from scstream.preprocess import Steps
from scstream.stream import config, connectors
from scstream.stream.batcher import Batching
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.keyed import KeyOptions
from scstream.stream.runner import CheckpointPolicy
from scstream.stream.schema import Schema

DEFAULT = "default"
_OBJECTS = frozenset({"BinaryIO", "Disk"})  # words of a type that no file of settings can give
_TEXT = frozenset({"None", "Path", "PathLike", "os", "str"})  # words of a type that is only text


def complete(layer: Layer) -> Layer:
    """Return all settings that a pipeline will use, those left out with their defaults.

    Examples
    --------
    >>> from scstream.cli.defaults import complete
    >>> from scstream.cli.settings import Given
    >>> everything = complete({("batch", "rows"): Given(500, "--set")})
    >>> everything["batch", "rows"].origin, everything["batch", "time"].value
    ('--set', 'batch')
    """
    given = dict(layer)
    tables = nested(given)
    tables.setdefault("job", "scstream")
    steps = given.pop(("steps",), Given([], DEFAULT))
    for key, value in _defaults(tables):
        given.setdefault(key, Given(value, DEFAULT))
    given |= _steps(steps, tables)
    order = {name: number for number, name in enumerate(config.SECTIONS)}
    return dict(sorted(given.items(), key=lambda entry: order.get(entry[0][0], len(order))))


def settled(layer: Layer) -> Layer:
    """Return the layer with every text from a flag or a variable read as what is wanted there.

    Examples
    --------
    >>> from scstream.cli.defaults import settled
    >>> from scstream.cli.settings import Given
    >>> settled({("job",): Given("2026", "--set", raw=True)})["job",].value
    '2026'
    """
    tables = nested(layer)
    return {
        key: Given(_read(key, given.value, tables), given.origin) if given.raw else given
        for key, given in layer.items()
    }


def _read(key: Key, text: str, tables: Mapping[str, Any]) -> Any:
    """A number is what TOML reads as one, unless text is wanted; a password may look like one."""
    if text[:1] in ('"', "'"):
        return typed(text, ".".join(key))
    wants_text = key == ("job",) or key[-1] == "kind" or is_secret(key[-1])
    return text if wants_text or _takes_text(key, tables) else typed(text, ".".join(key))


def _takes_text(key: Key, tables: Mapping[str, Any]) -> bool:
    if key[:-1] not in ENDS:
        return False
    kind = _table(tables, key[:-1]).get("kind")
    parameters = connector_options(key[-2], kind) if isinstance(kind, str) else {}
    words = _words(parameters[key[-1]]) if key[-1] in parameters else set()
    return "str" in words and words <= _TEXT


def _table(tables: Mapping[str, Any], end: Key) -> Mapping[str, Any]:
    for part in end:
        tables = tables.get(part, {})
    return tables


def _words(parameter: inspect.Parameter) -> set[str]:
    return set(re.findall(r"\w+", str(parameter.annotation)))


def connector_options(section: str, kind: str) -> Mapping[str, inspect.Parameter]:
    """Return the options of a source or sink, by name; none if there is no such kind.

    Examples
    --------
    >>> from scstream.cli.defaults import connector_options
    >>> connector_options("sink", "carrier pigeon")
    {}
    """
    known = connectors.SOURCES if section == "source" else connectors.SINKS
    if kind not in known:
        return {}
    module, _, name = known[kind].partition(".")
    connector = getattr(import_module(f"{connectors.__name__}.{module}"), name)
    return inspect.signature(connector).parameters


def _defaults(tables: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    yield ("job",), tables["job"]
    for end in ENDS:
        yield from _of_connector(end, _table(tables, end))
    for field in fields(Schema):
        if field.name in config.SCHEMA:
            yield ("schema", field.name), field.default
    model = {**PARAMETERS, "random_state": seed_for(tables["job"])}
    yield from ((("model", name), value) for name, value in model.items() if name != "kernel")
    yield from ((("batch", field.name), field.default) for field in fields(Batching))
    yield ("checkpoint", "folder"), config.FOLDER
    yield from ((("checkpoint", field.name), field.default) for field in fields(CheckpointPolicy))
    kept = inspect.signature(CheckpointLog).parameters
    yield from ((("checkpoint", name), kept[name].default) for name in ("newest", "hourly"))
    if tables.get("schema", {}).get("key") is not None:
        yield from ((("keys", field.name), field.default) for field in fields(KeyOptions))
    yield from ((("alerts", field.name), field.default) for field in fields(AlertOptions))
    yield from ((("alerts", name), None) for name in config.POSTED)
    yield ("threads",), True


def _of_connector(end: Key, table: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    kind = table.get("kind")
    if kind is None:
        yield (*end, "kind"), None  # a pipeline may have no sink, and labels then go nowhere
        return
    options = connector_options(end[-1], kind)
    if end == ("source",) and "format" not in options:
        yield (*end, "format"), config.FORMAT
    for name, parameter in options.items():
        is_plain = _OBJECTS.isdisjoint(_words(parameter))
        if is_plain and parameter.default is not inspect.Parameter.empty:
            yield (*end, name), parameter.default


def _steps(given: Given, tables: Mapping[str, Any]) -> Layer:
    """Steps one by one, with the options that they have and nobody gave."""
    built = Steps.build(given.value, text=tables.get("schema", {}).get("text"))
    return {
        ("steps", str(number), name): Given(
            value, given.origin if name in table or name == "step" else DEFAULT
        )
        for number, (table, full) in enumerate(zip(given.value, built.options(), strict=True), 1)
        for name, value in full.items()
    }
