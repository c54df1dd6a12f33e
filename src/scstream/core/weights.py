"""Mixture weights of clusters and of their halves: drawn, or at their Dirichlet means.

Weights are left unnormalised: a row's choice among clusters does not see a common factor.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from scstream.core.rng import ClusterDraws
from scstream.core.state import State
from scstream.families.base import Array

_TINY = 1e-100  # an empty cluster; log U / _TINY is still finite


def mean_weights(state: State, alpha: float) -> tuple[Array, float, Array]:
    """Log of N_k, of alpha, and of (N_j + alpha/2) / (N + alpha) for the halves j of each k."""
    halves = state.halves[:, :, 0]
    log_half = np.log(halves + alpha / 2.0) - np.log(state.weight + alpha)[:, None]
    return np.log(np.maximum(state.weight, _TINY)), float(np.log(alpha)), log_half


def drawn_weights(state: State, alpha: float, key: int) -> tuple[Array, float, Array]:
    """Log of draws from Dir(N_1 .. N_K, alpha) and Dir(N_l + alpha/2, N_r + alpha/2)."""
    draws = ClusterDraws(key, state.ids)
    log_weight = draws.log_gamma(np.maximum(state.weight, _TINY)[:, None])[:, 0]
    log_half = draws.log_gamma(state.halves[:, :, 0] + alpha / 2.0)
    log_half = log_half - logsumexp(log_half, axis=1, keepdims=True)
    # The cluster not seen yet draws under the one id that is never given.
    log_new = ClusterDraws(key, np.array([-1])).log_gamma(np.array([[alpha]]))[0, 0]
    return log_weight, float(log_new), log_half
