"""Removed clusters that may return: a new cluster that one of them explains takes its old id."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scstream.core.config import Config
from scstream.core.state import NOVEL, Archive, State
from scstream.families.base import Array, Family, Labels


def retire(config: Config, state: State, removed: NDArray[np.bool_]) -> Archive:
    """Add clusters with the statistics of their heaviest time; drop the oldest beyond the bound."""
    old = state.archive
    removed = removed & (state.weight > 0)  # clusters without weight have no shape left
    if not config.archive or not removed.any():
        return old
    heaviest = state.cluster_stats[removed] * (state.peak[removed] / state.weight[removed])[:, None]
    newest = slice(-config.max_clusters, None)
    return Archive(
        ids=np.concatenate([old.ids, state.ids[removed]])[newest],
        stats=np.concatenate([old.stats, heaviest])[newest],
        born=np.concatenate([old.born, state.born[removed]])[newest],
    )


def recognise(family: Family, archive: Archive, groups: Array) -> Labels:  # (G, P) -> (G,)
    """Id of the archived cluster that explains each group better than the prior, or NOVEL.

    The Bayes factor of "the rows of a group come from a" is f(a + g) / (f(a) f(g)). Each retired
    cluster returns at most once, to the group that it explains best.
    """
    known = np.full(len(groups), NOVEL)
    if not len(archive.ids) or not len(groups):
        return known
    together = family.log_marginal(archive.stats[:, None] + groups[None])  # (A, G)
    gain = together - family.log_marginal(archive.stats)[:, None] - family.log_marginal(groups)
    for flat in np.argsort(-gain, axis=None, kind="stable"):
        a, g = np.unravel_index(flat, gain.shape)
        if gain[a, g] <= 0:
            break
        if known[g] == NOVEL and archive.ids[a] not in known:
            known[g] = archive.ids[a]
    return known


def born_before(archive: Archive, known: Labels, now: float) -> Array:  # (G,)
    """Time of the first birth of those that return; now for the others."""
    born = dict(zip(archive.ids.tolist(), archive.born.tolist(), strict=True))
    return np.array([born.get(int(id_), now) for id_ in known], dtype=np.float64)


def without(archive: Archive, ids: Labels) -> Archive:
    """Return the archive less the clusters that returned."""
    stay = ~np.isin(archive.ids, ids)
    return replace(
        archive, ids=archive.ids[stay], stats=archive.stats[stay], born=archive.born[stay]
    )
