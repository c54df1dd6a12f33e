"""A model as it was after some batch, ready to be asked about rows; nothing here learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from scstream.compute.rows import canonical
from scstream.compute.threads import one_blas_thread
from scstream.core.query import Mixture
from scstream.errors import CheckpointCorrupt, InputError
from scstream.families.base import Rows
from scstream.io.checkpoint import DAMAGE, Snapshot
from scstream.io.schema import check_entries, read_time
from scstream.learner import Learner, executor_for
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.preprocess.scale import Standardise
from scstream.stream.processor import checkpoint_from

QUESTIONS: dict[str, Callable[[Mixture, Rows], Any]] = {
    "predict": Mixture.labels,
    "score": Mixture.log_density,
    "probabilities": Mixture.probabilities,
    "verdict": Mixture.verdict,
}


@dataclass(frozen=True)
class Answer:
    """What a model says about rows, and which one it was.

    Parameters
    ----------
    values : array of shape (N,) or (N, K + 1), or Verdict
        What was asked for every row: ids of clusters, log densities, probabilities.
    version : int
        Version of the checkpoint that answered.
    batch : int
        The batch that comes after it.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.stream.reading import Answer
    >>> Answer(np.array([0, 2]), version=7, batch=300).version
    7
    """

    values: Any
    version: int
    batch: int


@dataclass(frozen=True)
class Reading:
    """A model as it was after some batch, ready to be asked.

    Parameters
    ----------
    version : int
        Number of the checkpoint, or of what was learned in this process.
    batch : int
        The batch that comes after it.
    at : float
        When it was learned, in seconds since 1970, by the clock of the writer.
    columns : tuple of str or None
        Names of the columns that rows must have, in order; None if they have none.
    learner : Learner
        The model.
    steps : Steps
        What is done to rows before; they learn no more.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.learner import Learner
    >>> from scstream.stream.reading import Reading
    >>> from scstream.preprocess import Steps
    >>> learner, _ = Learner({"random_state": 0}).learn(np.arange(20.0)[:, None] % 7)
    >>> reading = Reading(0, 1, 0.0, None, learner, Steps())
    >>> reading.ask("predict", [[900.0]]).values
    array([-1])
    """

    version: int
    batch: int
    at: float
    columns: tuple[str, ...] | None
    learner: Learner
    steps: Steps

    @cached_property
    def mixture(self) -> Mixture:
        """The mixture as it will be when the next batch is due."""
        return _mixture(self.learner, None)

    @cached_property
    def snapshot(self) -> Snapshot:
        """Everything that the model holds."""
        snapshot = self.learner.snapshot
        assert snapshot is not None
        return snapshot

    @classmethod
    def of(cls, content: bytes, *, name: str, version: int = 0) -> Self | None:
        """Read a checkpoint or a model file; None for a checkpoint that holds no model yet.

        Raises `CheckpointCorrupt`.
        """
        snapshot, pipeline = checkpoint_from(content, name=name)
        if "pool" in pipeline:
            raise InputError(
                f"{name} holds a model for every key, and here one model answers; give the "
                "checkpoints of a pipeline without schema.key."
            )
        if snapshot is None:
            return None
        reading = cls.after(snapshot, pipeline, name=name, version=version)
        _ = reading.mixture  # now, and not while somebody waits for an answer
        return reading

    @classmethod
    def after(
        cls, snapshot: Snapshot, pipeline: Mapping[str, Any], *, name: str, version: int
    ) -> Self:
        """Take what a model file holds, written by a pipeline or by `ScStream.save`."""
        steps, progress = Steps(), {}
        columns: Sequence[str] | None = snapshot.feature_names
        try:
            if pipeline:
                steps, progress = frozen(Steps.load(pipeline["steps"])), pipeline["progress"]
                columns = progress["schema"]["features"]
            return cls(
                version=version,
                batch=int(progress.get("batch", snapshot.state.n_batches)),
                at=float(progress.get("at", 0.0)),
                columns=None if columns is None else tuple(columns),
                learner=Learner.of(snapshot),
                steps=steps,
            )
        except DAMAGE as error:
            raise CheckpointCorrupt(f"{name} holds no sound pipeline: {error!r}.") from error

    def ask(self, question: str, rows: Any, *, time: Any = None, n_threads: int = 1) -> Answer:
        """Prepare rows as the pipeline would, without learning, and put a question about them."""
        values = self.answer(question, self.prepared(rows), time=time, n_threads=n_threads)
        return Answer(values, self.version, self.batch)

    def answer(self, question: str, X: Rows, *, time: Any = None, n_threads: int = 1) -> Any:
        """Put a question about rows that are prepared."""
        mixture = self.mixture if time is None else _mixture(self.learner, read_time(time))
        return mixture.ask(QUESTIONS[question], X, run=executor_for(n_threads).map)

    def prepared(self, rows: Any) -> Rows:
        """Prepare rows as the pipeline would, without learning; raises `InputError`."""
        if self._is_harmless(rows):
            return rows
        X = self._taken(_block_of(rows))
        check_entries(X, self.mixture.family)
        self.mixture.family.check(X)
        return X

    def _is_harmless(self, rows: Any) -> bool:
        """Whether nothing is to be done with rows, nor to be said against them: the usual case.

        Small questions come many at a time, and a closer look at them takes longer than this one.
        """
        if type(rows) is not np.ndarray or rows.dtype != np.float64 or rows.ndim != 2:
            return False
        if self.steps.steps or not len(rows) or rows.shape[1] != self.mixture.family.n_features:
            return False
        return bool(rows.max() <= self._reach and rows.min() >= -self._reach)  # no NaN is

    @cached_property
    def _reach(self) -> float:
        """Size up to which the family takes every entry; -1 where that is not all there is to it.

        What can be moved may be any real number, near enough to what was learned first.
        """
        family = self.mixture.family
        least, max_n = -300, 300  # powers of two, of which one is taken and the other is not
        while family.supports_translation and max_n - least > 1:
            middle = (least + max_n) // 2
            row = np.full((1, family.n_features), 2.0**middle)
            try:
                family.check(row)
                family.check(-row)
                least = middle
            except InputError:
                max_n = middle
        return 2.0**least if least > -300 else -1.0

    def _taken(self, block: Block) -> Rows:
        if not len(block.row):
            return np.zeros((0, self.mixture.family.n_features))
        _, block = self.steps.apply(block)
        if block.rejects:
            first = block.rejects[0]
            raise InputError(
                f"{len(block.rejects)} of {block.n_rows} rows cannot be asked about; the first is "
                f"row {first.row}: {first.reason.rstrip('.')}. Leave them out."
            )
        return block.X


def _mixture(learner: Learner, time: float | None) -> Mixture:
    snapshot = learner.snapshot
    assert snapshot is not None
    with one_blas_thread:
        return Mixture.expected(snapshot.family, snapshot.config, snapshot.state, time)


def frozen(steps: Steps) -> Steps:
    """Steps that learn no more, so that the answer for a row does not depend on its neighbours.

    The others have learned from the first batch what they need, or never learn.
    """
    stilled = (
        replace(step, mode="frozen", half_life=None) if isinstance(step, Standardise) else step
        for step in steps.steps
    )
    return Steps(tuple(stilled))


def _block_of(rows: Any) -> Block:
    if isinstance(rows, Block):
        return rows
    if sparse.issparse(rows):
        return Block.of(canonical(rows))
    try:
        X = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"rows must hold numbers: {error}.") from error
    if X.ndim != 2:
        raise InputError(f"rows must be a table of shape (N, D), got the shape {X.shape}.")
    return Block.of(X)
