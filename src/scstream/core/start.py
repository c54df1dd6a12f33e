"""Before the first sweep: a prior that fits the data, and clusters to begin with."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from scstream.core.assign import AssignmentParams, LoadedRows
from scstream.core.births import group_pool, one_or_many
from scstream.core.cluster_edits import add_clusters
from scstream.core.moves import log_joint
from scstream.core.rng import key_for, sample_rows
from scstream.core.state import NOVEL, Config, Transition
from scstream.families.base import Array, Family, Rows

_MOST_ROWS = 5_000  # rows of a first batch that the prior is estimated from
_MOST_ROUNDS = 4
_WORTH_A_ROUND = 0.03  # nats per entry of the rows


def data_driven_prior(family: Family, config: Config, X: Rows, weight: Array | None) -> Family:
    """Choose the prior by maximum marginal likelihood on groups of the first batch (row 1).

    Grouping needs a prior and the prior needs groups: the weak `family` finds the first groups, a
    prior fitted to them finds better ones, and so on as long as that pays. Guards: where the data
    show no groups `family` stays, and after the first round one that explains the rows hardly
    better is not taken, because it would cut clusters that are not quite of the family into ever
    smaller ones.
    """
    X, weight = _subsample(config, X, weight)
    groups = one_or_many(family, config, group_pool(family, config, X, weight, _key(config, 0)))
    if len(groups) == 1:
        return family
    weak, explained = family, log_joint(family, config.alpha, groups)
    for round_ in range(1, _MOST_ROUNDS + 1):
        fitted = _most_probable(weak.prior_grid(groups), groups)
        regrouped = group_pool(fitted, config, X, weight, _key(config, round_))
        gain = log_joint(fitted, config.alpha, regrouped) - explained
        least = _WORTH_A_ROUND * n_entries(X) if round_ > 1 else 0.0
        if len(regrouped) == 1 or gain < least:
            break
        family, groups, explained = fitted, regrouped, explained + gain
    return family


def single_cluster(
    family: Family, config: Config, transition: Transition, rows: LoadedRows
) -> Transition:
    """All rows in one cluster, its halves at random."""
    nothing = family.prior_predictive
    plan = AssignmentParams(
        clusters=nothing,
        subclusters=np.repeat(nothing, 2, axis=0),
        log_weight=np.zeros(1),
        log_subweight=np.zeros((1, 2)),
        predictive=True,
        log_new=None,
        prior=nothing,
        key=key_for(config.seed, batch=transition.state.n_batches, sweep=0, purpose="subclusters"),
    )
    return add_clusters(transition, rows.assign(plan).stats, np.array([NOVEL]))


def _most_probable(candidates: list[Family], groups: Array) -> Family:
    evidence = [float(family.log_marginal(groups).sum()) for family in candidates]
    return candidates[int(np.argmax(evidence))]


def _subsample(config: Config, X: Rows, weight: Array | None) -> tuple[Rows, Array | None]:
    """A random subset of a large batch, chosen by the rows' addresses."""
    key = key_for(config.seed, batch=0, sweep=0, purpose="pool")
    rows = sample_rows(key, np.arange(X.shape[0]), _MOST_ROWS)
    return X[rows], None if weight is None else weight[rows]


def n_entries(X: Rows) -> int:
    """Number of entries that are not zero."""
    return int(X.nnz if sparse.issparse(X) else np.count_nonzero(X))


def _key(config: Config, round_: int) -> int:
    return key_for(config.seed, batch=0, sweep=round_, purpose="chain")
