"""Take back edits by people."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scstream.core.cluster_edits import (
    EditRules,
    merge_clusters,
    remove_clusters,
    restore_clusters,
)
from scstream.core.config import Config
from scstream.core.state import Event, Kind, State, Transition
from scstream.core.steering import MAX_UNDO, Steering, Undo, with_ids, without_ids
from scstream.errors import InputError

RULES = EditRules(keep_heavier_id=False, bisect_past=True)  # of merges by people


def undo(config: Config, state: State) -> Transition:
    """Take back the newest edit that is not undone yet.

    Until the next batch is learned, every number is as it was before the edit. Later, clusters that
    were merged or removed return with the shapes they had, and clusters that were split are merged.
    """
    if not state.steering.undo:
        raise InputError(f"there is no edit to undo; the last {MAX_UNDO} can be undone.")
    last = state.steering.undo[-1]
    if state.n_batches == last.before.n_batches:
        back = restore_clusters(state, last.after, last.before)
        steering = last.before.steering
    else:
        back, steering = _undo_later(config, state, last)
    steering = replace(steering, undo=state.steering.undo[:-1])
    time = 0.0 if state.is_new else state.time
    events = [_inverse(event, last, time) for event in reversed(last.events)]
    back = back.replace(steering=steering, next_id=state.next_id)
    return Transition.of(back).to(back, *events)


def _undo_later(config: Config, state: State, last: Undo) -> tuple[State, Steering]:
    """Take back an edit after batches were learned."""
    edit, before = last.edit, last.before
    steering = _steering_before(state.steering, last)
    if edit.action in ("name", "pin", "unpin") or (
        edit.level == "group" and edit.action in ("merge", "split")
    ):
        return state, steering
    if edit.action == "move":
        raise InputError(
            "rows that were moved cannot be moved back after more batches were learned; move them "
            "to another cluster instead."
        )
    missing = [id_ for id_ in last.after if id_ not in state.ids]
    if missing:
        raise InputError(
            f"the {edit.action} cannot be undone because cluster {missing[0]} has ended since."
        )
    place = np.searchsorted(state.ids, np.array(last.after, dtype=np.int64))
    if edit.action == "split":
        pair = (int(place[0]), int(place[1]))
        return merge_clusters(RULES, Transition.of(state), [pair]).state, steering
    if edit.action == "seed":
        gone = np.isin(state.ids, last.after)
        return remove_clusters(config, Transition.of(state), gone).state, steering
    faded = before.weight
    if edit.action == "merge":  # divide the weight that the union has now
        left = float(state.weight[place].sum())
        factor = left / max(float(faded.sum()), np.finfo(float).tiny)
    else:
        factor = float(config.kernel.weight(np.asarray(state.time - before.time)))
    shapes = before.subclusters * factor
    fresh = before.replace(
        past=np.zeros_like(before.past),
        fade=np.ones_like(before.fade),
        current=shapes,
        history=np.zeros((len(state.history), *before.past.shape)),
        last_seen=np.full(len(before.ids), state.time),
    )
    return restore_clusters(state, last.after, fresh, rest_of=state), steering


def _steering_before(steering: Steering, last: Undo) -> Steering:
    """Return the decisions of now, with those about the clusters of an edit as before it."""
    before: Steering = last.before.steering
    ids = {*last.before.ids.tolist(), *last.after}
    steering = steering.with_names({id_: before.names.get(id_) for id_ in ids})
    groups = {id_: before.group_names.get(id_) for id_ in ids}
    steering = steering.with_names(groups, level="group")
    changed: dict[str, Any] = {}
    for name in ("pinned", "whole"):
        old = [id_ for id_ in getattr(before, name) if id_ in ids]
        changed[name] = with_ids(without_ids(getattr(steering, name), *ids), *old)
    for name in ("apart", "together", "separate"):
        kept = {pair for pair in getattr(steering, name) if not ids.issuperset(pair)}
        kept |= {pair for pair in getattr(before, name) if ids.issuperset(pair)}
        changed[name] = tuple(sorted(kept))
    return replace(steering, **changed)


_INVERSE: dict[str, Kind] = {
    "merged": "split",
    "split": "merged",
    "died": "returned",
    "born": "died",
    "pinned": "unpinned",
    "unpinned": "pinned",
    "grouped": "ungrouped",
    "ungrouped": "grouped",
}


def _inverse(event: Event, last: Undo, time: float) -> Event:
    """Return the event that takes another one back, for those who follow events."""
    steering: Steering = last.before.steering
    old = {"named": steering.names, "group_named": steering.group_names}.get(event.kind, {})
    kind = _INVERSE.get(event.kind, event.kind)
    return replace(event, kind=kind, time=time, name=old.get(event.id))
