"""One sweep over a batch (Algorithm 2): weights and parameters, labels, statistics, then moves."""

from __future__ import annotations

import numpy as np

from scstream.core.assign import AssignmentParams, AssignmentStats, LoadedRows
from scstream.core.cluster_edits import (
    merge_clusters,
    remove_clusters,
    room_to_grow,
    split_clusters,
)
from scstream.core.evidence import least_gain, proven_pairs
from scstream.core.forgetting import unfade_inactive
from scstream.core.moves import disjoint, log_merge_ratio, log_split_ratio, nearest_pairs
from scstream.core.rng import ClusterDraws, key_for, uniforms
from scstream.core.state import Config, State, Transition
from scstream.core.weights import drawn_weights, mean_weights
from scstream.families.base import Array, Family, Labels
from scstream.native import twin


def sampling_sweep(
    family: Family, config: Config, state: State, rows: LoadedRows, *, sweep: int
) -> Transition:
    """Draw weights, parameters and labels, then try to split and to merge."""
    plan = sampling_plan(family, config, state, sweep=sweep)
    return move(family, config, relabel(state, rows, plan), sweep=sweep)


def predictive_sweep(
    family: Family, config: Config, state: State, rows: LoadedRows, *, sweep: int
) -> Transition:
    """Give every row its most probable label, then try to split and to merge."""
    plan = predictive_plan(family, config, state, sweep=sweep)
    return move(family, config, relabel(state, rows, plan), sweep=sweep)


def sampling_plan(family: Family, config: Config, state: State, *, sweep: int) -> AssignmentParams:
    """Compare rows with parameters drawn from the posterior, and draw their labels."""
    weights, params, subclusters, labels = (
        key_for(config.seed, batch=state.n_batches, sweep=sweep, purpose=purpose)
        for purpose in ("weights", "params", "subclusters", "labels")
    )
    log_weight, log_new, log_subweight = drawn_weights(state, config.alpha, weights)
    clusters, parts = drawn_tables(
        family, unfade_inactive(config, state).subclusters, state.ids, params, subclusters
    )
    return AssignmentParams(
        clusters=clusters,
        subclusters=parts,
        log_weight=log_weight,
        log_subweight=log_subweight,
        predictive=False,
        log_new=log_new if may_be_novel(config, state) else None,
        prior=family.prior_predictive,
        key=labels,
        single=config.precision == "float32",
    )


@twin
def drawn_tables(
    family: Family, stats: Array, ids: Labels, clusters: int, subclusters: int
) -> tuple[Array, Array]:  # (K, Q), (2K, Q)
    """Parameters of clusters and of their halves (K, 2, P), drawn under two keys."""
    # A half draws under twice the id of its cluster, plus its side.
    half_ids = (2 * ids[:, None] + np.arange(2)).reshape(-1)
    flat = stats.reshape(-1, stats.shape[-1])
    return (
        family.sample_posterior(stats[:, 0] + stats[:, 1], ClusterDraws(clusters, ids)),
        family.sample_posterior(flat, ClusterDraws(subclusters, half_ids)),
    )


def predictive_plan(
    family: Family,
    config: Config,
    state: State,
    *,
    sweep: int | None = None,
    collect_evidence: bool = False,
    subclusters: bool = True,
) -> AssignmentParams:
    """Compare rows with the posterior predictive, and take the most probable label.

    In a `sweep`, learn from labels that are drawn. Without `subclusters`, rows choose no half.
    """
    key = None
    if sweep is not None and config.learn_draws:
        key = key_for(config.seed, batch=state.n_batches, sweep=sweep, purpose="labels")
    log_weight, log_new, log_subweight = mean_weights(state, config.alpha)
    remembered = unfade_inactive(config, state)
    clusters, exact = _tables(family, config, remembered.cluster_stats)
    parts = (
        remembered.subclusters.reshape(-1, family.n_stats)
        if subclusters
        else remembered.cluster_stats[:0]
    )
    return AssignmentParams(
        clusters=clusters,
        subclusters=_tables(family, config, parts)[0],
        log_weight=log_weight,
        log_subweight=log_subweight,
        predictive=exact,
        log_new=log_new if may_be_novel(config, state) else None,
        prior=family.prior_predictive,
        key=key,
        report_map=key is not None,
        collect_evidence=collect_evidence,
        single=config.precision == "float32",
    )


def _tables(family: Family, config: Config, stats: Array) -> tuple[Array, bool]:
    """Tables to compare rows with, and whether they are exact predictives or plug-in means."""
    plugged = None if config.exact_predictive else family.expected(stats)
    return (family.predictive_params(stats), True) if plugged is None else (plugged, False)


def may_be_novel(config: Config, state: State) -> bool:
    """Rows may choose no cluster, unless there are hardly enough of them for one."""
    if state.n_clusters == 0:
        return True
    return config.births and float(state.weight.sum()) >= config.birth_floor


