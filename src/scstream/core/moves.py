"""Splits and merges: which are proposed, their ratios, and which are accepted.

The split ratio itself is `Kernels.log_odds_of_two`; each other formula is here once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from scstream.core.cluster_edits import (
    EditRules,
    max_added,
    merge_clusters,
    remove_clusters,
    split_clusters,
)
from scstream.core.config import Config
from scstream.core.evidence import least_gain, merges_need_evidence, proven_pairs
from scstream.core.ratios import disjoint, log_merge_ratio, nearest_pairs
from scstream.core.rng import key_for
from scstream.core.state import Moves, State, Transition
from scstream.families.base import Array, Family, Labels


@dataclass(frozen=True)
class MoveRules:
    """How an algorithm proposes splits and merges."""

    min_age: int  # sweeps after its birth before a cluster may split
    min_subcluster_weight: float  # of both sub-clusters of a cluster that may split
    n_neighbours: int | None  # merge candidates are that many nearest clusters; None: all pairs
    merge_inactive: bool  # clusters without rows in the batch may merge
    subcluster_ratio: bool  # the merge ratio of the authors' program, not the one in the paper
    edits: EditRules


def split_and_merge(
    family: Family, config: Config, rules: MoveRules, transition: Transition, *, sweep: int
) -> Transition:
    """Split, then merge, then remove empty clusters (Algorithm 2, step 4)."""
    split, n_split = accept_splits(family, config, rules, transition.state, sweep=sweep)
    if len(split):
        transition = split_clusters(family, rules.edits, transition, split)
    merge, n_merge = accept_merges(family, config, rules, transition.state, sweep=sweep)
    if merge:
        transition = merge_clusters(rules.edits, transition, merge)
    empty = transition.state.weight <= 0.0
    if empty.any() and not empty.all():
        transition = remove_clusters(config, transition, empty)
    moves = Moves(n_split, len(split), n_merge, len(merge))
    return replace(transition, moves=transition.moves + moves)


def accept_splits(
    family: Family, config: Config, rules: MoveRules, state: State, *, sweep: int
) -> tuple[Labels, int]:
    """Return the indices of the clusters to split, and how many splits were proposed.

    A proposal is accepted with probability min(1, ratio), or if new rows gave enough evidence.
    """
    subclusters = state.subclusters
    lighter = subclusters[:, :, 0].min(axis=1)
    may = (lighter > 0) & (lighter >= rules.min_subcluster_weight) & (state.age >= rules.min_age)
    if state.steering.whole:
        may &= state.steering.may_split(state.ids)
    proposed: Labels = may.nonzero()[0]
    room = max_added(config, state)
    if not len(proposed) or room <= 0:
        return proposed[:0], 0
    key = key_for(config.seed, batch=state.n_batches, sweep=sweep, purpose="splits")
    left, right = (
        subclusters[:, side] if may.all() else subclusters[proposed, side] for side in (0, 1)
    )
    weight = state.weight[proposed]
    kernels = family.kernels
    ratio = kernels.log_split_ratio(family, config.alpha, left, right)
    ratio = ratio - least_gain(config, weight) * weight
    accepted = ratio > np.log(kernels.uniforms(key, state.ids[proposed])[:, 0])
    if config.split_evidence is not None:
        # The ratio pays for the labels of rows, which cannot be worth more than log 2 each.
        possible = ratio > -np.log(2.0) * weight
        accepted |= possible & (state.split_evidence[proposed] > config.split_evidence)
    return proposed[accepted][:room], len(proposed)


def accept_merges(
    family: Family, config: Config, rules: MoveRules, state: State, *, sweep: int
) -> tuple[list[tuple[int, int]], int]:
    """Return disjoint pairs of clusters to merge, and how many pairs were proposed.

    Where evidence decides, every proposed pair has shown it. Otherwise a pair is accepted with
    probability min(1, ratio).
    """
    first, second = merge_proposals(family, config, rules, state)
    n_proposed = len(first)
    if not n_proposed:
        return [], 0
    ratio = log_merge_ratio(family, config.alpha, state.cluster_stats, (first, second))
    if rules.subcluster_ratio:
        weight = state.cluster_stats[:, 0]
        ratio = ratio + log_subcluster_weights(config.alpha, weight[first], weight[second])
    if not merges_need_evidence(config, state):
        key = key_for(config.seed, batch=state.n_batches, sweep=sweep, purpose="merges")
        chance = family.kernels.uniforms(key, state.ids[first], state.ids[second])[:, 0]
        accepted = ratio > np.log(chance)
        first, second, ratio = first[accepted], second[accepted], ratio[accepted]
    return disjoint(first, second, ratio), n_proposed


def merge_proposals(
    family: Family, config: Config, rules: MoveRules, state: State
) -> tuple[Labels, Labels]:
    """Return the pairs that may merge: neighbours, active, and with evidence where it decides."""
    none = np.zeros(0, dtype=np.int64)
    by_evidence = merges_need_evidence(config, state)
    proven = proven_pairs(config, state) if by_evidence else set()
    if state.n_clusters < 2 or (by_evidence and not proven):
        return none, none
    if rules.n_neighbours is None:
        first, second = np.triu_indices(state.n_clusters, 1)
    else:
        first, second = nearest_pairs(family, state.cluster_stats, rules.n_neighbours)
    may = np.ones(len(first), dtype=bool)
    if not rules.merge_inactive:
        active = state.last_seen >= state.time
        may &= active[first] & active[second]
    if by_evidence:
        ids = zip(state.ids[first].tolist(), state.ids[second].tolist(), strict=True)
        may &= np.array([pair in proven for pair in ids])
    if state.steering.pinned or state.steering.apart:
        may &= state.steering.may_merge(state.ids[first], state.ids[second])
    return first[may], second[may]


def log_subcluster_weights(alpha: float, first: Array, second: Array) -> Array:
    """Log probability of one labelling of two sub-clusters with weights Dir(alpha/2, alpha/2).

    The authors' program adds it to the merge ratio; the paper does not.
    """
    return np.asarray(
        gammaln(alpha)
        - 2.0 * gammaln(alpha / 2.0)
        + gammaln(first + alpha / 2.0)
        + gammaln(second + alpha / 2.0)
        - gammaln(first + second + alpha)
    )
