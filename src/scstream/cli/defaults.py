"""Defaults of all settings, and the types that settings given as text are parsed to."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from scstream.cli.secrets import is_secret
from scstream.cli.settings import CONNECTORS, Key, Layer, Setting, Tables, parse_value, to_tables
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
_OBJECTS = frozenset({"BinaryIO", "Disk"})  # types that a settings file cannot give
_TEXT = frozenset({"None", "Path", "PathLike", "os", "str"})  # types that are only text


def with_defaults(layer: Layer) -> Layer:
    """Return all settings that a pipeline will use, in the order of the sections."""
    complete = dict(layer)
    tables = to_tables(complete)
    tables.setdefault("job", "scstream")
    steps = complete.pop(("steps",), Setting([], DEFAULT))
    for key, value in _defaults(tables):
        complete.setdefault(key, Setting(value, DEFAULT))
    complete |= _step_settings(steps, tables)
    order = {name: number for number, name in enumerate(config.SECTIONS)}
    return dict(sorted(complete.items(), key=lambda entry: order.get(entry[0][0], len(order))))


def parse_raw(layer: Layer) -> Layer:
    """Return the layer with text from flags and variables parsed to the type of the setting."""
    tables = to_tables(layer)
    return {
        key: Setting(_parse(key, s.value, tables), s.origin) if s.raw else s
        for key, s in layer.items()
    }


def _parse(key: Key, text: str, tables: Tables) -> Any:
    """Parse as TOML unless the setting is text: a password may look like a number."""
    is_quoted = text[:1] in ('"', "'")
    is_text = key == ("job",) or key[-1] == "kind" or is_secret(key[-1])
    if not is_quoted and (is_text or _takes_text(key, tables)):
        return text
    return parse_value(text, ".".join(key))


def _takes_text(key: Key, tables: Tables) -> bool:
    if key[:-1] not in CONNECTORS:
        return False
    kind = _table_at(tables, key[:-1]).get("kind")
    parameters = connector_options(key[-2], kind) if isinstance(kind, str) else {}
    types = _type_names(parameters[key[-1]]) if key[-1] in parameters else set()
    return "str" in types and types <= _TEXT


def _table_at(tables: Tables, section: Key) -> Tables:
    for part in section:
        tables = tables.get(part, {})
    return tables


def _type_names(parameter: inspect.Parameter) -> set[str]:
    return set(re.findall(r"\w+", str(parameter.annotation)))


def connector_options(section: str, kind: str) -> Mapping[str, inspect.Parameter]:
    """Return the options of a source or sink by name; none for an unknown kind."""
    known = connectors.SOURCES if section == "source" else connectors.SINKS
    if kind not in known:
        return {}
    module, _, name = known[kind].partition(".")
    connector = getattr(import_module(f"{connectors.__name__}.{module}"), name)
    return inspect.signature(connector).parameters


def _defaults(tables: Tables) -> Iterator[tuple[Key, Any]]:
    yield ("job",), tables["job"]
    for section in CONNECTORS:
        yield from _connector_defaults(section, _table_at(tables, section))
    for field in fields(Schema):
        if field.name in config.SCHEMA:
            yield ("schema", field.name), field.default
    model = {**PARAMETERS, "random_state": seed_for(tables["job"])}
    yield from ((("model", name), value) for name, value in model.items() if name != "kernel")
    yield from ((("batch", field.name), field.default) for field in fields(Batching))
    yield ("checkpoint", "folder"), config.FOLDER
    yield from ((("checkpoint", field.name), field.default) for field in fields(CheckpointPolicy))
    retention = inspect.signature(CheckpointLog).parameters
    yield from ((("checkpoint", name), retention[name].default) for name in ("newest", "hourly"))
    yield ("checkpoint", "lease"), None
    if tables.get("schema", {}).get("key") is not None:
        yield from ((("keys", field.name), field.default) for field in fields(KeyOptions))
    yield from ((("alerts", field.name), field.default) for field in fields(AlertOptions))
    yield from ((("alerts", name), None) for name in config.POSTED)
    yield ("threads",), True


def _connector_defaults(section: Key, table: Tables) -> Iterator[tuple[Key, Any]]:
    kind = table.get("kind")
    if kind is None:
        yield (*section, "kind"), None  # the sinks of a pipeline are optional
        return
    options = connector_options(section[-1], kind)
    if section == ("dead_letters",) and "max_bytes" in options:
        yield (*section, "max_bytes"), config.DEAD_LETTER_BYTES
    if section == ("source",) and "format" not in options:
        yield (*section, "format"), config.FORMAT
    if section == ("source",):
        yield (*section, "decoders"), config.DECODERS
    for name, parameter in options.items():
        is_plain = _OBJECTS.isdisjoint(_type_names(parameter))
        if is_plain and parameter.default is not inspect.Parameter.empty:
            yield (*section, name), parameter.default


def _step_settings(given: Setting, tables: Tables) -> Layer:
    """Return the options of every preprocessing step, given or default."""
    built = Steps.build(given.value, text=tables.get("schema", {}).get("text"))
    return {
        ("steps", str(number), name): Setting(
            value, given.origin if name in table or name == "step" else DEFAULT
        )
        for number, (table, full) in enumerate(zip(given.value, built.options(), strict=True), 1)
        for name, value in full.items()
    }
