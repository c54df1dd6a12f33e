"""Laws of `explain`: the labels of `predict`, sums of contributions, and informative features."""

from functools import cache
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_t

from scstream import ScStream
from scstream.errors import InputError
from scstream.families import Diagonal, Gaussian
from scstream.families.contributions import feature_terms
from tests.explain.drawn import FAMILIES, draw, informative, learned

SEEDS = (0, 1, 2)
DEPENDENT = ("subspace", "direction")  # whose constant holds more than the weights


def log_weights(model: ScStream) -> dict[int, float]:
    predictor = model.model_.at()
    weights = [*predictor.params.log_weight.tolist(), predictor.log_alpha]
    return dict(zip([*predictor.ids.tolist(), -1], weights, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_features_that_decided_are_the_informative_ones(family: str) -> None:
    for seed in SEEDS:
        model, X = learned(family, seed)
        assert model.n_clusters_ >= 3
        explanation = model.explain(X)
        right = np.isin(explanation.feature[:, 0], informative(family, seed))
        assert right.mean() >= 0.95, (seed, right.mean())
        speaks_for = explanation.contribution[:, 0] > 0
        assert speaks_for.mean() >= 0.95


@pytest.mark.parametrize("family", ["gaussian", "diagonal", "subspace", "poisson", "product"])
def test_so_are_the_first_two(family: str) -> None:
    for seed in SEEDS:
        model, X = learned(family, seed)
        right = np.isin(model.explain(X).feature[:, :2], informative(family, seed)).all(axis=1)
        assert right.mean() >= 0.95, (seed, right.mean())


@pytest.mark.parametrize("level", ["cluster", "group"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_label_is_that_of_predict(family: str, level: str) -> None:
    model, X = learned(family, 0)
    if family != "product":
        X = np.concatenate([X, X[:20, ::-1]])  # rows of no cluster, too
    explanation = model.explain(X, level=level)
    np.testing.assert_array_equal(explanation.cluster, model.predict(X, level=level))
    assert (explanation.cluster != explanation.runner_up).all()
    chance = model.predict_proba(X, level=level)
    np.testing.assert_allclose(
        explanation.probability, chance[np.arange(len(X)), _columns(model, explanation, level)]
    )
    assert (explanation.log_odds >= 0).all()


def _columns(model: ScStream, explanation: Any, level: str) -> Any:
    ids = model.clusters_.id if level == "cluster" else model.groups_.id
    return np.where(explanation.cluster < 0, len(ids), np.searchsorted(ids, explanation.cluster))


@pytest.mark.parametrize("level", ["cluster", "group"])
@pytest.mark.parametrize("family", FAMILIES)
def test_contributions_and_the_constant_sum_to_the_log_odds(family: str, level: str) -> None:
    model, X = learned(family, 1)
    for n in (1, 3, X.shape[1]):
        explanation = model.explain(X, n=n, level=level)
        total = explanation.contribution.sum(axis=1) + explanation.others + explanation.constant
        np.testing.assert_allclose(total, explanation.log_odds, atol=1e-9, rtol=1e-9)
        ratio = np.log(explanation.probability / explanation.runner_up_probability)
        usual = explanation.runner_up_probability > 1e-200
        np.testing.assert_allclose(ratio[usual], explanation.log_odds[usual], atol=1e-6)
    assert np.abs(explanation.others).max() < 1e-9


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in DEPENDENT])
def test_the_constant_is_the_log_ratio_of_the_weights(family: str) -> None:
    model, X = learned(family, 0)
    explanation, weight = model.explain(X), log_weights(model)
    stated = [
        weight[a] - weight[b]
        for a, b in zip(explanation.cluster.tolist(), explanation.runner_up.tolist(), strict=True)
    ]
    np.testing.assert_allclose(explanation.constant, stated, atol=1e-8)


def test_the_constant_of_a_subspace_depends_on_the_two_clusters_only() -> None:
    model, X = learned("subspace", 0)
    explanation = model.explain(X)
    pairs = explanation.cluster * 1000 + explanation.runner_up
    for pair in np.unique(pairs):
        assert np.ptp(explanation.constant[pairs == pair]) < 1e-8


def shapley(value: Any, d: int) -> Any:
    """Shapley values by their definition; `value` takes a tuple of features."""
    out = np.zeros(d)
    for feature in range(d):
        rest = [other for other in range(d) if other != feature]
        for size in range(d):
            chance = factorial(size) * factorial(d - size - 1) / factorial(d)
            for chosen in combinations(rest, size):
                both = tuple(sorted((*chosen, feature)))
                out[feature] += chance * (value(both) - value(chosen))
    return out


@pytest.mark.parametrize(("d", "tolerance"), [(2, 1e-9), (4, 1e-9), (6, 0.15)])
def test_contributions_of_a_gaussian_are_shapley_values(d: int, tolerance: float) -> None:
    rng = np.random.default_rng(d)
    mixing = rng.normal(size=(d, d))
    rows = rng.normal(size=(50, d)) @ mixing + 3.0
    family = Gaussian(mean=np.zeros(d), kappa=0.1, nu=d + 2.0, psi=np.eye(d))
    stats = family.stats(rows, np.zeros(50, np.int64), 1)
    kappa, mean, nu, scale = (value[0] for value in family._posterior(stats))
    df = nu - d + 1.0
    shape = scale * (kappa + 1.0) / (kappa * df)

    @cache
    def marginal(chosen: tuple[int, ...]) -> Any:
        i = list(chosen)
        return multivariate_t(mean[i], shape[np.ix_(i, i)], df)

    def log_marginal(x: Any, chosen: tuple[int, ...]) -> float:
        return float(marginal(chosen).logpdf(x[list(chosen)])) if chosen else 0.0

    X = rng.normal(size=(3, d)) @ mixing + 3.0
    terms = feature_terms(family, family.predictive_params(stats), X)
    for x, found in zip(X, terms, strict=True):
        exact = shapley(lambda chosen, x=x: log_marginal(x, chosen), d)
        np.testing.assert_allclose(found, exact, atol=tolerance * max(1.0, np.abs(exact).max()))
        assert found.sum() == pytest.approx(log_marginal(x, tuple(range(d))), rel=1e-9)


@pytest.mark.parametrize("handles_missing", [True, False])
def test_a_family_of_others_is_explained_too(
    handles_missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scstream.families import contributions

    model, X = learned("diagonal", 0)
    expected = model.explain(X, n=12)
    table = model.model_.at().params.clusters[:1]
    exact = feature_terms(model.family_, table, X)
    monkeypatch.delitem(contributions._TERMS, Diagonal)
    monkeypatch.setattr(Diagonal, "handles_missing", handles_missing)
    np.testing.assert_array_equal(model.explain(X).cluster, expected.cluster)
    base = 0.0
    if not handles_missing:
        prior_mean = model.family_.means(np.zeros((1, model.family_.n_stats)))
        base = exact * 0.0 + contributions._of_diagonal(model.family_, table, prior_mean)
    np.testing.assert_allclose(feature_terms(model.family_, table, X), exact - base, atol=1e-9)


def test_missing_entries_contribute_nothing() -> None:
    model, X = learned("product", 0)
    X = X.copy()
    X[:, 0] = np.nan
    explanation = model.explain(X, n=12)
    assert not explanation.contribution[explanation.feature == 0].any()


def test_sparse_rows_are_explained_as_dense_ones() -> None:
    model, X = learned("multinomial", 0)
    dense, csr = model.explain(X), model.explain(sparse.csr_array(X))
    np.testing.assert_array_equal(dense.feature, csr.feature)
    np.testing.assert_allclose(dense.contribution, csr.contribution)
    np.testing.assert_array_equal(dense.value, csr.value)


def test_many_rows_are_explained_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = learned("poisson", 0)
    whole = model.explain(X)
    monkeypatch.setattr("scstream.core.reasons._CHUNK", 12 * 7)
    pieces = model.explain(X)
    np.testing.assert_array_equal(whole.feature, pieces.feature)
    np.testing.assert_allclose(whole.contribution, pieces.contribution)
    assert len(model.explain(X[:0])) == 0


def test_the_only_cluster_is_compared_with_a_new_one() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = ScStream(random_state=0).fit(X)
    explanation = model.explain(np.array([[0.0, 0.0, 0.0], [500.0, 0.0, 0.0]]))
    assert explanation.cluster.tolist() == [0, -1]
    assert explanation.runner_up.tolist() == [-1, 0]
    assert explanation.feature[1, 0] == 0
    assert "(new)" in repr(explanation)


@pytest.mark.parametrize("family", FAMILIES)
def test_explaining_changes_nothing(family: str) -> None:
    model, X = learned(family, 0)
    before, rows = model.model_.to_bytes(), X.copy()
    first, second = model.explain(X), model.explain(X)
    repr(model.describe())
    assert model.model_.to_bytes() == before
    np.testing.assert_array_equal(X, rows)
    np.testing.assert_array_equal(first.contribution, second.contribution)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "3", True])
def test_a_number_of_features_is_asked_for(wrong: Any) -> None:
    model, X = learned("poisson", 0)
    with pytest.raises(InputError, match="whole number of features"):
        model.explain(X, n=wrong)
    with pytest.raises(InputError, match="whole number of features"):
        model.describe(n=wrong)
    with pytest.raises(InputError, match="level must be"):
        model.describe(level="planet")
    with pytest.raises(InputError, match="level must be"):
        model.explain(X, level="planet")


@pytest.mark.needs_extra
def test_levels_are_shown_by_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    plan = np.array(["free", "pro"])[rng.integers(2, size=400)]
    age = np.where(plan == "pro", 60.0, 30.0) + rng.normal(size=400)
    table = pandas.DataFrame({"age": age, "plan": plan})
    model = ScStream(random_state=0).partial_fit(table)
    explanation = model.explain(table[:20], n=2)
    for row, name in zip(explanation, plan[:20], strict=True):
        assert {reason.feature: reason.value for reason in row.reasons}["plan"] == name
    assert f"plan {plan[0]} (" in repr(explanation)
    for frame in (explanation.to_pandas(), explanation.to_polars()):
        assert len(frame) == 20
        assert set(frame["feature_1"]) <= {"age", "plan"}
    assert "plan = pro" in repr(model.describe())


def test_rows_by_position() -> None:
    model, X = learned("poisson", 0)
    explanation = model.explain(X)
    assert len(explanation) == len(list(explanation)) == len(X)
    assert explanation[-1].row == len(X) - 1
    with pytest.raises(IndexError, match="300 rows were explained"):
        explanation[300]
    assert repr(explanation).endswith("... and 290 more")
    assert explanation._repr_html_().count("<tr>") == 11


def test_drawn_rows_differ_in_their_informative_features_only() -> None:
    X = draw("diagonal", 0, 20_000)
    wide = np.flatnonzero(X.std(axis=0) > 1.5)
    np.testing.assert_array_equal(wide, informative("diagonal", 0))
