"""Mixture weights of clusters and of their halves: drawn, or at their Dirichlet means.

Weights are left unnormalised: a row's choice among clusters does not see a common factor.
"""

from __future__ import annotations

import numpy as np

from scstream.core.rng import ClusterDraws
from scstream.core.state import State
from scstream.families.base import Array

_TINY = 1e-100  # an empty cluster; log U / _TINY is still finite


def mean_weights(state: State, alpha: float) -> tuple[Array, float, Array]:
    """Log of N_k, of alpha, and of (N_j + alpha/2) / (N + alpha) for the halves j of each k."""
    halves, weight = state.halves[:, :, 0], state.weight
    log_half = np.log(halves + alpha / 2.0) - np.log(weight + alpha)[:, None]
    return np.log(np.maximum(weight, _TINY)), float(np.log(alpha)), log_half


def drawn_weights(state: State, alpha: float, key: int) -> tuple[Array, float, Array]:
    """Log of draws from Dir(N_1 .. N_K, alpha) and Dir(N_l + alpha/2, N_r + alpha/2)."""
    shape = np.ones((state.n_clusters + 1, 3))  # a cluster and its halves in every line
    shape[:-1, 0] = np.maximum(state.weight, _TINY)
    shape[:-1, 1:] = state.halves[:, :, 0] + alpha / 2.0
    # The cluster not seen yet draws under the one id that is never given.
    shape[-1, 0] = alpha
    drawn = ClusterDraws(key, np.append(state.ids, -1)).log_gamma(shape)
    log_half = drawn[:-1, 1:]
    log_half = log_half - np.logaddexp(log_half[:, 0], log_half[:, 1])[:, None]
    return drawn[:-1, 0].copy(), float(drawn[-1, 0]), log_half
