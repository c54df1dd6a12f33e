"""Processors learn the rows of a batch: one model, or one for every key (`stream.pool`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum, isnan, nan
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scstream.core.exemplars import read_keep
from scstream.core.state import NOVEL, Event, Info
from scstream.errors import CheckpointCorrupt, InputError
from scstream.families.base import Labels, Rows
from scstream.io.model_file import DAMAGE
from scstream.model import Model, Settings, checkpoint_bytes, read_checkpoint
from scstream.observe.events import EditApplied, EditRefused
from scstream.preprocess import Steps
from scstream.preprocess.block import Block, Columns, Reject
from scstream.stream.batcher import SourceBatch
from scstream.stream.changeable import FREE_PARAMETERS
from scstream.stream.edit_queue import EditRequest
from scstream.stream.model_version import ModelVersion, frozen
from scstream.stream.progress import Progress

_NONE: Labels = np.zeros(0, dtype=np.int64)
LABEL_COLUMNS = ("cluster_name", "cluster_group", "group_name")  # that labels can carry


@dataclass(frozen=True)
class Learned:
    """The result of a batch.

    `block` holds the rows, with those that no model accepted among the rejects; `labels` the
    clusters of its valid rows; `n_clusters` the number of clusters of all models; `infos` the
    number of rows and the info of every model that learned; `label_columns` what else is delivered
    with the labels; `n_keys` the number of keys that have a model, and `over_quota` the number of
    rows that a limit on keys refused, by option.
    """

    block: Block
    labels: Labels
    n_clusters: int
    infos: Sequence[tuple[int, Info]] = ()
    label_columns: Columns = field(default_factory=dict)
    n_keys: int | None = None
    over_quota: Mapping[str, int] = field(default_factory=dict)

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

    @property
    def has_model(self) -> bool:
        """Whether there are clusters that can be edited."""

    def learn(self, source_batch: SourceBatch) -> Learned:
        """Learn a batch."""

    def edit(self, request: EditRequest) -> tuple[Event, ...]:
        """Change clusters as a person decided; return the events. Raises `InputError`."""

    def freeze(self) -> Callable[[Progress], bytes]:
        """Fix the state as it is now; the result writes it later, with the progress."""

    def restore(self, content: bytes, *, name: str) -> Progress:
        """Continue from a checkpoint; return its progress. Raises `CheckpointCorrupt`."""

    def close(self) -> None:
        """Release resources outside this process."""


class OneModel:
    """One model for all rows, or its settings before the first batch, and its preprocessing."""

    def __init__(
        self, model: Model | Settings, steps: Steps, *, label_columns: Sequence[str] = ()
    ) -> None:
        self.model = model
        self.steps = steps
        self._label_columns = label_columns

    @property
    def has_model(self) -> bool:
        """Whether a batch was learned."""
        return isinstance(self.model, Model)

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
        columns = label_columns(self.model, labels, self._label_columns)
        return Learned(block, labels, self.model.state.n_clusters, infos, columns)

    def edit(self, request: EditRequest) -> tuple[Event, ...]:
        """Edit the model."""
        if request.key is not None:
            raise InputError("this pipeline has one model; send the edit without a key.")
        assert isinstance(self.model, Model)
        self.model, events = edit_prepared(self.model, self.steps, request)
        return events

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
            free = {name: getattr(self.settings, name) for name in FREE_PARAMETERS}
            self.model = model.with_parameters(**free)
        try:
            self.steps = Steps.load(pipeline["steps"])
            return Progress.from_dict(pipeline["progress"])
        except DAMAGE as error:
            raise CheckpointCorrupt(f"{name} holds no valid pipeline: {error!r}.") from error

    def close(self) -> None:
        """Do nothing: the model is in this process."""


def edit_prepared(
    model: Model, steps: Steps, request: EditRequest
) -> tuple[Model, tuple[Event, ...]]:
    """Edit a model; rows of the edit pass through the preprocessing, which learns nothing."""
    rows = None
    if request.rows is not None:
        rows = ModelVersion(0, 0, 0.0, None, model, frozen(steps)).prepared(request.matrix)
    return model.edit(request.to_edit(rows))


def apply_request(
    processor: Processor, number: int, request: EditRequest | str, *, batch: int
) -> EditApplied | EditRefused:
    """Apply an edit before a batch; one that cannot be applied is refused with a reason."""
    if isinstance(request, str):
        return EditRefused(number, batch, reason=request)
    action, author = request.action, request.author
    try:
        events = processor.edit(request)
    except InputError as error:
        return EditRefused(number, batch, action, author, reason=str(error))
    return EditApplied(number, batch, action, author, request.time, events)


def label_columns(model: Model, labels: Labels, names: Sequence[str]) -> Columns:
    """Return names and groups of the clusters of rows."""
    if not names:
        return {}
    ids, place = np.unique(labels, return_inverse=True)
    known = model.names
    groups = model.groups() if set(names) - {"cluster_name"} else None
    found: dict[str, NDArray[Any]] = {}
    group = dict(zip(groups.cluster.tolist(), groups.group.tolist(), strict=True)) if groups else {}
    named = model.state.steering.group_names
    of_id: dict[str, Callable[[int], Any]] = {
        "cluster_name": lambda id_: known.get(id_, ""),
        "cluster_group": lambda id_: group.get(id_, NOVEL),
        "group_name": lambda id_: named.get(group.get(id_, NOVEL), ""),
    }
    for name in names:
        kind = np.int64 if name == "cluster_group" else object
        found[name] = np.array([of_id[name](id_) for id_ in ids.tolist()], dtype=kind)[place]
    return found


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
        learned = model.update(block.X, time=time, **_marks(model, block))
    except InputError:
        refused = unsuitable(_check_of(model), block.X)
        if not refused:
            raise
        block = block.reject([Reject(int(block.row[i]), why) for i, why in refused])
        if not len(block.row):
            return _pass_time(model, time), steps, block, _NONE
        learned = model.update(block.X, time=time, **_marks(model, block))
    return learned.model, steps, block, learned.labels


def _marks(model: Model | Settings, block: Block) -> dict[str, Any]:
    """Return ids and texts of rows, from the columns that the setting `exemplars` names."""
    settings = model.settings if isinstance(model, Model) else model
    if not settings.exemplars:
        return {}
    keep = read_keep(settings.exemplars)
    columns = {"ids": keep.id, "texts": keep.text}
    missing = [column for column in columns.values() if column and column not in block.extra]
    if missing:
        raise InputError(
            f"model.exemplars names the column {missing[0]!r}, which is not passed on; add it to "
            "schema.keep."
        )
    return {name: block.extra[column] for name, column in columns.items() if column}


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
