"""scikit-learn's own checks: the default model passes all of them, and none is expected to fail."""

import warnings
from typing import Any

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from scstream import ScStream

# The check of array API input needs an environment variable that scipy reads when it is imported.
SKIPPED = {"check_array_api_input"}


@pytest.mark.parametrize(
    "params", [{}, {"family": "diagonal"}, {"algorithm": "paper"}, {"prior": "vague"}]
)
def test_every_check_passes(params: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(ScStream(**params), on_fail=None)
    wrong = [r for r in results if r["status"] != "passed" and r["check_name"] not in SKIPPED]
    assert [(r["check_name"], r["exception"]) for r in wrong] == []
    assert len(results) > 40


def test_init_only_assigns() -> None:
    params = {name: object() for name in ScStream().get_params()}
    model = ScStream(**params)
    assert vars(model) == params
    assert all(model.get_params(deep=False)[name] is value for name, value in params.items())


def test_clone_is_unfitted_and_alike() -> None:
    model = ScStream(prior={"kappa": 1.0}, switches={"motion": False}, random_state=3)
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
