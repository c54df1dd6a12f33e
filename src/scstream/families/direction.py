"""Directions: von Mises-Fisher clusters of unit vectors, such as sentence embeddings.

Given its concentration kappa, a cluster has the mean direction mu ~ vMF(`centre`, `strength`), and
its rows are vMF(mu, kappa). The concentration takes one of a few values with the probabilities
`shares`. Both are integrated out. With A of `scstream.families.sphere`, the marginal likelihood of
n rows with the sum s is

    sum over kappa of share * exp(A(|strength * centre + kappa s|) - A(strength) - n A(kappa)),

so that the count and the sum are sufficient. Densities are with respect to the uniform distribution
on the sphere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import logsumexp, ndtr

from scstream.errors import InputError
from scstream.families.base import (
    Array,
    Draws,
    Family,
    Hyperparameters,
    Labels,
    Rows,
    unit_weight,
)
from scstream.families.sphere import concentration, log_mgf, sample_direction

_TINY = float(np.finfo(np.float64).tiny)
_RESULTANTS = np.sqrt([0.05, 0.1, 0.17, 0.25, 0.33, 0.42, 0.51, 0.6, 0.7, 0.8, 0.9, 0.96])
_PSEUDO_CLUSTERS = 3.0
_MAX_COSINE = 0.5


@dataclass(frozen=True, eq=False)
class Direction(Family):
    """Clusters of directions; rows are scaled to unit length.

    Parameters
    ----------
    centre : array of shape (D,)
        Unit vector around which the mean directions of clusters lie.
    strength : float
        Concentration of the mean directions around the centre; zero for anywhere on the sphere.
    kappa : array of shape (G,)
        Concentrations that a cluster may have, all positive.
    shares : array of shape (G,)
        Prior probabilities of these concentrations.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Direction
    >>> family = Direction(centre=np.array([1.0, 0.0]), strength=0.0, kappa=[5.0], shares=[1.0])
    >>> stats = family.stats(np.array([[3.0, 0.0], [0.0, 1.0]]), np.array([0, 0]), 1)
    >>> family.means(stats).round(3)
    array([[0.707, 0.707]])
    """

    centre: Array
    strength: float
    kappa: Array
    shares: Array

    name = "direction"

    def __post_init__(self) -> None:
        centre = np.atleast_1d(np.asarray(self.centre, dtype=np.float64))
        length = float(np.sqrt(np.square(centre).sum()))
        if centre.ndim != 1 or len(centre) < 2 or not (np.isfinite(length) and length > 0):
            raise InputError("centre must be a vector of at least two finite numbers, not all 0.")
        if not (np.isfinite(self.strength) and self.strength >= 0):
            raise InputError(f"strength must be zero or positive, got {self.strength}.")
        kappa, shares = (np.asarray(v, dtype=np.float64) for v in (self.kappa, self.shares))
        for name, value in (("kappa", kappa), ("shares", shares)):
            if value.ndim != 1 or not len(value) or not (np.isfinite(value) & (value > 0)).all():
                raise InputError(f"{name} must be a vector of positive numbers.")
        if kappa.shape != shares.shape or abs(shares.sum() - 1.0) > 1e-9:
            raise InputError("shares must have the length of kappa and sum to one.")
        for name, value in (("centre", centre), ("kappa", kappa), ("shares", shares)):
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        return len(self.centre)

    @property
    def n_stats(self) -> int:
        return 1 + self.n_features

    def stats(
        self, X: Rows, group: Labels, n_groups: int, weight: Array | None = None
    ) -> Array:  # (G, P)
        weight = unit_weight(X, weight)
        keep = np.flatnonzero(group >= 0)
        member = np.zeros((n_groups, len(keep)))
        member[group[keep], np.arange(len(keep))] = weight[keep]
        return np.column_stack([member.sum(axis=1), member @ _unit(X[keep])])

    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        along, square = stats[..., 1:] @ self.centre, np.square(stats[..., 1:]).sum(axis=-1)
        return self._log_marginal(stats[..., 0], along, square)

    def log_marginal_of_unions(self, stats: Array, first: Labels, second: Labels) -> Array:
        count, sums = stats[:, 0], stats[:, 1:]
        along = sums @ self.centre
        products = sums @ sums.T
        square = products[first, first] + products[second, second] + 2.0 * products[first, second]
        return self._log_marginal(
            count[first] + count[second], along[first] + along[second], square
        )

    def log_leave_one_out(
        self, X: Rows, weight: Array, group: Labels, stats: Array
    ) -> Array:  # (N,)
        X, count, sums = _unit(X), stats[:, 0], stats[:, 1:]
        along, square = sums @ self.centre, np.square(sums).sum(axis=1)
        with_row = np.einsum("nd,nd->n", X, sums[group])
        without = self._log_marginal(
            np.maximum(count[group] - weight, _TINY),
            along[group] - weight * (X @ self.centre),
            np.maximum(square[group] - 2.0 * weight * with_row + np.square(weight), 0.0),
        )
        return np.asarray(self._log_marginal(count, along, square)[group] - without)

    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, 1 + D)
        """Draw kappa, and mu given kappa; the parameters are -A(kappa) and kappa mu."""
        normals = draws.normal(self.n_features + 2)
        return self.parameters(stats, normals)

    def parameters(self, stats: Array, normals: Array) -> Array:  # (G, 1 + D)
        """Make a draw of standard normals (G, D + 2)."""
        log_terms = self._log_terms(stats)
        share = np.exp(log_terms - logsumexp(log_terms, axis=1, keepdims=True)).cumsum(axis=1)
        index = (share < (ndtr(normals[:, 0]) * share[:, -1])[:, None]).sum(axis=1)
        kappa = self.kappa[np.minimum(index, len(self.kappa) - 1)]
        natural = self.strength * self.centre + kappa[:, None] * stats[:, 1:]
        length = np.sqrt(np.square(natural).sum(axis=1))
        mean = np.where(
            length[:, None] > 0, natural / np.maximum(length, _TINY)[:, None], self.centre
        )
        mu = sample_direction(mean, length, normals[:, 1:])
        constant = -log_mgf(np.square(kappa), self.n_features)
        return np.concatenate([constant[:, None], kappa[:, None] * mu], axis=1)

    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, 1 + D), (N, D) -> (N, G)
        return np.asarray(_unit(X) @ params[:, 1:].T + params[:, 0])

    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, D + 2C)
        """The sum, and for each concentration |natural parameter|^2 and the log of its factor."""
        log_terms, square = self._log_terms(stats), self._squares(stats)
        constant = (
            log_terms
            - logsumexp(log_terms, axis=1, keepdims=True)
            - log_mgf(square, self.n_features)
            - self._log_constant
        )
        return np.concatenate([stats[:, 1:], square, constant], axis=1)

    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, D + 2C), (N, D) -> (N, G)
        """A row x adds 2 kappa (strength centre.x + kappa sum.x) + kappa^2 to the square."""
        d, c = self.n_features, len(self.kappa)
        X = _unit(X)
        with_sum, with_centre = X @ table[:, :d].T, self.strength * (X @ self.centre)[:, None]
        terms = np.empty((c, *with_sum.shape))
        for index, kappa in enumerate(self.kappa):
            square = with_sum * (2.0 * kappa * kappa)
            square += (2.0 * kappa) * with_centre + kappa * kappa
            square += table[:, d + index]
            terms[index] = log_mgf(np.maximum(square, 0.0, out=square), d)
            terms[index] += table[:, d + c + index]
        top = terms.max(axis=0)
        terms -= top
        return np.asarray(top + np.log(np.exp(terms, out=terms).sum(axis=0)))

    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        """Mean direction of each group; the centre for a group without rows."""
        total = stats[:, 1:] + _TINY * self.centre
        length = np.sqrt(np.square(total).sum(axis=1, keepdims=True))
        return np.where(length > 1e-150, total / np.maximum(length, 1e-150), self.centre)

    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        """Root mean square distance from the mean along one axis."""
        count = np.maximum(stats[:, :1], _TINY)
        square = np.square(stats[:, 1:] / count).sum(axis=1, keepdims=True)
        spread = np.sqrt(np.maximum(1.0 - square, 1e-12) / self.n_features)
        return np.broadcast_to(spread, (len(stats), self.n_features)).copy()

    def coordinates(self, X: Rows) -> Array:  # (N, D)
        return _unit(X)

    def check(self, X: Rows) -> None:
        super().check(X)
        zero = np.flatnonzero(~np.square(np.asarray(X, dtype=np.float64)).any(axis=1))
        if len(zero):
            raise InputError(
                f"row {zero[0]} is all zeros and has no direction; leave such rows out "
                "(an embedding of an empty text, for example)."
            )

    @classmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        """Expect clusters anywhere on the sphere, every concentration alike."""
        d = X.shape[1]
        centre = np.zeros(d)
        centre[0] = 1.0
        shares = np.full(len(_RESULTANTS), 1.0 / len(_RESULTANTS))
        return cls(centre=centre, strength=0.0, kappa=concentration(_RESULTANTS, d), shares=shares)

    def prior_grid(self, stats: Array) -> list[Self]:
        """Return the prior that these groups show."""
        return [self._learned(stats)]

    def adapted(self, stats: Array, X: Rows, weight: Array | None = None) -> Self:
        """Learn the shares of the concentrations, and where mean directions lie, from clusters."""
        return self._learned(stats)

    def hyperparameters(self) -> Hyperparameters:
        return {
            "centre": self.centre,
            "strength": float(self.strength),
            "kappa": self.kappa,
            "shares": self.shares,
        }

    @cached_property
    def _log_constant(self) -> Array:  # (C,)
        """A(kappa) of every concentration."""
        return log_mgf(np.square(self.kappa), self.n_features)

    def _squares(self, stats: Array) -> Array:  # (G, P) -> (G, C)
        along, square = stats[..., 1:] @ self.centre, np.square(stats[..., 1:]).sum(axis=-1)
        return self._natural_square(along, square)

    def _natural_square(self, along: Array, square: Array) -> Array:  # (...), (...) -> (..., C)
        """|strength centre + kappa s|^2 by centre.s and |s|^2."""
        mixed = 2.0 * self.strength * along[..., None] * self.kappa
        total = self.strength**2 + mixed + square[..., None] * np.square(self.kappa)
        return np.asarray(np.maximum(total, 0.0))

    def _log_terms(self, stats: Array) -> Array:  # (G, P) -> (G, C)
        """Log of the summands of the marginal likelihood."""
        along, square = stats[..., 1:] @ self.centre, np.square(stats[..., 1:]).sum(axis=-1)
        return self._terms(stats[..., 0], along, square)

    def _terms(self, count: Array, along: Array, square: Array) -> Array:  # (..., C)
        """Log of the summands of the marginal likelihood, by n, centre.s and |s|^2."""
        mgf = log_mgf(self._natural_square(along, square), self.n_features)
        prior = np.log(self.shares) - log_mgf(np.asarray(self.strength**2), self.n_features)
        return np.asarray(prior + mgf - count[..., None] * self._log_constant)

    def _log_marginal(self, count: Array, along: Array, square: Array) -> Array:
        return np.asarray(logsumexp(self._terms(count, along, square), axis=-1))

    def _learned(self, stats: Array) -> Self:
        """Empirical Bayes: shares and base measure from groups."""
        stats = stats[stats[:, 0] > 0]
        if not len(stats):
            return self
        log_terms = self._log_terms(stats)
        member = np.exp(log_terms - logsumexp(log_terms, axis=1, keepdims=True))
        even = _PSEUDO_CLUSTERS / len(self.kappa)
        shares = (member.sum(axis=0) + even) / (len(stats) + _PSEUDO_CLUSTERS)
        mean = self.means(stats)
        n, total = len(mean), mean.sum(axis=0)
        length = float(np.sqrt(total @ total))
        cosine = (length**2 - n) / max(n * (n - 1), 1)
        if n < 2 or cosine <= 0:
            return replace(self, shares=shares / shares.sum(), strength=0.0)
        resultant = np.sqrt(np.clip(cosine, 0.0, _MAX_COSINE))
        strength = float(concentration(resultant, self.n_features))
        return replace(self, centre=total / length, strength=strength, shares=shares / shares.sum())


def _unit(X: Rows) -> Array:  # (N, D)
    """Return the rows scaled to unit length."""
    X = np.asarray(X, dtype=np.float64)
    length = np.sqrt(np.einsum("nd,nd->n", X, X))
    return np.asarray(X / np.maximum(length, _TINY)[:, None])
