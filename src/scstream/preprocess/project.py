"""Fewer columns than came: random directions, or those of the largest variance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from scstream.compute.threads import one_blas_thread
from scstream.core.rng import key_for, normals, uniforms
from scstream.errors import InputError
from scstream.families.base import Array
from scstream.preprocess.base import Names, Step, is_whole, option, without_missing
from scstream.preprocess.block import Block

KINDS = ("gaussian", "signs")
MOST_COLUMNS = 1000  # of `pca`, whose work grows with their cube
_GRID = 2.0**20
_NO_BATCH = -1  # draws of no batch: the model, which may have the same seed, draws elsewhere


@dataclass(frozen=True, eq=False)
class RandomProjection(Step):
    """Replace the columns by n random mixtures of them; distances stay about what they were.

    The mixtures are a function of the seed alone, on every machine: nothing is learned.

    Parameters
    ----------
    n : int
        Number of columns that come out.
    seed : int
        Other seeds, other mixtures.
    kind : {"gaussian", "signs"}
        "signs" adds and subtracts few columns at a time, about the root of their number: faster
        where there are many.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.project import RandomProjection
    >>> _, block = RandomProjection(n=2, seed=1).take(Block.of(np.eye(5)), time=None)
    >>> block.X.shape
    (5, 2)
    """

    n: int = 0
    seed: int = 0
    kind: str = "gaussian"

    name: ClassVar[str] = "random_projection"

    def __post_init__(self) -> None:
        option(self, is_whole(self.n, 1), "n", "a whole number from 1")
        option(self, is_whole(self.seed, 0), "seed", "a whole number from 0")
        option(self, self.kind in KINDS, "kind", "'gaussian' or 'signs'")

    def take(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Return the block with mixed columns, dense."""
        block = without_missing(block, self.name)
        mixture = mixtures(block.X.shape[1], self.n, self.seed, self.kind)
        with one_blas_thread:
            X = block.X @ mixture
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return self, replace(block, X=np.ascontiguousarray(X))

    def feature_names(self, names: Names) -> Names:
        """Return None: a random mixture has no name that tells anything."""
        return None


@lru_cache(maxsize=8)
def mixtures(n_columns: int, n: int, seed: int, kind: str) -> Any:  # (D, n)
    """Return random directions of length one on average, one per column that comes out.

    Examples
    --------
    >>> from scstream.preprocess.project import mixtures
    >>> mixtures(3, 2, 7, "gaussian").shape, mixtures(100, 2, 7, "signs").nnz < 50
    ((3, 2), True)
    """
    key = key_for(seed, batch=_NO_BATCH, sweep=0, purpose="sample")
    column = np.arange(n_columns)
    if kind == "gaussian":
        # Rounded, so that the last bits of a machine's own mathematics do not matter.
        drawn = np.round(normals(key, column, 0, n) * _GRID) / _GRID / np.sqrt(n)
        drawn.setflags(write=False)
        return drawn
    density = 1.0 / np.sqrt(n_columns)
    lanes = np.tile(np.arange(n), n_columns)
    pairs = uniforms(key, np.repeat(column, n), lanes).reshape(n_columns, n, 2)
    signs = np.where(pairs[..., 0] < density, np.where(pairs[..., 1] < 0.5, -1.0, 1.0), 0.0)
    return sparse.csr_array(signs / np.sqrt(density * n))


@dataclass(frozen=True, eq=False)
class Pca(Step):
    """Replace the columns by the n directions of largest variance of the first batch.

    Each direction points to where its largest entry is positive, so that a second run finds the
    same ones.

    Parameters
    ----------
    n : int
        Number of columns that come out.
    whiten : bool
        Whether to scale them to variance one.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.project import Pca
    >>> rows = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
    >>> step, block = Pca(n=1).take(Block.of(rows), time=None)
    >>> block.X.ravel()
    array([-2.,  0.,  2.])
    """

    n: int = 0
    whiten: bool = False

    name: ClassVar[str] = "pca"

    def __post_init__(self) -> None:
        option(self, is_whole(self.n, 1), "n", "a whole number from 1")
        option(self, isinstance(self.whiten, bool), "whiten", "true or false")

    def take(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Learn the directions from the first block; return the block along them, dense."""
        block = without_missing(block, self.name)
        if not len(block.row):
            return self, block
        if self.learned is None:
            self._check_sizes(*block.X.shape)
        else:
            self.check_width(block.X, len(self.learned["mean"]))
        X = block.X.toarray() if sparse.issparse(block.X) else block.X
        known = self.learned or principal_axes(X, self.n, whiten=self.whiten)
        with one_blas_thread:
            along = (X - known["mean"]) @ known["axes"]
        return replace(self, learned=known), replace(block, X=np.ascontiguousarray(along))

    def feature_names(self, names: Names) -> Names:
        """Return the names of the directions, the one of the largest variance first."""
        return tuple(f"pca{i}" for i in range(self.n))

    def _check_sizes(self, n_rows: int, n_columns: int) -> None:
        if not self.n <= n_columns <= MOST_COLUMNS:
            raise InputError(
                f"pca cannot make {self.n} columns of {n_columns}: it makes at most as many as "
                f"come in, of at most {MOST_COLUMNS:,}; put random_projection before it, or "
                "choose another n."
            )
        if n_rows <= self.n:
            raise InputError(
                f"pca learns {self.n} directions from the first batch, which has only {n_rows} "
                "sound rows; make the first batch larger (batch.first)."
            )


def principal_axes(X: Array, n: int, *, whiten: bool = False) -> dict[str, Array]:
    """Return the mean (D,) and the axes (D, n): n directions of largest variance around it.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.project import principal_axes
    >>> found = principal_axes(np.array([[0.0, 3.0], [0.0, 5.0]]), 1)
    >>> found["mean"], found["axes"].ravel()
    (array([0., 4.]), array([0., 1.]))
    """
    mean = X.mean(axis=0)
    centred = X - mean
    with one_blas_thread:
        variance, axes = np.linalg.eigh(centred.T @ centred / (len(X) - 1))
    variance, axes = variance[::-1][:n], axes[:, ::-1][:, :n]
    axes = axes * _signs(axes)
    if whiten:
        # Where rows do not vary there is nothing to scale by.
        flat = variance <= len(axes) * np.finfo(np.float64).eps * variance[0]
        axes = axes / np.sqrt(np.where(flat, 1.0, variance))
    return {"mean": mean, "axes": np.ascontiguousarray(axes)}


def _signs(axes: Array) -> Array:  # (D, n) -> (n,)
    """Sign of the largest entry of each axis, the first where round-off alone tells them apart."""
    size = np.abs(axes)
    largest = (size >= (1.0 - 1e-9) * size.max(axis=0)).argmax(axis=0)
    return np.where(axes[largest, np.arange(axes.shape[1])] < 0, -1.0, 1.0)
