"""The adapter for river, against river itself."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scstream
from scstream import ScStream
from scstream.errors import InputError

river = pytest.importorskip("river")

from river import checks, compose, evaluate, metrics, preprocessing, stream  # noqa: E402
from river.checks import common  # noqa: E402

from scstream.river import ScStreamClusterer  # noqa: E402

CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])


def rows(n_rows: int = 300, *, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    return CENTRES[y] + rng.normal(size=(n_rows, 2)), y


def dicts(n_rows: int = 300, *, seed: int = 0) -> Iterator[tuple[dict[str, float], int]]:
    for row, label in zip(*rows(n_rows, seed=seed), strict=True):
        yield {"a": float(row[0]), "b": float(row[1])}, int(label)


def test_equals_the_model_on_batches_of_the_buffer() -> None:
    X, _ = rows()
    adapter, model = ScStreamClusterer(buffer_size=100, seed=0), ScStream(random_state=0)
    for x, _label in dicts():
        adapter.learn_one(x)
    for start in range(0, 300, 100):
        model.partial_fit(X[start : start + 100])
    assert np.array_equal(adapter.model.state_.past, model.state_.past)
    assert [adapter.predict_one(x) for x, _ in dicts(50)] == model.predict(X[:50]).tolist()
    assert adapter.model.n_clusters_ == 3


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_many_equals_one_by_one(library: str) -> None:
    frames = pytest.importorskip(library)
    one, many = (ScStreamClusterer(buffer_size=64, seed=0) for _ in range(2))
    for x, _label in dicts():
        one.learn_one(x)
    table = frames.DataFrame([x for x, _ in dicts()])
    for start in (0, 10, 200):
        stop = {0: 10, 10: 200, 200: 300}[start]
        many.learn_many(table[["b", "a"]][start:stop] if start else table[start:stop])
    assert np.array_equal(one.model.state_.past, many.model.state_.past)
    labels = many.predict_many(table)
    assert type(labels).__module__.startswith(library)
    assert labels.to_list() == [one.predict_one(x) for x, _ in dicts()]


def test_nothing_learned_yet_is_novel() -> None:
    pd = pytest.importorskip("pandas")
    model = ScStreamClusterer(seed=0)
    assert model.predict_one({"a": 1.0}) == -1
    assert model.predict_many(pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 6])).to_dict() == {
        5: -1,
        6: -1,
    }
    model.learn_one({"a": 1.0})
    assert model.predict_one({"a": 1.0}) == -1
    assert model.centers == {}


def test_flush_learns_what_waits() -> None:
    model = ScStreamClusterer(buffer_size=1000, seed=0)
    for x, _label in dicts(120):
        model.learn_one(x)
    assert not hasattr(model.model, "state_")
    model.flush()
    model.flush()
    assert model.model.state_.n_batches == 1
    assert model.model.n_clusters_ == 3


def test_order_of_keys_does_not_matter() -> None:
    one, two = (ScStreamClusterer(buffer_size=100, seed=0) for _ in range(2))
    for i, (x, _label) in enumerate(dicts()):
        one.learn_one(x)
        two.learn_one(dict(reversed(x.items())) if i else x)
    assert np.array_equal(one.model.state_.past, two.model.state_.past)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        ({"a": 1.0}, "no feature 'b'"),
        ({"a": 1.0, "b": 2.0, "c": 3.0}, "a feature 'c' that the first row did not have"),
        ({"a": 1.0, "b": "tall"}, "not a number"),
        ({"a": 1.0, "b": None}, "not a number"),
        ({"a": 1.0, "b": float("nan")}, "NaN"),
        ({"a": 1.0, "b": float("inf")}, "inf"),
        ({"a": 1.0, "b": 1e60}, "prior standard"),
    ],
)
def test_a_refused_row_changes_nothing(x: dict[str, Any], sentence: str) -> None:
    model, untouched = (ScStreamClusterer(buffer_size=50, seed=0) for _ in range(2))
    for i, (good, _label) in enumerate(dicts(200)):
        if i == 75:
            for refused in (model.learn_one, model.predict_one):
                with pytest.raises(InputError, match=sentence):
                    refused(x)
        model.learn_one(good)
        untouched.learn_one(good)
    assert np.array_equal(model.model.state_.past, untouched.model.state_.past)


def test_missing_keys_where_the_family_handles_them() -> None:
    model = ScStreamClusterer(buffer_size=50, seed=0, family="diagonal")
    for i, (x, _label) in enumerate(dicts(200)):
        model.learn_one({"a": x["a"]} if i % 5 == 4 else x)
    assert np.isfinite(model.model.state_.past).all()
    assert model.predict_one({"b": 8.0}) in {-1, *model.model.state_.ids.tolist()}


def test_mixed_columns_by_name() -> None:
    family = {"diagonal": ["size"], "bernoulli": ["yes"]}
    model = ScStreamClusterer(buffer_size=60, seed=0, family=family)
    rng = np.random.default_rng(0)
    for kind in rng.integers(2, size=120):
        model.learn_one({"yes": bool(kind), "size": rng.normal(9.0 * kind)})
    assert model.model.n_clusters_ == 2
    assert model.clone().choices == {"family": family}


def test_wrong_parameters() -> None:
    with pytest.raises(InputError, match="buffer_size"):
        ScStreamClusterer(buffer_size=0)
    with pytest.raises(TypeError, match="colour"):
        ScStreamClusterer(colour="red")


def test_a_refused_first_batch_is_dropped() -> None:
    model = ScStreamClusterer(buffer_size=2, seed=0, family="bernoulli")
    model.learn_one({"a": 0})
    with pytest.raises(InputError, match="3"):
        model.learn_one({"a": 3})
    model.learn_one({"a": 0})
    model.learn_one({"a": 1})
    assert model.model.state_.n_batches == 1


# River's own ways


def test_in_a_pipeline() -> None:
    model = preprocessing.StandardScaler() | ScStreamClusterer(buffer_size=100, seed=0)
    for x, _label in dicts(400):
        model.learn_one(x)
    assert model["ScStreamClusterer"].model.n_clusters_ == 3
    assert len({model.predict_one(x) for x, _ in dicts(50)} - {-1}) == 3


def test_in_a_pipeline_with_tables() -> None:
    pd = pytest.importorskip("pandas")
    model = preprocessing.StandardScaler() | ScStreamClusterer(buffer_size=100, seed=0)
    table = pd.DataFrame([x for x, _ in dicts(400)])
    for start in range(0, 400, 50):
        model.learn_many(table[start : start + 50])
    assert model["ScStreamClusterer"].model.state_.n_batches == 4
    assert model.predict_many(table).shape == (400,)


def test_scored_by_the_metrics_of_river() -> None:
    model = ScStreamClusterer(buffer_size=50, seed=0)
    rand, silhouette = metrics.AdjustedRand(), metrics.Silhouette()
    for i, (x, label) in enumerate(dicts(500)):
        if i >= 100:
            guess = model.predict_one(x)
            rand.update(label, guess)
            silhouette.update(x, guess, model.centers)
        model.learn_one(x)
    assert rand.get() > 0.95
    assert 0.0 < silhouette.get() < 0.5


def test_evaluated_by_river() -> None:
    model = ScStreamClusterer(buffer_size=100, seed=0)
    scored = evaluate.progressive_val_score(dicts(400), model, metrics.Silhouette())
    assert 0.0 < scored.get() < 0.5


def test_a_pipeline_is_validated_by_river_as_it_learns() -> None:
    model = preprocessing.StandardScaler() | ScStreamClusterer(buffer_size=100, seed=0)
    for x, _label in dicts(100):
        model.learn_one(x)
    both = metrics.AdjustedRand() + metrics.VBeta()
    rand, _ = evaluate.progressive_val_score(dicts(400, seed=1), model, both)
    assert rand.get() > 0.95
    assert model["ScStreamClusterer"].model.state_.n_batches == 5


def test_labels_that_come_late_and_reports_on_the_way() -> None:
    model = ScStreamClusterer(buffer_size=100, seed=0)
    steps = evaluate.iter_progressive_val_score(
        dicts(600), model, metrics.AdjustedRand(), delay=50, step=200, yield_predictions=True
    )
    scores, last = [], None
    for report in steps:
        scores.append(report["AdjustedRand"].get())
        last = report["Prediction"]
    assert scores == sorted(scores)
    assert last in model.centers


def test_features_chosen_in_a_pipeline() -> None:
    model = compose.Select("a") | ScStreamClusterer(buffer_size=100, seed=0)
    for x, _label in dicts():
        model.learn_one(x)
    assert set(model["ScStreamClusterer"].centers[0]) == {"a"}
    assert model.predict_one({"a": 8.0, "b": 1e9}) != -1


def test_arrays_through_river() -> None:
    model = ScStreamClusterer(buffer_size=100, seed=0)
    for x, _ in stream.iter_array(rows()[0]):
        model.learn_one(x)
    assert set(model.centers[0]) == {0, 1}


def test_conventions_of_river() -> None:
    checks.check_estimator(ScStreamClusterer(buffer_size=50, seed=0))


@pytest.mark.parametrize(
    "check",
    [
        "check_learn_one",
        "check_pickling",
        "check_predict_one_before_any_learn",
        "check_no_state_aliasing_with_input",
        "check_clone_is_independent",
        "check_seeding_is_idempotent",
    ],
)
def test_checks_that_river_runs_on_other_models(check: str) -> None:
    """River makes no data for clusterers, so that its checks with data are given some here."""
    if not hasattr(common, check):
        pytest.skip("this version of river has no such check")
    getattr(common, check)(ScStreamClusterer(buffer_size=40, seed=0), list(dicts(120)))


def test_clone_forgets() -> None:
    model = ScStreamClusterer(buffer_size=50, seed=0, alpha=2.0)
    for x, _label in dicts(100):
        model.learn_one(x)
    copy = model.clone()
    assert (copy.buffer_size, copy.seed, copy.model.alpha) == (50, 0, 2.0)
    assert not hasattr(copy.model, "state_")


def test_without_river_the_error_says_how_to_install_it() -> None:
    program = "import sys; sys.modules['river'] = None; import scstream.river"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(scstream.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        'MissingExtra: river is not installed; install it with: pip install "scstream[river]"'
        in (done.stderr)
    )
