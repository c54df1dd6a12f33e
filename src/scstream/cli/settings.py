"""Settings of a pipeline from its file, the environment and flags, each with where it comes from.

Flags win over the environment, the environment over the file, and the file over the defaults.
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
PREFIX = "SCSTREAM_"
TABLES = (
    "source",
    "schema",
    "model",
    "batch",
    "sink",
    "dead_letters",
    "checkpoint",
    "keys",
    "alerts",
)
SINGLE = ("job", "steps", "threads")
ENDS: tuple[Key, ...] = (
    ("source",),
    ("sink",),
    ("dead_letters",),
    ("alerts", "sink"),
)  # have a kind
_VARIABLE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEADER = re.compile(r"\s*(\[{1,2})\s*([A-Za-z0-9_.\s-]+?)\s*\]{1,2}\s*(?:#.*)?$")
_ENTRY = re.compile(r"\s*([A-Za-z0-9_-]+(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=")


@dataclass(frozen=True)
class Given:
    """A value that somebody gave.

    Parameters
    ----------
    value : plain value
        What was given; as text if `raw`.
    origin : str
        Where: "pipeline.toml:12", "SCSTREAM_SOURCE__URL", "--set".
    raw : bool
        Whether it is text that may stand for a number, a list, or yes and no.

    Examples
    --------
    >>> from scstream.cli.settings import Given
    >>> Given("500", "--set", raw=True).value
    '500'
    """

    value: Any
    origin: str
    raw: bool = False


Layer = dict[Key, Given]


def read_file(path: Path, environment: Mapping[str, str]) -> Layer:
    r"""Return the settings that a TOML file holds; `${NAME}` stands for a variable.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scstream.cli.settings import read_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "p.toml")
    ...     _ = file.write_text('[source]\nkind = "nats"\nurl = "nats://${HOST}:4222"\n')
    ...     read_file(file, {"HOST": "broker"})["source", "url"]
    Given(value='nats://broker:4222', origin='p.toml:3 with HOST', raw=False)
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read: {why}; give the file of a pipeline.") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    lines = dict(reversed([*_lines(text)]))  # the first of several counts
    places = {key: f"{path.name}:{line}" for key, line in lines.items()}
    return {
        key: _expanded(value, key, places.get(key, path.name), environment=environment)
        for key, value in _flat(tables)
    }


def read_environment(environment: Mapping[str, str]) -> Layer:
    """Return the settings among the variables: `SCSTREAM_SOURCE__URL` is `source.url`.

    Examples
    --------
    >>> from scstream.cli.settings import read_environment
    >>> read_environment({"SCSTREAM_BATCH__ROWS": "500", "HOME": "/"})
    {('batch', 'rows'): Given(value='500', origin='SCSTREAM_BATCH__ROWS', raw=True)}
    """
    layer: Layer = {}
    for name, value in sorted(environment.items()):
        key = tuple(name.removeprefix(PREFIX).lower().split("__"))
        if not name.startswith(PREFIX) or (len(key) == 1 and key[0] not in SINGLE):
            continue  # SCSTREAM_KERNELS and its like are no settings of a pipeline
        if len(key) > 1 and key[0] not in TABLES:
            raise InputError(
                f"the variable {name} names the section {key[0]!r}, which there is not; there are: "
                f"{', '.join(TABLES)}."
            )
        layer[key] = Given(value, name, raw=True)
    return layer


def read_sets(sets: Iterable[str]) -> Layer:
    """Return the settings of `--set section.key=value`.

    Examples
    --------
    >>> from scstream.cli.settings import read_sets
    >>> read_sets(["model.half_life=20"])
    {('model', 'half_life'): Given(value='20', origin='--set', raw=True)}
    """
    layer: Layer = {}
    for text in sets:
        name, equals, value = text.partition("=")
        key = tuple(part.strip() for part in name.split("."))
        if not equals or not all(key) or (len(key) == 1 and key[0] not in SINGLE):
            raise InputError(
                f"--set takes section.key=value, such as batch.rows=500, and not {name!r}."
            )
        layer[key] = Given(value, "--set", raw=True)
    return layer


def layered(*layers: Layer) -> Layer:
    """Return one layer of several, the last of which wins.

    A source or sink of another kind takes nothing over from the one that it replaces.

    Examples
    --------
    >>> from scstream.cli.settings import Given, layered
    >>> file = {("sink", "kind"): Given("nats", "f"), ("sink", "subject"): Given("s", "f")}
    >>> sorted(layered(file, {("sink", "kind"): Given("stdout", "--sink")}))
    [('sink', 'kind')]
    """
    merged: Layer = {}
    for layer in layers:
        for end in ENDS:
            before, after = merged.get((*end, "kind")), layer.get((*end, "kind"))
            if before and after and before.value != after.value:
                merged = {key: given for key, given in merged.items() if key[: len(end)] != end}
        merged |= layer
    return merged


def nested(layer: Layer) -> dict[str, Any]:
    """Return the values in tables, as `scstream.stream.config.build` takes them.

    Examples
    --------
    >>> from scstream.cli.settings import Given, nested
    >>> nested({("job",): Given("demo", "f"), ("batch", "rows"): Given(5, "f")})
    {'job': 'demo', 'batch': {'rows': 5}}
    """
    tables: dict[str, Any] = {}
    for key, given in layer.items():
        table = tables
        for part in key[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise InputError(
                    f"{'.'.join(key)} ({given.origin}) stands below a value that is no table."
                )
        table[key[-1]] = given.value
    return tables


def typed(text: str, name: str) -> Any:
    """Return the value that a text stands for: as in TOML, and text where that makes no sense.

    Examples
    --------
    >>> from scstream.cli.settings import typed
    >>> typed("20", "n"), typed("true", "n"), typed('["x", "y"]', "n"), typed("gaussian", "n")
    (20, True, ['x', 'y'], 'gaussian')
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text[:1] in ("[", "{", '"', "'"):
            raise InputError(f"{name} begins as a TOML value does and is none: {error}.") from None
        return text
    return _plain(parsed["value"]) if len(parsed) == 1 else text


def _flat(tables: Mapping[str, Any], above: Key = ()) -> Iterator[tuple[Key, Any]]:
    for name, value in tables.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, (*above, name))
        else:
            yield (*above, name), value


def _expanded(value: Any, key: Key, origin: str, *, environment: Mapping[str, str]) -> Given:
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
        return _plain(entry)

    value = expand(value)
    return Given(value, f"{origin} with {', '.join(used)}" if used else origin)


def _plain(value: Any) -> Any:
    """Dates as text: settings go into checkpoints, which are JSON."""
    return value.isoformat() if isinstance(value, date | datetime | time) else value


def _lines(text: str) -> Iterator[tuple[Key, int]]:
    """Where entries stand, for files as people write them."""
    section: Key = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = tuple(part.strip() for part in header[2].split("."))
            if header[1] == "[[":
                yield section, number
                section = (*section, str(number))  # entries of a list have no place of their own
        elif entry := _ENTRY.match(line):
            yield (*section, *(part.strip() for part in entry[1].split("."))), number
