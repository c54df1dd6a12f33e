"""All that a mixture says at once is what it says one question after the other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from scstream.core.query import Mixture
from scstream.learner import Learner, thread_executor


@pytest.fixture(scope="module", params=[True, False], ids=["births", "no births"])
def mixture(request: pytest.FixtureRequest) -> Mixture:
    rng = np.random.default_rng(0)
    rows = 6.0 * rng.integers(3, size=(400, 1)) + rng.normal(size=(400, 2))
    learner, _ = Learner({"random_state": 0, "switches": {"births": request.param}}).learn(rows)
    snapshot = learner.snapshot
    assert snapshot is not None
    return Mixture.expected(snapshot.family, snapshot.config, snapshot.state, None)


@pytest.mark.parametrize("n_rows", [0, 1, 5_000])
def test_one_prediction_equals_the_separate_calls(mixture: Mixture, n_rows: int) -> None:
    X = np.random.default_rng(1).normal(scale=20.0, size=(n_rows, 2))
    run = thread_executor(2).map
    verdict = mixture.ask(Mixture.verdict, X, run=run)
    probabilities = mixture.ask(Mixture.probabilities, X, run=run)
    np.testing.assert_array_equal(verdict.label, mixture.ask(Mixture.labels, X, run=run))
    np.testing.assert_array_equal(verdict.log_density, mixture.ask(Mixture.log_density, X, run=run))
    np.testing.assert_array_equal(verdict.novelty, probabilities[:, -1])
    named = np.append(mixture.ids, -1)
    chosen = [int(np.flatnonzero(named == label)[0]) for label in verdict.label]
    np.testing.assert_array_equal(verdict.probability, probabilities[np.arange(n_rows), chosen])


def test_sums_of_odds_equal_logsumexp(mixture: Mixture) -> None:
    X = np.random.default_rng(2).normal(scale=300.0, size=(200, 2))
    scores = mixture.log_joint(X)
    expected = logsumexp(scores, axis=1)
    np.testing.assert_allclose(mixture.verdict(X).log_density, expected, rtol=1e-13)
    np.testing.assert_allclose(
        mixture.probabilities(X), np.exp(scores - expected[:, None]), atol=1e-14
    )
