"""Rows on their way to the model: numbers, what travels with them, and rows that were refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.families.base import Rows

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Reject:
    """A row that cannot be used, and why.

    Parameters
    ----------
    row : int
        Which row of its block.
    reason : str
        A sentence that says what is wrong with it.
    content : str
        The row as text, cut short.

    Examples
    --------
    >>> from scstream.preprocess.block import Reject
    >>> Reject(3, "column 'x' holds NaN").row
    3
    """

    row: int
    reason: str
    content: str = ""


@dataclass(frozen=True)
class Block:
    """Consecutive rows of one partition of a source.

    Parameters
    ----------
    n_rows : int
        Number N of rows that came, sound or refused.
    row : array of shape (G,)
        Which of them each sound row is; increasing.
    X : array or CSR array of shape (G, D)
        Features of the sound rows, float64.
    kept : mapping of str to array of shape (G,)
        Columns that are no features: keys, times, texts, names to be passed on.
    rejects : tuple of Reject
        The other rows, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> block = Block.of(np.array([[1.0], [2.0], [3.0]]), name=np.array(["a", "b", "c"]))
    >>> block.part(1, 3).kept["name"].tolist()
    ['b', 'c']
    """

    n_rows: int
    row: NDArray[np.int64]
    X: Rows
    kept: Columns = field(default_factory=dict)
    rejects: tuple[Reject, ...] = ()

    @classmethod
    def of(cls, X: Rows, **kept: Any) -> Block:
        """Return a block of sound rows only."""
        n_rows = int(X.shape[0])
        columns = {name: np.asarray(values) for name, values in kept.items()}
        return cls(n_rows, np.arange(n_rows), X, columns)

    @classmethod
    def empty(cls) -> Block:
        """Return a block of no rows."""
        return cls(0, np.zeros(0, dtype=np.int64), np.zeros((0, 0)))

    @classmethod
    def refused(cls, reason: str, content: str = "", *, n_features: int = 0) -> Block:
        """Return the block of a message that cannot be read at all: it counts as one row."""
        none = np.zeros(0, dtype=np.int64)
        return cls(1, none, np.zeros((0, n_features)), {}, (Reject(0, reason, content),))

    def part(self, start: int, stop: int) -> Block:
        """Return rows `start` to `stop`, counted over sound and refused rows alike."""
        if start <= 0 and stop >= self.n_rows:
            return self
        first, last = np.searchsorted(self.row, [start, stop])
        return Block(
            n_rows=stop - start,
            row=self.row[first:last] - start,
            X=self.X[first:last],
            kept={name: values[first:last] for name, values in self.kept.items()},
            rejects=tuple(
                Reject(r.row - start, r.reason, r.content)
                for r in self.rejects
                if start <= r.row < stop
            ),
        )

    def without(self, refused: Sequence[Reject]) -> Block:
        """Return the block with some more of its rows refused."""
        if not refused:
            return self
        stays = ~np.isin(self.row, [r.row for r in refused])
        return Block(
            n_rows=self.n_rows,
            row=self.row[stays],
            X=self.X[stays],
            kept={name: values[stays] for name, values in self.kept.items()},
            rejects=tuple(sorted((*self.rejects, *refused), key=lambda r: r.row)),
        )


def join(blocks: Sequence[Block]) -> Block:
    """Return one block of the rows of several; columns that one of them lacks are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block, join
    >>> both = join([Block.refused("torn"), Block.of(np.ones((2, 1)))])
    >>> both.n_rows, both.row.tolist(), both.rejects[0].reason
    (3, [1, 2], 'torn')
    """
    if len(blocks) == 1:
        return blocks[0]
    starts = np.cumsum([0, *(block.n_rows for block in blocks)]).tolist()
    sound = [block for block in blocks if len(block.row)] or list(blocks[:1])
    shared = [name for name in sound[0].kept if all(name in block.kept for block in sound)]
    stack: Any = sparse.vstack if any(sparse.issparse(b.X) for b in sound) else np.concatenate
    how = {"format": "csr"} if stack is sparse.vstack else {}
    return Block(
        n_rows=starts[-1],
        row=np.concatenate([b.row + start for b, start in zip(blocks, starts, strict=False)]),
        X=sound[0].X if len(sound) == 1 else stack([block.X for block in sound], **how),
        kept={name: np.concatenate([b.kept[name] for b in sound]) for name in shared},
        rejects=tuple(
            Reject(r.row + start, r.reason, r.content)
            for b, start in zip(blocks, starts, strict=False)
            for r in b.rejects
        ),
    )
