"""Load a model from a model file, or from the newest valid checkpoint of a pipeline."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scstream.cli.secrets import SecretRedactor
from scstream.cli.settings import Tables
from scstream.cli.store import is_local
from scstream.errors import CheckpointCorrupt, InputError
from scstream.io._packing import read_header
from scstream.io.model_file import DAMAGE
from scstream.model import Model
from scstream.observe.events import CheckpointSkipped, EventCallback, RunEvent, ignore_event
from scstream.stream.checkpoint_log import VERSION
from scstream.stream.follower import Follower
from scstream.stream.model_version import ModelVersion
from scstream.stream.progress import Progress
from scstream.stream.schema import Schema
from scstream.stream.store import numbered_name

_ATTEMPTS = 10


@dataclass(frozen=True)
class LoadedModel:
    """A model and where it was found."""

    place: str  # the file, folder or address
    version: ModelVersion
    n_bytes: int  # size of the file
    writer: str  # version of scstream that wrote it
    is_checkpoint: bool  # of a pipeline, and not a model file

    @property
    def model(self) -> Model:
        """The model."""
        return self.version.model

    @property
    def progress(self) -> Progress | None:
        """Progress of the pipeline that wrote it; None if none did."""
        return self.version.progress

    @property
    def schema(self) -> Schema:
        """Columns that rows need for a prediction; event times and keys are not needed."""
        family = self.model.family
        if self.progress is None:
            return Schema(features=self.version.columns, missing=family.handles_missing)
        known = self.progress.schema
        return Schema(features=known.features, text=known.text, missing=family.handles_missing)


def load_model(
    place: str, *, options: Tables | None = None, emit: EventCallback = ignore_event
) -> LoadedModel:
    """Load a model file, or the newest valid checkpoint in a folder or at an s3:// address.

    `options` are the `checkpoint.options` of a pipeline; `emit` receives an event for every damaged
    checkpoint that was skipped.
    """
    if is_local(place) and not Path(place).is_dir():
        return _load_file(Path(place))
    try:
        return _load_newest(place, Follower.open(place, options=options, emit=emit))
    except OSError as error:
        raise InputError(f"{place} cannot be read: {error.strerror or error}.") from error


def _load_newest(place: str, follower: Follower) -> LoadedModel:
    for _ in range(_ATTEMPTS):
        version = follower.current()
        with suppress(KeyError):  # the running pipeline removed it; there is a newer one
            content = follower.store.get(numbered_name(VERSION, version.version))
            writer = str(read_header(content)["writer"])
            return LoadedModel(place, version, len(content), writer, is_checkpoint=True)
        follower.refresh()
    raise InputError(f"the checkpoints in {place} change faster than they can be read; try again.")


def _load_file(path: Path) -> LoadedModel:
    content = _read_file(path)
    try:
        writer = str(read_header(content)["writer"])
    except DAMAGE as error:
        raise CheckpointCorrupt(
            f"{path} is not a model file, or is damaged ({error}); restore an older copy, or make "
            "one with scstream fit."
        ) from error
    version = ModelVersion.of(content, name=str(path))
    if version is None:
        raise InputError(f"{path} holds a pipeline that has not learned any rows yet.")
    return LoadedModel(str(path), version, len(content), writer, is_checkpoint=False)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"there is no file or folder {path}; give a model file, or the folder or s3:// address "
            "of a pipeline's checkpoints."
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def skip_reporter(redactor: SecretRedactor, *, as_json: bool) -> EventCallback:
    """Return a callback that reports skipped checkpoints on standard error."""

    def emit(event: RunEvent) -> None:
        if not isinstance(event, CheckpointSkipped):
            return
        if as_json:
            from scstream.cli.logs import JsonLog

            JsonLog(redactor).emit(event)
        else:
            sys.stderr.write(f"scstream: skipped {event.name}: {event.reason}\n")

    return emit
