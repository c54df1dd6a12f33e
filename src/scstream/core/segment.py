"""Groups of rows without clusters: k-means++ cells, then agglomeration by the merge ratio.

The first batch and the rows that no cluster explains are grouped here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scstream.core.config import Config
from scstream.core.ratios import disjoint, log_merge_ratio, nearest_pairs
from scstream.families.base import Array, Family, Labels, Rows, unit_weight
from scstream.kernels import Kernels
from scstream.kernels.reference import square_distances

_LLOYD_ROUNDS = 5
_REASSIGN_ROUNDS = 3
_CANDIDATES = 8  # nearest groups tried as partners
_MAX_STATS = 20_000  # statistics per row beyond which rows are not reassigned one by one
_TINY = np.finfo(float).tiny


def segment(
    family: Family, config: Config, X: Rows, weight: Array | None, *, n_cells: int, key: int
) -> Labels:  # (N,)
    """Label the rows by agglomerated groups 0 .. G-1."""
    weight = unit_weight(X, weight)
    points = family.coordinates(X)
    make_cells = nearest_seeds if family.collapsed else seed_cells
    cell = make_cells(family.kernels, points, weight, n_cells=n_cells, key=key)
    for _ in range(2):
        cell = reassign_cells(family, config.alpha, X, weight, cell)
        stats = family.stats(X, cell, int(cell.max()) + 1, weight)
        cell = agglomerate(family, config.alpha, stats)[cell]
    return cell


def reassign_cells(
    family: Family, alpha: float, X: Rows, weight: Array, cell: Labels
) -> Labels:  # (N,)
    """Move every row to the cell that predicts it best without it, a few times."""
    if family.n_stats > _MAX_STATS:
        return cell
    alone = family.log_predictive(family.prior_predictive, X)[:, 0]
    for _ in range(_REASSIGN_ROUNDS):
        stats = family.stats(X, cell, int(cell.max()) + 1, weight)
        count = np.maximum(stats[:, 0], _TINY)  # rows may weigh nothing
        scores = family.log_predictive(family.predictive_params(stats), X) + np.log(count)
        others = np.maximum(stats[cell, 0] - weight, _TINY)
        own = family.log_leave_one_out(X, weight, cell, stats) / np.maximum(
            weight, 1e-300
        ) + np.log(others)
        lonely = stats[cell, 0] <= weight
        scores[np.arange(len(cell)), cell] = np.where(lonely, alone + np.log(alpha), own)
        cell = np.unique(scores.argmax(axis=1), return_inverse=True)[1]
    return cell


def seed_cells(
    kernels: Kernels, points: Array, weight: Array, *, n_cells: int, key: int
) -> Labels:  # (N,)
    """Partition points into at most `n_cells` non-empty cells: k-means++, then Lloyd."""
    chance = kernels.uniforms(key, np.arange(n_cells))[:, 0]
    squares = (points**2).sum(axis=1)
    chosen = _plus_plus(lambda seed: _distances_to(points, squares, seed), weight, chance)
    centres = points[chosen]
    for _ in range(_LLOYD_ROUNDS):
        cell = square_distances(points, centres).argmin(axis=1)
        used, cell = np.unique(cell, return_inverse=True)
        share = np.zeros((len(used), len(points)))
        share[cell, np.arange(len(points))] = weight
        centres = (share @ points) / np.maximum(share.sum(axis=1), 1e-300)[:, None]
    return np.asarray(cell, dtype=np.int64)


def nearest_seeds(
    kernels: Kernels, points: Array, weight: Array, *, n_cells: int, key: int
) -> Labels:  # (N,)
    """Partition points by the nearest k-means++ seed; all distances are computed at once."""
    distances = square_distances(points, points)
    chance = kernels.uniforms(key, np.arange(n_cells))[:, 0]
    chosen = _plus_plus(lambda seed: distances[seed], weight, chance)
    cell = distances[:, chosen].argmin(axis=1)
    return np.unique(cell, return_inverse=True)[1]


def agglomerate(family: Family, alpha: float, stats: Array) -> Labels:  # (G, P) -> (G,)
    """Union groups pair by pair, best pairs first, while a union is more probable than not."""
    member = np.arange(len(stats))
    while len(stats) > 1:
        pairs = nearest_pairs(family, stats, _CANDIDATES)
        gain = log_merge_ratio(family, alpha, stats, pairs)
        united = disjoint(*pairs, gain, above=0.0)
        if not united:
            break
        target = np.arange(len(stats))
        for i, j in united:
            target[j] = i
        _, new = np.unique(target, return_inverse=True)
        pooled = np.zeros((new.max() + 1, stats.shape[1]))
        np.add.at(pooled, new, stats)
        stats, member = pooled, new[member]
    return member


def _plus_plus(
    distances_to: Callable[[int], Array], weight: Array, chance: Array
) -> list[int]:  # at most as many as chances
    """k-means++ seeds, fewer where the points coincide."""
    chosen = [_pick(weight, chance[0])]
    nearest = distances_to(chosen[0])
    for u in chance[1:]:
        mass = nearest * weight
        if not mass.sum() > 0:
            break
        chosen.append(_pick(mass, u))
        nearest = np.minimum(nearest, distances_to(chosen[-1]))
    return chosen


def _distances_to(points: Array, squares: Array, seed: int) -> Array:  # (N,)
    """Square distances of the points, whose squares are known, to one of them."""
    products = (points @ points[seed : seed + 1].T)[:, 0]
    return np.asarray(np.maximum(squares + squares[seed] - 2.0 * products, 0.0))


def _pick(mass: Array, chance: float) -> int:
    total = mass.cumsum()
    return int(min(np.searchsorted(total, chance * total[-1]), len(mass) - 1))
