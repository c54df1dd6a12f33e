"""New clusters from rows that no cluster explains."""

from __future__ import annotations

import numpy as np

from scstream.core.archive import recognise
from scstream.core.assign import LoadedRows
from scstream.core.cluster_edits import EditRules, add_clusters, max_added, subclusters_of
from scstream.core.config import Config
from scstream.core.ratios import log_joint, log_merge_ratio
from scstream.core.rng import key_for
from scstream.core.segment import segment
from scstream.core.state import State, Transition
from scstream.families.base import Array, Family, Labels, Rows

_MAX_POOL = 5_000  # rows of a pool that are grouped
MAX_COMPARED = 1_000  # the same where all rows are compared with each other
_ROWS_PER_CELL = 4
_MAX_CELLS = 400
_TINY = float(np.finfo(np.float64).tiny)
_MAX_NUMBERS = 1 << 25  # statistics of all cells together: a quarter of a gigabyte


def propose_births(
    family: Family, config: Config, rules: EditRules, transition: Transition, rows: LoadedRows
) -> Transition:
    """Group the rows that no cluster explains; every group that is heavy enough is born."""
    state = transition.state
    first = state.n_clusters == 0
    room = config.max_clusters if first else max_added(config, state)
    if room <= 0:
        return transition
    max_pool = MAX_COMPARED if family.collapsed else _MAX_POOL
    pool, weight = rows.novel(max_pool, _key(config, state, "pool"))
    if family.collapsed and not first:
        pool, weight = _founders(family, state.cluster_stats, pool, weight)
    groups = group_rows(family, config, pool, weight, _key(config, state, "seeds"))
    if first:
        groups = one_or_many(family, config, groups)
    elif family.collapsed:
        groups = groups[log_birth_ratio(family, config.alpha, state.cluster_stats, groups) > 0]
    large = np.flatnonzero(groups[:, 0] >= config.min_birth_weight)
    if first and not len(large):
        groups, large = groups.sum(axis=0, keepdims=True), np.array([0])
    if not len(large):
        return transition
    heaviest = np.argsort(-groups[large, 0], kind="stable")[:room]
    newborn = groups[np.sort(large[heaviest])]
    known = recognise(family, state.archive, newborn)
    return add_clusters(transition, subclusters_of(family, rules, newborn, newborn), known)


def _founders(
    family: Family, clusters: Array, pool: Rows, weight: Array | None
) -> tuple[Rows, Array | None]:
    """Leave out rows that are more probable in a cluster than in any new one."""
    scores = family.log_predictive(family.predictive_params(clusters), pool)
    scores += np.log(np.maximum(clusters[:, 0], _TINY))
    keep = family.may_found(pool, scores.max(axis=1))
    return pool[keep], None if weight is None else weight[keep]


def group_rows(
    family: Family, config: Config, pool: Rows, weight: Array | None, key: int
) -> Array:  # (G, P)
    """Return the statistics of groups of rows; rows without weight are left out."""
    if weight is not None:
        pool, weight = pool[weight > 0], weight[weight > 0]
    if not pool.shape[0]:
        return np.zeros((1, family.n_stats))
    group = group_labels(family, config, pool, weight, key)
    return family.stats(pool, group, int(group.max()) + 1, weight)


def group_labels(
    family: Family, config: Config, pool: Rows, weight: Array | None, key: int
) -> Labels:  # (N,)
    """Label the rows of a pool by groups 0 .. G-1."""
    max_cells = min(_MAX_CELLS, max(1, _MAX_NUMBERS // family.n_stats))
    n_cells = int(np.clip(pool.shape[0] // _ROWS_PER_CELL, 1, max_cells))
    return segment(family, config, pool, weight, n_cells=n_cells, key=key)


def log_birth_ratio(family: Family, alpha: float, clusters: Array, groups: Array) -> Array:  # (G,)
    """Log odds of a group as a new cluster against its union with the best cluster."""
    k, g = len(clusters), len(groups)
    if not (k and g):
        return np.full(g, np.inf)
    both = np.concatenate([clusters, groups])
    pairs = np.tile(np.arange(k), g), k + np.repeat(np.arange(g), k)
    ratio = log_merge_ratio(family, alpha, both, pairs).reshape(g, k)
    return np.asarray(-ratio.max(axis=1))


def one_or_many(family: Family, config: Config, groups: Array) -> Array:  # (G, P)
    """Return the groups, or their union if that is more probable than all of them.

    With many features agglomeration can stop early: no union of two groups is more probable than
    the two, although the union of all of them would be.
    """
    union = np.asarray(groups.sum(axis=0, keepdims=True))
    if log_joint(family, config.alpha, union) >= log_joint(family, config.alpha, groups):
        return union
    return groups


def _key(config: Config, state: State, purpose: str) -> int:
    return key_for(config.seed, batch=state.n_batches, sweep=0, purpose=purpose)
