"""Writes docs/reference/pipeline.md from the code: `python docs/make_reference.py`.

Names and defaults come from signatures, types and meanings from docstrings; an option that has no
docstring is an error.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from scstream import ScStream, errors
from scstream.distributed.keyed_pool import RayKeys
from scstream.model import PARAMETERS
from scstream.observe.alerts import AlertOptions
from scstream.preprocess.steps import STEPS
from scstream.stream import config, connectors
from scstream.stream.batcher import Batching
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.connectors.nats import NatsStore
from scstream.stream.connectors.s3 import S3Store
from scstream.stream.embedding import Embedder
from scstream.stream.keyed import KeyOptions
from scstream.stream.messages import FORMATS
from scstream.stream.runner import CheckpointPolicy, Pipeline
from scstream.stream.schema import Schema

PAGE = Path(__file__).with_name("reference") / "pipeline.md"
NEEDED = inspect.Parameter.empty
OBJECTS = {"BinaryIO", "Disk"}  # words of a type that no file of settings can give
SECTION = re.compile(r"Parameters\n-+\n(.*?)(?=\n\n\w[^\n]*\n---|\Z)", re.DOTALL)
ENTRY = re.compile(r"^(\w[\w, ]*) : (.+)((?:\n    .*|\n(?=\n    ))*)", re.MULTILINE)
HEAD = """\
# Settings of a pipeline

Made by `python docs/make_reference.py` from the code; do not edit.

A settings file is TOML with the sections below. A command line flag (`--set batch.rows=500`)
overrides an environment variable (`SCSTREAM_BATCH__ROWS=500`), which overrides the file, which
overrides the default. In the file, `${NAME}` is replaced by the environment variable NAME; write
`$${NAME}` for a literal `${NAME}`. An empty default means that the option is not set.
`scstream run pipeline.toml --dry-run` prints every setting and where it comes from. Recipes are in
[pipelines.md](../howto/pipelines.md)."""
STEPS_ARE = """\
## [[steps]]

Preprocessing: one table for each step, applied in the order of the file and saved with the model.
Each table has `step`, the name of the step, and the options of that step."""
MODEL_IS = """\
## [model]

Parameters of `scstream.ScStream`. The default of `random_state` is computed from the name of the
job. TOML has no None: write `half_life = inf` for a model that never forgets."""
SINKS_ARE = """\
## [sink] and [dead_letters]

The destination of labels, and of rows that cannot be used, with the reason. Without the section
they are discarded."""
CHECKPOINTS_ARE = """\
## [checkpoint]

Where checkpoints are stored, how often they are written and how many are kept."""

ALERTS_ARE = """\
## [alerts]

Alert rules; see [alerts.md](../howto/alerts.md). Alerts are logged, written to `alerts.sink` (a
table with `kind` and the options of that sink) with the same guarantee as labels, and posted to
`alerts.webhook` by the command line. Alert rules do not change labels; you can change them at any
restart."""

EVENTS_ARE = """\
## [events] and [labels]

`[events]` is a sink for events of clusters, births, splits, merges and edits by people, with the
same guarantee as labels. Its columns are `kind`, `time`, `id`, `weight`, `other` (-1 for none),
`name` and `author`. `[labels]` says what labels carry besides the id of the cluster."""
EMBED_IS = """\
## [embed]

