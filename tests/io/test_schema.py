"""Sentences at the door say what is wrong and where."""

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from scipy import sparse

from scstream.errors import InputError
from scstream.families import Diagonal, Gaussian, Multinomial
from scstream.io.schema import LARGEST, check_entries, read_time, read_weight


def test_valid_entries_are_accepted() -> None:
    check_entries(np.array([[0.0, -LARGEST], [LARGEST, 5e-324]]), Gaussian)
    check_entries(np.array([[np.nan, 0.0]]), Diagonal)
    check_entries(sparse.csr_array([[0.0, 3.0]]), Multinomial)
    check_entries(np.empty((0, 3)), Gaussian)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e101, np.nan])
def test_errors_name_the_position_of_an_entry(value: float) -> None:
    X = np.zeros((4, 5))
    X[2, 3] = value
    for rows in (X, np.asfortranarray(X), sparse.csr_array(X)):
        with pytest.raises(InputError, match="at row 2, column 3"):
            check_entries(rows, Gaussian)


def test_infinity_is_not_a_missing_value() -> None:
    with pytest.raises(InputError, match="inf"):
        check_entries(np.array([[np.nan, np.inf]]), Diagonal)


def test_times_in_every_time_zone_are_comparable() -> None:
    utc = read_time(datetime(2024, 1, 1, 12))
    east = timezone(timedelta(hours=2))
    assert read_time(datetime(2024, 1, 1, 14, tzinfo=east)) == utc
    assert read_time(np.datetime64("2024-01-01T12")) == utc
    pd = pytest.importorskip("pandas")
    assert read_time(pd.Timestamp("2024-01-01 12:00")) == utc
    assert read_time(np.float32(2.5)) == 2.5
    with pytest.raises(InputError, match="one finite number"):
        read_time(pd.NaT)


def test_weights_are_broadcast_and_checked() -> None:
    assert read_weight(None, 3) is None
    weight = read_weight(2, 3)
    assert weight is not None
    assert weight.tolist() == [2.0, 2.0, 2.0]
