"""Clusters that were found anew inherit the ids of the clusters that had their rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scstream.core.cluster_edits import take
from scstream.core.state import NOVEL, Event, Info, State
from scstream.families.base import Array, Labels


def inherit_ids(
    old: State, old_labels: Labels, new: State, labels: Labels, info: Info, weight: Array
) -> tuple[State, Labels, Info]:
    """Give new clusters the ids of old ones, by the labels that the same rows have in both.

    Pairs of clusters are taken in falling order of the weight of the rows that they share, every
    cluster once. Other new clusters get new ids: they were born; other old ones died. Returns the
    new state, labels and info, with these ids and events.
    """
    shared = _shared_weight(labels, new.ids, old_labels, old.ids, weight)
    ids = np.full(new.n_clusters, NOVEL, dtype=np.int64)
    free = np.ones(old.n_clusters, dtype=bool)
    for place in np.argsort(-shared, axis=None, kind="stable"):
        i, j = divmod(int(place), old.n_clusters)
        if shared[i, j] <= 0:
            break
        if ids[i] == NOVEL and free[j]:
            ids[i], free[j] = old.ids[j], False
    newborn = ids == NOVEL
    ids[newborn] = old.next_id + np.arange(newborn.sum())
    time = new.time
    died = zip(old.ids[free].tolist(), old.weight[free].tolist(), strict=True)
    born = zip(ids[newborn].tolist(), new.weight[newborn].tolist(), strict=True)
    events = (
        *(Event("died", time, id_, weight) for id_, weight in died),
        *(Event("born", time, id_, weight) for id_, weight in born),
    )
    place = np.minimum(np.searchsorted(old.ids, ids), old.n_clusters - 1)
    state = new.replace(
        ids=ids,
        born=np.where(newborn, new.born, old.born[place]),
        merge_pairs=new.merge_pairs[:0],
        merge_evidence=new.merge_evidence[:0],
        next_id=old.next_id + int(newborn.sum()),
        n_batches=old.n_batches + 1,
    )
    labels = np.where(labels == NOVEL, NOVEL, ids[np.searchsorted(new.ids, labels)])
    return take(state, np.argsort(ids)), labels, replace(info, events=events)


def _shared_weight(
    new: Labels, new_ids: Labels, old: Labels, old_ids: Labels, weight: Array
) -> Array:  # (K, L)
    """Weight of the rows that have each pair of labels; rows without a label do not count."""
    table = np.zeros((len(new_ids), len(old_ids)))
    known = np.isin(new, new_ids) & np.isin(old, old_ids)
    i, j = np.searchsorted(new_ids, new[known]), np.searchsorted(old_ids, old[known])
    np.add.at(table, (i, j), weight[known])
    return table
