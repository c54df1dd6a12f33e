"""Why rows belong to their cluster: the runner-up, and the features that decided.

The log odds of a cluster against the runner-up are the sum of what the features contribute and of
a constant: the logarithm of the ratio of the weights, and what no single feature accounts for.
Shapes: N rows, D features, K clusters, G groups, M features that are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scstream.core.predictor import GroupPredictor, Predictor
from scstream.core.state import NOVEL
from scstream.families.base import Array, Labels, Rows
from scstream.families.contributions import feature_terms

_CHUNK = 1 << 20  # contributions that are held at a time
_NEGLIGIBLE = 1e-9  # share of a cluster in its group


class Reasons(NamedTuple):
    """Why rows belong to their clusters.

    Parameters
    ----------
    label, runner_up : array of shape (N,)
        Ids of the most probable cluster and of the next one, -1 for a cluster not seen yet.
    probability, runner_up_probability : array of shape (N,)
        Their probabilities.
    log_odds : array of shape (N,)
        Log of the ratio of these.
    feature : array of shape (N, M)
        The features with the largest contributions, the largest first.
    contribution : array of shape (N, M)
        What they add to the log odds; negative for the runner-up.
    others : array of shape (N,)
        Sum of the contributions of all other features.
    constant : array of shape (N,)
        What no feature accounts for, such as the weights of the clusters.
    """

    label: Labels
    runner_up: Labels
    probability: Array
    runner_up_probability: Array
    log_odds: Array
    feature: Labels
    contribution: Array
    others: Array
    constant: Array


def reasons(predictor: Predictor, X: Rows, *, n: int) -> Reasons:
    """Compare the most probable cluster of every row with the next one, feature by feature.

    The runner-up of a known cluster is another known one; only where there is none, it is a
    cluster not seen yet.
    """
    step = max(1, _CHUNK // max(1, predictor.family.n_features))
    starts = range(0, max(X.shape[0], 1), step)
    found = [_reasons(predictor, X[start : start + step], n) for start in starts]
    return Reasons(*map(np.concatenate, zip(*found, strict=True)))


def _reasons(predictor: Predictor, X: Rows, n: int) -> Reasons:
    row, n_known = np.arange(X.shape[0]), len(predictor.ids)
    joint = predictor.log_joint(X)  # (N, G + 1)
    ids = np.append(predictor.ids, NOVEL)
    label = predictor.labels(X)
    best = np.where(label == NOVEL, n_known, np.searchsorted(predictor.ids, label))
    second = _runner_up(joint, best)
    log_odds = joint[row, best] - joint[row, second]
    terms = _contributions(predictor, X, joint, best, second)  # (N, D)
    order = np.argsort(-np.abs(terms), axis=1, kind="stable")[:, :n]
    contribution = np.take_along_axis(terms, order, axis=1)
    total = terms.sum(axis=1)
    chance = np.exp(joint - joint.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    return Reasons(
        label=label,
        runner_up=ids[second],
        probability=chance[row, best],
        runner_up_probability=chance[row, second],
        log_odds=log_odds,
        feature=order,
        contribution=contribution,
        others=total - contribution.sum(axis=1),
        constant=log_odds - total,
    )


def _runner_up(joint: Array, best: Labels) -> Labels:  # (N, G + 1), (N,) -> (N,)
    """Return the most probable other known cluster; the new one where there is none."""
    others = joint.copy()
    others[np.arange(len(best)), best] = -np.inf
    known = others[:, :-1]
    if not known.shape[1]:
        return np.full(len(best), 0)
    second = known.argmax(axis=1)
    nothing = ~np.isfinite(known[np.arange(len(best)), second])
    return np.asarray(np.where(nothing, known.shape[1], second))


def _contributions(
    predictor: Predictor, X: Rows, joint: Array, best: Labels, second: Labels
) -> Array:  # (N, D)
    """Sum what features add under the clusters of both sides, each with its share of its side."""
    params = predictor.params
    tables = np.concatenate([params.clusters, params.prior])  # (K + 1, R)
    share = _shares(predictor, X, joint, best) - _shares(predictor, X, joint, second)
    out = np.zeros(X.shape)
    for k in np.flatnonzero(np.abs(share).max(axis=0, initial=0.0) > _NEGLIGIBLE):
        rows = np.flatnonzero(np.abs(share[:, k]) > _NEGLIGIBLE)
        terms = feature_terms(predictor.family, tables[k : k + 1], X[rows])
        out[rows] += share[rows, k, None] * terms
    return out


def _shares(predictor: Predictor, X: Rows, joint: Array, side: Labels) -> Array:  # (N, K + 1)
    """Return the share of every cluster in the density of one side: one for a cluster itself."""
    n_rows, row = X.shape[0], np.arange(X.shape[0])
    if not isinstance(predictor, GroupPredictor):
        out = np.zeros((n_rows, len(predictor.ids) + 1))
        out[row, side] = 1.0
        return out
    group = np.append(predictor.group, len(predictor.ids))
    scores = Predictor.log_joint(predictor, X)
    inside = group[None, :] == side[:, None]
    log_share = np.where(inside, scores - joint[row, side][:, None], -np.inf)
    return np.asarray(np.exp(log_share))
