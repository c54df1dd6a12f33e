"""Predictions: which cluster, how probable, how dense. Nothing is learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from scstream.core.assign import AssignmentParams, cluster_scores
from scstream.core.config import Config
from scstream.core.forgetting import due
from scstream.core.groups import Groups
from scstream.core.state import NOVEL, State
from scstream.core.sweep import mean_params
from scstream.families.base import Array, Family, Labels, Rows

Run = Callable[[Callable[[Rows], Any], Sequence[Rows]], list[Any]]  # `map`, perhaps on threads
_CHUNK = 4096  # rows computed at a time, so that memory does not grow with their number


class Prediction(NamedTuple):
    """All that a model predicts about rows.

    Parameters
    ----------
    label : array of shape (N,)
        Id of the most probable cluster, -1 if a cluster not seen yet is more probable.
    probability : array of shape (N,)
        Probability of the label.
    novelty : array of shape (N,)
        Probability of a cluster not seen yet.
    log_density : array of shape (N,)
        Log predictive density under the whole mixture.

    Examples
    --------
    >>> from scstream.core.predictor import Prediction
    >>> Prediction._fields
    ('label', 'probability', 'novelty', 'log_density')
    """

    label: Labels
    probability: Array
    novelty: Array
    log_density: Array


def _serial(function: Callable[[Rows], Any], chunks: Sequence[Rows]) -> list[Any]:
    return [function(chunk) for chunk in chunks]


@dataclass(frozen=True)
class Predictor:
    """The mixture at one time, ready to predict. `Model.at` makes it.

    Parameters
    ----------
    family : Family
        The family with its prior.
    ids : array of shape (K,)
        Ids of the clusters.
    params : AssignmentParams
        Weights and predictive parameters of the clusters.
    log_alpha, log_total : float
        Logarithms of the concentration and of the total weight.
    births : bool
        Whether a row may belong to a cluster not seen yet.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> model = Settings(random_state=0).update(np.array([[0.1], [0.2], [0.3]])).model
    >>> model.at().predict(np.array([[90.0]])).label
    array([-1])
    """

    family: Family
    ids: Labels  # (K,)
    params: AssignmentParams
    log_alpha: float
    log_total: float
    births: bool

    @classmethod
    def of(
        cls, family: Family, config: Config, state: State, params: AssignmentParams, *, births: bool
    ) -> Self:
        """Return the predictor of a state; with `births` a row may belong to no cluster."""
        log_total = float(np.log(state.weight.sum() + config.alpha))
        return cls(family, state.ids, params, float(np.log(config.alpha)), log_total, births)

    def grouped(self, groups: Groups) -> Predictor:
        """Return the predictor of groups of clusters, whose probabilities are sums."""
        return GroupPredictor(
            self.family,
            groups.id,
            self.params,
            self.log_alpha,
            self.log_total,
            self.births,
            groups.index,
        )

    def labels(self, X: Rows, *, run: Run = _serial) -> Labels:  # (N,)
        """Return the id of the most probable cluster, NOVEL if a new one is more probable."""
        if self._reader is not None and X.shape[0] <= _CHUNK:
            return self._labels(X)
        return np.asarray(self._by_chunk(self._labels, X, run))

    def probabilities(self, X: Rows, *, run: Run = _serial) -> Array:  # (N, K + 1)
        """Return the posterior probability of every cluster, and of one not seen yet."""
        return np.asarray(self._by_chunk(self._probabilities, X, run))

    def log_density(self, X: Rows, *, run: Run = _serial) -> Array:  # (N,)
        """Return the log predictive density of every row under the whole mixture."""
        return np.asarray(self._by_chunk(self._log_density, X, run))

    def known(self, X: Rows, *, run: Run = _serial) -> tuple[Labels, Array]:
        """Return the id of the most probable known cluster, and the log density, of every row."""
        label, density = self._by_chunk(self._known, X, run)
        return label, density

    def anomaly(self, X: Rows, *, run: Run = _serial) -> Array:  # (N,)
        """Return the negative log density of every row, where rare clusters count less."""
        return np.asarray(self._by_chunk(self._anomaly, X, run))

    def predict(self, X: Rows, *, run: Run = _serial) -> Prediction:
        """Return label, probability, novelty and log density of every row."""
        return Prediction(*self._by_chunk(self._predict, X, run))

    def log_joint(self, X: Rows) -> Array:  # (N, K + 1)
        """Log of weight times predictive density of every row under every cluster.

        The last column is a cluster not seen yet. Weights sum to one.
        """
        params = self.params
        known = cluster_scores(self.family, params, X)
        new = self.family.log_predictive(params.prior, X) + self.log_alpha
        scores = np.concatenate([known, new], axis=1)
        scores -= self.log_total
        return scores

    def _by_chunk(self, function: Callable[[Rows], Any], X: Rows, run: Run) -> Any:
        if X.shape[0] <= _CHUNK:
            return run(function, [X])[0]
        chunks = [X[start : start + _CHUNK] for start in range(0, X.shape[0], _CHUNK)]
        found = run(function, chunks)
        if isinstance(found[0], tuple):
            return tuple(map(np.concatenate, zip(*found, strict=True)))
        return np.concatenate(found)

    def _labels(self, X: Rows) -> Labels:
        if self._reader is not None:
            try:
                label: Labels = self._reader.labels(X)
                return label.view(np.int64)  # the same type, by the name that numpy does not print
            except self.family.kernels.refused:
                pass
        return self._ids[self._best(self.log_joint(X))]

    def _probabilities(self, X: Rows) -> Array:
        odds, _ = _odds(self.log_joint(X))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def _log_density(self, X: Rows) -> Array:
        odds, highest = _odds(self.log_joint(X))
        return np.asarray(highest + np.log(odds.sum(axis=1)) + self.family.log_base(X))

    def _known(self, X: Rows) -> tuple[Labels, Array]:
        scores = self.log_joint(X)
        odds, highest = _odds(scores)
        density = highest + np.log(odds.sum(axis=1)) + self.family.log_base(X)
        return self.ids[scores[:, :-1].argmax(axis=1)], density

    def _anomaly(self, X: Rows) -> Array:
        params = self.params
        log_share = params.log_weight - self.log_total
        density = params.log_density(self.family, params.clusters, X)
        rarity = (1.0 + 0.5 * self.family.n_features) * log_share
        odds, highest = _odds(density + rarity)
        return -np.asarray(highest + np.log(odds.sum(axis=1)) + self.family.log_base(X))

    def _predict(self, X: Rows) -> tuple[Labels, Array, Array, Array]:
        scores = self.log_joint(X)
        best = self._best(scores)
        odds, highest = _odds(scores)
        total = odds.sum(axis=1)
        # If a new cluster may be the best, the best score is the highest, whose odds are one.
        chosen = 1.0 if self.births else odds[np.arange(len(best)), best]
        density = highest + np.log(total) + self.family.log_base(X)
        return self._ids[best], chosen / total, odds[:, -1] / total, density

    def _best(self, scores: Array) -> Labels:  # (N,) columns
        return np.asarray((scores if self.births else scores[:, :-1]).argmax(axis=1))

    @cached_property
    def _ids(self) -> Labels:  # (K + 1,)
        return np.append(self.ids, NOVEL)

    @cached_property
    def _reader(self) -> Any:
        """The mixture in compiled code; None if the family has none, or candidates are compared."""
        if self.params.n_candidates:
            return None
        params, log_new = self.params, self.log_alpha if self.births else None
        return self.family.kernels.reader(
            self.family,
            params.clusters,
            params.log_weight,
            params.prior,
            log_new,
            params.predictive,
            self.ids,
        )


@dataclass(frozen=True)
class GroupPredictor(Predictor):
    """The mixture at one time with its clusters joined into groups; `ids` are those of groups."""

    group: Labels  # (K,) position in `ids` of the group of each cluster
    _reader = None

    def log_joint(self, X: Rows) -> Array:  # (N, G + 1)
        """Log of the sum of weight times density over the clusters of each group."""
        scores = super().log_joint(X)
        group = np.append(self.group, len(self.ids))
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], np.arange(len(self.ids) + 1))
        return np.asarray(np.logaddexp.reduceat(scores[:, order], starts, axis=1))


def mean_predictor(
    family: Family, config: Config, state: State, time: float | None, *, births: bool
) -> Predictor:
    """Return the mixture with mean weights at a time; clusters do not move."""
    state = due(family, config, state, time, motion=False)
    params = mean_params(family, config, state, state, births=births, subclusters=False)
    return Predictor.of(family, config, state, params, births=births)


def _odds(scores: Array) -> tuple[Array, Array]:  # (N, K + 1), (N,)
    """Exponentials of scores, the highest of each row scaled to one, and the highest score."""
    highest = scores.max(axis=1)
    scores -= highest[:, None]
    return np.exp(scores, out=scores), highest
