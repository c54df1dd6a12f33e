"""`migrate_checkpoint`: the first checkpoint of a new job, from a checkpoint of an old one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scstream.errors import InputError, MigrationRefused
from scstream.families.base import Array
from scstream.io.header import Json, Plain
from scstream.model import Model, checkpoint_bytes
from scstream.stream.changeable import rule_of
from scstream.stream.checkpoint_log import VERSION
from scstream.stream.column_changes import ColumnChange, family_over
from scstream.stream.model_version import ModelVersion
from scstream.stream.progress import Progress
from scstream.stream.runner import Pipeline
from scstream.stream.store import Store, numbered_name
from scstream.stream.vectors import open_vectors, vector_widths

SAME, START = "same", "start"  # where the new job begins to read
_SINKS = ("sink", "dead_letters", "events")
_CONSUMER = ("decoders", "durable", "group", "start", "format", "retry_timeout")


@dataclass(frozen=True)
class Change:
    """A setting that differs between two jobs, and what that does."""

    setting: str
    old: Any
    new: Any
    effect: str


@dataclass(frozen=True)
class Job:
    """A job as `migrate_checkpoint` sees it.

    Parameters
    ----------
    given : mapping
        The settings as the user wrote them.
    full : mapping
        The settings with their defaults.
    pipeline : Pipeline
        What they build.
    """

    given: Json
    full: Json
    pipeline: Pipeline

    def section(self, name: str) -> Plain:
        """Return a section of the settings as the user wrote them."""
        found: Plain = self.given.get(name, {})
        return found


def find_changes(
    old: Job, new: Job, version: ModelVersion, *, columns: ColumnChange | None, position: str
) -> list[Change]:
    """Return what differs between two jobs; raises `MigrationRefused` if a change is impossible."""
    changes = []
    for setting, before, after in _differences(old, new, version, columns):
        rule = rule_of(setting)
        if rule.when == "never":
            raise MigrationRefused(
                f"{setting} cannot change: {rule.effect}. Set it back to {before!r}, or start a "
                "new job without the clusters of the old one."
            )
        effect = rule.effect
        if setting == "schema.features" and columns is not None:
            effect = columns.effect
        changes.append(Change(setting, before, after, effect))
    if position == START:
        where = "the new job reads from where source.start says, by default the beginning"
        changes.append(Change("source", SAME, START, where))
    return changes


def migrate_checkpoint(
    version: ModelVersion,
    old: Job,
    new: Job,
    *,
    columns: ColumnChange | None,
    position: str,
    time: float,
) -> bytes:
    """Return the first checkpoint of a new job.

    Clusters keep their ids, names, edits and history. The new job reads on where the checkpoint of
    the old one ends, or from the start of its source.
    """
    state = version.pipeline
    before = Progress.from_dict(state["progress"])
    features = before.schema.features if columns is None else tuple(columns.new)
    schema = replace(new.pipeline.reader.schema, features=features)
    is_same = position == SAME
    progress = replace(
        before,
        time=time,
        epoch=-1,
        job=new.pipeline.job,
        settings=new.pipeline.settings,
        identity=before.identity if is_same else {},
        offsets=before.offsets if is_same else {},
        sinks={},
        schema=schema,
        alerts=before.alerts if old.section("alerts") == new.section("alerts") else {},
        edits=0,
    )
    model = version.model if columns is None else columns.apply(version.model)
    model = _with_parameters(model, old, new)
    return checkpoint_bytes(model, {"progress": progress.to_dict(), "steps": state["steps"]})


def publish_first(store: Store, content: bytes) -> None:
    """Write the first checkpoint of a job; raises `MigrationRefused` if the store is in use."""
    refuse_used(store)
    if not store.put_new(numbered_name(VERSION, 0), content):
        raise _used()


def refuse_used(store: Store) -> None:
    """Raise `MigrationRefused` if a store holds anything of a pipeline."""
    if store.names():
        raise _used()


def default_position(old: Job, new: Job) -> str:
    """Return `SAME` if both jobs read the same source, else `START`."""
    return SAME if _place(old.section("source")) == _place(new.section("source")) else START


def _with_parameters(model: Model, old: Job, new: Job) -> Model:
    """Return the model with the parameters of the new job."""
    before, after = old.full["model"], new.full["model"]
    names = [name for name in after if rule_of(f"model.{name}").when != "never"]
    return model.with_parameters(**{n: after[n] for n in names if before.get(n) != after[n]})


def column_change(
    new: Job, version: ModelVersion, sample: Callable[[list[str]], Array] | None = None
) -> ColumnChange | None:
    """Return how the features change; None if they are the same.

    `sample` returns values of added columns, by their names.
    """
    known, features = version.columns, _features(new, version.columns)
    if known is None or features is None or known == features:
        return None
    if version.steps.steps:
        raise MigrationRefused(
            "schema.features cannot change in a job with steps: they have learned from the columns."
        )
    if not set(known) & set(features):
        raise MigrationRefused("schema.features names none of the columns of the old job.")
    change = ColumnChange(known, features, new.full["model"]["family"])
    if change.added and sample is not None:
        change = replace(change, sample=sample(change.added))
    return change


def _features(job: Job, known: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the features of the new job; by default those of the old one."""
    schema = job.pipeline.reader.schema
    if schema.features is None or known is None:
        return known
    widths = vector_widths(known)
    unknown = [name for name in open_vectors(schema.features) if name not in widths]
    if unknown:
        raise MigrationRefused(
            f"schema.features names the new column {unknown[0]}[] without the length of its "
            f"arrays; name its entries: {unknown[0]}[0], {unknown[0]}[1] and so on."
        )
    return schema.with_widths(lambda name: widths[name]).features


