"""Tables of every library give the same rows, and take labels back."""

from typing import Any

import numpy as np
import pytest

from scstream.errors import InputError
from scstream.io.frames import column_names, is_table, labels_like, table_rows

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

COLUMNS = {"a": [1, 2, None], "b": [0.5, None, float("inf")], "c": [True, False, None]}
ROWS = np.array([[1.0, 0.5, 1.0], [2.0, np.nan, 0.0], [np.nan, np.inf, np.nan]])
NULLABLE = pd.DataFrame(
    {
        "a": pd.array([1, 2, None], dtype="Int64"),
        "b": pd.array([0.5, None, float("inf")], dtype="Float64"),
        "c": pd.array([True, False, None], dtype="boolean"),
    }
)


@pytest.mark.parametrize("table", [NULLABLE, pl.DataFrame(COLUMNS), pa.table(COLUMNS)])
def test_table_rows_and_column_names_are_read(table: Any) -> None:
    assert is_table(table)
    assert column_names(table) == ["a", "b", "c"]
    assert np.array_equal(table_rows(table), ROWS, equal_nan=True)
    assert table_rows(table).dtype == np.float64


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "int8", "uint64", "object", "Sparse[float64]"]
)
def test_every_number_type_is_read(dtype: str) -> None:
    table = pd.DataFrame({"a": pd.Series([0.0, 1.0, 2.0]).astype(dtype)})
    assert np.array_equal(table_rows(table)[:, 0], [0.0, 1.0, 2.0])


def test_objects_that_are_not_numbers_raise() -> None:
    with pytest.raises(InputError, match="column 'a' does not hold numbers"):
        table_rows(pd.DataFrame({"a": np.array([1.0, "x"], dtype=object)}))


@pytest.mark.parametrize("value", [np.zeros((2, 2)), [[1.0]], pd.Series([1.0]), None, "table"])
def test_other_objects_are_not_tables(value: Any) -> None:
    assert not is_table(value)


def test_labels_use_the_library_of_the_input() -> None:
    labels = np.array([2, -1, 0])
    series = labels_like(NULLABLE.set_axis([7, 8, 9]), labels)
    assert series.index.tolist() == [7, 8, 9]
    assert (series.name, series.tolist()) == ("cluster", [2, -1, 0])
    assert labels_like(pl.DataFrame(COLUMNS), labels, name="k").name == "k"
    assert labels_like(pa.table(COLUMNS), labels).to_pylist() == [2, -1, 0]
