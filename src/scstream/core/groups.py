"""Groups of clusters: shapes that no single cluster of the family can have.

Clusters are the peaks of a density, and two peaks are joined if the valley between them is shallow
compared with the lower peak: persistence-based clustering (Chazal, Guibas, Oudot and Skraba, 2013)
with the clusters in place of rows. With p for the height of a peak and B for the overlap of two
clusters, the saddle between them is ``B * sqrt(p_i * p_j)``, and the prominence of the lower of two
peaks is its height divided by the saddle at which it joins a higher one. Nothing is learned: groups
are a function of the statistics of the clusters. Record 0026 has the measurements.

Shapes: K clusters, G groups, M pairs of clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from scstream.core.ratios import nearest_pairs
from scstream.core.state import Event, Kind
from scstream.families.base import Array, Family, Labels

_NEIGHBOURS = 8  # clusters that a cluster is compared with
_VALLEY = float(np.log(10.0))  # log prominence at which groups are cut by default
_CHAIN = 4  # two or three clusters that overlap may do so by chance, so many may not
_COMMON = 0.75  # unless that many of all clusters overlap with others
_LIGHT = 0.5  # times P: weight of a cluster whose overlap is believed to one half


class Edge(NamedTuple):
    """A pair of clusters at whose saddle two sets of clusters meet."""

    height: float  # log prominence of the lower peak
    first: int
    second: int


@dataclass(frozen=True, eq=False)
class Groups:
    """Clusters joined into groups. The id of a group is that of its oldest cluster.

    Parameters
    ----------
    cluster : array of shape (K,)
        Ids of the clusters.
    group : array of shape (K,)
        Id of the group of each cluster.
    cluster_weight : array of shape (K,)
        Faded number of rows of each cluster.
    resolution : float
        At which the hierarchy was cut.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.core.groups import Groups
    >>> groups = Groups(np.array([0, 1, 4]), np.array([0, 1, 0]), np.array([30.0, 20.0, 10.0]))
    >>> groups.id, groups.weight, groups.members(0)
    (array([0, 1]), array([40., 20.]), array([0, 4]))
    """

    cluster: Labels  # (K,)
    group: Labels  # (K,)
    cluster_weight: Array  # (K,)
    resolution: float = 1.0

    @cached_property
    def id(self) -> Labels:  # (G,)
        """Ids of the groups, increasing."""
        return np.unique(self.group)

    @cached_property
    def index(self) -> Labels:  # (K,)
        """Position in `id` of the group of each cluster."""
        return np.searchsorted(self.id, self.group)

    @cached_property
    def weight(self) -> Array:  # (G,)
        """Faded number of rows of each group."""
        return np.bincount(self.index, self.cluster_weight, len(self.id)).astype(np.float64)

    def members(self, group: int) -> Labels:
        """Return the ids of the clusters of a group."""
        return np.asarray(self.cluster[self.group == group])

    def __len__(self) -> int:
        return len(self.id)

    def __repr__(self) -> str:
        lines = (f"{g}: {', '.join(map(str, self.members(g)))}" for g in self.id)
        return f"{len(self)} groups of {len(self.cluster)} clusters ({'; '.join(lines)})"


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """The tree in which clusters are joined into groups, the closest first.

    Parameters
    ----------
    cluster : array of shape (K,)
        Ids of the clusters, increasing.
    weight : array of shape (K,)
        Faded number of rows of each cluster.
    linkage : array of shape (K - 1, 4)
        One line for each join, as in `scipy.cluster.hierarchy`: the two parts, the height and the
        number of clusters. Part ``k < K`` is cluster ``k``; part ``K + n`` is the result of line
        ``n``.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.core.groups import Hierarchy
    >>> table = np.array([[0.0, 1.0, 0.5, 2.0], [2.0, 3.0, 4.0, 3.0]])
    >>> tree = Hierarchy(np.array([3, 5, 8]), np.ones(3), table)
    >>> tree.cut(), tree.cut(resolution=0.2)
    (2 groups of 3 clusters (3: 3, 5; 8: 8), 1 groups of 3 clusters (3: 3, 5, 8))
    """

    cluster: Labels  # (K,)
    weight: Array  # (K,)
    linkage: Array  # (K - 1, 4)

    def cut(self, resolution: float = 1.0) -> Groups:
        """Return the groups that are joined up to the height ``1 / resolution``."""
        highest = np.inf if resolution == 0 else 1.0 / resolution
        sets = _Sets(len(self.cluster))
        oldest = list(range(len(self.cluster)))  # cluster of each part
        for left, right, height, _ in self.linkage.tolist():
            low, high = sorted((oldest[int(left)], oldest[int(right)]))
            oldest.append(low)
            if height <= highest:
                sets.join(low, high)
        first = np.array([sets.find(k) for k in range(len(self.cluster))], dtype=np.int64)
        return Groups(self.cluster, self.cluster[first], self.weight, resolution)


def build_hierarchy(family: Family, ids: Labels, stats: Array) -> Hierarchy:
    """Return the tree of clusters with increasing ids and these statistics (K, P).

    Heights are multiples of the default cut.
    """
    edges = sorted(spanning_edges(family, stats))
    heights = _deferred(len(ids), edges)
    lines, label = [], list(range(len(ids)))
    sets = _Sets(len(ids))
    for n, height in sorted(enumerate(heights), key=lambda item: item[1]):
        left, right = sets.find(edges[n].first), sets.find(edges[n].second)
        low, high = sorted((label[left], label[right]))
        root = sets.join(left, right)
        lines.append((low, high, height / _VALLEY, sets.size[root]))
        label[root] = len(ids) + len(lines) - 1
    table = np.array(lines, dtype=np.float64).reshape(-1, 4)
    return Hierarchy(ids, stats[:, 0], table)


def spanning_edges(family: Family, stats: Array) -> Iterator[Edge]:
    """Yield the K - 1 pairs at which peaks meet while the level falls.

    Sets that have no neighbours in common are joined through their highest peaks in further rounds.
    """
    peak = log_peaks(family, stats)
    sets = _Sets(len(stats))
    tops = np.arange(len(stats))
    while len(tops) > 1:
        first, second = (tops[side] for side in nearest_pairs(family, stats[tops], _NEIGHBOURS))
        saddle = log_saddles(family, stats, peak, first, second)
        for m in np.argsort(-saddle, kind="stable").tolist():
            left, right = sets.find(int(first[m])), sets.find(int(second[m]))
            if left != right:
                lower = min(peak[left], peak[right])
                yield Edge(float(lower - saddle[m]), int(first[m]), int(second[m]))
                sets.join(*((left, right) if peak[left] >= peak[right] else (right, left)))
        tops = np.array([k for k in tops.tolist() if sets.find(k) == k])


def log_peaks(family: Family, stats: Array) -> Array:  # (K,)
    """Log of the height of each cluster's peak, per two features.

    The height is the weight of the cluster times its mean density. In many features densities
    differ by large factors; the power 2 / D keeps them comparable.
    """
    power = min(1.0, 2.0 / family.n_features)
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


def _deferred(n_clusters: int, edges: list[Edge]) -> list[float]:
    """Return the heights of sorted edges, with joins of few clusters deferred.

    Two or three clusters may overlap by chance. They are joined when they are part of a larger set,
    or at the height at which most clusters overlap with others. A peak without any valley, of
    height zero or less, is joined at once.
    """
    sets = _Sets(n_clusters)
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
    return heights


def group_events(
    before: Groups, after: Groups, events: Iterable[Event], time: float
) -> list[Event]:
    """Return what happened to groups, given what happened to clusters in between."""
    absorbed = {e.other: e.id for e in events if e.kind == "merged" and e.other is not None}
    place = dict(zip(after.cluster.tolist(), after.group.tolist(), strict=True))
    share: dict[tuple[int, int], float] = {}  # weight of (group before, group after)
    for cluster, old, weight in zip(
        before.cluster.tolist(), before.group.tolist(), before.cluster_weight, strict=True
    ):
        new = place.get(_survivor(cluster, absorbed, place))
        if new is not None:
            share[old, new] = share.get((old, new), 0.0) + float(weight)
    weights = dict(zip(after.id.tolist(), after.weight.tolist(), strict=True))
    lost = dict(zip(before.id.tolist(), before.weight.tolist(), strict=True))
    return list(_changes(share, lost, weights, time))


def _changes(
    share: Mapping[tuple[int, int], float],
    before: Mapping[int, float],
    after: Mapping[int, float],
    time: float,
) -> Iterator[Event]:
    """Yield births, splits, merges and deaths, by the weight that groups before and after share."""
    for new in after:
        sources = {old: w for (old, a), w in share.items() if a == new}
        if not sources:
            yield Event("born", time, new, after[new])
        for old in sources:
            targets = {a: w for (b, a), w in share.items() if b == old}
            heir = old if old in targets else max(targets, key=lambda a: targets[a])
            kind: Kind | None = None
            if heir != new:
                kind, pair, weight = "split", (heir, new), after[new]
            elif old != new:
                kind, pair, weight = "merged", (new, old), after[new]
            if kind is not None:
                yield Event(kind, time, pair[0], weight, pair[1])
    for old in before:
        if not any(b == old for b, _ in share):
            yield Event("died", time, old, before[old])


def _survivor(cluster: int, absorbed: Mapping[int, int], alive: Mapping[int, int]) -> int:
    """Return the cluster that a cluster was absorbed by, itself if it was not."""
    while cluster not in alive and cluster in absorbed:
        cluster = absorbed[cluster]
    return cluster


class _Sets:
    """Disjoint sets with their sizes; the first root of a join stays the root."""

    def __init__(self, n: int) -> None:
        self.size = [1] * n
        self._parent = list(range(n))

    def find(self, k: int) -> int:
        parent = self._parent
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    def join(self, root: int, other: int) -> int:
        self._parent[other] = root
        self.size[root] += self.size[other]
        return root
