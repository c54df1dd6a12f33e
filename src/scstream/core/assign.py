"""One pass over rows: every row chooses a cluster, then a half of it (Algorithm 2, steps 1 to 3).

A pass is described by a `AssignmentParams` and carried out slice by slice (`scstream.core.row_ranges`). The slices
share nothing, so an executor may run them anywhere, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scstream.core.rng import uniforms
from scstream.core.state import NOVEL, Batch
from scstream.families.base import Array, Family, Labels, Rows, unit_weight

_LOUDEST = 1.0  # nats that one row may say for or against a split or merge
_ALL_HALVES = 1 << 18  # up to this many scores it is cheaper to compute all halves than to sort


@dataclass(frozen=True)
class AssignmentParams:
    """What rows are compared with and how they choose."""

    clusters: Array  # (K, Q) parameters or predictive tables of the clusters
    subclusters: Array  # (2K, Q) the same of their halves
    log_weight: Array  # (K,)
    log_subweight: Array  # (K, 2)
    predictive: bool  # compare by log_predictive, not by log_likelihood
    log_new: float | None  # log weight of a cluster not seen yet; None: rows must choose a cluster
    prior: Array  # (1, R) predictive table of no rows at all
    key: int | None  # draw the labels to learn from under this key; None: the most probable ones
    report_map: bool = False  # whatever is learned, report the most probable labels
    collect_evidence: bool = False  # the rows were not learned before: sum up their evidence too
    single: bool = False  # compare in float32, where the kernels offer it
    pairs: Labels = field(default_factory=lambda: np.zeros((0, 2), np.int64))  # (M, 2) may be one
    unions: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (M, R) predictive tables

    def log_density(self, family: Family, tables: Array, X: Rows) -> Array:  # (N, G)
        """Log density of every row under every table."""
        if self.predictive:
            return family.log_predictive(tables, X)
        return family.log_likelihood(tables, X)


@dataclass(frozen=True)
class AssignmentStats:
    """What a pass over some rows found, a sum over the rows."""

    stats: Array  # (K, 2, P)
    novel_weight: float
    log_density: float  # log of the mixture density, weights not normalised
    split_evidence: Array  # (K,) log density under the two halves less that under the whole
    merge_evidence: Array  # (M,) log density under the union less that under the pair

    def packed(self) -> Array:
        """Return all sums in one vector."""
        last = [self.novel_weight, self.log_density]
        return np.concatenate([self.stats.ravel(), self.split_evidence, self.merge_evidence, last])

    @classmethod
    def unpacked(cls, sums: Array, n_clusters: int, n_pairs: int) -> Self:
        """Undo `packed`."""
        merge = len(sums) - 2 - n_pairs
        split = merge - n_clusters
        return cls(
            stats=sums[:split].reshape(n_clusters, 2, split // max(2 * n_clusters, 1)),
            novel_weight=float(sums[-2]),
            log_density=float(sums[-1]),
            split_evidence=sums[split:merge],
            merge_evidence=sums[merge:-2],
        )


@dataclass(frozen=True)
class Choices:
    """Choices of some rows, and their tally."""

    label: Labels  # (N,) index of the cluster or NOVEL
    side: NDArray[np.int8]  # (N,)
    stats: AssignmentStats


class LoadedRows(Protocol):
    """The rows of a batch where the work is done, with the choices they made last."""

    def sample(self, max_n: int, key: int) -> tuple[LoadedRows, float]:
        """Return at most so many of the rows, at random, and how many each of them stands for."""

    def assign(self, plan: AssignmentParams) -> AssignmentStats:
        """Let every row choose; remember the choices."""

    def novel(self, max_n: int, key: int) -> tuple[Rows, Array | None]:
        """Return rows that chose no cluster, a random `max_n` of them, with their weights."""

    def labels(self, label_ids: Labels) -> tuple[Labels, int]:
        """Return the ids of the rows by the names (K, 2) of the halves they chose.

        And how many rows belong to no cluster.
        """


class Executor(Protocol):
    """Where passes run. The result must not depend on how many hands there are."""

    @property
    def n_threads(self) -> int:
        """Threads of this process, for what is done here."""

    def load(self, family: Family, batch: Batch) -> LoadedRows:
        """Take the rows of a batch in."""

    def with_kernels(self, family: Family) -> Family:
        """Return the family with kernels that may ask others about its clusters."""


def assign_block(
    family: Family, plan: AssignmentParams, X: Rows, weight: Array | None, first_row: int
) -> Choices:
    """Let the rows of one block choose; `first_row` is the block's place in the batch."""
    scores = _scores(family, plan, X)
    chance = None
    if plan.key is not None:
        chance = uniforms(plan.key, np.arange(first_row, first_row + X.shape[0]))
    label, log_density = _choose(scores, None if chance is None else chance[:, 0])
    label = np.where(label == len(plan.clusters), NOVEL, label)
    subclusters = _half_scores(family, plan, X, label)
    # The right half is chosen with probability 1 / (1 + exp(-log odds)).
    threshold = 0.0 if chance is None else np.log(chance[:, 1]) - np.log1p(-chance[:, 1])
    side = (subclusters[:, 1] - subclusters[:, 0] > threshold).astype(np.int8)
    chosen = _Chosen(X, unit_weight(X, weight), scores, subclusters, label, side)
    stats = AssignmentStats(
        stats=_half_stats(family, plan, chosen),
        novel_weight=float(chosen.weight[label == NOVEL].sum()),
        log_density=float(log_density @ chosen.weight),
        split_evidence=_split_evidence(plan, chosen),
        merge_evidence=_merge_evidence(family, plan, chosen),
    )
    if plan.report_map:
        label, side = _most_probable(family, plan, chosen)
    return Choices(label, side, stats)


