"""All steps of a pipeline as one value, from its configuration and to and from its model file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy import sparse

from scstream.errors import InputError
from scstream.preprocess.base import Names, Step, within_bounds
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
    """Steps one after the other; taking a block gives the steps for the next one.

    Parameters
    ----------
    steps : tuple of Step
        The steps in their order; none leaves rows as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess import Steps
    >>> steps = Steps.build([{"step": "standardise"}, {"step": "pca", "n": 1}])
    >>> steps = steps.settle(("x", "y"))
    >>> block = Block.of(np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 10.0]]))
    >>> steps, block = steps.take(block)
    >>> block.X.round(3).ravel()
    array([-1.732,  0.   ,  1.732])
    >>> steps.feature_names(("x", "y"))
    ('pca0',)
    >>> again = Steps.load(steps.save())
    >>> again.take(Block.of(np.array([[5.0, 10.0]])))[1].X.round(3)
    array([[1.732]])
    """

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        for number, step in enumerate(self.steps[1:], 2):
            if step.reads_text:
                raise InputError(
                    f"step {number} of the pipeline is {step.name}, which makes the columns anew: "
                    "what the steps before it did would be lost; put it first, or leave them out."
                )

    @classmethod
    def build(cls, tables: Sequence[Mapping[str, Any]], *, text: str | None = None) -> Steps:
        """Make the steps that a configuration asks for; they have learned nothing yet.

        Parameters
        ----------
        tables : sequence of mapping
            One table for each step: its name under "step", beside it the options of the step.
        text : str, optional
            The column of text of the schema, for steps that name none.

        Returns
        -------
        Steps
            The steps, ready to be settled.
        """
        return cls(tuple(_built(table, number, text) for number, table in enumerate(tables, 1)))

    def settle(self, names: Sequence[str]) -> Steps:
        """Return the steps for rows with columns of these names, told before the first block."""
        known: Names = tuple(names)
        settled = []
        for step in self.steps:
            settled.append(step.settle(known))
            known = step.feature_names(known)
        return Steps(tuple(settled))

    def feature_names(self, names: Sequence[str] | None) -> Names:
        """Return the names of the model's columns; None if they have none, or not yet."""
        known: Names = None if names is None else tuple(names)
        for step in self.steps:
            known = step.feature_names(known)
        return known

    def take(self, block: Block, *, time: float | None = None) -> tuple[Steps, Block]:
        """Learn from a block and prepare it.

        A block without a sound row teaches nothing, and comes out as it is.

        Parameters
        ----------
        block : Block
            A batch.
        time : float, optional
            When the batch came, as the model is told; by default one later than the last.

        Returns
        -------
        Steps, Block
            The steps for the next batch, and the batch with the model's columns; rows that no
            model can take after a step are among its rejects.
        """
        if not self.steps or not len(block.row):
            return self, block
        block = replace(block, X=_in_order(block.X))
        after = list(self.steps)
        with np.errstate(all="ignore"):  # what overflows is refused right after
            for i, step in enumerate(self.steps):
                if not len(block.row):
                    break
                after[i], changed = step.take(block, time=time)
                block = within_bounds(block, changed, step.name)
        return Steps(tuple(after)), block

    def options(self) -> list[dict[str, Any]]:
        """Return the tables that `build` makes the same steps of, every option in them."""
        return [{"step": step.name} | step.options() for step in self.steps]

    def save(self) -> dict[str, Any]:
        """Return everything as plain values and arrays, for the model file."""
        known = [None if step.learned is None else dict(step.learned) for step in self.steps]
        return {"options": self.options(), "learned": known}

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Steps:
        """Undo `save`; what goes through the file in between comes back bit for bit."""
        blank = cls.build(saved["options"])
        known = zip(blank.steps, saved["learned"], strict=True)
        return cls(tuple(replace(step, learned=learned) for step, learned in known))


def _built(table: Mapping[str, Any], number: int, text: str | None) -> Step:
    options = dict(table)
    name = options.pop("step", None)
    if name is None:
        raise InputError(
            f"step {number} of the pipeline does not say which step it is; add step = one of "
            f"{', '.join(STEPS)}."
        )
    if not isinstance(name, str) or name not in STEPS:
        raise InputError(
            f"step {number} of the pipeline is {name!r}, which there is not; there are "
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


def _in_order(X: Any) -> Any:
    """Rows in one layout: the last bits of a sum depend on the order in memory."""
    if not sparse.issparse(X):
        return np.ascontiguousarray(X, dtype=np.float64)
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X
