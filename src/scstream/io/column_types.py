"""``family="auto"``: which families describe the columns of a table, judged by its first rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.families import Categorical, Family
from scstream.families.base import Array, Rows

Levels: TypeAlias = tuple[tuple[str, ...] | None, ...]  # of every column; None for a numeric one

AUTO = "auto"
BOOLEAN = ("False", "True")  # levels of a column of truth values
_MIN_ROWS = 50  # fewer rows do not show what a column of numbers holds
_MIN_TRIAL = 500  # fewer rows do not show which of two families describes them better
_MIN_DIRECTION = 20  # columns of rows that are compared by their direction
_SAME_LENGTH = 2e-3  # relative; float16 rounds the length of a row by so much
_MAX_FULL = 64  # columns of a full covariance
_MAX_ALWAYS_FULL = 32  # columns of a full covariance whatever the number of rows
_MANY_BITS = 0.2  # share of binary columns of a wide table that is not one of counts
_FEW_VALUES = 12  # distinct ones of a column that are taken for rounded numbers
_ON_GRID = 1e-6  # steps
_MAY_DITHER = ("gaussian", "diagonal")
_ROWS_PER_COLUMN = 10  # of a full covariance with more columns


class Auto(Family):
    """Stands for a family that the first batch will determine; it has no instances."""

    name = AUTO
    handles_missing = True
    accepts_sparse = True


@dataclass(frozen=True)
class ColumnTypes:
    """The columns of a table by type, and the families that may describe the numeric ones."""

    numeric: tuple[int, ...]
    binary: tuple[int, ...]
    categorical: tuple[int, ...]
    n_levels: tuple[int, ...]  # of the categorical columns, with a place for unseen levels
    families: tuple[str, ...]  # for the numeric columns, the first one unless rows show otherwise
    reason: str
    widths: Array | None = None  # (D,) steps between the values of columns of few values

    def spec(self, name: str) -> Any:
        """Return the parameter `family` that describes the numeric columns by the named family."""
        parts: list[tuple[Any, tuple[int, ...]]] = [
            (name, self.numeric),
            ("bernoulli", self.binary),
        ]
        if self.categorical:
            parts.append((Categorical(n_levels=self.n_levels), self.categorical))
        parts = [(family, columns) for family, columns in parts if columns]
        alone = len(parts) == 1 and isinstance(parts[0][0], str)
        return parts[0][0] if alone else parts


def column_types(X: Rows, levels: Levels | None = None) -> ColumnTypes:
    """Judge the columns of a first batch; `levels` are those of a table with categories."""
    if sparse.issparse(X):
        return ColumnTypes((*range(X.shape[1]),), (), (), (), ("multinomial",), "sparse counts")
    known = levels or (None,) * X.shape[1]
    is_binary = np.array([each == BOOLEAN for each in known])
    is_categorical = np.array([each is not None for each in known]) & ~is_binary
    bits = ~is_categorical & ~is_binary & _holds_bits(X)
    if X.shape[1] <= _MAX_ALWAYS_FULL or bits.mean() >= _MANY_BITS:
        is_binary |= bits  # a few among many columns are counts that happen to be small
    numeric, binary, categorical = (
        tuple(np.flatnonzero(mask).tolist())
        for mask in (~is_binary & ~is_categorical, is_binary, is_categorical)
    )
    families, remark = _numeric_families(X[:, numeric]) if numeric else (("none",), "")
    kinds = (("numeric", numeric), ("binary", binary), ("categorical", categorical))
    counts = [
        f"{len(columns)} {kind} column{'s'[: len(columns) != 1]}"
        for kind, columns in kinds
        if columns
    ]
    return ColumnTypes(
        numeric,
        binary,
        categorical,
        tuple(len(known[column] or ()) + 1 for column in categorical),
        families,
        ", ".join(counts + [remark] * bool(remark)),
        _steps(X, numeric) if families[0] in _MAY_DITHER else None,
    )


def _holds_bits(X: Array) -> NDArray[np.bool_]:  # (D,)
    """Which columns hold zeros and ones, and both of them."""
    if X.shape[0] < _MIN_ROWS:
        return np.zeros(X.shape[1], dtype=np.bool_)
    ones, zeros = X == 1.0, X == 0.0
    only = (ones | zeros | np.isnan(X)).all(axis=0)
    return np.asarray(only & ones.any(axis=0) & zeros.any(axis=0))


def _numeric_families(X: Array) -> tuple[tuple[str, ...], str]:
    """Return the families that may describe numeric columns, and a remark about the rows."""
    n, d = X.shape
    if np.isnan(X).any():
        return ("diagonal",), "missing entries"
    if d >= _MIN_DIRECTION and _have_one_length(X):
        return ("direction",), "rows of one length"
    if d <= _MAX_ALWAYS_FULL:
        # The density of a constant column depends on little but the prior: it decides nothing.
        constant = bool((X.max(axis=0) == X.min(axis=0)).any())
        alone = d == 1 or constant or n < _MIN_TRIAL
        return ("gaussian",) if alone else ("gaussian", "diagonal"), ""
    full = d <= _MAX_FULL and n >= max(_ROWS_PER_COLUMN * d, _MIN_TRIAL)
    return ("gaussian", "diagonal", "subspace") if full else ("subspace",), ""


def _steps(X: Array, numeric: tuple[int, ...]) -> Array | None:  # (D,)
    """Steps of the numeric columns whose values are few and lie on a grid; zero for others."""
    widths = np.zeros(X.shape[1])
    if X.shape[0] >= _MIN_ROWS:
        for column in numeric:
            values = np.unique(X[:, column])  # one NaN at the end if there are some
            widths[column] = _step(values[~np.isnan(values)], X.shape[0])
    return widths if widths.any() else None


def _step(values: Array, n_rows: int) -> float:
    """Return the width of the grid that distinct, sorted values lie on; zero for none."""
    if not 3 <= len(values) <= min(_FEW_VALUES, n_rows // 5):
        return 0.0
    gaps = np.diff(values)
    width = float(gaps.min())
    multiples = gaps / width
    return width if bool((np.abs(multiples - np.round(multiples)) < _ON_GRID).all()) else 0.0


def _have_one_length(X: Array) -> bool:
    """Return True if all rows have the same length, as embeddings have."""
    length = np.sqrt(np.square(X).sum(axis=1))
    typical = float(np.median(length))
    return typical > 0 and bool((np.abs(length - typical) <= _SAME_LENGTH * typical).all())
