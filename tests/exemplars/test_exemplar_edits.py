"""Exemplars after edits by people, and in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scstream import ScStream
from tests.exemplars.test_exemplars import N_ROWS, stream, values


def fitted(n_batches: int = 10, *, rows: bool = True) -> ScStream:
    model = ScStream("gaussian", random_state=0, exemplars={"n": 3, "rows": rows})
    for number, (X, _, _) in enumerate(stream("gaussian", 0, n_batches)):
        model.partial_fit(X, ids=np.arange(number * N_ROWS, (number + 1) * N_ROWS))
    return model


def ids_of(model: ScStream, *clusters: int) -> set[int]:
    return {each.id for cluster in clusters for each in model.exemplars_.get(cluster, ())}


@pytest.mark.parametrize("rows", [True, False])
def test_a_merged_cluster_has_the_best_of_both(rows: bool) -> None:
    model = fitted(rows=rows)
    both = ids_of(model, 0, 1)
    model.merge(0, 1)
    assert 1 not in model.exemplars_
    assert len(ids_of(model, 0)) == 3
    assert ids_of(model, 0) <= both


def test_a_split_divides_them_by_the_nearer_part() -> None:
    model = fitted()
    before = ids_of(model, 0)
    new = model.split(0).events_[-1].other
    assert ids_of(model, 0, new) == before
    for id_ in (0, new):
        for each in model.exemplars_.get(id_, ()):
            own = model.predict_proba([each.row])[0]
            order = model.state_.ids.tolist()
            other = new if id_ == 0 else 0
            weights = model.weights_
            density = {k: own[order.index(k)] / weights[order.index(k)] for k in (id_, other)}
            assert density[id_] >= density[other]


@pytest.mark.parametrize("edit", ["merge", "split", "remove", "move", "seed", "name"])
def test_undo_restores_them(edit: str) -> None:
    model = fitted()
    before = values(model)
    far = np.full((12, 8), 90.0) + np.random.default_rng(0).normal(size=(12, 8))
    {
        "merge": lambda: model.merge(0, 1),
        "split": lambda: model.split(0),
        "remove": lambda: model.remove(2),
        "move": lambda: model.move(np.stack([model.exemplars_[2][0].row]), 0),
        "seed": lambda: model.seed(far, name="far"),
        "name": lambda: model.name(0, "first"),
    }[edit]()
    if edit != "split":  # after which all may be nearer to one part
        assert (values(model) == before) == (edit == "name")
    assert values(model.undo()) == before


def test_undo_after_more_batches_brings_them_back() -> None:
    model = fitted()
    lost = ids_of(model, 1)
    model.remove(1)
    quiet = [X[np.linalg.norm(X - model.means_[0], axis=1) < 9] for X, *_ in stream("gaussian", 0)]
    model.partial_fit(quiet[0])
    assert ids_of(model.undo(), 1) == lost


def test_moved_rows_change_their_cluster_and_seeds_have_theirs() -> None:
    model = fitted()
    moved = model.exemplars_[2][0]
    model.move([moved.row], 0)
    assert moved.id not in ids_of(model, 2)
    model.seed(np.random.default_rng(0).normal(size=(12, 8)) + 90.0, name="far")
    assert len(model.exemplars_[model.events_[-1].id]) == 3
    first = ScStream(random_state=0, exemplars=2).seed([[9.1], [9.2], [9.3], [9.4]])
    first.partial_fit([[0.1], [0.2], [0.3], [0.4], [0.5]], time=1e9)
    assert {each.time for each in first.exemplars_[0]} == {1e9}


def test_a_file_has_none_unless_somebody_asks(tmp_path: Path) -> None:
    model = ScStream(random_state=0, exemplars=2)
    secret = [f"secret-{place}" for place in range(50)]
    model.partial_fit(np.random.default_rng(0).normal(size=(50, 2)), ids=secret, texts=secret)
    model.save(tmp_path / "without")
    assert b"secret" not in (tmp_path / "without").read_bytes()
    assert ScStream.load(tmp_path / "without").exemplars_ == {}
    model.save(tmp_path / "with", exemplars=True)
    assert values(ScStream.load(tmp_path / "with")) == values(model)


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("size", [40, 600])
def test_a_run_that_is_interrupted_ends_with_the_same(
    tmp_path: Path, rows: bool, size: int
) -> None:
    keep = {"n": 3, "rows": rows, "save": True}
    one, other = (ScStream("gaussian", random_state=0, exemplars=keep) for _ in range(2))
    X = np.concatenate([X for X, *_ in stream("gaussian", 1)])[: 12 * size]
    for number, part in enumerate(np.array_split(X, 12)):
        ids = [f"{number}-{place}" for place in range(len(part))]
        one.partial_fit(part, ids=ids)
        other.partial_fit(part, ids=ids)
        if number == 7:
            one.merge(0, 1)
            other.merge(0, 1)
        other.save(tmp_path / "file")
        other = ScStream.load(tmp_path / "file")
    assert values(one) == values(other)
    assert values(one.undo()) == values(other.undo())


def test_groups_have_the_best_of_their_clusters() -> None:
    model = fitted()
    whole = model.exemplars_at("group", resolution=0.0)
    assert len(whole) == 1
    (found,) = whole.values()
    assert len(found) == 3
    assert {each.id for each in found} <= ids_of(model, *model.state_.ids.tolist())


def test_tables_and_descriptions_show_them() -> None:
    model = ScStream("direction", random_state=0, exemplars=2)
    rows = next(iter(stream("direction", 0, 1)))[0]
    model.partial_fit(rows, texts=[f"story {place}" for place in range(N_ROWS)])
    id_ = int(model.state_.ids[0])
    best = model.exemplars_[id_][0]
    assert model.clusters_[id_].exemplars[0].text == best.text
    assert f"typical: {best.text}" in repr(model.describe()[id_])
