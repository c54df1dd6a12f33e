"""Work for the few of many clusters that the rows of a batch may belong to.

With many clusters and many features a cheap score of every cluster picks a few candidates of every
row, and only these are compared exactly. Clusters that are plausible for no row of the batch are
set aside until it is learned. Some rows are compared with all clusters: if their candidates miss
more of the mixture than `_TOLERATED`, the next batch has twice as many candidates, and with too
many of them there is no screening. The candidates of a row depend on nothing but the row and the
clusters, so that results are the same on any number of threads and workers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from scstream.core.assign import AUDITED, LoadedRows
from scstream.core.cluster_edits import put_back, take
from scstream.core.config import Config
from scstream.core.forgetting import unfaded
from scstream.core.state import State
from scstream.core.sweep import mean_params
from scstream.families.base import Array, Family, Labels

_START = 8  # candidates
_SHARE = 4  # with more than a fourth of the clusters as candidates there is no screening
_MIN_CLUSTERS = 64
_MIN_FEATURES = 32
_TOLERATED = 1e-3  # share of the mixture
_PATIENCE = 256  # batches after which fewer candidates are tried
_MANY = 1 << 20  # statistics of all clusters, above which some clusters are set aside
_MOST = 0.9  # share of the clusters above which none are set aside
_SELDOM = 8  # batches between audits of a small model whose screen has missed nothing
_KEY = 16  # statistics by which a table is known to be up to date


@dataclass(frozen=True)
class Near:
    """The clusters that the rows of a batch may belong to."""

    state: State  # with these clusters only
    config: Config  # with room for new clusters beside all of them
    config_of_all: Config
    whole: State
    index: Labels | None  # places of the clusters in the whole; None: all
    tables: tuple[Array, Array] | None  # predictive and screening parameters of the clusters
    n_candidates: int
    error: float  # mean share of the mixture that candidates missed

    def put_back(self, state: State) -> State:
        """Return the whole state after the batch, from that of the near clusters."""
        n = next_candidates(state, self.n_candidates, self.error)
        if self.index is not None:
            state = put_back(self.whole, self.index, state)
        return state.replace(n_candidates=n)


def near_clusters(
    family: Family,
    config: Config,
    state: State,
    rows: LoadedRows,
    cache: Tables,
    *,
    complete: bool,
) -> Near:
    """Find the clusters that rows may belong to, before the rows are learned.

    `cache` has the tables of an earlier batch, and gets those of this one. If the rows are not
    `complete`, but a sample of a batch, no cluster is set aside.
    """
    n_candidates = candidates_of(family, config, state)
    if not n_candidates:
        return Near(state, config, config, state, None, None, 0, float("nan"))
    cache.update(family, unfaded(state))
    tables = cache.clusters, cache.screen
    params = mean_params(
        family,
        config,
        state,
        state,
        births=False,
        subclusters=False,
        tables=tables,
        n_candidates=n_candidates,
    )
    small = state.past.size < _MANY
    if small and n_candidates == _START and state.n_batches % _SELDOM:
        return Near(state, config, config, state, None, tables, n_candidates, float("nan"))
    found = rows.near(params, state.n_batches // _SELDOM % AUDITED)
    error = float(found[-2] / found[-1]) if found[-1] else float("nan")
    index = np.flatnonzero(found[:-2])
    most = len(index) > _MOST * state.n_clusters
    if small or most or not complete or config.kernel.capacity:
        return Near(state, config, config, state, None, tables, n_candidates, error)
    room = config.max_clusters - (state.n_clusters - len(index))
    near = take(state, index)
    return Near(
        near,
        replace(config, max_clusters=room),
        config,
        state,
        index,
        (cache.clusters[index], cache.screen[index]),
        n_candidates,
        error,
    )


def candidates_of(family: Family, config: Config, state: State) -> int:
    """Return the number of candidates of a row, 0 if all clusters are to be compared."""
    few = state.n_clusters < _MIN_CLUSTERS or family.n_features < _MIN_FEATURES
    if few or not config.screening or type(family).screening_params is Family.screening_params:
        return 0
    n = state.n_candidates or _START
    return n if _SHARE * n <= state.n_clusters else 0


def next_candidates(state: State, n: int, error: float) -> int:
    """Return the number of candidates for the next batch, by the error of this one."""
    if error > _TOLERATED:
        return 2 * n
    if n > _START and state.n_batches % _PATIENCE == 0:
        return n // 2
    return n or state.n_candidates


class Tables:
    """Predictive parameters of clusters, computed only for clusters that have changed.

    The statistics of a cluster without new rows stay as they are, to the last bit, and so do its
    tables: it makes no difference whether they are kept or computed again.
    """

    def __init__(self) -> None:
        self._family: Family | None = None
        self._ids = np.zeros(0, np.int64)
        self._key = np.zeros((0, 0))
        self.clusters = np.zeros((0, 0))  # (K, R)
        self.screen = np.zeros((0, 0))  # (K, S)

    @classmethod
    def of(cls, state: State) -> Self:
        """Take the tables of a state, which nobody else may use from now on."""
        kept: Self | None = state.__dict__.pop("tables", None)
        return cls() if kept is None else kept

    def keep(self, state: State) -> None:
        """Let a state have these tables."""
        if len(self._ids):
            state.__dict__["tables"] = self

    def update(self, family: Family, shapes: State) -> None:
        """Compute the tables of the clusters that have changed."""
        key = shapes.past[:, :, :_KEY].sum(axis=1)
        if self._family is not family or not np.array_equal(self._ids, shapes.ids):
            self._rearrange(family, shapes, key.shape[1])
        stale = np.flatnonzero((self._key != key).any(axis=1))
        if len(stale):
            halves = shapes.past[stale]
            stats = halves[:, 0] + halves[:, 1]
            self.clusters[stale] = family.predictive_params(stats)
            self.screen[stale] = family.screening_params(stats)
            self._key[stale] = key[stale]

    def _rearrange(self, family: Family, shapes: State, width: int) -> None:
        """Make room for other clusters; those that are there already keep their tables."""
        n = shapes.n_clusters
        known = np.zeros(0, np.int64)
        if self._family is family:
            known = np.flatnonzero(np.isin(shapes.ids, self._ids))
        place = np.searchsorted(self._ids, shapes.ids[known])
        empty = np.zeros((0, family.n_stats))
        widths = (
            width,
            family.predictive_params(empty).shape[1],
            np.asarray(family.screening_params(empty)).shape[1],
        )
        new = [np.full((n, w), np.nan) for w in widths]
        for array, old in zip(new, (self._key, self.clusters, self.screen), strict=True):
            if len(known):
                array[known] = old[place]
        self._key, self.clusters, self.screen = new
        self._family, self._ids = family, shapes.ids
