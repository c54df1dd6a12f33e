"""The types of columns that family="auto" finds, and what happens when they change."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from scstream import ScStream
from scstream.errors import DataWarning, InputError
from scstream.io.column_types import column_types
from scstream.metrics import adjusted_rand
from scstream.model import Model

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(200, 3))
BITS = (RNG.random((200, 2)) < 0.3) * 1.0


def families(X: Any) -> tuple[str, ...]:
    return column_types(X).families


def test_zeros_and_ones_are_binary() -> None:
    types = column_types(np.c_[BITS[:, :1], NUMBERS, BITS[:, 1:]])
    assert (types.numeric, types.binary) == ((1, 2, 3), (0, 4))
    assert types.reason == "3 numeric columns, 2 binary columns"


def test_a_few_rows_do_not_show_that_a_column_is_binary() -> None:
    assert column_types(BITS[:20]).binary == ()


def test_a_constant_column_is_numeric() -> None:
    assert column_types(np.c_[NUMBERS, np.zeros(200)]).binary == ()


def test_small_counts_among_many_columns_stay_numeric() -> None:
    wide = RNG.normal(size=(400, 60))
    assert column_types(np.c_[wide, RNG.integers(2, size=(400, 2))]).binary == ()


def test_families_of_numeric_columns() -> None:
    assert families(np.tile(NUMBERS, (3, 1))) == ("gaussian", "diagonal")
    assert families(NUMBERS) == ("gaussian",)
    assert families(NUMBERS[:, :1]) == ("gaussian",)
    assert families(np.c_[np.tile(NUMBERS, (3, 1)), np.zeros(600)]) == ("gaussian",)
    assert families(np.where(NUMBERS > 2, np.nan, NUMBERS)) == ("diagonal",)
    wide = RNG.normal(size=(700, 64))
    assert families(wide) == ("gaussian", "diagonal", "subspace")
    assert families(wide[:200]) == ("subspace",)
    assert families(RNG.normal(size=(700, 100))) == ("subspace",)
    unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    assert families(unit.astype(np.float16).astype(np.float64)) == ("direction",)
    assert families(sparse.csr_array(BITS)) == ("multinomial",)


def test_the_steps_of_rounded_columns() -> None:
    rounded = np.round(NUMBERS * 2) * 0.25 - 1.0
    widths = column_types(np.c_[NUMBERS, rounded]).widths
    assert widths is not None
    assert widths == pytest.approx([0, 0, 0, 0.25, 0.25, 0.25])
    assert column_types(NUMBERS).widths is None
    assert column_types(np.round(NUMBERS, 2)).widths is None  # many values


def coarse(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(8, size=4000)
    centre = 4.0 * np.random.default_rng(seed + 100).normal(size=(8, 5))
    return np.round((centre[y] + rng.normal(size=(4000, 5))) / 3.0), y


def test_ties_of_rounded_numbers_found_no_clusters() -> None:
    X, y = coarse(0)
    auto = ScStream(random_state=0).fit(X)
    named = ScStream("gaussian", random_state=0).fit(X)
    assert adjusted_rand(y, auto.labels_) > adjusted_rand(y, named.labels_) + 0.2
    assert auto.n_clusters_ <= 12 < named.n_clusters_


def test_binary_columns_beside_numbers_do_not_shatter_clusters() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=2000)
    X = np.c_[5.0 * y[:, None] + rng.normal(size=(2000, 3)), rng.random((2000, 6)) < 0.1]
    assert adjusted_rand(y, ScStream(random_state=0).fit(X).labels_) > 0.95


def test_a_binary_column_may_get_other_values() -> None:
    X = np.c_[NUMBERS, BITS]
    model = ScStream(random_state=0).fit(X)
    ids = model.state_.ids.tolist()
    later = X.copy()
    later[:5, 4] = [2.0, 3.0, 0.5, 7.0, 2.0]
    assert model.predict(later).shape == (200,)
    with pytest.warns(DataWarning, match="independent numbers"):
        model.partial_fit(later)
    assert set(ids) <= set(model.state_.ids.tolist())
    assert np.isfinite(model.means_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(later)
    again = Model.from_bytes(model.model_.to_bytes())
    assert again.to_bytes() == model.model_.to_bytes()


def test_a_missing_entry_turns_a_full_covariance_into_a_diagonal_one() -> None:
    model = ScStream(random_state=0).fit(NUMBERS)
    means, covariances = model.means_, model.covariances_
    ids = model.state_.ids.tolist()
    later = NUMBERS.copy()
    later[0, 0] = np.nan
    with pytest.warns(DataWarning):
        model.partial_fit(later)
    assert model.family_.name == "diagonal"
    assert model.state_.ids.tolist() == ids
    assert model.means_ == pytest.approx(means, abs=0.05)
    assert model.covariances_ == pytest.approx(np.einsum("kdd->kd", covariances), rel=0.2)


def test_a_dict_of_hyperparameters_means_gaussian() -> None:
    prior = {"kappa": 1.0, "mean": 0.0, "nu": 5.0, "psi": 1.0}
    model = ScStream(prior=prior, random_state=0).fit(np.c_[NUMBERS[:, :2], BITS[:, :1]])
    assert model.family_.name == "gaussian"


def test_a_named_family_is_not_changed() -> None:
    with pytest.raises(InputError, match="0, 1"):
        ScStream("bernoulli", random_state=0).fit(BITS).partial_fit(BITS * 2)
    assert ScStream("bernoulli", random_state=0).fit(BITS).choice_.startswith("bernoulli, as")


class TestTables:
    """Tables with columns of several types."""

    @pytest.fixture
    def table(self) -> Any:
        pd = pytest.importorskip("pandas")
        rng = np.random.default_rng(0)
        y = rng.integers(3, size=300)
        return pd.DataFrame(
            {
                "x": 4.0 * y + rng.normal(size=300),
                "colour": np.array(["red", "green", "blue"])[y],
                "size": pd.Categorical(np.array(["s", "m"])[y % 2], categories=["s", "m", "l"]),
                "ok": rng.random(300) < 0.5,
            }
        )

    def test_types_and_levels(self, table: Any) -> None:
        model = ScStream(random_state=0).fit(table)
        assert "1 numeric column, 1 binary column, 2 categorical columns" in model.choice_
        levels = (None, ("blue", "green", "red"), ("s", "m", "l"), ("False", "True"))
        assert model.model_.settings.levels == levels
        assert model.n_clusters_ == 3

    def test_levels_do_not_depend_on_their_order_in_a_batch(self, table: Any) -> None:
        model = ScStream(random_state=0).fit(table)
        assert np.array_equal(model.predict(table[::-1]), model.predict(table)[::-1])

    def test_a_level_not_seen_before_has_a_place(self, table: Any) -> None:
        model = ScStream(random_state=0).fit(table)
        violet = table[:20].assign(colour="violet")
        assert model.predict(violet).shape == (20,)
        model.partial_fit(violet)
        assert np.isfinite(model.score_samples(violet)).all()

    def test_a_missing_level_is_missing(self, table: Any) -> None:
        model = ScStream(random_state=0).fit(table)
        assert np.array_equal(model.predict(table.assign(colour=None)), model.predict(table))

    def test_levels_are_saved(self, table: Any, tmp_path: Any) -> None:
        model = ScStream(random_state=0).fit(table)
        model.save(tmp_path / "m")
        again = ScStream.load(tmp_path / "m")
        assert np.array_equal(again.predict(table), model.predict(table))
        assert again.choice_ == model.choice_

    @pytest.mark.parametrize("library", ["polars", "pyarrow"])
    def test_other_libraries_give_the_same(self, table: Any, library: str) -> None:
        pl = pytest.importorskip("polars")
        other = pl.from_pandas(table)
        other = other.to_arrow() if library == "pyarrow" else other
        model = ScStream(random_state=0).fit(other)
        assert np.array_equal(model.labels_, ScStream(random_state=0).fit(table).labels_)

    def test_a_named_categorical_family_takes_strings(self, table: Any) -> None:
        model = ScStream("categorical", random_state=0).fit(table[["colour", "size"]])
        assert model.family_.n_levels == (4, 4)  # type: ignore[attr-defined]

    def test_dates_are_refused_with_advice(self, table: Any) -> None:
        pd = pytest.importorskip("pandas")
        with pytest.raises(InputError, match=r"'when' holds Datetime.*time="):
            ScStream().fit(table.assign(when=pd.Timestamp("2026-01-01")))

    def test_text_is_refused_with_advice(self, table: Any) -> None:
        with pytest.raises(InputError, match="'note' holds text"):
            ScStream().fit(table.assign(note=[f"note {i}" for i in range(len(table))]))

    def test_numbers_cannot_become_strings(self, table: Any) -> None:
        model = ScStream(random_state=0).fit(table)
        with pytest.raises(InputError, match="numbers in the first batch"):
            model.partial_fit(table.assign(x="tall"))
