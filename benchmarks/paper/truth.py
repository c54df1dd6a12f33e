"""Bayes labels of the fixed streams, from the truth that their recipes return.

The classifier knows parameters and weights at the time of each row: no method labels more rows
correctly on average.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def gaussian_labels(drawn: Mapping[str, Any], *, batch: int) -> IntArray:
    """Labels by the means, covariances and weights of `gen_gauss2d` or `gen_recurring`.

    Means of shape (B + 1, K, D) move evenly from one batch to the next; weights of shape (B, K)
    belong to batches.
    """
    X, means, weights = drawn["X"], drawn["means"], drawn["weights"]
    whiten = np.linalg.inv(np.linalg.cholesky(drawn["covs"]))  # (K, D, D)
    log_scale = np.log(np.diagonal(whiten, axis1=1, axis2=2)).sum(axis=1)  # (K,)
    labels = np.empty(len(X), dtype=np.int64)
    for b in range(len(X) // batch):
        rows = slice(b * batch, (b + 1) * batch)
        weight = weights[b] if weights.ndim == 2 else weights
        known = np.flatnonzero(weight)
        log_joint = np.empty((batch, len(known)))
        for place, k in enumerate(known):
            shifted = X[rows] - _mean(means[..., k, :], b, batch)
            distance = ((shifted @ whiten[k].T) ** 2).sum(axis=1)
            log_joint[:, place] = np.log(weight[k]) + log_scale[k] - 0.5 * distance
        labels[rows] = known[log_joint.argmax(axis=1)]
    return labels


def _mean(means: FloatArray, b: int, batch: int) -> FloatArray:
    """The mean of a cluster at the rows of a batch, (batch, D), or (D,) if it never moves."""
    if means.ndim == 1:
        return means
    share = (np.arange(batch) / batch)[:, None]
    moved: FloatArray = (1 - share) * means[b] + share * means[b + 1]
    return moved


def multinomial_labels(drawn: Mapping[str, Any], *, batch: int, width: float) -> IntArray:
    """Labels by the versions, events and weights of `gen_multinomial`.

    A cluster is at any time a mixture of its three versions: the second with a probability that
    rises from 0 to 1 in `width` batches after the first event, the third after the second.
    """
    thetas, events = drawn["thetas"].astype(np.float64), drawn["events"]  # (K, 3, D), (K, 2)
    log_theta = np.log(thetas / thetas.sum(axis=2, keepdims=True))
    n_clusters, n_versions, n_features = thetas.shape
    columns = log_theta.reshape(-1, n_features).T
    log_weight = np.log(drawn["weights"])
    labels = np.empty(len(drawn["X"]), dtype=np.int64)
    for first in range(0, len(labels), batch):
        X = drawn["X"][first : first + batch]
        fit = (X @ columns).reshape(-1, n_clusters, n_versions)
        time = np.arange(first, first + len(X)) / batch
        fit += _log_versions(time, events, width)
        labels[first : first + len(X)] = (logsumexp(fit, axis=2) + log_weight).argmax(axis=1)
    return labels


def _log_versions(time: FloatArray, events: FloatArray, width: float) -> FloatArray:
    """Log probability of each version of each cluster at each time, (N, K, 3)."""
    second, third = np.clip((time[:, None, None] - events) / width, 0.0, 1.0).transpose(2, 0, 1)
    shares = np.stack([(1 - second) * (1 - third), second * (1 - third), third], axis=2)
    with np.errstate(divide="ignore"):
        log_shares: FloatArray = np.log(shares)
    return log_shares
