"""Errors that are planted in the moves of `algorithm="exact"`; the tests must find each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from scstream.core import exact, exact_moves
from scstream.core.partition import Partition
from tests.statistics import mutants

draw_labels, gibbs_sweep = exact.draw_labels, exact.gibbs_sweep
draw_anchors, scan = exact_moves.draw_anchors, exact_moves.restricted_scan
split_and_merge = exact_moves.split_and_merge
log_split_ratio, single_rows = exact_moves.log_split_ratio, exact_moves.move_single_rows
single_row_scores = exact_moves.single_row_scores


@dataclass(frozen=True)
class Error:
    """A wrong move: what replaces it, or parts of it, and a problem on which it shows."""

    problem: str
    move: Callable[..., Partition]
    parts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    n_worlds: int = 800
    n_steps: int = 4

    def plant(self, monkeypatch: Any) -> None:
        for name, value in self.parts.items():
            monkeypatch.setattr(exact if hasattr(exact, name) else exact_moves, name, value)


# The Gibbs sweep


def dropping(table, partition, sweep):
    """No row is pinned; clusters that become empty are dropped."""
    labels = draw_labels(table, partition, sweep, np.zeros(partition.n_clusters))
    return Partition.of(table, labels)


def without_factor(table, partition, sweep, log_factor):
    return draw_labels(table, partition, sweep, 0.0 * log_factor)


def without_sizes_of_clusters(table, partition, sweep, log_factor):
    """Weights that do not know how many rows a cluster has."""
    return draw_labels(table, partition, sweep, log_factor - np.log(partition.stats[:, 0]))


def one_row_more(table, partition, sweep, log_factor):
    """Weights and parameters drawn as if every cluster had one row more."""
    stats = partition.stats * (1.0 + 1.0 / partition.stats[:, :1])
    return draw_labels(table, replace(partition, stats=stats), sweep, log_factor)


def first_rows(partition, chance):
    """The first row of every cluster is pinned."""
    return np.unique(partition.labels, return_index=True)[1]


# Splits and merges


def no_proposal(table, rows, anchors, given):
    return scan(table, rows, anchors, given)[0], 0.0


def half_proposal(table, rows, anchors, given):
    side, log_proposal = scan(table, rows, anchors, given)
    return side, 0.5 * log_proposal


def anchors_counted(table, rows, anchors, given):
    """The anchors are taken for rows that fall to either side."""
    side, log_proposal = scan(table, rows, anchors, given)
    return side, log_proposal - 2.0 * np.log(2.0)


def without_alpha(table, left, right):
    return log_split_ratio(replace(table, config=replace(table.config, alpha=1.0)), left, right)


def without_sizes(table, left, right):
    return mutants.no_lgamma(table.family, table.config.alpha, left[None], right[None])[0]


def merges_without_reverse(table, partition, anchors):
    """A merge is accepted by the ratio of posteriors alone."""
    one, two = partition.labels[[anchors.first, anchors.second]]
    if anchors.log_chance < -log_split_ratio(table, partition.stats[one], partition.stats[two]):
        return partition.relabel(table, np.flatnonzero(partition.labels == two), int(one))
    return partition


def anchors_that_know_labels(table, partition, sweep):
    """Half of the pairs are of one cluster, chosen by the labels, without a Hastings factor."""
    for drawn in draw_anchors(table, sweep):
        own = np.flatnonzero(partition.labels == partition.labels[drawn.first])
        own = own[own != drawn.first]
        second = int(own[sweep % len(own)]) if drawn.number % 2 and len(own) else drawn.second
        anchors = replace(drawn, second=second)
        together = partition.labels[anchors.first] == partition.labels[anchors.second]
        move = exact_moves.propose_split if together else exact_moves.propose_merge
        partition = move(table, partition, anchors)
    return partition


# Single rows


def singles_without_alpha(table, partition, rows):
    return single_row_scores(
        replace(table, config=replace(table.config, alpha=1.0)), partition, rows
    )


def odds_of_own_cluster(table, partition, rows):
    """A row leaves by the odds against its own cluster, not against all of them."""
    scores, log_odds = single_row_scores(table, partition, rows)
    own = scores[np.arange(len(rows)), partition.labels[rows]]
    total = np.logaddexp.reduce(scores, axis=1)
    return scores, log_odds + np.where(np.isfinite(own), total - own, 0.0)


def row_counts_itself(table, partition, rows):
    """The predictive density of the own cluster has seen the row."""
    scores, log_odds = single_row_scores(table, partition, rows)
    label, family = partition.labels[rows], table.family
    new = log_odds + np.logaddexp.reduce(scores, axis=1)
    seen = family.log_predictive(family.predictive_params(partition.stats), table.X[rows])
    at = np.arange(len(rows)), label
    count = partition.stats[label, 0]
    scores[at] = np.where(count > 1.5, seen[at] + np.log(count), -np.inf)
    return scores, new - np.logaddexp.reduce(scores, axis=1)


def joins_any_cluster(table, partition, rows):
    """A row joins every other cluster with the same probability."""
    scores, log_odds = single_row_scores(table, partition, rows)
    return np.where(np.isfinite(scores), 0.0, -np.inf), log_odds


def gibbs(problem: str, *, n_worlds: int = 800, **parts: Any) -> Error:
    return Error(problem, gibbs_sweep, parts, n_worlds=n_worlds)


def splits(problem: str, *, n_worlds: int = 200, **parts: Any) -> Error:
    return Error(problem, split_and_merge, parts, n_worlds=n_worlds)


def singles(problem: str, **parts: Any) -> Error:
    return Error(problem, single_rows, parts)


ERRORS = {
    "sweep drops emptied clusters": Error("line", dropping, n_worlds=200),
    "pinned rows without their factor": gibbs("line", n_worlds=3_000, draw_labels=without_factor),
    "weights without sizes": gibbs("counts", draw_labels=without_sizes_of_clusters),
    "draws of one row more": gibbs("line", draw_labels=one_row_more),
    "first rows are pinned": gibbs("line", n_worlds=200, pinned_rows=first_rows),
    "no proposal density": splits("line", restricted_scan=no_proposal),
    "root of the proposal density": splits("plane", restricted_scan=half_proposal),
    "anchors counted in the proposal": splits("counts", restricted_scan=anchors_counted),
    "ratio without alpha": splits("line", n_worlds=800, log_split_ratio=without_alpha),
    "ratio without sizes": splits("counts", log_split_ratio=without_sizes),
    "merge without its reverse": replace(
        splits("counts", propose_merge=merges_without_reverse), n_worlds=1_500, n_steps=8
    ),
    "anchors chosen by labels": Error("line", anchors_that_know_labels, n_worlds=400),
    "single rows without alpha": singles("plane", single_row_scores=singles_without_alpha),
    "single rows by their own cluster": singles("line", single_row_scores=odds_of_own_cluster),
    "single rows count themselves": singles("line", single_row_scores=row_counts_itself),
    "single rows join any cluster": singles("line", single_row_scores=joins_any_cluster),
}
