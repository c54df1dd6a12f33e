"""scikit-learn's own checks: the default model passes all that apply to a clusterer."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from scstream import ScStream
from scstream.core import paper
from scstream.errors import InputError

# The check of array API input needs an environment variable that scipy reads when it is imported.
SKIPPED = {"check_array_api_input"}
# The checks of sparse input require that `predict_proba` has as many columns as a classifier of
# four classes; `test_sparse_rows_are_learned_as_counts` takes their place.
SKIPPED |= {"check_estimator_sparse_array", "check_estimator_sparse_matrix"}


@pytest.mark.parametrize(
    "params",
    [
        {},
        pytest.param({"family": "diagonal"}, marks=pytest.mark.slow),
        pytest.param({"algorithm": "paper"}, marks=pytest.mark.slow),
        pytest.param({"prior": "weak"}, marks=pytest.mark.slow),
    ],
)
def test_every_check_passes(params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "_START_SWEEPS", 100)  # the checks fit hundreds of models
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(ScStream(**params), on_fail=None)
    wrong = [r for r in results if r["status"] != "passed" and r["check_name"] not in SKIPPED]
    assert [(r["check_name"], r["exception"]) for r in wrong] == []
    assert len(results) > 40


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_rows_are_learned_as_counts(container: Any) -> None:
    rows = np.random.default_rng(0).poisson(0.3, size=(60, 8)).astype(np.float64)
    model = ScStream(random_state=0).fit(container(rows))
    assert model.family_.name == "multinomial"
    assert model.predict(container(rows)).shape == (60,)
    assert model.predict_proba(container(rows)).shape == (60, model.n_clusters_ + 1)


def test_init_only_assigns() -> None:
    params = {name: object() for name in ScStream().get_params()}
    model = ScStream(**params)
    assert vars(model) == params
    assert all(model.get_params(deep=False)[name] is value for name, value in params.items())


def test_clone_is_unfitted_and_alike() -> None:
    model = ScStream(prior={"kappa": 1.0}, motion=False, random_state=3)
    model.fit([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    copy = clone(model)
    assert repr(copy) == repr(model)
    assert not hasattr(copy, "state_")


def test_tags_follow_the_family() -> None:
    def tags(family: Any) -> tuple[bool, bool]:
        wanted = ScStream(family).__sklearn_tags__().input_tags
        return wanted.sparse, wanted.allow_nan

    assert tags("gaussian") == (False, False)
    assert tags("multinomial") == (True, False)
    assert tags("diagonal") == (False, True)
    assert tags({"gaussian": [0]}) == (False, True)
    assert tags("no such family") == (False, False)


def table(library: Any) -> Any:
    rng = np.random.default_rng(0)
    rows = np.array([[0.0, 0.0], [9.0, 900.0]])[rng.integers(2, size=120)]
    rows += rng.normal(size=(120, 2)) * [1.0, 100.0]
    return library.DataFrame({"height": rows[:, 0], "width": rows[:, 1]})


def test_a_copy_of_a_pipeline_learns_the_same() -> None:
    rows = table(pytest.importorskip("pandas"))
    pipeline = make_pipeline(StandardScaler(), ScStream(random_state=0))
    labels = pipeline.fit_predict(rows)
    copy = clone(pipeline).set_params(scstream__max_clusters=7)
    assert not hasattr(copy[-1], "state_")
    assert np.array_equal(copy.fit_predict(rows), labels)
    assert copy[-1].config_.max_clusters == 7


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_steps_that_give_tables(library: str) -> None:
    rows = table(pytest.importorskip(library))
    pipeline = make_pipeline(StandardScaler(), ScStream(random_state=0))
    pipeline.set_output(transform=library).fit(rows)
    model = pipeline[-1]
    assert model.feature_names_in_.tolist() == ["height", "width"]
    assert model.n_clusters_ == 2
    scaled = pipeline[0].transform(rows)
    assert type(scaled) is type(rows)
    assert model.partial_fit(scaled).state_.n_batches == 2


def test_a_search_by_held_out_density() -> None:
    rng = np.random.default_rng(0)
    shape = np.linalg.cholesky([[1.0, 0.95], [0.95, 1.0]])
    rows = np.array([[0.0, 0.0], [9.0, 0.0]])[rng.integers(2, size=240)]
    rows += rng.normal(size=(240, 2)) @ shape.T
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ScStream(random_state=0)),
        {"scstream__family": ["diagonal", "gaussian"]},
        cv=TimeSeriesSplit(3),
    ).fit(rows)
    assert search.best_params_ == {"scstream__family": "gaussian"}
    assert search.best_estimator_[-1].n_clusters_ == 2


def test_a_search_of_numbers_finds_the_largest_mean_density() -> None:
    rng = np.random.default_rng(1)
    rows = 3.0 * rng.integers(3, size=(90, 1)) + rng.normal(size=(90, 2))
    grid = {"half_life": [0.5, None], "alpha": [1e-4, 10.0]}
    model = ScStream("diagonal", prior="weak", random_state=0)
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(rows)
    found = search.cv_results_
    for params, mean in zip(found["params"], found["mean_test_score"], strict=True):
        one = clone(model).set_params(**params)
        fits = [(clone(one).fit(rows[a]), rows[b]) for a, b in KFold(2).split(rows)]
        expected = np.mean([fitted.score_samples(held).mean() for fitted, held in fits])
        assert mean == pytest.approx(expected, rel=1e-12)
    assert len({round(float(each), 6) for each in found["mean_test_score"]}) > 1
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.score(rows) == search.best_estimator_.score_samples(rows).mean()


def test_a_score_needs_rows() -> None:
    model = ScStream(random_state=0).fit(np.eye(6))
    with pytest.raises(InputError, match="no rows"):
        model.score(np.empty((0, 6)))
