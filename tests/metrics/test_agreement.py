"""The scores are those of scikit-learn, to rounding, on any labels."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics as reference
from sklearn.metrics.cluster import contingency_matrix, pair_confusion_matrix

from scstream.errors import InputError
from scstream.metrics import (
    FullStreamScore,
    adjusted_rand,
    normalized_mutual_info,
    pairwise_f,
    purity,
)
from scstream.metrics.agreement import Table

Score = Callable[[object, object], float]
Labels = np.ndarray


@st.composite
def labellings(draw: st.DrawFn, min_size: int = 1) -> tuple[Labels, Labels]:
    n = draw(st.integers(min_size, 60))
    most = draw(st.integers(0, 12))
    labels = arrays(np.int64, n, elements=st.integers(-1, most))
    return draw(labels), draw(labels)


def reference_purity(y: Labels, z: Labels) -> float:
    table = contingency_matrix(y, z)
    return float(table.max(axis=0).sum() / table.sum())


def reference_pairwise_f(y: Labels, z: Labels) -> float:
    (_, fp), (fn, tp) = pair_confusion_matrix(y, z)
    return float(2 * tp / (2 * tp + fp + fn)) if tp + fp + fn else 1.0


PAIRS = [
    (adjusted_rand, reference.adjusted_rand_score),
    (normalized_mutual_info, reference.normalized_mutual_info_score),
    (purity, reference_purity),
    (pairwise_f, reference_pairwise_f),
]
SCORES = [score for score, _ in PAIRS]


@pytest.mark.parametrize(("score", "expected"), PAIRS)
@given(labels=labellings())
def test_equals_scikit_learn(score: Score, expected: Score, labels: tuple[Labels, Labels]) -> None:
    assert score(*labels) == pytest.approx(expected(*labels), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("score", SCORES)
@given(labels=labellings(), seed=st.integers(0, 99))
def test_names_and_order_do_not_matter(
    score: Score, labels: tuple[Labels, Labels], seed: int
) -> None:
    y, z = labels
    rng = np.random.default_rng(seed)
    shuffle = rng.permutation(len(y))
    names = rng.permutation(np.array([f"cluster {i}" for i in range(14)]))
    assert score(y[shuffle], names[z[shuffle] + 1]) == pytest.approx(score(y, z), abs=1e-12)


@pytest.mark.parametrize("score", SCORES)
@given(labels=labellings())
def test_a_labelling_agrees_with_itself(score: Score, labels: tuple[Labels, Labels]) -> None:
    assert score(labels[0], labels[0]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("score", SCORES)
def test_no_rows_agree_perfectly(score: Score) -> None:
    assert score([], []) == 1.0


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("bad", [([0, 1], [0]), ([[0, 1]], [[0, 1]]), (0, 0)])
def test_labels_that_do_not_match_are_refused(score: Score, bad: tuple[object, object]) -> None:
    with pytest.raises(InputError, match="equal length"):
        score(*bad)


@given(batches=st.lists(labellings(), min_size=1, max_size=5))
def test_full_stream_equals_one_great_batch(batches: list[tuple[Labels, Labels]]) -> None:
    score = FullStreamScore()
    for y, z in batches:
        score.update(y, z)
    y, z = (np.concatenate(side) for side in zip(*batches, strict=True))
    assert score.nmi() == pytest.approx(normalized_mutual_info(y, z), abs=1e-12)
    assert score.ari() == pytest.approx(adjusted_rand(y, z), abs=1e-12)


def test_memory_of_the_full_stream_is_bounded_by_the_ids() -> None:
    score = FullStreamScore()
    rng = np.random.default_rng(0)
    for _ in range(50):
        score.update(rng.integers(0, 4, 300), rng.integers(0, 5, 300))
    assert len(score.counts) == 20
    assert sum(score.counts.values()) == 15_000


def test_counts_beyond_the_square_root_of_64_bits_stay_exact() -> None:
    short = Table(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([3, 1, 4]))
    long = Table(short.true, short.predicted, short.cells * 10**15)
    n, times = 8, 10**15
    pairs = long.pairs()
    assert sum(pairs) == (n * times) ** 2 - n * times
    assert pairs.only_true == short.pairs().only_true * times**2
    # Proportions are the same and the correction for chance is negligible by now.
    together, in_truth, in_prediction = 26 / 64, 32 / 64, 34 / 64
    expected = in_truth * in_prediction
    limit = (together - expected) / ((in_truth + in_prediction) / 2 - expected)
    assert long.adjusted_rand() == pytest.approx(limit, rel=1e-12)
    assert long.normalized_mutual_info() == pytest.approx(short.normalized_mutual_info())
