"""A product of families: parts are independent, missing groups of columns have no say."""

import json

import numpy as np
import pytest

from scstream.errors import InputError
from scstream.families import (
    FAMILIES,
    Diagonal,
    Gaussian,
    Poisson,
    Product,
    family_class,
    family_from,
)
from scstream.testing import check_family

NAN = np.nan


@pytest.fixture
def table():
    """Columns: counts, real, code, real; some rows without the real ones, some without a count."""
    rng = np.random.default_rng(2)
    n = 60
    X = np.column_stack(
        [
            rng.poisson(3.0, n),
            rng.standard_normal(n),
            rng.integers(0, 3, n),
            5.0 + 2.0 * rng.standard_normal(n),
        ]
    )
    X[:10, [1, 3]] = NAN
    X[5:15, 0] = NAN
    return X


SPEC = [("gaussian", (3, 1)), ("poisson", (0,)), ("categorical", (2,))]


def one_group(family, X):
    return family.stats(X, np.zeros(len(X), dtype=int), 1)


def test_a_mixed_table_obeys_the_laws(table):
    family = Product.from_spec(table, SPEC)
    check_family(family, table)
    check_family(family.prior_grid(one_group(family, table))[0], table)


def test_a_product_of_products_obeys_the_laws(table):
    inner = Product.from_spec(table[:, [0, 2]], [("poisson", [0]), ("categorical", [1])])
    outer = Product([(inner, (0, 2)), (Diagonal.weak_prior(table[:, [1, 3]]), (1, 3))])
    check_family(outer, table)


def test_log_densities_of_a_product_are_sums_over_its_parts(table):
    family = Product.from_spec(table, SPEC)
    has_reals = ~np.isnan(table[:, 1])
    log_marginal, log_p = 0.0, np.zeros(len(table))
    for part, columns in family.parts:
        rows = has_reals if part.name == "gaussian" else np.ones(len(table), dtype=bool)
        X = table[rows][:, columns]
        stats = one_group(part, X)
        log_marginal += part.log_marginal(stats)[0]
        log_p[rows] += part.log_predictive(part.predictive_params(stats), X)[:, 0]
    stats = one_group(family, table)
    np.testing.assert_allclose(family.log_marginal(stats)[0], log_marginal)
    np.testing.assert_allclose(
        family.log_predictive(family.predictive_params(stats), table)[:, 0], log_p, atol=1e-12
    )


def test_every_part_counts_its_own_rows(table):
    family = Product.from_spec(table, SPEC)
    stats = one_group(family, table)[0]
    assert stats[0] == 60.0
    assert stats[1] == 50.0  # the count of the Gaussian part


def test_means_follow_the_column_order_of_the_table(table):
    family = Product.from_spec(table, SPEC)
    means = family.means(one_group(family, table))[0]
    np.testing.assert_allclose(means[[0, 1, 3]], np.nanmean(table, axis=0)[[0, 1, 3]], atol=0.1)
    assert means[2] in (0.0, 1.0, 2.0)


def test_bisect_divides_one_part_and_halves_the_others(table):
    family = Product.from_spec(table, SPEC)
    whole = one_group(family, table)
    difference = whole[:, :1] * family.bisect(whole, whole)
    part = family.parts[0][0]
    (inside,) = np.nonzero(difference[0])
    assert inside.size
    assert inside.max() < 1 + part.n_stats
    alone = one_group(part, table[10:][:, (3, 1)])
    expected = alone[:, :1] * part.bisect(alone, alone)
    np.testing.assert_allclose(difference[:, 1 : 1 + part.n_stats], expected, atol=1e-9)


def test_bisect_divides_the_part_whose_halves_are_most_probable():
    """Two numbers, the first at several distances from the mean that its prior expects."""
    prior = Gaussian(mean=[0.0], kappa=0.5, nu=4.0, psi=[[1.0]])
    family = Product([(prior, [0]), (prior, [1])])
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 2)) * np.array([1.3, 1.0])
    chosen = []
    for distance in np.linspace(-6.0, 6.0, 25):
        X = rows + np.array([distance, 0.0])
        gains = []
        for column in X.T:
            whole = one_group(prior, column[:, None])
            half = whole[:, :1] * prior.bisect(whole, whole)
            left, right = whole / 2.0 + half, whole / 2.0 - half
            apart = prior.log_marginal(left) + prior.log_marginal(right)
            gains.append(float((apart - prior.log_marginal(whole))[0]))
        whole = one_group(family, X)
        moved = np.flatnonzero(family.bisect(whole, whole)[0])
        chosen.append(int(moved.min() > prior.n_stats))
        assert chosen[-1] == int(np.argmax(gains)), distance
    assert set(chosen) == {0, 1}


