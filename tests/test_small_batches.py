"""Batches of any size: rows of small ones are held until there are enough to learn from."""

import copy
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from scstream import ScStream
from scstream.core.state import Info, Moves
from scstream.errors import DataWarning


def clouds(n: int, *, seed: int = 0, k: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    centres = 8.0 * np.stack([np.cos(np.arange(k)), np.sin(np.arange(k))], axis=1)
    which = rng.integers(k, size=n)
    return centres[which] + rng.normal(size=(n, 2)), which


def learned(model: ScStream, X: Any, size: int) -> Any:
    """Labels that were given when the rows arrived."""
    return np.concatenate(
        [model.partial_fit(X[i : i + size]).labels_ for i in range(0, len(X), size)]
    )


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_rows_are_clustered_alike_in_batches_of_any_size(size: int) -> None:
    X, which = clouds(1500)
    model = ScStream(random_state=0)
    labels = learned(model, X, size)
    assert adjusted_rand_score(which[800:], labels[800:]) > 0.95
    assert model.n_clusters_ == 4


@pytest.mark.parametrize("n_first", [1, 2, 5, 50])
def test_a_first_batch_of_few_rows_is_fine(n_first: int) -> None:
    X, which = clouds(1600)
    model = ScStream(random_state=0).partial_fit(X[:n_first])
    labels = learned(model, X[n_first:], 400)
    assert adjusted_rand_score(which[800:], labels[800 - n_first :]) > 0.95


def test_a_first_batch_of_one_class_is_fine() -> None:
    X, which = clouds(2000)
    order = np.argsort(which != 0, kind="stable")
    model = ScStream(random_state=0)
    learned(model, X[order], 50)
    assert adjusted_rand_score(which, model.predict(X)) > 0.95


def test_a_rare_cluster_is_born_of_rows_of_several_batches() -> None:
    X, _ = clouds(3000)
    X[600::40] = [30.0, 30.0] + 0.1 * X[600::40]  # one row in forty: two or three in a hundred
    model = ScStream(random_state=0)
    labels = learned(model, X, 1)
    assert (labels[2000::40] >= 0).all()
    assert len(set(labels[2000::40].tolist())) == 1


def test_a_young_model_keeps_the_ids_of_its_clusters() -> None:
    X, _ = clouds(480)
    model = ScStream(random_state=0).partial_fit(X[:150])
    before = model.predict(X[:150])
    model.partial_fit(X[150:])  # the prior is fitted again to all 480 rows
    after = model.predict(X[:150])
    assert len(set(before.tolist()) - {-1}) == 4
    assert (before == after).mean() > 0.98
    assert {event.kind for event in model.info_.events} <= {"born"}


def test_what_is_held_is_bounded_and_learned_in_the_end() -> None:
    X, _ = clouds(1400)
    X[::3] *= 40.0  # many rows that no cluster explains
    model, most = ScStream(half_life=None, random_state=0), 0
    for row in X:
        model.partial_fit(row[None])
        held = model.model_.held
        most = max(most, 0 if held is None else len(held))
    assert 150 <= most <= 300
    model.partial_fit(X)
    assert model.state_.total_weight >= 2400


@pytest.mark.parametrize("size", [1, 3])
def test_a_saved_model_goes_on_as_if_nothing_had_happened(size: int, tmp_path: Path) -> None:
    X, _ = clouds(640)
    through, stopped = ScStream(random_state=0), ScStream(random_state=0)
    same = learned(through, X, size)
    parts = []
    for part in (X[:33], X[33:330], X[330:571], X[571:]):
        parts.append(learned(stopped, part, size))
        stopped.save(tmp_path / "model")
        stopped = ScStream.load(tmp_path / "model")
    if size == 1 or all(len(part) % size == 0 for part in parts[:-1]):
        assert np.array_equal(np.concatenate(parts), same)
        assert stopped.model_.to_bytes() == through.model_.to_bytes()


def test_rows_that_are_held_are_copies() -> None:
    """A caller may use its array for the next row, and change the labels it got."""
    X, _ = clouds(700)
    weight = np.linspace(0.5, 1.5, len(X))
    model, other = ScStream(random_state=0), ScStream(random_state=0)
    row, own = np.empty((1, X.shape[1])), np.empty(1)
    for x, w in zip(X, weight, strict=True):
        row[:], own[:] = x, w
        label = model.partial_fit(row, sample_weight=own).labels_
        assert label == other.partial_fit(x[None], sample_weight=w).labels_
        label[:] = -7
    assert model.model_.to_bytes() == other.model_.to_bytes()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_holds_the_same_rows(copied: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scstream.core.held._MAX_PARTS", 40)
    X, _ = clouds(700)
    model = ScStream(min_batch=500, random_state=0).partial_fit(X[:500])
    learned(model, X[500:], 1)
    assert copied(model).model_.to_bytes() == model.model_.to_bytes()
    assert np.array_equal(model.model_.held.rows, X)


def test_a_held_batch_reports_the_density_of_its_rows() -> None:
    X, _ = clouds(700)
    model = ScStream(random_state=0).partial_fit(X[:400])
    expected = model.score_samples(X[400:410]).mean()
    row = X[400:410].copy()
    info = model.partial_fit(row).info_
    row[:] = 0.0
    assert len(model.model_.held) == 10
    assert (info.mean_log_density, info.log_density_before) == (expected, expected)
    assert (info.n_novel, info.novel_before, info.events) == (0, 0.0, ())
    assert info == Info((), 0, expected, Moves(), expected, 0.0)
    assert type(pickle.loads(pickle.dumps(info))) is Info
    assert replace(info, n_novel=3).n_novel == 3


def test_sparse_rows_can_be_held_and_saved(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), size=3)
    X = sparse.csr_array(rng.multinomial(40, topics[rng.integers(3, size=700)]).astype(float))
    model = ScStream("multinomial", random_state=0)
    for start in range(0, 650, 10):
        model.partial_fit(X[start : start + 10])
    model.save(tmp_path / "model")
    read = ScStream.load(tmp_path / "model")
    assert sparse.issparse(read.model_.held.rows)
    for start in range(650, 700, 10):
        labels = model.partial_fit(X[start : start + 10]).labels_
        assert np.array_equal(read.partial_fit(X[start : start + 10]).labels_, labels)


def test_a_whole_table_and_min_batch_one_hold_no_rows() -> None:
    X, _ = clouds(60)
    assert ScStream(random_state=0).fit(X).model_.held is None
    model = ScStream(min_batch=1, random_state=0)
    for row in X:
        assert model.partial_fit(row[None]).model_.held is None


def test_rows_do_not_wait_longer_than_they_are_remembered() -> None:
    X, _ = clouds(600)
    model = ScStream(half_life=10.0, random_state=0).partial_fit(X, time=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        for time in range(1, 30):
            model.partial_fit(X[:5], time=time)
    assert model.state_.time >= 27.0
