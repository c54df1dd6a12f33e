"""Many small chains at once through the real sweep: each lives in a world of its own.

A row carries the number of its world, and clusters of other worlds are out of its reach. So one
call of `sampled_params` and one pass make one independent sweep in every world: draws have the
address of their cluster and of their row, nothing is shared.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scstream.compute.threads import ThreadExecutor
from scstream.core.assign import AssignmentParams
from scstream.core.config import Config
from scstream.core.ratios import log_merge_ratio
from scstream.core.rng import key_for
from scstream.core.state import Batch, State
from scstream.core.sweep import sampled_params
from scstream.core.window import Exponential
from scstream.families.base import Family
from tests.core.states import with_clusters
from tests.statistics.exact import canonical

LONG = os.environ.get("SCSTREAM_LONG") == "1"
MORE = 20 if LONG else 1  # replicates are multiplied by this
# The seed of the short form is pinned; the long form draws other numbers, so its bar is corrected
# for the thirty p-values that it looks at (Bonferroni).
BAR = 0.01 / 30 if LONG else 0.01
WORLDS_AT_ONCE = 512  # whose parameters are drawn together
NEIGHBOURS = 16  # worlds whose rows are scored together, each against the clusters of all
EXECUTOR = ThreadExecutor()


class Worlds:
    """A family whose rows begin with the number of their world; clusters stay within one."""

    compiled = None  # compiled code knows no worlds

    def __init__(self, inner: Family) -> None:
        self.inner = inner
        self.n_stats = inner.n_stats + 1
        self.n_features = inner.n_features + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def stats(self, X, group, n_groups, weight=None):  # (G, P + 1)
        own = self.inner.stats(X[:, 1:], group, n_groups, weight)
        world = np.bincount(group, weights=X[:, 0], minlength=n_groups)
        return np.column_stack([own, world])

    def sample_posterior(self, stats, draws):  # (G, Q + 1)
        # A half without rows has no world, and needs none: only rows of its cluster look at it.
        world = np.full(len(stats), np.nan)
        np.divide(stats[:, -1], stats[:, 0], out=world, where=stats[:, 0] > 0)
        return np.column_stack([self.inner.sample_posterior(stats[:, :-1], draws), np.rint(world)])

    def log_likelihood(self, params, X):  # (N, G)
        out = self.inner.log_likelihood(params[:, :-1], X[:, 1:])
        elsewhere = np.abs(params[:, -1] - X[:, :1]) > 0.5
        return np.where(elsewhere, -np.inf, out)

    def predictive_params(self, stats):
        return self.inner.predictive_params(stats[:, :-1])


def log_split_ratio(family, alpha, left, right):  # (G,)
    return family.kernels.log_split_ratio(family, alpha, left, right)


@dataclass(frozen=True)
class Kernel:
    """The moves under test; each part can be replaced by a broken one."""

    family: Family
    alpha: float
    seed: int = 0
    tampered: Callable[[AssignmentParams, State], AssignmentParams] = lambda params, state: params
    log_ratio: Callable[..., np.ndarray] = log_split_ratio

    @property
    def config(self) -> Config:
        return Config(
            seed=self.seed, alpha=self.alpha, kernel=Exponential(half_life=None), births=False
        )


def sweep(kernel: Kernel, X, labels, *, address: tuple[int, int]):  # (W, n, D), (W, n) -> (W, n)
    """One sampling sweep in every world; a sweep that would empty a cluster is rejected."""
    chosen, _ = choices(kernel, X, labels, address=address)
    n_clusters = labels.max(axis=1) + 1
    here = chosen[:, :, None] == np.arange(n_clusters.max())
    n_found = here.any(axis=1).sum(axis=1)
    return np.where((n_found == n_clusters)[:, None], chosen, labels)


def choices(kernel: Kernel, X, labels, *, sides=None, address: tuple[int, int]):
    """Cluster and half that every row chooses, both (W, n); halves are even unless given."""
    n_worlds, n_rows = labels.shape
    family = Worlds(kernel.family)
    bounds = np.append(0, np.cumsum(labels.max(axis=1) + 1))  # of the clusters of each world
    rows = np.column_stack([np.repeat(np.arange(n_worlds), n_rows), X.reshape(-1, X.shape[2])])
    state = state_of(family, rows, (bounds[:-1, None] + labels).reshape(-1), sides)
    state = replace(state, n_batches=address[0])
    params = sampled_params(family, kernel.config, state, state, sweep=address[1], births=False)
    params = kernel.tampered(params, state)
    half = np.empty(labels.shape, dtype=np.int64)
    for start in range(0, n_worlds, NEIGHBOURS):
        part = slice(start, min(start + NEIGHBOURS, n_worlds))
        near = slice(bounds[part.start], bounds[part.stop])
        here = rows[part.start * n_rows : part.stop * n_rows]
        loaded = EXECUTOR.load(family, Batch(here, 0.0))
        key = key_for(
            kernel.seed, batch=address[0], sweep=address[1] + (start << 32), purpose="labels"
        )
        loaded.assign(excerpt(params, near, key))
        names = np.arange(2 * near.start, 2 * near.stop).reshape(-1, 2)
        half[part] = loaded.labels(names)[0].reshape(-1, n_rows)
    return half // 2 - bounds[:-1, None], half % 2


def excerpt(params: AssignmentParams, near: slice, key: int) -> AssignmentParams:
    """The parameters for rows that have only these clusters within reach."""
    return replace(
        params,
        clusters=params.clusters[near],
        subclusters=params.subclusters[2 * near.start : 2 * near.stop],
        log_weight=params.log_weight[near],
        log_subweight=params.log_subweight[near],
        key=None if params.key is None else key,
    )


def state_of(family, rows, group, sides) -> State:
    n_groups = group.max() + 1
    if sides is None:
        clusters = family.stats(rows, group, n_groups)
        subclusters = np.stack([clusters / 2.0, clusters / 2.0], axis=1)
    else:
        subclusters = family.stats(rows, 2 * group + sides.reshape(-1), 2 * n_groups)
        subclusters = subclusters.reshape(n_groups, 2, -1)
    return with_clusters(family, subclusters)


def split_or_merge(kernel: Kernel, X, labels, rng):  # (W, n, D), (W, n) -> (W, n)
    """Simple random split-merge of Jain and Neal, decided by the ratio of `core.moves`.

    A pair of rows is picked. If they are together, a split of their cluster is proposed, its other
    rows thrown to either side by fair coins (one of 2^(N-2) ways); if they are apart, the union of
    their clusters is proposed (in one way).
    """
    n_worlds, n_rows = labels.shape
    world = np.arange(n_worlds)
    pair = rng.random((n_worlds, n_rows)).argsort(axis=1)[:, :2]
    one, two = labels[world, pair[:, 0]], labels[world, pair[:, 1]]
    together = one == two
    apart = np.where(labels == two[:, None], 1, 0)
    side = np.where(together[:, None], rng.random(labels.shape) < 0.5, apart)
    side[world, pair[:, 0]], side[world, pair[:, 1]] = 0, 1
    involved = (labels == one[:, None]) | (labels == two[:, None])
    group = np.where(involved, 2 * world[:, None] + side, -1).reshape(-1)
    subclusters = kernel.family.stats(X.reshape(-1, X.shape[2]), group, 2 * n_worlds)
    log_coins = (2.0 - involved.sum(axis=1)) * np.log(2.0)
    log_accept = np.where(
        together,
        log_split(kernel, subclusters) - log_coins,
        log_merge(kernel, subclusters) + log_coins,
    )
    accepted = np.log(rng.random(n_worlds)) < log_accept
    new = np.where(together, n_rows, one)[:, None]  # a label that nobody has, or that of the other
    moved = np.where(involved & (side == 1), new, labels)
    return canonical(np.where(accepted[:, None], moved, labels))


def log_split(kernel: Kernel, subclusters):  # (2W, P) -> (W,)
    return kernel.log_ratio(kernel.family, kernel.alpha, subclusters[::2], subclusters[1::2])


def log_merge(kernel: Kernel, subclusters):  # (2W, P) -> (W,)
    if kernel.log_ratio is not log_split_ratio:
        return -log_split(kernel, subclusters)
    index = np.arange(0, len(subclusters), 2)
    pairs = (index, index + 1)
    return log_merge_ratio(kernel.family, kernel.alpha, subclusters, pairs)


def run(kernel: Kernel, X, labels, *, n_steps: int, with_moves: bool):  # (n, D), (W, n) -> (W, n)
    """Every world by itself: `n_steps` sweeps, each followed by a split or merge if wanted."""
    ends = []
    for chunk, start in enumerate(range(0, len(labels), WORLDS_AT_ONCE)):
        part = labels[start : start + WORLDS_AT_ONCE]
        rows = np.broadcast_to(X, (len(part), *X.shape))
        rng = np.random.default_rng([kernel.seed, chunk])
        for step in range(n_steps):
            part = sweep(kernel, rows, part, address=(chunk, step))
            if with_moves:
                part = split_or_merge(kernel, rows, part, rng)
        ends.append(part)
    return np.concatenate(ends)