def _used() -> MigrationRefused:
    return MigrationRefused(
        "checkpoint.folder of the new job is in use: a job has checkpoints there, perhaps from an "
        "earlier migration. Start that job with scstream run --resume, or choose another folder."
    )


def refuse_impossible(old: Job, new: Job) -> None:
    """Raise `MigrationRefused` if the settings alone show that the jobs cannot follow."""
    if old.full["checkpoint"]["folder"] == new.full["checkpoint"]["folder"]:
        raise MigrationRefused(
            "checkpoint.folder is the same for both jobs; give the new job a folder of its own."
        )
    if "key" in old.section("schema"):
        raise MigrationRefused(
            "schema.key asks for a model for every key; such jobs cannot be migrated. Let the old "
            "job go on, or start a new job without its models."
        )
    places = {name: (old.section(name), new.section(name)) for name in _SINKS}
    alerts = [job.section("alerts").get("sink") for job in (old, new)]
    for name, (place, other) in {**places, "alerts.sink": alerts}.items():
        if place and place == other and place.get("kind") != "stdout":
            raise MigrationRefused(
                f"{name} is the same for both jobs, and both would write to it; give the new job a "
                "file, stream or table of its own."
            )


def _differences(
    old: Job, new: Job, version: ModelVersion, columns: ColumnChange | None
) -> list[tuple[str, Any, Any]]:
    """Return names and values of the settings that differ."""
    seed = version.model.config.seed
    found = []
    for section in dict.fromkeys((*old.full, *new.full)):
        before, after = old.full.get(section, {}), new.full.get(section, {})
        if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
            before, after = {"": before}, {"": after}
        for name in dict.fromkeys((*before, *after)):
            setting = f"{section}.{name}" if name else section
            one, other = before.get(name), after.get(name)
            if setting == "model.random_state":  # the default depends on the name of the job
                one, other = seed, new.section("model").get(name, seed)
            if setting == "schema.features":
                one, other = (columns.old, columns.new) if columns else ((), ())
            if setting == "model.family" and columns is not None:
                both = [feature for feature in columns.old if feature in columns.new]
                one, other = family_over(one, both), family_over(other, both)
            if _plain(one) != _plain(other):
                found.append((setting, one, other))
    return found


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _place(source: Plain) -> Plain:
    """Return the options that say which source is meant, and not how it is read."""
    return {name: value for name, value in source.items() if name not in _CONSUMER}


def check_position(position: str) -> str:
    """Return the position; raises `InputError` if there is none of that name."""
    if position not in (SAME, START):
        raise InputError(f"--position must be {SAME} or {START}, got {position!r}.")
    return position
