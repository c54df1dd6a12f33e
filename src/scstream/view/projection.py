"""A plane to look at rows of many columns from, which turns slowly as the clusters move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from scipy import sparse

from scstream.families.base import Array, Rows

RATE = 0.35  # share of the way to the best plane that is gone from one picture to the next
TURN = 0.2  # longest step of the axes from one picture to the next, as a distance of matrices
_NAMED = 3  # columns that are named for an axis
_LEAST = 0.25  # part of the largest share that a column must have to be named
_FLAT = 1e-6  # singular values below this share of the first count as none

Kind = Literal["line", "columns", "plane"]


@dataclass(frozen=True)
class Projection:
    """A linear map of C columns to a picture: one axis or two.

    One column is a line and two columns are themselves. More are seen along the two directions in
    which the centres of the clusters differ most, in units of the spread within clusters.
    """

    kind: Kind
    centre: Array
    unit: Array
    axes: Array

    @classmethod
    def of(
        cls,
        centres: Array,
        weight: Array,
        *,
        unit: Array,
        stds: Array | None = None,
        before: Self | None = None,
    ) -> Self:
        """Choose the picture of clusters; near to the one before, where there is one."""
        n_columns = centres.shape[1]
        if n_columns <= 2:
            still = np.zeros(n_columns), np.ones(n_columns), np.eye(n_columns)
            return cls("line" if n_columns == 1 else "columns", *still)
        share = weight / max(float(weight.sum()), np.finfo(float).tiny)  # (K,)
        centre = share @ centres
        if before is not None and (before.kind != "plane" or len(before.unit) != n_columns):
            before = None
        if before is not None:
            centre = before.centre + RATE * (centre - before.centre)
            unit = before.unit * (unit / before.unit) ** RATE
        scattered = np.sqrt(share)[:, None] * (centres - share @ centres) / unit  # (K, C)
        wide = np.ones(n_columns) if stds is None else stds / unit
        axes = _leading(scattered, wide, None if before is None else before.axes)
        if before is not None:
            axes = _kept_back(before.axes, axes)
        return cls("plane", centre, unit, axes)

    @property
    def lens(self) -> Array:  # (C, A)
        """The axes in the units of the columns."""
        return self.axes / self.unit[:, None]

    def is_for(self, n_columns: int) -> bool:
        """Whether rows of so many columns can be placed."""
        return len(self.unit) == n_columns

    def shown(self, centres: Array, weight: Array) -> float:  # (K, C), (K,)
        """Share of the scatter of centres that the picture shows; 1 if there is none."""
        share = weight / max(float(weight.sum()), np.finfo(float).tiny)
        apart = (centres - share @ centres) / self.unit
        scatter = float(share @ (apart**2).sum(axis=1))
        if scatter <= 0:
            return 1.0
        return float(share @ ((apart @ self.axes) ** 2).sum(axis=1)) / scatter

    def place(self, rows: Rows) -> Array:  # (N, C) -> (N, A)
        """Where rows are in the picture."""
        lens = self.lens
        if sparse.issparse(rows):
            return np.asarray(rows @ lens) - self.centre @ lens
        return np.asarray((rows - self.centre) @ lens)

    def words(self, column_names: Sequence[str]) -> list[str]:
        """Say what each axis shows."""
        if self.kind != "plane":
            return list(column_names)
        return [_in_words(axis, column_names) for axis in self.axes.T]


def _leading(scattered: Array, wide: Array, before: Array | None) -> Array:  # (C, 2)
    """Two directions of most scatter; where there is none, those of before or of widest columns."""
    values, directions = np.linalg.svd(scattered, full_matrices=False)[1:]
    found = [
        directions[i]
        for i in range(min(2, len(values)))
        if values[i] > _FLAT * max(float(values[0]), _FLAT)
    ]
    spare = [] if before is None else list(before.T)
    spare += [np.eye(1, len(wide), column)[0] for column in _widest(wide, 3)]
    for direction in spare:
        if len(found) == 2:
            break
        others = direction - sum(axis * (axis @ direction) for axis in found)
        length = float(np.linalg.norm(others))
        if length > 0.1:
            found.append(others / length)
    return np.column_stack(found)


def _widest(wide: Array, n: int) -> list[int]:
    """Columns of the largest spread, the first of those that are alike."""
    return [int(column) for column in np.argsort(-wide.round(6), kind="stable")[:n]]


def _kept_back(before: Array, axes: Array) -> Array:  # (C, 2), (C, 2) -> (C, 2)
    """Turn and mirror the axes to be near those before, and go part of the way to them."""
    left, _, right = np.linalg.svd(axes.T @ before)
    way = axes @ (left @ right) - before
    length = float(np.linalg.norm(way))
    step = min(RATE, 0.95 * TURN / max(length, TURN))  # the way back to unit length is longer
    first, _, last = np.linalg.svd(before + step * way, full_matrices=False)
    return np.asarray(first @ last)


def _in_words(axis: Array, column_names: Sequence[str]) -> str:
    """Name the columns with the largest part of an axis, with the sign in which they grow."""
    share = axis**2  # (C,), sums to one
    order = np.argsort(-share, kind="stable")
    named = [d for d in order[:_NAMED] if share[d] >= _LEAST * share[order[0]]]
    parts = [f"{'−' if axis[d] < 0 else ''}{column_names[d]} {100 * share[d]:.0f} %" for d in named]
    n_others = int((share > 1e-4).sum()) - len(named)
    return ", ".join(parts) + (f" and {n_others} more" if n_others > 0 else "")
