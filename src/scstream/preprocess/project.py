"""Dimension reduction: random projection and principal components."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from scstream.compute.threads import one_blas_thread
from scstream.core.rng import key_for
from scstream.errors import InputError
from scstream.families.base import Array
from scstream.kernels import REFERENCE
from scstream.preprocess.base import Names, Step, check_option, is_whole, reject_missing
from scstream.preprocess.block import Block

KINDS = ("gaussian", "signs")
MAX_COLUMNS = 1000  # of `pca`: its cost grows with the cube of the number of columns
_GRID = 2.0**20
_NO_BATCH = -1  # never the number of a batch, so the model's own random numbers are different ones


@dataclass(frozen=True, eq=False)
class RandomProjection(Step):
    """Replace the columns by n random linear combinations; distances are roughly preserved.

    The projection depends on the seed only, on every machine; nothing is fitted.

    Parameters
    ----------
    n : int
        Number of output columns.
    seed : int
        Seed of the projection.
    kind : {"gaussian", "signs"}
        Distribution of the coefficients. "signs" uses a sparse matrix of -1, 0 and 1 with about
        the square root of D entries per output column, which is faster if D is large.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.project import RandomProjection
    >>> _, block = RandomProjection(n=2, seed=1).apply(Block.of(np.eye(5)), time=None)
    >>> block.X.shape
    (5, 2)
    """

    n: int = 0
    seed: int = 0
    kind: str = "gaussian"

    name: ClassVar[str] = "random_projection"

    def __post_init__(self) -> None:
        check_option(self, is_whole(self.n, 1), "n", "a whole number from 1")
        check_option(self, is_whole(self.seed, 0), "seed", "a whole number from 0")
        check_option(self, self.kind in KINDS, "kind", "'gaussian' or 'signs'")

    def apply(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Return the block with projected columns, dense."""
        block = reject_missing(block, self.name)
        projection = projection_matrix(block.X.shape[1], self.n, self.seed, self.kind)
        with one_blas_thread:
            X = block.X @ projection
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return self, replace(block, X=np.ascontiguousarray(X))

    def feature_names(self, names: Names) -> Names:
        """Return None: a random combination has no meaningful name."""
        return None


@lru_cache(maxsize=8)
def projection_matrix(n_columns: int, n: int, seed: int, kind: str) -> Any:  # (D, n)
    """Return random directions, one per output column, that preserve the mean squared length."""
    key = key_for(seed, batch=_NO_BATCH, sweep=0, purpose="sample")
    column = np.arange(n_columns)
    if kind == "gaussian":
        # Rounded, because the last bits of normals differ between mathematical libraries.
        matrix = np.round(REFERENCE.normals(key, column, 0, n) * _GRID) / _GRID / np.sqrt(n)
        matrix.setflags(write=False)
        return matrix
    density = 1.0 / np.sqrt(n_columns)
    output = np.tile(np.arange(n), n_columns)
    pairs = REFERENCE.uniforms(key, np.repeat(column, n), output).reshape(n_columns, n, 2)
    signs = np.where(pairs[..., 0] < density, np.where(pairs[..., 1] < 0.5, -1.0, 1.0), 0.0)
    return sparse.csr_array(signs / np.sqrt(density * n))


@dataclass(frozen=True, eq=False)
class Pca(Step):
    """Replace the columns by the first n principal components of the first batch.

    The largest entry of each axis is positive, so that every run finds the same axes.

    Parameters
    ----------
    n : int
        Number of output columns.
    whiten : bool
        Whether to scale them to variance one.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.project import Pca
    >>> rows = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
    >>> step, block = Pca(n=1).apply(Block.of(rows), time=None)
    >>> block.X.ravel()
    array([-2.,  0.,  2.])
    """

    n: int = 0
    whiten: bool = False

    name: ClassVar[str] = "pca"

    def __post_init__(self) -> None:
        check_option(self, is_whole(self.n, 1), "n", "a whole number from 1")
        check_option(self, isinstance(self.whiten, bool), "whiten", "true or false")

    def apply(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Fit the axes to the first block; return the block projected on them, dense."""
        block = reject_missing(block, self.name)
        if not len(block.row):
            return self, block
        if self.learned is None:
            self._check_sizes(*block.X.shape)
        else:
            self.check_width(block.X, len(self.learned["mean"]))
        X = block.X.toarray() if sparse.issparse(block.X) else block.X
        fitted = self.learned or principal_axes(X, self.n, whiten=self.whiten)
        with one_blas_thread:
            projected = (X - fitted["mean"]) @ fitted["axes"]
        return replace(self, learned=fitted), replace(block, X=np.ascontiguousarray(projected))

    def feature_names(self, names: Names) -> Names:
        """Return pca0, pca1, ...; pca0 has the largest variance."""
        return tuple(f"pca{i}" for i in range(self.n))

    def _check_sizes(self, n_rows: int, n_columns: int) -> None:
        if not self.n <= n_columns <= MAX_COLUMNS:
            raise InputError(
                f"pca cannot make {self.n} columns of {n_columns}: n must be at most the number of "
                f"input columns, and there may be at most {MAX_COLUMNS:,} of them; choose another "
                "n, or put random_projection before pca."
            )
        if n_rows <= self.n:
            raise InputError(
                f"pca fits {self.n} axes to the first batch, which has only {n_rows} valid rows; "
                "make the first batch larger (batch.first)."
            )


def principal_axes(X: Array, n: int, *, whiten: bool = False) -> dict[str, Array]:
    """Return the mean (D,) and the first n principal axes (D, n)."""
    mean = X.mean(axis=0)
    centred = X - mean
    with one_blas_thread:
        variance, axes = np.linalg.eigh(centred.T @ centred / (len(X) - 1))
    variance, axes = variance[::-1][:n], axes[:, ::-1][:, :n]
    axes = axes * _signs(axes)
    if whiten:
        # Axes along which the rows do not vary are not scaled.
        flat = variance <= len(axes) * np.finfo(np.float64).eps * variance[0]
        axes = axes / np.sqrt(np.where(flat, 1.0, variance))
    return {"mean": mean, "axes": np.ascontiguousarray(axes)}


def _signs(axes: Array) -> Array:  # (D, n) -> (n,)
    """Return the sign of the largest entry of each axis (the first, of equal ones)."""
    size = np.abs(axes)
    largest = (size >= (1.0 - 1e-9) * size.max(axis=0)).argmax(axis=0)
    return np.where(axes[largest, np.arange(axes.shape[1])] < 0, -1.0, 1.0)
