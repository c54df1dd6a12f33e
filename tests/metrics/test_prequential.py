"""The loop predicts before it learns, and keeps honest books."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans

from scstream.datasets import LabelledBatch, Stream, drifting_gaussians, stationary_gaussians
from scstream.errors import InputError
from scstream.metrics import FullStreamScore, PrequentialStep, adjusted_rand, prequential


class Recorder:
    """Predicts by the sign of the first feature and writes down what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []
        self.n_clusters_ = 0

    def predict(self, X: np.ndarray) -> np.ndarray:
        self.calls.append(("predict", float(X[0, 0])))
        return np.where(X[:, 0] > 0, 3, -1)

    def partial_fit(self, X: np.ndarray, *, time: float | None = None) -> "Recorder":
        assert time is not None
        self.calls.append(("learn", time))
        self.n_clusters_ += 1
        return self


@dataclass(frozen=True)
class Bare:
    X: np.ndarray
    y: np.ndarray
    time: float


@pytest.fixture
def stream() -> Stream:
    return drifting_gaussians(4, n_batches=5, batch_size=200, random_state=2)


def test_the_first_batch_is_learned_unseen_and_each_other_predicted_first(stream: Stream) -> None:
    model = Recorder()
    result = prequential(model, stream)
    first = [float(batch.X[0, 0]) for batch in stream]
    rest = [[("predict", first[b]), ("learn", float(b))] for b in range(1, 5)]
    assert model.calls == [("learn", 0.0), *(call for pair in rest for call in pair)]
    assert result.time.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert result.k.tolist() == [2.0, 3.0, 4.0, 5.0]
    assert result.n_rows == 800


def test_columns_are_the_scores_of_the_predictions(stream: Stream) -> None:
    result = prequential(Recorder(), stream)
    full = FullStreamScore()
    for b, batch in enumerate(list(stream)[1:]):
        predicted = Recorder().predict(batch.X)
        full.update(batch.y, predicted)
        assert result.ari[b] == adjusted_rand(batch.y, predicted)
        assert result.oracle_ari[b] == adjusted_rand(batch.y, batch.oracle())
        assert result.k_true[b] == len(set(batch.y.tolist()))
    assert result.full_nmi == full.nmi()
    for column in (result.nmi, result.purity, result.f, result.oracle_nmi, result.seconds):
        assert column.shape == (4,)
        assert (column >= 0).all()


def test_summary_is_of_means(stream: Stream) -> None:
    result = prequential(Recorder(), stream)
    summary = result.summary()
    assert summary["ari"] == result.ari.mean()
    assert summary["fraction_of_oracle"] == result.ari.mean() / result.oracle_ari.mean()
    assert summary["full_nmi"] == result.full_nmi
    assert summary["rows_per_second"] == pytest.approx(800 / result.seconds.sum())


def test_a_model_that_knows_the_truth_has_all_of_the_oracle(stream: Stream) -> None:
    batches = iter(stream.take(5))
    next(batches)

    class Knowing:
        def predict(self, X: np.ndarray) -> np.ndarray:
            return next(batches).oracle()

        def partial_fit(self, X: np.ndarray) -> None:
            pass

    result = prequential(Knowing(), stream)
    assert result.summary()["fraction_of_oracle"] == 1.0
    assert result.full_nmi == result.oracle_full_nmi
    assert np.isnan(result.k).all()


def test_real_mini_batch_k_means() -> None:
    stream = stationary_gaussians(4, n_batches=8, separation=30, random_state=5)
    seen: list[PrequentialStep] = []
    model = MiniBatchKMeans(4, n_init=10, random_state=0)
    summary = prequential(model, stream, callback=seen.append).summary()
    assert summary["fraction_of_oracle"] > 0.95
    assert summary["full_nmi"] > 0.95
    assert [step.number for step in seen] == list(range(8))
    assert seen[0].predicted is None
    assert all(isinstance(step.batch, LabelledBatch) and step.model is model for step in seen)


def test_metrics_of_ones_own(stream: Stream) -> None:
    def exact(y: Any, z: Any) -> float:
        return float(np.mean(np.asarray(y) == z))

    result = prequential(Recorder(), stream, metrics={"exact": exact})
    assert set(result.scores) == set(result.oracle) == {"exact"}
    summary = result.summary()
    assert summary["oracle_exact"] > summary["exact"]
    assert "fraction_of_oracle" not in summary


def test_batches_without_an_oracle(stream: Stream) -> None:
    bare = [Bare(batch.X, batch.y, batch.time) for batch in stream]
    result = prequential(Recorder(), bare, oracle=False)
    assert result.oracle == {}
    assert math.isnan(result.oracle_full_nmi)
    assert "fraction_of_oracle" not in result.summary()
    with pytest.raises(InputError, match="oracle=False"):
        prequential(Recorder(), bare)


@pytest.mark.parametrize("n_batches", [0, 1])
def test_a_stream_too_short_to_score(stream: Stream, n_batches: int) -> None:
    result = prequential(Recorder(), stream.take(n_batches))
    assert result.time.shape == result.ari.shape == (0,)
    assert all(math.isnan(value) for value in result.summary().values())
