"""Everything the algorithm knows and chooses: Config, Batch, State and Info, all frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from scstream.core.rng import spaced_rows
from scstream.core.window import Exponential, Kernel
from scstream.errors import InputError
from scstream.families.base import Array, Family, Labels, Rows

Kind = Literal["born", "split", "merged", "died", "returned"]

NOVEL = -1  # label of a row that belongs to no cluster yet


@dataclass(frozen=True)
class Config:
    """Every choice of the algorithm; saved with the state.

    The defaults are ``algorithm="default"``; `Config.paper` gives the algorithm of the paper. Each
    switch is separate; `docs/explanation/settings.md` has the measured effect of each.

    Parameters
    ----------
    seed : int
        Key of all randomness.
    alpha : float
        Concentration of the Dirichlet process: the weight of a cluster not seen yet.
    kernel : Kernel
        Weight of an old batch by its age.
    n_sweeps : int
        Sampling sweeps per batch (the paper's T) between the arrival of the rows and the last,
        predictive sweep.
    birth_sweeps : int
        Least number of them on a batch that founded clusters.
    start_sweeps : int
        Sampling sweeps on the first batch; with ``segment_start=False`` the most there may be.
    start_patience : int
        Sweeps without a split or merge after which the first batch counts as converged.
    max_clusters : int
        Bound on K, and so on memory.
    segment_start : bool
        Start from an over-segmented, agglomerated first batch, instead of one cluster (row 2).
    births : bool
        Let rows that the prior explains better than any cluster found new ones (row 3).
    cut_past : bool
        Bisect the past of a new cluster along its principal axis, instead of halving it (row 4).
    keep_heavier_id : bool
        The heavier side keeps the id in splits and merges, instead of the left, the older (row 5).
    merge_correction : bool
        Weigh merges by the sub-cluster weights too, as the original program does (row 6).
    n_neighbours : int or None
        Nearest clusters that are candidates for a merge; None for all pairs (row 6).
    merge_silent : bool
        Clusters without rows in the batch may merge too, instead of waiting for their return.
    split_age : int
        Sweeps after its birth before a cluster may split (row 7).
    split_floor : float
        Least weight of either half of a split (row 7).
    split_evidence : float or None
        Split also when new rows, before they are learned, have shown this much log evidence for
        the two halves against the whole (row 11).
    merge_evidence : float or None
        After the first batch, merge when they have shown this much for the union against the
        pair, and for no other reason (row 11); None: the ratio decides.
    coarseness : float
        Nats per row that a split of a very heavy cluster must gain (row 15). Light clusters, up to
        some thousand rows, need not gain any.
    learn_draws : bool
        Learn from labels drawn by their probabilities, and report the most probable ones, instead
        of learning from the most probable (row 10).
    exact_predictive : bool
        Integrate the parameters out of the predictive, instead of plugging in means (row 8).
    motion : bool
        Move the past of a cluster along its estimated velocity (row 9).
    remember_silent : bool
        Let a silent cluster lose weight but not shape, so that it is known when it returns.
    archive : bool
        Remember retired clusters, so that a recurring one returns under its old id.
    birth_floor : float
        Least weight of a newborn cluster.
    death_weight : float
        A silent cluster dies below this weight.
    late : {"error", "add"}
        What to do with a batch older than the last one.
    precision : {"float64", "float32"}
        How rows are compared with clusters by the compiled kernels; statistics are always float64.

    Examples
    --------
    >>> from scstream import Config
    >>> Config().births, Config.paper().births
    (True, False)
    """

    seed: int = 0
    alpha: float = 1.0
    kernel: Kernel = field(default_factory=Exponential)
    n_sweeps: int = 0
    birth_sweeps: int = 2
    start_sweeps: int = 15
    start_patience: int = 10
    max_clusters: int = 1000
    segment_start: bool = True
    births: bool = True
    cut_past: bool = True
    keep_heavier_id: bool = True
    merge_correction: bool = True
    n_neighbours: int | None = 5
    merge_silent: bool = False
    split_age: int = 5
    split_floor: float = 4.0
    split_evidence: float | None = 5.0
    merge_evidence: float | None = 1.5
    coarseness: float = 0.3
    learn_draws: bool = True
    exact_predictive: bool = True
    motion: bool = True
    remember_silent: bool = True
    archive: bool = False
    birth_floor: float = 5.0
    death_weight: float = 1.0
    late: Literal["error", "add"] = "error"
    precision: Literal["float64", "float32"] = "float64"

    @classmethod
    def paper(cls, **choices: Any) -> Self:
        """Algorithms 1 and 2 as the paper states them, with the corrected formulas only."""
        as_printed: dict[str, Any] = {
            "segment_start": False,
            "births": False,
            "cut_past": False,
            "keep_heavier_id": False,
            "merge_correction": False,
            "n_neighbours": None,
            "merge_silent": True,
            "split_age": 0,
            "split_floor": 0.0,
            "split_evidence": None,
            "merge_evidence": None,
            "coarseness": 0.0,
            "learn_draws": False,
            "motion": False,
            "remember_silent": False,
            "archive": False,
            "n_sweeps": 1,
            "start_sweeps": 500,
            "start_patience": 50,
        }
        return cls(**(as_printed | choices))


@dataclass(frozen=True)
class Batch:
    """Rows that arrive together."""

    rows: Rows  # (N, D)
    time: float
    weight: Array | None = None  # (N,)

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return int(self.rows.shape[0])

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    def sample(self, max_n: int, key: int) -> tuple[Batch, float]:
        """Return at most so many of the rows, at random, and how many each of them stands for."""
        if self.n_rows <= max_n:
            return self, 1.0
        picked = spaced_rows(key, self.n_rows, max_n)
        weight = None if self.weight is None else self.weight[picked]
        return Batch(self.rows[picked], self.time, weight), self.n_rows / max_n


@dataclass(frozen=True)
class Archive:
    """Clusters that fell silent, as sharp as they were when they were heaviest."""

    ids: NDArray[np.int64]  # (A,)
    stats: Array  # (A, P)
    born: Array  # (A,)

    @classmethod
    def empty(cls, n_stats: int) -> Self:
        """Return an archive without clusters."""
        none = np.zeros(0)
        return cls(none.astype(np.int64), np.zeros((0, n_stats)), none)


class Frozen:
    """A frozen dataclass that changes by copies."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed: `dataclasses.replace` without the ceremony."""
        other = object.__new__(type(self))
        object.__setattr__(other, "__dict__", self.__dict__ | changes)
        return other


@dataclass(frozen=True, eq=False)
class State(Frozen):
    """The mixture between two batches. A cluster is the sum of its two halves by construction."""

    past: Array  # (K, 2, P) statistics of earlier batches, faded to `time`
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
    velocity_noise: Array  # (K,) mean square of a velocity of chance alone, in spreads
    split_evidence: Array  # (K,) faded log evidence for two clusters in place of one
    merge_pairs: Labels  # (M, 2) ids of clusters that may be one
    merge_evidence: Array  # (M,) faded log evidence for one cluster in place of the two
    unassigned_weight: float  # faded weight of rows that belong to no cluster
    unassigned_now: float  # the same in the newest batch
    archive: Archive
    next_id: int
    time: float  # of the newest batch; minus infinity before the first
    batch_interval: float  # time between the last two batches
    n_batches: int

    @classmethod
    def empty(cls, family: Family) -> Self:
        """Return the state before the first batch: no clusters."""
        subclusters = np.zeros((0, 2, family.n_stats))
        none = np.zeros(0)
        return cls(
            past=subclusters,
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
            n_batches=0,
        )

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.ids)

    @cached_property
    def subclusters(self) -> Array:  # (K, 2, P)
        """Statistics of the sub-clusters."""
        return _locked(self.past + self.current)

    @cached_property
    def cluster_stats(self) -> Array:  # (K, P)
        """Statistics of the clusters."""
        return _locked(self.subclusters[:, 0] + self.subclusters[:, 1])

    @cached_property
    def weight(self) -> Array:  # (K,)
        """Faded number of rows of each cluster."""
        return _locked(self.cluster_stats[:, 0].copy())

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; sums of layers that stay are not made again."""
        other = super().replace(**changes)
        if "past" in changes or "current" in changes:
            for sums in ("subclusters", "cluster_stats", "weight"):
                other.__dict__.pop(sums, None)
        return other

    def __getstate__(self) -> dict[str, Any]:
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


@dataclass(frozen=True)
class Event:
    """One change of the set of clusters.

    Parameters
    ----------
    kind : {"born", "split", "merged", "died", "returned"}
        What happened.
    time : float
        Time of the batch in which it happened.
    id : int
        The cluster; of a split or a merge the side that keeps its id.
    weight : float
        Faded number of rows of the cluster, and of a split that of the side that left.
    other : int or None
        Of a split the new id, of a merge the id that was absorbed.

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
    other: int | None = None  # split: the new id; merged: the id that was absorbed


