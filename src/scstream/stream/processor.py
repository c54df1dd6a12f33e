"""What learns the rows of a batch: one model, or one for every key (`scstream.stream.pool`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, nan
from typing import Any, Protocol

import numpy as np

from scstream import __version__
from scstream.core.state import Info
from scstream.errors import CheckpointCorrupt, InputError
from scstream.families.base import Labels, Rows
from scstream.io._packing import Tensors, pack, read_header, seal, unpack, unseal
from scstream.io.checkpoint import DAMAGE, SCHEMA, Snapshot, model_bytes, model_from
from scstream.learner import Learner, begin
from scstream.preprocess import Steps
from scstream.preprocess.block import Block, Reject
from scstream.stream.batcher import SourceBatch

_NONE: Labels = np.zeros(0, dtype=np.int64)
_FREE = ("n_threads", "executor", "max_events")  # may differ from what the checkpoint has


@dataclass(frozen=True)
class Learned:
    """What became of the rows of a batch.

    Parameters
    ----------
    block : Block
        The rows, those that no model could take among the rejects.
    labels : array of shape (G,)
        Ids of the clusters of the sound rows.
    n_clusters : int
        Number of clusters now, of all models.
    infos : sequence of (int, Info)
        Rows and what happened, for every model that learned.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.core.state import Info
    >>> from scstream.preprocess.block import Block
    >>> from scstream.stream.processor import Learned
    >>> infos = [(1, Info(mean_log_density=-4.0)), (3, Info(n_novel=2, mean_log_density=0.0))]
    >>> learned = Learned(Block.of(np.zeros((4, 1))), np.zeros(4, dtype=np.int64), 2, infos)
    >>> learned.info.n_novel, learned.info.mean_log_density
    (2, -1.0)
    """

    block: Block
    labels: Labels
    n_clusters: int
    infos: Sequence[tuple[int, Info]] = ()

    @cached_property
    def info(self) -> Info:
        """What happened to all models together, in whatever order they learned."""
        if len(self.infos) == 1:
            return self.infos[0][1]
        events = sorted(
            (event for _, info in self.infos for event in info.events),
            key=lambda event: (event.time, event.kind, event.id, event.weight),
        )
        n_rows = sum(n for n, _ in self.infos)
        total = fsum(n * info.mean_log_density for n, info in self.infos)
        return Info(
            events=tuple(events),
            n_novel=sum(info.n_novel for _, info in self.infos),
            mean_log_density=total / n_rows if n_rows else nan,
        )


class Processor(Protocol):
    """A pure function of the batches so far, with its state."""

    def set_columns(self, names: tuple[str, ...] | None) -> None:
        """Be told the names of the columns, before the first batch."""
        ...

    def learn(self, source_batch: SourceBatch) -> Learned:
        """Learn a batch."""
        ...

    def freeze(self) -> Callable[[Mapping[str, Any]], bytes]:
        """Fix the state as it is now; the result writes it out later, with the progress."""
        ...

    def restore(self, content: bytes, *, name: str) -> Mapping[str, Any]:
        """Go on from what was written; return the progress. Raises `CheckpointCorrupt`."""
        ...

    def close(self) -> None:
        """Let go of whatever runs elsewhere; what was learned goes on from a checkpoint."""
        ...


class OneModel:
    """One model for all rows, and the steps before it.

    Parameters
    ----------
    learner : Learner
        The model.
    steps : Steps
        Preprocessing.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.learner import Learner
    >>> from scstream.stream.batcher import SourceBatch
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.processor import OneModel
    >>> model = OneModel(Learner({"random_state": 0}), Steps())
    >>> rows = Block.of(np.array([[0.1], [0.2], [0.3], [0.4], [0.5]]))
    >>> model.learn(SourceBatch(0, {}, None, rows, ())).labels
    array([0, 0, 0, 0, 0])
    """

    def __init__(self, learner: Learner, steps: Steps) -> None:
        self.learner = learner
        self.steps = steps

    def set_columns(self, names: tuple[str, ...] | None) -> None:
        """Be told the names of the columns."""
        if names is not None:
            self.steps = self.steps.with_columns(names)
            self.learner = replace(self.learner, names=self.steps.feature_names(names))

    def learn(self, source_batch: SourceBatch) -> Learned:
        """Learn a batch."""
        self.learner, self.steps, block, labels = learn_block(
            self.learner, self.steps, source_batch.block, time=source_batch.time
        )
        snapshot = self.learner.snapshot
        n_clusters = snapshot.state.n_clusters if snapshot else 0
        infos = [(len(labels), snapshot.info)] if snapshot and len(labels) else []
        return Learned(block, labels, n_clusters, infos)

    def freeze(self) -> Callable[[Mapping[str, Any]], bytes]:
        """Fix the state; everything in it is immutable, so that this costs nothing."""
        snapshot, steps = self.learner.snapshot, self.steps

        def write(progress: Mapping[str, Any]) -> bytes:
            return checkpoint_bytes(snapshot, {"progress": progress, "steps": steps.save()})

        return write

    def restore(self, content: bytes, *, name: str) -> Mapping[str, Any]:
        """Go on from a model file, or from the beginning if it holds no model yet."""
        snapshot, pipeline = checkpoint_from(content, name=name)
        if snapshot is not None:
            free = {
                name: self.learner.params[name] for name in _FREE if name in self.learner.params
            }
            self.learner = Learner.of(replace(snapshot, params={**snapshot.params, **free}))
        try:
            self.steps = Steps.load(pipeline["steps"])
            progress: Mapping[str, Any] = pipeline["progress"]
        except DAMAGE as error:
            raise CheckpointCorrupt(f"{name} holds no sound pipeline: {error!r}.") from error
        return progress

    def close(self) -> None:
        """Do nothing: the model is in this process."""


def pipeline_bytes(pipeline: Mapping[str, Any]) -> bytes:
    """Return the content of a checkpoint that holds no model.

    Examples
    --------
    >>> from scstream.stream.processor import pipeline_bytes, pipeline_from
    >>> pipeline_from(pipeline_bytes({"progress": {"batch": 0}}), name="c")
    {'progress': {'batch': 0}}
    """
    tensors: Tensors = {}
    header = {"schema": SCHEMA, "writer": __version__, "model": False}
    return seal(header | {"pipeline": pack(pipeline, "pipeline", tensors)}, tensors)


def pipeline_from(content: bytes, *, name: str) -> dict[str, Any] | None:
    """Undo `pipeline_bytes`; None for the content of a model file, which is not looked into."""
    try:
        if read_header(content).get("model", True):
            return None
        header, tensors = unseal(content)
        pipeline: dict[str, Any] = unpack(header["pipeline"], tensors)
        return pipeline
    except DAMAGE as error:
        raise CheckpointCorrupt(
            f"{name} is not a sound checkpoint: {error}; an older one is used if there is one."
        ) from error


def checkpoint_bytes(snapshot: Snapshot | None, pipeline: Mapping[str, Any]) -> bytes:
    """Return the content of a checkpoint: a model file, or none yet, and what goes with it.

    Examples
    --------
    >>> from scstream.stream.processor import checkpoint_bytes, checkpoint_from
    >>> checkpoint_from(checkpoint_bytes(None, {"progress": {"batch": 0}}), name="c")
    (None, {'progress': {'batch': 0}})
    """
    if snapshot is None:
        return pipeline_bytes(pipeline)
    return model_bytes(replace(snapshot, pipeline=pipeline), writer=__version__)


def checkpoint_from(content: bytes, *, name: str) -> tuple[Snapshot | None, Mapping[str, Any]]:
    """Undo `checkpoint_bytes`; raises `CheckpointCorrupt`."""
    pipeline = pipeline_from(content, name=name)
    if pipeline is not None:
        return None, pipeline
    snapshot = model_from(content, name=name)
    return snapshot, snapshot.pipeline


def learn_block(
    learner: Learner, steps: Steps, block: Block, *, time: float | None
) -> tuple[Learner, Steps, Block, Labels]:
    """Prepare and learn rows; those outside the domain of the family are refused one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.learner import Learner
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.processor import learn_block
    >>> counts = Block.of(np.array([[1.0, 2.0], [3.0, -1.0], [2.0, 2.0]]))
    >>> learner = Learner({"family": "multinomial", "random_state": 0})
    >>> _, _, block, labels = learn_block(learner, Steps(), counts, time=None)
    >>> block.rejects[0].row, len(labels)
    (1, 2)
    """
    if len(block.row):
        steps, block = steps.apply(block, time=time)
        if learner.snapshot is None and learner.names is None:  # words are known only now
            learner = replace(learner, names=steps.feature_names(None))
    if not len(block.row):
        return _let_time_pass(learner, time), steps, block, _NONE
    try:
        learner, labels = learner.learn(block.X, time=time)
    except InputError:
        refused = unsuitable(_check_of(learner), block.X)
        if not refused:
            raise
        block = block.reject([Reject(int(block.row[i]), why) for i, why in refused])
        if not len(block.row):
            return _let_time_pass(learner, time), steps, block, _NONE
        learner, labels = learner.learn(block.X, time=time)
    return learner, steps, block, labels


def _let_time_pass(learner: Learner, time: float | None) -> Learner:
    if time is None or learner.snapshot is None:
        return learner
    return learner.learn(np.zeros((0, learner.snapshot.family.n_features)), time=time)[0]


def unsuitable(check: Callable[[Rows], None], X: Rows) -> list[tuple[int, str]]:
    """Return the rows that a check refuses, and its sentences, by halving.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Multinomial
    >>> from scstream.stream.processor import unsuitable
    >>> X = np.array([[1.0, 2.0], [3.0, -1.0], [-2.0, 2.0]])
    >>> [row for row, _ in unsuitable(Multinomial(np.ones(2)).check, X)]
    [1, 2]
    """
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


def _check_of(learner: Learner) -> Callable[[Rows], None]:
    if learner.snapshot is not None:
        return learner.snapshot.family.check
    vague = {**learner.params, "prior": "vague"}
    return lambda rows: begin(vague, rows, None, names=learner.names).family.check(rows)
