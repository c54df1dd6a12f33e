"""How much every feature adds to the log predictive density of a row.

Where features are independent within a cluster, each has a term of its own. Where they are not, the
terms are Shapley values: what a feature adds to the density given the features before it, averaged
over orders of the features. They are additive over clusters: the difference of the terms under two
clusters says which features speak for the one and which for the other.
Shapes: N rows, D features, R predictive entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from math import gcd
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from scstream.families.base import Array, Family, Labels, Rows
from scstream.families.bernoulli import Bernoulli
from scstream.families.categorical import Categorical
from scstream.families.columns import observed
from scstream.families.diagonal import Diagonal
from scstream.families.direction import Direction
from scstream.families.gaussian import Gaussian
from scstream.families.multinomial import Multinomial
from scstream.families.poisson import Poisson
from scstream.families.product import Product
from scstream.families.sphere import log_mgf, mean_cosine, unit_rows
from scstream.families.subspace import Subspace

_ALL_ORDERS = 4  # features up to which all orders are averaged over
_N_STARTS = 6  # orders of more features: starts,
_N_STRIDES = 3  # and strides, each in both directions
_FEW_ORDERS = 4  # where every entry costs one pass over all rows
_TINY = float(np.finfo(np.float64).tiny)
_LOG_PI = float(np.log(np.pi))


def feature_terms(family: Family, table: Array, X: Rows) -> Array:  # (1, R), (N, D) -> (N, D)
    """Return what every feature adds to the log predictive density under one group.

    The sum of a row is the log predictive density, up to a constant of the group for families of
    dependent features: the term of a row without features.
    """
    for kind, terms in _TERMS.items():
        if isinstance(family, kind):
            return np.asarray(terms(family, table, X))
    return _by_replacement(family, table, X)


def _of_diagonal(family: Diagonal, table: Array, X: Rows) -> Array:
    whiten, centre, constant, power = np.split(table[0], 4)
    present, centred = family._centred(X)
    return np.asarray(present * (constant - power * np.log1p((centred * whiten - centre) ** 2)))


def _of_bernoulli(family: Bernoulli, table: Array, X: Rows) -> Array:
    present, ones = observed(X)
    log_one, log_zero = np.split(table[0], 2)
    return np.asarray(ones * log_one + (present - ones) * log_zero)


def _of_categorical(family: Categorical, table: Array, X: Rows) -> Array:
    present, codes = observed(X)
    return np.asarray(present * table[0][family._starts + codes.astype(np.int64)])


def _of_poisson(family: Poisson, table: Array, X: Rows) -> Array:
    present, events = observed(X)
    shape, rate = np.split(table[0], 2)
    rising = gammaln(shape + events) - gammaln(shape)
    none = -shape * np.log1p(1.0 / rate)
    return np.asarray(present * none - events * np.log1p(rate) + rising)


def _of_multinomial(family: Multinomial, table: Array, X: Rows) -> Array:
    """The terms of words that a row has; the common normaliser is shared by count."""
    counts = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    concentration, total = table[0], float(table[0].sum())
    n_draws = counts.sum(axis=1, keepdims=True)
    common = gammaln(total + n_draws) - gammaln(total)
    own = np.where(counts > 0, gammaln(concentration + counts) - gammaln(concentration), 0.0)
    return np.asarray(own - counts / np.maximum(n_draws, _TINY) * common)


def _of_product(family: Product, table: Array, X: Rows) -> Array:
    out = np.zeros(X.shape)
    blocks = family._families_with(table, family._table_ends)
    parts = zip(blocks, family._parts_of(X), family.parts, strict=True)
    for (part, block), (_, rows, keep), (_, columns) in parts:
        out[np.ix_(np.flatnonzero(keep), np.array(columns))] = feature_terms(part, block, rows)
    return out


def _of_gaussian(family: Gaussian, table: Array, X: Rows) -> Array:
    """Shapley values of a Student-t density: marginals of it are Student-t, too."""
    d = family.n_features
    whiten, centre = _unpacked(table, d)
    scale_factor = solve_triangular(whiten, np.eye(d), lower=True)
    scale = scale_factor @ scale_factor.T
    centred = np.asarray(X, dtype=np.float64) - family._origin - scale_factor @ centre
    power = table[0, -1] - 0.5 * np.arange(d, -1, -1)  # of the first 0, 1, ..., D features
    steps = np.diff(gammaln(power)) - 0.5 * _LOG_PI
    out, n_orders = np.zeros(centred.shape), 0
    for order in _orders(d):
        factor = np.linalg.cholesky(scale[np.ix_(order, order)])
        white = solve_triangular(factor, centred[:, order].T, lower=True)  # (D, N)
        square = np.concatenate([np.zeros((1, white.shape[1])), np.cumsum(white**2, axis=0)])
        joint = power[:, None] * np.log1p(square)
        constants = steps - np.log(np.diag(factor))
        out[:, order] += (constants[:, None] - np.diff(joint, axis=0)).T
        n_orders += 1
    return np.asarray(out / n_orders)


def _of_subspace(family: Subspace, table: Array, X: Rows) -> Array:
    """Shares of the square distances inside and outside, weighted by the precision.

    Columns are no coordinates of the subspace, so that determinants belong to none of them.
    """
    d, q = family.n_features, family.n_inside
    inside, outside = table[:, : -d - 2], table[0, -d - 2 :]
    whiten, centre = _unpacked(inside, q)
    Z, Y, _ = family._split(X)
    white = Y @ whiten.T - centre
    square = np.maximum(np.einsum("nq,nq->n", white, white), _TINY)
    mean = family.basis @ solve_triangular(whiten, centre, lower=True) + outside[:-2]
    weight = inside[0, -1] * np.log1p(square) / square
    rest = Z - Y @ family.basis.T - outside[:-2]
    along = (white @ whiten) @ family.basis.T
    return np.asarray(-weight[:, None] * (Z - mean) * along - 0.5 * outside[-2] * rest**2)


def _of_direction(family: Direction, table: Array, X: Rows) -> Array:
    """Entries of a row times the gradient of the log density: exact for one concentration."""
    d, c = family.n_features, len(family.kappa)
    U, sums = unit_rows(X), table[0, :d]
    slope, log_term = np.empty((len(U), c)), np.empty((len(U), c))
    directions = np.empty((c, d))
    for index, scale in enumerate(family._scales):
        directions[index] = 2.0 * scale * (family.strength * family.centre + scale * sums)
        square = U @ directions[index] + scale * scale + table[0, d + index]
        length = np.sqrt(np.maximum(square, 1e-12))
        slope[:, index] = mean_cosine(length, d) / (2.0 * length)
        log_term[:, index] = log_mgf(np.maximum(square, 0.0), d) + table[0, d + c + index]
    share = np.exp(log_term - log_term.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    return np.asarray(U * ((share * slope) @ directions))


def _by_replacement(family: Family, table: Array, X: Rows) -> Array:
    """Shapley values of any family: features are unknown, or the prior mean, until they come."""
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    base = np.full(X.shape[1], np.nan)
    if not family.handles_missing:
        base = family.means(np.zeros((1, family.n_stats)))[0]
    orders = list(_orders(X.shape[1]))[:_FEW_ORDERS]
    out = np.zeros(X.shape)
    for order in orders:
        rows = np.tile(base, (len(X), 1))
        before = family.log_predictive(table, rows)[:, 0]
        for column in order:
            rows[:, column] = X[:, column]
            now = family.log_predictive(table, rows)[:, 0]
            out[:, column] += now - before
            before = now
    return np.asarray(out / len(orders))


def _unpacked(table: Array, d: int) -> tuple[Array, Array]:  # (D, D), (D,)
    """Return W and b of the density of ``|W x - b|^2``."""
    n_lower = d * (d + 1) // 2
    whiten = np.zeros((d, d))
    whiten[np.tril_indices(d)] = table[0, :n_lower]
    return whiten, table[0, n_lower : n_lower + d]


def _orders(d: int) -> Iterator[Labels]:
    """Yield orders of features to average over: all, or some in which each has every place.

    An order and its reverse come together: a feature then has every other one before it once.
    """
    if d <= _ALL_ORDERS:
        yield from (np.array(order) for order in permutations(range(d)))
        return
    strides = [stride for stride in range(1, d) if gcd(stride, d) == 1][:_N_STRIDES]
    for start in sorted({d * number // _N_STARTS for number in range(_N_STARTS)}):
        for stride in strides:
            order = (start + stride * np.arange(d)) % d
            yield order
            yield order[::-1]


_TERMS: dict[type[Family], Callable[[Any, Array, Rows], Array]] = {
    Diagonal: _of_diagonal,
    Bernoulli: _of_bernoulli,
    Categorical: _of_categorical,
    Poisson: _of_poisson,
    Multinomial: _of_multinomial,
    Product: _of_product,
    Gaussian: _of_gaussian,
    Subspace: _of_subspace,
    Direction: _of_direction,
}
