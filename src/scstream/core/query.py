"""Questions to a state that change nothing: which cluster, how probable, how dense."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from scstream.core.fading import advance
from scstream.core.state import NOVEL, Config, State
from scstream.core.sweep import predictive_plan
from scstream.families.base import Array, Family, Labels, Rows


def expected_at(family: Family, config: Config, state: State, time: float | None) -> State:
    """Return the state as it will be at `time`; by default when the next batch is due."""
    if state.is_new:
        return state
    due = state.time + state.stride if time is None else max(time, state.time)
    return advance(family, config, state, due)


def log_joint_density(family: Family, config: Config, state: State, X: Rows) -> Array:
    """Log of weight times predictive density of every row under every cluster.

    Shape (N, K + 1); the last column is a cluster not seen yet. Weights sum to one.
    """
    plan = predictive_plan(family, config, state)
    known = plan.log_density(family, plan.whole, X) + plan.log_weight
    new = family.log_predictive(plan.prior, X) + np.log(config.alpha)
    total = np.log(state.weight.sum() + config.alpha)
    return np.asarray(np.concatenate([known, new], axis=1) - total)


def choose(config: Config, state: State, log_joint: Array) -> Labels:  # (N, K + 1) -> (N,)
    """Id of the most probable cluster of every row, NOVEL where a new one is more probable."""
    ids = np.append(state.ids, NOVEL)
    scores = log_joint if config.births else log_joint[:, :-1]
    return np.asarray(ids[scores.argmax(axis=1)])


def probabilities(log_joint: Array) -> Array:  # (N, K + 1)
    """Posterior probability of every cluster, and of one not seen yet."""
    return np.asarray(np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True)))


def log_density(family: Family, log_joint: Array, X: Rows) -> Array:  # (N,)
    """Log predictive density of every row under the whole mixture."""
    return np.asarray(logsumexp(log_joint, axis=1) + family.log_base(X))
