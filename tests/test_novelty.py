"""Calibrated novelty, and anomaly scores that know rarity."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from scstream import ScStream
from scstream.errors import InputError


def skewed(n: int, seed: int) -> np.ndarray:
    """Clusters that are not of the shape of the family."""
    rng = np.random.default_rng(seed)
    return 12.0 * rng.integers(3, size=(n, 1)) + rng.standard_t(4, size=(n, 4))


@pytest.fixture(scope="module")
def model() -> ScStream:
    model = ScStream(random_state=0)
    for seed in range(12):
        model.partial_fit(skewed(1000, seed))
    return model


@pytest.mark.parametrize("rate", [0.005, 0.02, 0.1, 0.3])
def test_the_share_of_novel_rows_is_what_was_asked_for(model: ScStream, rate: float) -> None:
    rows = np.concatenate([skewed(1000, seed) for seed in range(100, 110)])
    assert (model.predict(rows, novelty=rate) == -1).mean() == pytest.approx(rate, rel=0.25)
    new = rows[:200] + np.array([0.0, 30.0, 0.0, 30.0])
    assert (model.predict(new, novelty=rate) == -1).mean() > 0.95


def test_other_rows_have_the_label_of_their_cluster(model: ScStream, tmp_path: Path) -> None:
    rows = skewed(500, 7)
    plain, strict = model.predict(rows), model.predict(rows, novelty=0.05)
    both = (plain >= 0) & (strict >= 0)
    assert both.mean() > 0.85
    assert np.array_equal(plain[both], strict[both])
    model.save(tmp_path / "model")
    assert np.array_equal(ScStream.load(tmp_path / "model").predict(rows, novelty=0.05), strict)
    groups = model.predict(rows, novelty=0.05, level="group")
    assert np.array_equal(groups == -1, strict == -1)


def test_impossible_rates_get_a_sentence(model: ScStream) -> None:
    for rate in (0.0, 0.9, float("nan")):
        with pytest.raises(InputError, match="novelty must be between"):
            model.predict(skewed(5, 0), novelty=rate)
    with pytest.raises(InputError, match="novelty needs more rows"):
        ScStream(random_state=0).fit(skewed(5, 0)).predict(skewed(5, 0), novelty=0.05)


def test_anomalies_that_come_back_stay_anomalies() -> None:
    rng = np.random.default_rng(0)
    model = ScStream(random_state=0)
    for _ in range(10):
        rows, odd = rng.normal(size=(1000, 3)), rng.random(1000) < 0.02
        rows[odd] = 6.0 + 0.05 * rng.normal(size=(odd.sum(), 3))  # small and dense
        model.partial_fit(rows)
    assert model.n_clusters_ >= 2
    assert roc_auc_score(odd, -model.score_samples(rows)) < 0.1
    assert roc_auc_score(odd, model.anomaly_score(rows)) > 0.95
