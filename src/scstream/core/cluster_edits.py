"""The only code that changes the set of clusters.

Every function returns a transition in which the total weight is the same, ids are in increasing
order, and the ids of rows follow their clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed_copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.core.archive import born_before, retire, without
from scstream.core.config import Config
from scstream.core.state import NOVEL, Event, Kind, State, Transition
from scstream.families.base import Array, Family, Labels

RECENT = 1.5  # batch intervals without rows after which a cluster is inactive
_MAX_ADDED = 32  # clusters added at a time, or half the number of clusters
_LAYERS = ("past", "current", "history")
_PER_CLUSTER = (
    "ids",
    "fade",
    "age",
    "born",
    "last_seen",
    "peak",
    "velocity",
    "velocity_noise",
    "split_evidence",
)


@dataclass(frozen=True)
class EditRules:
    """How an algorithm carries out splits and merges."""

    keep_heavier_id: bool  # the heavier side keeps the id, not the left or older one
    bisect_past: bool  # cut statistics along the principal axis, not into equal halves


def max_added(config: Config, state: State) -> int:
    """How many clusters may be added at a time: an unusual batch must not flood the state."""
    return min(config.max_clusters - state.n_clusters, max(_MAX_ADDED, state.n_clusters // 2))


def add_clusters(transition: Transition, current: Array, known: Labels) -> Transition:
    """Add clusters without a past; `current` (G, 2, P) are statistics of their sub-clusters.

    `known` (G,) is the id of an archived cluster that returns, or NOVEL for a new one.
    """
    state, n = transition.state, len(current)
    returns = known != NOVEL
    n_born = int((~returns).sum())
    ids = known.copy()
    ids[~returns] = np.arange(state.next_id, state.next_id + n_born)
    weight = current[:, :, 0].sum(axis=1)
    added = state.replace(
        ids=ids,
        age=np.zeros(n, dtype=np.int64),
        born=born_before(state.archive, known, state.time),
        last_seen=np.full(n, state.time),
        peak=weight,
        velocity=np.zeros((n, state.velocity.shape[1])),
        velocity_noise=np.zeros(n),
        split_evidence=np.zeros(n),
        fade=np.ones(n),
        past=np.zeros_like(current),
        current=current,
        history=np.zeros((len(state.history), *current.shape)),
    )
    grown = _by_id(_join(state, added))
    grown = grown.replace(
        next_id=state.next_id + n_born, archive=without(state.archive, known[returns])
    )
    kinds: list[Kind] = ["returned" if back else "born" for back in returns]
    events = [
        Event(kind, state.time, int(i), float(w))
        for kind, i, w in zip(kinds, ids, weight, strict=True)
    ]
    return transition.to(grown, *events)


def split_clusters(
    family: Family, rules: EditRules, transition: Transition, which: Labels
) -> Transition:
    """Replace the clusters at indices `which` by their sub-clusters."""
    state, n = transition.state, len(which)
    weight = state.subclusters[which, :, 0]  # (n, 2)
    leaver = np.ones(n, dtype=np.int64)
    if rules.keep_heavier_id:
        leaver = (weight[:, 1] <= weight[:, 0]).astype(np.int64)
    ids = np.arange(state.next_id, state.next_id + n)
    cut = take(state, which)
    stayer, child = (
        cut.replace(
            **_child_layers(family, rules, cut, side),
            age=np.zeros(n, dtype=np.int64),
            split_evidence=np.zeros(n),
        )
        for side in (1 - leaver, leaver)
    )
    child = child.replace(ids=ids, born=np.full(n, state.time))
    stayer, child = (part.replace(peak=part.weight) for part in (stayer, child))
    grown = _put(_join(state, child), which, stayer)
    grown = _forget_pairs(grown, state.ids[which]).replace(next_id=state.next_id + n)
    label_ids = transition.label_ids.copy()
    events = []
    for k, side, new_id, w in zip(which, leaver, ids, weight, strict=True):
        old_id = int(state.ids[k])
        label_ids[label_ids[:, side] == old_id, side] = new_id
        events.append(Event("split", state.time, old_id, float(w[side]), other=int(new_id)))
    return transition.to(grown, *events, label_ids=label_ids)


def merge_clusters(
    rules: EditRules, transition: Transition, pairs: Sequence[tuple[int, int]]
) -> Transition:
    """Merge disjoint pairs of clusters; the two become the sub-clusters of the union."""
    state, label_ids = transition.state, transition.label_ids.copy()
    weight, events = state.weight, []
    keep, gone = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
    if rules.keep_heavier_id:
        swap = weight[gone] > weight[keep]
        keep[swap], gone[swap] = gone[swap], keep[swap]
    state = apply_fade(state, np.append(keep, gone))
    one, other = take(state, keep), take(state, gone)
    total = np.maximum(weight[keep] + weight[gone], np.finfo(float).tiny)
    share = (weight[gone] / total)[:, None]
    layers = {
        layer: np.stack([getattr(part, layer).sum(axis=-2) for part in (one, other)], axis=-2)
        for layer in _LAYERS
    }
    union = one.replace(
        **layers,
        velocity=(1 - share) * one.velocity + share * other.velocity,
        last_seen=np.maximum(one.last_seen, other.last_seen),
        born=np.minimum(one.born, other.born),
        peak=np.maximum(total, one.peak),
        split_evidence=np.zeros(len(keep)),
    )
    for k, g, w in zip(state.ids[keep], state.ids[gone], total, strict=True):
        label_ids[label_ids == g] = k
        events.append(Event("merged", state.time, int(k), float(w), other=int(g)))
    stay = np.setdiff1d(np.arange(state.n_clusters), gone)
    smaller = _forget_pairs(take(state, stay), state.ids[np.append(keep, gone)])
    united = _put(smaller, np.searchsorted(stay, keep), union)
    return transition.to(united, *events, label_ids=label_ids)


def renew_subclusters(family: Family, rules: EditRules, transition: Transition) -> Transition:
    """Cut clusters with rows in this batch, but none in one sub-cluster, into new sub-clusters.

    Otherwise the other sub-cluster would keep all rows, and the cluster could never split.
    """
    state = transition.state
    count = state.current[:, :, 0]
    which = np.flatnonzero((count.min(axis=1) <= 0) & (count.max(axis=1) > 0))
    return transition.to(renewed(family, rules, state, which)) if len(which) else transition


def renewed(family: Family, rules: EditRules, state: State, which: Labels) -> State:
    """Return the state with some clusters cut into new sub-clusters."""
    changed = {}
    for layer in _LAYERS:
        values = getattr(state, layer).copy()
        whole = values[..., which, :, :].sum(axis=-2)
        values[..., which, :, :] = _bisected(family, rules, whole, state.cluster_stats[which])
        changed[layer] = values
    return state.replace(**changed)


def remove_clusters(
    config: Config, transition: Transition, removed: NDArray[np.bool_]
) -> Transition:
    """Remove clusters; their weight becomes unassigned, their rows belong to no cluster."""
    state, weight = transition.state, transition.state.weight
    events = [
        Event("died", state.time, int(state.ids[k]), float(weight[k]))
        for k in np.flatnonzero(removed)
    ]
    smaller = _forget_pairs(state, state.ids[removed]).replace(
        unassigned_weight=state.unassigned_weight
        + float((state.past[removed, :, 0] * state.fade[removed, None]).sum()),
        unassigned_now=state.unassigned_now + float(state.current[removed, :, 0].sum()),
        history_unassigned=state.history_unassigned
        + state.history[:, removed][..., 0].sum(axis=(1, 2)),
        archive=retire(config, state, removed & (state.born < state.time)),
    )
    label_ids = np.where(
        np.isin(transition.label_ids, state.ids[removed]), NOVEL, transition.label_ids
    )
    return transition.to(take(smaller, np.flatnonzero(~removed)), *events, label_ids=label_ids)


def number_from_zero(transition: Transition) -> Transition:
    """Number the clusters of a first batch 0 .. K-1; no user has seen other ids yet."""
    state = transition.state
    ids = np.arange(state.n_clusters)
    place = np.searchsorted(state.ids, np.maximum(transition.label_ids, 0))
    numbered = _forget_pairs(state, state.ids).replace(ids=ids, next_id=state.n_clusters)
    events = [
        Event("born", state.time, int(k), float(w)) for k, w in zip(ids, state.weight, strict=True)
    ]
    label_ids = np.where(transition.label_ids == NOVEL, NOVEL, place)
    return changed_copy(transition, state=numbered, label_ids=label_ids, events=tuple(events))


def apply_fade(state: State, which: Labels) -> State:
    """Let the statistics of some clusters fade for good, so that others can be added to them."""
    which = which[state.fade[which] != 1.0]
    if not len(which):
        return state
    past, fade = state.past.copy(), state.fade.copy()
    past[which] *= fade[which, None, None]
    fade[which] = 1.0
    return state.replace(past=past, fade=fade)


def take(state: State, index: Labels) -> State:
    """Keep the clusters at these indices, in this order."""
    kept: dict[str, NDArray[Any]] = {
        name: getattr(state, name)[index] for name in (*_PER_CLUSTER, "past", "current")
    }
    return state.replace(history=state.history[:, index], **kept)


def put_back(whole: State, index: Labels, part: State) -> State:
    """Return a part of a state, the clusters at `index`, changed, with the other clusters.

    It writes into the statistics of the whole, which nobody may use any more.
    """
    others = np.setdiff1d(np.arange(whole.n_clusters), index)
    if np.array_equal(whole.ids[index], part.ids):
        joined: dict[str, NDArray[Any]] = {}
        for name in (*_PER_CLUSTER, "past", "current"):
            values = getattr(whole, name)
            values = values if name in ("past", "current") else values.copy()
            values[index] = getattr(part, name)
            joined[name] = values
        state = part.replace(**joined, history=whole.history)
    else:
        state = _by_id(_join(take(part.replace(**_fields(whole)), others), part))
    inside = np.isin(whole.merge_pairs, whole.ids[index]).all(axis=1)
    recent = whole.last_seen >= whole.time - RECENT * whole.batch_interval
    here = np.isin(whole.merge_pairs, np.intersect1d(state.ids, whole.ids[recent])).all(axis=1)
    here &= ~inside
    return state.replace(
        merge_pairs=np.concatenate([part.merge_pairs, whole.merge_pairs[here]]),
        merge_evidence=np.concatenate([part.merge_evidence, whole.merge_evidence[here]]),
    )


def restore_clusters(
    state: State, gone: Sequence[int], back: State, *, rest_of: State | None = None
) -> State:
    """Put the clusters of `back` in place of those with the ids `gone`.

    What does not belong to single clusters is that of `back`, or of `rest_of`.
    """
    others = np.flatnonzero(~np.isin(state.ids, gone))
    frame = (back if rest_of is None else rest_of).replace(**_fields(state))
    return _by_id(_join(take(frame, others), back))


def _fields(state: State) -> dict[str, NDArray[Any]]:
    """Return the arrays with an entry per cluster."""
    return {name: getattr(state, name) for name in (*_PER_CLUSTER, "past", "current", "history")}


def _join(first: State, second: State) -> State:
    """Put the clusters of the second state behind those of the first."""
    both: dict[str, NDArray[Any]] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in (*_PER_CLUSTER, "past", "current")
    }
    return first.replace(history=np.concatenate([first.history, second.history], axis=1), **both)


def _put(state: State, index: Labels, part: State) -> State:
    """Write the clusters of a part over those at these indices of a state of its own arrays."""
    for name in (*_PER_CLUSTER, "past", "current"):
        getattr(state, name)[index] = getattr(part, name)
    state.history[:, index] = part.history
    return state


def _by_id(state: State) -> State:
    if (np.diff(state.ids) > 0).all():
        return state
    return take(state, np.argsort(state.ids, kind="stable"))


def _child_layers(
    family: Family, rules: EditRules, state: State, side: Labels
) -> dict[str, NDArray[Any]]:
    """Layers of the clusters that one sub-cluster of each cluster becomes."""
    every = np.arange(state.n_clusters)
    along = state.subclusters[every, side]
    return {
        layer: _bisected(family, rules, getattr(state, layer)[..., every, side, :], along)
        for layer in _LAYERS
    }


def _bisected(
    family: Family, rules: EditRules, stats: Array, along: Array
) -> Array:  # (..., K, P), (K, P) -> (..., K, 2, P)
    """Sub-clusters of clusters in one layer."""
    flat = stats.reshape(-1, stats.shape[-1])
    axis = np.broadcast_to(along, stats.shape).reshape(flat.shape)
    shape = (*stats.shape[:-1], 2, stats.shape[-1])
    return subclusters_of(family, rules, flat, axis).reshape(*shape)


def subclusters_of(family: Family, rules: EditRules, stats: Array, along: Array) -> Array:
    """Sub-clusters (G, 2, P) of groups with these statistics (G, P); their sum is the group."""
    offset = np.zeros_like(stats)
    if rules.bisect_past and len(stats):
        offset = stats[:, :1] * family.bisect(stats, along)
    return np.stack([stats / 2.0 + offset, stats / 2.0 - offset], axis=1)


def _forget_pairs(state: State, ids: Labels) -> State:
    keep = ~np.isin(state.merge_pairs, ids).any(axis=1)
    return state.replace(
        merge_pairs=state.merge_pairs[keep],
        merge_evidence=state.merge_evidence[keep],
    )
