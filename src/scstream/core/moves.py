"""The ratios that decide splits and merges; each formula stands here once."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from scstream.families.base import Array, Family, Labels

_TINY = np.finfo(float).tiny  # stands for the count of a group that has faded away


def log_split_ratio(family: Family, alpha: float, left: Array, right: Array) -> Array:  # (G,)
    """Log posterior odds of two clusters against their union (the paper's H_split, corrected)."""
    log_left, log_right, log_union = family.log_marginal(np.stack([left, right, left + right]))
    return log_odds_of_two(
        alpha,
        counts=(left[:, 0], right[:, 0]),
        log_marginals=(log_left, log_right),
        log_union=log_union,
    )


def log_merge_ratio(
    family: Family, alpha: float, stats: Array, pairs: tuple[Labels, Labels], *, correction: bool
) -> Array:  # (number of pairs,)
    """Log odds of the union of pairs of groups: the negated split ratio.

    With `correction` the log probability of the halves that the union would have is added.
    """
    first, second = pairs
    own = family.log_marginal(stats)
    counts = (stats[first, 0], stats[second, 0])
    ratio = -log_odds_of_two(
        alpha,
        counts=counts,
        log_marginals=(own[first], own[second]),
        log_union=family.log_marginal_of_unions(stats, first, second),
    )
    return ratio + log_half_weights(alpha, *counts) if correction else ratio


def log_odds_of_two(
    alpha: float,
    *,
    counts: tuple[Array, Array],
    log_marginals: tuple[Array, Array],
    log_union: Array,
) -> Array:
    """Log odds of two clusters against one, by the Dirichlet process and the marginals f.

    log alpha + lgamma(N_l) + lgamma(N_r) - lgamma(N) + log f(l) + log f(r) - log f(l + r)
    """
    first, second = (np.maximum(count, _TINY) for count in counts)
    prior = np.log(alpha) + gammaln(first) + gammaln(second) - gammaln(first + second)
    return np.asarray(prior + log_marginals[0] + log_marginals[1] - log_union)


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
