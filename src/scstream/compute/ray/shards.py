"""Rows that are in the object store of a cluster already, and the labels that stay with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from scstream.compute.ray.engine import ray
from scstream.compute.ray.worker import Part, stacked
from scstream.compute.rows import RemoteRows
from scstream.errors import InputError
from scstream.families.base import Labels, Rows


class Asks(Protocol):
    """Who puts questions to workers."""

    def everywhere(self, questions: Sequence[Callable[[Any], Any]]) -> list[Any]:
        """Put every question to some worker and return the answers in order."""


class ShardedRows(RemoteRows):
    """Rows in blocks in the object store, in the order in which the blocks were given.

    `scstream.compute.ray.RayExecutor.rows` makes them; `partial_fit` takes them like an array. What
    is asked of them is answered where they are.
    """

    def __init__(
        self,
        asks: Asks,
        sources: Sequence[Any],
        blocks: Sequence[Any],
        lengths: Sequence[int],
        about: Columns,
    ) -> None:
        self._asks = asks
        self._sources = tuple(sources)  # as they were given
        self.blocks = tuple(blocks)
        self.names = about.names
        self._ends = list(accumulate(lengths))
        self.shape = (self._ends[-1], about.n)

    def __getitem__(self, places: Labels) -> Rows:
        """Return the rows at some places, here."""
        block = np.searchsorted(self._ends, places, side="right")
        starts = np.array([0, *self._ends])
        wanted = [(int(b), np.flatnonzero(block == b)) for b in np.unique(block)]
        questions = [
            lambda worker, b=b, own=places[at] - starts[b]: worker.pick.remote(self.blocks[b], own)
            for b, at in wanted
        ]
        found = self._asks.everywhere(questions)
        if not found:
            return np.zeros((0, self.shape[1]))
        order = np.argsort(np.concatenate([at for _, at in wanted]), kind="stable")
        return stacked(found)[order]

    def gathered(self) -> Rows:
        """Return all rows, here."""
        return stacked(ray().get(list(self.blocks)))

    def each(self, function: Callable[[Rows], Any]) -> None:
        """Apply a function that may refuse them to all blocks, where they are."""
        ask = [lambda worker, b=b: worker.apply.remote(b, function) for b in self.blocks]
        self._asks.everywhere(ask)

    def parts(self, places: range) -> tuple[Part, ...]:
        """Return where the rows of a range are."""
        return _parts(self.blocks, self._ends, places)

    def labelled(self, labels: ShardedLabels, *, name: str = "cluster") -> Any:
        """Return the tables that were given, with a column of labels.

        Parameters
        ----------
        labels : ShardedLabels
            What `partial_fit` found for these rows.
        name : str
            Of the column.

        Returns
        -------
        ray.data.Dataset
            Blocks as they were given; the rows have not moved.
        """
        from ray.data import from_arrow_refs

        join = ray().remote(num_cpus=0, max_retries=3)(_with_column)
        starts = [0, *self._ends]
        ranges = [range(start, end) for start, end in pairwise(starts)]
        joined = []
        for source, places in zip(self._sources, ranges, strict=True):
            parts = labels.parts(places)
            cuts = [(part.start, part.stop) for part in parts]
            joined.append(join.remote(source, name, cuts, *(part.block for part in parts)))
        return from_arrow_refs(joined)


class ShardedLabels:
    """Ids of clusters in the object store, in pieces, in the order of the rows.

    Parameters
    ----------
    pieces : sequence of references
        To arrays of ids.
    lengths : sequence of int
        Their lengths.
    """

    def __init__(self, pieces: Sequence[Any], lengths: Sequence[int]) -> None:
        self.pieces = tuple(pieces)
        self._ends = list(accumulate(lengths))

    def __len__(self) -> int:
        return self._ends[-1]

    def gathered(self) -> Labels:  # (N,)
        """Return all ids, here."""
        return np.concatenate(ray().get(list(self.pieces)))

    def parts(self, places: range) -> tuple[Part, ...]:
        """Return where the labels of a range of rows are."""
        return _parts(self.pieces, self._ends, places)


def _parts(blocks: Sequence[Any], ends: Sequence[int], places: range) -> tuple[Part, ...]:
    out, start = [], 0
    for block, end in zip(blocks, ends, strict=True):
        first, stop = max(places.start, start), min(places.stop, end)
        if first < stop:
            out.append(Part(block, first - start, stop - start))
        start = end
    return tuple(out)


def _with_column(table: Any, name: str, cuts: list[tuple[int, int]], *pieces: Labels) -> Any:
    """Return an Arrow table with a column more."""
    found = [piece[start:stop] for piece, (start, stop) in zip(pieces, cuts, strict=True)]
    return table.append_column(name, [np.concatenate(found)])


class Columns(NamedTuple):
    """Columns of rows, with their names if they have any."""

    n: int
    names: tuple[str, ...] | None


def blocks_of(
    source: Any, columns: Sequence[str] | None
) -> tuple[list[Any], list[Any], list[int], Columns]:
    """Turn the blocks of a dataset, or what references lead to, into rows of float64.

    The work is done by tasks of the cluster, which does it again should a result be lost.
    """
    library = ray()
    blocks = source.to_arrow_refs() if hasattr(source, "to_arrow_refs") else list(source)
    if not blocks or not all(isinstance(block, library.ObjectRef) for block in blocks):
        raise InputError(
            "rows must be a ray.data.Dataset, or references (ray.put) to arrays or tables; arrays "
            "of this process can be given to partial_fit as they are."
        )
    turn = library.remote(num_cpus=0, num_returns=3, max_retries=3)(block_rows)
    turned = [turn.remote(block, columns) for block in blocks]
    try:
        lengths = library.get([n for _, n, _ in turned])
        about = library.get([columns for _, _, columns in turned])
    except library.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, InputError) else error from None
    for place, other in enumerate(about):
        if other != about[0]:
            raise InputError(
                f"block {place} has other columns than the first: {other} and {about[0]}."
            )
    return blocks, [rows for rows, _, _ in turned], lengths, about[0]


def block_rows(block: Any, columns: Sequence[str] | None) -> tuple[Rows, int, Columns]:
    """Return a block as rows of float64, with their number and what is known of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.compute.ray.shards import block_rows
    >>> block_rows(np.array([[1, 2]]), None)
    (array([[1., 2.]]), 1, Columns(n=2, names=None))
    """
    names = None
    if hasattr(block, "column_names") or hasattr(block, "columns"):  # of Arrow, of pandas
        names = tuple(columns or _names(block))
        missing = [name for name in names if name not in _names(block)]
        if missing:
            raise InputError(f"there is no column {missing[0]!r}; there are {_names(block)}.")
        rows = np.column_stack([np.asarray(block[name], np.float64) for name in names])
    elif hasattr(block, "tocsr"):
        rows = block.tocsr().astype(np.float64, copy=False)
    else:
        rows = np.ascontiguousarray(block, dtype=np.float64)
    if rows.ndim != 2:
        raise InputError(f"a block must have rows and columns, but its shape is {rows.shape}.")
    return rows, rows.shape[0], Columns(rows.shape[1], names)


def _names(table: Any) -> list[str]:
    return list(getattr(table, "column_names", None) or table.columns)