Make vectors of the text column with a function or a server, before a batch is learned; see
[texts to vectors](../howto/pipelines.md#texts-to-vectors). The vectors replace the columns, or are
added to those that `schema.features` names."""

NAMING_IS = """\
## [naming]

Ask a server or a command for names of new clusters; see [edit.md](../howto/edit.md). The command
line asks; answers are applied as edits."""

ON_RAY = """\
### keys on a Ray cluster

With any of these options, workers of a Ray cluster hold the models (`pip install "scstream[ray]"`).
Labels are the same."""


class Option(NamedTuple):
    """One line of a table."""

    name: str
    type: str
    default: Any
    meaning: str


KIND = Option("kind", "str", NEEDED, "One of the kinds below.")
FORMAT = Option(
    "format",
    ", ".join(f'"{name}"' for name in FORMATS),
    config.FORMAT,
    "What a message holds: JSON objects or arrays, one per line; an object of columns; an Arrow "
    "stream; a matrix of little-endian numbers. Files and stdin have formats of their own.",
)
DECODERS = Option(
    "decoders",
    "int",
    config.DECODERS,
    "Number of processes that decode messages, for one model. 0 or 1 decodes them in the process "
    "of the pipeline. Labels do not depend on it.",
)
FOLDER = Option(
    "folder",
    "str",
    config.FOLDER,
    'A folder, or an address: "s3://bucket/prefix" or "nats://host:4222/bucket".',
)
ALERT_SINK = Option("sink", "table", None, "The destination of alerts: a sink as above.")
WEBHOOK = Option(
    "webhook",
    "str",
    None,
    "An https:// or http:// address to which every alert is posted as JSON; logs omit its path.",
)
TOKEN = Option("token", "str", None, "Sent to the webhook as `Authorization: Bearer`.")
ADDED = Option(
    "add",
    "list of str",
    None,
    "Columns of `[labels]`: `cluster_name`, `cluster_group`, `group_name`.",
)
EMBED = [
    Option(
        "url",
        "str",
        None,
        "A server that answers as the embeddings route of language model servers, such as "
        "`http://127.0.0.1:8080/v1/embeddings`.",
    ),
    Option(
        "function",
        "str",
        None,
        "A function of yours instead, such as `my_module:embed`: it takes a list of texts and "
        "returns a vector for each.",
    ),
    Option("token", "str", None, "Sent to the server as `Authorization: Bearer`."),
    Option("model", "str", None, "Name of the model, for a server that has several."),
    Option("timeout", "float", 60.0, "Seconds for the connection and for every read."),
    Option("column", "str", None, "The column of texts, by default `schema.text`."),
]
NAMING = [
    Option("url", "str", None, 'A server to ask. It answers `{"name": "..."}`.'),
    Option("token", "str", None, "Sent to the server as `Authorization: Bearer`."),
    Option("model", "str", None, "A language model: the request has the form of chat completions."),
    Option("command", "list of str", None, "A program to run instead, with its arguments."),
    Option("timeout", "float", 30.0, "Seconds that an answer may take."),
    Option("attempts", "int", 3, "How often it asks about one cluster."),
    Option(
        "changed", "float", 3.0, "Standard deviations that a cluster moves before it asks anew."
    ),
]
STORE = Option(
    "options", "table", None, "For an address: the options below; for s3:// also others of obstore."
)


def page() -> str:
    """Return the whole page."""
    return "\n\n".join([HEAD, *sections()]) + "\n"


def sections() -> Iterator[str]:
    """Yield headings, sentences and tables in the order of the page."""
    yield "## Top level"
    yield table(options(Pipeline, ["job", "threads"], {"job": "scstream"}))
    yield "## [source]\n\nWhere rows come from."
    yield table([KIND, FORMAT, DECODERS])
    yield from connectors_of("source", connectors.SOURCES)
    yield "## [schema]\n\nThe roles of the columns."
    yield table(options(Schema, config.SCHEMA))
    yield EMBED_IS
    yield table([*EMBED, *options(Embedder, ["id", "rows", "cache", "retry_timeout"])])
    yield STEPS_ARE
    for name, step in STEPS.items():
        yield f"### step = {json.dumps(name)}\n\n{summary(step)}"
        needed = {"n": NEEDED} if getattr(step, "n", None) == 0 else {}  # no columns: no choice
        yield table(options(step, changed=needed))
    yield MODEL_IS
    yield table(options(ScStream, [name for name in PARAMETERS if name != "kernel"]))
    yield "## [batch]\n\nWhere a batch ends, and the time of a batch."
    yield table(options(Batching))
    yield SINKS_ARE
    yield table([KIND])
    yield from connectors_of("sink", connectors.SINKS)
    yield CHECKPOINTS_ARE
    kept = options(CheckpointLog, ["newest", "hourly"])
    yield table([FOLDER, STORE, *options(CheckpointPolicy), *kept, *options(Pipeline, ["lease"])])
    yield "### checkpoint.options of s3://"
    yield table(options(S3Store, ["retry_timeout", "allow_http"]))
    yield "### checkpoint.options of nats://"
    yield table(options(NatsStore, ["retry_timeout", "replicas", "credentials", "domain"]))
    yield "## [keys]\n\nWith `schema.key`: limits of the models."
    yield table(options(KeyOptions))
    yield ON_RAY
    yield table(options(RayKeys, ["workers", "address", "deadline", "replay"]))
    yield ALERTS_ARE
    yield table([*options(AlertOptions), ALERT_SINK, WEBHOOK, TOKEN])
    yield EVENTS_ARE
    yield table([ADDED])
    yield NAMING_IS
    yield table(NAMING)
    yield "## Exit codes\n\n| code | error | meaning |\n|---|---|---|\n" + "\n".join(exit_codes())


def connectors_of(role: str, known: Mapping[str, str]) -> Iterator[str]:
    """Yield every source or sink with its options."""
    for kind, place in known.items():
        module, _, name = place.partition(".")
        connector = getattr(import_module(f"{connectors.__name__}.{module}"), name)
        yield f"### {role}, kind = {json.dumps(kind)}\n\n{summary(connector)}"
        yield table(options(connector))


def options(
    owner: Any, names: Iterable[str] = (), changed: Mapping[str, Any] | None = None
) -> list[Option]:
    """Return the options that a class takes, or those of these names."""
    known, described = inspect.signature(owner).parameters, meanings(owner)
    plain = [
        name
        for name, parameter in known.items()
        if name != "learned" and OBJECTS.isdisjoint(re.findall(r"\w+", str(parameter.annotation)))
    ]
    defaults = {name: known[name].default for name in names or plain} | dict(changed or {})
    return [
        Option(name, described[name][0], value, described[name][1])
        for name, value in defaults.items()
    ]


def meanings(owner: Any) -> dict[str, tuple[str, str]]:
    """Return types and meanings by name, from the docstrings of a class and of those above it."""
    found: dict[str, tuple[str, str]] = {}
    for each in reversed(owner.__mro__):
        section = SECTION.search(inspect.cleandoc(each.__doc__ or ""))
        for names, kind, text in ENTRY.findall(section[1] if section else ""):
            found |= dict.fromkeys(names.split(", "), (kind, " ".join(text.split())))
    return found


def summary(owner: Any) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join(inspect.cleandoc(owner.__doc__).split("\n\n")[0].split()).replace("``", "`")


def table(rows: Iterable[Option]) -> str:
    """Return options as a table."""
    lines = ["| option | type | default | meaning |", "|---|---|---|---|"]
    for row in rows:
        kind = row.type.removesuffix(", optional").removesuffix("or None").rstrip(" ,")
        meaning = row.meaning.replace("``", "`")
        cells = (f"`{row.name}`", kind, shown(row.default), meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def shown(value: Any) -> str:
    """Return a default as TOML writes it; nothing for nothing."""
    if value is NEEDED:
        return "required"
    return "" if value is None else f"`{json.dumps(value)}`"


def exit_codes() -> Iterator[str]:
    """Yield the lines of the table of errors that end a pipeline."""
    yield "| 0 | | the source ended, or SIGTERM or Ctrl-C stopped the pipeline in order |"
    yield "| 1 | any other scstream error | see the message |"
    yield "| 2 | `InputError` | an invalid or changed setting, a flag, or a missing library |"
    for error in sorted(errors.StreamError.__subclasses__(), key=lambda each: each.exit_code):
        yield f"| {error.exit_code} | `{error.__name__}` | {summary(error).rstrip('.')} |"
    yield "| 70 | | a bug, with a traceback; please report it |"
    yield "| 130 | | a second Ctrl-C |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
