"""Rows between a source and the model: features, other columns, and rejected rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.families.base import Rows

Columns = Mapping[str, NDArray[Any]]
_REJECT_BYTES = 256  # of a reject beside its texts


@dataclass(frozen=True)
class Reject:
    """A row that cannot be used, with the reason.

    Parameters
    ----------
    row : int
        Index of the row in its block.
    reason : str
        What is wrong with the row.
    content : str
        The row as text, or the beginning of it.
    complete : bool
        Whether the content is the whole row as it came, so that it can be sent again.

    Examples
    --------
    >>> from scstream.preprocess.block import Reject
    >>> Reject(3, "column 'x' holds NaN").row
    3
    """

    row: int
    reason: str
    content: str = ""
    complete: bool = False


@dataclass(frozen=True)
class Block:
    """Consecutive rows of one partition of a source.

    Parameters
    ----------
    n_rows : int
        Number N of rows, valid and rejected.
    row : array of shape (G,)
        Index of each valid row among the N rows; increasing.
    X : array or CSR array of shape (G, D)
        Features of the valid rows, float64.
    extra : mapping of str to array of shape (G,)
        Columns that are not features: keys, times, texts, columns to pass on to the sink.
    rejects : tuple of Reject
        The rejected rows, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> block = Block.of(np.array([[1.0], [2.0], [3.0]]), name=np.array(["a", "b", "c"]))
    >>> block.slice(1, 3).extra["name"].tolist()
    ['b', 'c']
    """

    n_rows: int
    row: NDArray[np.int64]
    X: Rows
    extra: Columns = field(default_factory=dict)
    rejects: tuple[Reject, ...] = ()

    @classmethod
    def of(cls, X: Rows, **extra: Any) -> Block:
        """Return a block in which every row is valid."""
        n_rows = int(X.shape[0])
        columns = {name: np.asarray(values) for name, values in extra.items()}
        return cls(n_rows, np.arange(n_rows), X, columns)

    @classmethod
    def empty(cls) -> Block:
        """Return a block without rows."""
        return cls(0, np.zeros(0, dtype=np.int64), np.zeros((0, 0)))

    @classmethod
    def rejected(
        cls, reason: str, content: str = "", *, complete: bool = False, n_features: int = 0
    ) -> Block:
        """Return the block of a message that cannot be parsed; it counts as one row."""
        none = np.zeros(0, dtype=np.int64)
        return cls(1, none, np.zeros((0, n_features)), {}, (Reject(0, reason, content, complete),))

    @cached_property
    def n_bytes(self) -> int:
        """About how many bytes of memory the rows take, their texts included."""
        parts = (self.X.data, self.X.indices) if sparse.issparse(self.X) else (self.X,)
        n_bytes = bytes_of([*parts, *self.extra.values()])
        return n_bytes + sum(_REJECT_BYTES + len(r.reason) + len(r.content) for r in self.rejects)

    def slice(self, start: int, stop: int) -> Block:
        """Return rows `start` to `stop`; valid and rejected rows are counted."""
        if start <= 0 and stop >= self.n_rows:
            return self
        first, last = np.searchsorted(self.row, [start, stop])
        return Block(
            n_rows=stop - start,
            row=self.row[first:last] - start,
            X=self.X[first:last],
            extra={name: values[first:last] for name, values in self.extra.items()},
            rejects=tuple(
                replace(r, row=r.row - start) for r in self.rejects if start <= r.row < stop
            ),
        )

    def reject(self, rejects: Sequence[Reject]) -> Block:
        """Return the block with these rows rejected too."""
        if not rejects:
            return self
        stays = ~np.isin(self.row, [r.row for r in rejects])
        return Block(
            n_rows=self.n_rows,
            row=self.row[stays],
            X=self.X[stays],
            extra={name: values[stays] for name, values in self.extra.items()},
            rejects=tuple(sorted((*self.rejects, *rejects), key=lambda r: r.row)),
        )


def bytes_of(columns: Iterable[NDArray[Any]]) -> int:
    """Return about how many bytes columns take, with the texts that they refer to."""
    return sum(
        int(values.nbytes)
        + (sum(map(sys.getsizeof, values.tolist())) if values.dtype == object else 0)
        for values in columns
    )


def join(blocks: Sequence[Block]) -> Block:
    """Concatenate blocks; an extra column that one of them lacks is dropped."""
    if len(blocks) == 1:
        return blocks[0]
    starts = np.cumsum([0, *(block.n_rows for block in blocks)]).tolist()
    valid = [block for block in blocks if len(block.row)] or list(blocks[:1])
    shared = [name for name in valid[0].extra if all(name in block.extra for block in valid)]
    stack: Any = sparse.vstack if any(sparse.issparse(b.X) for b in valid) else np.concatenate
    how = {"format": "csr"} if stack is sparse.vstack else {}
    return Block(
        n_rows=starts[-1],
        row=np.concatenate([b.row + start for b, start in zip(blocks, starts, strict=False)]),
        X=valid[0].X if len(valid) == 1 else stack([block.X for block in valid], **how),
        extra={name: np.concatenate([b.extra[name] for b in valid]) for name in shared},
        rejects=tuple(
            replace(r, row=r.row + start)
            for b, start in zip(blocks, starts, strict=False)
            for r in b.rejects
        ),
    )
