"""Centre and scale of real-valued columns, robust against constant ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scstream.errors import InputError
from scstream.families.base import Array, Labels, Rows, unit_weight
from scstream.families.columns import placed

_SMALLEST = 1e-100  # a scale whose square is still a number
_DIGITS = 16 * np.finfo(float).eps  # a spread of less than this share of the centre is rounding
_FEW_DIGITS = 1e-9  # a spread of less than this share of the centre has lost most of its digits
_FEW = 1 << 12  # entries whose squares are faster to sum than their extremes to find
_MANY = 20  # rows that show that a column varies
_FARTHEST = 1e7  # prior standard deviations; beyond it second moments lose all their digits


class TooFar(InputError):
    """A row lies too far from all earlier ones."""


def feature_scales(X: Rows, weight: Array | None = None) -> tuple[Array, Array]:  # (D,), (D,)
    """Weighted mean and standard deviation of each column, missing entries left out.

    A constant column tells nothing about its scale. It gets the median scale of the others, or a
    tenth of its own size where all are constant: harmless if it stays as it is, and not infinitely
    surprised if it starts to vary.
    """
    X = np.asarray(X, dtype=np.float64)
    present = ~np.isnan(X)
    weights = unit_weight(X, weight)[:, None] * present
    total = np.maximum(weights.sum(axis=0), np.finfo(float).tiny)
    filled = np.where(present, X, 0.0)
    # Two passes, first about a row of the batch: a column far from zero keeps its digits.
    anchor = filled[0] if len(filled) else np.zeros(X.shape[1])
    shifted = np.where(present, filled - anchor, 0.0)
    centre = anchor + (weights * shifted).sum(axis=0) / total
    residual = np.where(present, filled - centre, 0.0)
    scale = np.sqrt((weights * residual**2).sum(axis=0) / total)
    constant = scale <= np.maximum(_DIGITS * np.abs(centre), _SMALLEST)
    size = np.where(np.abs(centre) <= _SMALLEST, 1.0, 0.1 * np.abs(centre))
    if not constant.all():
        size = np.full_like(scale, np.median(scale[~constant]))
    return centre, np.where(constant, size, scale)


def spread_out(X: Rows, origin: Array, scale: Array) -> None:
    """Raise if a row lies so far out that the moments about `origin` would lose their digits."""
    if _all_near(X, origin, scale):
        return
    farthest = _distance(X, origin, scale)
    if farthest.max(initial=0.0) > _FARTHEST:
        row, column = np.unravel_index(farthest.argmax(), farthest.shape)
        error = TooFar(
            f"row {row}, column {column} lies {farthest[row, column]:.0e} prior standard "
            f"deviations from the first batch, beyond the {_FARTHEST:.0e} that float64 can carry; "
            "rescale or clip that column, or drop the row."
        )
        raise placed(error, int(column), int(row))


def near_radius(origin: Array, scale: Array) -> float:
    """Return a distance from zero within which no entry is too far out."""
    return float(np.min(_FARTHEST * scale - np.abs(origin)))


def within(X: Rows, radius: float) -> bool:
    """Whether few rows are all nearer to zero than this, as the sum of their squares shows."""
    few = isinstance(X, np.ndarray) and X.size <= _FEW
    return few and radius > 0.0 and bool(np.vdot(X, X) <= radius * radius)


def far_rows(X: Rows, origin: Array, scale: Array) -> NDArray[np.bool_]:  # (N,)
    """Return which rows `spread_out` refuses."""
    return np.asarray((_distance(X, origin, scale) > _FARTHEST).any(axis=1))


def widening(X: Rows, origin: Array, scale: Array) -> Array:  # (D,)
    """Factors of the scales of columns that the first batch did not show, one for the others.

    A column was nearly constant in the first batch if most of many rows are too far out in it now.
    Single rows that are far out are errors, and widen nothing.
    """
    far = _distance(X, origin, scale) > _FARTHEST
    wrong = (far.mean(axis=0) > 0.5) & (far.sum(axis=0) >= _MANY)
    now = 0.25 * feature_scales(X)[1]  # clusters are narrower than all rows together
    return np.where(wrong, np.maximum(now / scale, 1.0), 1.0)


def few_digits(X: Rows) -> Labels:
    """Return the columns whose distance from zero takes most digits of what varies."""
    centre, scale = feature_scales(X)
    return np.flatnonzero((scale < _FEW_DIGITS * np.abs(centre)) & (np.ptp(X, axis=0) > 0))


def _distance(X: Rows, origin: Array, scale: Array) -> Array:  # (N, D)
    with np.errstate(over="ignore"):  # a missing entry is near
        return np.nan_to_num(np.abs(np.asarray(X) - origin) / scale)


def _all_near(X: Rows, origin: Array, scale: Array) -> bool:
    """Whether even the extremes of all columns would be near in every column: the usual case."""
    if not X.size:
        return True
    room = _FARTHEST * scale
    return bool((X.max() - origin <= room).all() and (origin - X.min() <= room).all())
