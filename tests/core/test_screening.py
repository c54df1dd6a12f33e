"""Screening: few candidates of every row, few of many clusters, and an audit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scstream import Config
from scstream.compute.threads import ThreadExecutor
from scstream.core.assign import AUDITED
from scstream.core.cluster_edits import add_clusters
from scstream.core.default import step
from scstream.core.screening import Tables, candidates_of
from scstream.core.state import NOVEL, Batch, State, Transition
from scstream.core.sweep import mean_params
from scstream.families import Gaussian
from scstream.kernels import REFERENCE, choose_kernels

D = 32


def shapes(kind: str, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres (K, D) and factors (K, D, D): round clusters, or long ones that point anywhere."""
    rng = np.random.default_rng(seed)
    factors = np.broadcast_to(np.eye(D), (k, D, D)).copy()
    if kind == "hard":
        turned = np.linalg.qr(rng.normal(size=(k, D, D)))[0]
        factors = turned * np.geomspace(4.0, 0.25, D)[None, None, :]
    return rng.normal(size=(k, D)) * 2.0, factors


def rows_of(which: np.ndarray, centres: np.ndarray, factors: np.ndarray, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(len(which), D))
    return centres[which] + np.einsum("nij,nj->ni", factors[which], noise)


def started(kind: str, k: int, seed: int = 0, kernels: Any = None) -> tuple[Gaussian, State, Any]:
    """A state that has seen 80 rows of every cluster, and a function that draws batches."""
    centres, factors = shapes(kind, k, seed)
    family = Gaussian(np.zeros(D), 0.1, D + 8.0, np.eye(D) * 0.5)
    family = family.with_kernels(kernels or choose_kernels())
    which = np.repeat(np.arange(k), 80)
    X = rows_of(which, centres, factors, seed + 1)
    halves = family.stats(X, 2 * which + np.arange(len(which)) % 2, 2 * k)
    empty = State.empty(family).replace(time=0.0)
    grown = add_clusters(
        Transition.of(empty), halves.reshape(k, 2, family.n_stats), np.full(k, NOVEL)
    )

    def batch(t: int, n: int = 500) -> Batch:
        rng = np.random.default_rng(1000 * seed + t)
        which = rng.integers(k, size=n)
        return Batch(rows_of(which, centres, factors, 77 + 1000 * seed + t), float(t))

    return family, grown.state.replace(n_batches=16, age=grown.state.age + 9), batch


def run(family: Gaussian, state: State, batches: list[Batch], **choices: Any) -> tuple[Any, ...]:
    config = Config(max_clusters=4000, **choices)
    labels, infos = [], []
    for batch in batches:
        state, label, info = step(family, config, state, batch, ThreadExecutor())
        labels.append(label)
        infos.append(info)
    return state, np.concatenate(labels), infos


@pytest.mark.parametrize("kind", ["easy", "hard"])
def test_labels_agree_with_those_of_the_complete_pass(kind: str) -> None:
    family, state, batch = started(kind, 160)
    batches = [batch(t) for t in range(1, 7)]
    complete = run(family, state, batches, screening=False)
    screened = run(family, state, batches)
    assert np.mean(complete[1] != screened[1]) <= 1e-3
    assert all(np.isnan(info.screening_error) for info in complete[2])
    assert screened[2][0].screening_error <= 1e-3
    assert complete[0].n_candidates == 0 < screened[0].n_candidates


def test_the_compiled_screen_agrees_with_numpy() -> None:
    native = choose_kernels()
    if native is REFERENCE:
        pytest.skip("the compiled kernels are not in use")
    family, state, batch = started("hard", 96)
    twin = family.with_kernels(REFERENCE)
    X = batch(1, n=700)
    found = []
    for each in (family, twin):
        tables = (
            each.predictive_params(state.cluster_stats),
            each.screening_params(state.cluster_stats),
        )
        params = mean_params(
            each, Config(), state, state, births=True, key=3, tables=tables, n_candidates=8
        )
        rows = ThreadExecutor().load(each, X)
        near = rows.near(params, 5)
        stats = rows.assign(params)
        found.append((near, stats, rows.labels(np.arange(192).reshape(96, 2))[0]))
    (near, stats, labels), (near_twin, stats_twin, labels_twin) = found
    np.testing.assert_array_equal(near, near_twin)
    assert near[-1] == len(range(5, 700, AUDITED))
    np.testing.assert_array_equal(labels, labels_twin)
    np.testing.assert_allclose(stats.log_density, stats_twin.log_density, rtol=1e-9)
    np.testing.assert_allclose(stats.stats, stats_twin.stats, atol=1e-7)


def test_the_audit_finds_a_bad_screen_and_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Gaussian.screening_params
    monkeypatch.setattr(
        Gaussian, "screening_params", lambda self, stats: np.roll(right(self, stats), 40, axis=0)
    )
    family, state, batch = started("easy", 160)
    state, _, infos = run(family, state, [batch(t) for t in range(1, 5)])
    assert infos[0].screening_error > 0.1
    assert [not np.isnan(info.screening_error) for info in infos] == [True, True, True, False]
    assert candidates_of(family, Config(), state) == 0
    batches = [batch(t) for t in range(5, 8)]
    complete = run(family, state, batches, screening=False)
    np.testing.assert_array_equal(run(family, state, batches)[1], complete[1])


def test_clusters_that_are_set_aside_lose_weight_and_nothing_else() -> None:
    family, state, batch = started("easy", 1000)
    before = state.weight.copy()
    after, labels, info = step(
        family, Config(max_clusters=4000), state, batch(1, n=200), ThreadExecutor()
    )
    touched = np.isin(after.ids, labels)
    assert touched.sum() < 250
    same = np.isin(state.ids, after.ids[~touched])
    factor = Config().kernel.weight(np.array(1.0))
    np.testing.assert_allclose(after.weight[~touched], factor * before[same], rtol=1e-12)
    np.testing.assert_allclose(after.total_weight, factor * before.sum() + 200.0, rtol=1e-12)
    complete, same_labels, _ = step(
        family, Config(max_clusters=4000, screening=False), state, batch(1, n=200), ThreadExecutor()
    )
    assert np.mean(labels != same_labels) <= 1e-3
    np.testing.assert_allclose(after.subclusters, complete.subclusters, atol=1e-6)
    assert info.screening_error <= 1e-3


def test_kept_tables_and_threads_make_no_difference() -> None:
    family, state, batch = started("hard", 1000)
    config = Config(max_clusters=4000)
    kept = forgotten = threaded = state
    for t in range(1, 6):
        kept, labels, _ = step(family, config, kept, batch(t), ThreadExecutor())
        assert "tables" in kept.__dict__
        Tables.of(forgotten)
        forgotten, same, _ = step(family, config, forgotten, batch(t), ThreadExecutor())
        np.testing.assert_array_equal(labels, same)
        threaded, same, _ = step(family, config, threaded, batch(t), ThreadExecutor(2))
        np.testing.assert_array_equal(labels, same)
    for other in (forgotten, threaded):
        np.testing.assert_array_equal(kept.past, other.past)
        np.testing.assert_array_equal(kept.current, other.current)


def test_few_clusters_or_features_are_not_screened() -> None:
    family, state, _ = started("easy", 63)
    assert candidates_of(family, Config(), state) == 0
    family, state, _ = started("easy", 64)
    assert candidates_of(family, Config(), state) == 8
    assert candidates_of(family, Config(screening=False), state) == 0
    assert candidates_of(family, Config.paper(), state) == 0
