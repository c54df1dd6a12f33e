"""What every step of the preparation is: options, what it has learned, and one pure `take`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.errors import InputError
from scstream.families.base import Rows
from scstream.io.schema import LARGEST
from scstream.preprocess.block import Block, Reject

Names = tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class Step(ABC):
    """One change of the columns of a stream.

    The fields of a step are its options, except `learned`: what it knows from the rows it has
    taken, as plain values and arrays by name, or None as long as it has taken none.

    Examples
    --------
    >>> from scstream.preprocess.scale import Standardise
    >>> step = Standardise(clip=5.0)
    >>> step.options()["clip"], step.learned is None
    (5.0, True)
    """

    learned: Mapping[str, Any] | None = None

    name: ClassVar[str]
    reads_text: ClassVar[bool] = False

    @abstractmethod
    def take(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Return the step after a block that has rows, and the block as it leaves the step."""

    def settle(self, names: Names) -> Self:
        """Return the step for columns of these names, told once before the first block."""
        return self

    def feature_names(self, names: Names) -> Names:
        """Return the names of the columns that come out; None if they have none, or not yet."""
        return names

    def options(self) -> dict[str, Any]:
        """Return what the user chose, as plain values."""
        chosen = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in chosen
            if name != "learned"
        }

    def check_width(self, X: Rows, n_columns: int) -> None:
        """Raise unless the rows have as many columns as those that the step learned from."""
        if X.shape[1] != n_columns:
            raise InputError(
                f"{self.name} has learned {n_columns} columns and now gets {X.shape[1]}; send the "
                "same columns in every message, or start a new model."
            )


def option(step: Step, condition: bool, name: str, must: str) -> None:
    """Raise with a sentence unless an option of a step is as it must be.

    Examples
    --------
    >>> from scstream.preprocess.base import option
    >>> from scstream.preprocess.project import RandomProjection
    >>> option(RandomProjection(n=2), True, "n", "a whole number from 1")
    """
    if not condition:
        value = getattr(step, name)
        raise InputError(f"the option {name!r} of {step.name} must be {must}, got {value!r}.")


def is_whole(value: Any, least: int) -> bool:
    """Tell whether a value is a whole number from `least`.

    Examples
    --------
    >>> from scstream.preprocess.base import is_whole
    >>> is_whole(3, 1), is_whole(True, 1), is_whole(2.5, 1)
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_positive(value: Any) -> bool:
    """Tell whether a value is a number above zero; infinity is one.

    Examples
    --------
    >>> from scstream.preprocess.base import is_positive
    >>> is_positive(0.5), is_positive(0), is_positive("1")
    (True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def refused(block: Block, bad: NDArray[np.bool_], reasons: str | Sequence[str]) -> Block:
    """Return the block without some of its sound rows, each with its reason.

    Parameters
    ----------
    block : Block
        The block.
    bad : array of shape (G,)
        Which of the sound rows cannot be used.
    reasons : str or sequence of str
        One sentence for all of them, or one for each sound row.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.base import refused
    >>> block = refused(Block.of(np.ones((3, 1))), np.array([False, True, False]), "too wide")
    >>> block.row.tolist(), block.rejects[0].reason
    ([0, 2], 'too wide')
    """
    which = np.flatnonzero(bad).tolist()
    said = {i: reasons if isinstance(reasons, str) else reasons[i] for i in which}
    return block.without([Reject(int(block.row[i]), said[i]) for i in which])


def without_missing(block: Block, name: str) -> Block:
    """Refuse rows with a missing entry, where a step mixes columns and so needs all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.base import without_missing
    >>> without_missing(Block.of(np.array([[1.0], [np.nan]])), "pca").rejects[0].reason
    'an entry is missing, and pca needs every entry'
    """
    if sparse.issparse(block.X):
        return block
    bad = np.isnan(block.X).any(axis=1)
    return refused(block, bad, f"an entry is missing, and {name} needs every entry")


def within_bounds(before: Block, after: Block, name: str) -> Block:
    """Refuse rows of `after` that a step made too large for the model, or no numbers at all.

    Entries that were missing before may still be missing.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.base import within_bounds
    >>> grown = Block.of(np.array([[1.0], [1e200]]))
    >>> within_bounds(grown, grown, "standardise").rejects[0].reason
    'standardise makes an entry of the row 1e+200, which no model can take'
    """
    entries = after.X.data if sparse.issparse(after.X) else after.X
    if entries.max(initial=0.0) <= LARGEST and entries.min(initial=0.0) >= -LARGEST:
        return after  # a NaN would be the largest of all, and not below anything
    X = after.X.toarray() if sparse.issparse(after.X) else after.X
    sound = np.abs(X) <= LARGEST
    if not sparse.issparse(before.X) and np.isnan(before.X).any():
        sound |= np.isnan(X)
    bad = ~sound.all(axis=1)
    worst = [f"{value:g}" for value in np.abs(X).max(axis=1, initial=0.0)]
    reasons = [f"{name} makes an entry of the row {w}, which no model can take" for w in worst]
    return refused(after, bad, reasons)
