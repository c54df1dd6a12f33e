"""Assign rows to clusters and to sub-clusters (Algorithm 2, steps 2 and 3).

`AssignmentParams` describe a pass over the rows. It runs slice by slice, in the slices of
`scstream.core.row_ranges`, which share nothing: an executor may run them anywhere, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scstream.core.state import NOVEL, Batch
from scstream.families.base import Array, Family, Labels, Rows, unit_weight

_MAX_EVIDENCE = 1.0  # log-likelihood that one row may add for or against a split or merge
AUDITED = 64  # one row of so many is compared with all clusters
_PLAUSIBLE = float(np.log(1000.0))  # nats below the best score of a row
_ALL_SUBCLUSTERS = 1 << 18  # up to this many scores computing all is cheaper than sorting


@dataclass(frozen=True)
class AssignmentParams:
    """What rows are compared with, and how their labels are chosen."""

    clusters: Array  # (K, Q) drawn or predictive parameters of the clusters
    subclusters: Array  # (2K, Q) the same of their sub-clusters
    log_weight: Array  # (K,)
    log_subweight: Array  # (K, 2)
    predictive: bool  # compare by log_predictive, not by log_likelihood
    log_new: float | None  # log weight of a new cluster; None: every row gets a cluster
    prior: Array  # (1, R) predictive parameters of a cluster without rows
    key: int | None  # draw labels under this key; None: take the most probable ones
    map_labels: bool = False  # draw sub-labels only; labels are the most probable ones
    report_map: bool = False  # statistics of drawn labels, but report the most probable ones
    collect_evidence: bool = False  # sum up evidence for splits and merges, too
    single: bool = False  # compare in float32, if the kernels can
    pairs: Labels = field(default_factory=lambda: np.zeros((0, 2), np.int64))  # (M, 2)
    unions: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (M, R)
    typical: Array | None = None  # (1, R) rows that fit worse than this stay without a cluster
    screen: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (K, S) for cheap scores
    n_candidates: int = 0  # clusters whose scores are computed, by cheap scores; 0: all

    def log_density(self, family: Family, tables: Array, X: Rows) -> Array:  # (N, G)
        """Log density of every row under every table."""
        if self.predictive:
            return family.log_predictive(tables, X)
        return family.log_likelihood(tables, X)


@dataclass(frozen=True)
class AssignmentStats:
    """The results of a pass: sums over its rows."""

    stats: Array  # (K, 2, P)
    novel_weight: float  # of rows that are more probable in a new cluster
    log_density: float  # log of the mixture density, weights not normalised
    split_evidence: Array  # (K,) log density under the sub-clusters minus that under the cluster
    merge_evidence: Array  # (M,) log density under the union minus that under the pair

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
    """Labels and sub-labels of some rows, and their statistics."""

    label: Labels  # (N,) index of the cluster or NOVEL
    side: NDArray[np.int8]  # (N,)
    stats: AssignmentStats


class LoadedRows(Protocol):
    """The rows of a batch, on the machine that computes, with the labels of the last pass."""

    def sample(self, max_n: int, key: int) -> tuple[LoadedRows, float]:
        """Return at most `max_n` random rows, and the number of rows that each one represents."""

    def assign(self, params: AssignmentParams) -> AssignmentStats:
        """Assign every row, and keep the labels."""

    def near(self, params: AssignmentParams, phase: int) -> Array:  # (K + 2,)
        """Return `near_clusters` of all rows."""

    def novel(self, max_n: int, key: int) -> tuple[Rows, Array | None]:
        """Return at most `max_n` random rows without a cluster, and their weights."""

    def labels(self, label_ids: Labels) -> tuple[Labels, int]:
        """Return the id of every row, and the number of rows without a cluster.

        `label_ids` (K, 2) are the ids of rows by their sub-cluster.
        """


class Executor(Protocol):
    """Runs passes. Results must not depend on the number of threads or workers."""

    @property
    def n_threads(self) -> int:
        """Threads of this process."""

    def load(self, family: Family, batch: Batch) -> LoadedRows:
        """Load the rows of a batch."""

    def with_kernels(self, family: Family) -> Family:
        """Return the family with kernels that may compute on other workers, too."""


def assign_block(
    family: Family, params: AssignmentParams, X: Rows, weight: Array | None, first_row: int
) -> Choices:
    """Assign the rows of a block; `first_row` is the position of the block in the batch."""
    scores = _scores(family, params, X)
    chance = None
    if params.key is not None:
        chance = family.kernels.uniforms(params.key, np.arange(first_row, first_row + X.shape[0]))
    drawn_by = None if chance is None or params.map_labels else chance[:, 0]
    label, log_density = _choose(scores, drawn_by)
    label = np.where(label == len(params.clusters), NOVEL, label)
    novel = label == NOVEL
    label = _without_bad_fits(family, params, X, scores, label)
    subclusters = _subcluster_scores(family, params, X, label)
    # The right sub-cluster is chosen with probability 1 / (1 + exp(-log odds)).
    threshold = 0.0 if chance is None else np.log(chance[:, 1]) - np.log1p(-chance[:, 1])
    side = (subclusters[:, 1] - subclusters[:, 0] > threshold).astype(np.int8)
    chosen = _Chosen(X, unit_weight(X, weight), scores, subclusters, label, side)
    stats = AssignmentStats(
        stats=_subcluster_stats(family, params, chosen),
        novel_weight=float(chosen.weight[novel].sum()),
        log_density=float(log_density @ chosen.weight),
        split_evidence=_split_evidence(params, chosen),
        merge_evidence=_merge_evidence(family, params, chosen),
    )
    if params.report_map:
        label, side = _most_probable(family, params, chosen)
    return Choices(label, side, stats)


@dataclass(frozen=True)
class _Chosen:
    """Rows with their labels and scores."""

    X: Rows
    weight: Array  # (N,)
    scores: Array  # (N, K) or (N, K + 1)
    subscores: Array  # (N, 2) scores of the sub-clusters of the label
    label: Labels  # (N,)
    side: NDArray[np.int8]  # (N,)


def _subcluster_stats(
    family: Family, params: AssignmentParams, chosen: _Chosen
) -> Array:  # (K, 2, P)
    n_clusters = len(params.clusters)
    group = np.where(chosen.label == NOVEL, NOVEL, 2 * chosen.label + chosen.side)
    stats = family.stats(chosen.X, group, 2 * n_clusters, chosen.weight)
    return stats.reshape(n_clusters, 2, family.n_stats)


def _split_evidence(params: AssignmentParams, chosen: _Chosen) -> Array:  # (K,)
    """Gain in log density of the rows of each cluster under its two sub-clusters."""
    if not params.collect_evidence:
        return np.zeros(len(params.clusters))
    rows = np.flatnonzero(chosen.label != NOVEL)
    label = chosen.label[rows]
    apart = np.logaddexp(chosen.subscores[rows, 0], chosen.subscores[rows, 1])
    together = chosen.scores[rows, label] - params.log_weight[label]
    gain = np.clip(apart - together, -_MAX_EVIDENCE, _MAX_EVIDENCE) * chosen.weight[rows]
    return np.bincount(label, weights=gain, minlength=len(params.clusters)).astype(np.float64)


def _merge_evidence(family: Family, params: AssignmentParams, chosen: _Chosen) -> Array:  # (M,)
    """Gain in log density of the rows of each pair under the union."""
    out = np.zeros(len(params.pairs))
    for m, (i, j) in enumerate(params.pairs):
        rows = np.flatnonzero((chosen.label == i) | (chosen.label == j))
        if len(rows):
            log_weight = np.logaddexp(params.log_weight[i], params.log_weight[j])
            union = family.log_predictive(params.unions[m : m + 1], chosen.X[rows])[:, 0]
            apart = np.logaddexp(chosen.scores[rows, i], chosen.scores[rows, j]) - log_weight
            out[m] = np.clip(union - apart, -_MAX_EVIDENCE, _MAX_EVIDENCE) @ chosen.weight[rows]
    return out


def _most_probable(
    family: Family, params: AssignmentParams, chosen: _Chosen
) -> tuple[Labels, NDArray[np.int8]]:
    """Most probable label and side of every row."""
    label = chosen.scores.argmax(axis=1)
    label = np.where(label == len(params.clusters), NOVEL, label)
    label = _without_bad_fits(family, params, chosen.X, chosen.scores, label)
    other = np.flatnonzero(label != chosen.label)
    subclusters = chosen.subscores.copy()
    subclusters[other] = _subcluster_scores(family, params, chosen.X[other], label[other])
    return label, (subclusters[:, 1] > subclusters[:, 0]).astype(np.int8)


def _scores(family: Family, params: AssignmentParams, X: Rows) -> Array:  # (N, K) or (N, K + 1)
    scores = cluster_scores(family, params, X)
    if params.log_new is None:
        return scores
    new = family.log_predictive(params.prior, X) + params.log_new
    return np.concatenate([scores, new], axis=1)


def cluster_scores(family: Family, params: AssignmentParams, X: Rows) -> Array:  # (N, K)
    """Log weight plus log density of every row under its candidates; others are impossible."""
    if not params.n_candidates:
        return params.log_density(family, params.clusters, X) + params.log_weight
    if hasattr(family.compiled, "shortlist"):
        args = params.clusters, params.log_weight, params.screen, params.n_candidates
        cluster, score = family.compiled.shortlist(X, *args)
        scores = np.full((X.shape[0], len(params.clusters)), -np.inf)
        np.put_along_axis(scores, cluster, score, axis=1)
        return scores
    scores = params.log_density(family, params.clusters, X) + params.log_weight
    return np.where(candidates(family, params, X), scores, -np.inf)


def candidates(family: Family, params: AssignmentParams, X: Rows) -> NDArray[np.bool_]:  # (N, K)
    """Return for every row which clusters have the highest cheap scores."""
    cheap = family.log_screen(params.screen, X) + params.log_weight
    best = np.argsort(-cheap, axis=1, kind="stable")[:, : params.n_candidates]
    chosen = np.zeros(cheap.shape, dtype=np.bool_)
    np.put_along_axis(chosen, best, True, axis=1)
    return chosen


def near_clusters(
    family: Family, params: AssignmentParams, X: Rows, first_row: int, phase: int
) -> Array:  # (K + 2,)
    """Count for every cluster the rows that may belong to it, by exact scores of candidates.

    One row of `AUDITED` is compared with all clusters. The last two entries are the sum of the
    shares of the mixture that the candidates of such rows miss, and the number of such rows.
    """
    scores = family.log_predictive(params.clusters, X) + params.log_weight
    chosen = candidates(family, params, X)
    found = np.where(chosen, scores, -np.inf)
    near = (found >= found.max(axis=1, keepdims=True) - _PLAUSIBLE).sum(axis=0)
    checked = (np.arange(first_row, first_row + X.shape[0]) % AUDITED) == phase
    mass = np.exp(scores[checked] - scores[checked].max(axis=1, keepdims=True))
    missed = 1.0 - (mass * chosen[checked]).sum(axis=1) / mass.sum(axis=1)
    missed = np.floor(missed * 2.0**20) / 2.0**20  # these add up to the same sum in any order
    return np.concatenate([near, [missed.sum(), checked.sum()]]).astype(np.float64)


def _without_bad_fits(
    family: Family, params: AssignmentParams, X: Rows, scores: Array, label: Labels
) -> Labels:  # (N,)
    """Take the label from rows that are less dense in their cluster than rows typically are."""
    if params.typical is None or not len(params.clusters):
        return label
    own = scores[np.arange(len(label)), label] - params.log_weight[label]
    typical = family.log_predictive(params.typical, X)[:, 0]
    return np.where(own < typical, NOVEL, label)


def _choose(scores: Array, chance: Array | None) -> tuple[Labels, Array]:
    """Index of the largest score, or one drawn by inverting the distribution function."""
    top = scores.max(axis=1)
    mass = np.exp(scores - top[:, None])
    total = mass.cumsum(axis=1)
    log_density = top + np.log(total[:, -1])
    if chance is None:
        return scores.argmax(axis=1), log_density
    drawn = (total < (chance * total[:, -1])[:, None]).sum(axis=1)
    return np.minimum(drawn, scores.shape[1] - 1), log_density


def _subcluster_scores(
    family: Family, params: AssignmentParams, X: Rows, label: Labels
) -> Array:  # (N, 2)
    """Scores of the two sub-clusters of the label; zero for rows without a cluster."""
    out = np.zeros((X.shape[0], 2))
    n_clusters = len(params.clusters)
    if X.shape[0] * params.subclusters.size <= _ALL_SUBCLUSTERS:
        rows = np.flatnonzero(label != NOVEL)
        scores = params.log_density(family, params.subclusters, X)
        scores = scores.reshape(X.shape[0], n_clusters, 2) + params.log_subweight
        out[rows] = scores[rows, label[rows]]
        return out
    order = np.argsort(label, kind="stable")
    bounds = np.searchsorted(label[order], np.arange(n_clusters + 1))
    for k in np.flatnonzero(np.diff(bounds)):
        rows = order[bounds[k] : bounds[k + 1]]
        scores = params.log_density(family, params.subclusters[2 * k : 2 * k + 2], X[rows])
        out[rows] = scores + params.log_subweight[k]
    return out
