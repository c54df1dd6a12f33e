"""Exemplars after an edit by a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from scstream.core.config import Config
from scstream.core.exemplar_choice import add_rows
from scstream.core.exemplars import Exemplars, Keep, best, distinct, follow, union
from scstream.core.notes import Notes
from scstream.core.state import Event, State, ids_in
from scstream.core.steering import MAX_UNDO, Edit
from scstream.families.base import Family, Rows


@dataclass(frozen=True)
class Edited:
    """A model after an edit: its family and settings, its state, and what happened."""

    family: Family
    config: Config
    state: State
    edit: Edit
    events: Sequence[Event]

    @property
    def ids(self) -> set[int]:
        """Ids of the clusters that the edit concerned."""
        return ids_in(self.events)


def edit_exemplars(known: Exemplars, now: Edited, *, keep: Keep) -> Exemplars:
    """Return the exemplars after an edit. `known` are those before it."""
    if now.edit.action == "undo":
        return _undone(known, now, keep)
    moves = now.edit.action == "move"
    changed = set(known.cluster.tolist()) if moves else now.ids
    before = known.of(changed).replace(undo=())
    after = _followed(known, now, keep)
    if now.edit.action in ("move", "seed") and keep.rows and now.edit.rows is not None:
        after = _with_rows(after, now, now.edit.rows, now.events[-1].id, keep)
    undo = (*known.undo, (now.state.n_batches, before))[-MAX_UNDO:]
    return after.replace(undo=undo)


def _followed(known: Exemplars, now: Edited, keep: Keep) -> Exemplars:
    return follow(known, now.family, now.state, now.events, kernel=now.config.kernel, n=keep.n)


def _undone(known: Exemplars, now: Edited, keep: Keep) -> Exemplars:
    """Return the exemplars after the last edit is taken back: those of before, if they are kept."""
    after = _followed(known, now, keep)
    if not known.undo:
        return after
    n_batches, before = known.undo[-1]
    if n_batches == now.state.n_batches:  # they are exactly as they were
        changed = now.ids | set(before.cluster.tolist())
        after = after.take(np.isin(after.cluster, list(changed), invert=True))
    pool = union(after, before)
    pool = pool.take(np.isin(pool.cluster, now.state.ids))
    ranked = best(pool, len(pool), kernel=now.config.kernel, time=now.state.time)
    pool = best(_once(ranked), keep.n, kernel=now.config.kernel, time=now.state.time)
    return pool.counted().replace(undo=known.undo[:-1])


def _once(pool: Exemplars) -> Exemplars:
    """Leave out exemplars that are there twice."""
    if pool.rows is None or not len(pool):
        return distinct(pool)
    keys = zip(pool.cluster.tolist(), _keys(pool.rows), pool.time.tolist(), strict=True)
    first: dict[object, int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    return pool.take(np.array(sorted(first.values())))


def _with_rows(known: Exemplars, now: Edited, rows: Rows, id_: int, keep: Keep) -> Exemplars:
    """Return exemplars with rows that a person put into a cluster; they leave other clusters."""
    given = set(_keys(rows))
    mine = np.array([key in given for key in _keys(known.rows)], dtype=np.bool_)
    there = {key for key, own in zip(_keys(known.rows), mine, strict=True) if own}
    cluster = np.where(mine, id_, known.cluster)
    time = 0.0 if now.state.is_new else now.state.time
    moved = best(known.replace(cluster=cluster), keep.n, kernel=now.config.kernel, time=time)
    new = np.array([key not in there for key in _keys(rows)], dtype=np.bool_)
    own = np.full(int(new.sum()), id_, dtype=np.int64)
    notes = Notes(time=np.full(len(own), time))
    if not len(own):
        return moved.counted()
    return add_rows(
        moved, now.family, now.config, now.state, rows[new], own, notes=notes, keep=keep
    )


def _keys(rows: Rows) -> list[bytes]:
    """Return bytes of every row by which equal rows are known."""
    if not sparse.issparse(rows):
        return [row.tobytes() for row in np.asarray(rows, dtype=np.float64)]
    rows = sparse.csr_array(rows)
    ends = rows.indptr
    return [
        rows.indices[a:b].astype(np.int64).tobytes() + rows.data[a:b].tobytes()
        for a, b in pairwise(ends)
    ]
