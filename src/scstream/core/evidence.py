"""Evidence for splits and merges from rows that were not learned yet.

Ratios of marginals compare labelled partitions. A row between two overlapping clusters pays for its
label in one of them, so that overlapping clusters look like one even with endless data. Before a
batch is learned, its rows are therefore compared without labels: with the mixture of the two
sub-clusters against the cluster, and with the union of a pair against the mixture of the pair. The
log ratios of the rows are clipped, summed, forgotten like all statistics, and not let below zero:
a CUSUM (Page's cumulative sum test), which responds to recent rows. It is not a Bayes factor, and
its threshold bounds no posterior probability. `benchmarks/results/false-alarms.md` has the measured
rate of false splits.

No real cluster has exactly the shape of its family, and with endless rows the smallest misfit would
split it. A split must therefore gain more per row the more rows a cluster has (`least_gain`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scstream.core.assign import AssignmentParams, AssignmentStats
from scstream.core.cluster_edits import RECENT
from scstream.core.config import Config
from scstream.core.state import State
from scstream.families.base import Array, Family, Labels

_NEIGHBOURS = 5
_MANY = 10_000.0  # rows


def watch_merge_pairs(
    family: Family,
    config: Config,
    state: State,
    params: AssignmentParams,
    are_neighbours: Callable[[Labels, Labels, int], NDArray[np.bool_]] | None = None,
) -> tuple[State, AssignmentParams]:
    """Collect evidence also for pairs of clusters whose union is more probable than the pair.

    Only neighbours are pairs. If the state has not all clusters, `are_neighbours` says for pairs of
    its clusters whether they are neighbours among all.
    """
    if config.merge_evidence is None or state.n_clusters < 2:
        return state, params
    stats = state.cluster_stats
    first, second = family.kernels.likely_unions(family, config.alpha, stats, _NEIGHBOURS)
    # An inactive cluster has no rows that could be evidence.
    active = state.last_seen >= state.time - RECENT * state.batch_interval
    both = active[first] & active[second]
    first, second = first[both], second[both]
    if are_neighbours is not None and len(first):
        both = are_neighbours(first, second, _NEIGHBOURS)
        first, second = first[both], second[both]
    if not len(first):
        none = {"merge_pairs": state.merge_pairs[:0], "merge_evidence": state.merge_evidence[:0]}
        return state.replace(**none), params
    pairs = np.column_stack([state.ids[first], state.ids[second]])
    known = dict(zip(map(tuple, state.merge_pairs.tolist()), state.merge_evidence, strict=True))
    evidence = np.array([known.get(tuple(pair), 0.0) for pair in pairs.tolist()])
    params = replace(
        params,
        pairs=np.column_stack([first, second]),
        unions=family.predictive_params(stats[first] + stats[second]),
    )
    return state.replace(merge_pairs=pairs, merge_evidence=evidence), params


def least_gain(config: Config, weight: Array) -> Array:  # (K,) -> (K,)
    """Log-likelihood per row by which the sub-clusters must fit better than the cluster.

    Zero for light clusters, half of `coarseness` at `_MANY` rows.
    """
    square = np.square(weight / _MANY)
    return np.asarray(config.coarseness * square / (1.0 + square))


def accumulate_evidence(config: Config, state: State, found: AssignmentStats) -> State:
    """Add the evidence of the rows of a batch to the CUSUM, collected before they are learned."""
    sampled = found.stats[:, 0, 0] + found.stats[:, 1, 0]
    for_split = found.split_evidence - least_gain(config, state.weight) * sampled
    return state.replace(
        split_evidence=np.maximum(state.split_evidence + for_split, 0.0),
        merge_evidence=np.maximum(state.merge_evidence + found.merge_evidence, 0.0),
    )


def proven_pairs(config: Config, state: State) -> set[tuple[int, ...]]:
    """Pairs of ids that have shown enough evidence to be one cluster."""
    if not len(state.merge_pairs):
        return set()
    enough = state.merge_evidence > (config.merge_evidence or 0.0)
    return set(map(tuple, state.merge_pairs[enough].tolist()))


def merges_need_evidence(config: Config, state: State) -> bool:
    """Return True if evidence decides about merges; on the first batch the ratio does."""
    return config.merge_evidence is not None and state.n_batches > 0
