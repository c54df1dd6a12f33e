"""All that a mixture says at once is what it says one question after the other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from scstream.compute.choose import thread_executor
from scstream.core.predictor import Predictor
from scstream.model import Settings


@pytest.fixture(scope="module", params=[True, False], ids=["births", "no births"])
def predictor(request: pytest.FixtureRequest) -> Predictor:
    rng = np.random.default_rng(0)
    rows = 6.0 * rng.integers(3, size=(400, 1)) + rng.normal(size=(400, 2))
    return Settings(random_state=0, births=request.param).update(rows).model.at()


@pytest.mark.parametrize("n_rows", [0, 1, 5_000])
def test_one_prediction_equals_the_separate_calls(predictor: Predictor, n_rows: int) -> None:
    X = np.random.default_rng(1).normal(scale=20.0, size=(n_rows, 2))
    run = thread_executor(2).map
    found = predictor.predict(X, run=run)
    probabilities = predictor.probabilities(X, run=run)
    np.testing.assert_array_equal(found.label, predictor.labels(X, run=run))
    np.testing.assert_array_equal(found.log_density, predictor.log_density(X, run=run))
    np.testing.assert_array_equal(found.novelty, probabilities[:, -1])
    ids = np.append(predictor.ids, -1)
    chosen = [int(np.flatnonzero(ids == label)[0]) for label in found.label]
    np.testing.assert_array_equal(found.probability, probabilities[np.arange(n_rows), chosen])


def test_sums_of_odds_equal_logsumexp(predictor: Predictor) -> None:
    X = np.random.default_rng(2).normal(scale=300.0, size=(200, 2))
    scores = predictor.log_joint(X)
    expected = logsumexp(scores, axis=1)
    np.testing.assert_allclose(predictor.predict(X).log_density, expected, rtol=1e-13)
    np.testing.assert_allclose(
        predictor.probabilities(X), np.exp(scores - expected[:, None]), atol=1e-14
    )
