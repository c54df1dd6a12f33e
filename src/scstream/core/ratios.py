"""Probabilities of partitions, which splits, merges and the first batch share."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from scstream.families.base import Array, Family, Labels


def log_merge_ratio(
    family: Family, alpha: float, stats: Array, pairs: tuple[Labels, Labels]
) -> Array:  # (M,)
    """Log odds of the union of pairs of groups: the negated split ratio."""
    first, second = pairs
    own = family.log_marginal(stats)
    union = family.log_marginal_of_unions(stats, first, second)
    counts = stats[first, 0], stats[second, 0]
    return -family.kernels.log_odds_of_two(alpha, *counts, own[first], own[second], union)


def log_joint(family: Family, alpha: float, stats: Array) -> float:
    """Log of the Dirichlet process prior of a partition times its marginal likelihood."""
    total = stats[:, 0].sum()
    crp = len(stats) * np.log(alpha) + gammaln(stats[:, 0]).sum()
    crp += gammaln(alpha) - gammaln(alpha + total)
    return float(crp + family.log_marginal(stats).sum())


def nearest_pairs(family: Family, stats: Array, n_neighbours: int) -> tuple[Labels, Labels]:
    """Pairs (i < j) of groups of which one is among the other's nearest."""
    return family.kernels.neighbour_pairs(family.coordinates_of(stats), n_neighbours)


def disjoint(
    first: Labels, second: Labels, ratio: Array, *, above: float = -np.inf
) -> list[tuple[int, int]]:
    """Take pairs in falling order of ratio down to `above`, each cluster at most once."""
    taken: set[int] = set()
    pairs = []
    for p in np.argsort(-ratio, kind="stable"):
        if ratio[p] <= above:
            break
        i, j = int(first[p]), int(second[p])
        if i not in taken and j not in taken:
            pairs.append((i, j))
            taken |= {i, j}
    return pairs
