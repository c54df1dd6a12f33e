"""What the algorithm knows: Batch, State, Transition, Event and Info, all frozen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from scstream.core.notes import Notes
from scstream.core.rng import spaced_rows
from scstream.core.steering import NO_STEERING, Steering
from scstream.families.base import Array, Family, Labels, Rows
from scstream.kernels import Kernels

Kind = Literal[
    "born", "split", "merged", "died", "returned",
    "named", "pinned", "unpinned", "moved", "group_named", "grouped", "ungrouped",
]  # fmt: skip

NOVEL = -1  # label of a row that belongs to no cluster yet


@dataclass(frozen=True)
class Batch:
    """Rows that arrive together."""

    rows: Rows  # (N, D)
    time: float
    weight: Array | None = None  # (N,)
    notes: Notes | None = None  # about the rows

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return int(self.rows.shape[0])

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    def sample(self, kernels: Kernels, max_n: int, key: int) -> tuple[Batch, float]:
        """Return at most `max_n` random rows, and the number of rows that each one represents."""
        if self.n_rows <= max_n:
            return self, 1.0
        picked = spaced_rows(kernels, key, self.n_rows, max_n)
        weight = None if self.weight is None else self.weight[picked]
        return Batch(self.rows[picked], self.time, weight), self.n_rows / max_n


@dataclass(frozen=True)
class Archive:
    """Removed clusters, with the statistics they had when they were heaviest."""

    ids: NDArray[np.int64]  # (A,)
    stats: Array  # (A, P)
    born: Array  # (A,)

    @classmethod
    def empty(cls, n_stats: int) -> Self:
        """Return an archive without clusters."""
        none = np.zeros(0)
        return cls(none.astype(np.int64), np.zeros((0, n_stats)), none)


@dataclass(frozen=True, eq=False)
class State:
    """The mixture between two batches. A cluster is the sum of its two sub-clusters."""

    past: Array  # (K, 2, P) statistics of earlier batches, before `fade`
    fade: Array  # (K,) share of its past that a cluster without new rows has left
    current: Array  # (K, 2, P) statistics of the newest batch
    history: Array  # (H, K, 2, P) statistics of single earlier batches; H = 0 for O(1) kernels
    history_times: Array  # (H,)
    history_unassigned: Array  # (H,)
    ids: NDArray[np.int64]  # (K,) increasing
    age: NDArray[np.int64]  # (K,) sweeps since birth
    born: Array  # (K,) time of birth
    last_seen: Array  # (K,) time of the newest row
    peak: Array  # (K,) largest weight so far
    velocity: Array  # (K, D) per unit of time
    velocity_noise: Array  # (K,) mean square of a velocity that is noise alone, in stds
    split_evidence: Array  # (K,) faded log evidence for two clusters in place of one
    merge_pairs: Labels  # (M, 2) ids of clusters that may be one
    merge_evidence: Array  # (M,) faded log evidence for one cluster in place of the two
    unassigned_weight: float  # faded weight of rows that belong to no cluster
    unassigned_now: float  # the same in the newest batch
    archive: Archive
    next_id: int
    time: float  # of the newest batch; minus infinity before the first
    batch_interval: float  # time between the last two batches
    n_candidates: int  # clusters that a row is compared with exactly; 0: not decided yet
    n_batches: int
    steering: Steering = NO_STEERING  # what people decided

    @classmethod
    def empty(cls, family: Family) -> Self:
        """Return the state before the first batch: no clusters."""
        subclusters = np.zeros((0, 2, family.n_stats))
        none = np.zeros(0)
        return cls(
            past=subclusters,
            fade=none,
            current=subclusters,
            history=subclusters[None, :][:0],
            history_times=none,
            history_unassigned=none,
            ids=none.astype(np.int64),
            age=none.astype(np.int64),
            born=none,
            last_seen=none,
            peak=none,
            velocity=np.zeros((0, family.n_features)),
            velocity_noise=none,
            split_evidence=none,
            merge_pairs=np.zeros((0, 2), dtype=np.int64),
            merge_evidence=none,
            unassigned_weight=0.0,
            unassigned_now=0.0,
            archive=Archive.empty(family.n_stats),
            next_id=0,
            time=-np.inf,
            batch_interval=1.0,
            n_candidates=0,
            n_batches=0,
        )

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.ids)

    @cached_property
    def subclusters(self) -> Array:  # (K, 2, P)
        """Statistics of the sub-clusters."""
        if not (self.fade == 1.0).all():
            return _locked(self.past * self.fade[:, None, None] + self.current)
        if not self.current[:, :, 0].any():
            return _locked(self.past[:])
        return _locked(self.past + self.current)

    def subclusters_at(self, index: Labels) -> Array:  # (G, 2, P)
        """Statistics of the sub-clusters of some clusters."""
        return np.asarray(self.past[index] * self.fade[index, None, None] + self.current[index])

    @cached_property
    def cluster_stats(self) -> Array:  # (K, P)
        """Statistics of the clusters."""
        return _locked(self.subclusters[:, 0] + self.subclusters[:, 1])

    @cached_property
    def subweight(self) -> Array:  # (K, 2)
        """Faded number of rows of each sub-cluster."""
        return _locked(self.past[:, :, 0] * self.fade[:, None] + self.current[:, :, 0])

    @cached_property
    def weight(self) -> Array:  # (K,)
        """Faded number of rows of each cluster."""
        return _locked(self.subweight[:, 0] + self.subweight[:, 1])

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed.

        It is faster than `dataclasses.replace`, and keeps the cached sums of layers that stay.
        """
        if not changes.keys() <= self.__dataclass_fields__.keys():
            unknown = min(changes.keys() - self.__dataclass_fields__.keys())
            raise TypeError(f"State has no field {unknown!r}")
        other = object.__new__(type(self))
        object.__setattr__(other, "__dict__", self.__dict__ | changes)
        if not changes.keys().isdisjoint(("past", "fade", "current")):
            for sums in ("subclusters", "cluster_stats", "subweight", "weight"):
                other.__dict__.pop(sums, None)
        return other

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def is_new(self) -> bool:
        """Whether no batch has come yet."""
        return self.time == -np.inf

    @property
    def total_weight(self) -> float:
        """Faded number of all rows seen."""
        return float(self.weight.sum()) + self.unassigned_weight + self.unassigned_now

    @property
    def share(self) -> Array:  # (K,)
        """Share of each cluster of the faded number of all rows, those of no cluster included."""
        return np.asarray(self.weight / max(self.total_weight, np.finfo(float).tiny))


