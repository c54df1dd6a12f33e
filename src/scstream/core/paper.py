"""Algorithms 1 and 2 of Dinari and Freifeld (2022), as the authors' program runs them.

The formulas are the corrected ones. Three rules are not in the text of the paper but in the
program behind its figures: sub-clusters are renewed, the merge ratio has the term of the
sub-clusters, and the last sweep draws sub-labels. `scstream.core.printed` leaves them out.
`docs/explanation/paper-and-code.md` lists every difference and its measured effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scstream.core.assign import AssignmentParams, Executor, LoadedRows
from scstream.core.cluster_edits import (
    EditRules,
    add_clusters,
    number_from_zero,
    renew_subclusters,
)
from scstream.core.config import Config
from scstream.core.finish import finish, merge_lightest, remove_unsupported, skip_batch
from scstream.core.forgetting import forget
from scstream.core.moves import MoveRules, split_and_merge
from scstream.core.predictor import Predictor, mean_predictor
from scstream.core.rng import key_for
from scstream.core.state import NOVEL, Batch, Info, State, Transition
from scstream.core.sweep import label_key, mean_params, sampled_params, with_statistics
from scstream.families.base import Family, Labels


@dataclass(frozen=True)
class PaperRules:
    """The rules in which the authors' program differs from the text of the paper."""

    moves: MoveRules
    renew: bool  # renew the sub-clusters of a cluster if one of them got no rows
    draw_sublabels: bool  # in the last sweep, draw sub-labels instead of the most probable ones
    patience: int  # sweeps without a split, merge or removal that end the first batch


RULES = MoveRules(
    min_age=0,
    min_subcluster_weight=0.0,
    n_neighbours=None,
    merge_inactive=True,
    subcluster_ratio=True,
    edits=EditRules(keep_heavier_id=False, bisect_past=True),
)
PROGRAM = PaperRules(RULES, renew=True, draw_sublabels=True, patience=500)
_START_SWEEPS = 2000  # most sweeps on the first batch


def step(
    family: Family,
    config: Config,
    state: State,
    batch: Batch,
    executor: Executor,
    rules: PaperRules = PROGRAM,
) -> tuple[State, Labels, Info]:
    """Update the clusters with one batch of rows (Algorithm 1).

    Decay the statistics to the time of the batch, run `n_sweeps` sampling sweeps (the paper's T; on
    the first batch until convergence), then one predictive sweep. Splits and merges follow every
    sweep. Returns the new state, the cluster id of every row, and an `Info` record.
    """
    first = state.n_clusters == 0
    state = forget(family, config, state, batch.time, motion=False)
    if batch.n_rows == 0:
        return skip_batch(state)
    rows = executor.load(family, batch)
    transition = one_cluster(family, config, state, rows) if first else Transition.of(state)
    n_sweeps, patience = (_START_SWEEPS, rules.patience) if first else (config.n_sweeps, -1)
    quiet, sweep = 0, 0
    while sweep < n_sweeps and quiet != patience:
        sweep += 1
        swept = sampling_sweep(family, config, rules, transition.state, rows, sweep=sweep)
        quiet = 0 if swept.events else quiet + 1
        transition = swept.after(transition)
    last = predictive_sweep(family, config, rules, transition.state, rows, sweep=sweep + 1)
    transition = remove_unsupported(config, last.after(transition), newborn=False)
    transition = merge_lightest(family, config, rules.moves.edits, transition)
    if first:
        transition = number_from_zero(transition)
    return finish(config, batch, transition, rows)


def sampling_sweep(
    family: Family, config: Config, rules: PaperRules, state: State, rows: LoadedRows, *, sweep: int
) -> Transition:
    """Draw weights, parameters, labels and sub-labels, then split and merge (Algorithm 2)."""
    params = sampled_params(family, config, state, state, sweep=sweep, births=False)
    return assign_and_move(family, config, rules, state, rows, params, sweep=sweep)


def predictive_sweep(
    family: Family, config: Config, rules: PaperRules, state: State, rows: LoadedRows, *, sweep: int
) -> Transition:
    """Give every row its most probable label, and a sub-label; then split and merge."""
    params = mean_params(family, config, state, state, births=False)
    if rules.draw_sublabels:
        key = label_key(config, state, sweep=sweep)
        params = replace(params, key=key, map_labels=True)
    return assign_and_move(family, config, rules, state, rows, params, sweep=sweep)


def assign_and_move(
    family: Family,
    config: Config,
    rules: PaperRules,
    state: State,
    rows: LoadedRows,
    params: AssignmentParams,
    *,
    sweep: int,
) -> Transition:
    """Assign the rows, then split, merge, and renew sub-clusters that got no rows."""
    transition = with_statistics(state, rows.assign(params))
    transition = split_and_merge(family, config, rules.moves, transition, sweep=sweep)
    if rules.renew:
        transition = renew_subclusters(family, rules.moves.edits, transition)
    return transition


def one_cluster(family: Family, config: Config, state: State, rows: LoadedRows) -> Transition:
    """Begin with all rows in one cluster, and with random sub-labels."""
    prior = family.prior_predictive
    params = AssignmentParams(
        clusters=prior,
        subclusters=np.repeat(prior, 2, axis=0),
        log_weight=np.zeros(1),
        log_subweight=np.zeros((1, 2)),
        predictive=True,
        log_new=None,
        prior=prior,
        key=key_for(config.seed, batch=state.n_batches, sweep=0, purpose="subclusters"),
    )
    return add_clusters(Transition.of(state), rows.assign(params).stats, np.array([NOVEL]))


def predictor(family: Family, config: Config, state: State, time: float | None) -> Predictor:
    """Return the mixture at a time, by default when the next batch is due."""
    return mean_predictor(family, config, state, time, births=False)


def shapes(config: Config, state: State) -> State:
    """Return the state whose statistics describe the shapes of the clusters."""
    return state
