"""The model that answers: a file, what this process learns, or the checkpoints of a pipeline."""

from __future__ import annotations

import time as clock
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Protocol, Self

from scstream.errors import CheckpointCorrupt, InputError, StreamError
from scstream.families.base import Labels, Rows
from scstream.io._packing import read_header
from scstream.io.disk import write_atomically
from scstream.io.model_file import DAMAGE
from scstream.model import Model, read_checkpoint
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.preprocess.text import TextStep
from scstream.stream.model_version import ModelVersion, frozen
from scstream.stream.processor import learn_block
from scstream.stream.runner import EventCallback, ignore_event


class ModelProvider(Protocol):
    """What the service asks; `scstream.stream.follower.Follower` is one."""

    def current(self) -> ModelVersion:
        """Return the state that answers now; raises `StreamError` while there is none."""
        ...

    def refresh(self) -> bool:
        """Take a newer state if there is one, and tell whether."""
        ...


@dataclass(frozen=True)
class Lesson:
    """What became of a batch that was learned.

    Parameters
    ----------
    reading : ModelVersion
        The model after it.
    labels : array of shape (N,)
        Ids of the clusters of the rows.
    X : array or CSR array of shape (N, D)
        The rows as they were learned, after the steps.

    Examples
    --------
    >>> from scstream.serve.model import Lesson
    >>> Lesson.__match_args__
    ('reading', 'labels', 'X')
    """

    reading: ModelVersion
    labels: Labels
    X: Rows


class Owned:
    """A model that lives in this process: it is read by anybody and learns on one thread at a time.

    Parameters
    ----------
    reading : ModelVersion or None
        The state to begin with; None until `publish` gives one.
    steps : Steps, optional
        What prepares rows that are learned, where it goes on learning itself; by default the
        steps of the reading, which learn no more.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.model import Owned
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> model = Owned(ModelVersion(0, 1, 0.0, None, model, Steps()))
    >>> lesson = model.learn(Block.of(np.arange(10.0)[:, None] % 7))
    >>> model.current().version, len(lesson.labels)
    (1, 10)
    """

    def __init__(self, reading: ModelVersion | None = None, *, steps: Steps | None = None) -> None:
        self._reading = reading
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
        reading = ModelVersion.of(content, name=name)
        if reading is None:
            raise InputError(
                f"{name} holds no model yet; take a checkpoint that was written after a batch."
            )
        _, pipeline = read_checkpoint(content, name=name)
        return cls(reading, steps=Steps.load(pipeline["steps"]) if pipeline else None)

    def current(self) -> ModelVersion:
        """Return the state that answers now."""
        reading = self._reading
        if reading is None:
            raise StreamError("no batch was learned yet, so there is no model; ask again later.")
        return reading

    def refresh(self) -> bool:
        """Return False: who learns publishes."""
        return False

    def publish(self, reading: ModelVersion) -> None:
        """Let another state answer from now on; questions under way end with the one before."""
        self._reading = reading

    def learn(self, rows: Block, *, time: float | None = None) -> Lesson:
        """Learn one batch, all of it or nothing; others wait until it is learned.

        Parameters
        ----------
        rows : Block
            The rows, before the steps.
        time : float, optional
            When they came; by default one later than the last.

        Returns
        -------
        Lesson
            The model after the batch, and the labels.
        """
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
            self._steps, self._reading = steps, after
            return Lesson(after, labels, block.X)

    def save(self, path: str | Path) -> None:
        """Write the model file; it appears whole or not at all."""
        with self._learning:
            reading, steps = self.current(), self._steps
        write_atomically(Path(path), content_of(reading, steps=steps))


def content_of(reading: ModelVersion, *, steps: Steps | None = None) -> bytes:
    """Return a state as the content of a model file.

    It holds the steps before the model, and no position of a source: it is a model to ask or to
    go on with, and no checkpoint that a pipeline could take up where it was.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.model import content_of
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> content = content_of(ModelVersion(0, 1, 0.0, None, model, Steps()))
    >>> ModelVersion.of(content, name="model").batch
    1
    """
    pipeline: dict[str, Any] = {}
    if reading.steps.steps or reading.pipeline:
        columns = None if reading.columns is None else list(reading.columns)
        schema = {"features": columns, "text": text_of(reading)}
        progress = {"batch": reading.batch, "at": reading.at, "schema": schema}
        pipeline = {"progress": progress, "steps": (steps or reading.steps).save()}
    return reading.model.to_bytes(pipeline)


def text_of(reading: ModelVersion) -> str | None:
    """Return the column of text that the steps of a model read; None where they read none.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.model import text_of
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> steps = Steps.build([{"step": "hash_text", "column": "title"}])
    >>> text_of(ModelVersion(0, 1, 0.0, None, model, steps))
    'title'
    """
    first = reading.steps.steps[:1]
    return first[0].column if first and isinstance(first[0], TextStep) else None


class Following:
    """A thread that looks for newer states every few seconds, for as long as it is entered.

    Parameters
    ----------
    model : Model
        What is refreshed.
    every : float
        Seconds between two looks; twice as long after every error in a row, up to a minute.
    changed : callable
        Is given every new state.
    emit : callable
        Is told "unreachable" with the reason where the store cannot be read. The state in use
        stays.

    Examples
    --------
    >>> from scstream.serve.model import Following, Owned
    >>> with Following(Owned(), every=60.0) as following:
    ...     following.look()
    False
    """

    def __init__(
        self,
        model: ModelProvider,
        *,
        every: float = 2.0,
        changed: Callable[[ModelVersion], None] = lambda reading: None,
        emit: EventCallback = ignore_event,
    ) -> None:
        self._model = model
        self._every = every
        self._changed = changed
        self._emit = emit
        self._failures = 0
        self._over = Event()
        self._thread = Thread(target=self._run, name="scstream-following", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join(timeout=5.0)  # it may wait for a store that is away

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        return min(self._every * 2.0**self._failures, max(_LONGEST_PAUSE, self._every))

    def look(self) -> bool:
        """Take a newer state if there is one, and tell whether; a store may be away for a while."""
        try:
            newer = self._model.refresh()
            self._failures = 0
        except Exception as error:  # whatever the client of a store raises; the next look may do
            self._failures = min(self._failures + 1, 30)
            self._emit("unreachable", reason=str(error), again=self.pause)
            return False
        if newer:
            try:
                self._changed(self._model.current())
            except Exception:  # who looks on must not stop who answers
                self._emit("defect", trace=traceback.format_exc())
        return newer

    def _run(self) -> None:
        while not self._over.wait(self.pause):
            self.look()


_LONGEST_PAUSE = 60.0  # seconds
