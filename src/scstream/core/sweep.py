"""One pass over the rows of a batch (Algorithm 2, steps 1 to 3): parameters, labels, statistics."""

from __future__ import annotations

import math

import numpy as np

from scstream.core.assign import AssignmentParams, AssignmentStats
from scstream.core.config import Config
from scstream.core.rng import key_for
from scstream.core.state import State, Transition
from scstream.families.base import Array, Family


def sampled_params(
    family: Family, config: Config, state: State, shapes: State, *, sweep: int, births: bool
) -> AssignmentParams:
    """Draw weights and parameters from their posteriors; labels will be drawn, too.

    Weights come from `state`, parameters from the statistics of `shapes`. With `births` a row may
    belong to no cluster.
    """
    weights, params, subclusters, labels = (
        key_for(config.seed, batch=state.n_batches, sweep=sweep, purpose=purpose)
        for purpose in ("weights", "params", "subclusters", "labels")
    )
    log_weight, log_new, log_subweight = family.kernels.sample_log_weights(
        state.subweight, config.alpha, weights, state.ids
    )
    of_clusters, of_subclusters = family.kernels.sample_cluster_params(
        family, shapes.subclusters, state.ids, params, subclusters
    )
    return AssignmentParams(
        clusters=of_clusters,
        subclusters=of_subclusters,
        log_weight=log_weight,
        log_subweight=log_subweight,
        predictive=False,
        log_new=log_new if births else None,
        prior=family.prior_predictive,
        key=labels,
        single=config.precision == "float32",
    )


def mean_params(
    family: Family,
    config: Config,
    state: State,
    shapes: State,
    *,
    births: bool,
    key: int | None = None,
    collect_evidence: bool = False,
    subclusters: bool = True,
    tables: tuple[Array, Array] | None = None,
    n_candidates: int = 0,
) -> AssignmentParams:
    """Use mean weights and posterior predictive densities; every row gets its best label.

    With a `key` the statistics are of labels that are drawn, and the best labels are only
    reported. Without `subclusters` rows get no sub-label. `tables` are the predictive and
    the screening parameters of the clusters, if they are known. With `n_candidates`, rows are
    compared with so many clusters.
    """
    log_weight, log_subweight = family.kernels.log_mean_weights(state.subweight, config.alpha)
    if tables is None:
        screen = family.screening_params(shapes.cluster_stats) if n_candidates else None
        screen = np.zeros((0, 0)) if screen is None else screen
        tables = family.predictive_params(shapes.cluster_stats), screen
    of_subclusters = np.zeros((0, family.n_stats))
    if subclusters:
        of_subclusters = shapes.subclusters.reshape(-1, family.n_stats)
    return AssignmentParams(
        clusters=tables[0],
        subclusters=family.predictive_params(of_subclusters),
        log_weight=log_weight,
        log_subweight=log_subweight,
        predictive=True,
        log_new=math.log(config.alpha) if births else None,
        prior=family.prior_predictive,
        key=key,
        report_map=key is not None,
        collect_evidence=collect_evidence,
        single=config.precision == "float32",
        screen=tables[1],
        n_candidates=n_candidates,
    )


def label_key(config: Config, state: State, *, sweep: int) -> int:
    """Return the key under which the labels of a sweep are drawn."""
    return key_for(config.seed, batch=state.n_batches, sweep=sweep, purpose="labels")


def with_statistics(state: State, found: AssignmentStats, scale: float = 1.0) -> Transition:
    """Replace the statistics of this batch by those of the last pass.

    `scale` is the number of rows that each row of the pass represents.
    """
    current = found.stats if scale == 1.0 else scale * found.stats
    touched = current[:, 0, 0] + current[:, 1, 0] > 0
    state = state.replace(
        current=current,
        unassigned_now=scale * found.novel_weight,
        age=state.age + 1,
        last_seen=np.where(touched, state.time, state.last_seen),
    )
    state = state.replace(peak=np.maximum(state.peak, state.weight))
    return Transition.of(state, log_density=found.log_density)
