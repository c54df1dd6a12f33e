"""The default algorithm: learn one batch.

It follows Algorithm 1 of Dinari and Freifeld (2022) with the changes that
`docs/explanation/paper-and-code.md` lists. The paper's own version is `scstream.core.paper`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scstream.core.assign import AssignmentParams, Executor, LoadedRows
from scstream.core.births import propose_births
from scstream.core.cluster_edits import EditRules, number_from_zero
from scstream.core.config import Config
from scstream.core.evidence import accumulate_evidence, watch_merge_pairs
from scstream.core.finish import finish, merge_lightest, remove_unsupported, skip_batch
from scstream.core.forgetting import due, forget, unfaded
from scstream.core.motion import correct_motion
from scstream.core.moves import MoveRules, split_and_merge
from scstream.core.predictor import Predictor
from scstream.core.rng import key_for
from scstream.core.screening import Near, Tables, candidates_of, near_clusters
from scstream.core.state import Batch, Info, State, Transition
from scstream.core.sweep import label_key, mean_params, sampled_params, with_statistics
from scstream.families.base import Array, Family, Labels

RULES = MoveRules(
    min_age=5,
    min_subcluster_weight=4.0,
    n_neighbours=5,
    merge_inactive=False,
    subcluster_ratio=True,
    edits=EditRules(keep_heavier_id=True, bisect_past=True),
)
_START_SWEEPS = 15  # most sweeps on the first batch
_START_PATIENCE = 10  # sweeps without a split, merge or removal that end the first batch
_BIRTH_SWEEPS = 2  # least number of sweeps on a batch in which clusters were born
_TINY = np.finfo(float).tiny
_UNKNOWN = float("nan"), float("nan")
_MAX_SAMPLED = 1 << 14  # rows of a batch that are compared with clusters before they are learned


def step(
    family: Family, config: Config, state: State, batch: Batch, executor: Executor
) -> tuple[State, Labels, Info]:
    """Update the clusters with one batch of rows.

    1. Forget: decay the statistics of every cluster to the time of the batch, and move them. Of
       many clusters, set those aside that no row of the batch may belong to.
    2. Propose births: rows that no cluster explains may form new clusters.
    3. Sample: run Gibbs sweeps (on the first batch, after births, or if `n_sweeps` says so).
    4. Assign: give every row its most probable cluster; then split and merge.
    5. Remove clusters that lost their support, and estimate the motion of the others.

    Returns the new state, the cluster id of every row, and an `Info` record.
    """
    first = state.n_clusters == 0
    elapsed = 0.0 if state.is_new else batch.time - state.time
    tables = Tables.of(state)
    state = forget(family, config, state, batch.time, motion=config.motion, keep_shapes=True)
    log_total = float(np.log(state.weight.sum() + config.alpha))
    if batch.n_rows == 0:
        return skip_batch(state)
    rows = executor.load(family, batch)
    key = key_for(config.seed, batch=state.n_batches, sweep=0, purpose="sample")
    sample, scale = rows.sample(_MAX_SAMPLED, key)
    near = near_clusters(family, config, state, sample, tables, complete=scale == 1.0)
    config, total = near.config, batch.total_weight / scale
    sampled, found = initial_assignment(family, config, near, sample, scale=scale, total=total)
    before = found[0] - log_total, found[1]
    n_sweeps = max(config.n_sweeps, _BIRTH_SWEEPS if sampled.events else 0)
    patience = None
    if family.collapsed:
        n_sweeps = config.n_sweeps
    elif first:
        n_sweeps, patience = _START_SWEEPS, _START_PATIENCE
    sampled, sweep = gibbs_sweeps(family, config, sampled, rows, n=n_sweeps, patience=patience)
    n_candidates = 0 if sampled.events else near.n_candidates
    transition = assign_rows(
        family, config, sampled.state, rows, sweep=sweep + 1, n_candidates=n_candidates
    ).after(sampled)
    state = near.put_back(correct_motion(family, config, transition.state, elapsed))
    config, transition = near.config_of_all, replace(transition, state=state)
    transition = remove_unsupported(config, transition, newborn=config.births)
    transition = merge_lightest(family, config, RULES.edits, transition)
    if first:
        transition = number_from_zero(transition)
    tables.keep(transition.state)
    return finish(config, batch, transition, rows, before=before, screening_error=near.error)


def initial_assignment(
    family: Family, config: Config, near: Near, sample: LoadedRows, *, scale: float, total: float
) -> tuple[Transition, tuple[float, float]]:
    """Compare the rows with the clusters before they are learned.

    Returns also their mean log density, weights not normalised, and the share of novel rows. Rows
    get a first label; rows that no cluster explains may form new clusters; the comparison is
    evidence for splits and merges. Of large batches only a random sample of rows takes part, of
    which each represents `scale` rows; `total` is their weight.
    """
    state = near.state
    evidence = config.split_evidence is not None or config.merge_evidence is not None
    if state.n_clusters and not config.births and not evidence:
        return Transition.of(state), _UNKNOWN
    params = predictive_params(
        family,
        config,
        state,
        sweep=0,
        collect_evidence=True,
        tables=near.tables,
        n_candidates=near.n_candidates,
    )
    state, params = watch_merge_pairs(family, config, state, params)
    if config.births:
        params = replace(params, typical=family.typical_params)
    found = sample.assign(params)
    if state.n_clusters == 0:
        first = propose_births(family, config, RULES.edits, Transition.of(state), sample)
        return first, _UNKNOWN
    transition = with_statistics(accumulate_evidence(config, state, found), found, scale)
    weight = max(found.novel_weight + float(found.stats[:, :, 0].sum()), _TINY)
    if params.typical is not None:
        weight = max(total, _TINY)  # also of rows that stay without a cluster
    if params.typical is not None or found.novel_weight >= config.min_birth_weight:
        transition = propose_births(family, config, RULES.edits, transition, sample)
    return transition, (found.log_density / weight, found.novel_weight / weight)


def gibbs_sweeps(
    family: Family,
    config: Config,
    transition: Transition,
    rows: LoadedRows,
    *,
    n: int,
    patience: int | None,
) -> tuple[Transition, int]:
    """Run up to `n` sampling sweeps with splits and merges (Algorithm 2); return their number.

    With `patience`, stop after so many sweeps in which the set of clusters did not change.
    """
    quiet, sweep = 0, 0
    while sweep < n and quiet != patience:
        sweep += 1
        state = transition.state
        shapes = unfaded(state)
        births = _births_allowed(config, state)
        params = sampled_params(family, config, state, shapes, sweep=sweep, births=births)
        swept = with_statistics(state, rows.assign(params))
        swept = split_and_merge(family, config, RULES, swept, sweep=sweep)
        quiet = 0 if swept.events else quiet + 1
        transition = swept.after(transition)
    return transition, sweep


def assign_rows(
    family: Family,
    config: Config,
    state: State,
    rows: LoadedRows,
    *,
    sweep: int,
    n_candidates: int = 0,
) -> Transition:
    """Give every row its most probable cluster, then split and merge."""
    params = predictive_params(family, config, state, sweep=sweep, n_candidates=n_candidates)
    transition = with_statistics(state, rows.assign(params))
    return split_and_merge(family, config, RULES, transition, sweep=sweep)


def predictive_params(
    family: Family,
    config: Config,
    state: State,
    *,
    sweep: int | None = None,
    collect_evidence: bool = False,
    tables: tuple[Array, Array] | None = None,
    n_candidates: int = 0,
) -> AssignmentParams:
    """Return what rows are compared with in a predictive sweep; without `sweep`, in `predict`.

    The statistics of a sweep are of labels that are drawn by their probabilities: statistics of
    the most probable labels would make overlapping clusters too narrow.
    """
    return mean_params(
        family,
        config,
        state,
        unfaded(state),
        births=_births_allowed(config, state),
        key=None if sweep is None else label_key(config, state, sweep=sweep),
        collect_evidence=collect_evidence,
        subclusters=sweep is not None,
        tables=tables,
        n_candidates=n_candidates,
    )


def predictor(family: Family, config: Config, state: State, time: float | None) -> Predictor:
    """Return the mixture at a time, by default when the next batch is due."""
    state = due(family, config, state, time, motion=config.motion, keep_shapes=True)
    n_candidates = candidates_of(family, config, state)
    params = predictive_params(family, config, state, n_candidates=n_candidates)
    return Predictor.of(family, config, state, params, births=config.births)


def _births_allowed(config: Config, state: State) -> bool:
    """Rows may belong to no cluster, unless there are too few rows for one cluster."""
    if state.n_clusters == 0:
        return True
    return config.births and float(state.weight.sum()) >= config.min_birth_weight


def shapes(config: Config, state: State) -> State:
    """Return the state whose statistics describe the shapes of the clusters."""
    return unfaded(state)
