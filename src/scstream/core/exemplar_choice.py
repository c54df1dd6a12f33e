"""Choose exemplars from the rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.core.config import Config
from scstream.core.exemplars import (
    Exemplars,
    Keep,
    among,
    distinct,
    follow,
    lost,
    ranked,
    stacked,
)
from scstream.core.notes import NO_NOTES, Marks, Notes
from scstream.core.rng import key_for, spaced_rows
from scstream.core.state import NOVEL, Batch, Event, State
from scstream.core.window import Kernel
from scstream.families.base import Array, Family, Labels, Rows

MAX_TEXT = 2000  # characters of a text that are kept
_MIN_CANDIDATES = 256  # rows of a batch that are compared with their clusters
_SHARE = 16  # of a large batch one of so many rows
_CHEAP = 1 << 16  # entries of tables times rows that cost little
_MANY = 1 << 21  # from here on every cluster is compared with its own rows alone
_EVERY = 8  # batches of which the rows of one are compared
_YOUNG = 8  # batches that are all compared
_FEW = 32  # candidates of a cluster that has too few exemplars
_TINY = float(np.finfo(float).tiny)


def learn_exemplars(
    known: Exemplars,
    family: Family,
    config: Config,
    state: State,
    batch: Batch,
    labels: Labels,
    events: Sequence[Event],
    *,
    keep: Keep,
) -> Exemplars:
    """Return the exemplars after a batch, whose rows have these labels in this state.

    Not all rows are compared with their clusters: of a large batch some, and of a long stream those
    of every eighth batch and of batches in which a cluster has its first rows. They are the same
    on any number of threads and workers.
    """
    rules: Any = {"kernel": config.kernel, "n": keep.n}
    if events:
        known = follow(known, family, state, events, **rules)
    if not _is_due(known, state):
        return known.replace(n_skipped=known.n_skipped + 1)
    known = follow(known, family, state, (), **rules)
    picked = _candidates(known, family, config, state, batch, labels, keep.n)
    if not len(picked):
        return known
    notes = (batch.notes or NO_NOTES).take(picked)
    if notes.time is None:
        notes = Notes(notes.ids, notes.texts, np.full(len(picked), batch.time))
    known = known.replace(n_looks=known.n_looks + 1, n_skipped=0)
    return add_rows(
        known, family, config, state, batch.rows[picked], labels[picked], notes=notes, keep=keep
    )


def add_rows(
    known: Exemplars,
    family: Family,
    config: Config,
    state: State,
    rows: Rows,
    own: Labels,
    *,
    notes: Notes,
    keep: Keep,
) -> Exemplars:
    """Return the best of known exemplars and of rows, which are in clusters with these ids."""
    group, index = _places(state, own)
    tables = family.predictive_params(state.subclusters_at(index).sum(axis=1))
    density, gaps = _typicality(family, tables, rows, group), _gaps(family, rows)
    valid = np.isfinite(density)
    if not valid.all():
        own, group, density, gaps = own[valid], group[valid], density[valid], gaps[valid]
        rows, notes = rows[valid], notes.take(valid)
    now = 0.0 if state.is_new else state.time
    left = float(config.kernel.weight(np.asarray(max(now - known.at, 0.0))))
    usual = _usual(known, state.ids, index, group, density, left)
    known = known.replace(usual_of=state.ids, usual=usual, at=now)
    known = _rescored(known, family, tables, state.ids[index], state.n_batches)
    score = _standard(density, usual[index[group]]) - gaps
    return _with_new(known, rows, own, score, notes, kernel=config.kernel, keep=keep)


def _is_due(known: Exemplars, state: State) -> bool:
    """Return True if the rows of this batch are to be compared with their clusters."""
    if known.n_looks < _YOUNG or known.n_skipped + 1 >= _EVERY:
        return True
    if known.n_covered == state.n_clusters:
        return False
    active = state.last_seen == state.time
    return bool((active & np.isin(state.ids, known.cluster, invert=True)).any())


def _candidates(
    known: Exemplars,
    family: Family,
    config: Config,
    state: State,
    batch: Batch,
    labels: Labels,
    n: int,
) -> Labels:
    """Return the positions of rows that may become exemplars, increasing."""
    n_rows = len(labels)
    size = 2 * max(state.n_clusters, 1) * max(family.n_features, 1)
    most = max(_MIN_CANDIDATES, n_rows // _SHARE, _CHEAP // size)
    if n_rows <= most:
        picked = np.arange(n_rows)
    else:
        key = key_for(config.seed, batch=state.n_batches, sweep=0, purpose="exemplars")
        picked = spaced_rows(family.kernels, key, n_rows, most)
        count = np.bincount(np.searchsorted(state.ids, known.cluster), minlength=state.n_clusters)
        if (count < n).any():
            more = _rows_of(state.ids, count < n, labels)
            picked = np.unique(np.concatenate([picked, more]))
    use = among(labels[picked], state.ids)  # not those without a cluster
    if batch.weight is not None:
        use &= batch.weight[picked] > 0
    return picked[use]


def _rows_of(ids: Labels, wanted: NDArray[np.bool_], labels: Labels) -> Labels:
    """Return the positions of the first few rows of some clusters."""
    place = np.searchsorted(ids, labels)  # 0 for rows without a cluster
    rows = np.flatnonzero(wanted[place] & (labels != NOVEL))
    return rows[ranked(place[rows], np.zeros(len(rows)), _FEW)]


def _places(state: State, own: Labels) -> tuple[Labels, Labels]:
    """Return the group of every row, and the places of these groups among the clusters."""
    place = np.searchsorted(state.ids, own)
    index = np.flatnonzero(np.bincount(place, minlength=state.n_clusters))
    if len(index) == state.n_clusters:
        return place, index
    return np.searchsorted(index, place), index


def _typicality(family: Family, tables: Array, rows: Rows, group: Labels) -> Array:  # (N,)
    """Return how typical every row is of its group."""
    if tables.size * len(group) <= _MANY:
        density = family.log_predictive(tables, rows)[np.arange(len(group)), group]
        return family.typicality(rows, density)
    out = np.empty(len(group))
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(tables) + 1))
    for g in range(len(tables)):
        own = order[starts[g] : starts[g + 1]]
        if len(own):
            out[own] = family.log_predictive(tables[g : g + 1], rows[own])[:, 0]
    return family.typicality(rows, out)


def _gaps(family: Family, rows: Rows) -> Array:  # (N,)
    """Return what rows lose for entries that are missing: one for each."""
    if not family.handles_missing or sparse.issparse(rows):
        return np.zeros(rows.shape[0])
    return np.asarray(np.isnan(rows).sum(axis=1), dtype=np.float64)


def _usual(
    known: Exemplars, ids: Labels, index: Labels, group: Labels, density: Array, left: float
) -> Array:  # (K, 3)
    """Add log densities of rows to the number, mean and variance of every cluster."""
    out = np.zeros((len(ids), 3))
    if known.usual_of is ids or np.array_equal(known.usual_of, ids):
        out[:] = known.usual
    else:
        there = among(known.usual_of, ids)
        out[np.searchsorted(ids, known.usual_of[there])] = known.usual[there]
    out[:, 0] *= left
    n = np.bincount(group, minlength=len(index))
    count = np.maximum(n, 1)
    mean = np.bincount(group, density, minlength=len(index)) / count
    square = np.square(density - mean[group])
    variance = np.bincount(group, square, minlength=len(index)) / count
    weight, old_mean, old_variance = out[index].T
    total = np.maximum(weight + n, _TINY)
    step, gap = n / total, mean - old_mean
    spread = (weight * old_variance + n * variance) / total + weight / total * step * gap**2
    out[index] = np.array([total, old_mean + step * gap, spread]).T
    return out


def _standard(density: Array, usual: Array) -> Array:  # (N,), (N, 3) -> (N,)
    """Return log densities in standard deviations above the mean of their clusters."""
    std = np.sqrt(usual[:, 2])
    floor = 1e-9 * (1.0 + np.abs(usual[:, 1]))
    return np.asarray((density - usual[:, 1]) / np.maximum(std, floor))


def _rescored(
    known: Exemplars, family: Family, tables: Array, present: Labels, n_batches: int
) -> Exemplars:
    """Return exemplars with scores under the clusters of now; of many, some in every batch."""
    if known.rows is None or not len(known):
        return known
    turns = -(-len(known) // _MIN_CANDIDATES)
    place = np.minimum(np.searchsorted(present, known.cluster), len(present) - 1)
    due = present[place] == known.cluster
    if turns > 1:
        due &= known.cluster % turns == n_batches % turns
    due = np.flatnonzero(due)
    if not len(due):
        return known
    rows = known.rows if len(due) == len(known) else known.rows[due]
    usual = known.usual[np.searchsorted(known.usual_of, known.cluster[due])]
    score = known.score.copy()
    density = _typicality(family, tables, rows, place[due])
    score[due] = _standard(density, usual) - _gaps(family, rows)
    return known.replace(score=score)


def _with_new(
    known: Exemplars,
    rows: Rows,
    own: Labels,
    score: Array,
    notes: Notes,
    *,
    kernel: Kernel,
    keep: Keep,
) -> Exemplars:
    """Return the best of known exemplars and of new rows."""
    value = known.score - lost(kernel, known.at - known.time)
    wins = np.flatnonzero(score > _least(known.cluster, value, own, keep.n))
    notes = notes.take(wins)
    cluster = np.concatenate([known.cluster, own[wins]])
    scores = np.concatenate([known.score, score[wins]])
    time = np.concatenate([known.time, notes.time])
    order = ranked(cluster, scores - lost(kernel, known.at - time), keep.n)
    out = known.replace(
        cluster=cluster[order],
        score=scores[order],
        time=time[order],
        rows=_mixed(known.rows, rows, order, wins) if keep.rows else None,
        id=_marks(known.id, notes.ids, order),
        text=_marks(known.text, notes.texts, order),
    )
    return (out if notes.ids is None else distinct(out)).counted()


def _least(cluster: Labels, value: Array, own: Labels, n: int) -> Array:  # (N,)
    """Return the values above which rows may be among the best `n` of their clusters."""
    if not len(cluster):
        return np.full(len(own), -np.inf)
    starts = np.flatnonzero(np.append(True, cluster[1:] != cluster[:-1]))
    least = np.minimum.reduceat(value, starts)
    least[np.diff(np.append(starts, len(cluster))) < n] = -np.inf
    ids = cluster[starts]
    place = np.minimum(np.searchsorted(ids, own), len(ids) - 1)
    return np.where(ids[place] == own, least[place], -np.inf)


def _mixed(old: Rows, new: Rows, order: Labels, wins: Labels) -> Rows:
    """Return old rows and those of the new ones that win, by their places below each other."""
    n_old = old.shape[0]
    if sparse.issparse(new) or sparse.issparse(old):
        return new[wins[order]] if not n_old else stacked(old, new[wins])[order]
    out = np.empty((len(order), new.shape[1]))
    is_new = order >= n_old
    out[~is_new] = old[order[~is_new]]
    out[is_new] = new[wins[order[is_new] - n_old]]
    return out


def _marks(old: Marks, new: Marks | None, order: Labels) -> Marks:
    """Return ids or texts of exemplars, those of new rows as plain values."""
    out = np.full(len(order), None, dtype=object)
    is_new = order >= len(old)
    out[~is_new] = old[order[~is_new]]
    if new is not None:
        for place in np.flatnonzero(is_new):
            out[place] = _plain(new[order[place] - len(old)])
    return out


def _plain(value: Any) -> str | int | None:
    """Return an id or a text as a file can hold it."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    return str(value)[:MAX_TEXT]
