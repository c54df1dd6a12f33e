"""Errors name the feature, its position and the row, and give advice that fits the type."""

import datetime
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from scstream import ScStream
from scstream.errors import InputError
from scstream.families import Gaussian, Poisson, Product

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.needs_extra
N = 60
RNG = np.random.default_rng(0)
NUMBERS, BITS = RNG.normal(size=N), RNG.integers(2, size=N).astype(float)
WHEN = pandas.date_range("2026-01-01", periods=N, freq="h")


def with_bad(values: Any, bad: float, row: int = 17) -> Any:
    """Put a wrong value into the column 'price', which is the last one."""
    price = np.array(values, dtype=float)
    price[row] = bad
    return pandas.DataFrame({"size": np.abs(np.round(values)), "price": price})


WRONG = [
    ("gaussian", NUMBERS, np.nan, r"NaN at row 17, column 1 \('price'\)"),
    ("diagonal", NUMBERS, np.inf, r"infinity \(inf\) at row 17, column 1 \('price'\)"),
    ("diagonal", NUMBERS, 1e120, r"1e\+120.* at row 17, column 1 \('price'\)"),
    ("poisson", BITS, -2.0, r"row 17, column 1 \('price'\) is -2 but counts"),
    ("multinomial", BITS + 1, -2.0, r"row 17, column 1 \('price'\) is -2 but counts"),
    ("bernoulli", BITS, 7.0, r"row 17, column 1 \('price'\) is 7.0 but Bernoulli"),
    ("categorical", BITS, 0.5, r"row 17, column 1 \('price'\) is 0.5 but categorical"),
    ({"poisson": ["size"], "bernoulli": ["price"]}, BITS, 7.0, r"row 17, column 1 \('price'\) is"),
]


@pytest.mark.parametrize(("family", "values", "bad", "sentence"), WRONG)
@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "explain", "first batch"])
def test_the_feature_is_named(
    family: Any, values: Any, bad: float, sentence: str, method: str
) -> None:
    model = ScStream(family, random_state=0, min_batch=1)
    table = with_bad(values, bad)
    if method not in ("fit", "first batch"):
        model.partial_fit(with_bad(values, values[0], row=0))
    with pytest.raises(InputError, match=sentence) as caught:
        getattr(model, "partial_fit" if method == "first batch" else method)(table)
    assert str(caught.value).count("'price'") == 1
    assert (caught.value.row, caught.value.column) == (17, 1)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (str(copied), copied.column) == (str(caught.value), 1)


def test_columns_without_names_have_their_position_only() -> None:
    with pytest.raises(InputError, match="NaN at row 17, column 1;"):
        ScStream("gaussian").fit(with_bad(NUMBERS, np.nan).to_numpy())
    counts = sparse.csr_array(np.array([[1.0, 2.0], [0.0, -3.0]]))
    with pytest.raises(InputError, match="row 1, column 1 is -3 but counts"):
        ScStream("multinomial").fit(counts)


def test_an_error_of_a_part_has_the_place_in_the_table() -> None:
    gaussian = Gaussian(mean=np.zeros(1), kappa=1.0, nu=4.0, psi=np.eye(1))
    family = Product([(Poisson(shape=[1.0], rate=[1.0]), [1]), (gaussian, [0])])
    with pytest.raises(InputError, match="row 2, column 1 is -1 but counts"):
        family.check(np.array([[0.0, 1.0], [0.0, 1.0], [0.0, -1.0]]))
    rows = np.array([[np.nan, 1.0], [0.0, 1.0], [1e200, 1.0]])
    with pytest.raises(InputError, match="row 2, column 0 lies"):
        family.check(rows)


TYPES = [
    (pandas.DataFrame({"x": NUMBERS, "when": WHEN}), r"column 'when' holds Datetime.*time="),
    (pandas.DataFrame({"x": NUMBERS, "for": WHEN - WHEN[0]}), "column 'for' holds Duration.*time="),
    (WHEN.to_numpy()[:, None], r"X holds datetime64.*time="),
    ([[1.0, datetime.datetime(2026, 1, 1)]], "row 0, column 1 holds the time 2026-01-01.*time="),
    ([["1.5", "2"], ["3", "red"]], "row 1, column 1 holds the text 'red'.*table of pandas"),
    (np.array([[1.0, "a"]], dtype=object), "row 0, column 1 holds the text 'a'.*could not convert"),
]


@pytest.mark.parametrize(("rows", "sentence"), TYPES)
def test_texts_and_times_get_advice(rows: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        ScStream().fit(rows)


def test_vectors_and_changed_types_get_advice() -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"x": NUMBERS, "v": [[1.0, 2.0]] * N})
    with pytest.raises(InputError, match=r"column 'v' holds vectors.*numpy.array\(table\['v'\]"):
        ScStream().fit(table)
    words = pandas.DataFrame({"x": NUMBERS, "word": ["a", "b"] * (N // 2)})
    model = ScStream(random_state=0).partial_fit(words)
    with pytest.raises(InputError, match=r"column 'word' holds Datetime.*categories in the first"):
        model.partial_fit(words.assign(word=WHEN))
    with pytest.raises(InputError, match=r"column 'x' holds .*numbers in the first batch"):
        model.partial_fit(words.assign(x=words["word"]))
