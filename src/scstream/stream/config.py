"""Build a pipeline from plain settings, such as a TOML file holds.

The sections are listed in `SECTIONS`; docs/reference/pipeline.md describes them. Every setting is
checked here: an unknown or invalid one raises `InputError` with the name of the setting.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import combinations
from typing import Any

from scstream.errors import InputError
from scstream.io.column_types import Auto
from scstream.io.durations import is_duration, read_seconds
from scstream.io.header import Plain
from scstream.io.parameters import family_kind, seed_for
from scstream.model import PARAMETERS, Settings
from scstream.observe.address import check_address
from scstream.observe.alerts import AlertRules
from scstream.observe.events import EventCallback, ignore_event
from scstream.preprocess import Steps
from scstream.stream import connectors
from scstream.stream.batcher import Batching
from scstream.stream.changeable import RAY, decisive
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.embed_calls import Embed, embed_function, embed_server
from scstream.stream.embedding import Embedder
from scstream.stream.lease import checked_lease
from scstream.stream.messages import reader
from scstream.stream.processor import LABEL_COLUMNS, OneModel, Processor
from scstream.stream.runner import CheckpointPolicy, Pipeline
from scstream.stream.schema import Reader, Schema
from scstream.stream.sink import NullSink, Sink
from scstream.stream.source import Source
from scstream.stream.store import Store

Section = Plain  # settings as the user wrote them
SECTIONS = (
    "job",
    "source",
    "schema",
    "embed",
    "steps",
    "model",
    "batch",
    "sink",
    "dead_letters",
    "checkpoint",
    "keys",
    "alerts",
    "events",
    "labels",
    "naming",
    "threads",
)
_CHECKPOINT = ("folder", "options", "batches", "seconds", "digests", "newest", "hourly", "lease")
POSTED = ("webhook", "token")  # options of alerts that the command line uses
_CALL = ("url", "function", "token", "model", "timeout")
EMBED = (*_CALL, "column", "id", "rows", "cache", "retry_timeout")
NAMING = ("url", "token", "model", "command", "timeout", "attempts", "changed")
SCHEMA = ("features", "keep", "key", "time", "text")
FOLDER = "checkpoints"  # where checkpoints are kept
FORMAT = "json"  # of messages
DEAD_LETTER_BYTES = 2**26  # of a file of dead letters, unless the user chooses
DECODERS = 0  # processes that decode messages, beside this one
MAX_DECODERS = 64


def build(
    settings: Section, *, emit: EventCallback = ignore_event, store: Store | None = None
) -> Pipeline:
    r"""Build a pipeline without connecting to anything.

    Parameters
    ----------
    settings : mapping
        Sections by name. Only `source` is required.
    emit : callable
        Called with every event.
    store : Store, optional
        Store of the checkpoints, instead of the one in the settings.

    Returns
    -------
    Pipeline
        Ready to `run`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scstream.stream.config import build
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = "".join(f'{{"x": {i % 7}, "y": {i % 3}}}\n' for i in range(50))
    ...     _ = Path(folder, "rows.jsonl").write_text(rows)
    ...     pipeline = build(
    ...         {
    ...             "source": {"kind": "file", "path": f"{folder}/rows.jsonl"},
    ...             "sink": {"kind": "file", "path": f"{folder}/labels.csv"},
    ...             "checkpoint": {"folder": f"{folder}/state"},
    ...             "batch": {"rows": 20},
    ...         }
    ...     )
    ...     pipeline.run(), len(Path(folder, "labels.csv").read_text().splitlines())
    (3, 51)
    """
    _reject_unknown("setting", settings, SECTIONS)
    _reject_unknown("naming", _section(settings, "naming"), NAMING)
    _check_apart(settings)
    job = settings.get("job", "scstream")
    source_options = _section(settings, "source")
    source, message_format = _source(source_options)
    model = _model(settings, job)
    store, checkpoint_policy, checkpoint_log = _checkpoint(_section(settings, "checkpoint"), store)
    schema = _schema(_section(settings, "schema"), model)
    steps = Steps.build(settings.get("steps", []), text=schema.text)
    embedder, schema = _embedder(_section(settings, "embed"), schema, steps)
    return Pipeline(
        job=job,
        source=source,
        reader=_reader(source, message_format, schema),
        embedder=embedder,
        processor=_processor(settings, model, steps, store),
        events=_sink("events", _section(settings, "events")),
        sink=_sink("sink", _section(settings, "sink")),
        dead_letters=_sink("dead_letters", with_rotation(_section(settings, "dead_letters"))),
        alert_rules=_alert_rules(_section(settings, "alerts")),
        alerts=_sink("alerts.sink", _alert_sink(settings)),
        checkpoint_log=checkpoint_log,
        batching=_timed(_batching(_section(settings, "batch")), model),
        checkpoint_policy=checkpoint_policy,
        lease=_lease(_section(settings, "checkpoint")),
        emit=emit,
        threads=settings.get("threads", True),
        decoders=_decoders(source_options, threads=settings.get("threads", True)),
        settings=decisive(settings),
    )


def _source(options: Section) -> tuple[Source, str]:
    if "kind" not in options:
        raise InputError(f"source.kind is missing; it is one of {', '.join(connectors.SOURCES)}.")
    own = connector_options(options)
    message_format = own.get("format", FORMAT)
    if not connectors.has_option("source", own["kind"], "format"):
        own.pop("format", None)
    return connectors.source(**own), message_format


def connector_options(options: Section) -> dict[str, Any]:
    """Return the options of the source itself, without those of the pipeline that reads it."""
    return {name: value for name, value in options.items() if name != "decoders"}


def _decoders(options: Section, *, threads: bool) -> int:
    number = options.get("decoders", DECODERS)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_DECODERS:
        raise InputError(
            f"source.decoders must be a whole number from 0 to {MAX_DECODERS}, got {number!r}."
        )
    if number > 1 and not threads:
        raise InputError("source.decoders needs threads; set it to 0, or leave out threads.")
    return number


def _sink(name: str, options: Section) -> Sink:
    if not options:
        return NullSink()
    if "kind" not in options:
        raise InputError(f"{name}.kind is missing; it is one of {', '.join(connectors.SINKS)}.")
    return connectors.sink(**options)


def with_rotation(dead_letters: Section) -> Section:
    """Return the options of dead letters; their files are bounded also if the user says nothing."""
    is_file = dead_letters.get("kind") == "file"
    return {"max_bytes": DEAD_LETTER_BYTES, **dead_letters} if is_file else dead_letters


def _alert_sink(settings: Section) -> Section:
    options = _section(settings, "alerts").get("sink", {})
    if not isinstance(options, Mapping):
        raise InputError(f"alerts.sink must be a table of options, got {options!r}.")
    return options


def _alert_rules(options: Section) -> AlertRules:
    if options.get("webhook"):
        check_address(options["webhook"], token=options.get("token"))
    rules = {name: value for name, value in options.items() if name not in ("sink", *POSTED)}
    return AlertRules.build(rules) if rules else AlertRules()


def _check_apart(settings: Section) -> None:
    """Reject equal sinks for labels, dead letters and alerts: their keys would collide."""
    places = {
        "sink": _section(settings, "sink"),
        "dead_letters": _section(settings, "dead_letters"),
        "alerts.sink": _alert_sink(settings),
        "events": _section(settings, "events"),
    }
    for (one, here), (other, there) in combinations(places.items(), 2):
        same = {**here, "format": ""} == {**there, "format": ""}
        if here and same and here.get("kind") != "stdout":
            what = {"dead_letters": "dead letters", "events": "events"}.get(other, "alerts")
            raise InputError(
                f"{one} and {other} are the same place; give {what} a file, stream or table of "
                "their own."
            )


def _reader(source: Source, message_format: str, schema: Schema) -> Reader:
    """Return the reader of messages; some sources bring their own."""
    own = getattr(source, "reader", None)
    chosen: Reader = own(schema) if own is not None else reader(message_format, schema)
    return chosen


def _schema(options: Section, model: Section) -> Schema:
    _reject_unknown("schema", options, SCHEMA)
    kind = family_kind(model["family"])
    # A null may be an error of the sender: it does not change the family that "auto" chooses.
    return Schema(**options, missing=kind is not Auto and kind.handles_missing)


def _embedder(options: Section, schema: Schema, steps: Steps) -> tuple[Embedder | None, Schema]:
    """Return what makes vectors of texts, if anything, and the schema of the rows before it."""
    if not options:
        return None, schema
    _reject_unknown("embed", options, EMBED)
    column = options.get("column", schema.text)
    if not isinstance(column, str) or not column:
        raise InputError("embed needs a column of texts; name it in schema.text.")
    if steps.steps and steps.steps[0].reads_text:
        raise InputError(f"embed and the step {steps.steps[0].name} both read texts; remove one.")
    id_ = options.get("id")
    if id_ is not None and id_ not in schema.other_columns:
        raise InputError(
            f"embed.id names the column {id_!r}, which is not read; add it to schema.keep."
        )
    for name, least in (("rows", 1), ("cache", 0)):
        value = options.get(name, least)
        if type(value) is not int or value < least:
            raise InputError(f"embed.{name} must be a whole number from {least}, got {value!r}.")
    timeout = options.get("timeout", 1)
    if type(timeout) not in (int, float) or timeout < 1:
        raise InputError(f"embed.timeout must be a number from 1, got {timeout!r}.")
    schema = replace(
        schema, text=column, features=() if schema.features is None else schema.features
    )
    kept = {name: options[name] for name in ("rows", "cache", "retry_timeout") if name in options}
    return Embedder(_embed(options), column=column, id=id_, **kept), schema


def _embed(options: Section) -> Embed:
    if ("url" in options) == ("function" in options):
        raise InputError("embed needs either url, a server, or function, written module:function.")
    if "function" in options:
        return embed_function(options["function"])
    given = {name: options[name] for name in ("token", "model", "timeout") if name in options}
    return embed_server(options["url"], **given)


def _model(settings: Section, job: str) -> Section:
    """Parameters of the model; the seed must be the same before and after a crash."""
    model = dict(_section(settings, "model"))
    _reject_unknown("model", model, [name for name in PARAMETERS if name != "kernel"])
    model = {**PARAMETERS, "random_state": seed_for(job), **model}
    config = Settings.of(model).to_config()  # raises an error now, and not with the first row
    if config.algorithm == "exact":
        raise InputError(
            "algorithm='exact' samples the posterior of one table and cannot learn a stream; leave "
            "it out of the settings, and use ScStream(algorithm='exact').fit(X) in Python."
        )
    return model


def _timed(batching: Batching, model: Section) -> Batching:
    """Return the batching; raise `InputError` if a duration meets times that are numbers."""
    if is_duration(model["half_life"]) and batching.time == "batch":
        raise InputError(
            f"model.half_life is {model['half_life']!r}, a duration, but the time of a batch is "
            "its number; set batch.time to 'event' or 'processing', or give half_life in batches."
        )
    return batching


def _processor(settings: Section, model: Section, steps: Steps, store: Store) -> Processor:
    keys, added = _section(settings, "keys"), _label_columns(settings)
    column = _section(settings, "schema").get("key")
    if column is None:
        if keys:
            raise InputError("keys needs schema.key, the column that says which model is meant.")
        return OneModel(Settings.of(model), steps, label_columns=added)
    if added:
        raise InputError("labels.add needs one model; leave schema.key or labels.add out.")
    if any(name in keys for name in RAY):
        from scstream.distributed.keyed_pool import RayPool

        return RayPool.build(model, steps, column=column, store=store, **keys)
    from scstream.stream.pool import ModelPool

    return ModelPool.build(model, steps, column=column, store=store, **keys)


def _label_columns(settings: Section) -> list[str]:
    """Return what labels carry besides the ids of clusters."""
    options = _section(settings, "labels")
    _reject_unknown("labels", options, ("add",))
    added = options.get("add", [])
    kept = Schema(keep=_section(settings, "schema").get("keep", ())).keep
    if not isinstance(added, list):
        raise InputError("labels.add must be a list of columns.")
    for name in added:
        if name not in LABEL_COLUMNS:
            raise InputError(
                f"labels.add has no column {name!r}; there are {', '.join(LABEL_COLUMNS)}."
            )
        if name in kept:
            raise InputError(f"the column {name!r} is in labels.add and in schema.keep.")
    return added


def _checkpoint(
    options: Section, store: Store | None
) -> tuple[Store, CheckpointPolicy, CheckpointLog]:
    _reject_unknown("checkpoint", options, _CHECKPOINT)
    if store is None:
        store = connectors.store(options.get("folder", FOLDER), **options.get("options", {}))
    checkpoint_policy = CheckpointPolicy(
        **{f.name: options[f.name] for f in fields(CheckpointPolicy) if f.name in options}
    )
    kept = {name: options[name] for name in ("newest", "hourly") if name in options}
    return store, checkpoint_policy, CheckpointLog(store, **kept)


def _lease(options: Section) -> float | None:
    seconds = options.get("lease")
    return None if seconds is None else checked_lease(read_seconds(seconds, "checkpoint.lease"))


def _batching(options: Section) -> Batching:
    _reject_unknown("batch", options, list(inspect.signature(Batching).parameters))
    return Batching(**options)


def _section(settings: Section, name: str) -> Section:
    section = settings.get(name, {})
    if not isinstance(section, Mapping):
        raise InputError(f"{name} must be a table of options, got {section!r}.")
    return section


def _reject_unknown(what: str, given: Section, known: Any) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(f"there is no {what} {unknown[0]!r}; there are: {', '.join(known)}.")
