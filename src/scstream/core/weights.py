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
    log_weight, log_half = log_mean_weights(state.halves[:, :, 0], alpha)
    return log_weight, math.log(alpha), log_half


def drawn_weights(state: State, alpha: float, key: int) -> tuple[Array, float, Array]:
    """Log of draws from Dir(N_1 .. N_K, alpha) and Dir(N_l + alpha/2, N_r + alpha/2)."""
    return log_drawn_weights(state.halves[:, :, 0], alpha, key, state.ids)


@twin_function
def log_mean_weights(halves: Array, alpha: float) -> tuple[Array, Array]:  # (K,), (K, 2)
    """Logarithms of the mean weights of clusters and halves, by the counts (K, 2) of halves."""
    weight = halves[:, 0] + halves[:, 1]
    log_half = np.log(halves + alpha / 2.0) - np.log(weight + alpha)[:, None]
    return np.log(np.maximum(weight, _TINY)), log_half


@twin_function
def log_drawn_weights(
    halves: Array, alpha: float, key: int, ids: Labels
) -> tuple[Array, float, Array]:  # (K,), (), (K, 2)
    """Logarithms of drawn weights of clusters, of one not seen yet, and of halves."""
    shape = np.ones((len(halves) + 1, 3))  # a cluster and its halves in every line
    shape[:-1, 0] = np.maximum(halves[:, 0] + halves[:, 1], _TINY)
    shape[:-1, 1:] = halves + alpha / 2.0
    # The cluster not seen yet draws under the one id that is never given.
    shape[-1, 0] = alpha
    drawn = ClusterDraws(key, np.append(ids, -1)).log_gamma(shape)
    log_half = drawn[:-1, 1:]
    log_half = log_half - np.logaddexp(log_half[:, 0], log_half[:, 1])[:, None]
    return drawn[:-1, 0].copy(), float(drawn[-1, 0]), log_half