def test_bisecting_one_cluster_gains_too_little_to_split_it():
    """One Gaussian cluster in two parts: its halves must not look like two clusters.

    Halving costs N log 2 = .69 N nats. The halves of a normal variable gain .51 N; two parts cut at
    once would gain 1.01 N and split every cluster.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4))
    family = Product.from_spec(X, [("gaussian", (0, 1)), ("diagonal", (2, 3))])
    whole = one_group(family, X)
    difference = whole[:, :1] * family.bisect(whole, whole)
    halves = np.vstack([whole / 2 + difference, whole / 2 - difference])
    gain = family.log_marginal(halves).sum() - family.log_marginal(whole)[0]
    assert 0.4 < gain / len(X) < 0.6


def test_the_prior_grid_is_chosen_for_each_part(table):
    family = Product.from_spec(table, SPEC)
    stats = family.stats(table, np.arange(60) % 3, 4)
    (best,) = family.prior_grid(stats)
    position = 1
    for (part, _), (chosen, _) in zip(family.parts, best.parts, strict=True):
        block = stats[:3, position : position + part.n_stats]
        evidence = [c.log_marginal(block).sum() for c in part.prior_grid(block)]
        np.testing.assert_allclose(chosen.log_marginal(block).sum(), max(evidence))
        position += part.n_stats


def test_a_part_without_rows_keeps_its_prior(table):
    family = Product.from_spec(table, SPEC)
    (same,) = family.prior_grid(one_group(family, table[:10]))
    assert same.parts[0][0] is family.parts[0][0]


def test_hyperparameters_survive_json(table):
    family = Product.from_spec(table, SPEC)
    text = json.dumps(family.hyperparameters(), default=lambda array: array.tolist())
    again = family_from("product", json.loads(text))
    stats = one_group(family, table)
    np.testing.assert_array_equal(one_group(again, table), stats)
    np.testing.assert_array_equal(again.log_marginal(stats), family.log_marginal(stats))


def test_a_partly_missing_group_raises_a_clear_error(table):
    family = Product.from_spec(table, SPEC)
    family.check(table)
    table[20, 3] = NAN
    with pytest.raises(InputError, match=r"row 20 misses some .* columns \[3, 1\] \(gaussian\)"):
        family.check(table)


@pytest.mark.parametrize(
    ("row", "column", "value", "sentence"),
    [
        (3, 0, -1.0, "row 3, column 0 is -1 but counts must not be negative"),
        (3, 2, 7.0, r"column 2 holds the level 7 .*larger n_levels"),
    ],
)
def test_errors_of_a_part_name_the_column_of_the_table(table, row, column, value, sentence):
    family = Product.from_spec(table, SPEC)
    table[row, column] = value
    with pytest.raises(InputError, match=sentence):
        family.check(table)


def test_from_spec_takes_classes_and_weights(table):
    family = Product.from_spec(
        table, [(Gaussian, (1, 3)), ("diagonal", (0, 2))], weight=np.linspace(1, 2, 60)
    )
    assert [part.name for part, _ in family.parts] == ["gaussian", "diagonal"]


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (Product.weak_prior, "from_spec"),
        (lambda X: Product.from_spec(X, [("poisson", (0,)), ("diagonal", (0, 1))]), "share"),
        (lambda X: Product.from_spec(X, [("poisson", (0,))]), "X has 4 columns but .* only 1"),
        (lambda X: Product.from_spec(X, [("diagonal", (0, 9))]), "no column 9"),
        (lambda X: Product.from_spec(X, [("gauss", (0,))]), "no family is called 'gauss'"),
        (lambda X: Product([]), "share"),
        (lambda X: Product([(Poisson(1.0, 1.0), (0, 1))]), "describes 1 columns"),
    ],
)
def test_an_invalid_product_raises_a_clear_error(table, build, sentence):
    with pytest.raises(InputError, match=sentence):
        build(table)


def test_every_family_has_a_name():
    assert all(family_class(name).name == name for name in FAMILIES)
    assert len(FAMILIES) == 9
