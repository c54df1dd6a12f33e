"""`fit` learns a whole table: several starts of a small one, two halves of a large one."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs
from sklearn.metrics import adjusted_rand_score

from scstream import ScStream
from scstream.first_batch import log_posterior
from scstream.model import Settings


@pytest.mark.parametrize("seed", range(3))
def test_of_a_small_table_the_most_probable_start_is_kept(seed: int) -> None:
    X, y = load_iris(return_X_y=True)
    starts = [Settings(random_state=seed + i).update(X) for i in range(5)]
    posterior = [log_posterior(start, X, None) for start in starts]
    model = ScStream(random_state=seed).fit(X)
    best = starts[int(np.argmax(posterior))]
    assert np.array_equal(model.labels_, best.labels)
    assert model.config_.seed == seed
    assert adjusted_rand_score(y, model.labels_) > 0.85  # of single starts some give two clusters


def test_a_large_table_shows_clusters_that_overlap() -> None:
    X, y = make_blobs(3000, centers=3, random_state=0)
    model = ScStream(random_state=0).fit(X)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(y, model.labels_) > 0.7
    assert np.array_equal(model.labels_, model.predict(X))
    assert model.state_.total_weight == pytest.approx(3000)
    assert {event.time for event in model.events_} == {0.0}


def test_weights_of_a_novel_row_count_in_the_posterior() -> None:
    X = np.concatenate([np.random.default_rng(0).normal(size=(60, 2)), [[500.0, 500.0]]])
    update = Settings(random_state=0, min_batch=1).update(X)
    assert update.labels[-1] == -1
    near = Settings(random_state=0, min_batch=1).update(X[:-1])
    assert log_posterior(update, X, None) < log_posterior(near, X[:-1], None)
