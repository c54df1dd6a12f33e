"""The leading directions of a stream of rows, from a sketch whose size does not grow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from scstream.families.base import Array
from scstream.kernels import REFERENCE

_HALF_LIFE = 5_000.0  # rows until a row counts half
_ROUNDS = 1  # power iterations
_SPARE = 8  # directions that are found but not kept
_KEY = 0x5CA77E2


@dataclass(frozen=True, eq=False)
class Sketch:
    """A factor F of the faded scatter of the rows: F F^T approximates it.

    The first `rank` columns are directions, longest first; rows that arrived later follow, until
    there are as many of them, and all are compressed to `rank` directions.
    """

    factor: Array  # (D, C)
    rank: int

    def updated(self, Z: Array, weight: Array) -> Sketch:
        """Return the sketch after rows Z (N, D) about the origin."""
        keep = 0.5 ** (float(weight.sum()) / _HALF_LIFE)
        rows = (Z * np.sqrt(weight)[:, None]).T
        grown = Sketch(np.concatenate([np.sqrt(keep) * self.factor, rows], axis=1), self.rank)
        return grown.compressed() if grown.factor.shape[1] >= 2 * self.rank else grown

    def compressed(self) -> Sketch:
        """Return the best sketch of `rank` columns, found by randomised power iteration."""
        factor = self.factor
        block = _normals(factor.shape[1], self.rank + _SPARE)
        for _ in range(_ROUNDS + 1):
            span = np.linalg.qr(factor @ block)[0]
            block = factor.T @ span
        squares, left = np.linalg.eigh(block.T @ block)  # the shortest first
        lengths = np.sqrt(np.maximum(squares[::-1], 0.0))
        found = (span @ left[:, ::-1])[:, : self.rank] * lengths[: self.rank]
        missing = self.rank - found.shape[1]
        return Sketch(np.pad(found, ((0, 0), (0, missing))), self.rank)

    def basis(self, n: int) -> Array:  # (D, n)
        """Return orthonormal leading directions; arbitrary ones where the rows show too few."""
        return np.asarray(np.linalg.qr(self.factor[:, :n])[0])

    def captured(self, basis: Array) -> float:
        """Return how much of the scatter lies in the span of a basis."""
        return float(np.square(basis.T @ self.factor).sum())


@lru_cache(maxsize=4)
def _normals(n_columns: int, n: int) -> Array:  # (n_columns, n)
    """Return the random block that an iteration begins with; it depends on its shape alone."""
    return REFERENCE.normals(_KEY, np.arange(n_columns), 0, n)


def aligned(basis: Array, old: Array) -> Array:  # (D, q)
    """Rotate a basis within its span so that it is as near to an old one as can be."""
    left, _, right = np.linalg.svd(basis.T @ old)
    return np.asarray(basis @ (left @ right))
