"""Edits by people, as pure functions of a state: name, merge, split, pin, move, seed, remove, undo.

Every function returns a transition whose events have an author. What the algorithms must leave as
it is afterwards is in `State.steering`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scstream.core.cluster_edits import (
    add_clusters,
    apply_fade,
    merge_clusters,
    remove_clusters,
    renewed,
    split_clusters,
    take,
)
from scstream.core.config import Config
from scstream.core.groups import Groups
from scstream.core.state import NOVEL, Event, Kind, State, Transition, ids_in
from scstream.core.steering import (
    MAX_UNDO,
    Edit,
    Steering,
    Undo,
    with_ids,
    with_pair,
    without_ids,
    without_pair,
)
from scstream.core.undo import RULES, undo
from scstream.errors import InputError
from scstream.families.base import Array, Family, Labels

MAX_NAME = 200  # characters
_LEAST_LEFT = 0.01  # share of its weight that a cluster keeps when rows are moved out of it


@dataclass(frozen=True)
class Editable:
    """What an edit needs to know: the clusters, their groups, and the clusters of given rows."""

    family: Family
    config: Config
    state: State
    groups: Groups
    labels: Labels  # (N,) ids of the clusters of `Edit.rows`


def apply_edit(now: Editable, edit: Edit) -> tuple[State, tuple[Event, ...]]:
    """Return the state after an edit, and its events; raise `InputError` if it cannot be done."""
    if edit.action == "undo":
        transition = undo(now.config, now.state)
    else:
        transition = _APPLY[edit.action, edit.level](now, edit)
        transition = _with_undo(now.state, transition, edit)
    author = edit.author or "unknown"
    events = tuple(replace(event, author=author) for event in transition.events)
    state = transition.state
    state.__dict__.pop("tables", None)
    return state, events


def name_cluster(now: Editable, edit: Edit) -> Transition:
    """Give a cluster a name, or take it away; without `hold`, only if it has none."""
    index = index_of(now.state, edit.id)
    name, known = read_name(edit.name), now.state.steering.names.get(edit.id or 0)
    if not edit.hold and known is not None:
        raise InputError(f"cluster {edit.id} has the name {known!r} already.")
    steering = now.state.steering.with_names({int(now.state.ids[index]): name})
    return _noted(now.state, "named", index, steering, name=name)


def merge(now: Editable, edit: Edit) -> Transition:
    """Merge two clusters; the first keeps its id, and its name unless only the other has one."""
    state = now.state
    kept, gone = index_of(state, edit.id), index_of(state, edit.other)
    if kept == gone:
        raise InputError(f"cluster {edit.id} cannot be merged with itself; name two clusters.")
    kept_id, gone_id = int(state.ids[kept]), int(state.ids[gone])
    merged = merge_clusters(RULES, Transition.of(state), [(kept, gone)])
    alive = merged.state.ids.tolist()
    steering = state.steering.after([(kept_id, gone_id)], alive)
    if edit.hold:
        steering = replace(steering, whole=with_ids(steering.whole, kept_id))
    return _steered(merged, steering)


def split(now: Editable, edit: Edit) -> Transition:
    """Split a cluster into its sub-clusters; the heavier one keeps the id."""
    state = now.state
    index = index_of(state, edit.id)
    which = np.array([index])
    if state.subweight[index].min() <= 0:
        state = renewed(now.family, RULES, state, which)
    if state.subweight[index].min() <= 0:
        raise InputError(f"cluster {edit.id} has too few rows to be split.")
    rules = replace(RULES, keep_heavier_id=True)
    cut = split_clusters(now.family, rules, Transition.of(state), which)
    new_id = cut.events[-1].other
    assert edit.id is not None and new_id is not None
    steering = state.steering
    steering = replace(steering, whole=without_ids(steering.whole, edit.id))
    if edit.hold:
        steering = replace(steering, apart=with_pair(steering.apart, edit.id, new_id))
    return _steered(cut, steering)


def pin(now: Editable, edit: Edit) -> Transition:
    """Let a cluster live without rows, and never merge."""
    index = index_of(now.state, edit.id)
    _check_pins(now.config)
    steering = now.state.steering
    pinned = with_ids(steering.pinned, int(now.state.ids[index]))
    return _noted(now.state, "pinned", index, replace(steering, pinned=pinned))


def unpin(now: Editable, edit: Edit) -> Transition:
    """Take a pin away, and let a cluster split and merge again."""
    index = index_of(now.state, edit.id)
    id_, steering = int(now.state.ids[index]), now.state.steering
    free = replace(
        steering,
        pinned=without_ids(steering.pinned, id_),
        whole=without_ids(steering.whole, id_),
        apart=tuple(pair for pair in steering.apart if id_ not in pair),
    )
    return _noted(now.state, "unpinned", index, free)


def move(now: Editable, edit: Edit) -> Transition:
    """Move rows into a cluster: it learns them, and the clusters they were in lose their weight."""
    state, index = now.state, index_of(now.state, edit.id)
    elsewhere = now.labels != state.ids[index]
    rows = edit.rows[elsewhere]
    if not rows.shape[0]:
        return _noted(state, "moved", index, state.steering)
    losers, n_lost = np.unique(now.labels[elsewhere], return_counts=True)
    known = losers != NOVEL
    place = np.searchsorted(state.ids, losers[known])
    state = apply_fade(state, np.append(place, index))
    left = np.maximum(1.0 - n_lost[known] / state.weight[place], _LEAST_LEFT)
    factor = np.ones(state.n_clusters)
    factor[place] = left
    layers: dict[str, Array] = {
        layer: getattr(state, layer) * factor[:, None, None]
        for layer in ("past", "current", "history")
    }
    own = now.family.stats(rows, np.zeros(rows.shape[0], np.int64), 1)
    layers["current"][index] += own / 2.0
    last_seen = state.last_seen.copy()
    last_seen[index] = state.time
    n_novel = float(n_lost[~known].sum())
    state = state.replace(
        **layers, last_seen=last_seen, unassigned_now=max(state.unassigned_now - n_novel, 0.0)
    )
    return _noted(state, "moved", index, state.steering, weight=float(rows.shape[0]))


def seed(now: Editable, edit: Edit) -> Transition:
    """Add a cluster of known rows, which is pinned unless `hold` is False."""
    family, state = now.family, now.state
    if edit.rows is None or not edit.rows.shape[0]:
        raise InputError("seed needs at least one row of the cluster.")
    if state.n_clusters >= now.config.max_clusters:
        raise InputError("there are max_clusters clusters already; remove or merge one first.")
    if edit.hold:
        _check_pins(now.config)
    stats = family.stats(edit.rows, np.zeros(edit.rows.shape[0], np.int64), 1)
    halves = np.stack([stats / 2.0, stats / 2.0], axis=1)  # (1, 2, P)
    added = add_clusters(Transition.of(state), halves, np.array([NOVEL]))
    id_, steering, name = added.events[-1].id, state.steering, read_name(edit.name)
    if edit.hold:
        steering = replace(steering, pinned=with_ids(steering.pinned, id_))
    event = replace(added.events[-1], name=name)
    return _steered(replace(added, events=(event,)), steering.with_names({id_: name}))


def remove(now: Editable, edit: Edit) -> Transition:
    """Remove a cluster; new rows of its kind may form another one."""
    return _remove(now, [index_of(now.state, edit.id)])


def _remove(now: Editable, index: list[int]) -> Transition:
    state = now.state
    if len(index) == state.n_clusters:
        raise InputError("the last cluster cannot be removed; start a new model instead.")
    gone = np.zeros(state.n_clusters, dtype=np.bool_)
    gone[index] = True
    left = remove_clusters(now.config, Transition.of(state), gone)
    return _steered(left, state.steering.after((), left.state.ids.tolist()))


def name_group(now: Editable, edit: Edit) -> Transition:
    """Give a group a name, or take it away."""
    index, name = _members(now, edit.id)[0], read_name(edit.name)
    id_ = int(now.state.ids[index])
    steering = now.state.steering.with_names({id_: name}, level="group")
    return _noted(now.state, "group_named", index, steering, name=name)


def merge_groups(now: Editable, edit: Edit) -> Transition:
    """Join two groups; their clusters stay as they are."""
    first, second = _members(now, edit.id)[0], _members(now, edit.other)[0]
    if first == second:
        raise InputError(f"group {edit.id} cannot be merged with itself; name two groups.")
    a, b = (int(now.state.ids[index]) for index in (first, second))
    steering = now.state.steering
    steering = replace(
        steering,
        together=with_pair(steering.together, a, b),
        separate=without_pair(steering.separate, a, b),
    )
    return _noted(now.state, "grouped", first, steering, other=b)


def split_group(now: Editable, edit: Edit) -> Transition:
    """Separate the clusters of a group where it holds together least."""
    members = _members(now, edit.id)
    if len(members) < 2:
        raise InputError(f"group {edit.id} has one cluster only; split that with level='cluster'.")
    state, steering = now.state, now.state.steering
    first = members[0]
    overlap = now.family.log_overlap(
        state.cluster_stats, np.full(len(members) - 1, first), np.array(members[1:])
    )
    far = members[1 + int(np.argmin(overlap))]
    a, b = int(state.ids[first]), int(state.ids[far])
    steering = replace(
        steering,
        separate=with_pair(steering.separate, a, b),
        together=without_pair(steering.together, a, b),
    )
    return _noted(state, "ungrouped", first, steering, other=b)


def pin_group(now: Editable, edit: Edit) -> Transition:
    """Pin every cluster of a group, or take the pins away."""
    one = pin if edit.action == "pin" else unpin
    transition = Transition.of(now.state)
    for index in _members(now, edit.id):
        at = replace(now, state=transition.state)
        single = replace(edit, id=int(now.state.ids[index]), level="cluster")
        transition = one(at, single).after(transition)
    return transition


def remove_group(now: Editable, edit: Edit) -> Transition:
    """Remove every cluster of a group."""
    return _remove(now, _members(now, edit.id))


def move_to_group(now: Editable, edit: Edit) -> Transition:
    """Move rows into the heaviest cluster of a group."""
    members = _members(now, edit.id)
    heaviest = max(members, key=lambda index: float(now.state.weight[index]))
    return move(now, replace(edit, id=int(now.state.ids[heaviest])))


_APPLY: Any = {
    ("name", "cluster"): name_cluster,
    ("merge", "cluster"): merge,
    ("split", "cluster"): split,
    ("pin", "cluster"): pin,
    ("unpin", "cluster"): unpin,
    ("move", "cluster"): move,
    ("seed", "cluster"): seed,
    ("remove", "cluster"): remove,
    ("name", "group"): name_group,
    ("merge", "group"): merge_groups,
    ("split", "group"): split_group,
    ("pin", "group"): pin_group,
    ("unpin", "group"): pin_group,
    ("move", "group"): move_to_group,
    ("seed", "group"): seed,
    ("remove", "group"): remove_group,
}


def _with_undo(before: State, transition: Transition, edit: Edit) -> Transition:
    """Remember how to take an edit back."""
    state = transition.state
    moves = edit.action == "move"
    ids = set(before.ids.tolist()) if moves else ids_in(transition.events)
    changed = np.flatnonzero(np.isin(before.ids, list(ids)))
    old = take(before, changed)
    old = old.replace(steering=replace(before.steering, undo=()))
    after = [int(id_) for id_ in state.ids if id_ in ids]
    if edit.action == "split":  # the id that stays first
        after = [transition.events[-1].id, transition.events[-1].other or 0]
    record = Undo(replace(edit, rows=None), transition.events, old, tuple(after))
    undo_ = (*before.steering.undo, record)[-MAX_UNDO:]
    return replace(transition, state=state.replace(steering=replace(state.steering, undo=undo_)))


def read_name(name: str | None) -> str | None:
    """Return a name without surrounding space; None for an empty one; raise if it cannot be one."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise InputError(f"a name is a text, got {type(name).__name__}.")
    name = name.strip()
    if len(name) > MAX_NAME or not name.isprintable():
        raise InputError(
            f"a name has at most {MAX_NAME} printable characters and no line breaks, got {name!r}."
        )
    return name or None


