"""Settings of a pipeline from its file, the environment and flags, each with its origin.

Flags override the environment, the environment overrides the file, and the file the defaults.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from scstream.errors import InputError

Key = tuple[str, ...]  # ("source", "url")
Tables = dict[str, Any]  # nested tables, as TOML has them
PREFIX = "SCSTREAM_"
TABLES = (
    *("source", "schema", "model", "batch", "sink"),
    *("dead_letters", "checkpoint", "keys", "alerts"),
)
SINGLE = ("job", "steps", "threads")
CONNECTORS: tuple[Key, ...] = (("source",), ("sink",), ("dead_letters",), ("alerts", "sink"))
_VARIABLE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEADER = re.compile(r"\s*(\[{1,2})\s*([A-Za-z0-9_.\s-]+?)\s*\]{1,2}\s*(?:#.*)?$")
_ENTRY = re.compile(r"\s*([A-Za-z0-9_-]+(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=")


@dataclass(frozen=True)
class Setting:
    """A value and where it was given; `raw` values are text that is parsed later."""

    value: Any
    origin: str  # "pipeline.toml:12", "SCSTREAM_SOURCE__URL", "--set"
    raw: bool = False


Layer = dict[Key, Setting]


def read_file(path: Path, environment: Mapping[str, str]) -> Layer:
    """Return the settings of a TOML file; `${NAME}` is replaced by the variable."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read: {reason}; give a settings file.") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    lines = dict(reversed([*_line_numbers(text)]))  # the first of several entries counts
    origins = {key: f"{path.name}:{line}" for key, line in lines.items()}
    return {
        key: _expand(value, key, origins.get(key, path.name), environment=environment)
        for key, value in _flatten(tables)
    }


def read_environment(environment: Mapping[str, str]) -> Layer:
    """Return the settings in environment variables: `SCSTREAM_SOURCE__URL` is `source.url`."""
    layer: Layer = {}
    for name, value in sorted(environment.items()):
        key = tuple(name.removeprefix(PREFIX).lower().split("__"))
        if not name.startswith(PREFIX) or (len(key) == 1 and key[0] not in SINGLE):
            continue  # variables such as SCSTREAM_KERNELS are not settings of a pipeline
        if len(key) > 1 and key[0] not in TABLES:
            raise InputError(
                f"the variable {name} names the unknown section {key[0]!r}; the sections are: "
                f"{', '.join(TABLES)}."
            )
        layer[key] = Setting(value, name, raw=True)
    return layer


def read_sets(sets: Iterable[str]) -> Layer:
    """Return the settings of `--set section.key=value`."""
    layer: Layer = {}
    for text in sets:
        name, equals, value = text.partition("=")
        key = tuple(part.strip() for part in name.split("."))
        if not equals or not all(key) or (len(key) == 1 and key[0] not in SINGLE):
            raise InputError(
                f"--set takes section.key=value, such as batch.rows=500, and not {name!r}."
            )
        layer[key] = Setting(value, "--set", raw=True)
    return layer


def merge_layers(*layers: Layer) -> Layer:
    """Merge layers; later layers override earlier ones.

    A source or sink of another kind inherits no options from the one that it replaces.
    """
    merged: Layer = {}
    for layer in layers:
        for section in CONNECTORS:
            before, after = merged.get((*section, "kind")), layer.get((*section, "kind"))
            if before and after and before.value != after.value:
                merged = {key: s for key, s in merged.items() if key[: len(section)] != section}
        merged |= layer
    return merged


def to_tables(layer: Layer) -> Tables:
    """Return the values in nested tables, as `scstream.stream.config.build` takes them."""
    tables: Tables = {}
    for key, setting in layer.items():
        table = tables
        for part in key[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise InputError(
                    f"{'.'.join(key)} ({setting.origin}) is below a value that is not a table."
                )
        table[key[-1]] = setting.value
    return tables


def parse_value(text: str, name: str) -> Any:
    """Parse text as a TOML value, or return the text itself if it is none."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text[:1] in ("[", "{", '"', "'"):
            raise InputError(
                f"{name} starts like a TOML value but is not valid: {error}."
            ) from None
        return text
    return _dates_as_text(parsed["value"]) if len(parsed) == 1 else text


def _flatten(tables: Tables, above: Key = ()) -> Iterator[tuple[Key, Any]]:
    for name, value in tables.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, (*above, name))
        else:
            yield (*above, name), value


def _expand(value: Any, key: Key, origin: str, *, environment: Mapping[str, str]) -> Setting:
    used: list[str] = []

    def variable(found: re.Match[str]) -> str:
        if found[1]:
            return f"${{{found[2]}}}"  # $${NAME} is ${NAME} itself
        if found[2] not in environment:
            raise InputError(
                f"{'.'.join(key)} in {origin} needs the variable {found[2]}, which is not set."
            )
        used.append(found[2])
        return environment[found[2]]

    def expand(entry: Any) -> Any:
        if isinstance(entry, str):
            return _VARIABLE.sub(variable, entry)
        if isinstance(entry, list):
            return [expand(inner) for inner in entry]
        if isinstance(entry, dict):
            return {name: expand(inner) for name, inner in entry.items()}
        return _dates_as_text(entry)

    value = expand(value)
    return Setting(value, f"{origin} with {', '.join(used)}" if used else origin)


def _dates_as_text(value: Any) -> Any:
    """Convert dates, because settings are stored in checkpoints as JSON."""
    return value.isoformat() if isinstance(value, date | datetime | time) else value


def _line_numbers(text: str) -> Iterator[tuple[Key, int]]:
    """Yield the line of every entry; approximate, for files in the usual layout."""
    section: Key = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = tuple(part.strip() for part in header[2].split("."))
            if header[1] == "[[":
                yield section, number
                section = (*section, str(number))  # entries of a list have no key of their own
        elif entry := _ENTRY.match(line):
            yield (*section, *(part.strip() for part in entry[1].split("."))), number
