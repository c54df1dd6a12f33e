"""Exemplars: a few typical rows of every cluster, kept while the stream goes by.

A row is the more typical of its cluster the denser the cluster is at it. Its score is the log
density in standard deviations above the mean of the rows of the cluster. It loses a quarter of one
with every half-life, so that exemplars follow a cluster that moves. The best few of every cluster
are kept: those of a union of two sets are the best of both, in any order. How rows are chosen from
a batch is in `scstream.core.exemplar_choice`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.core.notes import Marks
from scstream.core.state import Event, State
from scstream.core.window import Kernel
from scstream.errors import InputError
from scstream.families.base import Array, Family, Labels, Rows

_LOSS = 0.25  # standard deviations that an exemplar loses in a half-life
_MOST = 1000  # exemplars of a cluster
_SETTINGS = ("n", "rows", "save", "id", "text")


@dataclass(frozen=True)
class Exemplar:
    """A typical row of a cluster.

    Attributes
    ----------
    row : array of shape (D,) or None
        The row, None if rows are not kept. A row of a sparse matrix is a CSR array of shape (1, D).
    id : str, int or None
        The id that was given with it.
    text : str or None
        The text that was given with it: at most its first 2,000 characters.
    score : float
        Its log density under the cluster, in standard deviations above the mean of the cluster.
    time : float
        Time of the row.

    Examples
    --------
    >>> from scstream import ScStream
    >>> X = [[0.0], [0.1], [0.2], [0.3], [0.9]]
    >>> model = ScStream(exemplars=1, random_state=0).partial_fit(X, ids=["a", "b", "c", "d", "e"])
    >>> model.exemplars_[0][0].id
    'd'
    """

    row: Any = field(repr=False)
    id: str | int | None
    text: str | None
    score: float
    time: float


@dataclass(frozen=True)
class Keep:
    """How many exemplars to keep, and what of them.

    Parameters
    ----------
    n : int
        Exemplars of a cluster; 0 keeps none.
    rows : bool
        Whether to keep the rows, or only ids and texts.
    save : bool
        Whether model files and checkpoints contain them.
    id, text : str or None
        Columns of a pipeline's messages with ids and texts of rows.
    """

    n: int = 0
    rows: bool = True
    save: bool = False
    id: str | None = None
    text: str | None = None


@dataclass(frozen=True, eq=False)
class Exemplars:
    """The exemplars of all clusters, by cluster and the best first."""

    cluster: Labels  # (E,) ids
    score: Array  # (E,)
    time: Array  # (E,)
    rows: Rows  # (E, D); None if they are not kept
    id: Marks  # (E,)
    text: Marks  # (E,)
    usual_of: Labels  # (U,) ids of clusters
    usual: Array  # (U, 3) faded number, mean and variance of the log densities of their rows
    at: float  # time of the last rows
    n_covered: int = 0  # clusters that have exemplars
    n_looks: int = 0  # batches whose rows were compared
    n_skipped: int = 0  # batches since then
    undo: tuple[tuple[int, Exemplars], ...] = ()  # batches before an edit, and what it changed

    @classmethod
    def empty(cls, n_features: int, *, rows: bool) -> Exemplars:
        """Return no exemplars."""
        none = np.zeros(0)
        ids, marks = none.astype(np.int64), none.astype(object)
        own = np.zeros((0, n_features)) if rows else None
        return cls(ids, none, none, own, marks, marks, ids, np.zeros((0, 3)), -np.inf)

    def __len__(self) -> int:
        return len(self.cluster)

    def replace(self, **changes: Any) -> Exemplars:
        """Return a copy with some fields changed; it is faster than `dataclasses.replace`."""
        other = object.__new__(Exemplars)
        vars(other).update(vars(self), **changes)
        return other

    def take(self, index: Any) -> Exemplars:
        """Return some of the exemplars."""
        rows = None if self.rows is None else self.rows[index]
        return self.replace(
            cluster=self.cluster[index],
            score=self.score[index],
            time=self.time[index],
            rows=rows,
            id=self.id[index],
            text=self.text[index],
        )

    def begun(self, time: float) -> Exemplars:
        """Return exemplars of seeds at the time of the first batch."""
        return self.replace(time=np.full(len(self), time), at=time)

    def counted(self) -> Exemplars:
        """Return the exemplars with the number of clusters that have some."""
        starts = np.count_nonzero(np.diff(np.sort(self.cluster)))
        return self.replace(n_covered=int(starts) + bool(len(self)))

    def relabelled(self, cluster: Labels) -> Exemplars:
        """Return the exemplars with other ids of clusters."""
        return self.replace(cluster=cluster)

    def of(self, ids: Iterable[int]) -> Exemplars:
        """Return the exemplars of some clusters."""
        return self.take(np.isin(self.cluster, list(ids)))

    def to_list(self) -> list[Exemplar]:
        """Return the exemplars as records."""
        return [self._record(e) for e in range(len(self))]

    def _record(self, e: int) -> Exemplar:
        row = None if self.rows is None else self.rows[[e]]
        if isinstance(row, np.ndarray):
            row = row[0]
        return Exemplar(row, self.id[e], self.text[e], float(self.score[e]), float(self.time[e]))

    def by_cluster(self) -> dict[int, list[Exemplar]]:
        """Return the exemplars as records, by the id of their cluster."""
        found: dict[int, list[Exemplar]] = {}
        for id_, record in zip(self.cluster.tolist(), self.to_list(), strict=True):
            found.setdefault(id_, []).append(record)
        return found


def best(pool: Exemplars, n: int, *, kernel: Kernel, time: float) -> Exemplars:
    """Return the best `n` exemplars of every cluster at a time."""
    order = ranked(pool.cluster, pool.score - lost(kernel, time - pool.time), n)
    return pool.take(order)


def union(first: Exemplars, second: Exemplars) -> Exemplars:
    """Return all exemplars of two sets."""
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in _COLUMNS}
    joined: dict[str, Any] = {name: np.concatenate(pair) for name, pair in pairs.items()}
    rows = None if first.rows is None or second.rows is None else stacked(first.rows, second.rows)
    return first.replace(**joined, rows=rows, at=max(first.at, second.at))


_COLUMNS = ("cluster", "score", "time", "id", "text")


def lost(kernel: Kernel, age: Array) -> Array:
    """Return how much exemplars of these ages have lost: the same with every half-life."""
    with np.errstate(divide="ignore"):
        return np.asarray(-_LOSS * np.log2(kernel.weight(np.maximum(age, 0.0))))


def follow(
    known: Exemplars,
    family: Family,
    state: State,
    events: Sequence[Event],
    *,
    kernel: Kernel,
    n: int,
) -> Exemplars:
    """Return the exemplars after clusters have merged, split and ended.

    Those of a cluster that has split go to the part that is denser at them. The best `n` of every
    cluster are left.
    """
    heirs, parts = _lineage(events)
    if not heirs and not parts and among(known.cluster, state.ids).all():
        return known
    cluster, score = known.cluster.copy(), known.score
    for gone, heir in heirs:
        cluster[cluster == gone] = heir
    changed = {*parts, *(heir for _, heir in heirs)}
    for first, ids in parts.items():
        here = np.flatnonzero(cluster == first)
        alive = np.array([id_ for id_ in ids if id_ in state.ids], dtype=np.int64)
        if len(here) and len(alive) and known.rows is not None:
            index = np.searchsorted(state.ids, alive)
            stats = (state.past[index] + state.current[index]).sum(axis=1)
            density = family.log_predictive(family.predictive_params(stats), known.rows[here])
            cluster[here] = alive[density.argmax(axis=1)]
    if known.rows is None and changed:  # they cannot be compared again
        score = score - np.isin(cluster, list(changed))
    fresh = np.isin(known.usual_of, list(changed), invert=True)
    moved = known.replace(
        cluster=cluster,
        score=score,
        usual_of=known.usual_of[fresh],
        usual=known.usual[fresh],
    )
    moved = moved.take(among(cluster, state.ids))
    return best(moved, n, kernel=kernel, time=state.time).counted()


def _lineage(events: Sequence[Event]) -> tuple[list[tuple[int, int]], dict[int, list[int]]]:
    """Return pairs of clusters (absorbed, heir) in order, and the parts of those that split."""
    heirs: list[tuple[int, int]] = []
    parts: dict[int, list[int]] = {}
    first: dict[int, int] = {}
    for event in events:
        if event.other is None:
            continue
        if event.kind == "merged":
            heirs.append((event.other, event.id))
        elif event.kind == "split":
            root = first.setdefault(event.id, event.id)
            first[event.other] = root
            parts.setdefault(root, [root]).append(event.other)
    return heirs, parts


def distinct(exemplars: Exemplars) -> Exemplars:
    """Leave out an exemplar whose id another one of its cluster has: the newer one stays."""
    newest: dict[tuple[int, Any], int] = {}
    pairs = list(zip(exemplars.cluster.tolist(), exemplars.id.tolist(), strict=True))
    for place, (pair, time) in enumerate(zip(pairs, exemplars.time.tolist(), strict=True)):
        if pair not in newest or time > exemplars.time[newest[pair]]:
            newest[pair] = place
    if len(newest) == len(pairs):
        return exemplars
    kept = [place for place, pair in enumerate(pairs) if pair[1] is None or newest[pair] == place]
    return exemplars.take(np.array(kept))


def ranked(cluster: Labels, value: Array, n: int) -> Labels:
    """Return the places of the `n` largest values of every cluster; earlier ones win ties."""
    order = np.lexsort((-value, cluster))
    ordered = cluster[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return order[(rank < n) & (value[order] > -np.inf)]


def stacked(first: Rows, second: Rows) -> Rows:
    """Return the rows of two tables below each other."""
    if sparse.issparse(first) or sparse.issparse(second):
        parts = [sparse.csr_array(each) for each in (first, second) if each.shape[0]]
        return sparse.vstack(parts, format="csr") if parts else first
    return np.concatenate([first, second])


def read_keep(value: Any) -> Keep:
    """Return what the parameter `exemplars` means; raise `InputError` for another value."""
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in _SETTINGS]
        if unknown:
            known = ", ".join(_SETTINGS)
            raise InputError(f"exemplars has no setting {unknown[0]!r}; it has {known}.")
        n, rows, save = value.get("n", 5), value.get("rows", True), value.get("save", False)
        columns = value.get("id"), value.get("text")
    else:
        n, rows, save, columns = value, True, False, (None, None)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 0 <= n <= _MOST:
        raise InputError(f"exemplars must be a whole number from 0 to {_MOST}, got {n!r}.")
    for name, flag in (("rows", rows), ("save", save)):
        if not isinstance(flag, bool | np.bool_):
            raise InputError(f"exemplars: {name} must be True or False, got {flag!r}.")
    for name, column in zip(("id", "text"), columns, strict=True):
        if not isinstance(column, str | None):
            raise InputError(f"exemplars: {name} must be the name of a column, got {column!r}.")
    return Keep(int(n), bool(rows), bool(save), *columns)


def among(values: Labels, ids: Labels) -> NDArray[np.bool_]:
    """Return which values are among increasing ids; it is faster than `np.isin`."""
    if not len(ids):
        return np.zeros(len(values), dtype=np.bool_)
    return np.asarray(ids[np.minimum(np.searchsorted(ids, values), len(ids) - 1)] == values)
