"""The model of the service: from a file, updated in this process, or from checkpoints."""

from __future__ import annotations

import time as clock
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Protocol, Self

from scstream.core.state import Event as ClusterEvent
from scstream.errors import CheckpointCorrupt, InputError, StreamError
from scstream.families.base import Labels, Rows
from scstream.io._packing import read_header
from scstream.io.disk import write_atomically
from scstream.io.header import PipelineState
from scstream.io.model_file import DAMAGE
from scstream.model import Model, read_checkpoint
from scstream.observe.events import Defect, EventCallback, StoreUnreachable, ignore_event
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.preprocess.text import TextStep
from scstream.stream.edit_queue import EditRequest
from scstream.stream.follower import of_one_model
from scstream.stream.keyed_version import Version
from scstream.stream.model_version import ModelVersion, frozen
from scstream.stream.processor import edit_prepared, learn_block
from scstream.stream.progress import Progress
from scstream.stream.schema import Schema

_LONGEST_PAUSE = 60.0  # seconds


class ModelProvider(Protocol):
    """Gives the service its current model; `scstream.stream.follower.Follower` is one, too."""

    def current(self, key: str | None = None) -> ModelVersion:
        """Return the current version of the model, of a key if there is one for every key.

        Raises `StreamError` while there is none, `WrongKey` and `UnknownKey`.
        """

    def latest(self) -> Version:
        """Return the current version of the model, or of the models of all keys."""

    def refresh(self) -> bool:
        """Load a newer version if there is one; return whether there was."""


@dataclass(frozen=True)
class UpdateResult:
    """The model after a batch, and the labels of its preprocessed rows."""

    version: ModelVersion
    labels: Labels
    X: Rows


class LocalModel:
    """A model in this process: any thread may read it, one thread at a time may update it.

    Parameters
    ----------
    version : ModelVersion or None
        The first version; None until `publish` gives one.
    steps : Steps, optional
        Preprocessing steps that continue to learn; by default the fixed ones of the version.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.model import LocalModel
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> model = LocalModel(ModelVersion(0, 1, 0.0, None, model, Steps()))
    >>> update = model.learn(Block.of(np.arange(10.0)[:, None] % 7))
    >>> model.current().version, len(update.labels)
    (1, 10)
    """

    def __init__(self, version: ModelVersion | None = None, *, steps: Steps | None = None) -> None:
        self._current = version
        self._steps = steps
        self._learning = Lock()

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Read a model file: of `ScStream.save`, of `scstream fit`, or a checkpoint."""
        name = str(path)
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise InputError(
                f"the model {name!r} cannot be read: {error.strerror}; name a model file, or a "
                "folder of checkpoints."
            ) from error
        try:
            read_header(content)
        except DAMAGE as error:
            raise CheckpointCorrupt(
                f"{name} is no model file, or a damaged one; restore an older copy, or make one "
                "with scstream fit."
            ) from error
        version = ModelVersion.of(content, name=name)
        if version is None:
            raise InputError(
                f"{name} holds no model yet; take a checkpoint that was written after a batch."
            )
        _, pipeline = read_checkpoint(content, name=name)
        return cls(version, steps=Steps.load(pipeline["steps"]) if pipeline else None)

    def current(self, key: str | None = None) -> ModelVersion:
        """Return the current version."""
        version = self._current
        if version is None:
            raise StreamError("there is no model before the first batch; try again later.")
        return of_one_model(version, key)

    def latest(self) -> ModelVersion:
        """Return the current version."""
        return self.current()

    def refresh(self) -> bool:
        """Return False: `learn` and `publish` set the current version."""
        return False

    def publish(self, version: ModelVersion) -> None:
        """Replace the current version; requests under way finish with the old one."""
        self._current = version

    def learn(self, rows: Block, *, time: float | None = None) -> UpdateResult:
        """Learn one batch, all of it or nothing; other calls wait until it is done."""
        with self._learning:
            before = self.current()
            steps = before.steps if self._steps is None else self._steps
            model, steps, block, labels = learn_block(before.model, steps, rows, time=time)
            assert isinstance(model, Model)
            if block.rejects:
                first = block.rejects[0]
                raise InputError(
                    f"{len(block.rejects)} of {block.n_rows} rows cannot be learned; the first is "
                    f"row {first.row}: {first.reason.rstrip('.')}. Leave them out; nothing was "
                    "learned."
                )
            after = replace(
                before,
                version=before.version + 1,
                batch=before.batch + 1,
                at=clock.time(),
                model=model,
                steps=frozen(steps),
            )
            after.model.at()  # compute the predictor now, not during the first request
            self._steps, self._current = steps, after
            return UpdateResult(after, labels, block.X)

    def edit(self, request: EditRequest) -> tuple[ModelVersion, tuple[ClusterEvent, ...]]:
        """Change clusters as a person decided; return the new version and the events."""
        with self._learning:
            before = self.current()
            model, events = edit_prepared(before.model, before.steps, request)
            after = replace(before, version=before.version + 1, at=clock.time(), model=model)
            after.model.at()  # compute the predictor now, not during the first request
            self._current = after
            return after, events

    def save(self, path: str | Path) -> None:
        """Write the model file; it appears whole or not at all."""
        with self._learning:
            version, steps = self.current(), self._steps
        write_atomically(Path(path), content_of(version, steps=steps))


def content_of(version: ModelVersion, *, steps: Steps | None = None) -> bytes:
    """Return a version as the content of a model file.

    It holds the preprocessing steps, but no offsets of a source: a pipeline cannot resume from it.
    """
    pipeline: PipelineState = {}
    if version.steps.steps or version.pipeline:
        schema = Schema(version.columns, text=text_of(version))
        progress = Progress(version.batch, version.at, schema=schema)
        pipeline = {"progress": progress.to_dict(), "steps": (steps or version.steps).save()}
    return version.model.to_bytes(pipeline)


def text_of(version: ModelVersion) -> str | None:
    """Return the text column that the preprocessing steps read; None if there is none."""
    first = version.steps.steps[:1]
    return first[0].column if first and isinstance(first[0], TextStep) else None


class Poller:
    """A thread that polls for newer versions while its ``with`` block runs.

    It calls `changed` with every new version, and emits "unreachable" if the store cannot be
    read; it then doubles the pause, up to a minute, and the current version stays.
    """

    def __init__(
        self,
        model: ModelProvider,
        *,
        every: float = 2.0,
        changed: Callable[[Version], None] = lambda version: None,
        emit: EventCallback = ignore_event,
    ) -> None:
        self._model = model
        self._every = every
        self._changed = changed
        self._emit = emit
        self._failures = 0
        self._stop = Event()
        self._thread = Thread(target=self._run, name="scstream-poller", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5.0)  # it may be waiting for an unreachable store

    @property
    def pause(self) -> float:
        """Seconds until the next poll."""
        return min(self._every * 2.0**self._failures, max(_LONGEST_PAUSE, self._every))

    def poll(self) -> bool:
        """Load a newer version if there is one; return whether there was."""
        try:
            newer = self._model.refresh()
            self._failures = 0
        except Exception as error:  # stores raise many kinds; the next poll may succeed
            self._failures = min(self._failures + 1, 30)
            self._emit(StoreUnreachable(str(error), self.pause))
            return False
        if newer:
            try:
                self._changed(self._model.latest())
            except Exception:  # a broken listener must not stop the service
                self._emit(Defect(traceback.format_exc()))
        return newer

    def _run(self) -> None:
        while not self._stop.wait(self.pause):
            self.poll()