def relabel(state: State, rows: LoadedRows, plan: AssignmentParams) -> Transition:
    """Let the rows choose and replace the statistics of this batch by those of the choices."""
    return learn(state, rows.assign(plan))


def learn(state: State, found: AssignmentStats, share: float = 1.0) -> Transition:
    """Take over the statistics of a pass; every row stands for so many."""
    current = found.stats if share == 1.0 else share * found.stats
    touched = current[:, 0, 0] + current[:, 1, 0] > 0
    state = state.replace(
        current=current,
        unassigned_now=share * found.novel_weight,
        age=state.age + 1,
        last_seen=np.where(touched, state.time, state.last_seen),
    )
    state = state.replace(peak=np.maximum(state.peak, state.weight))
    return Transition.of(state, log_density=found.log_density)


def move(family: Family, config: Config, transition: Transition, *, sweep: int) -> Transition:
    """Splits, then merges, then burial of the empty."""
    which = splits(family, config, transition.state, sweep=sweep)
    if len(which):
        transition = split_clusters(family, config, transition, which)
    pairs = merges(family, config, transition.state, sweep=sweep)
    if pairs:
        transition = merge_clusters(config, transition, pairs)
    empty = transition.state.weight <= 0.0
    if empty.any() and not empty.all():
        transition = remove_clusters(config, transition, empty)
    return transition


def splits(family: Family, config: Config, state: State, *, sweep: int) -> Labels:
    """Indices of the clusters that are to be split."""
    subclusters = state.subclusters
    lighter = subclusters[:, :, 0].min(axis=1)
    room = room_to_grow(config, state)
    may = (lighter > 0) & (lighter >= config.split_floor) & (state.age >= config.split_age)
    open_: Labels = may.nonzero()[0]
    if not len(open_) or room <= 0:
        return open_[:0]
    key = key_for(config.seed, batch=state.n_batches, sweep=sweep, purpose="splits")
    left, right = (
        subclusters[:, side] if may.all() else subclusters[open_, side] for side in (0, 1)
    )
    weight = state.weight[open_]
    ratio = log_split_ratio(family, config.alpha, left, right) - least_gain(config, weight) * weight
    chance = np.log(uniforms(key, state.ids[open_])[:, 0])
    accepted = ratio > chance
    if config.split_evidence is not None:
        # The ratio pays for the labels of rows, which cannot be worth more than log 2 each.
        possible = ratio > -np.log(2.0) * weight
        accepted |= possible & (state.split_evidence[open_] > config.split_evidence)
    return open_[accepted][:room]


def merges(family: Family, config: Config, state: State, *, sweep: int) -> list[tuple[int, int]]:
    """Disjoint pairs of clusters that are to be united, most probable first."""
    first, second = merge_candidates(family, config, state)
    if not len(first):
        return []
    ratio = log_merge_ratio(
        family,
        config.alpha,
        state.cluster_stats,
        (first, second),
        correction=config.merge_correction,
    )
    if not merges_need_evidence(config, state):
        key = key_for(config.seed, batch=state.n_batches, sweep=sweep, purpose="merges")
        accepted = ratio > np.log(uniforms(key, state.ids[first], state.ids[second])[:, 0])
        first, second, ratio = first[accepted], second[accepted], ratio[accepted]
    return disjoint(first, second, ratio)


def merge_candidates(family: Family, config: Config, state: State) -> tuple[Labels, Labels]:
    """Pairs that may merge: neighbours, not silent, and proven where evidence decides."""
    none = np.zeros(0, dtype=np.int64)
    by_evidence = merges_need_evidence(config, state)
    proven = proven_pairs(config, state) if by_evidence else set()
    if state.n_clusters < 2 or (by_evidence and not proven):
        return none, none
    if config.n_neighbours is None:
        first, second = np.triu_indices(state.n_clusters, 1)
    else:
        first, second = nearest_pairs(family, state.cluster_stats, config.n_neighbours)
    may = np.ones(len(first), dtype=bool)
    if not config.merge_silent:
        active = state.last_seen >= state.time
        may &= active[first] & active[second]
    if by_evidence:
        ids = zip(state.ids[first].tolist(), state.ids[second].tolist(), strict=True)
        may &= np.array([pair in proven for pair in ids])
    return first[may], second[may]


def merges_need_evidence(config: Config, state: State) -> bool:
    """On the first batch there is no evidence yet: there the ratio decides."""
    return config.merge_evidence is not None and state.n_batches > 0


def nearest_to(family: Family, state: State, index: int) -> int:
    """Index of the cluster nearest to the one at `index`."""
    points = family.coordinates_of(state.cluster_stats)
    distance = np.square(points - points[index]).sum(axis=1)
    distance[index] = np.inf
    return int(np.argmin(distance))
