"""The sequence of preprocessing steps of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy import sparse

from scstream.errors import InputError
from scstream.io.header import Json, Plain, SavedSteps
from scstream.preprocess.base import Names, Step, reject_out_of_range
from scstream.preprocess.block import Block
from scstream.preprocess.columns import Select
from scstream.preprocess.project import Pca, RandomProjection
from scstream.preprocess.scale import Standardise
from scstream.preprocess.text import CountWords, HashText

STEPS: Mapping[str, type[Step]] = {
    kind.name: kind for kind in (Select, Standardise, RandomProjection, Pca, HashText, CountWords)
}


@dataclass(frozen=True, eq=False)
class Steps:
    """A sequence of steps; applying it to a block also returns the steps for the next block.

    Parameters
    ----------
    steps : tuple of Step
        The steps in order. Without steps, blocks stay as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess import Steps
    >>> steps = Steps.build([{"step": "standardise"}, {"step": "pca", "n": 1}])
    >>> steps = steps.with_columns(("x", "y"))
    >>> block = Block.of(np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 10.0]]))
    >>> steps, block = steps.apply(block)
    >>> block.X.round(3).ravel()
    array([-1.732,  0.   ,  1.732])
    >>> steps.feature_names(("x", "y"))
    ('pca0',)
    >>> again = Steps.load(steps.save())
    >>> again.apply(Block.of(np.array([[5.0, 10.0]])))[1].X.round(3)
    array([[1.732]])
    """

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        for number, step in enumerate(self.steps[1:], 2):
            if step.reads_text:
                raise InputError(
                    f"step {number} of the pipeline is {step.name}, which replaces all columns, so "
                    "the steps before it would have no effect; put it first, or remove them."
                )

    @classmethod
    def build(cls, tables: Sequence[Plain], *, text: str | None = None) -> Steps:
        """Make the steps of a configuration, not fitted yet.

        Each table has the name of a step under "step", and the options of the step. `text` is the
        text column of the schema, for steps that name none.
        """
        return cls(tuple(_built(table, number, text) for number, table in enumerate(tables, 1)))

    def with_columns(self, names: Sequence[str]) -> Steps:
        """Return the steps for rows with columns of these names; call it before the first block."""
        known: Names = tuple(names)
        steps = []
        for step in self.steps:
            steps.append(step.with_columns(known))
            known = step.feature_names(known)
        return Steps(tuple(steps))

    def feature_names(self, names: Sequence[str] | None) -> Names:
        """Return the names of the model's columns; None if they have no names, or none yet."""
        known: Names = None if names is None else tuple(names)
        for step in self.steps:
            known = step.feature_names(known)
        return known

    def apply(self, block: Block, *, time: float | None = None) -> tuple[Steps, Block]:
        """Fit the steps to a block where they require it, and transform the block.

        Return the steps for the next block, and the block with the model's columns; rows that a
        step made unusable are among its rejects. A block without a valid row changes nothing.
        `time` is on the clock of the model; by default a thousand rows are one unit.
        """
        if not self.steps or not len(block.row):
            return self, block
        block = replace(block, X=_canonical(block.X))
        after = list(self.steps)
        with np.errstate(all="ignore"):  # rows that overflow are rejected right after
            for i, step in enumerate(self.steps):
                if not len(block.row):
                    break
                after[i], changed = step.apply(block, time=time)
                block = reject_out_of_range(block, changed, step.name)
        return Steps(tuple(after)), block

    def options(self) -> list[Json]:
        """Return the tables from which `build` makes the same steps, with every option."""
        return [{"step": step.name} | step.options() for step in self.steps]

    def save(self) -> SavedSteps:
        """Return everything as plain values and arrays, for the model file."""
        known = [None if step.learned is None else dict(step.learned) for step in self.steps]
        return {"options": self.options(), "learned": known}

    @classmethod
    def load(cls, saved: SavedSteps) -> Steps:
        """Undo `save`, exactly."""
        blank = cls.build(saved["options"])
        known = zip(blank.steps, saved["learned"], strict=True)
        return cls(tuple(replace(step, learned=learned) for step, learned in known))


def _built(table: Plain, number: int, text: str | None) -> Step:
    options = dict(table)
    name = options.pop("step", None)
    if name is None:
        raise InputError(
            f"step {number} of the pipeline has no name; add step = one of {', '.join(STEPS)}."
        )
    if not isinstance(name, str) or name not in STEPS:
        raise InputError(
            f"step {number} of the pipeline is {name!r}, which does not exist; choose one of "
            f"{', '.join(STEPS)}."
        )
    kind = STEPS[name]
    known = [field.name for field in fields(kind) if field.name != "learned"]
    unknown = [each for each in options if each not in known]
    if unknown:
        raise InputError(
            f"step {number} of the pipeline, {name}, has no option {unknown[0]!r}; it has "
            f"{', '.join(known)}."
        )
    if kind.reads_text and text is not None:
        options.setdefault("column", text)
    return kind(**options)


def _canonical(X: Any) -> Any:
    """Return the rows in one memory layout: the last bits of a sum depend on it."""
    if not sparse.issparse(X):
        return np.ascontiguousarray(X, dtype=np.float64)
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X
