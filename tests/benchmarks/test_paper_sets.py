"""The streams of the comparison: their scale, their order, and what the truth says of them."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal

from benchmarks.paper import cache
from benchmarks.paper.recurring import recurring_order
from benchmarks.paper.sets import SETS, Table, hashed, n_batches, numbered, standardise
from benchmarks.paper.truth import gaussian_labels, multinomial_labels


class TestSets:
    def test_columns_have_mean_zero_and_unit_spread_and_constants_are_zero(self):
        X = np.random.default_rng(0).normal(3.0, [1e-6, 1.0, 1e6, 0.0], size=(500, 4)) + 0.1
        scaled = standardise(X)
        np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-6)
        np.testing.assert_allclose(scaled[:, :3].std(axis=0), 1.0)
        assert not scaled[:, 3].any()

    @pytest.mark.parametrize("rows, expected", [(1000, 1), (1499, 1), (1500, 2), (2001, 2)])
    def test_a_rest_of_half_a_batch_is_a_batch(self, rows, expected):
        assert n_batches(rows, 1000) == expected

    @pytest.mark.parametrize("name", ["gauss2d-quick", "counts-quick"])
    def test_quick_sets_need_no_files(self, name):
        table = SETS[name].load()
        assert n_batches(len(table.y), SETS[name].batch) == 20
        assert table.X.shape[0] == len(table.y) == len(table.oracle)
        assert (table.oracle == table.y).mean() > 0.9
        assert (SETS[name].kind == "counts") == np.issubdtype(table.X.dtype, np.integer)

    def test_every_set_has_one_place(self):
        full = [each for each in SETS.values() if each.full]
        assert len({each.group or each.name for each in full}) == len(full) - 5
        assert all(name == each.name for name, each in SETS.items())
        assert {each.kind for each in full} == {"real", "counts"}

    def test_words_are_counted_wherever_they_stand(self):
        counts = hashed([["a", "b", "a"], [], ["b"]])
        assert counts.sum(axis=1).ravel().tolist() == [[3.0, 0.0, 1.0]]
        assert sorted(counts[0].data) == [1.0, 2.0]
        assert numbered(["x", "a", "x"]).tolist() == [1, 0, 1]

    def test_a_set_is_written_once_and_opened_as_it_was(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SCSTREAM_CACHE", str(tmp_path))
        calls = []

        def load():
            calls.append(1)
            return Table(hashed([["a"], ["b", "b"]]), np.array([0, 1]))

        dataset = replace(SETS["news-t"], load=load, batch=1)
        for _ in range(2):
            opened = cache.stored(dataset)
        with np.load(opened.data) as file:
            assert sorted(file["data"]) == [1.0, 2.0]
        assert (len(calls), opened.k, opened.n_batches, opened.oracle) == (1, 2, 2, None)


@pytest.fixture(scope="module")
def order():
    return recurring_order(TestRecurring.Y, seed=5, **TestRecurring.SIZES)


class TestRecurring:
    Y = np.random.default_rng(1).permutation(np.repeat(np.arange(12), 100))
    SIZES: ClassVar = {"n_active": 4, "swap": 2, "phase": 2, "batch": 40}

    def test_no_row_comes_twice_and_most_come(self, order):
        assert len(np.unique(order.rows)) == len(order.rows) > 0.8 * len(self.Y)
        assert len(order.rows) % 40 == 0

    def test_only_active_classes_have_rows(self, order):
        for number, active in enumerate(order.active):
            rows = order.rows[80 * number : 80 * (number + 1)]
            assert set(self.Y[rows]) <= set(active.tolist())
            assert len(set(active.tolist())) == 4

    def test_half_of_the_classes_change_and_classes_return(self, order):
        for before, after in zip(order.active, order.active[1:], strict=False):
            assert len(set(before) & set(after)) <= 2
        present = (order.active[:, :, None] == np.arange(12)).any(axis=1).astype(int)
        visits = (np.diff(present, axis=0, prepend=0) == 1).sum(axis=0)
        assert visits.max() >= 2

    def test_the_order_depends_on_the_seed_alone(self, order):
        again = recurring_order(self.Y, seed=5, **self.SIZES)
        other = recurring_order(self.Y, seed=6, **self.SIZES)
        assert np.array_equal(order.rows, again.rows)
        assert not np.array_equal(order.rows[:40], other.rows[:40])


class TestTruth:
    def test_gaussian_labels_are_the_most_probable(self):
        rng = np.random.default_rng(2)
        covs = np.array([np.eye(2), [[2.0, 0.9], [0.9, 1.0]], 0.3 * np.eye(2)])
        means = rng.normal(0.0, 1.5, size=(3, 3, 2))
        drawn = {"X": rng.normal(size=(20, 2)), "means": means, "covs": covs}
        weights = np.array([0.2, 0.5, 0.3])
        found = gaussian_labels(drawn | {"weights": weights}, batch=10)
        for n, x in enumerate(drawn["X"]):
            b, share = n // 10, n % 10 / 10
            at = (1 - share) * means[b] + share * means[b + 1]
            fit = [
                w * multivariate_normal(m, c).pdf(x)
                for w, m, c in zip(weights, at, covs, strict=True)
            ]
            assert found[n] == np.argmax(fit)

    def test_a_cluster_without_weight_gets_no_rows(self):
        drawn = {"X": np.zeros((4, 1)), "means": np.zeros((2, 1)), "covs": np.ones((2, 1, 1))}
        weights = np.array([[1.0, 0.0], [0.0, 1.0]])
        assert gaussian_labels(drawn | {"weights": weights}, batch=2).tolist() == [0, 0, 1, 1]

    def test_multinomial_labels_sum_over_versions(self):
        rng = np.random.default_rng(3)
        thetas = rng.dirichlet(np.ones(4), size=(3, 3))
        events, weights = np.array([[0.1, 0.6], [0.3, 5.0], [0.0, 0.2]]), np.array([0.2, 0.3, 0.5])
        drawn = {"X": rng.multinomial(5, np.full(4, 0.25), size=30), "thetas": thetas}
        drawn |= {"events": events, "weights": weights}
        found = multinomial_labels(drawn, batch=10, width=0.5)
        for n, x in enumerate(drawn["X"]):
            second, third = np.clip((n / 10 - events) / 0.5, 0.0, 1.0).T
            shares = np.stack([(1 - second) * (1 - third), second * (1 - third), third], axis=1)
            ways = np.exp(gammaln(6) - gammaln(x + 1).sum())
            fit = (shares * ways * (thetas**x).prod(axis=2)).sum(axis=1) * weights
            assert found[n] == np.argmax(fit)
