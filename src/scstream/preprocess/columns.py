"""Select columns by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from scstream.errors import InputError
from scstream.preprocess.base import Names, Step, check_option
from scstream.preprocess.block import Block


@dataclass(frozen=True, eq=False)
class Select(Step):
    """Keep columns by name, in the order of the names, or drop columns by name.

    Parameters
    ----------
    columns : sequence of str, optional
        The columns to keep.
    drop : sequence of str, optional
        The columns to drop. Give either `columns` or `drop`.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.columns import Select
    >>> step = Select(drop=["id"]).with_columns(("x", "id", "y"))
    >>> _, block = step.apply(Block.of(np.array([[1.0, 2.0, 3.0]])), time=None)
    >>> block.X, step.feature_names(("x", "id", "y"))
    (array([[1., 3.]]), ('x', 'y'))
    """

    columns: Sequence[str] | None = None
    drop: Sequence[str] | None = None

    name: ClassVar[str] = "select"

    def __post_init__(self) -> None:
        if (self.columns is None) == (self.drop is None):
            raise InputError("select needs either 'columns' or 'drop', a list of column names.")
        for chosen in ("columns", "drop"):
            names = getattr(self, chosen)
            valid = names is None or _distinct_names(names)
            check_option(self, valid, chosen, "a list of different names of columns")
            object.__setattr__(self, chosen, None if names is None else tuple(names))

    def with_columns(self, names: Names) -> Self:
        """Find the indices of the columns."""
        if names is None:
            raise InputError(
                "select needs column names, but the step before it makes columns without names; "
                "put select before that step."
            )
        absent = [name for name in self.columns or self.drop or () if name not in names]
        if absent:
            raise InputError(
                f"select names the column {absent[0]!r}, but the rows have the columns "
                f"{', '.join(names)}."
            )
        kept = self._kept(names)
        if not kept:
            raise InputError("select drops every column; leave the model at least one.")
        places = np.array([names.index(name) for name in kept], dtype=np.int64)
        return replace(self, learned={"places": places, "n_columns": len(names)})

    def apply(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Return the block with the selected columns."""
        if self.learned is None:
            raise InputError("select does not know the column names yet; call with_columns first.")
        self.check_width(block.X, self.learned["n_columns"])
        return self, replace(block, X=block.X[:, self.learned["places"]])

    def feature_names(self, names: Names) -> Names:
        """Return the selected names."""
        return None if names is None else self._kept(names)

    def _kept(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if self.columns is not None:
            return tuple(self.columns)
        return tuple(name for name in names if name not in (self.drop or ()))


def _distinct_names(names: object) -> bool:
    if not isinstance(names, list | tuple):
        return False
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names) > 0
