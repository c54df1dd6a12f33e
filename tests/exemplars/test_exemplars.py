"""Exemplars: typical rows of clusters, bounded, fading, the same however rows are computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from scstream import ScStream
from scstream.core.exemplars import Exemplars, best, union
from scstream.core.window import Box, Exponential
from scstream.errors import InputError

Array = NDArray[np.float64]
N_ROWS, N_BATCHES = 600, 10


def stream(family: str, seed: int, n_batches: int = N_BATCHES) -> Any:
    """Yield rows, true labels, and how far every row lies from the centre of its true cluster."""
    rng = np.random.default_rng([3, seed])
    n_clusters, n_features = 6, 32 if family == "direction" else 8
    centre = 12.0 * rng.normal(size=(n_clusters, n_features))
    words = rng.dirichlet(np.full(60, 0.1), size=n_clusters)
    for _ in range(n_batches):
        own = rng.integers(n_clusters, size=N_ROWS)
        if family == "multinomial":
            rows = rng.multinomial(rng.integers(20, 60, size=N_ROWS), words[own]).astype(float)
            share = np.sqrt(rows / rows.sum(axis=1, keepdims=True))
            yield rows, own, np.linalg.norm(share - np.sqrt(words[own]), axis=1)
        elif family == "direction":
            rows = centre[own] + 4.0 * rng.normal(size=(N_ROWS, n_features))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            unit = centre[own] / np.linalg.norm(centre[own], axis=1, keepdims=True)
            yield rows, own, 1.0 - (rows * unit).sum(axis=1)
        else:
            rows = centre[own] + rng.normal(size=(N_ROWS, n_features))
            yield rows, own, np.linalg.norm(rows - centre[own], axis=1)


@pytest.mark.parametrize(
    ("family", "keeps_rows", "n_batches"),
    [
        ("gaussian", True, 10),
        ("gaussian", False, 10),
        ("multinomial", True, 10),
        ("multinomial", False, 10),
        ("direction", True, 3),
    ],
)
def test_exemplars_are_nearest_to_the_true_centre(
    family: str, keeps_rows: bool, n_batches: int
) -> None:
    """In 90 % of the clusters every exemplar is among the nearest tenth of the true rows."""
    is_near = []
    for seed in range(3):
        model = ScStream(family, random_state=0, exemplars={"n": 5, "rows": keeps_rows})
        labels, distances = [], []
        for number, (rows, own, distance) in enumerate(stream(family, seed, n_batches)):
            model.partial_fit(rows, ids=np.arange(number * N_ROWS, (number + 1) * N_ROWS))
            labels.append(own)
            distances.append(distance)
        label, distance = np.concatenate(labels), np.concatenate(distances)
        for found in model.exemplars_.values():
            places = np.array([each.id for each in found])
            truth = np.bincount(label[places]).argmax()
            near = np.quantile(distance[label == truth], 0.1)
            same = (label[places] == truth).all()
            is_near.append(bool(same and (distance[places] <= near).all()))
        assert len(model.exemplars_) == model.n_clusters_
    assert len(is_near) >= 18
    assert np.mean(is_near) >= 0.9


def test_there_are_at_most_so_many_and_only_of_clusters_that_live() -> None:
    rng = np.random.default_rng(0)
    model = ScStream("gaussian", random_state=0, exemplars=3, half_life=1.0)
    for number in range(60):
        rows = rng.normal(size=(200, 2)) + 9.0 * np.floor(number / 6) * (rng.random((200, 1)) < 0.5)
        model.partial_fit(rows)
        known = model.model_.exemplars
        assert known is not None
        ids, counts = np.unique(known.cluster, return_counts=True)
        assert counts.max() <= 3
        assert np.isin(ids, model.state_.ids).all()
        assert {len(known.rows), len(known.id), len(known.text)} == {len(known)}
    assert any(event.kind == "died" for event in model.events_)


def test_every_new_cluster_has_exemplars_at_once() -> None:
    rng = np.random.default_rng(0)
    model = ScStream("gaussian", random_state=0, exemplars=2)
    for number in range(25):
        rows = rng.normal(size=(3000, 2))
        rows[7:20] += 30.0 * (number + 1)
        model.partial_fit(rows)
        assert set(model.exemplars_) == set(model.state_.ids.tolist())


def test_they_follow_a_cluster_that_moves() -> None:
    for keeps_rows in (True, False):
        rng = np.random.default_rng(1)
        model = ScStream("gaussian", random_state=0, exemplars={"n": 5, "rows": keeps_rows})
        for number in range(60):
            rows = rng.normal(size=(1000, 2)) + 0.2 * number
            model.partial_fit(rows, ids=np.full(1000, number) * 1000 + np.arange(1000))
        newest = [each.id // 1000 for each in model.exemplars_[0]]
        assert min(newest) >= 50


def test_without_forgetting_the_nearest_rows_stay() -> None:
    rng = np.random.default_rng(1)
    model = ScStream("gaussian", random_state=0, exemplars=3, half_life=None)
    kept = []
    for _ in range(8):
        rows = rng.normal(size=(200, 3))
        kept.append(rows)
        model.partial_fit(rows)
    every, model_ = np.concatenate(kept), model.model_
    table = model_.family.predictive_params(model.state_.cluster_stats)
    density = model_.family.log_predictive(table, every)[:, 0]
    nearest = {every[place].tobytes() for place in np.argsort(-density)[:6]}
    assert {each.row.tobytes() for each in model.exemplars_[0]} <= nearest


@pytest.mark.parametrize("family", ["gaussian", "multinomial"])
def test_threads_and_kinds_of_calls_change_nothing(family: str) -> None:
    def run(n_jobs: int, **how: Any) -> list[Any]:
        model = ScStream(family, random_state=0, exemplars=4, n_jobs=n_jobs)
        for rows, _, _ in stream(family, 0):
            given = sparse.csr_array(rows) if how.get("sparse") else rows
            model.partial_fit(given, texts=[f"row {place}" for place in range(N_ROWS)])
        return values(model)

    first = run(1)
    assert first == run(2) == run(3)
    if family == "multinomial":
        assert [value[1:3] for value in first] == [value[1:3] for value in run(1, sparse=True)]


def values(model: ScStream) -> list[Any]:
    """Return all that is known about exemplars, to be compared."""
    return [
        (id_, each.id, each.text, each.score, each.time, None if each.row is None else _tuple(each))
        for id_, found in model.exemplars_.items()
        for each in found
    ]


def _tuple(exemplar: Any) -> tuple[float, ...]:
    row = exemplar.row.toarray()[0] if sparse.issparse(exemplar.row) else exemplar.row
    return tuple(row.tolist())


def test_labels_and_states_do_not_depend_on_exemplars() -> None:
    with_them, without = (ScStream(random_state=0, exemplars=n) for n in (5, 0))
    for rows, _, _ in stream("gaussian", 2):
        labels = [model.partial_fit(rows).labels_ for model in (with_them, without)]
        assert np.array_equal(*labels)
    assert np.array_equal(with_them.state_.past, without.state_.past)
    assert without.model_.exemplars is None


def test_only_ids_are_kept_if_rows_are_not_wanted() -> None:
    model = ScStream(random_state=0, exemplars={"n": 2, "rows": False})
    for rows, _, _ in stream("gaussian", 0):
        model.partial_fit(rows, ids=[f"u{place}" for place in range(N_ROWS)])
    assert model.model_.exemplars is not None and model.model_.exemplars.rows is None
    assert all(each.row is None and each.id for own in model.exemplars_.values() for each in own)


def test_rows_that_come_one_by_one_have_their_ids_and_times() -> None:
    rng = np.random.default_rng(0)
    model = ScStream("gaussian", random_state=0, exemplars=3)
    rows = rng.normal(size=(450, 2))
    for place, row in enumerate(rows):
        model.partial_fit([row], ids=[place], time=place / 1000)
    found = model.exemplars_[0]
    assert len(found) == 3
    for each in found:
        assert np.array_equal(each.row, rows[each.id])
        assert each.time == each.id / 1000


def test_an_id_is_there_once() -> None:
    model = ScStream(random_state=0, exemplars=4)
    for _ in range(9):
        model.partial_fit([[0.1 * place] for place in range(9)] * 15, ids=[*range(9)] * 15)
    found = [each.id for each in model.exemplars_[0]]
    assert len(found) == len(set(found))


def test_the_best_row_of_counts_is_not_the_shortest() -> None:
    rng = np.random.default_rng(0)
    rows = rng.multinomial(rng.integers(0, 80, size=500), np.full(6, 1 / 6)).astype(float)
    model = ScStream("multinomial", random_state=0, exemplars=5).partial_fit(rows)
    assert min(each.row.sum() for own in model.exemplars_.values() for each in own) > 20


def test_a_row_with_gaps_comes_after_complete_ones() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4))
    rows[:100, 2] = np.nan
    model = ScStream("diagonal", random_state=0, exemplars=5).partial_fit(rows)
    assert not any(np.isnan(each.row).any() for each in model.exemplars_[0])


pools = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-3, 3), st.integers(0, 6)), max_size=12
).map(lambda each: pool(each))  # noqa: PLW0108


def pool(entries: list[tuple[int, int, int]]) -> Exemplars:
    """Return exemplars of clusters, scores and times."""
    cluster, score, time = np.array(entries).reshape(-1, 3).T
    empty = Exemplars.empty(1, rows=False)
    marks = np.array([f"{entry}" for entry in entries], dtype=object).reshape(-1)
    return empty.replace(
        cluster=cluster.astype(np.int64),
        score=score.astype(float),
        time=time.astype(float),
        id=marks,
        text=np.full(len(entries), None, dtype=object),
    )


@settings(max_examples=60, deadline=None)
@given(pools, pools, st.integers(1, 3), st.sampled_from([Exponential(2.0), Box(3.0)]))
def test_sets_of_exemplars_merge(first: Exemplars, second: Exemplars, n: int, kernel: Any) -> None:
    """The best of a union are the best of the best of its parts."""

    def top(some: Exemplars) -> Exemplars:
        return best(some, n, kernel=kernel, time=6.0)

    whole, parts = top(union(first, second)), top(union(top(first), top(second)))
    for name in ("cluster", "score", "time", "id"):
        assert getattr(whole, name).tolist() == getattr(parts, name).tolist()


@pytest.mark.parametrize(
    ("value", "says"),
    [(-1, "whole number"), (2.5, "whole number"), (True, "whole number"), ({"m": 1}, "no setting")],
)
def test_errors_say_what_to_do(value: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        ScStream(exemplars=value).fit([[0.0], [1.0]])


def test_ids_must_fit_the_rows() -> None:
    with pytest.raises(InputError, match="2 entries but X has 3 rows"):
        ScStream(exemplars=1).partial_fit([[0.0], [1.0], [2.0]], ids=["a", "b"])
    with pytest.raises(InputError, match="exemplars=5"):
        ScStream().partial_fit([[0.0], [1.0], [2.0]], ids=["a", "b", "c"])
    without = ScStream().fit([[0.0], [1.0], [2.0]])
    with pytest.raises(InputError, match="keeps no exemplars"):
        without.exemplars_at()
    with pytest.raises(AttributeError, match="keeps no exemplars"):
        _ = without.exemplars_
