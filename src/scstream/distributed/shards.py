"""Rows that are in the object store of a cluster already, and the labels that stay with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy import sparse

from scstream.compute.rows import RemoteRows, canonical
from scstream.distributed.engine import get, ray
from scstream.distributed.worker import Part, stacked
from scstream.errors import InputError
from scstream.families.base import Labels, Rows


class Asks(Protocol):
    """Who puts questions to workers."""

    deadline: float  # seconds

    def everywhere(self, questions: Sequence[Callable[[Any], Any]]) -> list[Any]:
        """Put every question to some worker and return the answers in order."""


class ShardedRows(RemoteRows):
    """Rows in blocks in the object store, in the order in which the blocks were given.

    `scstream.distributed.RayExecutor.rows` makes them; `partial_fit` takes them like an array. What
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
        self.is_sparse = about.is_sparse
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
        return stacked(get(list(self.blocks), deadline=self._asks.deadline))

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
        if self.names is None:
            raise InputError("only tables can get a column; the rows were given as arrays.")
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

    They are lost with the node that they are on. A copy that leaves this process, as in a pickled
    model, is an array.

    Parameters
    ----------
    pieces : sequence of references
        To arrays of ids.
    lengths : sequence of int
        Their lengths.
    deadline : float
        Seconds that `gathered` may take.
    """

    def __init__(self, pieces: Sequence[Any], lengths: Sequence[int], *, deadline: float) -> None:
        self.pieces = tuple(pieces)
        self._ends = list(accumulate(lengths))
        self._deadline = deadline

    def __len__(self) -> int:
        return self._ends[-1]

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> Any:
        return np.array, (self.gathered(),)

    def gathered(self) -> Labels:  # (N,)
        """Return all ids, here."""
        return np.concatenate(get(list(self.pieces), deadline=self._deadline))

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
    """Return a table, of Arrow or pandas, as one of Arrow with a column more."""
    from ray.data.block import BlockAccessor

    found = [piece[start:stop] for piece, (start, stop) in zip(pieces, cuts, strict=True)]
    arrow = BlockAccessor.for_block(table).to_arrow()
    return arrow.append_column(name, [np.concatenate(found)])


class Columns(NamedTuple):
    """Columns of rows, with their names if they have any."""

    n: int
    names: tuple[str, ...] | None
    is_sparse: bool = False


def blocks_of(
    source: Any, columns: Sequence[str] | None, *, deadline: float
) -> tuple[list[Any], list[Any], list[int], Columns]:
    """Turn the blocks of a dataset, or what references lead to, into rows of float64.

    The work is done by tasks of the cluster, which does it again should a result be lost. Blocks
    without rows are left out; what a filter left of a dataset may have no columns either.
    """
    library = ray()
    blocks = source.to_arrow_refs() if hasattr(source, "to_arrow_refs") else list(source)
    if not blocks or not all(isinstance(block, library.ObjectRef) for block in blocks):
        raise InputError(
            "rows must be a ray.data.Dataset, or references (ray.put) to arrays or tables; arrays "
            "of this process can be given to partial_fit as they are."
        )
    turn = library.remote(num_cpus=0, num_returns=3, max_retries=3)(_turned)
    turned = [turn.remote(block, columns) for block in blocks]
    lengths = get([n for _, n, _ in turned], deadline=deadline)
    about = get([columns for _, _, columns in turned], deadline=deadline)
    for error in about:
        if isinstance(error, InputError):
            raise error
    full = [place for place, n in enumerate(lengths) if n] or [0]
    first = about[full[0]]
    for place in full:
        if about[place] != first:
            raise InputError(
                f"block {place} has other columns than the first: {about[place]} and {first}."
            )
    return (
        [blocks[place] for place in full],
        [turned[place][0] for place in full],
        [lengths[place] for place in full],
        first,
    )


def _turned(block: Any, columns: Sequence[str] | None) -> tuple[Any, int, Any]:
    """Return what `block_rows` does; a refusal as a value, lest Ray print it once per result."""
    try:
        return block_rows(block, columns)
    except InputError as error:
        return None, 0, error


def block_rows(block: Any, columns: Sequence[str] | None) -> tuple[Rows, int, Columns]:
    """Return a block as rows of float64, with their number and what is known of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.distributed.shards import block_rows
    >>> block_rows(np.array([[1, 2]]), None)
    (array([[1., 2.]]), 1, Columns(n=2, names=None, is_sparse=False))
    """
    try:
        rows, names = _entries(block, columns)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"a block does not hold numbers: {error}.") from error
    if rows.ndim != 2:
        raise InputError(f"a block must have rows and columns, but its shape is {rows.shape}.")
    return rows, rows.shape[0], Columns(rows.shape[1], names, sparse.issparse(rows))


def _entries(block: Any, columns: Sequence[str] | None) -> tuple[Rows, tuple[str, ...] | None]:
    """Return the entries of a block, and the names of the columns of a table."""
    if hasattr(block, "column_names") or hasattr(block, "columns"):  # of Arrow, of pandas
        return _table_entries(block, columns)
    if columns is not None:
        raise InputError("columns can be chosen of tables only, but a block is an array.")
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
