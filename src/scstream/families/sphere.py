"""The von Mises-Fisher distribution on the unit sphere of D dimensions.

Its density with respect to the uniform distribution on the sphere is ``exp(kappa mu.x - A(kappa))``
with ``A(t) = log E exp(t u.x)`` for a uniform x and any unit vector u:

    A(t) = log Gamma(v + 1) + v log(2 / t) + log I_v(t),    v = D / 2 - 1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, ive, ndtr

from scstream.families.base import Array, Rows

LARGE_ORDER = 24.0  # from here on the expansion for large orders is used
_N_NODES = 257  # of the distribution function of the cosine
_N_STDS = 9.0  # how far the nodes reach
_MAX_COMPARED = 512  # rows whose nearest neighbours are looked for
_MIN_PAIRS = 20
_EQUAL = 1e-6  # rows with a cosine of one minus this are equal
_SMALL = 1e-12  # t^2 below which A(t) is its first term


def log_mgf(square: Array, n_features: int) -> Array:
    """Return A(t) by t^2: the log moment generating function of the uniform distribution."""
    order = 0.5 * n_features - 1.0
    if order < LARGE_ORDER:
        return _by_bessel_function(np.asarray(square), order)
    return _expansion(np.asarray(square), order) - _expansion(np.zeros(()), order)


def _expansion(square: Array, order: float) -> Array:
    """Debye's expansion for large orders (DLMF 10.41.3), without its constants.

    With r = sqrt(v^2 + t^2) and y = (v / r)^2 the leading terms are r - v log(v + r) - log(r) / 2.
    The logarithm of the sum of u_k is expanded up to 1 / r^3.
    """
    r = np.sqrt(square + order * order)
    w = 1.0 / r
    y = np.square(order * w)
    third = ((9945.0 - 5525.0 * y) * y - 4779.0) * y + 375.0
    second = (y - 1.0) * (5.0 * y - 1.0)
    out = w * (
        (w * (w * third * (1.0 / 5760.0) + second * (1.0 / 16.0))) + 0.125 - y * (5.0 / 24.0)
    )
    out += r
    out -= order * np.log(order + r)
    out -= 0.5 * np.log(r)
    return np.asarray(out)


def _by_bessel_function(square: Array, order: float) -> Array:
    """A(t) by the exponentially scaled Bessel function, which does not underflow here."""
    t = np.sqrt(np.maximum(square, _SMALL))
    log_bessel = np.log(ive(order, t)) + t
    exact = gammaln(order + 1.0) + order * (np.log(2.0) - np.log(t)) + log_bessel
    return np.asarray(np.where(square > _SMALL, exact, square / (4.0 * order + 4.0)))


def concentration(resultant: Array, n_features: int) -> Array:
    """Return the kappa whose mean resultant length is about this (Banerjee et al., 2005)."""
    square = np.square(resultant)
    return np.asarray(resultant * (n_features - square) / (1.0 - square))


def mean_cosine(kappa: Array, n_features: int) -> Array:
    """Return the mean resultant length A'(kappa), by a central difference."""
    step = 1e-4 * kappa
    high, low = (log_mgf(np.square(kappa + sign * step), n_features) for sign in (1.0, -1.0))
    return np.asarray((high - low) / (2.0 * step))


def unit_rows(X: Rows) -> Array:  # (N, D)
    """Return the rows scaled to unit length; rows of zeros stay."""
    X = np.asarray(X, dtype=np.float64)
    length = np.sqrt(np.einsum("nd,nd->n", X, X))
    return np.asarray(X / np.where(length > 0, length, 1.0)[:, None])


def effective_share(X: Rows) -> float | None:
    """Return the share of directions in which neighbouring rows differ; None for too few rows.

    One if differences between nearest neighbours point everywhere alike. Otherwise it is the
    participation ratio of their covariance over its largest value: the mean square cosine
    between two differences is one over the number of directions. Differences that share a row
    are not compared.
    """
    X = unit_rows(X[:: max(1, -(-X.shape[0] // _MAX_COMPARED))])
    cosine = X @ X.T
    cosine[cosine > 1.0 - _EQUAL] = -np.inf  # the row itself, and equal ones
    row = np.flatnonzero(np.isfinite(cosine).any(axis=1)) if len(X) else np.zeros(0, np.int64)
    if len(row) < _MIN_PAIRS:
        return None
    near = cosine[row].argmax(axis=1)
    difference = unit_rows(X[row] - X[near])
    apart = (near[:, None] != near) & (near[:, None] != row) & (row[:, None] != near)
    np.fill_diagonal(apart, False)
    if not apart.any():
        return None
    square = float(np.square(difference @ difference.T)[apart].mean())
    return min(1.0 / (square * (len(X[0]) - 1.0)), 1.0)


def sample_direction(mean: Array, kappa: Array, normals: Array) -> Array:  # (G, D)
    """Draw from von Mises-Fisher distributions by standard normals (G, D + 1).

    The first normal gives the cosine with the mean by inverting its distribution function, the
    others the direction of the rest. `mean` (G, D) are unit vectors, `kappa` (G,).
    """
    cosine = _cosine(kappa, ndtr(normals[:, 0]), mean.shape[1])[:, None]
    rest = normals[:, 1:]
    rest = rest - (rest * mean).sum(axis=1, keepdims=True) * mean
    length = np.maximum(np.sqrt(np.square(rest).sum(axis=1, keepdims=True)), np.finfo(float).tiny)
    return np.asarray(cosine * mean + np.sqrt(1.0 - np.square(cosine)) * rest / length)


def _cosine(kappa: Array, chance: Array, n_features: int) -> Array:  # (G,)
    """Invert the distribution function of the cosine w: exp(kappa w) (1 - w^2)^((D - 3) / 2).

    In the angle a, w = cos(a), the density is exp(kappa cos(a)) sin(a)^(D - 2), which is smooth
    and has one mode. It is integrated with nodes around the mode.
    """
    power = n_features - 2.0
    # Where the derivative of the log density is zero: power cos(a) = kappa sin(a)^2.
    total = power + np.sqrt(power * power + 4.0 * kappa * kappa)
    mode = np.arccos(2.0 * kappa / np.maximum(total, _SMALL))
    curvature = kappa * np.cos(mode) + power / np.maximum(np.square(np.sin(mode)), _SMALL)
    reach = _N_STDS / np.sqrt(np.maximum(curvature, 1.0))
    low = np.maximum(mode - reach, 0.0)
    high = np.minimum(mode + reach, np.pi)
    angle = low[:, None] + np.linspace(0.0, 1.0, _N_NODES) * (high - low)[:, None]
    log_density = kappa[:, None] * np.cos(angle)
    if power > 0:
        log_density += power * np.log(np.maximum(np.sin(angle), 1e-300))
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    total = np.cumsum(0.5 * (density[:, 1:] + density[:, :-1]), axis=1)
    total = np.concatenate([np.zeros((len(total), 1)), total], axis=1)
    wanted = chance * total[:, -1]
    node = np.minimum((total <= wanted[:, None]).sum(axis=1) - 1, _N_NODES - 2)
    group = np.arange(len(kappa))
    step = total[group, node + 1] - total[group, node]
    share = (wanted - total[group, node]) / np.maximum(step, np.finfo(float).tiny)
    return np.asarray(np.cos(angle[group, node] + share * (angle[group, 1] - angle[group, 0])))