def index_of(state: State, id_: Any) -> int:
    """Return the position of a cluster; raise `InputError` if there is none of this id."""
    if isinstance(id_, int | np.integer) and not isinstance(id_, bool):
        place = np.flatnonzero(state.ids == id_)
        if len(place):
            return int(place[0])
    shown = ", ".join(map(str, state.ids[:20])) + (", ..." if state.n_clusters > 20 else "")
    raise InputError(f"there is no cluster {id_!r}; there are {shown or 'none yet'}.")


def _members(now: Editable, id_: Any) -> list[int]:
    """Return the positions of the clusters of a group, the oldest first."""
    groups = now.groups
    if not (isinstance(id_, int | np.integer) and id_ in groups.id):
        shown = ", ".join(map(str, groups.id[:20])) + (", ..." if len(groups) > 20 else "")
        raise InputError(f"there is no group {id_!r}; there are {shown or 'none yet'}.")
    return [int(k) for k in np.searchsorted(now.state.ids, groups.members(int(id_)))]


def _check_pins(config: Config) -> None:
    if config.kernel.capacity:
        raise InputError(
            "a cluster cannot be pinned in a model with a window, which forgets rows for good; use "
            "half_life."
        )


def _steered(transition: Transition, steering: Steering) -> Transition:
    return replace(transition, state=transition.state.replace(steering=steering))


def _noted(
    state: State,
    kind: Kind,
    index: int,
    steering: Steering,
    *,
    name: str | None = None,
    other: int | None = None,
    weight: float | None = None,
) -> Transition:
    """Return a transition with one event about a cluster."""
    weight = float(state.weight[index]) if weight is None else weight
    event = Event(kind, _time(state), int(state.ids[index]), weight, other, name=name)
    return Transition.of(state).to(state.replace(steering=steering), event)


def _time(state: State) -> float:
    return 0.0 if state.is_new else state.time
