"""The ratios that decide splits and merges; each formula stands here once."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from scstream.families.base import Array, Family, Labels
from scstream.native import twin, twin_function

_TINY = np.finfo(float).tiny  # stands for the count of a group that has faded away


@twin
def log_split_ratio(family: Family, alpha: float, left: Array, right: Array) -> Array:  # (G,)
    """Log posterior odds of two clusters against their union (the paper's H_split, corrected)."""
    marginals = family.log_marginal(np.concatenate([left, right, left + right]))
    return log_odds_of_two(alpha, left[:, 0], right[:, 0], *marginals.reshape(3, -1))


@twin
def likely_unions(
    family: Family, alpha: float, stats: Array, n_neighbours: int
) -> tuple[Labels, Labels]:
    """Pairs of neighbouring groups whose union is more probable than the two."""
    first, second = nearest_pairs(family, stats, n_neighbours)
    likely = log_merge_ratio(family, alpha, stats, (first, second), correction=False) > 0
    return first[likely], second[likely]


def log_merge_ratio(
    family: Family, alpha: float, stats: Array, pairs: tuple[Labels, Labels], *, correction: bool
) -> Array:  # (number of pairs,)
    """Log odds of the union of pairs of groups: the negated split ratio.

    With `correction` the log probability of the halves that the union would have is added.
    """
    first, second = pairs
    own = family.log_marginal(stats)
    union = family.log_marginal_of_unions(stats, first, second)
    counts = stats[first, 0], stats[second, 0]
    ratio = -log_odds_of_two(alpha, *counts, own[first], own[second], union)
    return ratio + log_half_weights(alpha, *counts) if correction else ratio


@twin_function
def log_odds_of_two(
    alpha: float,
    n_left: Array,
    n_right: Array,
    log_left: Array,
    log_right: Array,
    log_union: Array,
) -> Array:  # (G,)
    """Log odds of two clusters against one, by the Dirichlet process and the marginals f.

    log alpha + lgamma(N_l) + lgamma(N_r) - lgamma(N) + log f(l) + log f(r) - log f(l + r)
    """
    n_left, n_right = np.maximum(n_left, _TINY), np.maximum(n_right, _TINY)
    prior = np.log(alpha) + gammaln(n_left) + gammaln(n_right) - gammaln(n_left + n_right)
    return np.asarray(prior + log_left + log_right - log_union)


def log_half_weights(alpha: float, first: Array, second: Array) -> Array:
    """Log probability of one labelling of two halves whose weights are Dir(alpha/2, alpha/2)."""
    return np.asarray(
        gammaln(alpha)
        - 2.0 * gammaln(alpha / 2.0)
        + gammaln(first + alpha / 2.0)
        + gammaln(second + alpha / 2.0)
        - gammaln(first + second + alpha)
    )


def log_joint(family: Family, alpha: float, stats: Array) -> float:
    """Log of the Dirichlet process prior of a partition times its marginal likelihood."""
    total = stats[:, 0].sum()
    crp = len(stats) * np.log(alpha) + gammaln(stats[:, 0]).sum()
    crp += gammaln(alpha) - gammaln(alpha + total)
    return float(crp + family.log_marginal(stats).sum())


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


def nearest_pairs(family: Family, stats: Array, n_neighbours: int) -> tuple[Labels, Labels]:
    """Pairs (i < j) of groups of which one is among the other's nearest."""
    first, second = neighbour_pairs(family.coordinates_of(stats), n_neighbours)
    return first, second


@twin_function
def neighbour_pairs(points: Array, n_neighbours: int) -> tuple[Labels, Labels]:
    """Pairs (i < j) of points of which one is among the other's nearest, in order."""
    distances = square_distances(points, points)
    np.fill_diagonal(distances, np.inf)
    n = min(n_neighbours, len(points) - 1)
    near = np.argpartition(distances, n - 1, axis=1)[:, :n]
    first = np.repeat(np.arange(len(points)), n)
    pairs = np.sort(np.column_stack([first, near.ravel()]), axis=1)
    pairs = np.unique(pairs, axis=0)
    return pairs[:, 0], pairs[:, 1]


def square_distances(points: Array, centres: Array) -> Array:  # (N, D), (C, D) -> (N, C)
    """Square Euclidean distances between points and centres."""
    squares = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(squares - 2.0 * points @ centres.T, 0.0))
