"""Families on trial: who reports, when the trial ends, and what becomes of ids."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scstream import ScStream
from scstream.core.trial import MAX_ROWS, Lead
from scstream.model import Model, Settings

K, D = 6, 12


def correlated(seed: int, n: int) -> tuple[Any, Any]:
    """Clusters whose columns are strongly correlated: independent columns describe them badly."""
    rng = np.random.default_rng(seed)
    turn = np.random.default_rng(0).normal(size=(D, D)) / 2
    centre = np.random.default_rng(1).normal(size=(K, D)) * 8
    y = rng.integers(K, size=n)
    return centre[y] + rng.normal(size=(n, D)) @ turn, y


def independent(seed: int, n: int) -> tuple[Any, Any]:
    """Clusters in three columns among 27 of noise: a full covariance spends too much on it."""
    rng = np.random.default_rng(seed)
    centre = np.zeros((K, 30))
    centre[:, :3] = np.random.default_rng(1).normal(size=(K, 3)) * 15
    y = rng.integers(K, size=n)
    return centre[y] + rng.normal(size=(n, 30)), y


def streamed(rows: Any, *, size: int, **parameters: Any) -> list[ScStream]:
    """The model after every batch."""
    model, found = ScStream(random_state=0, **parameters), []
    for start in range(0, len(rows), size):
        model.partial_fit(rows[start : start + size])
        found.append(ScStream(**model.get_params()))
        found[-1].model_, found[-1].labels_ = model.model_, model.labels_
    return found


def test_where_the_full_covariance_wins_the_result_is_that_of_gaussian() -> None:
    rows, _ = correlated(0, 6000)
    auto, named = (streamed(rows, size=1000, family=each) for each in ("auto", "gaussian"))
    for left, right in zip(auto, named, strict=True):
        assert left.family_.name == "gaussian"
        assert np.array_equal(left.labels_, right.labels_)
        assert np.array_equal(left.state_.past, right.state_.past)
        assert np.array_equal(left.state_.current, right.state_.current)


def test_independent_columns_win_where_most_columns_are_noise() -> None:
    rows, _ = independent(0, 4800)
    auto, named = (streamed(rows, size=600, family=each)[-1] for each in ("auto", "diagonal"))
    assert auto.family_.name == "diagonal"
    assert auto.n_clusters_ == named.n_clusters_
    assert "diagonal describes rows better than gaussian" in auto.choice_


def test_the_trial_ends() -> None:
    rows, _ = correlated(0, MAX_ROWS + 1000)
    models = streamed(rows, size=3000)
    rivals = [len(model.model_.choice.rivals) for model in models]
    assert rivals[0] == 1
    assert rivals[-1] == 0
    assert "gaussian describes rows better than diagonal" in models[-1].choice_


def test_a_large_first_batch_decides_at_once() -> None:
    rows, _ = correlated(0, MAX_ROWS + 1)
    model = ScStream(random_state=0).fit(rows)
    assert model.model_.choice.rivals == ()
    assert np.array_equal(model.labels_, ScStream("gaussian", random_state=0).fit(rows).labels_)


def test_a_wrong_start_is_corrected_and_clusters_keep_their_ids() -> None:
    rows, _ = correlated(0, 8000)
    model = Settings(random_state=0).update(rows[:1000]).model
    assert model.choice is not None
    rival = model.choice.rivals[0]
    # As if the first batch had spoken for independent columns.
    model = replace(
        model,
        family=rival.family,
        state=rival.state,
        choice=replace(
            model.choice,
            name="diagonal",
            rank=1,
            rivals=(
                replace(rival, name="gaussian", family=model.family, state=model.state, rank=0),
            ),
        ),
    )
    before: Model = model
    for start in range(1000, 8000, 1000):
        before, (model, labels, info) = model, model.update(rows[start : start + 1000])
        if model.family.name == "gaussian":
            break
    assert model.family.name == "gaussian"
    told = before.at().labels(rows[:1000])
    kept = model.at().labels(rows[:1000])
    assert np.isin(model.state.ids, before.state.ids).mean() >= 0.8
    survived = np.isin(told, model.state.ids)
    assert survived.any()
    assert (told == kept)[survived].mean() > 0.9
    assert {event.kind for event in info.events} <= {"born", "died", "split", "merged"}
    assert set(labels) <= {-1, *model.state.ids.tolist()}
    assert (np.diff(model.state.ids) > 0).all()


def test_a_model_on_trial_continues_from_its_file() -> None:
    rows, _ = correlated(0, 4000)
    model = Settings(random_state=0).update(rows[:1000]).model
    assert model.choice is not None and model.choice.rivals
    again = Model.from_bytes(model.to_bytes())
    for start in range(1000, 4000, 1000):
        model = model.update(rows[start : start + 1000]).model
        again = again.update(rows[start : start + 1000]).model
    assert model.to_bytes() == again.to_bytes()
    assert model.why == again.why


def test_many_small_clusters_of_a_wrong_shape_do_not_win() -> None:
    """A near tie of densities: independent columns need many more clusters."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2)) @ np.array([[3.0, 2.9], [0.0, 0.3]])
    model = streamed(X, size=1000)[-1]
    assert model.family_.name == "gaussian"
    assert model.n_clusters_ == 1


def test_one_batch_is_not_enough_for_an_error() -> None:
    once = Lead().after(100, 2.0)
    assert once.mean == 2.0
    assert once.error == np.inf
    twice = once.after(100, 2.0)
    assert twice.error == pytest.approx(0.0, abs=1e-6)
    assert twice.reversed().mean == pytest.approx(-2.0)


def test_batches_without_a_prediction_do_not_count() -> None:
    lead = Lead().after(100, 1.0)
    assert lead.after(0, 1.0) == lead
    assert lead.after(100, float("nan")) == lead


def test_other_algorithms_have_no_trial() -> None:
    rows, _ = correlated(0, 600)
    assert Settings(algorithm="paper", random_state=0).update(rows).model.choice.rivals == ()  # type: ignore[union-attr]
