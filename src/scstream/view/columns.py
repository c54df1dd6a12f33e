"""Rows and clusters of every family as numbers that can be drawn: points, centres, covariances.

Shapes: N rows, K clusters, P statistics, C columns that are drawn, A axes of a picture. Nothing
here costs more than O(K C^2), and that only where a family has full covariances.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from scstream.families import Bernoulli, Categorical, Gaussian, Multinomial, Product
from scstream.families.base import Array, Family, Rows

_CHUNK = 1 << 21  # entries of covariances that are held at a time
_TINY = float(np.finfo(np.float64).tiny)


class Columns:
    """What is drawn of a family: by default its features as they are, independent in a cluster."""

    common_unit = False  # whether all columns are measured in the same unit
    work = 1  # a covariance costs this many operations for every entry of a centre

    def __init__(self, family: Family) -> None:
        self.family = family

    def column_names(self, features: Sequence[str]) -> list[str]:  # (C,)
        """What the columns are called."""
        return list(features)

    def rows(self, X: Rows) -> Rows:  # (N, D) -> (N, C)
        """Rows as points, NaN where an entry is missing; sparse rows stay sparse."""
        return np.asarray(X, dtype=np.float64)

    def centres(self, stats: Array) -> Array:  # (K, P) -> (K, C)
        """Where the clusters are."""
        return self.family.means(stats)

    def stds(self, stats: Array) -> Array:  # (K, P) -> (K, C)
        """Standard deviation of a row of each cluster."""
        return self.family.stds(stats)

    def covariances(self, stats: Array, axes: Array) -> Array:  # (K, P), (C, A) -> (K, A, A)
        """Covariance of ``row @ axes`` within each cluster."""
        return _along(self.stds(stats) ** 2, axes)

    def unit(self, pooled: Array) -> Array:  # (C,) -> (C,)
        """What counts as one step in each column, given the spread within clusters."""
        if self.common_unit:
            pooled = np.full_like(pooled, np.sqrt(np.mean(pooled**2)))
        return np.asarray(np.maximum(pooled, _TINY**0.5))


class FullColumns(Columns):
    """Gaussians with covariances of their own."""

    def __init__(self, family: Gaussian) -> None:
        super().__init__(family)
        self.full = family
        self.work = family.n_features

    def covariances(self, stats: Array, axes: Array) -> Array:
        """Covariances, some clusters at a time: a matrix of each is made."""
        step = max(1, _CHUNK // self.full.n_features**2)
        parts = [np.zeros((0, axes.shape[1], axes.shape[1]))]
        for start in range(0, len(stats), step):
            parts.append(axes.T @ self.full.covariance(stats[start : start + step]) @ axes)
        return np.concatenate(parts)

    def stds(self, stats: Array) -> Array:
        """Standard deviations, some clusters at a time."""
        step = max(1, _CHUNK // self.full.n_features**2)
        starts = range(0, max(len(stats), 1), step)
        return np.concatenate([self.full.stds(stats[start : start + step]) for start in starts])


class ShareColumns(Columns):
    """Counts, as shares of the row: rows of few and of many draws are drawn alike."""

    common_unit = True

    def __init__(self, family: Multinomial) -> None:
        super().__init__(family)
        self.counts = family

    def rows(self, X: Rows) -> Rows:
        """Shares of every outcome in a row."""
        total = np.asarray(X.sum(axis=1), dtype=np.float64).ravel()
        each = 1.0 / np.where(total == 0, 1.0, total)
        if sparse.issparse(X):
            return sparse.diags_array(each) @ sparse.csr_array(X, dtype=np.float64)
        return np.asarray(X, dtype=np.float64) * each[:, None]

    def stds(self, stats: Array) -> Array:
        """Standard deviation of a share, for rows with as many draws as those of the cluster."""
        share = self.family.means(stats)
        return np.asarray(np.sqrt(share * (1.0 - share) / self._draws(stats)))

    def covariances(self, stats: Array, axes: Array) -> Array:
        """Covariances of shares, which sum to one: where one is larger, others are smaller."""
        share = self.family.means(stats)
        middle = share @ axes
        single = _along(share, axes) - middle[:, :, None] * middle[:, None, :]
        return np.asarray(single / self._draws(stats)[:, :, None])

    def _draws(self, stats: Array) -> Array:  # (K, 1)
        """Mean number of draws of a row."""
        drawn = self.counts.predictive_params(stats).sum(axis=1) - self.counts.concentration.sum()
        each = np.asarray(drawn / np.maximum(stats[:, 0], _TINY))
        return np.asarray(np.maximum(each, 1.0))[:, None]


class LevelColumns(Columns):
    """Categories: every level of a column is one, or zero."""

    common_unit = True

    def __init__(self, family: Categorical) -> None:
        super().__init__(family)
        self.n_levels = family.n_levels

    def column_names(self, features: Sequence[str]) -> list[str]:
        """Feature and level."""
        counted = zip(features, self.n_levels, strict=True)
        return [f"{feature} = {level}" for feature, n in counted for level in range(n)]

    def rows(self, X: Rows) -> Rows:
        """Indicators of levels."""
        return self.family.coordinates(X)

    def centres(self, stats: Array) -> Array:
        """Probabilities of levels."""
        return self.family.coordinates_of(stats)

    def stds(self, stats: Array) -> Array:
        """Standard deviations of indicators."""
        share = self.centres(stats)
        return np.asarray(np.sqrt(share * (1.0 - share)))

    def covariances(self, stats: Array, axes: Array) -> Array:
        """Covariances of indicators: within a column only one level is there."""
        share = self.centres(stats)
        starts = np.concatenate([[0], np.cumsum(self.n_levels)[:-1]])
        middle = np.add.reduceat(share[:, :, None] * axes, starts, axis=1)  # (K, D, A)
        return np.asarray(_along(share, axes) - np.einsum("kda,kdb->kab", middle, middle))


class UnitColumns(Columns):
    """Features that are all measured in the same unit."""

    common_unit = True


class JoinedColumns(Columns):
    """Columns of the parts of a product, which are independent in a cluster, side by side."""

    def __init__(self, family: Product) -> None:
        super().__init__(family)
        self.parts = [(columns_of(part), list(features)) for part, features in family.parts]
        self.work = max(part.work for part, _ in self.parts)
        ends = 1 + np.cumsum([part.family.n_stats for part, _ in self.parts])
        self._stats = [
            slice(end - part.family.n_stats, end)
            for end, (part, _) in zip(ends, self.parts, strict=True)
        ]
        sizes = [len(part.column_names([""] * len(features))) for part, features in self.parts]
        self._cuts = np.cumsum(sizes)[:-1]

    def column_names(self, features: Sequence[str]) -> list[str]:
        """Names of the columns of the parts."""
        return [
            name
            for part, own in self.parts
            for name in part.column_names([features[d] for d in own])
        ]

    def rows(self, X: Rows) -> Rows:
        """Rows of the parts, side by side."""
        X = np.asarray(X, dtype=np.float64)
        return np.concatenate([part.rows(X[:, own]) for part, own in self.parts], axis=1)

    def centres(self, stats: Array) -> Array:
        """Centres in the parts, side by side."""
        return self._joined("centres", stats)

    def stds(self, stats: Array) -> Array:
        """Spread in the parts, side by side."""
        return self._joined("stds", stats)

    def covariances(self, stats: Array, axes: Array) -> Array:
        """Sums of the covariances that the parts add."""
        pieces = zip(self.parts, self._stats, np.split(axes, self._cuts), strict=True)
        return np.asarray(
            sum(part.covariances(stats[:, own], piece) for (part, _), own, piece in pieces)
        )

    def unit(self, pooled: Array) -> Array:
        """Steps of the parts."""
        pieces = zip(self.parts, np.split(pooled, self._cuts), strict=True)
        return np.concatenate([part.unit(piece) for (part, _), piece in pieces])

    def _joined(self, method: str, stats: Array) -> Array:
        return np.concatenate(
            [
                getattr(part, method)(stats[:, own])
                for (part, _), own in zip(self.parts, self._stats, strict=True)
            ],
            axis=1,
        )


def columns_of(family: Family) -> Columns:
    """Choose how a family is drawn; one that is not known is drawn by its location and spread."""
    match family:
        case Gaussian():
            return FullColumns(family)
        case Multinomial():
            return ShareColumns(family)
        case Categorical():
            return LevelColumns(family)
        case Product():
            return JoinedColumns(family)
        case Bernoulli():
            return UnitColumns(family)
    return Columns(family)


def _along(variance: Array, axes: Array) -> Array:  # (K, C), (C, A) -> (K, A, A)
    """Covariance along the axes of columns that vary independently."""
    pairs = axes[:, :, None] * axes[:, None, :]  # (C, A, A)
    n_axes = axes.shape[1]
    return (variance @ pairs.reshape(len(axes), -1)).reshape(-1, n_axes, n_axes)
