"""Mixture weights of clusters and of their halves: drawn, or at their Dirichlet means.

Weights are left unnormalised: a row's choice among clusters does not see a common factor.
"""

from __future__ import annotations

import math

import numpy as np

from scstream.core.rng import ClusterDraws
from scstream.core.state import State
from scstream.families.base import Array, Labels
from scstream.native import twin_function

_TINY = 1e-100  # an empty cluster; log U / _TINY is still finite


def mean_weights(state: State, alpha: float) -> tuple[Array, float, Array]:
    """Log of N_k, of alpha, and of (N_j + alpha/2) / (N + alpha) for the halves j of each k."""
    log_weight, log_subweight = log_mean_weights(state.subclusters[:, :, 0], alpha)
    return log_weight, math.log(alpha), log_subweight


def drawn_weights(state: State, alpha: float, key: int) -> tuple[Array, float, Array]:
    """Log of draws from Dir(N_1 .. N_K, alpha) and Dir(N_l + alpha/2, N_r + alpha/2)."""
    return log_drawn_weights(state.subclusters[:, :, 0], alpha, key, state.ids)


@twin_function
def log_mean_weights(subclusters: Array, alpha: float) -> tuple[Array, Array]:  # (K,), (K, 2)
    """Logarithms of the mean weights of clusters and halves, by the counts (K, 2) of halves."""
    weight = subclusters[:, 0] + subclusters[:, 1]
    log_subweight = np.log(subclusters + alpha / 2.0) - np.log(weight + alpha)[:, None]
    return np.log(np.maximum(weight, _TINY)), log_subweight


@twin_function
def log_drawn_weights(
    subclusters: Array, alpha: float, key: int, ids: Labels
) -> tuple[Array, float, Array]:  # (K,), (), (K, 2)
    """Logarithms of drawn weights of clusters, of one not seen yet, and of halves."""
    shape = np.ones((len(subclusters) + 1, 3))  # a cluster and its halves in every line
    shape[:-1, 0] = np.maximum(subclusters[:, 0] + subclusters[:, 1], _TINY)
    shape[:-1, 1:] = subclusters + alpha / 2.0
    # The cluster not seen yet draws under the one id that is never given.
    shape[-1, 0] = alpha
    drawn = ClusterDraws(key, np.append(ids, -1)).log_gamma(shape)
    log_subweight = drawn[:-1, 1:]
    log_subweight = log_subweight - np.logaddexp(log_subweight[:, 0], log_subweight[:, 1])[:, None]
    return drawn[:-1, 0].copy(), float(drawn[-1, 0]), log_subweight
