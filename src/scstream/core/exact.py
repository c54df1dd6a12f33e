"""The exact algorithm: a Markov chain whose stationary distribution is the posterior of partitions.

For one table without forgetting, a Dirichlet process mixture gives a partition z of the rows the
probability p(z | X) that is proportional to alpha^K prod_k Gamma(N_k) f(rows of cluster k). Each of
the three moves of a sweep leaves it invariant; `docs/explanation/exact.md` has the proofs.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from scstream.core.assign import AssignmentParams, Executor
from scstream.core.births import group_labels
from scstream.core.cluster_edits import EditRules, add_clusters, subclusters_of
from scstream.core.config import Config
from scstream.core.exact_moves import move_single_rows, split_and_merge
from scstream.core.forgetting import forget
from scstream.core.partition import Partition, Table
from scstream.core.predictor import Predictor, mean_predictor
from scstream.core.rng import sample_rows
from scstream.core.state import NOVEL, Batch, Info, State, Transition
from scstream.errors import InputError
from scstream.families.base import Array, Family, Labels
from scstream.kernels import ClusterDraws

_MAX_GROUPED = 5_000  # rows of the table that are grouped to begin with
_EDITS = EditRules(keep_heavier_id=True, bisect_past=True)


def step(
    family: Family, config: Config, state: State, batch: Batch, executor: Executor
) -> tuple[State, Labels, Info]:
    """Run `n_sweeps` sweeps from an over-segmented start; the last partition is the state.

    Returns the state, the cluster id of every row, and an `Info` record.
    """
    _check_one_table(state, batch)
    table = Table.of(family, config, batch, executor)
    partition = start(table)
    for sweep in range(config.n_sweeps):
        partition = advance(table, partition, sweep)
    return state_of(table, Partition.of(table, partition.labels), state, batch)


def advance(table: Table, partition: Partition, sweep: int) -> Partition:
    """Run one sweep.

    1. Draw weights, parameters and labels; no cluster is created or emptied.
    2. Propose splits and merges of clusters.
    3. Propose to move single rows out of their cluster into a new one, or back into another.
    """
    partition = gibbs_sweep(table, partition, sweep)
    partition = split_and_merge(table, partition, sweep)
    return move_single_rows(table, partition, sweep)


def start(table: Table) -> Partition:
    """Begin with the groups of `scstream.core.segment`.

    Of a large table only a random sample is grouped; the other rows join the group that predicts
    them best. If there are more than `max_clusters` groups, begin with one.
    """
    family, config, X = table.family, table.config, table.X
    key = table.key(0, "pool")
    rows = sample_rows(family.kernels, key, np.arange(table.n_rows), _MAX_GROUPED)
    labels = group_labels(family, config, X[rows], None, table.key(0, "seeds"))
    if len(rows) < table.n_rows:
        stats = family.stats(X[rows], labels, int(labels.max()) + 1)
        params = family.predictive_params(stats)
        labels = choose_labels(table, params, np.log(stats[:, 0]), predictive=True, key=None)
    partition = Partition.of(table, labels)
    if partition.n_clusters > config.max_clusters:
        return Partition.of(table, np.zeros_like(partition.labels))
    return partition


def gibbs_sweep(table: Table, partition: Partition, sweep: int) -> Partition:
    """Draw weights and parameters, then the labels of all rows but one pinned row per cluster.

    The pinned rows keep every cluster from becoming empty: dropping an emptied cluster has no
    reverse. A random row of each cluster is pinned, with probability 1 / N_k. This changes the
    distribution of the labels given the pinned rows by the factor prod_k 1 / N_k, for which the
    auxiliary variables t_k = U_k^(1 / N_k) make up: they multiply the weights.
    """
    ids = np.arange(partition.n_clusters)
    chance = table.uniforms(sweep, "pins", ids)
    labels = draw_labels(table, partition, sweep, np.log(chance[:, 0]) / partition.stats[:, 0])
    labels[pinned_rows(partition, chance[:, 1])] = ids
    return Partition(labels, table.family.stats(table.X, labels, len(ids)))


def draw_labels(
    table: Table, partition: Partition, sweep: int, log_factor: Array
) -> Labels:  # (N,)
    """Draw weights and parameters from their posteriors, multiply the weights, draw labels."""
    family, kernels = table.family, table.family.kernels
    count, ids = partition.stats[:, 0], np.arange(partition.n_clusters)
    log_weight, _, _ = kernels.sample_log_weights(
        np.column_stack([count, np.zeros_like(count)]),
        table.config.alpha,
        table.key(sweep, "weights"),
        ids,
    )
    draws = ClusterDraws(kernels, table.key(sweep, "params"), ids)
    params = family.sample_posterior(partition.stats, draws)
    key = table.key(sweep, "labels")
    return choose_labels(table, params, log_weight + log_factor, predictive=False, key=key)


def choose_labels(
    table: Table, params: Array, log_weight: Array, *, predictive: bool, key: int | None
) -> Labels:  # (N,)
    """Draw the labels of all rows under a key, or take the most probable ones."""
    table.loaded.assign(
        AssignmentParams(
            clusters=params,
            subclusters=params.repeat(2, axis=0),  # sub-labels are of no interest here
            log_weight=log_weight,
            log_subweight=np.zeros((len(params), 2)),
            predictive=predictive,
            log_new=None,
            prior=table.family.prior_predictive,
            key=key,
        )
    )
    labels, _ = table.loaded.labels(np.arange(len(params)).repeat(2).reshape(-1, 2))
    return labels


def pinned_rows(partition: Partition, chance: Array) -> Labels:  # (K,)
    """Return a random row of every cluster."""
    count = partition.stats[:, 0].astype(np.int64)
    rows = np.argsort(partition.labels, kind="stable")
    place = np.minimum((chance * count).astype(np.int64), count - 1)
    return np.asarray(rows[np.cumsum(count) - count + place])


def state_of(
    table: Table, partition: Partition, state: State, batch: Batch
) -> tuple[State, Labels, Info]:
    """Return the state whose clusters are those of a partition, the labels, and an `Info`."""
    family, config = table.family, table.config
    state = forget(family, config, state, batch.time, motion=False)
    clusters = subclusters_of(family, _EDITS, partition.stats, partition.stats)
    new = np.full(partition.n_clusters, NOVEL)
    transition = add_clusters(Transition.of(state), clusters, new)
    state = transition.state.replace(n_batches=state.n_batches + 1)
    density = predictor(family, config, state, batch.time).log_density(batch.rows)
    info = Info(transition.events, mean_log_density=float(density.mean()))
    return state, partition.labels, info


def predictor(family: Family, config: Config, state: State, time: float | None) -> Predictor:
    """Return the predictive mixture given the partition."""
    return mean_predictor(family, config, state, time, births=True)


def shapes(config: Config, state: State) -> State:
    """Return the state whose statistics describe the shapes of the clusters."""
    return state


def _check_one_table(state: State, batch: Batch) -> None:
    """Raise `InputError` for what a posterior of one fixed table has no place for."""
    if not state.is_new:
        raise InputError(
            "algorithm='exact' samples the posterior of one table and has already learned it; call "
            "fit with all rows, or use algorithm='default' to learn batch by batch."
        )
    if batch.weight is not None:
        raise InputError(
            "algorithm='exact' takes no sample_weight: weighted rows have no exact posterior; "
            "repeat the rows instead, or use algorithm='default'."
        )
    if batch.time != 0.0:
        raise InputError(
            "algorithm='exact' takes no time: all rows belong to one table; leave time out, or use "
            "algorithm='default' for rows that come over time."
        )
    if not isinstance(batch.rows, np.ndarray) and not sparse.issparse(batch.rows):
        raise InputError(
            "algorithm='exact' needs the rows in this process; pass rows.gathered(), or use "
            "algorithm='default' for rows on a cluster."
        )
    if batch.n_rows == 0:
        raise InputError("algorithm='exact' needs at least one row.")
