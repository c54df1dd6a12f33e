"""Clusters over other columns: dropped ones are marginalised, added ones have only a prior.

The statistics of a group over some of the columns are a selection of its statistics over all of
them, for every family whose columns can be looked at one by one or in pairs. A column that no row
had adds statistics of zero: exactly what rows with a missing entry there add.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from scstream.core.adapt import map_stats
from scstream.core.state import State
from scstream.errors import InputError
from scstream.families.base import Array, Family, Labels
from scstream.families.bernoulli import Bernoulli
from scstream.families.categorical import Categorical
from scstream.families.diagonal import Diagonal
from scstream.families.gaussian import Gaussian
from scstream.families.poisson import Poisson
from scstream.families.product import Part, Product

ADDED = -1  # in place of the number of a column: no row had it


class Conversion(NamedTuple):
    """A family over other columns, and which old statistic each of its statistics is.

    The number of statistics itself, one beyond the last, is for a statistic that is zero.
    """

    family: Family
    selection: Labels  # (P,)


def change_columns(
    family: Family, state: State, columns: Labels, added: Sequence[Part] = ()
) -> tuple[Family, State]:
    """Return family and state over other columns; clusters keep their ids and weights.

    Parameters
    ----------
    family : Family
        The family of all clusters.
    state : State
        The clusters.
    columns : array of shape (D,)
        The number that each column has now, and `ADDED` for one that no row had.
    added : sequence of (family, columns)
        Families of the added columns, by their new numbers.

    Returns
    -------
    tuple of Family and State
        A family without a form over some of its columns raises `InputError`.
    """
    found = convert(family, columns, added)
    return found.family, _converted(state, found.selection, columns)


def convert(family: Family, columns: Labels, added: Sequence[Part] = ()) -> Conversion:
    """Return the family over other columns; see `change_columns`."""
    kept = marginal(family, columns[columns != ADDED])
    if not added:
        return kept
    if isinstance(kept.family, Diagonal) and all(isinstance(part, Diagonal) for part, _ in added):
        return _widened(kept, columns, added, zero=family.n_stats)
    places = np.flatnonzero(columns != ADDED)
    parts: list[Part] = [(kept.family, tuple(places.tolist()))]
    selection = [kept.selection[:1], kept.selection]
    if isinstance(kept.family, Product):  # its statistics have the count of the whole already
        parts = [(part, tuple(places[list(own)].tolist())) for part, own in kept.family.parts]
        selection = [kept.selection]
    selection += [_without_entries(part, zero=family.n_stats) for part, _ in added]
    product = Product(parts=(*parts, *added), kernels=family.kernels)
    return Conversion(product, np.concatenate(selection))


def _without_entries(part: Family, *, zero: int) -> Labels:  # (P,)
    """Return the selection for a part whose columns no row had.

    The count of a part that handles missing entries is of all rows.
    """
    selection = np.full(part.n_stats, zero)
    if part.handles_missing:
        selection[0] = 0
    return selection


def marginal(family: Family, columns: Labels) -> Conversion:
    """Return the family over some of its columns, in this order."""
    if type(family) not in _MARGINALS:
        known = ", ".join(sorted(kind.name for kind in _MARGINALS))
        raise InputError(
            f"the {family.name} family describes all columns together, so none can be dropped or "
            f"added; the families {known} allow it."
        )
    return _MARGINALS[type(family)](family, columns)


def _gaussian(family: Gaussian, columns: Labels) -> Conversion:
    """Sigma over d of D columns has D - d degrees of freedom less, and its own block of Psi."""
    n_all, n_kept = family.n_features, len(columns)
    nu = family.nu - (n_all - n_kept)
    psi = family.psi[np.ix_(columns, columns)] * (family.nu / nu)
    origin = np.asarray(family.origin)[columns]
    kept = replace(family, mean=family.mean[columns], nu=nu, psi=psi, origin=origin)
    place = np.zeros((n_all, n_all), dtype=np.int64)
    i, j = np.triu_indices(n_all)
    place[i, j] = place[j, i] = 1 + n_all + np.arange(len(i))
    i, j = np.triu_indices(n_kept)
    return Conversion(kept, np.concatenate([[0], 1 + columns, place[columns[i], columns[j]]]))


def _diagonal(family: Diagonal, columns: Labels) -> Conversion:
    names = ("mean", "kappa", "psi", "origin")
    values: dict[str, Any] = {name: getattr(family, name)[columns] for name in names}
    kept = replace(family, **values)
    return Conversion(kept, _select_columns(family, columns, n_each=3))


def _bernoulli(family: Bernoulli, columns: Labels) -> Conversion:
    kept = replace(family, a=family.a[columns], b=family.b[columns])
    return Conversion(kept, _select_columns(family, columns, n_each=2))


def _poisson(family: Poisson, columns: Labels) -> Conversion:
    kept = replace(family, shape=family.shape[columns], rate=family.rate[columns])
    return Conversion(kept, _select_columns(family, columns, n_each=2))


def _categorical(family: Categorical, columns: Labels) -> Conversion:
    ends = np.cumsum(family.n_levels)
    levels = [np.arange(ends[c] - family.n_levels[c], ends[c]) for c in columns]
    place = np.concatenate(levels)
    n_levels = tuple(family.n_levels[c] for c in columns)
    concentration = np.asarray(family.concentration)[place]
    kept = replace(family, n_levels=n_levels, concentration=concentration)
    return Conversion(kept, np.concatenate([[0], 1 + place]))


def _product(family: Product, columns: Labels) -> Conversion:
    """Take the marginal of every part; a part without columns is left out."""
    parts: list[Part] = []
    selection, start = [np.zeros(1, dtype=np.int64)], 1
    for part, own in family.parts:
        places = np.flatnonzero(np.isin(columns, own))
        if len(places):
            inner = np.array([own.index(c) for c in columns[places].tolist()])
            kept = marginal(part, inner)
            parts.append((kept.family, tuple(places.tolist())))
            selection.append(start + kept.selection)
        start += part.n_stats
    return Conversion(replace(family, parts=tuple(parts)), np.concatenate(selection))


_MARGINALS: Mapping[type[Family], Callable[[Any, Labels], Conversion]] = {
    Gaussian: _gaussian,
    Diagonal: _diagonal,
    Bernoulli: _bernoulli,
    Poisson: _poisson,
    Categorical: _categorical,
    Product: _product,
}


def _select_columns(family: Family, columns: Labels, *, n_each: int) -> Labels:
    """Return the places of a family with a count and some statistics of each column."""
    starts = 1 + family.n_features * np.arange(n_each)
    return np.concatenate([[0], *(start + columns for start in starts)])


def _widened(kept: Conversion, columns: Labels, added: Sequence[Part], *, zero: int) -> Conversion:
    """Return one `Diagonal` for kept and added columns: clusters of it can move."""
    new, places = [part for part, _ in added], [c for _, own in added for c in own]
    base: Any = kept.family
    names = ("mean", "kappa", "psi", "origin")
    values = {n: np.concatenate([getattr(each, n) for each in (base, *new)]) for n in names}
    blocks = np.split(kept.selection[1:], 3)
    none = np.full(len(places), zero)
    selection = np.concatenate(
        [kept.selection[:1], *(b for block in blocks for b in (block, none))]
    )
    order = np.argsort([*np.flatnonzero(columns != ADDED), *places])
    joined = _diagonal(replace(base, **values), order)
    return Conversion(joined.family, selection[joined.selection])


def _converted(state: State, selection: Labels, columns: Labels) -> State:
    """Return the state over other columns; what its evidence was about is gone."""
    undo = tuple(
        replace(each, before=_converted(each.before, selection, columns))
        for each in state.steering.undo
    )
    known = np.where(columns == ADDED, state.velocity.shape[1], columns)
    return map_stats(state, lambda stats: _padded(stats)[..., selection]).replace(
        velocity=_padded(state.velocity)[:, known],
        split_evidence=np.zeros_like(state.split_evidence),
        merge_pairs=state.merge_pairs[:0],
        merge_evidence=state.merge_evidence[:0],
        n_candidates=0,
        steering=replace(state.steering, undo=undo),
    )


def _padded(values: Array) -> Array:  # (..., C) -> (..., C + 1)
    """Return the values with zeros after the last column."""
    return np.concatenate([values, np.zeros((*values.shape[:-1], 1))], axis=-1)
