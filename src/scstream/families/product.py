"""A product of families over groups of columns, for tables that mix kinds of columns.

Within a cluster the groups of columns are independent. Statistics, parameters and predictive tables
are those of the parts side by side, after the count of the whole. Each part keeps its own count, of
the rows that have its columns: a row without them has likelihood one there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scstream.errors import InputError
from scstream.families.base import (
    Array,
    Draws,
    Family,
    Hyperparameters,
    Labels,
    Rows,
    group_sums,
    unit_weight,
)
from scstream.families.bernoulli import Bernoulli
from scstream.families.categorical import Categorical
from scstream.families.columns import placed
from scstream.families.diagonal import Diagonal
from scstream.families.direction import Direction
from scstream.families.gaussian import Gaussian
from scstream.families.multinomial import Multinomial
from scstream.families.poisson import Poisson
from scstream.families.subspace import Subspace
from scstream.kernels import Kernels

Part: TypeAlias = tuple[Family, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Product(Family):
    """Clusters of mixed rows: each group of columns has a family of its own.

    A missing entry (NaN) is marginalised exactly. A family that cannot do so, such as `Gaussian`,
    accepts rows that miss its whole group of columns, but not rows that miss some of it.

    Parameters
    ----------
    parts : sequence of (family, columns)
        The families with the columns that each of them describes. Every column of the table belongs
        to one part. A part can also be written as `hyperparameters` writes it.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Bernoulli, Poisson, Product
    >>> family = Product([(Poisson(shape=1.0, rate=1.0), [0]), (Bernoulli(a=1.0, b=1.0), [1])])
    >>> stats = family.stats(np.array([[4.0, 1.0], [np.nan, 1.0]]), np.array([0, 0]), 1)
    >>> family.means(stats).round(3)
    array([[2.5 , 0.75]])
    """

    parts: tuple[Part, ...]

    name = "product"
    handles_missing = True

    def __post_init__(self) -> None:
        parts = tuple(_part(entry) for entry in self.parts)
        columns = [column for _, group in parts for column in group]
        if not columns or sorted(columns) != list(range(len(columns))):
            raise InputError(
                "the parts of a product must share out the columns 0, 1, 2, ... of the table, each "
                f"to one part; got {[list(group) for _, group in parts]}."
            )
        for family, group in parts:
            if family.n_features != len(group):
                raise InputError(
                    f"the {family.name} part describes {family.n_features} columns but was given "
                    f"{len(group)}: {list(group)}."
                )
        object.__setattr__(self, "parts", parts)

    @classmethod
    def from_spec(
        cls,
        X: Rows,
        spec: Sequence[tuple[str | type[Family] | Family, Sequence[int]]],
        *,
        weight: Array | None = None,
    ) -> Self:
        """Build the product with weak priors scaled to a first batch.

        Parameters
        ----------
        X : array of shape (N, D)
            The first batch.
        spec : sequence of (family, columns)
            Families, by name, class or instance, with the columns that each of them describes.
        weight : array of shape (N,), optional
            Weights of the rows.

        Returns
        -------
        Product
            The families of `spec`, with weak priors where they are not instances.

        Examples
        --------
        >>> import numpy as np
        >>> from scstream.families import Product
        >>> X = np.array([[1.5, 0.0], [2.5, 1.0]])
        >>> Product.from_spec(X, [("diagonal", [0]), ("bernoulli", [1])]).n_features
        2
        """
        X = np.asarray(X, dtype=np.float64)
        weight = unit_weight(X, weight)
        parts = []
        for kind, columns in spec:
            family = family_class(kind) if isinstance(kind, str) else kind
            rows = X[:, _columns_within(columns, X.shape[1])]
            keep = _kept(family, rows)
            if not isinstance(family, Family):
                family = family.weak_prior(rows[keep], weight[keep])
            parts.append((family, tuple(columns)))
        product = cls(parts=tuple(parts))
        if product.n_features != X.shape[1]:
            raise InputError(
                f"X has {X.shape[1]} columns but the parts describe only {product.n_features}; "
                "give every column to a part, or leave it out of X."
            )
        return product

    def with_kernels(self, kernels: Kernels) -> Self:
        parts = tuple((family.with_kernels(kernels), columns) for family, columns in self.parts)
        return replace(self, parts=parts, kernels=kernels)

    @property
    def n_features(self) -> int:
        return sum(len(columns) for _, columns in self.parts)

    @property
    def n_stats(self) -> int:
        return 1 + sum(family.n_stats for family, _ in self.parts)

    def stats(
        self, X: Rows, group: Labels, n_groups: int, weight: Array | None = None
    ) -> Array:  # (G, P)
        weight = unit_weight(X, weight)
        blocks = [group_sums(weight[:, None], group, n_groups)]
        for family, rows, keep in self._parts_of(X):
            blocks.append(family.stats(rows, group[keep], n_groups, weight[keep]))
        return np.concatenate(blocks, axis=1)

    def log_marginal(self, stats: Array) -> Array:  # (..., P) -> (...)
        total = np.zeros(stats.shape[:-1])
        for family, block in self._families_with(stats[..., 1:], self._stats_ends):
            total = total + family.log_marginal(block)
        return total

    def sample_posterior(self, stats: Array, draws: Draws) -> Array:  # (G, P) -> (G, Q)
        return self._joined("sample_posterior", stats, draws)

    def log_likelihood(self, params: Array, X: Rows) -> Array:  # (G, Q), (N, D) -> (N, G)
        return self._log_density("log_likelihood", params, self._params_ends, X)

    def predictive_params(self, stats: Array) -> Array:  # (G, P) -> (G, R)
        return self._joined("predictive_params", stats)

    def log_predictive(self, table: Array, X: Rows) -> Array:  # (G, R), (N, D) -> (N, G)
        return self._log_density("log_predictive", table, self._table_ends, X)

    def means(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        return self._joined("means", stats)[:, self._order]

    def stds(self, stats: Array) -> Array:  # (G, P) -> (G, D)
        return self._joined("stds", stats)[:, self._order]

    def log_overlap(self, stats: Array, first: Labels, second: Labels) -> Array:  # (M,)
        total = np.zeros(len(first))
        for family, block in self._families_with(stats[:, 1:], self._stats_ends):
            total += family.log_overlap(block, first, second)
        return total

    def bisect(self, stats: Array, along: Array) -> Array:  # (G, P), (G, P) -> (G, P)
        """Cut each group in the one part where the halves explain `along` best.

        The parts are independent within a cluster: whatever cuts one part leaves the others alike
        in both halves. To cut several parts at once would invent a correlation that no rows showed.
        """
        rows = self._families_with(stats[:, 1:], self._stats_ends)
        lines = self._families_with(along[:, 1:], self._stats_ends)
        blocks, gains = [], []
        for (family, block), (_, line) in zip(rows, lines, strict=True):
            half = line[:, :1] * family.bisect(line, line)
            gains.append(
                family.log_marginal(line / 2 + half)
                + family.log_marginal(line / 2 - half)
                - family.log_marginal(line)
            )
            # The core multiplies by the count of the whole, the part counts its own rows.
            share = block[:, :1] / np.maximum(stats[:, :1], np.finfo(float).tiny)
            blocks.append(family.bisect(block, line) * share)
        best = np.argmax(gains, axis=0)
        chosen = [block * (best == i)[:, None] for i, block in enumerate(blocks)]
        return np.concatenate([np.zeros((len(stats), 1)), *chosen], axis=1)

    def adapted(self, stats: Array, X: Rows, weight: Array | None = None) -> Self:
        weight = unit_weight(X, weight)
        blocks = self._families_with(stats[:, 1:], self._stats_ends)
        families = [
            family.adapted(block, rows, weight[keep])
            for (family, block), (_, rows, keep) in zip(blocks, self._parts_of(X), strict=True)
        ]
        return self._with_families(families)

    def transported(self, stats: Array, old: Self) -> Array:  # (..., P) -> (..., P)
        blocks = old._families_with(stats[..., 1:], old._stats_ends)
        moved = [
            family.transported(block, before)
            for (family, _), (before, block) in zip(self.parts, blocks, strict=True)
        ]
        return np.concatenate([stats[..., :1], *moved], axis=-1)

    def coordinates(self, X: Rows) -> Array:  # (N, D) -> (N, C)
        """Coordinates of the parts, each weighing as one column; the prior's where missing."""
        blocks = []
        for family, rows, keep in self._parts_of(X):
            block = family.coordinates_of(np.zeros((1, family.n_stats))).repeat(X.shape[0], axis=0)
            block[keep] = family.coordinates(rows)
            blocks.append(block / np.sqrt(family.n_features))
        return np.concatenate(blocks, axis=1)

    def coordinates_of(self, stats: Array) -> Array:  # (G, P) -> (G, C)
        blocks = [
            family.coordinates_of(block) / np.sqrt(family.n_features)
            for family, block in self._families_with(stats[:, 1:], self._stats_ends)
        ]
        return np.concatenate(blocks, axis=1)

    def log_base(self, X: Rows) -> Array:  # (N,)
        out = np.zeros(X.shape[0])
        for family, rows, keep in self._parts_of(X):
            out[keep] += family.log_base(rows)
        return out

    def check(self, X: Rows) -> None:
        super().check(X)
        X = np.asarray(X, dtype=np.float64)
        for family, columns in self.parts:
            rows = X[:, columns]
            keep = _kept(family, rows)
            place = f"columns {list(columns)} ({family.name})"
            if not family.handles_missing and np.isnan(rows[keep]).any():
                row = np.flatnonzero(keep)[np.isnan(rows[keep]).any(axis=1)][0]
                raise InputError(
                    f"row {row} misses some but not all of the {place}; fill them in, make all of "
                    "them NaN, or use a family that handles missing values, such as 'diagonal'."
                )
            try:
                family.check(rows[keep])
            except InputError as error:
                if error.column is None:
                    raise type(error)(f"in {place}: {error}") from error
                row = None if error.row is None else int(np.flatnonzero(keep)[error.row])
                placed(error, columns[error.column], row)
                raise

    def far_rows(self, X: Rows) -> NDArray[np.bool_]:  # (N,)
        far = np.zeros(X.shape[0], dtype=np.bool_)
        for family, rows, keep in self._parts_of(X):
            far[keep] |= family.far_rows(rows)
        return far

    def widened(self, X: Rows) -> Self:
        return self._with_families([family.widened(rows) for family, rows, _ in self._parts_of(X)])

    def _with_families(self, families: Sequence[Family]) -> Self:
        """Return the product with other families for its columns; itself if they are the same."""
        if all(new is old for new, (old, _) in zip(families, self.parts, strict=True)):
            return self
        columns = (columns for _, columns in self.parts)
        return replace(self, parts=tuple(zip(families, columns, strict=True)))

    @classmethod
    def weak_prior(cls, X: Rows, weight: Array | None = None) -> Self:
        raise InputError(
            "a product cannot guess which family describes which column; build it with "
            "Product.from_spec(X, [('diagonal', [0, 1]), ('categorical', [2])])."
        )

    def prior_grid(self, stats: Array) -> list[Self]:
        """Return one product: its evidence is a product, so the best parts make the best."""
        parts = []
        blocks = self._families_with(stats[:, 1:], self._stats_ends)
        for (family, block), (_, columns) in zip(blocks, self.parts, strict=True):
            present = block[block[:, 0] > 0]
            options = family.prior_grid(present) if len(present) else [family]
            evidence = [float(option.log_marginal(present).sum()) for option in options]
            parts.append((options[int(np.argmax(evidence))], columns))
        return [replace(self, parts=tuple(parts))]

    def hyperparameters(self) -> Hyperparameters:
        return {
            "parts": [
                {
                    "family": family.name,
                    "columns": list(columns),
                    "hyperparameters": family.hyperparameters(),
                }
                for family, columns in self.parts
            ]
        }

    @cached_property
    def _order(self) -> Labels:
        """Where each column of the table stands among the columns of the parts."""
        return np.argsort([column for _, group in self.parts for column in group])

    @cached_property
    def _stats_ends(self) -> Labels:
        return np.cumsum([family.n_stats for family, _ in self.parts])

    @cached_property
    def _params_ends(self) -> Labels:
        return np.cumsum(
            [_nothing(f, "sample_posterior", _NoDraws()).shape[1] for f, _ in self.parts]
        )

    @cached_property
    def _table_ends(self) -> Labels:
        return np.cumsum([_nothing(f, "predictive_params").shape[1] for f, _ in self.parts])

    def _families_with(self, blocks: Array, ends: Labels) -> Iterator[tuple[Family, Array]]:
        """Pair every part with its own columns of `blocks`."""
        start = 0
        for (family, _), end in zip(self.parts, ends, strict=True):
            yield family, blocks[..., start:end]
            start = end

    def _parts_of(self, X: Rows) -> Iterator[tuple[Family, Array, NDArray[np.bool_]]]:
        """Give every part the rows that have its columns, and which rows these are."""
        X = np.asarray(X, dtype=np.float64)
        for family, columns in self.parts:
            rows = X[:, columns]
            keep = _kept(family, rows)
            yield family, rows[keep], keep

    def _joined(self, method: str, stats: Array, *args: Any) -> Array:
        blocks = self._families_with(stats[:, 1:], self._stats_ends)
        return np.concatenate([getattr(f, method)(block, *args) for f, block in blocks], axis=1)

    def _log_density(self, method: str, table: Array, ends: Labels, X: Rows) -> Array:  # (N, G)
        out = np.zeros((X.shape[0], len(table)))
        blocks = self._families_with(table, ends)
        for (family, block), (_, rows, keep) in zip(blocks, self._parts_of(X), strict=True):
            out[keep] += getattr(family, method)(block, rows)
        return out


FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (
        Gaussian,
        Diagonal,
        Direction,
        Multinomial,
        Bernoulli,
        Categorical,
        Poisson,
        Product,
        Subspace,
    )
}


def family_class(name: str) -> type[Family]:
    """Look up a family by name; add a new one to `FAMILIES` to make it known here.

    Parameters
    ----------
    name : str
        Name of the family.

    Returns
    -------
    type
        The class of that name.

    Examples
    --------
    >>> from scstream.families import family_class
    >>> family_class("poisson").__name__
    'Poisson'
    """
    if name not in FAMILIES:
        raise InputError(f"no family is called {name!r}; there are {', '.join(sorted(FAMILIES))}.")
    return FAMILIES[name]


def family_from(name: str, hyperparameters: Mapping[str, Any]) -> Family:
    """Rebuild a family from its name and what `Family.hyperparameters` returned.

    Parameters
    ----------
    name : str
        Name of the family.
    hyperparameters : mapping
        Its hyperparameters; those of a product hold those of its parts.

    Returns
    -------
    Family
        An instance that behaves like the one described.

    Examples
    --------
    >>> from scstream.families import Poisson, family_from
    >>> family = Poisson(shape=2.0, rate=0.5)
    >>> family_from(family.name, family.hyperparameters()).rate
    array([0.5])
    """
    return family_class(name)(**hyperparameters)


