"""Which clusters belong together, and how closely: the edges of the tree of groups.

By prominence, where clusters have more rows than features: clusters are the peaks of a density, and
two peaks are joined if the valley between them is shallow compared with the lower peak. This is
persistence-based clustering (Chazal, Guibas, Oudot and Skraba, 2013) with clusters in place of
rows. With p for the height of a peak and B for the overlap of two clusters, the saddle between them
is ``B * sqrt(p_i * p_j)``, and the prominence of the lower of two peaks is its height divided by
the saddle at which it joins a higher one.

By the coarsened posterior, where they have fewer rows than features: densities mean little there.
Two clusters are joined if their union is more probable, with no cluster counting as more than a few
rows (Miller and Dunson, 2018).

Heights of edges are multiples of the default cut. Record 0026 has the measurements. Shapes: K
clusters, P statistics, M pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scstream.core.ratios import log_merge_ratio, nearest_pairs
from scstream.families.base import Array, Family, Labels

_NEIGHBOURS = 8  # clusters that a cluster is compared with
_VALLEY = float(np.log(10.0))  # log prominence at which groups are cut by default
_CHAIN = 8  # fewer clusters may overlap by chance
_COMMON = 0.75  # unless that many of all clusters overlap with others
_LIGHT = 0.5  # times P: weight of a cluster whose overlap is believed to one half
_FEW = 10.0  # rows of a set that is not joined in the coarsened posterior
_COARSE = 200.0  # rows that a very heavy cluster counts as in the coarsened posterior


class Edge(NamedTuple):
    """Two clusters at which two sets of clusters are joined."""

    height: float  # at most 1 if the sets are one group by default
    first: int
    second: int


def tree_edges(family: Family, stats: Array) -> list[Edge]:
    """Return the K - 1 joins of clusters with these statistics (K, P), the closest first."""
    if len(stats) and np.median(stats[:, 0]) < family.n_features:
        return sorted(coarsened_edges(family, stats), key=lambda edge: edge.height)
    return sorted(deferred(len(stats), sorted(prominence_edges(family, stats))))


def prominence_edges(family: Family, stats: Array) -> Iterator[Edge]:
    """Yield the pairs at which peaks meet while the level falls.

    Sets that have no neighbours in common are joined through their highest peaks in further rounds.
    """
    peak = log_peaks(family, stats)
    sets = DisjointSets(len(stats))
    tops = np.arange(len(stats))
    while len(tops) > 1:
        first, second = (tops[side] for side in nearest_pairs(family, stats[tops], _NEIGHBOURS))
        saddle = log_saddles(family, stats, peak, first, second)
        for m in np.argsort(-saddle, kind="stable").tolist():
            left, right = sets.find(int(first[m])), sets.find(int(second[m]))
            if left != right:
                lower = min(peak[left], peak[right])
                height = float(lower - saddle[m]) / _VALLEY
                yield Edge(height, int(first[m]), int(second[m]))
                sets.join(*((left, right) if peak[left] >= peak[right] else (right, left)))
        tops = np.array([k for k in tops.tolist() if sets.find(k) == k])


def log_peaks(family: Family, stats: Array) -> Array:  # (K,)
    """Log of the height of each cluster's peak, per three features.

    The height is the weight of the cluster times its mean density. In many features densities
    differ by large factors; the power 3 / D keeps them comparable.
    """
    power = min(1.0, 3.0 / family.n_features)
    return np.asarray(power * (np.log(stats[:, 0]) + family.mean_log_density(stats)))


def log_saddles(
    family: Family, stats: Array, peak: Array, first: Labels, second: Labels
) -> Array:  # (M,)
    """Log of the density at the saddle between pairs of clusters.

    The shape of a light cluster is mostly the prior's, and so would be its overlap.
    """
    lighter = np.minimum(stats[first, 0], stats[second, 0])
    known = np.log(lighter / (lighter + _LIGHT * family.n_stats))
    overlap = family.log_overlap(stats, first, second)
    return np.asarray(overlap + known + 0.5 * (peak[first] + peak[second]))


def deferred(n_clusters: int, edges: list[Edge]) -> list[Edge]:
    """Return sorted edges with joins of few clusters deferred.

    A few clusters may overlap by chance. They are joined when they are part of a larger set,
    or at the height at which most clusters overlap with others. A peak without any valley, of
    height zero or less, is joined at once.
    """
    sets = DisjointSets(n_clusters)
    joined, common = 0, np.inf
    waiting: dict[int, list[int]] = {}  # edges of small sets, by their root
    heights = [max(edge.height, 0.0) for edge in edges]
    for n, edge in enumerate(edges):
        left, right = sets.find(edge.first), sets.find(edge.second)
        joined += (sets.size[left] == 1) + (sets.size[right] == 1)
        if joined >= _COMMON * n_clusters:
            common = min(common, heights[n])
        wait = waiting.pop(left, []) + waiting.pop(right, []) + [n] * (edge.height > 0)
        root = sets.join(left, right)
        if sets.size[root] < _CHAIN:
            waiting[root] = wait
            continue
        for early in wait:
            heights[early] = min(heights[n], max(heights[early], common))
    for early in (n for wait in waiting.values() for n in wait):
        heights[early] = max(heights[early], common)
    return [edge._replace(height=height) for edge, height in zip(edges, heights, strict=True)]


def coarsened_edges(family: Family, stats: Array) -> Iterator[Edge]:
    """Yield joins of neighbouring sets: in every round, all pairs that prefer each other.

    The height of a join is not below those of its parts.
    """
    pooled = stats * (_COARSE / (_COARSE + stats[:, :1]))
    weight, height = stats[:, 0].copy(), np.zeros(len(stats))
    left = np.arange(len(stats))  # sets, each by one of its clusters
    pairs, odds = np.zeros((0, 2), dtype=np.int64), np.zeros(0)
    while len(left) > 1:
        if not len(pairs):
            near = nearest_pairs(family, pooled[left], _NEIGHBOURS)
            pairs = left[np.column_stack(near)]
            odds = coarsened_odds(family, pooled, weight, pairs)
        root = np.arange(len(stats))
        joined = mutual(pairs, odds, len(stats))
        for m in joined[np.argsort(-odds[joined], kind="stable")].tolist():
            i, j = pairs[m].tolist()
            height[i] = max(height[i], height[j], _height(odds[m] / _COARSE))
            yield Edge(float(height[i]), i, j)
            pooled[i] += pooled[j]
            weight[i] += weight[j]
            root[j] = i
        left = left[root[left] == left]
        old = ~np.isin(pairs, pairs[joined]).any(axis=1)
        new = np.sort(root[pairs[~old]], axis=1)
        new = np.unique(new[new[:, 0] < new[:, 1]], axis=0)
        odds = np.append(odds[old], coarsened_odds(family, pooled, weight, new))
        pairs = np.concatenate([pairs[old], new])


def _height(odds: float) -> float:
    """Return a height that falls with the log odds per row: 1 at zero, never negative."""
    return float(np.exp(-odds) if odds > 0 else 1.0 - odds)


def mutual(pairs: Labels, odds: Array, n: int) -> Labels:
    """Return the pairs (M, 2) of which each is the best one of both of its sets."""
    one, other = np.append(pairs[:, 0], pairs[:, 1]), np.append(pairs[:, 1], pairs[:, 0])
    order = np.lexsort((-other, np.append(odds, odds)))  # the best last
    favourite = np.full(n, -1)
    favourite[one[order]] = other[order]
    return np.flatnonzero(
        (favourite[pairs[:, 0]] == pairs[:, 1]) & (favourite[pairs[:, 1]] == pairs[:, 0])
    )


def coarsened_odds(family: Family, pooled: Array, weight: Array, pairs: Labels) -> Array:  # (M,)
    """Log odds of the unions of pairs of sets; a cluster of n rows counts as c n / (c + n).

    Sets of few rows stay apart down to half the default resolution.
    """
    own, place = np.unique(pairs, return_inverse=True)
    place = place.reshape(-1, 2)
    odds = log_merge_ratio(family, 1.0, pooled[own], (place[:, 0], place[:, 1]))
    few = weight[pairs].min(axis=1) < _FEW
    return np.where(few, np.minimum(odds, 0.0) - _COARSE, odds)


class DisjointSets:
    """Disjoint sets with their sizes; the first root of a join stays the root."""

    def __init__(self, n: int) -> None:
        self.size = [1] * n
        self._parent = list(range(n))

    def find(self, k: int) -> int:
        """Return the root of the set of an element."""
        parent = self._parent
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    def join(self, root: int, other: int) -> int:
        """Add the set of another root to that of `root`."""
        self._parent[other] = root
        self.size[root] += self.size[other]
        return root