@dataclass(frozen=True)
class _Chosen:
    """Rows that chose, and between what."""

    X: Rows
    weight: Array  # (N,)
    scores: Array  # (N, K) or (N, K + 1)
    subclusters: Array  # (N, 2) scores of the halves of the chosen cluster
    label: Labels  # (N,)
    side: NDArray[np.int8]  # (N,)


def _half_stats(family: Family, plan: AssignmentParams, chosen: _Chosen) -> Array:  # (K, 2, P)
    n_clusters = len(plan.clusters)
    group = np.where(chosen.label == NOVEL, NOVEL, 2 * chosen.label + chosen.side)
    stats = family.stats(chosen.X, group, 2 * n_clusters, chosen.weight)
    return stats.reshape(n_clusters, 2, family.n_stats)


def _split_evidence(plan: AssignmentParams, chosen: _Chosen) -> Array:  # (K,)
    """How much denser the rows of each cluster are under its two halves than under the whole."""
    if not plan.collect_evidence:
        return np.zeros(len(plan.clusters))
    rows = np.flatnonzero(chosen.label != NOVEL)
    label = chosen.label[rows]
    apart = np.logaddexp(chosen.subclusters[rows, 0], chosen.subclusters[rows, 1])
    together = chosen.scores[rows, label] - plan.log_weight[label]
    gain = np.clip(apart - together, -_LOUDEST, _LOUDEST) * chosen.weight[rows]
    return np.bincount(label, weights=gain, minlength=len(plan.clusters)).astype(np.float64)


def _merge_evidence(family: Family, plan: AssignmentParams, chosen: _Chosen) -> Array:  # (M,)
    """How much denser the rows of each pair are under its union than under the two."""
    out = np.zeros(len(plan.pairs))
    for m, (i, j) in enumerate(plan.pairs):
        rows = np.flatnonzero((chosen.label == i) | (chosen.label == j))
        if len(rows):
            log_weight = np.logaddexp(plan.log_weight[i], plan.log_weight[j])
            union = family.log_predictive(plan.unions[m : m + 1], chosen.X[rows])[:, 0]
            apart = np.logaddexp(chosen.scores[rows, i], chosen.scores[rows, j]) - log_weight
            out[m] = np.clip(union - apart, -_LOUDEST, _LOUDEST) @ chosen.weight[rows]
    return out


def _most_probable(
    family: Family, plan: AssignmentParams, chosen: _Chosen
) -> tuple[Labels, NDArray[np.int8]]:
    """Most probable label and side of every row; only rows that drew another look again."""
    label = chosen.scores.argmax(axis=1)
    label = np.where(label == len(plan.clusters), NOVEL, label)
    other = np.flatnonzero(label != chosen.label)
    subclusters = chosen.subclusters.copy()
    subclusters[other] = _half_scores(family, plan, chosen.X[other], label[other])
    return label, (subclusters[:, 1] > subclusters[:, 0]).astype(np.int8)


def _scores(family: Family, plan: AssignmentParams, X: Rows) -> Array:  # (N, K) or (N, K + 1)
    scores = plan.log_density(family, plan.clusters, X) + plan.log_weight
    if plan.log_new is None:
        return scores
    new = family.log_predictive(plan.prior, X) + plan.log_new
    return np.concatenate([scores, new], axis=1)


def _choose(scores: Array, chance: Array | None) -> tuple[Labels, Array]:
    """Largest score, or the one drawn by inverting the distribution function at `chance`."""
    top = scores.max(axis=1)
    mass = np.exp(scores - top[:, None])
    total = mass.cumsum(axis=1)
    log_density = top + np.log(total[:, -1])
    if chance is None:
        return scores.argmax(axis=1), log_density
    drawn = (total < (chance * total[:, -1])[:, None]).sum(axis=1)
    return np.minimum(drawn, scores.shape[1] - 1), log_density


def _half_scores(family: Family, plan: AssignmentParams, X: Rows, label: Labels) -> Array:  # (N, 2)
    """Scores of the two halves of the chosen cluster; zero for novel rows."""
    out = np.zeros((X.shape[0], 2))
    n_clusters = len(plan.clusters)
    if X.shape[0] * plan.subclusters.size <= _ALL_HALVES:
        rows = np.flatnonzero(label != NOVEL)
        scores = plan.log_density(family, plan.subclusters, X)
        scores = scores.reshape(X.shape[0], n_clusters, 2) + plan.log_subweight
        out[rows] = scores[rows, label[rows]]
        return out
    order = np.argsort(label, kind="stable")
    bounds = np.searchsorted(label[order], np.arange(n_clusters + 1))
    for k in np.flatnonzero(np.diff(bounds)):
        rows = order[bounds[k] : bounds[k + 1]]
        scores = plan.log_density(family, plan.subclusters[2 * k : 2 * k + 2], X[rows])
        out[rows] = scores + plan.log_subweight[k]
    return out
