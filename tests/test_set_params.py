"""Parameters that change after the first batch: the next batch uses them, or refuses them."""

import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from scstream import Box, Config, ScStream
from scstream.datasets import births_and_deaths
from scstream.errors import InputError
from scstream.io.parameters import read_config
from scstream.model import PARAMETERS
from tests.digests import digest

STREAM = births_and_deaths(
    3, weight=0.2, birth_every=2, deaths=True, n_batches=10, batch_size=200, random_state=3
)
BATCHES = [batch.X for batch in STREAM]
APPLIED: dict[str, Any] = {
    "alpha": 50.0,
    "half_life": 1.0,
    "n_sweeps": 2,
    "max_clusters": 2,
    "late": "add",
    "births": False,
    "motion": False,
    "archive": True,
    "min_birth_weight": 30.0,
    "min_weight": 40.0,
    "min_batch": 300,
    "coarseness": 2.0,
    "precision": "float32",
    "n_jobs": 1,
    "executor": "threads",
    "max_events": 3,
    "exemplars": 3,
}
REFUSED: dict[str, Any] = {
    "family": "diagonal",
    "prior": "weak",
    "kernel": Box(3.0),
    "algorithm": "paper",
    "config": Config(),
    "random_state": 1,
}


def learned(n_batches: int = 5, **params: Any) -> ScStream:
    model = ScStream(**{"random_state": 0, **params})
    for number, X in enumerate(BATCHES[:n_batches]):
        model.partial_fit(X, time=number)
    return model


def go_on(model: ScStream) -> ScStream:
    for number, X in enumerate(BATCHES[5:], 5):
        model.partial_fit(X, time=number)
    return model


def test_every_parameter_is_here() -> None:
    assert {*APPLIED, *REFUSED} == {*PARAMETERS}


@pytest.mark.parametrize("name", APPLIED)
def test_a_change_acts_from_the_next_batch_on(name: str, tmp_path: Path) -> None:
    model = learned()
    before = digest(model.state_)
    model.set_params(**{name: APPLIED[name]})
    assert digest(model.state_) == before
    model.save(tmp_path / "m.scstream")
    go_on(model)
    parameters = {**model.get_params(), "random_state": 0}
    assert model.config_ == read_config(parameters, defaults=PARAMETERS)
    state = model.state_
    assert np.isfinite(state.cluster_stats).all()
    assert (state.weight >= 0).all()
    if name != "executor":  # a file does not hold one
        loaded = ScStream.load(tmp_path / "m.scstream")
        assert getattr(loaded, name) == APPLIED[name]
        assert digest(go_on(loaded).state_) == digest(state)


@pytest.mark.parametrize("name", APPLIED)
def test_a_change_that_is_taken_back_changes_nothing(name: str) -> None:
    model = learned()
    old = getattr(model, name)
    model.set_params(**{name: APPLIED[name]}).set_params(**{name: old})
    assert digest(go_on(model).state_) == digest(learned(10).state_)


def test_a_new_half_life_acts_on_the_time_that_follows() -> None:
    def left(half_life: Any, changed: Any) -> float:
        model = learned(1, half_life=half_life, births=False, min_weight=1e-9)
        model.partial_fit(BATCHES[0][:0], time=2.0)
        model.set_params(half_life=changed)
        return float(model.partial_fit(BATCHES[0][:0], time=4.0).state_.total_weight)

    assert left(2.0, 2.0) == pytest.approx(200 / 4)
    assert left(2.0, 1.0) == pytest.approx(200 / 2 / 4)
    assert left(2.0, None) == pytest.approx(200 / 2)
    assert left(None, "1s") == pytest.approx(200 / 4)


def test_births_end_and_clusters_are_bounded() -> None:
    far = BATCHES[0] + [300.0, 0.0]

    def number(**changed: Any) -> int:
        return learned().set_params(**changed).partial_fit(far, time=6.0).n_clusters_

    now = learned().n_clusters_
    assert number() > now
    assert number(births=False) <= now
    assert number(max_clusters=now) <= now
    assert number(max_clusters=1) <= now


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_change_is_refused_until_it_is_set_back(name: str, tmp_path: Path) -> None:
    model = learned()
    old, before = getattr(model, name), model.model_
    model.set_params(**{name: REFUSED[name]})
    for use in (lambda: model.partial_fit(BATCHES[5]), lambda: model.save(tmp_path / "m")):
        with pytest.raises(InputError, match=f"{name} cannot change after the first batch"):
            use()
    assert model.model_ is before
    assert model.predict(BATCHES[5]).shape == (200,)
    assert digest(go_on(model.set_params(**{name: old})).state_) == digest(learned(10).state_)


@pytest.mark.parametrize("name", [name for name in REFUSED if name != "algorithm"])
def test_fit_starts_again_with_it_and_a_clone_is_free(name: str) -> None:
    value = REFUSED[name]
    rows = BATCHES[0][:60]
    fresh = ScStream(**{"random_state": 0, name: value}).fit(rows)
    for model in (learned(1).set_params(**{name: value}), clone(learned(1))):
        again = model.set_params(**{name: value}).fit(rows)
        assert digest(again.state_) == digest(fresh.state_)


def test_a_value_that_cannot_work_is_refused_and_nothing_changes() -> None:
    model = learned()
    before = model.model_
    with pytest.raises(InputError, match="alpha must be a positive number"):
        model.set_params(alpha=-1.0).partial_fit(BATCHES[5])
    assert model.model_ is before


@pytest.mark.parametrize("copied", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_has_the_parameters_of_its_model(copied: Any) -> None:
    prior = {"kappa": 0.1, "mean": np.zeros(2)}
    seed = np.random.default_rng(0)
    for params in ({"prior": prior}, {"random_state": seed}, {"kernel": Box(3.0)}):
        model = learned(**params)
        assert digest(go_on(copied(model)).state_) == digest(go_on(model).state_)


def test_a_window_stays_with_its_kernel() -> None:
    model = learned(kernel=Box(3.0))
    kernel = model.config_.kernel
    assert go_on(model.set_params(alpha=2.0, half_life=7.0)).config_.kernel is kernel
