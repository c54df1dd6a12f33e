"""Moves that change the number of clusters and leave the posterior of partitions invariant.

Each is a Metropolis-Hastings step. What is proposed to whom (pairs of rows, single rows) depends on
the rows and on random numbers but never on the labels, so it cancels in the acceptance ratio.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scstream.core.partition import Partition, Table
from scstream.families.base import Array, Labels, Rows
from scstream.kernels.reference import square_distances

_N_PAIRS = 8  # splits or merges proposed in a sweep
_N_ROUNDS = 3  # restricted sweeps that make a launch state
_N_BLOCKS = 4  # in which the last restricted scan draws the rows
_N_SINGLES = 256  # most rows of a sweep that may leave or join a cluster of one row
_COUNTERS = _N_ROUNDS + 1  # random numbers of a row in one proposal


@dataclass(frozen=True)
class Anchors:
    """Two rows that a split separates and a merge unites, and the random numbers of the move."""

    sweep: int
    number: int  # of the proposal in the sweep
    first: int
    second: int
    log_chance: float

    def chance(self, table: Table, rows: Labels, round_: int) -> Array:  # (N, 2)
        """Return two uniforms for every row in a round."""
        return table.uniforms(self.sweep, "launch", rows, self.number * _COUNTERS + round_)


def split_and_merge(table: Table, partition: Partition, sweep: int) -> Partition:
    """Propose a split or a merge for several pairs of rows, one after another."""
    for anchors in draw_anchors(table, sweep):
        together = partition.labels[anchors.first] == partition.labels[anchors.second]
        move = propose_split if together else propose_merge
        partition = move(table, partition, anchors)
    return partition


def draw_anchors(table: Table, sweep: int) -> list[Anchors]:
    """Draw pairs of rows: a random row, and its r-th nearest with log r uniform.

    Near rows are together and far rows are apart, so splits and merges are both proposed often, and
    most merges are of neighbours. The labels take no part.
    """
    n = table.n_rows
    if n < 2:
        return []
    pairs = np.arange(_N_PAIRS)
    place = table.uniforms(sweep, "pairs", pairs)
    log_chance = np.log(table.uniforms(sweep, "pairs", pairs, 1)[:, 0])
    first = np.minimum((place[:, 0] * n).astype(np.int64), n - 1)
    if table.points is None:
        second = (first + 1 + np.minimum((place[:, 1] * (n - 1)).astype(np.int64), n - 2)) % n
    else:
        rank = np.clip((n ** place[:, 1]).astype(np.int64), 1, n - 1)
        distance = square_distances(table.points[first], table.points)
        distance[pairs, first] = -1.0
        second = np.array(
            [np.argpartition(line, r)[r] for line, r in zip(distance, rank, strict=True)]
        )
    return [
        Anchors(sweep, m, int(first[m]), int(second[m]), float(log_chance[m]))
        for m in range(_N_PAIRS)
    ]


def propose_split(table: Table, partition: Partition, anchors: Anchors) -> Partition:
    """Split the cluster of both anchors with probability min(1, H / q)."""
    if partition.n_clusters >= table.config.max_clusters:
        return partition
    rows = np.flatnonzero(partition.labels == partition.labels[anchors.first])
    side, log_proposal = restricted_scan(table, rows, anchors, None)
    left, right = table.family.stats(table.X[rows], side, 2)
    if anchors.log_chance < log_split_ratio(table, left, right) - log_proposal:
        return partition.relabel(table, rows[side == 1], partition.n_clusters)
    return partition


def propose_merge(table: Table, partition: Partition, anchors: Anchors) -> Partition:
    """Merge the clusters of the anchors with probability min(1, q / H).

    The probability q of the split that would undo it is at most one, so most merges are rejected
    before q is known.
    """
    one, two = partition.labels[[anchors.first, anchors.second]]
    log_ratio = -log_split_ratio(table, partition.stats[one], partition.stats[two])
    if anchors.log_chance >= log_ratio:
        return partition
    rows = np.flatnonzero((partition.labels == one) | (partition.labels == two))
    side = (partition.labels[rows] == two).astype(np.int64)
    _, log_proposal = restricted_scan(table, rows, anchors, side)
    if anchors.log_chance < log_ratio + log_proposal:
        return partition.relabel(table, rows[side == 1], int(one))
    return partition


def log_split_ratio(table: Table, left: Array, right: Array) -> float:
    """Log H: posterior of the partition with both clusters over that with their union."""
    ratio = table.family.kernels.log_split_ratio
    return float(ratio(table.family, table.config.alpha, left[None], right[None])[0])


def restricted_scan(
    table: Table, rows: Labels, anchors: Anchors, given: Labels | None
) -> tuple[Labels, float]:
    """Draw the sides of the rows, or take the `given` ones; return them and their log probability.

    From a launch state, which knows nothing of the labels, the rows are drawn once more block by
    block, each block given the sides of all others (Jain and Neal 2004, with blocks of rows in
    place of single rows).
    """
    X = table.X[rows]
    fixed = np.searchsorted(rows, [anchors.first, anchors.second])
    side = launch(table, X, rows, anchors, fixed)
    chance = anchors.chance(table, rows, _N_ROUNDS)
    block = (chance[:, 1] * _N_BLOCKS).astype(np.int64)
    block[fixed] = -1
    log_proposal = 0.0
    for b in range(_N_BLOCKS):
        drawn = np.flatnonzero(block == b)
        if not len(drawn):
            continue
        others = side.copy()
        others[drawn] = -1
        log_odds = log_odds_of_right(table, table.family.stats(X, others, 2), X[drawn])
        new = choose_sides(log_odds, chance[drawn, 0]) if given is None else given[drawn]
        log_proposal -= float(np.logaddexp(0.0, np.where(new == 1, -log_odds, log_odds)).sum())
        side[drawn] = new
    return side, log_proposal


def launch(table: Table, X: Rows, rows: Labels, anchors: Anchors, fixed: Labels) -> Labels:  # (N,)
    """Draw sides of the rows from the anchors alone, then again given the sides, a few times."""
    side = np.full(len(rows), -1)
    side[fixed] = 0, 1
    for round_ in range(_N_ROUNDS):
        log_odds = log_odds_of_right(table, table.family.stats(X, side, 2), X)
        side = choose_sides(log_odds, anchors.chance(table, rows, round_)[:, 0])
        side[fixed] = 0, 1
    return side


def log_odds_of_right(table: Table, stats: Array, X: Array) -> Array:  # (N,)
    """Log odds of the right side for every row, by the predictive densities of the two sides."""
    family = table.family
    scores = family.log_predictive(family.predictive_params(stats), X) + np.log(stats[:, 0])
    return np.asarray(scores[:, 1] - scores[:, 0])


def choose_sides(log_odds: Array, chance: Array) -> Labels:  # (N,)
    """Choose the right side with these odds."""
    return (np.log(chance) - np.log1p(-chance) < log_odds).astype(np.int64)


def move_single_rows(table: Table, partition: Partition, sweep: int) -> Partition:
    """Let random rows found a cluster of their own, or leave it, one row after another.

    Moves are rare: all remaining rows are decided at once, and again after each move.
    """
    n = min(table.n_rows, _N_SINGLES)
    place = table.uniforms(sweep, "singles", np.arange(n))
    other = table.uniforms(sweep, "singles", np.arange(n), 1)[:, 0]
    rows = np.minimum((place[:, 0] * table.n_rows).astype(np.int64), table.n_rows - 1)
    log_chance, done = np.log(place[:, 1]), 0
    while done < n:
        scores, log_odds = single_row_scores(table, partition, rows[done:])
        alone = partition.stats[partition.labels[rows[done:]], 0] == 1.0
        accepted = log_chance[done:] < np.where(alone, -log_odds, log_odds)
        if partition.n_clusters >= table.config.max_clusters:
            accepted &= alone
        moved = np.flatnonzero(accepted)
        if not len(moved):
            break
        at = moved[0]
        label = partition.n_clusters
        if alone[at]:
            mass = np.exp(scores[at] - scores[at].max()).cumsum()
            label = int(np.searchsorted(mass, other[done + at] * mass[-1]))
        partition = partition.relabel(table, rows[done + at : done + at + 1], label)
        done += at + 1
    return partition


def single_row_scores(
    table: Table, partition: Partition, rows: Labels
) -> tuple[Array, Array]:  # (N, K), (N,)
    """Log weights N_k p(x | cluster k) without the row itself, and the log odds of a new cluster.

    Between joining clusters, with weights w_k that sum to Z, and a cluster of its own, with weight
    a = alpha p(x), a row leaves with probability min(1, a / Z) and joins k with probability
    min(1, Z / a) w_k / Z.
    """
    family, stats = table.family, partition.stats
    X, label = table.X[rows], partition.labels[rows]
    scores = family.log_predictive(family.predictive_params(stats), X) + np.log(stats[:, 0])
    others = stats[label, 0] - 1.0
    own = family.log_leave_one_out(X, np.ones(len(rows)), label, stats)
    own = np.where(others > 0, own + np.log(np.maximum(others, 0.5)), -np.inf)
    scores[np.arange(len(rows)), label] = own
    new = family.log_predictive(family.prior_predictive, X)[:, 0] + np.log(table.config.alpha)
    return scores, new - np.logaddexp.reduce(scores, axis=1)
