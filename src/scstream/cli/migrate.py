"""`scstream migrate`: start a new job from the newest checkpoint of an old one."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scstream.cli.defaults import with_defaults
from scstream.cli.render import print_table
from scstream.cli.rows import explain_os_errors, input_name, read_chunks
from scstream.cli.secrets import SecretRedactor
from scstream.cli.settings import Layer, Tables, to_tables
from scstream.cli.store import is_local, open_store
from scstream.errors import InputError, MigrationRefused
from scstream.families.base import Array
from scstream.io.header import Json
from scstream.preprocess.block import join
from scstream.stream import connectors
from scstream.stream.config import FOLDER, build
from scstream.stream.follower import NONE, Follower
from scstream.stream.migration import (
    SAME,
    Change,
    Job,
    check_position,
    column_change,
    default_position,
    find_changes,
    migrate_checkpoint,
    publish_first,
    refuse_impossible,
    refuse_used,
)
from scstream.stream.model_version import ModelVersion
from scstream.stream.progress import Progress
from scstream.stream.schema import Schema
from scstream.stream.store import MemoryStore


@dataclass(frozen=True)
class MigrationResult:
    """What a migration did, or would do."""

    batch: int  # the next one
    clusters: int
    position: str
    changes: Sequence[Change]

    def __str__(self) -> str:
        where = "where the old job's checkpoint ends"
        if self.position != SAME:
            where = "at the start of its source"
        return (
            f"the new job has {self.clusters} clusters, learns batch {self.batch} next and begins "
            f"{where}; start it with scstream run --resume"
        )

    def to_dict(self, redactor: SecretRedactor) -> Json:
        """Return it for JSON, secrets redacted."""
        changes = [
            {**vars(change), "old": _redacted(change, "old", redactor)}
            | {"new": _redacted(change, "new", redactor)}
            for change in self.changes
        ]
        return {**vars(self), "changes": changes}


def migrate_job(
    old: Layer,
    new: Layer,
    *,
    position: str | None = None,
    sample: Path | None = None,
    dry_run: bool = False,
) -> MigrationResult:
    """Write the first checkpoint of the new job, or with `dry_run` only find out what changes."""
    before, after = _job(old), _job(new)
    where = default_position(before, after) if position is None else check_position(position)
    refuse_impossible(before, after)
    if _exists(after.given):
        refuse_used(open_store(after.given))
    version = _newest(before)
    columns = column_change(after, version, None if sample is None else partial(_values, sample))
    changes = find_changes(before, after, version, columns=columns, position=where)
    content = migrate_checkpoint(
        version, before, after, columns=columns, position=where, time=time.time()
    )
    _check_content(after, content)
    if not dry_run:
        publish_first(open_store(after.given, must_exist=False), content)
    return MigrationResult(version.batch, version.model.state.n_clusters, where, changes)


def _newest(job: Job) -> ModelVersion:
    """Return the newest valid checkpoint of the old job."""
    follower = Follower(open_store(job.given))
    if follower.version == NONE:
        raise MigrationRefused(
            "the old job has not learned any rows yet, so there is nothing to keep; start the new "
            "job with scstream run."
        )
    version = follower.current()
    progress = Progress.from_dict(version.pipeline["progress"])
    progress.check(job.pipeline.job, job.pipeline.settings)
    return version


def print_changes(result: MigrationResult, redactor: SecretRedactor) -> None:
    """Print a table of the changes, secrets redacted."""
    sides = ("old", "new")
    rows = [
        [change.setting, *(_shown(change, side, redactor) for side in sides), change.effect]
        for change in result.changes
    ]
    print_table(["setting", "old", "new", "effect"], rows)


def _shown(change: Change, side: str, redactor: SecretRedactor) -> str:
    value = _redacted(change, side, redactor)
    return "" if value is None else json.dumps(value, default=str)


def _redacted(change: Change, side: str, redactor: SecretRedactor) -> Any:
    return redactor.redact_value(change.setting.rpartition(".")[2], getattr(change, side))


def _job(layer: Layer) -> Job:
    given, full = to_tables(layer), to_tables(with_defaults(layer))
    for name, section in given.items():
        if isinstance(section, Mapping):  # a default may stand in the place of a table
            full[name] = {**full.get(name, {}), **section}
    return Job(given, full, build(given, store=MemoryStore()))


def _values(path: Path, columns: list[str]) -> Array:
    """Return the values of some columns in a file of rows."""
    settings = {"source": {"kind": "file", "path": str(path)}}
    source = connectors.source(**settings["source"])
    with explain_os_errors(input_name(settings)):
        reader = source.reader(Schema(features=tuple(columns)))  # type: ignore[attr-defined]
        blocks = [block for block, _ in read_chunks(source, reader)]
    found = join(blocks).X if blocks else np.zeros((0, len(columns)))
    if not len(found):
        raise InputError(
            f"--sample: no row of {path} has numbers in {', '.join(columns)}; give rows that have."
        )
    return np.asarray(found)


def _check_content(job: Job, content: bytes) -> None:
    """Raise if the new job could not continue from its first checkpoint."""
    progress = job.pipeline.processor.restore(content, name="the first checkpoint")
    progress.check(job.pipeline.job, job.pipeline.settings)


def _exists(settings: Tables) -> bool:
    place = str(settings.get("checkpoint", {}).get("folder", FOLDER))
    return not is_local(place) or Path(place).is_dir()
