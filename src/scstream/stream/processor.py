"""Processors learn the rows of a batch: one model, or one for every key (`stream.pool`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, isnan, nan
from typing import Protocol

import numpy as np

from scstream.core.state import Info
from scstream.errors import CheckpointCorrupt, InputError
from scstream.families.base import Labels, Rows
from scstream.io.model_file import DAMAGE
from scstream.model import Model, Settings, checkpoint_bytes, read_checkpoint
from scstream.preprocess import Steps
from scstream.preprocess.block import Block, Reject
from scstream.stream.batcher import SourceBatch
from scstream.stream.progress import Progress

_NONE: Labels = np.zeros(0, dtype=np.int64)
_FREE = ("n_jobs", "executor", "max_events")  # may differ from what the checkpoint has


@dataclass(frozen=True)
class Learned:
    """The result of a batch.

    `block` holds the rows, with those that no model accepted among the rejects; `labels` the
    clusters of its valid rows; `n_clusters` the number of clusters of all models; `infos` the
    number of rows and the info of every model that learned.
    """

    block: Block
    labels: Labels
    n_clusters: int
    infos: Sequence[tuple[int, Info]] = ()

    @cached_property
    def info(self) -> Info:
        """Info of all models together, independent of their order."""
        if len(self.infos) == 1:
            return self.infos[0][1]
        events = sorted(
            (event for _, info in self.infos for event in info.events),
            key=lambda event: (event.time, event.kind, event.id, event.weight),
        )
        return Info(
            events=tuple(events),
            n_novel=sum(info.n_novel for _, info in self.infos),
            mean_log_density=self._mean("mean_log_density"),
            log_density_before=self._mean("log_density_before"),
            novel_before=self._mean("novel_before"),
            screening_error=self._mean("screening_error"),
        )

    def _mean(self, name: str) -> float:
        """Mean of a number over the rows of the models that have it."""
        values = [(n, getattr(info, name)) for n, info in self.infos]
        known = [(n, value) for n, value in values if not isnan(value)]
        n_rows = sum(n for n, _ in known)
        return fsum(n * value for n, value in known) / n_rows if n_rows else nan


class Processor(Protocol):
    """Learns batches; its state is a pure function of the batches so far."""

    def set_columns(self, names: tuple[str, ...] | None) -> None:
        """Set the names of the columns, before the first batch."""

    def learn(self, source_batch: SourceBatch) -> Learned:
        """Learn a batch."""

    def freeze(self) -> Callable[[Progress], bytes]:
        """Fix the state as it is now; the result writes it later, with the progress."""

    def restore(self, content: bytes, *, name: str) -> Progress:
        """Continue from a checkpoint; return its progress. Raises `CheckpointCorrupt`."""

    def close(self) -> None:
        """Release resources outside this process."""


class OneModel:
    """One model for all rows, or its settings before the first batch, and its preprocessing."""

    def __init__(self, model: Model | Settings, steps: Steps) -> None:
        self.model = model
        self.steps = steps

    @property
    def settings(self) -> Settings:
        """Parameters of the model."""
        return self.model.settings if isinstance(self.model, Model) else self.model

    def set_columns(self, names: tuple[str, ...] | None) -> None:
        """Set the names of the columns."""
        if names is not None:
            self.steps = self.steps.with_columns(names)
            self.model = self.model.named(self.steps.feature_names(names))

    def learn(self, source_batch: SourceBatch) -> Learned:
        """Learn a batch."""
        self.model, self.steps, block, labels = learn_block(
            self.model, self.steps, source_batch.block, time=source_batch.time
        )
        if not isinstance(self.model, Model):
            return Learned(block, labels, 0)
        infos = [(len(labels), self.model.info)] if len(labels) else []
        return Learned(block, labels, self.model.state.n_clusters, infos)

    def freeze(self) -> Callable[[Progress], bytes]:
        """Fix the state; everything in it is immutable, so this costs nothing."""
        model = self.model if isinstance(self.model, Model) else None
        steps = self.steps

        def write(progress: Progress) -> bytes:
            return checkpoint_bytes(model, {"progress": progress.to_dict(), "steps": steps.save()})

        return write

    def restore(self, content: bytes, *, name: str) -> Progress:
        """Continue from a checkpoint, or from the beginning if it holds no model yet."""
        model, pipeline = read_checkpoint(content, name=name)
        if model is not None:
            free = {name: getattr(self.settings, name) for name in _FREE}
            self.model = model.with_parameters(**free)
        try:
            self.steps = Steps.load(pipeline["steps"])
            return Progress.from_dict(pipeline["progress"])
        except DAMAGE as error:
            raise CheckpointCorrupt(f"{name} holds no valid pipeline: {error!r}.") from error

    def close(self) -> None:
        """Do nothing: the model is in this process."""


def learn_block(
    model: Model | Settings, steps: Steps, block: Block, *, time: float | None
) -> tuple[Model | Settings, Steps, Block, Labels]:
    """Preprocess and learn rows; rows outside the domain of the family are rejected one by one."""
    if len(block.row):
        steps, block = steps.apply(block, time=time)
        if isinstance(model, Settings) and model.feature_names is None:  # words are known only now
            model = model.named(steps.feature_names(None))
    if not len(block.row):
        return _pass_time(model, time), steps, block, _NONE
    try:
        learned = model.update(block.X, time=time)
    except InputError:
        refused = unsuitable(_check_of(model), block.X)
        if not refused:
            raise
        block = block.reject([Reject(int(block.row[i]), why) for i, why in refused])
        if not len(block.row):
            return _pass_time(model, time), steps, block, _NONE
        learned = model.update(block.X, time=time)
    return learned.model, steps, block, learned.labels


def _pass_time(model: Model | Settings, time: float | None) -> Model | Settings:
    """Learn a batch without rows: only time passes."""
    if time is None or isinstance(model, Settings):
        return model
    return model.update(np.zeros((0, model.family.n_features)), time=time).model


def unsuitable(check: Callable[[Rows], None], X: Rows) -> list[tuple[int, str]]:
    """Return the rows that a check rejects, and its messages, by bisection."""
    found: list[tuple[int, str]] = []
    open_ranges = [(0, X.shape[0])]
    while open_ranges:
        start, stop = open_ranges.pop()
        if start == stop:
            continue
        try:
            check(X[start:stop])
        except InputError as error:
            if stop - start == 1:
                found.append((start, str(error)))
            else:
                middle = (start + stop) // 2
                open_ranges += [(middle, stop), (start, middle)]
    return found


def _check_of(model: Model | Settings) -> Callable[[Rows], None]:
    if isinstance(model, Model):
        return model.family.check
    weak = replace(model, prior="weak")
    return lambda rows: weak.start(rows).family.check(rows)
