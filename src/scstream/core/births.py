"""New clusters from rows that no cluster explains (rows 2 and 3 of the table of changes)."""

from __future__ import annotations

import numpy as np

from scstream.core.archive import recognise
from scstream.core.assign import LoadedRows
from scstream.core.cluster_edits import add_clusters, room_to_grow, subclusters_of
from scstream.core.moves import log_joint
from scstream.core.rng import key_for
from scstream.core.segment import segment
from scstream.core.state import Config, State, Transition
from scstream.families.base import Array, Family, Rows

_MOST_POOLED = 5_000  # rows of a pool that are looked at
_ROWS_PER_CELL = 4
_MOST_CELLS = 400
_MOST_NUMBERS = 1 << 25  # statistics of all cells together: a quarter of a gigabyte


def propose_births(
    family: Family, config: Config, transition: Transition, rows: LoadedRows
) -> Transition:
    """Group the rows that chose no cluster; every group that is large enough is born."""
    state = transition.state
    first = state.n_clusters == 0
    room = config.max_clusters if first else room_to_grow(config, state)
    if room <= 0:
        return transition
    pool, weight = rows.novel(_MOST_POOLED, _key(config, state, "pool"))
    groups = group_pool(family, config, pool, weight, _key(config, state, "seeds"))
    if first:
        groups = one_or_many(family, config, groups)
    large = np.flatnonzero(groups[:, 0] >= config.birth_floor)
    if first and not len(large):
        groups, large = groups.sum(axis=0, keepdims=True), np.array([0])
    if not len(large):
        return transition
    heaviest = np.argsort(-groups[large, 0], kind="stable")[:room]
    newborn = groups[np.sort(large[heaviest])]
    known = recognise(family, state.archive, newborn)
    return add_clusters(transition, subclusters_of(family, config, newborn, newborn), known)


def group_pool(
    family: Family, config: Config, pool: Rows, weight: Array | None, key: int
) -> Array:  # (G, P)
    """Statistics of the agglomerated groups of a pool of rows; rows without weight add nothing."""
    if weight is not None:
        pool, weight = pool[weight > 0], weight[weight > 0]
    if not pool.shape[0]:
        return np.zeros((1, family.n_stats))
    max_n = min(_MOST_CELLS, max(1, _MOST_NUMBERS // family.n_stats))
    n_cells = int(np.clip(pool.shape[0] // _ROWS_PER_CELL, 1, max_n))
    group = segment(family, config, pool, weight, n_cells=n_cells, key=key)
    return family.stats(pool, group, int(group.max()) + 1, weight)


def one_or_many(family: Family, config: Config, groups: Array) -> Array:  # (G, P)
    """Return the groups, or their union where that is more probable than all of them.

    With many features agglomeration can stop half way: no single union pays, although all of them
    together would.
    """
    union = np.asarray(groups.sum(axis=0, keepdims=True))
    if log_joint(family, config.alpha, union) >= log_joint(family, config.alpha, groups):
        return union
    return groups


def _key(config: Config, state: State, purpose: str) -> int:
    return key_for(config.seed, batch=state.n_batches, sweep=0, purpose=purpose)
