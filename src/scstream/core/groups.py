"""Groups of clusters: shapes that no single cluster of the family can have.

Nothing is learned: groups are a function of the statistics of the clusters. `core/linkage.py`
decides which clusters belong together. Shapes: K clusters, G groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scstream.core.linkage import DisjointSets, tree_edges
from scstream.core.state import Event, Kind
from scstream.core.steering import NO_STEERING, Pairs, Steering
from scstream.families.base import Array, Family, Labels


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
    together, separate : tuple of pairs of int
        Ids of clusters that people put in one group, or in different groups.

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
    together: Pairs = ()
    separate: Pairs = ()

    def cut(self, resolution: float = 1.0) -> Groups:
        """Return the groups that are joined up to the height ``1 / resolution``."""
        highest = np.inf if resolution == 0 else 1.0 / resolution
        sets = DisjointSets(len(self.cluster))
        for a, b in self._places(self.together):
            _join_oldest(sets, a, b)
        separate = self._places(self.separate)
        oldest = list(range(len(self.cluster)))  # cluster of each part
        for left, right, height, _ in self.linkage.tolist():
            low, high = sorted((oldest[int(left)], oldest[int(right)]))
            oldest.append(low)
            if height <= highest and not _separated(sets, low, high, separate):
                _join_oldest(sets, low, high)
        first = np.array([sets.find(k) for k in range(len(self.cluster))], dtype=np.int64)
        return Groups(self.cluster, self.cluster[first], self.weight, resolution)

    def _places(self, pairs: Pairs) -> list[tuple[int, int]]:
        """Return the positions of pairs of clusters that are alive."""
        place = {int(id_): k for k, id_ in enumerate(self.cluster)}
        return [(place[a], place[b]) for a, b in pairs if a in place and b in place]


def _join_oldest(sets: DisjointSets, first: int, second: int) -> None:
    """Join the sets of two clusters; the oldest cluster is the root."""
    low, high = sorted((sets.find(first), sets.find(second)))
    if low != high:
        sets.join(low, high)


def _separated(
    sets: DisjointSets, first: int, second: int, separate: list[tuple[int, int]]
) -> bool:
    """Return True if a join would bring two clusters together that people separated."""
    if not separate:
        return False
    joined = {sets.find(first), sets.find(second)}
    return any({sets.find(a), sets.find(b)} == joined for a, b in separate)


def build_hierarchy(
    family: Family, ids: Labels, stats: Array, steering: Steering = NO_STEERING
) -> Hierarchy:
    """Return the tree of clusters with increasing ids and these statistics (K, P)."""
    lines: list[tuple[float, ...]] = []
    part = list(range(len(ids)))  # of the linkage table, by root
    sets = DisjointSets(len(ids))
    for edge in tree_edges(family, stats):
        left, right = sets.find(edge.first), sets.find(edge.second)
        low, high = sorted((part[left], part[right]))
        root = sets.join(left, right)
        lines.append((low, high, edge.height, sets.size[root]))
        part[root] = len(ids) + len(lines) - 1
    table = np.array(lines, dtype=np.float64).reshape(-1, 4)
    return Hierarchy(ids, stats[:, 0], table, steering.together, steering.separate)


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
