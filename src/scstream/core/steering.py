"""What people decided about clusters: names, pins, and which splits and merges may not happen.

The decisions are part of the state. Splits, merges and removals of the algorithms keep to them;
`scstream.core.edits` makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from scstream.families.base import Labels, Rows

Action = Literal["name", "merge", "split", "pin", "unpin", "move", "seed", "remove", "undo"]
Level = Literal["cluster", "group"]
ACTIONS: tuple[str, ...] = get_args(Action)
MAX_UNDO = 10  # edits that can be undone

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Edit:
    """One change by a person.

    Parameters
    ----------
    action : str
        "name", "merge", "split", "pin", "unpin", "move", "seed", "remove" or "undo".
    id : int or None
        The cluster, or the group; for "merge" the one that keeps its id.
    other : int or None
        For "merge" the one that is absorbed.
    name : str or None
        The name, for "name" and "seed"; None removes it.
    rows : array of shape (N, D) or None
        The rows, for "move" and "seed".
    level : {"cluster", "group"}
        Whether `id` is a cluster or a group.
    hold : bool
        After "merge" and "split": whether the algorithm must leave the result as it is; for "seed":
        whether the cluster is pinned; for "name": whether another name is replaced.
    author : str
        Who made the change.

    Examples
    --------
    >>> from scstream.core.steering import Edit
    >>> Edit("merge", 3, 9, author="ana").hold
    True
    """

    action: Action
    id: int | None = None
    other: int | None = None
    name: str | None = None
    rows: Rows = None
    level: Level = "cluster"
    hold: bool = True
    author: str = ""


@dataclass(frozen=True, eq=False)
class Undo:
    """How to take an edit back.

    `before` is a state with the clusters that the edit changed, as they were; `after` has the ids
    of the clusters that took their place.
    """

    edit: Edit  # without rows
    events: tuple[Any, ...]  # of type Event, which this module cannot import
    before: Any  # of type State
    after: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Steering:
    """The decisions that are in force."""

    names: Mapping[int, str] = field(default_factory=dict)  # by id of the cluster
    group_names: Mapping[int, str] = field(default_factory=dict)  # by id of the group
    pinned: tuple[int, ...] = ()  # ids of clusters that are never removed nor merged
    whole: tuple[int, ...] = ()  # ids of clusters that do not split
    apart: Pairs = ()  # ids of pairs of clusters that do not merge
    together: Pairs = ()  # ids of pairs of clusters that are in one group
    separate: Pairs = ()  # ids of pairs of clusters that are not in one group
    undo: tuple[Undo, ...] = ()  # the last edits, the newest last

    @property
    def is_empty(self) -> bool:
        """Whether nobody has decided anything."""
        return self is NO_STEERING or not any(vars(self).values())

    def may_split(self, ids: Labels) -> NDArray[np.bool_]:  # (K,)
        """Return which clusters may split."""
        return np.isin(ids, self.whole, invert=True)

    def may_end(self, ids: Labels) -> NDArray[np.bool_]:  # (K,)
        """Return which clusters may be removed or merged."""
        return np.isin(ids, self.pinned, invert=True)

    def may_merge(self, first: Labels, second: Labels) -> NDArray[np.bool_]:  # (M,)
        """Return which pairs of clusters may merge."""
        apart = set(self.apart)
        pairs = zip(
            np.minimum(first, second).tolist(), np.maximum(first, second).tolist(), strict=True
        )
        allowed = np.array([pair not in apart for pair in pairs], dtype=np.bool_)
        return allowed & self.may_end(first) & self.may_end(second)

    def with_names(self, names: Mapping[int, str | None], *, level: Level = "cluster") -> Steering:
        """Return the decisions with other names; None removes a name."""
        before = self.names if level == "cluster" else self.group_names
        merged = sorted({**before, **names}.items())
        kept = {id_: name for id_, name in merged if name is not None}
        return replace(self, names=kept) if level == "cluster" else replace(self, group_names=kept)

    def after(self, merged: Iterable[tuple[int, int]], alive: Iterable[int]) -> Steering:
        """Return what is left of the decisions after a batch.

        A cluster that absorbed another, given as pairs (kept, absorbed), inherits its decisions,
        and its name if it has none itself. Decisions about clusters that ended are dropped.
        """
        if self.is_empty:
            return self
        heir = {gone: kept for kept, gone in merged}
        known = set(alive)

        def current(id_: int) -> int:
            while id_ in heir and id_ not in known:
                id_ = heir[id_]
            return id_

        def names(old: Mapping[int, str]) -> dict[int, str]:
            moved = {current(id_): name for id_, name in sorted(old.items(), reverse=True)}
            moved |= {id_: name for id_, name in old.items() if id_ in known}
            return {id_: name for id_, name in sorted(moved.items()) if id_ in known}

        def single(old: Iterable[int]) -> tuple[int, ...]:
            return tuple(sorted({current(id_) for id_ in old} & known))

        def pairs(old: Pairs) -> Pairs:
            moved = {_ordered(current(first), current(second)) for first, second in old}
            return tuple(sorted(p for p in moved if p[0] != p[1] and known.issuperset(p)))

        return replace(
            self,
            names=names(self.names),
            group_names=names(self.group_names),
            pinned=single(self.pinned),
            whole=single(self.whole),
            apart=pairs(self.apart),
            together=pairs(self.together),
            separate=pairs(self.separate),
        )


NO_STEERING = Steering()


def with_ids(ids: tuple[int, ...], *more: int) -> tuple[int, ...]:
    """Return ids and more of them, in order."""
    return tuple(sorted({*ids, *more}))


def without_ids(ids: tuple[int, ...], *gone: int) -> tuple[int, ...]:
    """Return ids except some."""
    return tuple(id_ for id_ in ids if id_ not in gone)


def with_pair(pairs: Pairs, first: int, second: int) -> Pairs:
    """Return pairs and one more, in order."""
    return tuple(sorted({*pairs, _ordered(first, second)}))


def without_pair(pairs: Pairs, first: int, second: int) -> Pairs:
    """Return pairs except one."""
    return tuple(pair for pair in pairs if pair != _ordered(first, second))


def _ordered(first: int, second: int) -> tuple[int, int]:
    return (first, second) if first < second else (second, first)