@dataclass(frozen=True, repr=False)
class Event:
    """One change of the set of clusters.

    Parameters
    ----------
    kind : {"born", "split", "merged", "died", "returned"}
        What happened. Edits by people are also "named", "pinned", "unpinned", "moved",
        "group_named", "grouped" and "ungrouped".
    time : float
        Time of the batch in which it happened.
    id : int
        The cluster. For a split or a merge, the cluster that keeps its id.
    weight : float
        Faded number of rows of the cluster; for a split, that of the new cluster.
    other : int or None
        For a split the new id, for a merge the id that was absorbed.
    author : str or None
        Who did it; None for the algorithm.
    name : str or None
        For "named" and "group_named" the new name, and for a seeded cluster its name.

    Examples
    --------
    >>> from scstream import ScStream
    >>> ScStream(random_state=0).fit([[0.0], [1.0], [2.0]]).events_
    [Event(kind='born', time=0.0, id=0, weight=3.0, other=None)]
    """

    kind: Kind
    time: float
    id: int
    weight: float
    other: int | None = None
    author: str | None = None
    name: str | None = None

    def __repr__(self) -> str:
        shown = [name for name in vars(self) if name not in ("author", "name")]
        shown += [name for name in ("author", "name") if getattr(self, name) is not None]
        return f"Event({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def ids_in(events: Iterable[Event]) -> set[int]:
    """Return the ids of all clusters that events are about."""
    return {id_ for event in events for id_ in (event.id, event.other) if id_ is not None}


@dataclass(frozen=True)
class Moves:
    """Counts of split and merge proposals and of those that were accepted.

    A cluster is proposed for a split in a sweep if both of its sub-clusters are heavy and old
    enough; a pair is proposed for a merge if it is among the candidates.
    """

    split_proposals: int = 0
    splits: int = 0
    merge_proposals: int = 0
    merges: int = 0

    def __add__(self, other: Moves) -> Moves:
        return Moves(
            self.split_proposals + other.split_proposals,
            self.splits + other.splits,
            self.merge_proposals + other.merge_proposals,
            self.merges + other.merges,
        )


@dataclass(frozen=True)
class Transition:
    """A state that is being changed by a batch, the ids of its rows and what happened so far."""

    state: State
    label_ids: Labels  # (K, 2) id of the rows of every sub-cluster of the last pass
    events: tuple[Event, ...] = ()
    moves: Moves = Moves()
    log_density: float = float("nan")  # sum over rows after the last pass, weights not normalised

    @classmethod
    def of(cls, state: State, *, log_density: float = float("nan")) -> Self:
        """Begin with a state in which rows have the ids of their clusters."""
        return cls(state, state.ids.repeat(2).reshape(-1, 2), log_density=log_density)

    def to(self, state: State, *events: Event, label_ids: Labels | None = None) -> Transition:
        """Go on to a changed state."""
        label_ids = self.label_ids if label_ids is None else label_ids
        events = self.events + events
        return Transition(state, label_ids, events, self.moves, self.log_density)

    def after(self, earlier: Transition) -> Transition:
        """Return this transition with the events and moves of an earlier one in front."""
        events, moves = earlier.events + self.events, earlier.moves + self.moves
        return Transition(self.state, self.label_ids, events, moves, self.log_density)


@dataclass(frozen=True)
class Info:
    """What happened in one batch.

    Parameters
    ----------
    events : tuple of Event
        Changes of the set of clusters.
    n_novel : int
        Rows that belong to no cluster.
    mean_log_density : float
        Mean logarithm of the predictive density of the rows, after they were learned.
    moves : Moves
        How many splits and merges were proposed and accepted.
    log_density_before : float
        The mean log density before the rows were learned, NaN for a first batch. It drops when
        the stream changes. Of large batches it is estimated from a sample of the rows.
    novel_before : float
        Share of the rows that no cluster explained before they were learned, NaN for a first batch.
    screening_error : float
        With many clusters and features rows are compared with few candidates: the share of the
        mixture that these missed, as some rows show that are compared with all clusters. NaN
        without screening.

    Examples
    --------
    >>> from scstream import ScStream
    >>> ScStream(random_state=0).fit([[0.0], [1.0], [2.0]]).info_.n_novel
    0
    """

    events: tuple[Event, ...] = ()
    n_novel: int = 0
    mean_log_density: float = float("nan")
    moves: Moves = Moves()
    log_density_before: float = float("nan")
    novel_before: float = float("nan")
    screening_error: float = float("nan")


def _locked(array: Array) -> Array:
    array.setflags(write=False)
    return array
