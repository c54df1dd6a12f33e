"""Rows in the object store of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from scstream.compute.rows import RemoteRows, canonical
from scstream.distributed.engine import get, ray
from scstream.distributed.worker import BlockSlice, stacked
from scstream.distributed.worker_pool import WorkerCall
from scstream.errors import InputError
from scstream.families.base import Labels, Rows


class Caller(Protocol):
    """Sends requests to workers."""

    deadline: float  # seconds

    def call_any(self, requests: Sequence[WorkerCall], near: Sequence[Any] = ()) -> list[Any]:
        """Send every request to some worker and return the results in order.

        `near` has an object for every request: a worker on a node that stores it is preferred.
        """


class ShardedRows(RemoteRows):
    """Rows in blocks of the object store, in the order of the blocks.

    `scstream.distributed.RayExecutor.rows` makes them; `partial_fit` takes them like an array.
    Workers process the blocks where they are.
    """

    def __init__(
        self,
        caller: Caller,
        sources: Sequence[Any],
        blocks: Sequence[Any],
        lengths: Sequence[int],
        about: Columns,
    ) -> None:
        self._caller = caller
        self._sources = tuple(sources)  # before conversion
        self.blocks = tuple(blocks)
        self.feature_names = about.names
        self.is_sparse = about.is_sparse
        self._ends = list(accumulate(lengths))
        self.shape = (self._ends[-1], about.n)

    def __getitem__(self, indices: Labels) -> Rows:
        """Return the rows with these indices, in this process."""
        block = np.searchsorted(self._ends, indices, side="right")
        starts = np.array([0, *self._ends])
        wanted = [(int(b), np.flatnonzero(block == b)) for b in np.unique(block)]
        requests = [
            lambda worker, b=b, own=indices[at] - starts[b]: worker.apply.remote(
                self.blocks[b], _taken, own
            )
            for b, at in wanted
        ]
        found = self._caller.call_any(requests, [self.blocks[b] for b, _ in wanted])
        if not found:
            return np.zeros((0, self.shape[1]))
        order = np.argsort(np.concatenate([at for _, at in wanted]), kind="stable")
        return stacked(found)[order]

    def gathered(self) -> Rows:
        """Return all rows, in this process."""
        return stacked(get(list(self.blocks), deadline=self._caller.deadline))

    def each(self, function: Callable[[Rows], Any]) -> None:
        """Call a function that may raise on all blocks, on the workers."""
        requests = [lambda worker, b=b: worker.apply.remote(b, function) for b in self.blocks]
        self._caller.call_any(requests, self.blocks)

    def slices(self, rows: range) -> tuple[BlockSlice, ...]:
        """Return the blocks that contain a range of rows."""
        out, start = [], 0
        for block, end in zip(self.blocks, self._ends, strict=True):
            first, stop = max(rows.start, start), min(rows.stop, end)
            if first < stop:
                out.append(BlockSlice(block, first - start, stop - start))
            start = end
        return tuple(out)

    def labelled(self, labels: Labels, *, name: str = "cluster") -> Any:
        """Return the original tables with a column of labels.

        Parameters
        ----------
        labels : array of shape (n_rows,)
            The labels of these rows after `partial_fit`.
        name : str
            Name of the new column.

        Returns
        -------
        ray.data.Dataset
            The original blocks; rows are not moved.
        """
        if self.feature_names is None:
            raise InputError("only tables can get a column of labels; these rows are arrays.")
        from ray.data import from_arrow_refs

        join = ray().remote(num_cpus=0, max_retries=3)(_with_column)
        parts = np.split(labels, self._ends[:-1])
        return from_arrow_refs(
            [
                join.remote(source, name, part)
                for source, part in zip(self._sources, parts, strict=True)
            ]
        )


def _taken(block: Rows, indices: Labels) -> Rows:
    return block[indices]


def _with_column(table: Any, name: str, labels: Labels) -> Any:
    """Return an Arrow or pandas table as an Arrow table with one more column."""
    from ray.data.block import BlockAccessor

    return BlockAccessor.for_block(table).to_arrow().append_column(name, [labels])


class Columns(NamedTuple):
    """Number and names of the columns of rows."""

    n: int
    names: tuple[str, ...] | None
    is_sparse: bool = False


def blocks_of(
    source: Any, columns: Sequence[str] | None, *, deadline: float
) -> tuple[list[Any], list[Any], list[int], Columns]:
    """Convert the blocks of a dataset, or the values of references, to rows of float64.

    Tasks of the cluster do the work; Ray repeats them if a result is lost. Empty blocks are left
    out: after a filter they may even have no columns.
    """
    library = ray()
    blocks = source.to_arrow_refs() if hasattr(source, "to_arrow_refs") else list(source)
    if not blocks or not all(isinstance(block, library.ObjectRef) for block in blocks):
        raise InputError(
            "rows must be a ray.data.Dataset, or references (ray.put) to arrays or tables; pass "
            "arrays of this process to partial_fit directly."
        )
    convert = library.remote(num_cpus=0, num_returns=3, max_retries=3)(_converted)
    converted = [convert.remote(block, columns) for block in blocks]
    lengths = get([n for _, n, _ in converted], deadline=deadline)
    about = get([columns for _, _, columns in converted], deadline=deadline)
    for error in about:
        if isinstance(error, InputError):
            raise error
    full = [i for i, n in enumerate(lengths) if n] or [0]
    first = about[full[0]]
    for i in full:
        if about[i] != first:
            raise InputError(f"block {i} has other columns than the first: {about[i]} and {first}.")
    return (
        [blocks[i] for i in full],
        [converted[i][0] for i in full],
        [lengths[i] for i in full],
        first,
    )


def _converted(block: Any, columns: Sequence[str] | None) -> tuple[Any, int, Any]:
    """Return `block_rows`, or its error as a value: Ray would log an error once per result."""
    try:
        return block_rows(block, columns)
    except InputError as error:
        return None, 0, error


def block_rows(block: Any, columns: Sequence[str] | None) -> tuple[Rows, int, Columns]:
    """Return a block as rows of float64, with their number and their columns."""
    try:
        rows, names = _entries(block, columns)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"a block contains values that are not numbers: {error}.") from error
    if rows.ndim != 2:
        raise InputError(f"a block must be two-dimensional, but its shape is {rows.shape}.")
    return rows, rows.shape[0], Columns(rows.shape[1], names, sparse.issparse(rows))


def _entries(block: Any, columns: Sequence[str] | None) -> tuple[Rows, tuple[str, ...] | None]:
    """Return the entries of a block, and the names of the columns of a table."""
    if hasattr(block, "column_names") or hasattr(block, "columns"):  # of Arrow, of pandas
        return _table_entries(block, columns)
    if columns is not None:
        raise InputError("columns= selects columns of tables, but a block is an array.")
    if not sparse.issparse(block):
        return np.ascontiguousarray(block, dtype=np.float64), None
    return canonical(block), None


def _table_entries(table: Any, columns: Sequence[str] | None) -> tuple[Rows, tuple[str, ...]]:
    known = tuple(table.column_names if hasattr(table, "column_names") else table.columns)
    names = known if columns is None else tuple(columns)
    if not len(table):
        return np.zeros((0, len(names))), names
    missing = [name for name in names if name not in known]
    if missing:
        raise InputError(f"there is no column {missing[0]!r}; there are {', '.join(known)}.")
    return np.column_stack([np.asarray(table[name], np.float64) for name in names]), names
