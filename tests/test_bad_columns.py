"""Columns and settings that used to stop a stream, or to spoil it silently."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from scstream import ScStream
from scstream.errors import DataWarning, InputError
from tests.test_small_batches import clouds

X, WHICH = clouds(3000, seed=1)


def run(rows: Any, size: int = 500, **parameters: Any) -> tuple[ScStream, float]:
    """Learn rows in batches; return the model and the agreement of the second half."""
    model = ScStream(random_state=0, **parameters)
    labels = [model.partial_fit(rows[i : i + size]).labels_ for i in range(0, len(rows), size)]
    half = len(rows) // 2
    return model, adjusted_rand_score(WHICH[half:], np.concatenate(labels)[half:])


@pytest.mark.parametrize("family", ["gaussian", "diagonal"])
def test_a_column_that_hardly_varied_at_first_is_learned(family: str) -> None:
    rows = X.copy()
    rows[:500, 0] = 1e-9 * np.random.default_rng(0).normal(size=500)
    with pytest.warns(DataWarning, match="wider"):
        _, agreement = run(rows, family=family)
    assert agreement > 0.9


def test_an_offset_is_learned_and_warned_about() -> None:
    with pytest.warns(DataWarning, match="subtract a constant"):
        _, agreement = run(X + 1e10)
    assert agreement > 0.95


def test_columns_of_very_different_scales_are_learned() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, agreement = run(X * [1e-9, 1e9])
    assert agreement > 0.95


def test_a_row_that_is_far_out_is_left_out() -> None:
    rows = X.copy()
    rows[1203] = 1e14
    with pytest.warns(DataWarning, match="1 rows lie more than ten million"):
        model, agreement = run(rows)
    assert agreement > 0.95
    plain, _ = run(X)
    assert model.state_.total_weight == pytest.approx(plain.state_.total_weight, abs=1.0)
    with pytest.warns(DataWarning):
        labels = ScStream(random_state=0).fit(X).partial_fit(rows[1200:1300]).labels_
    assert labels[3] == -1
    assert model.predict(rows[1200:1300])[3] == -1


def test_a_stray_row_does_not_spoil_a_young_model() -> None:
    rows = X[:400].copy()
    rows[60] = 1e14
    model = ScStream(random_state=0)
    with pytest.warns(DataWarning, match="1 rows lie"):
        labels = [model.partial_fit(row[None]).labels_[0] for row in rows]
    assert labels[60] == -1
    assert adjusted_rand_score(WHICH[200:400], labels[200:]) > 0.9


def test_other_errors_stay_errors() -> None:
    model = ScStream("gaussian", random_state=0).fit(X)
    with pytest.raises(InputError, match="1 features"):
        model.partial_fit(X[:, :1])
    with pytest.raises(InputError, match="NaN"):
        model.partial_fit(np.full((3, 2), np.nan))


def messages(*calls: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in calls:
            call()
    return [str(each.message) for each in caught if each.category is DataWarning]


def test_a_model_that_remembers_too_little_says_so_once() -> None:
    model = ScStream(half_life=2.0, random_state=0)
    rows = [lambda t=t: model.partial_fit(X[t : t + 1], time=t) for t in range(60)]
    given = messages(*rows)
    assert len(given) == 1
    assert "raise half_life" in given[0]


def test_sorted_rows_are_noticed() -> None:
    rng = np.random.default_rng(0)
    steps = [10.0 * i + rng.normal(size=(200, 2)) for i in range(12)]
    model = ScStream(half_life=0.2, random_state=0)
    given = messages(*[lambda rows=rows: model.partial_fit(rows) for rows in steps])
    assert len(given) == 1
    assert "shuffle" in given[0]
    assert messages(lambda: run(X)) == []
    single = ScStream(random_state=0)
    assert messages(*[lambda t=t: single.partial_fit(X[t : t + 1]) for t in range(200)]) == []


def test_a_full_covariance_of_many_columns_is_warned_about() -> None:
    rows = np.random.default_rng(0).normal(size=(120, 70))
    model = ScStream("gaussian", prior="weak", random_state=0)
    assert "family='auto'" in messages(lambda: model.fit(rows))[0]
