"""Questions to a state that change nothing: which cluster, how probable, how dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from scstream.core.assign import AssignmentParams
from scstream.core.forgetting import advance
from scstream.core.state import NOVEL, Config, State
from scstream.core.sweep import predictive_plan
from scstream.families.base import Array, Family, Labels, Rows

Run = Callable[[Callable[[Rows], Any], Sequence[Rows]], list[Any]]  # `map`, on threads or not
_CHUNK = 4096  # rows that are asked about at once, so that memory does not grow with the question


def expected_at(family: Family, config: Config, state: State, time: float | None) -> State:
    """Return the state as it will be at `time`; by default when the next batch is due."""
    if state.is_new:
        return state
    due = state.time + state.batch_interval if time is None else max(time, state.time)
    return advance(family, config, state, due)


class Verdict(NamedTuple):
    """All that a mixture says about rows."""

    label: Labels  # (N,) id of the most probable cluster, NOVEL where a new one is more so
    probability: Array  # (N,) of that
    novelty: Array  # (N,) probability of a cluster not seen yet
    log_density: Array  # (N,) under the whole mixture


@dataclass(frozen=True)
class Mixture:
    """The mixture that a state expects at some time, ready to be asked about rows."""

    family: Family
    config: Config
    ids: Labels  # (K,)
    plan: AssignmentParams
    log_total: float

    @classmethod
    def expected(cls, family: Family, config: Config, state: State, time: float | None) -> Self:
        """Return the mixture at `time`; by default when the next batch is due."""
        state = expected_at(family, config, state, time)
        plan = predictive_plan(family, config, state, subclusters=False)
        log_total = float(np.log(state.weight.sum() + config.alpha))
        return cls(family, config, state.ids, plan, log_total)

    def ask(self, question: Callable[[Self, Rows], Any], X: Rows, *, run: Run) -> Any:  # (N, ...)
        """Put one of the questions below, chunk by chunk of the rows."""
        if X.shape[0] <= _CHUNK:
            return run(lambda chunk: question(self, chunk), [X])[0]
        starts = range(0, X.shape[0], _CHUNK)
        chunks = [X[start : start + _CHUNK] for start in starts]
        answers = run(lambda chunk: question(self, chunk), chunks)
        if isinstance(answers[0], Verdict):
            return Verdict(*map(np.concatenate, zip(*answers, strict=True)))
        return np.concatenate(answers)

    def log_joint(self, X: Rows) -> Array:  # (N, K + 1)
        """Log of weight times predictive density of every row under every cluster.

        The last column is a cluster not seen yet. Weights sum to one.
        """
        plan = self.plan
        known = plan.log_density(self.family, plan.clusters, X) + plan.log_weight
        new = self.family.log_predictive(plan.prior, X) + np.log(self.config.alpha)
        scores = np.concatenate([known, new], axis=1)
        scores -= self.log_total
        return scores

    def labels(self, X: Rows) -> Labels:  # (N,)
        """Id of the most probable cluster of every row, NOVEL where a new one is more so."""
        return self._names(self._best(self.log_joint(X)))

    def probabilities(self, X: Rows) -> Array:  # (N, K + 1)
        """Posterior probability of every cluster, and of one not seen yet."""
        odds, _ = _odds(self.log_joint(X))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def log_density(self, X: Rows) -> Array:  # (N,)
        """Log predictive density of every row under the whole mixture."""
        odds, highest = _odds(self.log_joint(X))
        return np.asarray(highest + np.log(odds.sum(axis=1)) + self.family.log_base(X))

    def verdict(self, X: Rows) -> Verdict:
        """Answer all of the above at once, of probabilities the one that counts."""
        scores = self.log_joint(X)
        best = self._best(scores)
        odds, highest = _odds(scores)
        total = odds.sum(axis=1)
        # Where a new cluster may be the best, the best is the highest, whose odds are one.
        chosen = 1.0 if self.config.births else odds[np.arange(len(best)), best]
        return Verdict(
            label=self._names(best),
            probability=chosen / total,
            novelty=odds[:, -1] / total,
            log_density=highest + np.log(total) + self.family.log_base(X),
        )

    def _best(self, scores: Array) -> Labels:  # (N,) columns
        return np.asarray((scores if self.config.births else scores[:, :-1]).argmax(axis=1))

    def _names(self, columns: Labels) -> Labels:
        return self._ids_and_novel[columns]

    @cached_property
    def _ids_and_novel(self) -> Labels:  # (K + 1,)
        return np.append(self.ids, NOVEL)


def _odds(scores: Array) -> tuple[Array, Array]:  # (N, K + 1), (N,)
    """Exponentials in place of scores, the highest of each row scaled to one, and its logarithm."""
    highest = scores.max(axis=1)
    scores -= highest[:, None]
    return np.exp(scores, out=scores), highest
