"""What distinguishes clusters: the features in which the rows of each differ from all other rows.

Statistics are a vector space: those of all other rows are the sum of the other clusters, and are
described by the same family. Features are ranked by the information, in nats per row, by which
their distribution in the cluster differs from that in the other rows.
Shapes: K clusters, P statistics, C candidates: features, or levels of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from scstream.families import (
    Bernoulli,
    Categorical,
    Direction,
    Family,
    Gaussian,
    Multinomial,
    Product,
)
from scstream.families.base import Array, Labels

Kind = Literal["number", "share", "level", "word"]
Levels: TypeAlias = "tuple[tuple[str, ...] | None, ...] | None"

_TINY = float(np.finfo(np.float64).tiny)
_CHUNK = 1 << 21  # entries of covariances that are held at a time


@dataclass(frozen=True)
class Trait:
    """A feature in which the rows of a cluster differ from all other rows.

    Parameters
    ----------
    feature : str
        Name of the feature.
    level : str or None
        The level, for a column of categories.
    kind : {"number", "share", "level", "word"}
        What `value` is: the mean of a number, the share of ones, the share of a level, or the
        share of a word, or of another thing that is counted, of all counts.
    value, others : float
        Its value in the cluster, and in all other rows.
    difference : float
        The difference in standard deviations, those of the cluster and of the others averaged.
    lift : float
        The value divided by that of the others; NaN for a number.
    score : float
        By which features are ranked: nats per row.

    Examples
    --------
    >>> from scstream.io.traits import Trait
    >>> print(Trait("age", None, "number", 61.0, 40.0, 2.1, float("nan"), 2.2))
    age 61 (+2.1 sd)
    >>> print(Trait("colour", "red", "level", 0.9, 0.1, 2.7, 9.0, 2.0))
    colour = red 90 % (others 10 %)
    """

    feature: str
    level: str | None
    kind: Kind
    value: float
    others: float
    difference: float
    lift: float
    score: float

    @property
    def label(self) -> str:
        """The feature, with its level."""
        return self.feature if self.level is None else f"{self.feature} = {self.level}"

    @property
    def amount(self) -> str:
        """How much the cluster differs: by standard deviations, shares, or times as often."""
        if self.kind == "number":
            return f"{self.difference:+.1f} sd"
        if self.kind == "word":
            return f"{self.lift:.2g} times" if self.lift < 1000 else "1000 times and more"
        return f"others {self.number(self.others)}"

    def number(self, value: float) -> str:
        """Return a value of this feature as it is printed."""
        if self.kind == "number":
            return f"{value:.4g}"
        return f"{100 * value:.1f} %" if value < 0.1 else f"{100 * value:.0f} %"

    def __str__(self) -> str:
        return f"{self.label} {self.number(self.value)} ({self.amount})"


@dataclass(frozen=True)
class _Candidates:
    """Features, or levels of features, and how far clusters differ in them."""

    kind: Kind
    feature: list[str]  # (C,)
    level: list[str | None]  # (C,)
    value: Array  # (K, C)
    others: Array  # (K, C)
    difference: Array  # (K, C)
    score: Array  # (K, C)

    def trait(self, k: int, c: int) -> Trait:
        """Return one entry."""
        value, others = float(self.value[k, c]), float(self.others[k, c])
        lift = np.nan if self.kind == "number" else value / max(others, _TINY)
        rest = float(self.difference[k, c]), float(lift), float(self.score[k, c])
        return Trait(self.feature[c], self.level[c], self.kind, value, others, *rest)


def traits(
    family: Family,
    stats: Array,
    features: Sequence[str],
    *,
    n: int,
    levels: Levels = None,
    shown: Labels | None = None,
) -> list[tuple[Trait, ...]]:
    """Return the n features that distinguish each cluster most, the first one most.

    `shown` are the clusters to describe, by position; each is compared with all others. A single
    cluster has none.
    """
    shown = np.arange(len(stats)) if shown is None else shown
    if len(stats) < 2:
        return [()] * len(shown)
    blocks = list(_candidates(family, stats[shown], _others(stats)[shown], features, levels))
    if not blocks:
        return [()] * len(shown)
    score = np.concatenate([block.score for block in blocks], axis=1)
    score = np.where(np.isfinite(score), score, 0.0)
    order = np.argsort(-score, axis=1, kind="stable")[:, :n]
    starts = np.cumsum([0, *(block.score.shape[1] for block in blocks)])
    out = []
    for k, places in enumerate(order):
        own = []
        for place in places[score[k, places] > 0].tolist():
            which = int(np.searchsorted(starts, place, side="right")) - 1
            own.append(blocks[which].trait(k, place - int(starts[which])))
        out.append(tuple(own))
    return out


def _others(stats: Array) -> Array:  # (K, P) -> (K, P)
    """Sum the statistics of all other clusters, without differences that lose digits."""
    before, after = np.zeros_like(stats), np.zeros_like(stats)
    np.cumsum(stats[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumsum(stats[:0:-1], axis=0)[::-1]
    return before + after


def _candidates(
    family: Family, own: Array, others: Array, features: Sequence[str], levels: Levels
) -> Iterator[_Candidates]:
    names = list(features)
    none: list[str | None] = [None] * len(names)
    match family:
        case Product():
            yield from _of_parts(family, own, others, features, levels)
        case Categorical():
            pairs = list(_level_names(family, names, levels))
            here, there = family.probabilities(own), family.probabilities(others)
            score = here * np.log(here / there)
            difference = _standardised(here, there)
            labels: list[str | None] = [level for _, level in pairs]
            feature = [name for name, _ in pairs]
            yield _Candidates("level", feature, labels, here, there, difference, score)
        case Bernoulli():
            here, there = family.means(own), family.means(others)
            score = here * np.log(here / there)
            score += (1.0 - here) * np.log((1.0 - here) / (1.0 - there))
            difference = _standardised(here, there)
            yield _Candidates("share", names, none, here, there, difference, score)
        case Multinomial():
            here, there = family.means(own), family.means(others)
            draws = np.maximum(own[:, 1:].sum(axis=1) / np.maximum(own[:, 0], _TINY), 1.0)
            score = draws[:, None] * here * np.log(here / there)
            difference = _standardised(here, there)
            yield _Candidates("word", names, none, here, there, difference, score)
        case _:
            here, there = family.means(own), family.means(others)
            spread = np.sqrt(0.5 * (_stds(family, own) ** 2 + _stds(family, others) ** 2))
            difference = (here - there) / np.maximum(spread, _TINY)
            yield _Candidates("number", names, none, here, there, difference, 0.5 * difference**2)


def _of_parts(
    family: Product, own: Array, others: Array, features: Sequence[str], levels: Levels
) -> Iterator[_Candidates]:
    start = 1
    for part, columns in family.parts:
        block = slice(start, start + part.n_stats)
        start += part.n_stats
        names = [features[column] for column in columns]
        known = None if levels is None else tuple(levels[column] for column in columns)
        yield from _candidates(part, own[:, block], others[:, block], names, known)


def _level_names(
    family: Categorical, features: Sequence[str], levels: Levels
) -> Iterator[tuple[str, str]]:
    for d, (feature, n_levels) in enumerate(zip(features, family.n_levels, strict=True)):
        known = (levels[d] if levels is not None else None) or ()
        for code in range(n_levels):
            yield feature, level_name(code, known)


def level_name(code: int, known: Sequence[str]) -> str:
    """Return the name of a level by its number; levels not seen in the first batch are others."""
    if not known:
        return str(code)
    return known[code] if code < len(known) else "(other)"


def _standardised(here: Array, there: Array) -> Array:  # (K, C)
    """Difference of shares in standard deviations."""
    variance = 0.5 * (here * (1.0 - here) + there * (1.0 - there))
    return np.asarray((here - there) / np.sqrt(np.maximum(variance, _TINY)))


def _stds(family: Family, stats: Array) -> Array:  # (K, D)
    """Standard deviations; of full covariances some clusters at a time."""
    if not isinstance(family, Gaussian):
        return family.stds(stats)
    step = max(1, _CHUNK // family.n_features**2)
    starts = range(0, max(len(stats), 1), step)
    return np.concatenate([family.stds(stats[start : start + step]) for start in starts])


def is_embedding(family: Family) -> bool:
    """Return True if columns say little by themselves, unless somebody named them."""
    return isinstance(family, Direction)
