"""Evidence from rows that were not learned yet, for splits and merges (row 11 of the changes).

Ratios of marginals compare labelled partitions: a row on the border of two clusters pays for its
label in one of them, so clusters that overlap are taken for one even with endless data. Before a
batch is learned, its rows can be asked without labels: is the mixture of the two halves denser
here than the whole? Is the union of a pair denser than the mixture of the two? The sum of the log
ratios over rows is a prequential Bayes factor: every row is predicted by the past only, so extra
parameters are paid for. It is faded like everything else and never falls below zero (Page's
cumulative sum), so that it answers to what happens now.

Endless rows refute any shape: no real cluster is exactly of its family, and every batch would cut
it further. So a split must gain more than nothing per row, the more the more rows there are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scstream.core.assign import AssignmentParams, AssignmentStats
from scstream.core.moves import likely_unions
from scstream.core.state import Config, State
from scstream.families.base import Array, Family

_NEIGHBOURS = 5
_MANY = 10_000.0  # rows


def watch_merge_pairs(
    family: Family, config: Config, state: State, plan: AssignmentParams
) -> tuple[State, AssignmentParams]:
    """Add to an arrival plan the unions of pairs whose union is more probable than not."""
    if config.merge_evidence is None or state.n_clusters < 2:
        return state, plan
    stats = state.cluster_stats
    first, second = likely_unions(family, config.alpha, stats, config.n_neighbours or _NEIGHBOURS)
    # A silent cluster says nothing about itself; that its place is empty is no evidence.
    active = state.last_seen >= state.time - 1.5 * state.batch_interval
    both = active[first] & active[second]
    if not both.any():
        none = {"merge_pairs": state.merge_pairs[:0], "merge_evidence": state.merge_evidence[:0]}
        return state.replace(**none), plan
    first, second = first[both], second[both]
    pairs = np.column_stack([state.ids[first], state.ids[second]])
    known = dict(zip(map(tuple, state.merge_pairs.tolist()), state.merge_evidence, strict=True))
    evidence = np.array([known.get(tuple(pair), 0.0) for pair in pairs.tolist()])
    plan = replace(
        plan,
        pairs=np.column_stack([first, second]),
        unions=family.predictive_params(stats[first] + stats[second]),
    )
    return state.replace(merge_pairs=pairs, merge_evidence=evidence), plan


def least_gain(config: Config, weight: Array) -> Array:  # (K,) -> (K,)
    """Nats per row that the halves of a cluster must gain over the whole: none while it is light.

    At `_MANY` rows it is half of `coarseness`.
    """
    square = np.square(weight / _MANY)
    return np.asarray(config.coarseness * square / (1.0 + square))


def accumulate_evidence(config: Config, state: State, found: AssignmentStats) -> State:
    """Add what the rows of a batch say, before they are learned."""
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