@dataclass(frozen=True)
class Transition(Frozen):
    """A state in the making: what its rows are called so far, and what happened to it."""

    state: State
    label_ids: Labels  # (K, 2) id that rows go by, for every half that they could choose last
    events: tuple[Event, ...] = ()
    log_density: float = float("nan")  # sum over rows after the last pass, weights not normalised

    @classmethod
    def of(cls, state: State, *, log_density: float = float("nan")) -> Self:
        """Begin with a state whose rows go by the ids of their clusters."""
        return cls(state, state.ids.repeat(2).reshape(-1, 2), log_density=log_density)

    def after(self, state: State, *events: Event, label_ids: Labels | None = None) -> Transition:
        """Go on with a changed state."""
        label_ids = self.label_ids if label_ids is None else label_ids
        return self.replace(state=state, label_ids=label_ids, events=self.events + events)


@dataclass(frozen=True)
class Info:
    """What happened in one step.

    Parameters
    ----------
    events : tuple of Event
        Changes of the set of clusters.
    n_novel : int
        Rows that belong to no cluster.
    mean_log_density : float
        Mean logarithm of the predictive density of the rows, after they were learned.

    Examples
    --------
    >>> from scstream import ScStream
    >>> ScStream(random_state=0).fit([[0.0], [1.0], [2.0]]).info_.n_novel
    0
    """

    events: tuple[Event, ...] = ()
    n_novel: int = 0  # rows that belong to no cluster
    mean_log_density: float = float("nan")  # of the rows, after they were learned


def _locked(array: Array) -> Array:
    array.setflags(write=False)
    return array


def check_config(config: Config) -> None:
    """Raise `InputError` with a sentence for a choice that cannot work."""
    for name in ("alpha", "birth_floor", "death_weight"):
        value = getattr(config, name)
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"{name} must be a positive number, got {value!r}.")
    for name in ("n_sweeps", "birth_sweeps", "split_age", "start_sweeps", "coarseness"):
        if not getattr(config, name) >= 0:
            raise InputError(f"{name} must not be negative, got {getattr(config, name)!r}.")
    if config.max_clusters < 1:
        raise InputError(f"max_clusters must be at least 1, got {config.max_clusters!r}.")
    if config.late not in ("error", "add"):
        raise InputError(f"late must be 'error' or 'add', got {config.late!r}.")
    if config.precision not in ("float64", "float32"):
        raise InputError(f"precision must be 'float64' or 'float32', got {config.precision!r}.")