class _NoDraws:
    """Stands for random numbers where only the shape of a draw is of interest."""

    def normal(self, n: int) -> Array:
        return np.zeros((1, n))

    def log_gamma(self, shape: Array) -> Array:
        return np.zeros(shape.shape)


def _nothing(family: Family, method: str, *args: Any) -> Array:
    """Result of a method for one empty group."""
    return np.asarray(getattr(family, method)(np.zeros((1, family.n_stats)), *args))


def _part(entry: Any) -> Part:
    if isinstance(entry, Mapping):
        entry = (family_from(entry["family"], entry["hyperparameters"]), entry["columns"])
    family, columns = entry
    return family, tuple(int(column) for column in columns)


def _columns_within(columns: Sequence[int], n_columns: int) -> list[int]:
    outside = [column for column in columns if not 0 <= column < n_columns]
    if outside:
        raise InputError(f"X has {n_columns} columns, so there is no column {outside[0]}.")
    return list(columns)


def _kept(family: Family | type[Family], rows: Array) -> NDArray[np.bool_]:  # (N,)
    """Rows that a part sees: all, or those that have its columns where it must have them."""
    if family.handles_missing:
        return np.ones(len(rows), dtype=np.bool_)
    return np.asarray(~np.isnan(rows).all(axis=1))
