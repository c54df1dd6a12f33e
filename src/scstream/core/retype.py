"""Columns that turn out to be of another type than the first rows showed.

A binary column may get a third value, and a column of a full covariance a missing entry. The
statistics say enough to describe these columns by `Diagonal` from then on: the number of zeros and
ones determines the moments of a binary column, and the moments of a full covariance include those
of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scstream.core.adapt import map_stats
from scstream.core.state import State
from scstream.families.base import Array, Family
from scstream.families.bernoulli import Bernoulli
from scstream.families.diagonal import Diagonal
from scstream.families.gaussian import Gaussian
from scstream.families.product import Product

Columns = NDArray[np.int64]


class _Piece(NamedTuple):
    """A part of the new family, and its statistics from those of the old part."""

    family: Family
    columns: Columns
    convert: Callable[[Array], Array]


def retyped(family: Family, state: State, X: Array) -> tuple[Family, State]:
    """Return family and state for rows that the family cannot take; as they are if it can."""
    old = _parts(family)
    found = [list(_pieces(part, columns, X[:, columns])) for part, columns in old]
    if all(
        len(pieces) == 1 and pieces[0].family is part
        for pieces, (part, _) in zip(found, old, strict=True)
    ):
        return family, state
    pieces = [piece for each in found for piece in each]
    if len(pieces) == 1:
        return pieces[0].family, map_stats(state, pieces[0].convert)
    parts = tuple((piece.family, tuple(piece.columns.tolist())) for piece in pieces)
    new = Product(parts=parts, kernels=family.kernels)
    bounds = np.cumsum([0, *(part.n_stats for part, _ in old)])
    start = 1 if isinstance(family, Product) else 0

    def convert(stats: Array) -> Array:
        blocks = [stats[..., :1]]
        for i, each in enumerate(found):
            block = stats[..., start + bounds[i] : start + bounds[i + 1]]
            blocks += [piece.convert(block) for piece in each]
        return np.concatenate(blocks, axis=-1)

    return new, map_stats(state, convert)


def known_entries(family: Family, X: Array) -> Array:
    """Return rows in which values that a binary column cannot have are missing."""
    out = X
    for part, columns in _parts(family):
        if isinstance(part, Bernoulli):
            block = X[:, columns]
            wrong = ~_is_bit(block)
            if wrong.any():
                out = out.copy() if out is X else out
                out[:, columns] = np.where(wrong, np.nan, block)
    return out


def _parts(family: Family) -> list[tuple[Family, Columns]]:
    if isinstance(family, Product):
        return [(part, np.array(columns)) for part, columns in family.parts]
    return [(family, np.arange(family.n_features))]


def _is_bit(X: Array) -> NDArray[np.bool_]:
    return np.asarray((X == 0.0) | (X == 1.0) | np.isnan(X))


def _pieces(family: Family, columns: Columns, X: Array) -> Iterator[_Piece]:
    """Yield the parts that can take these rows in place of one that may not."""
    if isinstance(family, Gaussian) and np.isnan(X).any():
        yield _Piece(_marginal(family), columns, lambda stats: _marginal_stats(family, stats))
        return
    bits = np.asarray(_is_bit(X).all(axis=0))
    if bits.all() or not isinstance(family, Bernoulli):
        yield _Piece(family, columns, lambda stats: stats)
        return
    if bits.any():
        kept = replace(family, a=family.a[bits], b=family.b[bits])
        yield _Piece(kept, columns[bits], lambda stats: _some_columns(stats, bits))
    wide = Diagonal.weak_prior(X[:, ~bits]).with_kernels(family.kernels)
    yield _Piece(wide, columns[~bits], lambda stats: _moments(wide, _some_columns(stats, ~bits)))


def _marginal(family: Gaussian) -> Diagonal:
    """Return the prior of the single columns: Sigma_dd ~ IG of nu - D + 1 degrees of freedom."""
    nu = family.nu - family.n_features + 1.0
    return Diagonal(
        mean=family.mean,
        kappa=family.kappa,
        nu=nu,
        psi=family.nu * np.diag(family.psi) / nu,
        origin=family.origin,
        kernels=family.kernels,
    )


def _marginal_stats(family: Gaussian, stats: Array) -> Array:
    d = family.n_features
    i, j = np.triu_indices(d)
    count, second = stats[..., :1], stats[..., 1 + d :][..., i == j]
    present = np.repeat(count, d, axis=-1)
    return np.concatenate([count, present, stats[..., 1 : 1 + d], second], axis=-1)


def _some_columns(stats: Array, mask: NDArray[np.bool_]) -> Array:
    """Return the statistics of some columns of a `Bernoulli`."""
    return stats[..., np.concatenate([[True], mask, mask])]


def _moments(family: Diagonal, stats: Array) -> Array:
    """Return the moments of zeros and ones about the origin of `family`."""
    d = family.n_features
    ones, zeros = stats[..., 1 : 1 + d], stats[..., 1 + d :]
    origin = np.asarray(family.origin)
    first = ones * (1.0 - origin) - zeros * origin
    second = ones * (1.0 - origin) ** 2 + zeros * origin**2
    return np.concatenate([stats[..., :1], ones + zeros, first, second], axis=-1)
