"""A model as it was after some batch, ready to predict; nothing here learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from scipy import sparse

from scstream.compute.choose import thread_executor
from scstream.compute.rows import canonical
from scstream.errors import CheckpointCorrupt, InputError
from scstream.families.base import Rows
from scstream.io.header import PipelineState
from scstream.io.model_file import DAMAGE
from scstream.io.schema import check_entries
from scstream.model import Model, read_checkpoint
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.preprocess.scale import Standardise
from scstream.stream.progress import Progress

Request: TypeAlias = Literal["labels", "log_density", "probabilities", "predict"]


@dataclass(frozen=True)
class Answer:
    """A prediction about rows, and the version of the model that made it.

    Parameters
    ----------
    values : array of shape (N,) or (N, K + 1), or Prediction
        The result for every row: ids of clusters, log densities, probabilities, or all of them.
    version : int
        Version of the checkpoint.
    batch : int
        The batch that comes after it.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.stream.model_version import Answer
    >>> Answer(np.array([0, 2]), version=7, batch=300).version
    7
    """

    values: Any
    version: int
    batch: int


@dataclass(frozen=True)
class ModelVersion:
    """A model as it was after some batch, with the preprocessing of its rows.

    Parameters
    ----------
    version : int
        Number of the checkpoint, or of the update in this process.
    batch : int
        The batch that comes after it.
    at : float
        When it was learned, in seconds since 1970, by the clock of the writer.
    columns : tuple of str or None
        Names of the columns that rows must have, in order; None if they have none.
    model : Model
        The model.
    steps : Steps
        Preprocessing, which learns no more.
    pipeline : PipelineState
        What else the checkpoint stores; empty if no pipeline wrote it.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> ModelVersion(0, 1, 0.0, None, model, Steps()).compute("labels", [[900.0]]).values
    array([-1])
    """

    version: int
    batch: int
    at: float
    columns: tuple[str, ...] | None
    model: Model
    steps: Steps
    pipeline: PipelineState = field(default_factory=PipelineState)

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.model.state.n_clusters

    @property
    def progress(self) -> Progress | None:
        """Progress of the pipeline that wrote the checkpoint; None if none did."""
        return Progress.from_dict(self.pipeline["progress"]) if self.pipeline else None

    @classmethod
    def of(cls, content: bytes, *, name: str, version: int = 0) -> Self | None:
        """Read a checkpoint or a model file; None for a checkpoint that holds no model yet.

        Raises `CheckpointCorrupt`.
        """
        model, pipeline = read_checkpoint(content, name=name)
        if "pool" in pipeline:
            raise InputError(
                f"{name} holds a model for every key, but one model is needed here; give the "
                "checkpoints of a pipeline without schema.key."
            )
        if model is None:
            return None
        found = cls.after(model, pipeline, name=name, version=version)
        found.model.at()  # compute the predictor now, not during the first request
        return found

    @classmethod
    def after(cls, model: Model, pipeline: PipelineState, *, name: str, version: int) -> Self:
        """Build from the content of a model file, written by a pipeline or by `ScStream.save`."""
        steps, progress = Steps(), Progress(model.state.n_batches)
        columns: Sequence[str] | None = model.settings.feature_names
        try:
            if pipeline:
                steps = frozen(Steps.load(pipeline["steps"]))
                progress = Progress.from_dict(pipeline["progress"])
                columns = progress.schema.features
            return cls(
                version=version,
                batch=progress.batch,
                at=progress.time,
                columns=None if columns is None else tuple(columns),
                model=model,
                steps=steps,
                pipeline=pipeline,
            )
        except DAMAGE as error:
            raise CheckpointCorrupt(f"{name} holds no valid pipeline: {error!r}.") from error

    def compute(self, request: Request, rows: Any, *, time: Any = None, n_jobs: int = 1) -> Answer:
        """Preprocess rows as the pipeline would, without learning, and predict."""
        values = self.predicted(request, self.prepared(rows), time=time, n_jobs=n_jobs)
        return Answer(values, self.version, self.batch)

    def predicted(self, request: Request, X: Rows, *, time: Any = None, n_jobs: int = 1) -> Any:
        """Predict about rows that are preprocessed."""
        return getattr(self.model.at(time), request)(X, run=thread_executor(n_jobs).map)

    def prepared(self, rows: Any) -> Rows:
        """Preprocess rows as the pipeline would, without learning; raises `InputError`."""
        if self._is_harmless(rows):
            return rows
        X = self._taken(_block_of(rows))
        check_entries(X, self.model.family)
        self.model.family.check(X)
        return X

    def _is_harmless(self, rows: Any) -> bool:
        """Return True if rows need neither preprocessing nor further checks: the usual case.

        This check is much faster than the full checks, which matters for small requests.
        """
        if type(rows) is not np.ndarray or rows.dtype != np.float64 or rows.ndim != 2:
            return False
        if self.steps.steps or not len(rows) or rows.shape[1] != self.model.family.n_features:
            return False
        return bool(rows.max() <= self._reach and rows.min() >= -self._reach)  # no NaN is

    @cached_property
    def _reach(self) -> float:
        """Size up to which the family accepts every entry; -1 if its check is not about size.

        Families that can be translated accept any real number that is not too far away.
        """
        family = self.model.family
        low, high = -300, 300  # powers of two: accepted, refused
        while family.supports_translation and high - low > 1:
            middle = (low + high) // 2
            row = np.full((1, family.n_features), 2.0**middle)
            try:
                family.check(row)
                family.check(-row)
                low = middle
            except InputError:
                high = middle
        return 2.0**low if low > -300 else -1.0

    def _taken(self, block: Block) -> Rows:
        if not len(block.row):
            return np.zeros((0, self.model.family.n_features))
        _, block = self.steps.apply(block)
        if block.rejects:
            first = block.rejects[0]
            raise InputError(
                f"{len(block.rejects)} of {block.n_rows} rows cannot be predicted; the first is "
                f"row {first.row}: {first.reason.rstrip('.')}. Leave them out."
            )
        return block.X


def frozen(steps: Steps) -> Steps:
    """Steps that learn no more: a prediction must not depend on the other rows.

    All other steps learn from the first batch only, or never.
    """
    fixed = (
        replace(step, mode="frozen", half_life=None) if isinstance(step, Standardise) else step
        for step in steps.steps
    )
    return Steps(tuple(fixed))


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
